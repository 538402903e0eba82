"""What holds for every deployment (issue-wide properties of rendering): purity, seats, uniqueness, names, hash
against Pod."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpustack_components.admission.review import review
from gpustack_components.api import names
from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.objects import render_all
from tests.render import build

Json = dict[str, Any]
PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?\Z")

quantities = st.sampled_from([None, 0, 1, "2", 2, "2000m", 4])
role_fields = st.fixed_dictionaries(
    {},
    optional={
        "size": st.sampled_from([1, 2, 3]),
        "replicas": st.sampled_from([1, 2]),
        "resources": st.fixed_dictionaries(
            {"accelerator": quantities},
            optional={
                "acceleratorSlicedMemoryPercentage": st.sampled_from([0, 25, 50]),
                "acceleratorSlicedCoresPercentage": st.sampled_from([0, 25, 50]),
            },
        ),
        "image": st.sampled_from(["", "own:1"]),
        "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent"]),
        "privileged": st.booleans(),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"port": st.sampled_from([8000, 8200, 9000, 65535])},
                optional={
                    "name": st.sampled_from(["http", "tcp-9000", "model-server", "kv-events", "X"]),
                    "protocol": st.sampled_from(["TCP", "UDP", "SCTP"]),
                },
            ),
            unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
            max_size=3,
        ),
        "additionalVolumes": st.lists(
            st.sampled_from(["/dev/shm", "/var/lib/gpustack/cache", "/etc/gpustack/kvcache", "/data"]), unique=True
        ).map(lambda paths: [{"mountPath": path, "configMap": {"name": "cm"}} for path in paths]),
        "shmSize": st.sampled_from(["16Gi", "16384Mi", "32Gi"]),
        "command": st.sampled_from([[], ["serve"], ["serve", "--port", "9100"]]),
        "extraArgs": st.lists(
            st.sampled_from(
                [
                    "--port=9100",
                    "--host=0.0.0.0",
                    "-tp=2",
                    "--ssl-certfile=c",
                    "--enable-hierarchical-cache",
                    "--x",
                    "--engram-config={}",
                ]
            ),
            max_size=3,
        ),
        "env": st.lists(
            st.sampled_from(
                ["MC_TE_METRIC", "MC_FORCE_TCP", "VLLM_CACHE_ROOT", "MOONCAKE_MASTER", "A", "VLLM_DP_SIZE"]
            ),
            unique=True,
        ).map(lambda found: [{"name": name, "value": "2"} for name in found]),
        "terminationGracePeriodSeconds": st.sampled_from([30, 45]),
        "startupTimeoutSeconds": st.sampled_from([1800, 1805]),
        "topology": st.sampled_from([{}, {"requiredLevel": ""}, {"requiredLevel": "zone"}]),
    },
)


@st.composite
def worlds(draw: st.DrawFn) -> ResolvedDeployment:
    """Any deployment that resolves, with what it depends on."""
    engine = draw(st.sampled_from(["vLLM", "SGLang"]))
    manufacturer = draw(st.sampled_from(["nvidia", "ascend", ""]))
    shape = draw(st.sampled_from(["server", "servers", "pair", "prefill", "decode"]))
    halves = {half: draw(role_fields) for half in ("prefill", "decode")}
    roles = {
        "server": [halves["prefill"]],
        "servers": [halves["prefill"], {**halves["decode"], "name": "other"}],
        "pair": build.pair(**halves),
        "prefill": build.pair(**halves)[:1],
        "decode": build.pair(**halves)[1:],
    }[shape]
    spec: Json = {}
    if draw(st.booleans()):
        routers = ["llm-d-router", "vllm-router" if engine == "vLLM" else "sglang-gateway"]
        spec["router"] = {"name": draw(st.sampled_from(routers))}
    if draw(st.booleans()):
        spec["kvTransfer"] = draw(st.sampled_from([{}, {"protocol": "TCP"}, {"protocol": "RDMA"}]))
    bound: list[object] = [build.instance_type(manufacturer=manufacturer)]
    if draw(st.booleans()):
        spec["kvCache"] = {"poolRef": {"name": "cache"}}
        groups = draw(st.sampled_from([(), ("CANN", "TCP"), ("RDMA",)]))
        bound += build.store(groups=groups, tenancy=draw(st.booleans()))
    if draw(st.booleans()):
        spec["model"] = {"artifactRef": {"name": "weights"}}
        sources: list[Json | None] = [None, {"persistentVolumeClaim": {"claimName": "pvc"}}]
        bound.append(build.artifact(draw(st.sampled_from(sources))))
    outcome = build.resolution(
        build.deployment(engine, roles, **spec),
        bound,
        runtime_classes=draw(st.sampled_from([(), ("nvidia",)])),
        kubernetes=draw(st.sampled_from([(1, 28), (1, 35)])),
    )
    assume(outcome.resolved is not None)
    assert outcome.resolved is not None
    return outcome.resolved


relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def again(found: ResolvedDeployment) -> ResolvedDeployment:
    """The same deployment under another identity, so that no template is shared."""
    return replace(found)


def unseated(pod: Json) -> Json:
    """The Pod without what names its seat (rendering sheet 1)."""
    out = json.loads(json.dumps(pod))
    out["metadata"].pop("name", None)
    for key in ("pod-group-name", "pod-ordinal", "member-index"):
        for label in [label for label in out["metadata"]["labels"] if label.endswith(f"/{key}")]:
            del out["metadata"]["labels"][label]
    del out["metadata"]["annotations"]["modeldeployment.gpustack.ai/pod-spec-hash"]
    for field in ("hostname", "subdomain"):
        out["spec"].pop(field, None)
    for entry in build.main(out).get("env", []):
        if entry["name"] == "GPUSTACK_REPLICA_LEADER_ADDRESS":
            entry["value"] = "leader"
    return out


@relaxed
@given(worlds())
def test_rendering_is_a_function_of_its_input(found: ResolvedDeployment) -> None:
    assert json.dumps(list(render_all(found))) == json.dumps(list(render_all(again(found))))


@relaxed
@given(worlds())
def test_seats_differ_in_nothing_but_the_seat(found: ResolvedDeployment) -> None:
    for role in found.roles:
        pods = [pod for ordinal in (0, 7, 1023) for pod in build.render_replica(found, role, ordinal).members]
        assert all(unseated(pod) == unseated(pods[0]) for pod in pods)
        assert len(pods) == 3 * role.size


@relaxed
@given(worlds())
def test_members_of_a_replica_share_all_of_their_spec_but_the_hostname(found: ResolvedDeployment) -> None:
    for role in found.roles:
        specs = [dict(pod["spec"]) for pod in build.render_replica(found, role, 0).members]
        hostnames = [spec.pop("hostname", None) for spec in specs]
        assert all(spec == specs[0] for spec in specs)
        assert len(set(hostnames)) == role.size


@relaxed
@given(worlds())
def test_nothing_in_a_pod_is_there_twice(found: ResolvedDeployment) -> None:
    for role in found.roles:
        pod = build.render_replica(found, role, 0).members[0]
        volumes = [volume["name"] for volume in pod["spec"].get("volumes", [])]
        assert len(volumes) == len(set(volumes))
        for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
            ports = container.get("ports", [])
            for unique in (
                [entry["name"] for entry in container.get("env", [])],
                [port["name"] for port in ports],
                [(port["containerPort"], port["protocol"]) for port in ports],
                [mount["mountPath"] for mount in container.get("volumeMounts", [])],
            ):
                assert len(unique) == len(set(unique)), unique
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes)
            assert all(PORT_NAME.match(port["name"]) and re.search("[a-z]", port["name"]) for port in ports)


@relaxed
@given(worlds())
def test_requests_never_exceed_limits_and_cards_equal_them(found: ResolvedDeployment) -> None:
    for role in found.roles:
        resources = build.main(build.render_replica(found, role, 0).members[0])["resources"]
        assert set(resources["limits"]) == set(resources["requests"])
        for key, limit in resources["limits"].items():
            assert Quantity(resources["requests"][key]) <= Quantity(limit)
            if "/" in key:
                assert resources["requests"][key] == limit


@relaxed
@given(worlds(), st.randoms(use_true_random=False))
def test_a_change_without_effect_on_the_hash_has_none_on_the_pod(found: ResolvedDeployment, random: Any) -> None:
    """The other half, that a change of the hash means a change of substance, is measured by test_edit_cost."""
    document = found.declared
    role = document.spec.roles[0]
    change = random.choice(
        [
            {"shm_size": Quantity("16384Mi")},
            {"termination_grace_period_seconds": 30},
            {"replicas": 9},
            {"extra_args": ("--inert",)},
            {"env": ()},
            {"ports": ()},
            {"command": ()},
            {"startup_timeout_seconds": 60},
            {"image": "own:2"},
            {"image_pull_policy": "Always"},
            {"privileged": True},
            {"additional_volumes": ()},
            {"topology": None},
            {"resources": None},
        ]
    )
    edited = document.model_copy(
        update={
            "spec": document.spec.model_copy(
                update={"roles": (role.model_copy(update=change), *document.spec.roles[1:])}
            )
        }
    )
    bound: list[object] = [build.instance_type(manufacturer=found.roles[0].manufacturer)]
    before, after = (build.resolution(d, bound).resolved for d in (document, edited))
    assume(before is not None and after is not None and not before.holds)
    assert before is not None and after is not None
    mine = build.render_replica(before, role.name, 0).members[0]
    theirs = build.render_replica(after, role.name, 0).members[0]
    key = "modeldeployment.gpustack.ai/pod-spec-hash"
    if mine["metadata"]["annotations"][key] == theirs["metadata"]["annotations"][key]:
        left, right = unseated(mine), unseated(theirs)
        for pod in (left, right):
            if build.main(pod)["command"][:1] == ["serve"] and role.command:
                pod["spec"].setdefault("terminationGracePeriodSeconds", 30)
        assert left == right


label = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
longest_label = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@relaxed
@given(label, label, st.integers(1, 1024), st.integers(1, 64))
def test_no_name_exceeds_its_limit_for_any_input_admission_lets_pass(
    name: str, role: str, replicas: int, size: int
) -> None:
    assume(names.is_dns_1035_label(names.role_service(name, role)))
    assume(size == 1 or names.is_dns_1123_label(names.longest_member_pod(name, role, replicas, size)))
    found = build.resolved(build.deployment(name=name, roles=[{"name": role, "replicas": replicas, "size": size}]))
    replica = build.render_replica(found, role, replicas - 1)
    for pod in replica.members:
        for field in (
            pod["metadata"].get("name", ""),
            pod["spec"].get("hostname", ""),
            pod["spec"].get("subdomain", ""),
        ):
            assert len(field) <= 63
        assert all(len(value) <= 63 for value in pod["metadata"]["labels"].values())
        assert len(pod["metadata"].get("generateName", "")) <= 63 + 1
    if replica.service is not None:
        assert names.is_dns_1035_label(replica.service["metadata"]["name"])


@settings(max_examples=60, deadline=None)
@given(longest_label, longest_label, st.sampled_from(["llm-d-router", "vllm-router"]), st.integers(1, 64))
def test_no_name_of_any_object_exceeds_its_limit_for_any_pair_that_admission_accepts(
    name: str, role: str, router: str, size: int
) -> None:
    half = {"size": size, "instanceType": "h20-8x", "resources": {"accelerator": 1}}
    document = build.deployment(
        name=name, roles=build.pair(prefill={"name": role, **half}, decode=half), router={"name": router}
    )
    verdict = review(document, bindings=Bindings.of([build.instance_type()], complete=True), settings=Settings())
    assume(verdict.accepted)
    found = build.resolved(document)
    for obj in render_all(found):
        called = obj["metadata"].get("name") or obj["metadata"]["generateName"] + "x" * 5
        service = obj["kind"] == "Service"
        assert names.is_dns_1035_label(called) if service else len(called) <= 253, called
        assert all(len(value) <= 63 for value in obj["metadata"].get("labels", {}).values())
        spec = obj.get("spec", {})
        for pod in (spec, spec.get("template", {}).get("spec", {})):
            for container in (*pod.get("containers", ()), *pod.get("initContainers", ())):
                assert names.is_dns_1123_label(container["name"])
                assert all(PORT_NAME.match(port["name"]) for port in container.get("ports", ()))
            assert all(names.is_dns_1123_label(volume["name"]) for volume in pod.get("volumes", ()))


def test_rendering_is_the_same_in_every_process() -> None:
    program = (
        "import json, sys; from tests.render import build;"
        "from gpustack_components.render.objects import render_all;"
        "document = build.deployment(roles=build.pair(size=2), kvCache={'poolRef': {'name': 'cache'}});"
        "print(json.dumps(list(render_all(build.resolved(document, build.store())))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(outputs) == 1
