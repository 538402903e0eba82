"""The first day of a new user: the examples as they stand, run on the real engine and the real control plane."""

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    CONFIG_MAP,
    LEASE,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    RESOURCE_FLAVOR,
    SERVICE,
    WORKLOAD,
    Cluster,
)
from sandbox.cluster import Sandbox
from tests.e2e.engine import Run, Stack

pytestmark = pytest.mark.engine

EXAMPLES = Path(__file__).parents[2] / "examples"
ROLLOUT = "pulumi-python:dynamic/gpustack:Rollout"


@dataclass(frozen=True)
class Example:
    """An example in a stack of its own; its namespace and pool renamed so that runs do not meet."""

    stack: Stack
    cluster: Cluster
    namespace: str
    pool: str

    def edit(self, old: str, new: str, file: str = "__main__.py") -> None:
        """Replace text in the program, as a person does in an editor."""
        path = self.stack.program / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def pods(self) -> dict[str, str]:
        """Image of every Pod that is not going, by ordinal."""
        return {
            pod["metadata"]["labels"]["modeldeployment.gpustack.ai/pod-ordinal"]: pod["spec"]["containers"][0]["image"]
            for pod in self.cluster.list(POD, self.namespace).items
            if "deletionTimestamp" not in pod["metadata"]
        }

    def leftovers(self) -> list[str]:
        """Everything of the example that the cluster still holds."""
        namespaced = [
            item["metadata"]["name"]
            for kind in (POD, WORKLOAD, SERVICE, LOCAL_QUEUE, LEASE)
            for item in self.cluster.list(kind, self.namespace).items
        ]
        namespaced += [
            item["metadata"]["name"]
            for item in self.cluster.list(CONFIG_MAP, self.namespace).items
            if item["metadata"]["name"] != "kube-root-ca.crt"
        ]
        shared = ((NAMESPACE, self.namespace), (CLUSTER_QUEUE, self.pool), (RESOURCE_FLAVOR, self.pool))
        return namespaced + [name for kind, name in shared if self.cluster.get(kind, None, name) is not None]


@pytest.fixture
def example(sandbox: Sandbox, new_stack: Callable[[str], Stack]) -> Iterator[Callable[[str], Example]]:
    """Copies an example into a stack; what it made is destroyed afterwards."""
    made: list[Example] = []

    def copy(name: str) -> Example:
        identity = uuid.uuid4().hex[:8]
        namespace, pool = f"team-{identity}", f"h20-{identity}"
        stack = new_stack(name)
        shutil.copytree(EXAMPLES / name, stack.program, dirs_exist_ok=True)
        for path in stack.program.rglob("*"):
            if path.suffix in (".py", ".yaml"):
                text = path.read_text().replace("team-a", namespace).replace("h20-8x", pool)
                path.write_text(text.replace("namespace: default", f"namespace: {namespace}"))
        stack.write((stack.program / "__main__.py").read_text())
        made.append(Example(stack, connect(str(sandbox.kubeconfig)), namespace, pool))
        return made[-1]

    yield copy
    for one in made:
        one.stack.cancel()
        one.stack.destroy()


def words(run: Run) -> str:
    """The output with every run of white space as one space."""
    return " ".join(run.output.split())


def test_the_quickstart_is_previewed_deployed_edited_and_removed(example: Callable[[str], Example]) -> None:
    quickstart = example("quickstart")
    stack, namespace, pool = quickstart.stack, quickstart.namespace, quickstart.pool

    previewed = stack.preview().expect(0)
    for row in (
        "gpustack:index:InstanceType",
        f"kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue {pool}",
        f"kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue {namespace}/{pool}",
        "gpustack:index:ModelDeployment qwen-chat",
        "kubernetes:core/v1:Service qwen-chat",
        "kubernetes:core/v1:Service qwen-chat/server",
        f"{ROLLOUT} qwen-chat",
    ):
        assert row in previewed.output, previewed.output
    assert f"queue {pool} has 16 free of 16: all start at once" in words(previewed), previewed.output
    assert quickstart.leftovers() == [], "a preview touches nothing"

    stack.up().expect(0)
    assert stack.outputs()["endpoint"] == f"http://qwen-chat.{namespace}.svc:8000"
    assert quickstart.pods() == dict.fromkeys("0123", "vllm/vllm-openai:v0.25.1")

    again = stack.up("--expect-no-changes").expect(0)
    assert "turning over" not in again.output

    quickstart.edit("v0.25.1", "v0.25.2")
    ahead = stack.preview().expect(0)
    assert "server/3, server/2, server/1 and server/0 turn over one at a time" in words(ahead), ahead.output
    assert "engine.image" in ahead.output
    stack.up().expect(0)
    assert quickstart.pods() == dict.fromkeys("0123", "vllm/vllm-openai:v0.25.2")

    quickstart.edit("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen3-235B")
    refused = stack.preview()
    assert refused.code != 0
    assert "spec.model" in refused.output
    assert "(identity-model)" in refused.output
    assert "another deployment" in words(refused), "the way out is named"
    quickstart.edit("Qwen/Qwen3-235B", "Qwen/Qwen2.5-72B-Instruct")

    stack.destroy().expect(0)
    assert quickstart.leftovers() == []
    assert stack.resources() == []


def test_the_manifests_example_deploys_the_same_from_yaml(example: Callable[[str], Example]) -> None:
    manifests = example("manifests")
    label = f"{manifests.namespace}/qwen-chat"

    manifests.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifests.namespace}})
    manifests.stack.up().expect(0)
    assert manifests.stack.outputs()["endpoints"] == {label: f"http://qwen-chat.{manifests.namespace}.svc:8000"}
    assert len(manifests.pods()) == 4

    manifests.edit("replicas: 4", "replicas: 2", "deployments/qwen-chat.yaml")
    manifests.stack.up().expect(0)
    assert sorted(manifests.pods()) == ["0", "1"]

    manifests.stack.destroy().expect(0)
    manifests.cluster.delete(NAMESPACE, None, manifests.namespace)


def test_a_file_that_cannot_be_read_is_named_with_its_line(example: Callable[[str], Example]) -> None:
    manifests = example("manifests")
    (manifests.stack.program / "deployments" / "broken.yaml").write_text("kind: ModelDeployment\nspec: [1, 2\n")
    (manifests.stack.program / "deployments" / "other.yaml").write_text("kind: Deployment\nmetadata: {name: web}\n")

    run = manifests.stack.preview()

    assert run.code != 0
    assert "deployments/broken.yaml" in run.output
    assert "deployments/other.yaml:1: kind Deployment cannot be deployed" in run.output
    assert "Traceback" not in run.output


def test_the_pair_behind_a_router_is_deployed_answers_and_is_removed(example: Callable[[str], Example]) -> None:
    pair = example("prefill-decode")
    run = pair.stack.up().expect(0)

    endpoint = f"http://qwen-pd-router.{pair.namespace}.svc:8000"
    assert pair.stack.outputs()["endpoint"] == endpoint
    assert f"qwen-pd answers at {endpoint}" in words(run)
    selector = "app.kubernetes.io/component in (prefill,decode)"
    assert len(pair.cluster.list(POD, pair.namespace, selector).items) == 4

    pair.stack.destroy().expect(0)
    assert pair.leftovers() == []
