"""Bad weather as a person meets it in `pulumi up`: rivals that preempt, and Pods that hang."""

from collections.abc import Callable

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CLUSTER_QUEUE, LOCAL_QUEUE, POD, Kind
from gpustack_components.cluster.readings import name, ordinal, terminating, uid
from tests.e2e.case import NEW, Case

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
PRIORITY = Kind("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
HANG = "/metadata/annotations/sandbox.gpustack.ai~1hang"


def preempt(case: Case) -> None:
    """A Pod of higher priority asks for the card of one replica."""
    (queue,) = case.cluster.list(LOCAL_QUEUE, case.namespace).items
    change = [{"op": "add", "path": "/spec/preemption", "value": {"withinClusterQueue": "LowerPriority"}}]
    case.cluster.patch(CLUSTER_QUEUE, None, case.pool, change)
    kind = {"apiVersion": PRIORITY.api_version, "kind": PRIORITY.kind, "metadata": {"name": case.pool}}
    case.cluster.create({**kind, "value": 100, "description": "of a test"})
    labels = {keys.QUEUE_NAME: name(queue), "kueue.x-k8s.io/priority-class": case.pool}
    card = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "theirs", "resources": {"requests": card, "limits": card}}
    case.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "rival", "namespace": case.namespace, "labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 5},
        }
    )


def test_a_preemption_in_mid_rollout_ends_the_run_with_kueues_words_and_the_next_up_completes_it(
    new_case: NewCase,
) -> None:
    case = new_case(cards=3, exit_after=1)
    case.change(timeouts={"admission": "15s", "ready": "60s", "drain": "60s"})
    case.deploy(case.role(3))
    case.stack.up().expect(0)

    case.edit_image(NEW)
    with case.watched() as timeline:
        running = case.stack.start_up()
        running.wait_for_text("turning over")
        preempt(case)
        waiting = running.wait(180)
        assert waiting.code != 0, waiting.output
        said = " ".join(waiting.output.split())
        assert "qwen did not converge:" in said
        assert "not admitted after 15 s" in said and "insufficient unused quota for nvidia.com/gpu" in said
        assert "Free or raise the queue's quota, or lower replicas, then run again" in said

        case.cluster.delete(POD, case.namespace, "rival")
        case.change(timeouts={"admission": "60s", "ready": "60s", "drain": "60s"})
        case.stack.up().expect(0)
    case.cluster.delete(PRIORITY, None, case.pool)

    assert case.images() == {f"server/{number}/0": NEW for number in range(3)}
    assert timeline.most_on_one_seat() == 1
    assert timeline.fewest_admitted("server", after=3) >= 1, "one for the rollout, one for the rival"


def test_a_pod_that_hangs_ends_the_run_by_its_name_and_the_next_up_completes_once_it_is_gone(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(2, terminationGracePeriodSeconds=15))
    case.stack.up().expect(0)
    case.change(timeouts={"admission": "60s", "ready": "60s", "drain": "0s"})
    hanging, other = sorted(case.pods(), key=lambda pod: ordinal(pod) or 0, reverse=True)

    def hangs(operation: str, of: str) -> None:
        case.cluster.patch(POD, case.namespace, of, [{"op": operation, "path": HANG, "value": "true"}])

    hangs("add", name(hanging))
    case.edit_image(NEW)
    stuck = case.stack.up()
    assert stuck.code != 0
    said = " ".join(stuck.output.split())
    assert f"it still waits for Pod {name(hanging)} on " in said and "(timeouts.drain 0.0 s)" in said
    assert "It is never deleted by force" in said and "`kubectl delete node NODE` releases it" in said
    assert {uid(pod): terminating(pod) for pod in case.pods()} == {uid(hanging): True, uid(other): False}

    hangs("remove", name(hanging))
    case.change(timeouts={"admission": "60s", "ready": "60s", "drain": "60s"})
    case.stack.up().expect(0)
    assert case.images() == {"server/0/0": NEW, "server/1/0": NEW}
