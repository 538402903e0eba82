"""The guardrails pack through the analyzer's own servicer."""

from typing import Any

import pytest

from gpustack_components.cluster import keys
from policies.deployments import COMPONENT
from policies.guardrails import pack
from policies.guardrails.budget import Ledger
from policies.guardrails.images import Image
from policies.guardrails.pack import POLICIES
from tests.policies.analyzer import UNKNOWN, Analyzer, Finding, component, role, spec

DIGEST = "sha256:" + "0" * 64
PAIR = [role(name="prefill", kind="Prefill"), role(name="decode", kind="Decode")]
POD = "kubernetes:core/v1:Pod"
LOCAL_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with an empty ledger, as every run of the engine does."""
    monkeypatch.setattr(pack, "_ledger", Ledger())


def judge(config: dict[str, Any], *resources: dict[str, Any], type_: str = COMPONENT) -> list[Finding]:
    """What the pack says about resources, one after the other."""
    analyzer = Analyzer(POLICIES, config)
    return [one for index, item in enumerate(resources) for one in analyzer.analyze(type_, item, name=f"d{index}")]


def image(reference: Any) -> dict[str, Any]:
    return spec(engine={"name": "vLLM", "image": reference})


@pytest.mark.parametrize(
    ("reference", "repository", "tag", "digest"),
    [
        ("vllm/vllm-openai:v0.25.1", "docker.io/vllm/vllm-openai", "v0.25.1", ""),
        ("busybox", "docker.io/library/busybox", "", ""),
        ("localhost:5000/a/b", "localhost:5000/a/b", "", ""),
        ("registry.example.com/llm/vllm:1@" + DIGEST, "registry.example.com/llm/vllm", "1", DIGEST),
        ("registry.example.com:443/vllm@" + DIGEST, "registry.example.com:443/vllm", "", DIGEST),
    ],
)
def test_image_references_are_read_as_runtimes_read_them(reference: str, repository: str, tag: str, digest: str):
    assert Image.parse(reference) == Image(repository, tag, digest)


@pytest.mark.parametrize(
    ("policy", "settings", "properties", "path"),
    [
        ("images", {}, component(image("vllm/vllm-openai:latest")), "spec.engine.image"),
        ("images", {}, component(image("vllm/vllm-openai")), "spec.engine.image"),
        ("images", {"requireDigest": True}, component(image("vllm/vllm-openai:v1")), "spec.engine.image"),
        (
            "images",
            {"allowedRegistries": ["docker.io/vll"]},
            component(image("vllm/vllm-openai:v1")),
            "spec.engine.image",
        ),
        ("images", {}, component(spec(roles=[role(image="x")])), "spec.roles[0].image"),
        ("card-budget", {"cardsPerNamespace": {"team-a": 3}}, component(spec(roles=[role(replicas=4)])), "spec.roles"),
        ("card-budget", {"cardsPerNamespace": {"*": 3}}, component(spec(roles=[role(replicas=4)])), "spec.roles"),
        ("card-budget", {"cardsPerStack": 7}, component(spec(roles=[role(replicas=4, size=2)])), "spec.roles"),
        ("placement", {"allowedInstanceTypes": ["a10"]}, component(spec()), "spec.roles[0].instanceType"),
        (
            "placement",
            {"allowedPools": {"team-a": ["small"]}},
            component(spec(kvCache={"poolRef": {"name": "big"}})),
            "spec.kvCache.poolRef.name",
        ),
        ("roles", {"maxReplicas": 3}, component(spec(roles=[role(replicas=4)])), "spec.roles[0].replicas"),
        (
            "roles",
            {"forbiddenArguments": ["--trust-remote-code"]},
            component(spec(roles=[role(extraArgs=["--max-model-len=1", "--trust_remote_code"])])),
            "spec.roles[0].extraArgs[1]",
        ),
        ("roles", {}, component(spec(roles=[role(privileged=True)])), "spec.roles[0].privileged"),
        ("roles", {}, component(spec(roles=PAIR)), "spec.router"),
        ("labels", {"required": {"team": ""}}, component(spec()), "metadata.labels[team]"),
        (
            "labels",
            {"required": {"team": "[a-z]+"}},
            component(spec(), labels={"team": "A1"}),
            "metadata.labels[team]",
        ),
    ],
)
def test_each_guardrail_refuses_at_the_field_it_is_about(
    policy: str, settings: dict[str, Any], properties: dict[str, Any], path: str
):
    (finding,) = judge({policy: settings} if settings else {}, properties)
    assert (finding.policy, finding.mandatory) == (policy, True)
    assert finding.message.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("policy", "settings", "properties"),
    [
        ("images", {"requireDigest": True}, component(image("vllm/vllm-openai@" + DIGEST))),
        ("images", {"forbidLatest": False}, component(image("vllm/vllm-openai"))),
        ("images", {"allowedRegistries": ["docker.io/vllm/"]}, component(image("vllm/vllm-openai:v1"))),
        ("card-budget", {"cardsPerNamespace": {"team-a": 4, "*": 1}}, component(spec(roles=[role(replicas=4)]))),
        ("card-budget", {"cardsPerNamespace": {"team-b": 1}}, component(spec(roles=[role(replicas=4)]))),
        (
            "card-budget",
            {"cardsPerStack": 1},
            component(
                spec(roles=[role(replicas=2, resources={"accelerator": 1, "acceleratorSlicedMemoryPercentage": 50})])
            ),
        ),
        ("placement", {"allowedInstanceTypes": ["h20-8x"]}, component(spec())),
        (
            "placement",
            {"allowedPools": {"team-b": []}},
            component(spec(kvCache={"poolRef": {"name": "big"}})),
        ),
        ("roles", {"maxReplicas": 4}, component(spec(roles=[role(replicas=4)]))),
        ("roles", {"denyPrivileged": False}, component(spec(roles=[role(privileged=True)]))),
        ("roles", {"requireRouterForPairs": False}, component(spec(roles=PAIR))),
        ("roles", {}, component(spec(roles=PAIR, router={"name": "vllm-router"}))),
        ("labels", {"required": {"team": "[a-z]+"}}, component(spec(), labels={"team": "search"})),
    ],
)
def test_what_the_configuration_allows_is_not_refused(
    policy: str, settings: dict[str, Any], properties: dict[str, Any]
):
    assert judge({policy: settings} if settings else {}, properties) == []


def test_a_budget_counts_all_deployments_of_the_stack_together():
    three = component(spec(roles=[role(replicas=3)]))
    other = component(spec(roles=[role(replicas=3)]), namespace="team-b")
    findings = judge({"card-budget": {"cardsPerNamespace": {"team-a": 5}, "cardsPerStack": 8}}, three, other, three)
    assert [one.message.split(";")[0] for one in findings] == [
        "spec.roles: the deployments of namespace team-a declare 6 cards together, and its budget is 5",
        "spec.roles: the deployments of this stack declare 9 cards together, and its budget is 8",
    ]


def test_a_deployment_seen_twice_is_counted_once():
    analyzer = Analyzer(POLICIES, {"card-budget": {"cardsPerStack": 4}})
    properties = component(spec(roles=[role(replicas=4)]))
    assert analyzer.analyze(COMPONENT, properties) == analyzer.analyze(COMPONENT, properties) == []


def test_a_deployment_that_admission_refuses_is_still_held_to_the_guardrails():
    refused = component(spec(roles=[role(replicas=9, extraArgs=["--tensor-parallel-size=4"])]))
    (finding,) = judge({"roles": {"maxReplicas": 4}}, refused)
    assert finding.message.startswith("spec.roles[0].replicas: 9 replicas")


def test_an_image_that_is_not_known_yet_is_not_guessed_at():
    assert judge({"images": {"requireDigest": True}}, component(image(UNKNOWN))) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: "qwen"}},
        {"labels": {keys.GROUP_NAME: "gpustack-fnv64-dc611a87ddf1aa0e"}},
        {"annotations": {keys.POD_SPEC_HASH: "0"}},
    ],
)
@pytest.mark.parametrize(
    ("type_", "wrap"),
    [
        (POD, lambda metadata: {"metadata": metadata}),
        ("kubernetes:apps/v1:Deployment", lambda metadata: {"spec": {"template": {"metadata": metadata}}}),
        (
            "kubernetes:batch/v1:CronJob",
            lambda metadata: {"spec": {"jobTemplate": {"spec": {"template": {"metadata": metadata}}}}},
        ),
    ],
)
def test_a_pod_that_pretends_to_belong_to_a_deployment_is_refused(metadata: dict[str, Any], type_: str, wrap: Any):
    (finding,) = judge({}, wrap(metadata), type_=type_)
    assert finding.policy == "impostors" and "for a replica" in finding.message


@pytest.mark.parametrize("type_", [POD, "kubernetes:core/v1:Service"])
def test_ordinary_pods_and_the_deployment_s_own_services_are_left_alone(type_: str):
    labels = {keys.APP_NAME: "web"} if type_ == POD else {keys.APP_NAME: keys.APP_NAME_VALUE, keys.APP_INSTANCE: "qwen"}
    assert judge({}, {"metadata": {"labels": labels}}, type_=type_) == []


@pytest.mark.parametrize(
    ("annotations", "queue", "refused"),
    [
        ({}, "gpustack-h20", True),
        ({keys.OWNER: "pulumi stack acme/other/prod"}, "gpustack-h20", True),
        ({keys.OWNER: "pulumi stack acme/llm/prod"}, "gpustack-h20", False),
        ({}, "batch", False),
    ],
)
def test_a_hand_made_queue_on_a_protected_cluster_queue_is_refused(
    annotations: dict[str, str], queue: str, refused: bool
):
    properties = {"metadata": {"annotations": annotations}, "spec": {"clusterQueue": queue}}
    findings = judge({"impostors": {"protectedClusterQueues": ["gpustack-*"]}}, properties, type_=LOCAL_QUEUE)
    assert [one.policy for one in findings] == (["impostors"] if refused else [])
