"""A cluster where the GPUStack operator keeps the InstanceTypes and the KV cache: a program declares only what serves.

The operator itself is not there; its CRDs and objects are, and the queue it makes.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.api.instance_type import InstanceType
from gpustack_components.cluster.binding_objects import API_VERSION, KINDS, MODEL_DEPLOYMENT, POOL
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import POD, Cluster, ClusterError
from gpustack_components.render.queues import instance_type_objects, local_queue
from sandbox.cluster import Sandbox
from tests.e2e.engine import Stack

pytestmark = pytest.mark.engine

NAMESPACE = "team-a"
ENTRANCE = "queue-of-the-operator"
OBSERVED = Path(__file__).parents[1] / "data" / "minimum_bindings.yaml"

PROGRAM = """
import gpustack_components as gpustack
from gpustack_components.api.kv_cache import KVCachePoolBinding

def spec(binding):
    return {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
        "kv_cache": {"pool_ref": {"name": binding}},
        "roles": [{"name": "server", "instance_type": "h20-8x", "resources": {"accelerator": 1}}],
    }

model = KVCachePoolBinding.model_validate({
    "metadata": {"name": "own", "namespace": "team-a"},
    "spec": {
        "poolRef": {"name": "own"}, "quota": {"ceiling": "1Gi"},
        "domain": {"name": "qwen", "blockSize": 64, "dtype": "bfloat16"}}})
backend = {
    "kind": "KVCacheBackend", "metadata": {"name": "own"},
    "spec": {"connection": {"external": {"endpoints": [
        {"name": "Client", "address": "own:1"}, {"name": "Admin", "address": "own:2"}]}}}}
gpustack.ModelDeployment("observed", namespace="team-a", spec=spec("team-a-dram"))
gpustack.ModelDeployment("declared", namespace="team-a", spec=spec("own"), bindings=[model, "cache/*.yaml", backend])
"""
POOL_FILE = """
kind: KVCachePool
metadata: {name: own}
spec: {backends: [own], quota: {total: 2Gi}}
status: {clientEndpoint: "own:1"}
"""

AWAY = """
apiVersion: v1
kind: Config
current-context: away
contexts: [{name: away, context: {cluster: away, user: nobody}}]
clusters: [{name: away, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
"""


def served(kind: Any) -> dict[str, Any]:
    """A definition of one of the operator's kinds that takes any object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()}
    group, version = API_VERSION.split("/")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def until(act: Callable[[], object], seconds: float = 30) -> None:
    """Try until the API server takes it: a definition is served a moment after it is stored."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            act()
            return
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def operate(cluster: Cluster) -> None:
    """What the operator brings: its kinds, the observed objects, and the queue in the namespace."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for kind in KINDS:
        cluster.create(served(kind))
    for raw in yaml.safe_load_all(OBSERVED.read_text()):
        raw["metadata"].pop("uid", None)
        if raw["kind"] == "InstanceType":
            raw["status"]["entrance"] = ENTRANCE
            known = InstanceType.model_validate(raw)
            for queue in instance_type_objects(known, nodes=1, cards_per_node=8, node_labels={"gpu": "h20"}):
                cluster.create(queue)
            cluster.create(local_queue(known, NAMESPACE))
        until(lambda raw=raw: cluster.create({"apiVersion": API_VERSION, **raw}))


def client_configurations(cluster: Cluster) -> dict[str, str]:
    """The endpoint in the store client's configuration, by deployment."""
    found: dict[str, str] = {}
    for pod in cluster.list(POD, NAMESPACE).items:
        told = re.search(r"master_server_address\W+([\w.:-]+)", str(pod["metadata"]["annotations"]))
        assert told, pod["metadata"]
        found[pod["metadata"]["labels"]["app.kubernetes.io/instance"]] = told[1]
    return found


def test_a_program_declares_only_what_serves_and_follows_the_operators_objects(
    private_sandbox: Sandbox, tmp_path: Path
) -> None:
    cluster = connect(str(private_sandbox.kubeconfig))
    operate(cluster)
    stack = Stack(tmp_path, private_sandbox.environment(tmp_path))
    stack.write(PROGRAM, files={"cache/pool.yaml": POOL_FILE})

    stack.up().expect(0)
    endpoint = "mooncake-dram-master.gpustack-system.svc:50051"
    assert client_configurations(cluster) == {"observed": endpoint, "declared": "own:1"}
    queues = {pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] for pod in cluster.list(POD, NAMESPACE).items}
    assert queues == {ENTRANCE}
    assert stack.resources("kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue") == []
    stack.preview("--expect-no-changes").expect(0)

    moved = [{"op": "replace", "path": "/status/clientEndpoint", "value": "moved.svc:50051"}]
    cluster.patch(POOL, None, "shared-dram", moved)
    shown = stack.preview("--diff").expect(0).output
    assert re.search(rf'clientEndpoint: "{endpoint}" => "moved.svc:50051"', shown), shown
    stack.up().expect(0)
    assert client_configurations(cluster) == {"observed": "moved.svc:50051", "declared": "own:1"}

    cluster.create(served(MODEL_DEPLOYMENT))
    theirs = {
        "apiVersion": API_VERSION,
        "kind": "ModelDeployment",
        "metadata": {"name": "taken", "namespace": NAMESPACE},
    }
    until(lambda: cluster.create(theirs))
    stack.write(PROGRAM.replace('"observed"', '"taken"'), files={"cache/pool.yaml": POOL_FILE})
    refused = stack.preview()
    assert refused.code != 0
    assert f"{NAMESPACE}/taken is a ModelDeployment of the GPUStack operator" in " ".join(refused.output.split())


def test_a_cluster_that_cannot_be_read_leaves_open_what_it_would_say(new_stack: Callable[[str], Stack]) -> None:
    stack = new_stack("blind")
    stack.write(PROGRAM, files={"cache/pool.yaml": POOL_FILE})
    (stack.directory / "away").write_text(AWAY)
    stack.environment["KUBECONFIG"] = str(stack.directory / "away")

    shown = stack.preview().expect(0).output
    assert "its Services are not shown: role server: InstanceType h20-8x is not known" in shown
    assert "the plan is not known, the cluster could not be read" in shown
    refused = stack.up()
    assert refused.code != 0
    assert "InstanceType h20-8x is not known" in refused.output and "127.0.0.1:9" in refused.output
