"""`render --explain`: everything in a Pod is accounted for, with a rule and an input that exists."""

import re
from typing import Any

import pytest
from hypothesis import given, settings

from gpustack_components.api.encode import encode
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.explain import explain
from tests.render import build
from tests.render.test_properties import worlds
from tests.render.test_shapes import RENDERED, outcome

CASES = {case["name"]: case for case in RENDERED}


CONSTANT = {
    "constant (13)",
    "product label (14)",
    "Kueue group (14)",
    "render version (14)",
    "metrics scrape (14)",
    "probe (7)",
    "listen fill (3.1)",
    "port of the engine (3.5)",
    "shared memory (10)",
}
"""Rules that put something there whatever the input says."""


def account_for(resolved: ResolvedDeployment, role: str, ordinal: int = 0, member: int = 0) -> None:
    """Hold the explanation of one Pod to the Pod: everything, in order, with its rule and its input."""
    pod = build.render_replica(resolved, role, ordinal).members[member]
    main = build.main(pod)
    lines = explain(resolved, role, ordinal, member)

    def of(part: str) -> list[Any]:
        return [line for line in lines if line.part == part]

    assert " ".join(line.value for line in of("argument")) == " ".join(main["command"])
    assert [line.name for line in of("env")] == [entry["name"] for entry in main.get("env", [])]
    assert [line.name for line in of("port")] == [port["name"] for port in main["ports"]]
    assert [line.name for line in of("volume")] == [volume["name"] for volume in pod["spec"].get("volumes", [])]
    assert {line.name: line.value for line in of("limit")} == main["resources"]["limits"]
    assert {line.name: line.value for line in of("request")} == main["resources"]["requests"]
    assert {line.name: line.value for line in of("label")} == pod["metadata"]["labels"]
    assert {line.name: line.value for line in of("annotation")} == pod["metadata"]["annotations"]
    fields = {line.name.removeprefix("spec.") for line in of("field") if line.name.startswith("spec.")}
    assert fields | {"containers"} == set(pod["spec"]) - {"volumes", "initContainers"}
    fields = {line.name for line in of("container field")}
    assert fields | {"name", "command", "ports", "resources"} == set(main) - {"env", "volumeMounts"}
    beside = [one for one in pod["spec"]["containers"] if one is not main]
    for proxy in (*pod["spec"].get("initContainers", []), *beside):
        assert [(line.name, line.value) for line in of("container")] == [(proxy["name"], proxy["image"])]
        assert [line.value for line in of("sidecar argument")] == proxy["args"]
        assert [line.name for line in of("sidecar env")] == [entry["name"] for entry in proxy["env"]]
        assert [line.name for line in of("sidecar port")] == [port["name"] for port in proxy["ports"]]
        fields = {line.name for line in of("sidecar field")}
        assert fields | {"name", "image", "args", "env", "ports"} == set(proxy)
    assert all(re.search(r"\(.*\d.*\)$", line.rule) for line in lines), "every rule names its section"
    assert {line.rule for line in lines if not line.field} <= CONSTANT, "what is no constant names its input"


@pytest.mark.parametrize("name", CASES)
def test_everything_in_the_pod_is_explained_and_nothing_else(name: str) -> None:
    found = outcome(CASES[name]).resolved
    assert found is not None
    account_for(found, CASES[name]["kind"].lower())


@settings(max_examples=60, deadline=None)
@given(world=worlds())
def test_everything_in_any_pod_is_explained(world: ResolvedDeployment) -> None:
    for role in world.roles:
        account_for(world, role.name, role.replicas - 1, role.size - 1)


def test_the_input_named_is_one_that_exists() -> None:
    role = {
        "size": 2,
        "image": "own:1",
        "extraArgs": ["--x", "--y"],
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"port": 9000}],
        "additionalVolumes": [{"mountPath": "/x", "configMap": {"name": "cm"}}],
        "shmSize": "1Gi",
        "topology": {"requiredLevel": "zone"},
    }
    document = build.deployment(roles=[role], kvCache={"poolRef": {"name": "cache"}})
    raw = encode(document)
    known = {name.replace("_", "-") for name in Settings.__dataclass_fields__}
    for line in explain(build.resolved(document, build.store()), "server", 0, 1):
        if line.field.startswith("spec.roles[0]."):
            here: Any = raw["spec"]["roles"][0]
            for step in re.findall(r"[A-Za-z]+|\[\d+\]", line.field.removeprefix("spec.roles[0].")):
                optional = isinstance(here, dict) and step not in here
                if optional:
                    break
                here = here[int(step[1:-1])] if step.startswith("[") else here[step]
        elif line.field.startswith("setting "):
            assert line.field.removeprefix("setting ") in known


@pytest.mark.parametrize(
    ("engine", "role", "field"),
    [
        ("vLLM", {"extraArgs": ["--engram-config", "{}"]}, "extraArgs"),
        ("vLLM", {"command": ["serve", "--engram-config", "{}"]}, "command"),
        ("SGLang", {"env": [{"name": "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE", "value": "1"}]}, "env"),
        ("vLLM", {"privileged": True, "command": ["serve", "--engram-config", "{}"]}, "privileged"),
    ],
)
def test_a_privilege_is_traced_to_what_asked_for_it(engine: str, role: dict[str, Any], field: str) -> None:
    lines = explain(build.resolved(build.deployment(engine, [role])), "server")
    assert [line.field for line in lines if line.name == "securityContext"] == [f"spec.roles[0].{field}"]


@pytest.mark.parametrize(
    ("role", "field"),
    [
        ({}, ""),
        ({"extraArgs": ["--port", "9100"]}, "spec.roles[0].extraArgs"),
        ({"command": ["serve", "--port", "9100"]}, "spec.roles[0].command"),
        ({"ports": [{"port": 9000}]}, "spec.roles[0].ports[0]"),
    ],
)
def test_a_port_is_traced_to_what_opened_it(role: dict[str, Any], field: str) -> None:
    lines = explain(build.resolved(build.deployment(roles=[role])), "server")
    assert [line.field for line in lines if line.part == "port"] == [field]


def test_a_compile_cache_is_traced_to_what_names_the_weights() -> None:
    def field(document: Any, bound: list[object]) -> str:
        lines = explain(build.resolved(document, bound), "server")
        return next(line.field for line in lines if line.name == "gpustack-compile-cache")

    rest = ", spec.engine.image and spec.roles[0].extraArgs"
    assert field(build.deployment(), []) == f"spec.model.name{rest}"
    weights = build.deployment(model={"artifactRef": {"name": "weights"}})
    assert field(weights, [build.artifact()]) == f"spec.model.artifactRef{rest}"


def test_an_ascend_leg_is_traced_to_both_halves_degrees() -> None:
    roles = build.pair(decode={"command": ["serve"]})
    found = build.resolved(
        build.deployment(roles=roles, router={"name": "llm-d-router"}), [build.instance_type(manufacturer="ascend")]
    )
    transfer = next(line for line in explain(found, "prefill") if line.name == "--kv-transfer-config")
    assert transfer.field == "spec.router, spec.roles[0].extraArgs and spec.roles[1].command"


def test_a_document_is_traced_to_what_called_for_it() -> None:
    document = build.deployment(
        roles=build.pair(), router={"name": "llm-d-router"}, kvCache={"poolRef": {"name": "cache"}}
    )
    lines = explain(build.resolved(document, build.store()), "prefill")
    transfer = next(line for line in lines if line.name == "--kv-transfer-config")
    assert transfer.rule == "transfer connector (4.1)"
    assert transfer.field == "spec.router, spec.kvTransfer.protocol and spec.kvCache"
    port = next(line for line in lines if line.name == "--port")
    assert (port.value, port.rule) == ("--port 8000", "listen fill (3.1)")
