"""The life of a router: added, edited and removed by `pulumi up` in front of replicas that mostly do not notice."""

from collections.abc import Callable
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CONFIG_MAP, DEPLOYMENT, POD, SERVICE, Json, Kind
from sandbox.cluster import Sandbox
from tests.e2e.case import Case, audit_position, audited

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]

ROUTED = {
    "picked": ("vLLM", "llm-d-router"),
    "qwen": ("vLLM", "vllm-router"),
    "gated": ("SGLang", "sglang-gateway"),
}
IMAGES = {"vLLM": "vllm/vllm-openai:v0.25.0", "SGLang": "lmsysorg/sglang:v0.5.9"}
ROUTER_KINDS = (
    DEPLOYMENT,
    SERVICE,
    CONFIG_MAP,
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)


def pair(case: Case, engine: str, **router: Any) -> Json:
    """A Prefill/Decode pair of one card each."""
    return {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": engine, "image": IMAGES[engine]},
        "router": router,
        "roles": [
            case.role(1, name="prefill", kind="Prefill"),
            case.role(1, name="decode", kind="Decode"),
        ],
    }


def routed(case: Case) -> None:
    """Declare one pair behind each router."""
    for name, (engine, router) in ROUTED.items():
        case.values["deployments"][name] = pair(case, engine, name=router)
    case.save()


def edit_routers(case: Case, **fields: Any) -> None:
    for spec in case.values["deployments"].values():
        spec["router"].update(fields)
    case.save()


def engines(case: Case, name: str | None = None) -> set[str]:
    """UIDs of the engine Pods, of one deployment or all."""
    return {
        pod["metadata"]["uid"]
        for pod in case.pods()
        if keys.POD_ORDINAL in pod["metadata"]["labels"]
        and name in (None, pod["metadata"]["labels"]["app.kubernetes.io/instance"])
    }


def router_pods(case: Case, name: str) -> dict[str, Json]:
    """The router Pods of a deployment by UID."""
    selector = f"app.kubernetes.io/instance={name},{keys.ROUTER}"
    return {pod["metadata"]["uid"]: pod for pod in case.cluster.list(POD, case.namespace, selector).items}


def stack_of(case: Case, name: str) -> set[str]:
    """Kinds of the objects named after the router that are there."""
    return {kind.kind for kind in ROUTER_KINDS if case.cluster.get(kind, case.namespace, f"{name}-router")}


def endpoints(case: Case) -> dict[str, str]:
    return {name: found["endpoint"] for name, found in case.stack.outputs().items()}


def test_a_pair_behind_each_router_from_its_first_up_to_its_end(new_case: NewCase, sandbox: Sandbox) -> None:
    case = new_case(cards=6)
    routed(case)
    run = case.stack.up().expect(0)

    address = {name: f"http://{name}-router.{case.namespace}.svc:8000" for name in ROUTED}
    assert endpoints(case) == address
    for name, url in address.items():
        assert f"{name}  answers at {url}" in run.output
    always = {"Deployment", "Service", "ServiceAccount", "Role", "RoleBinding"}
    assert stack_of(case, "picked") == {*always, "ConfigMap"}
    assert stack_of(case, "qwen") == stack_of(case, "gated") == always
    assert all(len(router_pods(case, name)) == 1 for name in ROUTED)
    assert not any(keys.QUEUE_NAME in pod["metadata"]["labels"] for pod in router_pods(case, "qwen").values())
    served, first_routers = engines(case), {name: set(router_pods(case, name)) for name in ROUTED}

    mark = audit_position(sandbox)
    case.stack.up().expect(0)
    wrote = [e for e in audited(sandbox, case.namespace, mark) if e["verb"] not in ("get", "list", "watch")]
    assert wrote == []

    edit_routers(case, replicas=2)
    case.stack.up().expect(0)
    for name in ROUTED:
        assert first_routers[name] < set(router_pods(case, name)), "scaling a router replaces none of its Pods"
        assert "PodDisruptionBudget" in stack_of(case, name)

    edit_routers(case, image="registry.local/router:v9", requestTimeoutSeconds=90)
    case.stack.up().expect(0)
    for name in ROUTED:
        pods = router_pods(case, name)
        assert not first_routers[name] & set(pods)
        images = {one["image"] for pod in pods.values() for one in pod["spec"]["containers"]}
        assert "registry.local/router:v9" in images
    assert engines(case) == served, "no engine Pod is touched by an edit of its router"

    del case.values["deployments"]["qwen"]["router"]
    case.save()
    kept = engines(case, "picked") | engines(case, "gated")
    case.stack.up().expect(0)
    assert stack_of(case, "qwen") == set() and router_pods(case, "qwen") == {}
    assert endpoints(case)["qwen"] == f"http://qwen.{case.namespace}.svc:8000"
    assert not engines(case, "qwen") & served, "without a router the pair loses its transfer leg, so it rolls"
    assert engines(case, "picked") | engines(case, "gated") == kept

    case.values["deployments"]["qwen"]["router"] = {"name": "vllm-router"}
    case.save()
    case.stack.up().expect(0)
    assert stack_of(case, "qwen") == always and endpoints(case) == address

    case.stack.destroy().expect(0)
    assert case.leftovers() == []


def test_an_edit_after_which_the_router_does_not_get_ready_fails_the_run_and_the_old_router_goes_on(
    new_case: NewCase,
) -> None:
    case = new_case(cards=2)
    case.values["deployments"]["qwen"] = pair(case, "vLLM", name="vllm-router")
    case.save()
    case.stack.up().expect(0)
    served, before = engines(case), set(router_pods(case, "qwen"))

    case.change(timeouts={"admission": "20s", "ready": "4s", "drain": "60s"})
    case.change(annotations={**case.values["annotations"], "sandbox.gpustack.ai/ready-after": "never"})
    edit_routers(case, image="registry.local/router:broken")
    run = case.stack.up()

    assert run.code != 0
    assert "qwen router: not ready after" in run.output
    assert "0 of 1 Pods of Deployment qwen-router are up to date and ready" in run.output
    assert f"`kubectl -n {case.namespace} describe pod -l app.kubernetes.io/instance=qwen,{keys.ROUTER}`" in run.output
    assert before < set(router_pods(case, "qwen")) and engines(case) == served
    assert endpoints(case)["qwen"] == f"http://qwen-router.{case.namespace}.svc:8000"

    edit_routers(case, image="registry.local/router:good")
    annotations = {**case.values["annotations"], "sandbox.gpustack.ai/ready-after": "0.1"}
    case.change(annotations=annotations)
    case.stack.up().expect(0)
    assert engines(case) == served
