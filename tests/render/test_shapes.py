"""The shape matrix (rendering sheet 17), row by row: what the sheet lists, and the whole Pod against a reviewed
golden file."""

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.render import build

CASES: list[dict[str, Any]] = build.cases("shapes")
ALWAYS = {"VLLM_CACHE_ROOT", "SGLANG_CACHE_DIR"}
EVENTS = {
    "enable_kv_cache_events": True,
    "publisher": "zmq",
    "endpoint": "tcp://*:5557",
    "replay_endpoint": "tcp://*:5558",
    "buffer_steps": 10000,
    "hwm": 100000,
    "max_queue_size": 100000,
    "topic": "kv@",
}


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


def outcome(case: dict[str, Any]):
    kind = case["kind"]
    roles = [{"name": kind.lower(), "kind": kind}] if kind in ("Server", "Encode") or case.get("lone") else build.pair()
    spec: dict[str, Any] = {}
    if "router" in case:
        spec["router"] = {"name": case["router"]}
    bound: list[object] = [build.instance_type(manufacturer=case.get("manufacturer", "nvidia"))]
    if "cache" in case:
        spec["kvCache"] = {"poolRef": {"name": "cache"}}
        bound += build.store(protocol=case["cache"])
    return build.resolution(build.deployment(case["engine"], roles, **spec), bound)


RENDERED = [case for case in CASES if "failure" not in case["expect"]]
FAILING = [case for case in CASES if "failure" in case["expect"]]


@pytest.mark.parametrize("case", RENDERED, ids=lambda case: case["name"])
def test_a_role_carries_what_its_row_lists(case: dict[str, Any], golden: SnapshotAssertion) -> None:
    expect, resolved = case["expect"], outcome(case).resolved
    assert resolved is not None
    pod = build.render_replica(resolved, case["kind"].lower(), 0).members[0]
    main = build.main(pod)
    command: list[str] = main["command"]

    if isinstance(expect["transfer"], list):
        start, end = command.index("--enable-metrics") + 1, command.index("--host")
        assert command[start:end] == expect["transfer"]
    else:
        document = build.value_after(command, "--kv-transfer-config")
        assert (json.loads(document) if document else None) == expect["transfer"]
    events = build.value_after(command, "--kv-events-config")
    assert (json.loads(events) if events else None) == (EVENTS if expect.get("events") else None)
    assert [name for name in build.environment(pod) if name not in ALWAYS] == expect["env"]
    assert [port["containerPort"] for port in main["ports"][1:]] == expect["ports"]
    sidecars = {container["name"]: container for container in pod["spec"].get("initContainers", [])}
    assert sidecars.get("routing-proxy", {}).get("args") == expect.get("proxy")
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert ("gpustack-ascend-driver" in volumes) == bool(expect.get("driver"))
    assert ("sglang.ai/bootstrap-port" in pod["metadata"]["annotations"]) == bool(expect.get("bootstrap"))

    assert build.readable(pod) == golden


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case["name"])
def test_a_store_the_engine_cannot_reach_is_a_failure_that_names_the_way_out(case: dict[str, Any]) -> None:
    failed = outcome(case)
    assert failed.resolved is None
    for word in case["expect"]["failure"]:
        assert all(word in failure.message for failure in failed.failures)
    assert all(not failure.retryable for failure in failed.failures)


def test_the_store_client_configuration_stands_or_falls_as_one() -> None:
    """Annotation, volume, mount and variable appear together on the vLLM family and never on SGLang (4.3)."""
    for engine, expected in (("vLLM", True), ("SGLang", False)):
        pod = build.pod(build.deployment(engine, kvCache={"poolRef": {"name": "cache"}}), [*build.store()])
        parts = [
            "kvcache.gpustack.ai/client-config" in pod["metadata"]["annotations"],
            any(v["name"] == "gpustack-kvcache-config" for v in pod["spec"]["volumes"]),
            any(m["mountPath"] == "/etc/gpustack/kvcache" for m in build.main(pod)["volumeMounts"]),
            "MOONCAKE_CONFIG_PATH" in build.environment(pod),
        ]
        assert parts == [expected] * 4, engine


def test_the_store_client_configuration_holds_exactly_the_documented_keys() -> None:
    pod = build.pod(build.deployment(kvCache={"poolRef": {"name": "cache"}}), [*build.store()])
    assert json.loads(pod["metadata"]["annotations"]["kvcache.gpustack.ai/client-config"]) == {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": build.ENDPOINT,
        "protocol": "tcp",
        "device_name": "",
        "mode": "standalone-store",
        "global_segment_size": 0,
        "local_buffer_size": 134217728,
        "tenant_id": "team-a-shared",
    }
