"""What a resolved deployment tells the status: sections, weights, the Binding, and the router's contract."""

from typing import Any

import pytest

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.status.facts import Facts, Weights
from gpustack_components.status.resolved import facts_of
from tests.render.build import COMMIT, DIGEST, ENDPOINT, artifact, deployment, pair, resolved, store

CACHE = {"poolRef": {"name": "cache"}}
ROUTER = {"name": "llm-d-router"}


def facts(of: ResolvedDeployment) -> Facts:
    return facts_of(of, {})


def test_the_contract_of_a_routed_pair_names_what_reaches_which_role() -> None:
    found = facts(resolved(deployment(roles=pair(replicas=2), router=ROUTER, kvCache=CACHE), store())).contract
    assert found == {
        "name": "llm-d-router",
        "endpoint": "http://qwen-router.team-a.svc:8000",
        "poolEndpoint": ENDPOINT,
        "metrics": {
            "port": 8000,
            "queuedRequests": "vllm:num_requests_waiting",
            "runningRequests": "vllm:num_requests_running",
            "kvCacheUtilization": "vllm:kv_cache_usage_perc",
        },
        "roles": [
            {
                "name": "prefill",
                "kind": "Prefill",
                "selector": {
                    "app.kubernetes.io/name": "model-deployment",
                    "app.kubernetes.io/instance": "qwen",
                    "app.kubernetes.io/component": "prefill",
                    "modeldeployment.gpustack.ai/role-kind": "prefill",
                    "modeldeployment.gpustack.ai/member-index": "0",
                },
                "endpoint": "http://qwen-prefill.team-a.svc:8000",
                "kvEvents": {
                    "endpoint": "tcp://qwen-prefill.team-a.svc:5557",
                    "replayEndpoint": "tcp://qwen-prefill.team-a.svc:5558",
                    "topic": "kv@",
                },
            },
            {
                "name": "decode",
                "kind": "Decode",
                "selector": {
                    "app.kubernetes.io/name": "model-deployment",
                    "app.kubernetes.io/instance": "qwen",
                    "app.kubernetes.io/component": "decode",
                    "modeldeployment.gpustack.ai/role-kind": "decode",
                    "modeldeployment.gpustack.ai/member-index": "0",
                },
                "endpoint": "http://qwen-decode.team-a.svc:8000",
            },
        ],
    }


@pytest.mark.parametrize(
    ("engine", "name", "role", "expected"),
    [
        ("vLLM", "llm-d-router", {}, {"metrics": 8000, "events": True, "endpoint": "http://qwen-server.team-a.svc:8000"}),
        ("vLLM", "vllm-router", {}, {"metrics": None, "events": False, "endpoint": "http://qwen-server.team-a.svc:8000"}),
        ("SGLang", "sglang-gateway", {}, {"metrics": None, "events": False,
         "endpoint": "http://qwen-server.team-a.svc:8000"}),
        ("SGLang", "llm-d-router", {}, {"metrics": 8000, "events": False,
         "endpoint": "http://qwen-server.team-a.svc:8000"}),
        ("vLLM", "llm-d-router", {"ports": [{"port": 9000}]}, {"metrics": 9000, "events": True,
         "endpoint": "http://qwen-server.team-a.svc:9000"}),
        ("vLLM", "llm-d-router", {"command": ["run"]}, {"metrics": 8000, "events": False,
         "endpoint": "http://qwen-server.team-a.svc:8000"}),
    ],
)  # fmt: skip
def test_the_contract_follows_router_engine_and_ports(
    engine: str, name: str, role: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = facts(resolved(deployment(engine, roles=[role], router={"name": name}))).contract
    assert found is not None
    (only,) = found["roles"]
    assert found.get("metrics", {}).get("port") == expected["metrics"]
    assert ("kvEvents" in only) == expected["events"]
    assert only["endpoint"] == expected["endpoint"]
    assert "poolEndpoint" not in found


def test_without_router_cache_and_artifact_there_is_nothing_to_tell() -> None:
    found = facts(resolved(deployment()))
    assert (found.contract, found.kv_cache, found.model, found.weights) == (None, None, None, None)
    assert found.domain is None


def test_the_whole_domain_of_a_registered_binding_is_told() -> None:
    found = facts(resolved(deployment(kvCache=CACHE), store(dtype="fp8")))
    assert found.kv_cache == {
        "binding": "cache",
        "pool": "shared-dram",
        "domain": {"name": "team-a-shared", "blockSize": 64, "dtype": "fp8"},
    }
    assert (found.domain, found.domain_message) == ("Registered", "")


@pytest.mark.parametrize(
    ("bound", "domain", "message"),
    [
        ([], "BindingNotFound", "cache is not known"),
        (store(binding_status={"phase": "Pending"}), "BindingNotReady", "not Ready"),
        (store(endpoint=""), "Registered", "publishes no status.clientEndpoint"),
        (store()[:1], "Registered", "KVCachePool shared-dram is not known"),
    ],
)
def test_a_binding_is_judged_alone_and_what_is_missing_behind_it_is_said(
    bound: list[object], domain: str, message: str
) -> None:
    found = facts(resolved(deployment(kvCache=CACHE), bound))
    assert found.domain == domain
    assert message in found.domain_message
    assert found.kv_cache is None


def test_a_store_that_was_known_is_told_while_its_binding_is_away() -> None:
    known = resolved(deployment(kvCache=CACHE), store()).store
    found = facts(resolved(deployment(kvCache=CACHE), [], remembered=known))
    assert (found.domain, (found.kv_cache or {}).get("pool")) == ("BindingNotFound", "shared-dram")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, {"artifact": "weights", "revision": COMMIT, "manifestDigest": DIGEST, "delivery": "Engine"}),
        ({"persistentVolumeClaim": {"claimName": "c"}}, {"artifact": "weights", "delivery": "PVC"}),
        ({"image": {"reference": f"registry/model@{DIGEST}"}}, {"artifact": "weights", "delivery": "Image"}),
    ],
)
def test_the_resolved_artifact_is_told_with_what_its_source_has(source: Any, expected: dict[str, str]) -> None:
    document = deployment(model={"name": "Qwen/Q", "artifactRef": {"name": "weights"}})
    found = facts(resolved(document, [artifact(source)]))
    assert found.model == expected
    assert found.weights == Weights(expected["delivery"], "weights")


def test_an_artifact_that_does_not_resolve_holds_and_is_not_told() -> None:
    document = deployment(model={"name": "Qwen/Q", "artifactRef": {"name": "weights"}})
    found = facts(resolved(document, [artifact(resolved={})]))
    assert found.model is None
    assert found.weights is not None
    assert (found.weights.hold, found.weights.delivery) == ("ArtifactNotResolved", "")
    assert found.expected is not None
    assert "not resolved" in found.expected.weights_hold


def test_the_contract_selects_by_eligibility_where_the_setting_asks_for_it() -> None:
    settings = {"model-deployment-endpoint-qualification": True}
    found = facts(resolved(deployment(roles=[{}], router=ROUTER), settings=settings))
    assert found.qualifies
    assert found.contract is not None
    assert found.contract["roles"][0]["selector"]["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"
