"""What keeps a run from beginning, and what it waits for too long: in the preview, and by `up` with the way out."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpustack_components.cluster.port import CLUSTER_QUEUE
from gpustack_components.cluster.readings import name
from sandbox.cluster import Sandbox
from tests.e2e.case import NEW, PROGRAM, Case, audit_position, audited
from tests.e2e.engine import Run
from tests.rollout.lab import seconds_waited

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
ROLLOUT = "pulumi-python:dynamic/gpustack:Rollout"
PREFIX = "as the cluster is now, an update would not begin: "


def words(run: Run) -> str:
    """The output with every run of white space as one space."""
    return " ".join(run.output.split())


def acted(sandbox: Sandbox, namespace: str, since: int) -> list[str]:
    """What was done to what a rollout drives; dry runs do nothing."""
    return [
        f"{event['verb']} {event['objectRef']['resource']}"
        for event in audited(sandbox, namespace, since)
        if event["verb"] not in ("get", "list", "watch")
        and event["objectRef"]["resource"] in ("pods", "configmaps", "leases", "workloads")
        and "dryRun=All" not in event["requestURI"]
        and event["objectRef"].get("name") != "kube-root-ca.crt"
    ]


def restricted(sandbox: Sandbox, case: Case) -> Path:
    """A kubeconfig of somebody who may read everything and write no Pods, records and Leases."""
    user = f"reader-{uuid.uuid4().hex[:8]}"
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "kueue.x-k8s.io"], "resources": ["services", "localqueues"], "verbs": ["*"]},
    ]
    case.cluster.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules})
    case.cluster.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }
    )
    config = yaml.safe_load(sandbox.kubeconfig.read_text())
    for entry in config["users"]:
        entry["user"]["as"] = user
    path = case.stack.directory / "restricted.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_what_would_keep_an_update_from_beginning_is_a_warning_first_and_then_refused_before_any_write(
    new_case: NewCase, sandbox: Sandbox
) -> None:
    case = new_case(cards=1)
    case.deploy(case.role(1))
    first = case.stack.preview().expect(0)
    assert "does not exist" not in first.output and PREFIX not in words(first), "the program makes what is missing"
    case.stack.write(PROGRAM.replace("depends_on=[namespace]", "depends_on=[]"))
    alone = words(case.stack.preview().expect(0))
    assert f"warning: namespace {case.namespace} does not exist, and nothing in depends_on of opts makes it" in alone
    other = PROGRAM.replace('"name": case["namespace"]', '"name": case["namespace"] + "-other"')
    case.stack.write(other)
    beside = words(case.stack.preview().expect(0))
    assert f"nothing in depends_on of opts makes it, only {case.namespace}-other: create it" in beside
    case.stack.write(PROGRAM)
    case.stack.up().expect(0)

    case.edit(replicas=2, size=2)
    hold = {"op": "add", "path": "/spec/stopPolicy", "value": "Hold"}
    case.cluster.patch(CLUSTER_QUEUE, None, case.pool, [hold])
    before, position = case.uids(), audit_position(sandbox)
    stopped = f"ClusterQueue {case.pool} is stopped (spec.stopPolicy Hold) and would admit no replacement"
    assert f"{PREFIX}{stopped}" in words(case.stack.preview().expect(0))
    refused = case.stack.up()
    assert refused.code != 0 and f"{case.namespace}/qwen was not begun: {stopped}" in words(refused)
    assert "Traceback" not in refused.output

    case.cluster.patch(CLUSTER_QUEUE, None, case.pool, [{"op": "remove", "path": "/spec/stopPolicy"}])
    refused = case.stack.up()
    large = f"role server: one replica asks for 2 nvidia.com/gpu and ClusterQueue {case.pool} has 1"
    assert refused.code != 0 and large in words(refused)

    ambient = case.stack.environment["KUBECONFIG"]
    case.stack.environment["KUBECONFIG"] = str(restricted(sandbox, case))
    case.edit(replicas=1, size=1)
    case.edit_image(NEW)
    lacking = f"these credentials may not create, patch, delete pods in namespace {case.namespace}"
    shown = words(case.stack.preview().expect(0))
    assert f"{PREFIX}{lacking}" in shown and "may not create, update, delete leases" in shown
    refused = case.stack.up()
    assert refused.code != 0 and f"was not begun: {lacking}" in words(refused)
    case.stack.environment["KUBECONFIG"] = ambient

    assert acted(sandbox, case.namespace, position) == []
    assert case.uids() == before


def test_a_timeout_ends_the_run_with_what_waits_and_the_commands_that_help_and_keeps_everything(
    new_case: NewCase,
) -> None:
    case = new_case(cards=1)
    case.change(annotations={**case.values["annotations"], "sandbox.gpustack.ai/ready-after": "never"})
    case.change(timeouts={"admission": "60s", "ready": "2s"})
    case.deploy(case.role(1))

    def ended(run: Run) -> str:
        assert run.code != 0, run.output
        assert "qwen did not converge:" in run.output
        assert "Everything is kept as it is; the next `pulumi up` resumes where this one stopped." in words(run)
        (kept,) = case.stack.resources(ROLLOUT)
        assert kept["outputs"]["phase"] == "Incomplete"
        (reason,) = kept["outputs"]["reasons"]
        assert " ".join(reason.split()) in words(run)
        return reason

    reason = ended(case.stack.up())
    (pod,) = case.pods()
    assert "qwen server/0: admitted, not ready after " in reason and "(timeouts.ready 2.0 s)" in reason
    assert seconds_waited(reason) >= 2
    assert f"`kubectl -n {case.namespace} logs {name(pod)}`" in reason
    assert f"`kubectl -n {case.namespace} describe pod {name(pod)}`" in reason

    case.change(timeouts={"admission": "2s", "ready": "2s"})
    case.edit(replicas=2)
    reason = ended(case.stack.up())
    assert "qwen server/1: not admitted after " in reason and "(timeouts.admission 2.0 s)" in reason
    assert seconds_waited(reason) >= 2
    assert "insufficient unused quota for nvidia.com/gpu" in reason
    assert f"`kubectl -n {case.namespace} describe workload " in reason
    assert len(case.pods()) == 2
