"""What is done to a stack that stands: parts of it are targeted, refreshed, renamed, moved, handed over."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    CONFIG_MAP,
    LEASE,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    SERVICE,
    Cluster,
)
from gpustack_components.cluster.readings import annotation, label, name, uid
from gpustack_components.rollout.contract import SystemClock
from gpustack_components.rollout.lease import DriverLease
from gpustack_components.rollout.liveness import Holder
from gpustack_components.rollout.quota import Queue
from gpustack_components.rollout.record import record_name
from sandbox.cluster import Sandbox
from tests.e2e.case import NEW, OLD, Case
from tests.e2e.engine import Run, Stack

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
ROLLOUT = "pulumi-python:dynamic/gpustack:Rollout"
COMPONENT = "gpustack:index:ModelDeployment"


def running(cluster: Cluster, namespace: str) -> dict[str, tuple[str, str]]:
    """Uid and image of the one Pod of each deployment."""
    return {
        label(pod, keys.APP_INSTANCE) or "": (uid(pod), pod["spec"]["containers"][0]["image"])
        for pod in cluster.list(POD, namespace).items
    }


def words(run: Run) -> str:
    """The output with every run of white space as one space."""
    return " ".join(run.output.split())


def test_targets_and_refreshes_touch_what_they_name_and_repair_what_is_gone(new_case: NewCase) -> None:
    case = new_case(cards=2)
    stack = case.stack

    def now() -> dict[str, tuple[str, str]]:
        return running(case.cluster, case.namespace)

    for deployment in ("qwen", "llama"):
        case.deploy(case.role(1), name=deployment)
    stack.up().expect(0)
    first = now()

    case.edit_image(NEW)
    stack.up("--target", "**::namespace").expect(0)
    assert now() == first, "another resource was the target"
    stack.up("--target", "**::qwen").expect(0)
    assert now()["llama"] == first["llama"] and now()["qwen"][1] == NEW
    stack.up("--target", f"**{COMPONENT}::llama", "--target-dependents").expect(0)
    assert {image for _, image in now().values()} == {NEW}

    (victim,) = (pod for pod in case.pods() if label(pod, keys.APP_INSTANCE) == "qwen")
    case.cluster.delete(POD, case.namespace, name(victim))
    case.cluster.delete(SERVICE, case.namespace, "llama-server")
    left = Holder("a run before", "token", Holder.here("").machine, 1, "1")
    DriverLease(case.cluster, case.namespace, record_name("llama"), left, SystemClock()).acquire()
    stack.refresh().expect(0)
    rollouts = {one["urn"].rsplit("::", 1)[1]: one["outputs"] for one in stack.resources(ROLLOUT)}
    assert rollouts["qwen"]["phase"] == "Incomplete" and rollouts["llama"]["phase"] == "Converged"
    assert any("server/0" in reason for reason in rollouts["qwen"]["reasons"])
    assert "the Lease of a run that was killed is removed" in words(stack.up().expect(0))
    assert now()["llama"][1] == now()["qwen"][1] == NEW
    assert case.cluster.get(SERVICE, case.namespace, "llama-server") is not None
    assert case.cluster.get(LEASE, case.namespace, record_name("llama")) is None

    case.cluster.delete(CONFIG_MAP, case.namespace, record_name("llama"))
    before = now()
    stack.up("--refresh").expect(0)
    assert now()["qwen"] == before["qwen"] and now()["llama"][0] != before["llama"][0]

    stack.destroy("--target", f"**{COMPONENT}::qwen", "--target-dependents").expect(0)
    assert set(now()) == {"llama"}
    assert {one["urn"].rsplit("::", 1)[1] for one in stack.resources(ROLLOUT)} == {"llama"}


SHARED = """
import json, pathlib
import pulumi
import pulumi_kubernetes as kubernetes
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
mine = case["stacks"][pulumi.get_stack()]
depends_on, pool = [], case["type"]
if mine["base"]:
    depends_on = [kubernetes.core.v1.Namespace("namespace", metadata={"name": case["namespace"]})]
    pool = gpustack.InstanceType.from_document(case["type"])
for name in mine["deployments"]:
    gpustack.ModelDeployment(
        name, namespace=case["namespace"], spec=case["spec"], bindings=[pool], timeouts={"admission": "20s"},
        opts=pulumi.ResourceOptions(depends_on=depends_on, retain_on_delete=mine.get("retain", False)))
"""


class Handover:
    """One deployment in a namespace, and the stacks between which it changes hands."""

    def __init__(self, stack: Stack, sandbox: Sandbox) -> None:
        identity = uuid.uuid4().hex[:8]
        self.stack = stack
        self.cluster = connect(str(sandbox.kubeconfig))
        self.namespace, self.pool = f"e2e-{identity}", f"pool-{identity}"
        pool = {
            "apiVersion": "worker.gpustack.ai/v1",
            "kind": "InstanceType",
            "metadata": {
                "name": self.pool,
                "annotations": {keys.NODES: "1", keys.NODE_LABELS: "gpu=h20"},
            },
            "spec": {
                "acceleratable": True,
                "acceleratorGroup": "nvidia-h20",
                "os": "linux",
                "arch": "amd64",
                "unitResources": {"cpu": "2", "ram": "4Gi"},
                "localStorage": "1Gi",
            },
            "status": {"detail": {"manufacturer": "nvidia"}, "accelerator": {"capacity": "1"}},
        }
        role = {"name": "server", "instanceType": self.pool, "resources": {"accelerator": 1}}
        self.case: dict[str, Any] = {
            "namespace": self.namespace,
            "type": pool,
            "spec": {
                "model": {"name": "Qwen/Qwen3-8B"},
                "engine": {"name": "vLLM", "image": OLD},
                "roles": [role],
            },
            "stacks": {},
        }

    def declare(self, stack: str, *deployments: str, base: bool = False, retain: bool = False) -> None:
        """What a stack's program declares from now on."""
        self.case["stacks"][stack] = {"base": base, "deployments": deployments, "retain": retain}
        (self.stack.program / "case.json").write_text(json.dumps(self.case))

    def owner(self) -> str:
        """Whose the record is."""
        record = self.cluster.get(CONFIG_MAP, self.namespace, record_name("qwen"))
        return annotation(record or {}, keys.OWNER) or ""


def test_a_deployment_outlives_the_renaming_of_its_stack_a_move_and_a_release(
    new_stack: Callable[[str], Stack], sandbox: Sandbox
) -> None:
    one = new_stack("handover")
    of = Handover(one, sandbox)
    one.write(SHARED)
    of.declare("test", "qwen", base=True)
    kueue = "kueue.x-k8s.io/v1beta2"
    flavor = {"name": of.pool, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 4}]}
    by_hand = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]}
    of.cluster.create({"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": of.pool}, "spec": by_hand})
    one.run("config", "set", "--stack", "test", "--path", "gpustack-components:adopt[0]", "").expect(0)
    one.up().expect(0)
    taken = of.cluster.get(CLUSTER_QUEUE, None, of.pool) or {}
    assert annotation(taken, keys.OWNER) == "pulumi stack organization/e2e/test"
    assert str(Queue.of(taken).nominal["nvidia.com/gpu"]) == "1"
    pods = running(of.cluster, of.namespace)
    former = "pulumi stack organization/e2e/test"
    assert of.owner() == former

    one.run("stack", "rename", "renamed", "--stack", "test").expect(0)
    one.name = "renamed"
    of.declare("renamed", "qwen", base=True)
    refused = one.preview()
    assert refused.code != 0
    adopt = f"`pulumi config set --path 'gpustack-components:adopt[0]' '{former}'`"
    assert adopt in words(refused), refused.output
    one.run("config", "set", "--stack", "renamed", "--path", "gpustack-components:adopt[0]", former).expect(0)
    assert f"taken over from {former}; its Pods go on" in words(one.up().expect(0))
    assert running(of.cluster, of.namespace) == pods
    assert of.owner() == "pulumi stack organization/e2e/renamed"

    two = Stack(one.directory, sandbox.environment(one.directory), name="second")
    two.run("stack", "init", "second").expect(0)
    moved = [r["urn"] for r in one.resources() if "::qwen" in r["urn"] or r["type"].endswith(":LocalQueue")]
    one.run("state", "move", "--yes", "--source", "renamed", "--dest", "second", *moved).expect(0)
    of.declare("renamed", base=True)
    of.declare("second", "qwen")
    adopted = "pulumi stack organization/e2e/renamed"
    two.run("config", "set", "--stack", "second", "--path", "gpustack-components:adopt[0]", adopted).expect(0)
    two.up().expect(0)
    one.up().expect(0)
    assert running(of.cluster, of.namespace) == pods
    assert of.owner() == "pulumi stack organization/e2e/second"
    (queue,) = of.cluster.list(LOCAL_QUEUE, of.namespace).items
    assert annotation(queue, keys.OWNER) == of.owner()
    two.preview("--expect-no-changes").expect(0)

    of.declare("second", "qwen", retain=True)
    two.up().expect(0)
    of.declare("second")
    two.up().expect(0)
    assert running(of.cluster, of.namespace) == pods, "retained"
    of.declare("renamed", "qwen", base=True)
    annotated = f"/metadata/annotations/{keys.OWNER.replace('/', '~1')}"
    of.cluster.patch(CONFIG_MAP, of.namespace, record_name("qwen"), [{"op": "remove", "path": annotated}])
    assert "taken over from nobody: its record is free; its Pods go on" in words(one.up().expect(0))
    assert running(of.cluster, of.namespace) == pods
    assert of.owner() == "pulumi stack organization/e2e/renamed"

    one.destroy().expect(0)
    assert of.cluster.list(POD, of.namespace).items == ()
    two.destroy().expect(0)


def test_a_namespace_that_is_deleted_under_a_stack_does_not_keep_it_from_being_destroyed(new_case: NewCase) -> None:
    case = new_case(cards=1, exit_after=2)
    case.deploy(case.role(1))
    case.stack.up().expect(0)
    case.cluster.delete(NAMESPACE, None, case.namespace)
    case.stack.destroy().expect(0)
    assert case.leftovers() == []


MANY = """
import json, pathlib
import pulumi
import pulumi_kubernetes as kubernetes
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
namespace = kubernetes.core.v1.Namespace("namespace", metadata={"name": case["namespace"]})
pool = gpustack.InstanceType(
    case["pool"], cores_per_node=64, nodes=1, unit_resources={"cpu": "1", "ram": "1Gi"},
    node_labels={"kubernetes.io/hostname": "cpu-0"})
for name, replicas in (("solo", 1), ("many", 8)):
    gpustack.ModelDeployment(
        name, namespace=case["namespace"], bindings=[pool], opts=pulumi.ResourceOptions(depends_on=[namespace]),
        spec={"model": {"name": "m"}, "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
              "roles": [{"name": "server", "replicas": replicas, "instanceType": case["pool"]}]})
"""


def test_the_state_of_a_deployment_does_not_grow_with_its_replicas(new_case: NewCase) -> None:
    case = new_case(cards=1)
    case.stack.write(MANY)
    case.stack.up().expect(0)
    size = {
        name: sum(len(json.dumps(one)) for one in case.stack.resources() if f"::{name}" in one["urn"])
        for name in ("solo", "many")
    }
    assert len(case.pods()) == 9
    assert abs(size["many"] - size["solo"]) < 40, f"more than digits and a plural: {size}"
