"""What a run asks before its first side effect, on the real API server with the real Kueue."""

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    Cluster,
    Json,
)
from gpustack_components.cluster.readings import at, condition
from gpustack_components.cluster.retrying import Patience
from gpustack_components.rollout.contract import RolloutRefused, Timeouts
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.preflight_kueue import WEBHOOKS, matches
from gpustack_components.rollout.record import record_name
from sandbox.cluster import Sandbox
from tests.e2e.engine import Stack
from tests.rollout.lab import NAME, OWNER, QUEUE, Lab, Role, wanted

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"


def refused(lab: Lab, cluster: Cluster | None = None, **roles: Role) -> tuple[str, ...]:
    """The sentences a run is refused with; it must have written nothing but reviews and dry runs."""
    asked = wanted(lab.namespace, roles)
    requests = {name: {GPU: Quantity(role.cards)} for name, role in roles.items()}
    desired = replace(
        asked.desired, roles=tuple(replace(role, requests=requests[role.name]) for role in asked.desired.roles)
    )
    lab.requests.clear()
    with pytest.raises(RolloutRefused) as refusal:
        converge(cluster or lab.cluster, replace(asked, desired=desired), timeouts=Timeouts(lease=1))
    assert [one for one in lab.requests if one.verb in ("update", "patch", "delete")] == []
    created = [one for one in lab.requests if one.verb == "create" and "AccessReview" not in one.subject]
    assert all(("dryRun", "All") in one.query for one in created), created
    assert lab.pods() == []
    return refusal.value.sentences


def test_a_queue_that_would_admit_nothing_is_named_with_the_way_out(lab: Lab) -> None:
    (sentence,) = refused(lab, server=Role())
    assert sentence == (
        f"LocalQueue {lab.namespace}/{QUEUE}, to which role server is submitted, does not exist: create it with the "
        "role's ClusterQueue behind it, or, where a Pulumi program declares it, `pulumi up --refresh` makes it again."
    )
    lab.open_queue(2)
    lab.unseen.patch(LOCAL_QUEUE, lab.namespace, QUEUE, [{"op": "add", "path": "/spec/stopPolicy", "value": "Hold"}])
    (sentence,) = refused(lab, server=Role())
    assert sentence.startswith(f"LocalQueue {lab.namespace}/{QUEUE} is stopped (spec.stopPolicy Hold)")
    lab.unseen.patch(LOCAL_QUEUE, lab.namespace, QUEUE, [{"op": "remove", "path": "/spec/stopPolicy"}])

    flavor = {"name": f"{lab.queue}-lost", "resources": [{"name": GPU, "nominalQuota": 2}]}
    group = {"coveredResources": [GPU], "flavors": [flavor]}
    lab.set_quota(2, resourceGroups=[group])
    lab.until(lambda: _active(lab.unseen, lab.queue) == "False")
    (sentence,) = refused(lab, server=Role())
    assert sentence.startswith(f"ClusterQueue {lab.queue} is not active and admits nothing: ")
    assert f"{lab.queue}-lost" in sentence and f"`kubectl describe clusterqueue {lab.queue}`" in sentence

    lab.unseen.delete(CLUSTER_QUEUE, None, lab.queue)
    lab.until(lambda: lab.unseen.get(CLUSTER_QUEUE, None, lab.queue) is None)
    (sentence,) = refused(lab, server=Role())
    lost = f"ClusterQueue {lab.queue}, to which LocalQueue {lab.namespace}/{QUEUE} leads, does not exist: create it, or"
    assert sentence.startswith(lost) and "`pulumi up --refresh`" in sentence


def test_a_replica_larger_than_the_queue_could_ever_give_is_refused(lab: Lab) -> None:
    lab.open_queue(3)
    sentences = refused(lab, server=Role(size=2, cards=2), small=Role())
    assert sentences == (
        f"role server: one replica asks for 4 {GPU} and ClusterQueue {lab.queue} has 3, so it is never admitted: raise "
        "the queue's quota, or ask for less.",
    )
    flavor = {"name": lab.queue, "resources": [{"name": GPU, "nominalQuota": 3, "borrowingLimit": 0}]}
    lab.set_quota(3, cohortName=lab.queue, resourceGroups=[{"coveredResources": [GPU], "flavors": [flavor]}])
    (sentence,) = refused(lab, server=Role(size=2, cards=2))
    assert "has 3, and borrows no more than 3 in all" in sentence


def test_a_flavor_without_a_node_for_the_pod_is_refused_unless_nodes_join_on_demand(lab: Lab) -> None:
    lab.open_queue(40)
    labels = [{"op": "add", "path": "/spec/nodeLabels", "value": {"gpu": "h21", "zone": "a"}}]
    lab.unseen.patch(RESOURCE_FLAVOR, None, lab.queue, labels)
    (sentence,) = refused(lab, server=Role())
    assert sentence.startswith(
        f"role server: a Pod would be admitted by ClusterQueue {lab.queue} and never run: no node carries the labels "
        f"gpu=h21,zone=a (ResourceFlavor {lab.queue})."
    )
    assert f"`kubectl annotate resourceflavor NAME {keys.NODES_ON_DEMAND}=true`" in sentence

    lab.unseen.patch(RESOURCE_FLAVOR, None, lab.queue, [{**labels[0], "value": {"gpu": "h20"}}])
    (sentence,) = refused(lab, server=Role(cards=9))
    assert f"the largest node with the labels gpu=h20 offers 8 {GPU}, of which a Pod asks 9" in sentence

    on_demand = {"op": "add", "path": "/metadata/annotations", "value": {keys.NODES_ON_DEMAND: "true"}}
    lab.unseen.patch(RESOURCE_FLAVOR, None, lab.queue, [labels[0], on_demand])
    quick = Timeouts(admission=5, ready=0, drain=20, lease=1)
    assert lab.up(server=Role(), timeouts=quick).phase == "Converged"


def _active(cluster: Cluster, queue: str) -> str:
    found = cluster.get(CLUSTER_QUEUE, None, queue)
    active = condition(found, "Active") if found is not None else None
    return active.status if active is not None else ""


@contextmanager
def identity(lab: Lab, kubeconfig: Path, rules: list[Json]) -> Generator[Cluster]:
    """A cluster as a user with these rights in the namespace alone sees it."""
    user = f"user-{uuid.uuid4().hex[:8]}"
    rbac = "rbac.authorization.k8s.io"
    for obj in (
        {"kind": "Role", "metadata": {"name": user, "namespace": lab.namespace}, "rules": rules},
        {
            "kind": "RoleBinding",
            "metadata": {"name": user, "namespace": lab.namespace},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        },
    ):
        lab.unseen.create({"apiVersion": f"{rbac}/v1", **obj})
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in config["users"]:
        entry["user"]["as"] = user
    yield connect(yaml.safe_dump(config), on_request=lab.requests.append)


def test_every_right_that_is_missing_is_named_at_once_also_when_reading_is_forbidden(
    lab: Lab, kubeconfig: Path
) -> None:
    lab.open_queue(2)
    everything = [
        {"apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list", "watch"]},
    ]
    with identity(lab, kubeconfig, everything) as cluster:
        sentences = refused(lab, cluster, server=Role(size=2))
    assert sentences == (
        f"these credentials may not delete workloads in namespace {lab.namespace}: grant a Role with apiGroups "
        "[kueue.x-k8s.io], resources [workloads], verbs [list, watch, delete].",
        f"these credentials may not delete leases in namespace {lab.namespace}: grant a Role with apiGroups "
        "[coordination.k8s.io], resources [leases], verbs [get, create, update, delete].",
    )
    with identity(lab, kubeconfig, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]) as cluster:
        sentences = refused(lab, cluster, server=Role())
    lacked = [
        sentence.partition(" in namespace")[0].removeprefix("these credentials may not ") for sentence in sentences
    ]
    assert lacked == [
        "watch, create, patch, delete pods",
        "list, watch, delete workloads",
        "list services",
        "get, create, update, delete configmaps",
        "get, create, update, delete leases",
    ]
    with identity(lab, kubeconfig, []) as cluster, pytest.raises(RolloutRefused) as refusal:
        teardown(cluster, lab.namespace, NAME, owner=OWNER, holder="a test")
    assert any("delete pods" in sentence for sentence in refusal.value.sentences)


def test_rights_that_suffice_are_enough_and_exactly_those_of_the_guide(lab: Lab, kubeconfig: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "own-cluster.md").read_text()
    blocks = [text.partition("\n")[2].partition("```")[0] for text in guide.split("```yaml")[1:]]
    role = next(block for block in map(yaml.safe_load, blocks) if block.get("kind") == "Role")
    lab.open_queue(2)
    with identity(lab, kubeconfig, role["rules"]) as cluster:
        first = lab.up(server=Role(size=2), cluster=cluster)
        assert first.phase == "Converged", first.reasons
        second = lab.up(server=Role("v2", size=2), cluster=cluster)
        assert second.phase == "Converged", second.reasons
        assert lab.down(cluster=cluster).phase == "Deleted"


def test_a_namespace_that_is_missing_or_leaving_is_refused(lab: Lab) -> None:
    elsewhere = f"gone-{uuid.uuid4().hex[:8]}"
    with pytest.raises(RolloutRefused, match=f"namespace {elsewhere} does not exist: create it"):
        converge(lab.cluster, wanted(elsewhere, {"server": Role()}))
    lab.unseen.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}})
    blocker = {"metadata": {"name": "held", "namespace": elsewhere, "finalizers": ["example.com/held"]}}
    lab.unseen.create({"apiVersion": "v1", "kind": "ConfigMap", **blocker})
    lab.unseen.delete(NAMESPACE, None, elsewhere)
    try:
        with pytest.raises(
            RolloutRefused, match=f"namespace {elsewhere} is being deleted: wait until it is gone .*`pulumi destroy`"
        ):
            converge(lab.cluster, wanted(elsewhere, {"server": Role()}))
    finally:
        lab.unseen.patch(CONFIG_MAP, elsewhere, "held", [{"op": "remove", "path": "/metadata/finalizers"}])


PROGRAM = f"""
import gpustack_components as gpustack

pool = {{
    "apiVersion": "worker.gpustack.ai/v1", "kind": "InstanceType", "metadata": {{"name": "any"}},
    "spec": {{"acceleratable": True, "acceleratorGroup": "nvidia-h20", "os": "linux", "arch": "amd64",
             "unitResources": {{"cpu": "1", "ram": "1Gi"}}, "localStorage": "1Gi"}},
    "status": {{"entrance": "{QUEUE}", "detail": {{"manufacturer": "nvidia"}}, "accelerator": {{"capacity": "2"}}}}}}
gpustack.ModelDeployment("{NAME}", namespace="kueue-system", bindings=[pool], spec={{
    "model": {{"name": "Qwen/Qwen3-8B"}}, "engine": {{"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"}},
    "roles": [{{"name": "server", "instanceType": "any", "resources": {{"accelerator": 1}}}}]}})
"""


@pytest.mark.engine
def test_a_kueue_that_takes_no_pods_in_is_found_out_before_anything_is_written(
    private_sandbox: Sandbox, tmp_path: Path
) -> None:
    lab = Lab(private_sandbox.kubeconfig, "kueue-system")
    file = private_sandbox.directory / "config" / "kueue.json"
    configuration = json.loads(file.read_text())
    lab.open_queue(2)

    def reason() -> str:
        (sentence,) = refused(lab, server=Role())
        return sentence

    outside = "Kueue does not take in Pods of namespace kueue-system, so they would run outside any quota: "
    said = reason()
    assert said.startswith(f"{outside}its labels do not match the namespaceSelector of webhook mpod.kb.io. Use another")

    hooks = "kueue-mutating-webhook-configuration"
    found = lab.unseen.get(WEBHOOKS, None, hooks)
    assert found is not None
    number = next(index for index, hook in enumerate(found["webhooks"]) if hook["name"] == "mpod.kb.io")
    path = f"/webhooks/{number}/namespaceSelector"
    lab.unseen.patch(WEBHOOKS, None, hooks, [{"op": "replace", "path": path, "value": {}}])
    lab.until(lambda: "either its Pod integration is off" in reason())
    stated = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": file.read_text()},
    }
    lab.unseen.create(stated)
    assert "do not match managedJobsNamespaceSelector in ConfigMap kueue-system/kueue-manager-config" in reason()

    configuration["integrations"]["frameworks"] = ["batch/job"]
    file.write_text(json.dumps(configuration))
    lab.unseen.apply({**stated, "data": {"controller_manager_config.yaml": json.dumps(configuration)}}, force=True)
    private_sandbox.restart("kueue")
    lab.until(lambda: "its Pod integration is off (integrations.frameworks in ConfigMap" in reason(), 60)
    assert "lists batch/job). Add pod to it and restart Kueue's controller." in reason()

    stack = Stack(tmp_path, private_sandbox.environment(tmp_path))
    stack.write(PROGRAM)
    refusal = f"{outside}its Pod integration is off"
    shown = " ".join(stack.preview().expect(0).output.split())
    assert f"as the cluster is now, an update would not begin: {refusal}" in shown
    run = stack.up()
    assert run.code != 0 and f"kueue-system/{NAME} was not begun: {refusal}" in " ".join(run.output.split())
    assert lab.pods() == [] and lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME)) is None

    private_sandbox.kill("kueue")
    hasty = connect(str(private_sandbox.kubeconfig), on_request=lab.requests.append, patience=Patience(2, 1.0))
    (said,) = refused(lab, hasty, server=Role())
    assert said.startswith("role server: a Pod could not be created now: Admission webhook mpod.kb.io did not answer")
    assert said.endswith("Is Kueue's controller running and ready?")

    lab.unseen.delete(WEBHOOKS, None, hooks)
    lab.until(lambda: "no webhook of Kueue for Pods is registered in this cluster" in reason())

    definition = "workloads.kueue.x-k8s.io"
    versions = at(lab.unseen.get(CUSTOM_RESOURCE_DEFINITION, None, definition), "spec", "versions")
    newest = next(index for index, version in enumerate(versions) if version["name"] == "v1beta2")
    unserved = {"op": "replace", "path": f"/spec/versions/{newest}/served", "value": False}
    lab.unseen.patch(CUSTOM_RESOURCE_DEFINITION, None, definition, [unserved])
    old = (
        "Kueue in this cluster is too old: it serves kueue.x-k8s.io/v1beta1 and not kueue.x-k8s.io/v1beta2. Upgrade to"
    )
    lab.until(lambda: reason().startswith(old))

    lab.unseen.delete(CUSTOM_RESOURCE_DEFINITION, None, definition)
    lab.until(lambda: reason().startswith("Kueue is not installed in this cluster: "))
    assert "Install Kueue 0.17 or newer with its Pod integration on." in reason()


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {}, True),
        ({}, {"a": "1"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_label_selectors_select_as_kubernetes_says(selector: Any, labels: dict[str, str], expected: bool) -> None:
    assert matches(selector, labels) is expected
