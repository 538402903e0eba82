"""`pod-spec-hash` and the render-version floor (rollout sheet 2)."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.render import version
from gpustack_components.render.fingerprint import fingerprint, payload
from tests.render import build

Json = dict[str, Any]


def test_every_seat_has_a_hash_of_its_own() -> None:
    found = build.resolved(build.deployment(roles=[{"size": 2, "replicas": 3}, {"name": "other", "size": 2}]))
    seats = [(role, o, m) for role in ("server", "other") for o in range(3) for m in range(2)]
    assert len({fingerprint(found, *seat) for seat in seats}) == len(seats)


def test_pods_carry_the_hash_of_their_own_seat() -> None:
    found = build.resolved(build.deployment(roles=[{"size": 2}]))
    for member, pod in enumerate(build.render_replica(found, "server", 4).members):
        stamped = pod["metadata"]["annotations"]["modeldeployment.gpustack.ai/pod-spec-hash"]
        assert stamped == fingerprint(found, "server", 4, member)


def test_the_hash_is_sha256_over_the_canonical_payload() -> None:
    """Pins the bytes: an upgrade that changes them would roll every replica of every user."""
    import hashlib
    import json

    found = build.resolved(build.deployment(roles=[{"size": 2}]))
    text = json.dumps(payload(found, found.roles[0], 4, 1), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert fingerprint(found, "server", 4, 1) == hashlib.sha256(text.encode()).hexdigest()
    assert payload(found, found.roles[0], 4, 1) == {
        "declared": {
            "engine": {"image": "vllm/vllm-openai:v0.25.1", "name": "vLLM"},
            "model": {"name": "Qwen/Qwen2.5-72B-Instruct"},
            "role": {
                "instanceType": "h20-8x",
                "name": "server",
                "resources": {"accelerator": "2"},
                "size": 2,
            },
        },
        "resolved": {
            "cpu": "32",
            "entrance": "gpustack-fnv64-a5858ac7f29544c0",
            "ephemeralStorage": "15Gi",
            "manufacturer": "nvidia",
            "memory": "128Gi",
        },
        "seat": {"member": 1, "ordinal": 4},
    }


def test_an_ascend_degree_edit_rolls_both_halves() -> None:
    def hashes(prefill: list[str]) -> list[str]:
        roles = build.pair(prefill={"extraArgs": prefill})
        document = build.deployment(roles=roles, router={"name": "llm-d-router"})
        found = build.resolved(document, [build.instance_type(manufacturer="ascend")])
        return [fingerprint(found, role, 0, 0) for role in ("prefill", "decode")]

    before, wider, other = hashes([]), hashes(["-tp", "2"]), hashes(["--max-model-len=1"])
    assert before[0] != wider[0] and before[1] != wider[1]
    assert before[0] != other[0] and before[1] == other[1]


def test_a_degree_in_a_replaced_command_rolls_the_ascend_half_that_names_it() -> None:
    def hashes(command: list[str]) -> list[str]:
        roles = build.pair(prefill={"command": command})
        document = build.deployment(roles=roles, router={"name": "llm-d-router"})
        found = build.resolved(document, [build.instance_type(manufacturer="ascend")])
        return [fingerprint(found, role, 0, 0) for role in ("prefill", "decode")]

    before, wider, other = hashes(["serve"]), hashes(["serve", "-tp", "2"]), hashes(["serve", "--max-model-len=1"])
    assert before[0] != wider[0] and before[1] != wider[1]
    assert before[0] != other[0] and before[1] == other[1]


def test_a_native_degree_edit_rolls_its_own_role_only() -> None:
    def decode(prefill: list[str]) -> str:
        roles = build.pair(prefill={"extraArgs": prefill})
        return fingerprint(
            build.resolved(build.deployment(roles=roles, router={"name": "llm-d-router"})), "decode", 0, 0
        )

    assert decode([]) == decode(["-tp", "2"])


def test_a_store_that_is_away_for_a_while_moves_no_hash_and_no_pod() -> None:
    document = build.deployment(kvCache={"poolRef": {"name": "cache"}})
    connected = build.resolved(document, build.store())
    away = build.store(binding_status={"phase": "Degraded"})
    kept = build.resolved(document, away, remembered=connected.store)
    assert kept.connection.reason == "BindingNotReady"
    assert fingerprint(kept, "server", 0, 0) == fingerprint(connected, "server", 0, 0)
    assert build.render_replica(kept, "server", 0) == build.render_replica(connected, "server", 0)
    never = build.resolved(document, away)
    assert "--kv-transfer-config" not in build.main(build.render_replica(never, "server", 0).members[0])["command"]


def test_a_remembered_store_of_another_binding_is_not_used() -> None:
    connected = build.resolved(build.deployment(kvCache={"poolRef": {"name": "cache"}}), build.store())
    other = build.deployment(kvCache={"poolRef": {"name": "other"}})
    assert build.resolved(other, [], remembered=connected.store).store is None


@pytest.mark.parametrize(
    ("role", "inert"),
    [
        ({"startupTimeoutSeconds": 60}, {"startupTimeoutSeconds": 51}),
        ({"additionalVolumes": [{"mountPath": "/dev/shm", "configMap": {"name": "own"}}]}, {"shmSize": "1Gi"}),
        ({"extraArgs": ["--port=8000"]}, {"ports": [{"port": 8000, "name": "http"}]}),
    ],
    ids=str,
)
def test_a_value_that_nothing_reads_moves_no_hash(role: Json, inert: Json) -> None:
    def of(**change: Any) -> tuple[str, Json]:
        found = build.resolved(build.deployment(roles=[{**role, **change}]))
        return fingerprint(found, "server", 0, 0), build.render_replica(found, "server", 0).members[0]["spec"]

    assert of() == of(**inert)


@pytest.mark.parametrize("ports", [[{"port": 8000}], [{"port": 8000, "name": "http"}]], ids=str)
def test_a_declared_default_beside_another_port_of_the_engine_moves_the_hash(ports: list[Json]) -> None:
    def of(**change: Any) -> tuple[str, Json]:
        found = build.resolved(build.deployment(roles=[{"extraArgs": ["--port=9100"], **change}]))
        return fingerprint(found, "server", 0, 0), build.render_replica(found, "server", 0).members[0]["spec"]

    (before, pod), (after, other) = of(), of(ports=ports)
    assert before != after and pod != other


def test_inert_arguments_beside_a_command_move_no_hash() -> None:
    def of(role: Json) -> str:
        return fingerprint(build.resolved(build.deployment(roles=[role])), "server", 0, 0)

    assert of({"command": ["serve"]}) == of({"command": ["serve"], "extraArgs": ["--inert"]})


@pytest.mark.parametrize(
    ("current", "minimum", "annotation", "floor", "stamped", "rolled"),
    [
        (3, 1, None, 1, "1", False),
        (3, 2, None, 2, "1", True),
        (3, 1, "2", 2, "1", True),
        (3, 1, "2", 2, "2", False),
        (3, 1, "9", 3, "2", True),
        (3, 2, "0", 2, "2", False),
        (3, 1, "two", 1, "1", False),
        (3, 1, "-2", 1, "1", False),
        (3, 1, "9" * 19, 3, "2", True),
        (3, 1, "9" * 5000, 1, "1", False),
        (3, 1, None, 1, "9" * 5000, True),
        (3, 1, None, 1, None, True),
        (3, 1, None, 1, "latest", True),
    ],
)
def test_the_floor_decides_which_baselines_may_run_on(
    current: int, minimum: int, annotation: str | None, floor: int, stamped: str | None, rolled: bool
) -> None:
    assert version.floor(annotation, current=current, min_supported=minimum) == floor
    assert version.outdated(stamped, floor) is rolled


def test_the_annotation_of_the_deployment_asks_for_the_floor() -> None:
    key = "modeldeployment.gpustack.ai/min-render-version"
    assert build.resolved(build.deployment(annotations={key: "2"})).min_render_version == "2"
    assert build.resolved(build.deployment()).min_render_version is None


def additions(stated: Any, full: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every field that `full` states and `stated` does not, with its value."""
    if isinstance(full, dict) and isinstance(stated, dict):
        for key, value in full.items():
            if key in stated:
                yield from additions(stated[key], value, (*path, key))
            else:
                yield (*path, key), value
    elif isinstance(full, list) and isinstance(stated, list):
        for index, (one, other) in enumerate(zip(stated, full, strict=True)):
            yield from additions(one, other, (*path, index))


def test_a_default_that_is_stated_moves_no_hash() -> None:
    role = {
        "ports": [{"port": 9000}],
        "additionalVolumes": [{"mountPath": "/x", "configMap": {"name": "cm"}}],
        "topology": {},
        "imagePullSecrets": [{"name": "s"}],
    }
    document = build.deployment(
        roles=build.pair(**role), router={"name": "llm-d-router"}, kvCache={"poolRef": {"name": "cache"}}, kvTransfer={}
    )
    stated = document.model_dump(by_alias=True, mode="json", exclude_unset=True)
    full = document.model_dump(by_alias=True, mode="json", exclude_none=True)
    before = build.resolved(document, build.store())
    added = list(additions(stated, full))
    assert {path[-1] for path, _ in added} >= {"replicas", "size", "protocol", "privileged"}
    for path, value in added:
        changed = copy.deepcopy(stated)
        here: Any = changed
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = value
        after = build.resolved(ModelDeployment.model_validate(changed), build.store())
        for name in ("prefill", "decode"):
            assert fingerprint(after, name, 0, 0) == fingerprint(before, name, 0, 0), path
            assert build.render_replica(after, name, 0) == build.render_replica(before, name, 0), path
