"""The life of a router: declared, called, edited and removed by `pulumi up`, in front of engines that answer."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import CONFIG_MAP, DEPLOYMENT, NODE, POD, SERVICE, Json, Kind
from sandbox.cluster import Sandbox
from sandbox.processes import wait_until
from tests.e2e.case import Case, audit_position, audited
from tests.routers import programs
from tests.routers.calls import InFlight, Load
from tests.routers.endpoint import Endpoint
from tests.routers.kubelet import HANG, READY_AFTER
from tests.routers.router_pod import RouterPod
from tests.routers.site import Site
from tests.routers.site import site as open_site

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]

ROUTED = {
    "picked": ("vLLM", "llm-d-router"),
    "qwen": ("vLLM", "vllm-router"),
    "gated": ("SGLang", "sglang-gateway"),
}
IMAGES = {"vLLM": "vllm/vllm-openai:v0.25.0", "SGLang": "lmsysorg/sglang:v0.5.9"}
NEWER = {"vLLM": "vllm/vllm-openai:v0.25.1", "SGLang": "lmsysorg/sglang:v0.5.10"}
ROUTER_KINDS = (
    DEPLOYMENT,
    SERVICE,
    CONFIG_MAP,
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
)
MODEL = "Qwen/Qwen3-8B"
ON = {"model-deployment-endpoint-qualification": True}


def pair(case: Case, engine: str, prefill: int, decode: int, **router: Any) -> Json:
    """A Prefill/Decode pair of one card a replica."""
    return {
        "model": {"name": MODEL},
        "engine": {"name": engine, "image": IMAGES[engine]},
        "router": router,
        "roles": [
            case.role(prefill, name="prefill", kind="Prefill"),
            case.role(decode, name="decode", kind="Decode"),
        ],
    }


@pytest.fixture
def node(sandbox: Sandbox) -> Iterator[str]:
    """A node of the test's own with sixteen cards, and what its label says: three pairs do not fit beside others."""
    cluster, name = connect(str(sandbox.kubeconfig)), f"gpu-{uuid.uuid4().hex[:8]}"
    resources = {"cpu": "192", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "16"}
    labels = {"kubernetes.io/hostname": name, "gpu": name}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": resources, "capacity": resources},
        }
    )
    yield name
    cluster.delete(NODE, None, name)


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


def called(site: Site, case: Case, name: str) -> Endpoint:
    """Callers of a deployment's published endpoint, once it splits requests between all its roles."""
    endpoint = Endpoint(site, endpoints(case)[name])
    roles = {"decode"} if name == "picked" else {"prefill", "decode"}

    def asked() -> set[str]:
        before = {engine.name: len(engine.calls) for engine in list(site.kubelet.engines.values())}
        endpoint.reached(4)
        return {
            role
            for engine in list(site.kubelet.engines.values())
            for role in roles
            if f"{name}-{role}-" in engine.name and len(engine.calls) > before.get(engine.name, 0)
        }

    assert wait_until(lambda: asked() == roles, seconds=30), f"{name} is not served:\n{logs(site)}"
    return endpoint


def logs(site: Site) -> str:
    return "\n".join(pod.log()[-3000:] for pod in site.kubelet.router_pods.values())


@contextmanager
def no_request_is_lost(site: Site, case: Case, *names: str) -> Iterator[None]:
    """Clients call these deployments while the block runs, and each gets every answer, whole."""
    loads = {name: Load(called(site, case, name), clients=2, tokens=20) for name in names}
    with ExitStack() as clients:
        for load in loads.values():
            clients.enter_context(load)
        yield
    for name, load in loads.items():
        assert load.lost == [], f"{name}: {load.lost[:3]}\n{logs(site)}"
        assert len(load.answers) > 4, name


def running(site: Site, name: str) -> list[RouterPod]:
    """Router Pods of a deployment that were not told to stop."""
    return [pod for pod in site.kubelet.router_pods.values() if pod.instance == name and not pod.ended]


def test_a_pair_behind_each_router_answers_through_its_edits_its_rollout_and_its_routers_end(
    new_case: NewCase, sandbox: Sandbox, node: str, tmp_path: Path
) -> None:
    case = new_case(cards=16, nodes=node)
    for name, (engine, router) in ROUTED.items():
        prefill = 1 if name == "picked" else 3
        case.values["deployments"][name] = pair(case, engine, prefill, 3, name=router, requestTimeoutSeconds=30)
    long = {"admission": "60s", "ready": "60s", "drain": "60s"}
    case.change(annotations={HANG: "true", READY_AFTER: "never"}, timeouts=long)
    with open_site(sandbox.kubeconfig, case.namespace, tmp_path, model=MODEL, programs=programs.install()) as site:
        site.kubelet.missing_image = "registry.local/no/such:image"
        _from_first_up_to_destroy(case, site, sandbox)


def _from_first_up_to_destroy(case: Case, site: Site, sandbox: Sandbox) -> None:
    specs = case.values["deployments"]
    run = case.stack.up().expect(0)
    address = {name: f"http://{name}-router.{case.namespace}.svc:8000" for name in ROUTED}
    assert endpoints(case) == address
    for name, url in address.items():
        assert f"{name}  answers at {url}" in run.output
    always = {"Deployment", "Service", "ServiceAccount", "Role", "RoleBinding"}
    assert stack_of(case, "picked") == {*always, "ConfigMap"}
    assert stack_of(case, "qwen") == stack_of(case, "gated") == always
    for name in ROUTED:
        assert len(router_pods(case, name)) == 1
        assert not any(keys.QUEUE_NAME in pod["metadata"]["labels"] for pod in router_pods(case, name).values())
        for path in ("/v1/completions", "/v1/chat/completions"):
            answer = called(site, case, name).complete(path=path, tokens=3, stream=True)
            assert (answer.status, answer.tokens, answer.complete) == (200, 3, True)
            assert f"{name}-decode-" in answer.by

    served = engines(case)
    replaced = _edit_routers_while_they_are_called(case, site, sandbox)

    leaving_engines = list(site.kubelet.engines.values())
    with no_request_is_lost(site, case, *ROUTED):
        for name, (engine, _) in ROUTED.items():
            specs[name]["engine"]["image"] = NEWER[engine]
        case.save()
        case.stack.up().expect(0)
    assert not engines(case) & served
    assert all(engine.cut == 0 for engine in leaving_engines)
    assert {engine.name for engine in leaving_engines} <= set(site.kubelet.drains), "each ran the hook of its Pod"

    told = [pod for pod in replaced if pod.instance != "picked"]
    assert wait_until(lambda: all(pod.closed for pod in told), seconds=40)
    assert {code for pod in told for code in pod.codes.values()} == {0}, "each ended by itself and in time"

    kept = engines(case, "picked")
    with no_request_is_lost(site, case, "picked", "gated"):
        del specs["qwen"]["router"]
        for role in (*specs["qwen"]["roles"], *specs["gated"]["roles"]):
            role["replicas"] = 1 if role in specs["qwen"]["roles"] else 2
        case.change(settings={"gated": ON})
        before = engines(case, "qwen")
        case.stack.up().expect(0)
    assert wait_until(lambda: stack_of(case, "qwen") == set(), seconds=30) and running(site, "qwen") == []
    assert endpoints(case) == {**address, "qwen": f"http://qwen.{case.namespace}.svc:8000"}
    assert not engines(case, "qwen") & before, "without a router the pair loses its transfer leg, so it rolls"
    assert Endpoint(site, endpoints(case)["qwen"]).complete(tokens=2).by.count("qwen-prefill-") == 2
    assert engines(case, "picked") == kept and len(engines(case, "gated")) == 4

    site.kubelet.hurry = True
    case.stack.destroy().expect(0)
    assert case.leftovers() == []


def _edit_routers_while_they_are_called(case: Case, site: Site, sandbox: Sandbox) -> list[RouterPod]:
    """Returns the router Pods that were replaced."""
    specs, served, edited = case.values["deployments"], engines(case), ("picked", "qwen")
    first = {name: set(router_pods(case, name)) for name in ROUTED}
    mark = audit_position(sandbox)
    case.stack.up().expect(0)
    wrote = [e for e in audited(sandbox, case.namespace, mark) if e["verb"] not in ("get", "list", "watch")]
    assert wrote == [], "nothing is written without an edit"

    with no_request_is_lost(site, case, *ROUTED):
        specs["qwen"]["router"].update(image=site.kubelet.missing_image)
        specs["gated"]["router"].update(replicas=2)
        timeouts = case.values["timeouts"]
        case.change(timeouts={**timeouts, "ready": "10s"})
        run = case.stack.up()
        assert run.code != 0
        assert "qwen router: not ready after" in run.output
        assert "0 of 1 Pods of Deployment qwen-router are up to date and ready" in run.output
        describe = f"kubectl -n {case.namespace} describe pod -l app.kubernetes.io/instance=qwen,{keys.ROUTER}"
        assert f"`{describe}`" in run.output
        assert first["qwen"] < set(router_pods(case, "qwen")), "the old router goes on"
        assert first["gated"] < set(router_pods(case, "gated")), "scaling a router replaces none of its Pods"
        assert "PodDisruptionBudget" in stack_of(case, "gated")

        before = [pod for name in edited for pod in running(site, name)]
        streams = [InFlight(called(site, case, name), tokens=240, stream=True) for name in edited]
        specs["picked"]["router"].update(requestTimeoutSeconds=10, extraArgs=["--v=4"], image="registry.local/epp:v9")
        specs["qwen"]["router"].update(image="registry.local/good:v9", extraArgs=["--policy", "round_robin"])
        case.change(timeouts=timeouts)
        case.stack.up().expect(0)
        assert [stream.result(30).complete for stream in streams] == [True] * 2, "a leaving router ends its requests"
    assert engines(case) == served, "no engine Pod is touched by an edit of its router"
    assert all(not first[name] & {uid for uid, pod in router_pods(case, name).items() if stays(pod)} for name in edited)
    assert first["gated"] < set(router_pods(case, "gated"))
    assert "--v=4" in running(site, "picked")[-1].arguments["epp"]
    assert running(site, "qwen")[-1].arguments["router"][-2:] == ["--policy", "round_robin"]
    return before


def stays(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"]
