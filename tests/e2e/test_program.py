"""What a program may do with the components: share queues, pass Outputs and credentials, meet other owners."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpustack_components.api.names import entrance
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import LOCAL_QUEUE, POD
from sandbox.cluster import Sandbox
from tests.e2e.case import Case
from tests.e2e.engine import Stack

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
ROLLOUT = "pulumi-python:dynamic/gpustack:Rollout"
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"

VARIED = """
import json, os, pathlib
import pulumi
import pulumi_kubernetes as kubernetes
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
kubeconfig = pathlib.Path(case["kubeconfig"]).read_text() if case.get("kubeconfig") else None
cluster = {"kubeconfig": kubeconfig} if kubeconfig else {}
options = {}
if kubeconfig:
    options["provider"] = kubernetes.Provider("given", kubeconfig=pulumi.Output.secret(kubeconfig))
namespace = kubernetes.core.v1.Namespace(
    "namespace", metadata={"name": case["namespace"]}, opts=pulumi.ResourceOptions(**options))
later = namespace.id
values = {
    "<plain>": pulumi.Output.from_input("plain"),
    "<later>": later,
    "<later argument>": later.apply(lambda _: "--max-model-len=4096"),
    "<secret>": pulumi.Output.secret("hunter2"),
}

def filled(value):
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item) for item in value]
    return values.get(value, value) if isinstance(value, str) else value

pool = gpustack.InstanceType(
    case["pool"], manufacturer="nvidia", cards_per_node=case["cards"], nodes=1,
    unit_resources={"cpu": "2", "ram": "4Gi"}, node_labels={"gpu": "h20"}, **cluster)
for name, spec in case["deployments"].items():
    deployment = gpustack.ModelDeployment(
        name, namespace=case["namespace"], spec=filled(spec), bindings=[pool], timeouts=case["timeouts"],
        opts=pulumi.ResourceOptions(depends_on=[namespace]), **cluster)
    pulumi.export(name, deployment.phase)
"""


def varied(case: Case, **values: Any) -> Stack:
    """The case's stack with the program that fills words in."""
    case.change(**values)
    case.stack.write(VARIED)
    return case.stack


def test_deployments_of_a_namespace_share_a_queue_that_outlives_whoever_asked_first(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(1), name="first")
    case.deploy(case.role(1), name="second")
    case.stack.up().expect(0)
    (queue,) = case.stack.resources(QUEUE)
    assert "ModelDeployment" not in queue.get("parent", "")
    uid = queue["outputs"]["metadata"]["uid"]
    running = {
        pod["metadata"]["uid"] for pod in case.pods() if pod["metadata"]["labels"][keys.APP_INSTANCE] == "second"
    }

    del case.values["deployments"]["first"]
    case.save()
    case.stack.up().expect(0)

    (kept,) = case.stack.resources(QUEUE)
    assert kept["outputs"]["metadata"]["uid"] == uid
    assert case.uids() == running


def test_a_queue_that_somebody_else_made_is_used_as_it_is_and_left_alone(new_case: NewCase) -> None:
    case = new_case(cards=1)
    case.stack.up().expect(0)  # the namespace and the pool alone
    name = entrance(case.pool)
    queue = {
        "apiVersion": LOCAL_QUEUE.api_version,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": case.namespace},
        "spec": {"clusterQueue": case.pool},
    }
    uid = case.cluster.create(queue)["metadata"]["uid"]

    case.deploy(case.role(1))
    case.stack.up().expect(0)
    assert case.stack.resources(QUEUE) == []
    case.values["deployments"].clear()
    case.save()
    case.stack.up().expect(0)

    left = case.cluster.get(LOCAL_QUEUE, case.namespace, name)
    assert left is not None and left["metadata"]["uid"] == uid
    assert case.pods() == []


def test_a_deployment_of_another_stack_is_refused_in_preview_naming_both(
    new_case: NewCase, new_stack: Callable[[str], Stack], sandbox: Sandbox
) -> None:
    mine = new_case(cards=1)
    mine.deploy(mine.role(1))
    mine.stack.up().expect(0)

    theirs = Case(new_stack("theirs"), sandbox, cards=1)
    theirs.namespace = theirs.values["namespace"] = mine.namespace
    theirs.deploy(theirs.role(1))
    run = theirs.stack.preview()

    # Both stacks are called e2e/test, so the second one's owner is renamed to meet the first as a stranger.
    assert run.code == 0, run.output
    theirs.stack.write(
        "from gpustack_components.components import program\n"
        "program.stack_owner = lambda: 'pulumi stack acme/other/prod'\n"
        + (theirs.stack.program / "__main__.py").read_text()
    )
    run = theirs.stack.preview()
    assert run.code != 0
    assert "belongs to pulumi stack organization/e2e/test, not to pulumi stack acme/other/prod" in run.output


def test_an_output_that_is_known_later_is_previewed_as_such_and_rolled_out(new_case: NewCase) -> None:
    case = new_case(cards=1)
    env = [{"name": "RUN", "value": "<later>"}, {"name": "PLAIN", "value": "<plain>"}]
    case.deploy(case.role(1, env=env, extraArgs=["<later argument>"]))
    case.values["deployments"]["qwen"]["router"] = {"name": "vllm-router", "image": "<later>"}
    stack = varied(case)

    previewed = stack.preview().expect(0)
    hidden = "spec.roles[0].env[0].value, spec.roles[0].extraArgs[0], spec.router.image"
    assert f"the plan is not known before the update: {hidden}" in previewed.output
    assert "kubernetes:core/v1:Service qwen/server create" in previewed.output
    assert "kubernetes:apps/v1:Deployment qwen/router create" in previewed.output

    stack.up().expect(0)
    (router,) = case.cluster.list(POD, case.namespace, keys.ROUTER).items
    assert router["spec"]["containers"][0]["image"] == case.namespace
    (pod,) = case.cluster.list(POD, case.namespace, keys.POD_ORDINAL).items
    container = pod["spec"]["containers"][0]
    assert "--max-model-len=4096" in container["command"]
    assert {"name": "PLAIN", "value": "plain"} in container["env"]
    stack.up("--expect-no-changes").expect(0)


def test_a_secret_in_a_spec_is_refused_and_never_written_down(new_case: NewCase) -> None:
    case = new_case(cards=1)
    case.deploy(case.role(1, env=[{"name": "HF_TOKEN", "value": "<secret>"}]))
    stack = varied(case)

    for run in (stack.preview(), stack.up()):
        assert run.code != 0
        assert "spec.roles[0].env[0].value: is a secret value" in run.output
        assert "hunter2" not in run.output
    assert "hunter2" not in json.dumps(stack.state())
    assert case.pods() == []


def test_a_kubeconfig_argument_reaches_every_child_and_stays_out_of_plain_sight(
    new_case: NewCase, sandbox: Sandbox
) -> None:
    case = new_case(cards=1)
    case.deploy(case.role(1))
    ambient = case.stack.environment["KUBECONFIG"]
    case.stack.environment["KUBECONFIG"] = "/nonexistent"
    stack = varied(case, kubeconfig=str(sandbox.kubeconfig))

    up = stack.up().expect(0)
    secret = yaml.safe_load(sandbox.kubeconfig.read_text())["users"][0]["user"]["client-key-data"]
    state = (stack.directory / "state").rglob("*.json")
    assert all(secret not in path.read_text() for path in state if path.is_file())
    assert secret not in up.output
    assert len(case.pods()) == 1
    stack.up("--expect-no-changes").expect(0)

    stack.destroy().expect(0)
    assert case.leftovers() == []
    stack.environment["KUBECONFIG"] = ambient


def test_a_refresh_after_everything_was_removed_by_hand_forgets_it_and_up_makes_it_again(new_case: NewCase) -> None:
    from gpustack_components.rollout.converge import teardown

    case = new_case(cards=1)
    case.deploy(case.role(1))
    case.stack.up().expect(0)
    (kept,) = case.stack.resources(ROLLOUT)
    teardown(case.cluster, case.namespace, "qwen", owner=kept["outputs"]["owner"], holder="a test")

    case.stack.refresh().expect(0)
    assert case.stack.resources(ROLLOUT) == []

    case.stack.up().expect(0)
    assert len(case.pods()) == 1


def test_a_pod_lost_since_the_last_up_is_shown_by_preview_and_repaired_by_up(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(2))
    case.stack.up().expect(0)
    victim, survivor = case.pods()
    case.cluster.delete(POD, case.namespace, victim["metadata"]["name"])

    previewed = case.stack.preview().expect(0)
    assert f"{ROLLOUT} qwen update" in previewed.output
    case.stack.up().expect(0)
    assert survivor["metadata"]["uid"] in case.uids() and len(case.pods()) == 2


def test_a_destroy_that_was_interrupted_keeps_the_deployment_in_state_and_is_taken_up_again(new_case: NewCase) -> None:
    case = new_case(cards=2, exit_after=8)
    case.deploy(case.role(2))
    case.stack.up().expect(0)

    running = case.stack.start("destroy", "--stack", case.stack.name, "--yes", "--skip-preview")
    running.wait_for_text("removing")
    running.signal()
    stopped = running.wait()
    assert stopped.code != 0
    assert "is not removed yet" in stopped.output
    assert "Traceback" not in stopped.output
    assert len(case.stack.resources(ROLLOUT)) == 1

    case.stack.destroy().expect(0)
    assert case.leftovers() == []
