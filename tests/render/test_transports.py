"""What a transport protocol turns into, table by table (rendering sheets 1, 3.2, 12.2; bindings sheet 4)."""

import json
from typing import Any

import pytest

from gpustack_components.api.kv_cache import KVCacheBackend
from gpustack_components.bindings.transport import interface_key, offers, taken_offer
from tests.render import build

TABLES: dict[str, list[dict[str, Any]]] = build.cases("transports")


def text(case: dict[str, Any]) -> str:
    return json.dumps(case)


def pair_pods(engine: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    router = "llm-d-router"
    spec: dict[str, Any] = {"router": {"name": router}}
    bound: list[object] = []
    if case["transfer"]:
        spec["kvTransfer"] = {"protocol": case["transfer"]}
    if case.get("store"):
        spec["kvCache"] = {"poolRef": {"name": "cache"}}
        bound = build.store(protocol=case["store"])
    document = build.deployment(engine, build.pair(), **spec)
    return [build.pod(document, bound, role) for role in ("prefill", "decode")]


@pytest.mark.parametrize("case", TABLES["forced-tcp"], ids=text)
def test_tcp_is_pinned_only_where_nothing_else_moves_blocks(case: dict[str, Any]) -> None:
    for pod in pair_pods("SGLang", case):
        command = build.main(pod)["command"]
        assert build.value_after(command, "--disaggregation-transfer-backend") == case["sglang"]
        assert "MC_FORCE_TCP" not in build.environment(pod)
    for pod in pair_pods("vLLM", case):
        assert build.environment(pod).get("MC_FORCE_TCP") == ("1" if case["pinned"] else None)


@pytest.mark.parametrize("case", TABLES["leg-protocol"], ids=text)
def test_both_ends_of_the_leg_name_the_same_protocol(case: dict[str, Any]) -> None:
    for pod in pair_pods("vLLM", case):
        document = json.loads(build.value_after(build.main(pod)["command"], "--kv-transfer-config") or "")
        assert document["kv_connector_extra_config"] == {"mooncake_protocol": case["spelled"]}


@pytest.mark.parametrize("case", TABLES["backend-offers"], ids=text)
def test_a_backend_offers_each_groups_effective_protocol(case: dict[str, Any]) -> None:
    backend = build.store(protocol=case["backend"], groups=case["groups"])[2]
    assert isinstance(backend, KVCacheBackend)
    if not case["groups"] or any(case["groups"]):
        assert list(offers(backend)) == case["offers"]
    else:
        document = backend.model_dump(exclude_none=True)
        document["spec"]["connection"] = {
            "managed": {
                "leader": {},
                "members": [{"medium": "DRAM", "capacityPerMember": "4Gi"} for _ in case["groups"]],
            }
        }
        assert list(offers(KVCacheBackend.model_validate(document))) == case["offers"]


@pytest.mark.parametrize("case", TABLES["taken-offer"], ids=text)
def test_an_engine_takes_the_first_offer_it_accepts(case: dict[str, Any]) -> None:
    assert taken_offer("vllm", case["offers"]) == case["vllm"]
    assert taken_offer("sglang", case["offers"]) == case["sglang"]
    assert taken_offer("vllm-ascend", case["offers"]) == case["vllm-ascend"]


@pytest.mark.parametrize("case", TABLES["interface-key"], ids=text)
def test_interfaces_follow_the_one_fabric_in_use(case: dict[str, Any]) -> None:
    verdict = interface_key(case["store"], case["direct"], case["count"])
    assert verdict.key == case.get("key", "")
    for word in case.get("refused", ()):
        assert word in verdict.problem
    assert bool(verdict.problem) == ("refused" in case)


def test_the_interface_count_stands_on_main_as_request_and_limit() -> None:
    document = build.deployment(
        roles=[{"resources": {"accelerator": 2, "interface": 2}}], kvCache={"poolRef": {"name": "cache"}}
    )
    resources = build.main(build.pod(document, build.store(protocol="RDMA")))["resources"]
    assert resources["limits"]["device.gpustack.ai/rdma"] == "2"
    assert resources["requests"]["device.gpustack.ai/rdma"] == "2"


def test_the_fabric_is_read_before_the_endpoint_is_published() -> None:
    """The device decision reads the backend's spec only (bindings sheet 4.5)."""
    document = build.deployment(
        roles=[{"resources": {"accelerator": 2, "interface": 1}}], kvCache={"poolRef": {"name": "cache"}}
    )
    main = build.main(build.pod(document, build.store(protocol="RDMA", endpoint="")))
    assert main["resources"]["limits"]["device.gpustack.ai/rdma.shared"] == "1"
    assert "--kv-transfer-config" not in main["command"]


def test_an_interface_over_a_broken_chain_is_a_retryable_failure() -> None:
    document = build.deployment(
        roles=[{"resources": {"accelerator": 2, "interface": 1}}], kvCache={"poolRef": {"name": "cache"}}
    )
    failures = build.resolution(document).failures
    assert [failure.retryable for failure in failures] == [True]
    assert "resources.interface" in failures[0].message


@pytest.mark.parametrize(
    ("engine", "change", "expected"),
    [
        ("vLLM", {}, "device.gpustack.ai/rdma.shared"),
        ("SGLang", {}, None),
        ("vLLM", {"command": ["serve"]}, None),
    ],
    ids=["vllm", "sglang-gets-no-device", "take-over"],
)
def test_only_a_managed_native_vllm_leg_counts_as_a_fabric(
    engine: str, change: dict[str, Any], expected: str | None
) -> None:
    roles = build.pair(decode=build.merged({"resources": {"interface": 1}}, change))
    document = build.deployment(engine, roles, router={"name": "llm-d-router"}, kvTransfer={"protocol": "RDMA"})
    outcome = build.resolution(document)
    if expected is None:
        assert "resources.interface" in outcome.failures[0].message
    else:
        assert build.main(build.pod(document, role="decode"))["resources"]["limits"][expected] == "1"
