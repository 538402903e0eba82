"""The whole driver on a real API server, Kueue, scheduler and garbage collector."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import CONFIG_MAP, LEASE, POD, SERVICE
from gpustack_components.cluster.readings import annotation, name, ordinal, terminating, uid
from gpustack_components.rollout.contract import RolloutRefused, Timeouts
from gpustack_components.rollout.converge import converge
from gpustack_components.rollout.record import Record, record_name
from tests.rollout.lab import (
    EXIT_AFTER,
    EXIT_CODE,
    HANG,
    NAME,
    OWNER,
    QUEUE,
    READY_AFTER,
    Lab,
    Role,
    seconds_waited,
    wanted,
)

pytestmark = pytest.mark.cluster
ENDINGS = pytest.mark.parametrize("code", ["0", "1"], ids=["exit 0", "exit 1"])


@ENDINGS
@pytest.mark.parametrize("size", [1, 2], ids=["one Pod", "two Pods"])
def test_three_replicas_roll_one_at_a_time_highest_first(lab: Lab, code: str, size: int) -> None:
    lab.open_queue(3 * size)
    ends = {EXIT_CODE: code, EXIT_AFTER: "0.3"}
    first = lab.up(server=Role("v1", replicas=3, size=size, annotations=ends))
    assert first.phase == "Converged", first.reasons
    assert lab.configs() == {0: ["v1"] * size, 1: ["v1"] * size, 2: ["v1"] * size}
    lab.requests.clear()
    with lab.watching(lab.admitted_uids) as seen:
        second = lab.up(server=Role("v2", replicas=3, size=size, annotations=ends))
    assert second.phase == "Converged", second.reasons
    assert lab.configs() == {0: ["v2"] * size, 1: ["v2"] * size, 2: ["v2"] * size}
    assert len(seen) > 5 and min(seen) >= 2
    turned = [line.split()[1] for line in lab.lines if "turning over" in line]
    assert turned == ["server/2", "server/1", "server/0"]
    assert len(lab.workloads()) == 3
    once = 25
    assert len(lab.requests) <= once + 3 * (12 + 4 * size), [f"{r.verb} {r.subject}" for r in lab.requests]
    gone = lab.down()
    assert gone.phase == "Deleted", gone.reasons
    assert lab.pods() == [] and lab.workloads() == []
    assert lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME)) is None
    assert lab.unseen.get(LEASE, lab.namespace, record_name(NAME)) is None
    assert lab.unseen.list(SERVICE, lab.namespace).items == ()


def test_a_run_without_an_edit_takes_no_write_and_watches_nothing(lab: Lab) -> None:
    lab.open_queue(2)
    lab.up(server=Role(replicas=2))
    lab.requests.clear()
    again = lab.up(server=Role(replicas=2))
    assert again.phase == "Converged" and not again.wrote
    assert lab.writes() == []
    assert not [request for request in lab.requests if request.verb == "watch"]


def test_scaling_touches_no_survivor_and_waits_for_what_has_no_quota(lab: Lab) -> None:
    lab.open_queue(4)
    lab.up(server=Role(replicas=3))
    before = {ordinal(pod): uid(pod) for pod in lab.pods()}
    short = lab.up(server=Role(replicas=5), timeouts=Timeouts(admission=5, ready=5, lease=1))
    assert short.phase == "Incomplete"
    (reason,) = short.reasons
    assert reason.startswith("qwen server/4: not admitted after ") and "insufficient unused quota" in reason
    assert seconds_waited(reason) >= 5
    assert len(lab.pods()) == 5 and lab.admitted_uids() == 4
    lab.set_quota(5)
    full = lab.up(server=Role(replicas=5))
    assert full.phase == "Converged", full.reasons
    down = lab.up(server=Role(replicas=2))
    assert down.phase == "Converged", down.reasons
    after = {ordinal(pod): uid(pod) for pod in lab.pods()}
    assert after == {number: before[number] for number in (0, 1)}
    assert len(lab.workloads()) == 2


@ENDINGS
def test_a_pod_deleted_by_hand_is_cleared_and_created_again(lab: Lab, code: str) -> None:
    lab.open_queue(2)
    role = Role(replicas=2, annotations={EXIT_CODE: code})
    lab.up(server=role)
    lost = next(pod for pod in lab.pods() if ordinal(pod) == 1)
    kept = next(uid(pod) for pod in lab.pods() if ordinal(pod) == 0)
    lab.unseen.delete(POD, lab.namespace, name(lost))
    repaired = lab.up(server=role)
    assert repaired.phase == "Converged", repaired.reasons
    assert {uid(pod) for pod in lab.pods() if ordinal(pod) == 0} == {kept}
    assert uid(lost) not in {uid(pod) for pod in lab.pods()}
    assert lab.admitted_uids() == 2


@ENDINGS
def test_a_replica_that_lost_a_member_is_rebuilt_whole(lab: Lab, code: str) -> None:
    lab.open_queue(4)
    role = Role(replicas=2, size=2, annotations={EXIT_CODE: code})
    lab.up(server=role)
    old = {uid(pod) for pod in lab.pods() if ordinal(pod) == 0}
    lab.unseen.delete(POD, lab.namespace, f"{NAME}-server-r0-m1")
    repaired = lab.up(server=role)
    assert repaired.phase == "Converged", repaired.reasons
    assert not old & {uid(pod) for pod in lab.pods()}
    assert lab.admitted_uids() == 2


def test_a_size_edit_replaces_replicas_whole(lab: Lab) -> None:
    lab.open_queue(6)
    lab.up(server=Role(replicas=2, size=3))
    resized = lab.up(server=Role(replicas=2, size=1))
    assert resized.phase == "Converged", resized.reasons
    assert len(lab.pods()) == 2 and {annotation(pod, keys.GROUP_TOTAL) for pod in lab.pods()} == {"1"}
    assert lab.unseen.list(SERVICE, lab.namespace).items == ()


def test_a_newer_edit_supersedes_a_queued_replacement(lab: Lab) -> None:
    lab.open_queue(2)
    lab.up(server=Role("v1", replicas=2))
    quick = Timeouts(admission=1, ready=5, lease=1)
    stuck = lab.up(server=Role("v2", replicas=2, cards=2), timeouts=quick)
    assert stuck.phase == "Incomplete"
    assert lab.configs() == {0: ["v1"], 1: ["v2"]}
    mended = lab.up(server=Role("v3", replicas=2))
    assert mended.phase == "Converged", mended.reasons
    assert lab.configs() == {0: ["v3"], 1: ["v3"]}
    assert any("a newer edit replaces the queued replacement" in line for line in lab.lines)


def test_an_evicted_replica_is_cleared_and_queues_again(lab: Lab) -> None:
    lab.open_queue(2)
    role = Role(replicas=2, annotations={EXIT_CODE: "0"})
    lab.up(server=role)
    lab.set_quota(2, stopPolicy="HoldAndDrain")
    lab.until(lambda: all(terminating(pod) for pod in lab.pods()))
    lab.set_quota(2, stopPolicy="None")
    repaired = lab.up(server=role)
    assert repaired.phase == "Converged", repaired.reasons
    assert lab.admitted_uids() == 2 and len(lab.workloads()) == 2


def test_a_hanging_pod_is_named_and_never_forced(lab: Lab) -> None:
    lab.open_queue(1)
    lab.up(server=Role("v1", annotations={HANG: "true"}))
    hanging = lab.pods()[0]
    stuck = lab.up(server=Role("v2"), timeouts=Timeouts(drain=0, ready=5, lease=1))
    assert stuck.phase == "Incomplete"
    (reason,) = stuck.reasons
    assert f"Pod {name(hanging)} on gpu-" in reason and "never deleted by force" in reason
    assert f"`kubectl -n {lab.namespace} get pods -o wide -l app.kubernetes.io/instance={NAME}`" in reason
    assert [uid(pod) for pod in lab.pods()] == [uid(hanging)]
    lab.unseen.patch(
        POD,
        lab.namespace,
        name(hanging),
        [{"op": "remove", "path": f"/metadata/annotations/{HANG.replace('/', '~1')}"}],
    )
    resumed = lab.up(server=Role("v2"))
    assert resumed.phase == "Converged", resumed.reasons


def test_a_replica_that_never_gets_ready_ends_the_run_with_its_name(lab: Lab) -> None:
    lab.open_queue(1)
    slow = lab.up(server=Role(annotations={READY_AFTER: "never"}), timeouts=Timeouts(ready=1, lease=1))
    assert slow.phase == "Incomplete"
    assert slow.reasons[0].startswith("qwen server/0: admitted, not ready after ")
    assert seconds_waited(slow.reasons[0]) >= 1
    unasked = lab.up(server=Role(annotations={READY_AFTER: "never"}), timeouts=Timeouts(ready=0, lease=1))
    assert unasked.phase == "Converged"


def test_a_stopped_run_ends_soon_and_says_so(lab: Lab) -> None:
    lab.open_queue(1)
    stop = threading.Event()
    stopped_at: list[float] = []

    def press() -> None:
        time.sleep(1)
        stopped_at.append(time.monotonic())
        stop.set()

    threading.Thread(target=press).start()
    outcome = lab.up(server=Role(replicas=2), stop=stop)
    assert time.monotonic() - stopped_at[0] < 5
    assert outcome.phase == "Incomplete" and outcome.interrupted
    assert _record(lab).phase == "Incomplete"
    assert lab.unseen.get(LEASE, lab.namespace, record_name(NAME)) is None


def test_a_second_driver_hears_who_holds_the_deployment(lab: Lab) -> None:
    lab.open_queue(1)
    stop = threading.Event()
    first = threading.Thread(target=lambda: lab.up(server=Role(replicas=2), stop=stop))
    first.start()
    try:
        lab.until(lambda: lab.unseen.get(LEASE, lab.namespace, record_name(NAME)) is not None)
        with pytest.raises(RolloutRefused, match=rf"is being driven by a test on .* process {os.getpid()} since"):
            lab.up(server=Role("v2", replicas=2), timeouts=Timeouts(lease=0.5))
    finally:
        stop.set()
        first.join()
    assert lab.configs() == {0: ["v1"], 1: ["v1"]}


def test_another_owner_is_refused_and_both_are_named(lab: Lab) -> None:
    lab.open_queue(1)
    lab.up(server=Role())
    theirs = wanted(lab.namespace, {"server": Role("v2")}, owner="another stack")
    with pytest.raises(RolloutRefused, match=rf"belongs to {OWNER}, not to another stack"):
        converge(lab.cluster, theirs)
    assert lab.configs() == {0: ["v1"]}


def test_a_missing_queue_is_refused_before_anything_is_written(lab: Lab) -> None:
    with pytest.raises(RolloutRefused, match=rf"LocalQueue {lab.namespace}/{QUEUE}.*does not exist"):
        lab.up(server=Role())
    assert not [write for write in lab.writes() if "SelfSubjectAccessReview" not in write]
    lab.open_queue(1)


def test_a_stopped_queue_is_refused_before_a_replica_is_given_up_for_it(lab: Lab) -> None:
    lab.open_queue(1)
    lab.up(server=Role("v1"))
    lab.set_quota(1, stopPolicy="Hold")
    with pytest.raises(RolloutRefused, match="is stopped"):
        lab.up(server=Role("v2"))
    assert lab.configs() == {0: ["v1"]} and lab.admitted_uids() == 1


def test_a_foreign_pod_under_a_members_name_is_waited_for_and_left_alone(lab: Lab) -> None:
    lab.open_queue(2)
    theirs = lab.unseen.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{NAME}-server-r0-m0", "namespace": lab.namespace},
            "spec": {"containers": [{"name": "main", "image": "theirs"}]},
        }
    )
    outcome = lab.up(server=Role(size=2), timeouts=Timeouts(drain=1, admission=1, lease=1))
    assert outcome.phase == "Incomplete"
    assert any(f"Pod {name(theirs)}, which belongs to somebody else" in reason for reason in outcome.reasons)
    assert lab.unseen.get(POD, lab.namespace, name(theirs)) is not None
    lab.unseen.delete(POD, lab.namespace, name(theirs))
    lab.until(lambda: lab.unseen.get(POD, lab.namespace, name(theirs)) is None)
    assert lab.up(server=Role(size=2)).phase == "Converged"


def test_after_its_record_was_deleted_by_hand_a_deployment_is_cleared_and_made_anew(lab: Lab) -> None:
    lab.open_queue(2)
    role = Role(replicas=2, annotations={EXIT_CODE: "0"})
    lab.up(server=role)
    lab.unseen.delete(CONFIG_MAP, lab.namespace, record_name(NAME))
    again = lab.up(server=role)
    assert again.phase == "Converged", again.reasons
    assert lab.admitted_uids() == 2 and len(lab.pods()) == 2 and len(lab.workloads()) == 2


def test_waiting_for_admission_asks_the_server_nothing(lab: Lab) -> None:
    lab.open_queue(1)
    stop = threading.Event()
    run = threading.Thread(target=lambda: lab.up(server=Role(replicas=2), stop=stop))
    run.start()
    try:
        lab.until(lambda: len(lab.pods()) == 2 and lab.admitted_uids() == 1)
        time.sleep(2)
        before = len(lab.requests)
        time.sleep(4)
        assert len(lab.requests) == before
    finally:
        stop.set()
        run.join()


class _Mortal:
    """A cluster whose driver's process is killed at its k-th request."""

    def __init__(self, cluster: Client, calls: int) -> None:
        self._cluster = cluster
        self._calls = calls

    def __getattr__(self, verb: str) -> Any:
        whole = getattr(self._cluster, verb)

        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return whole(*args, **kwargs)
            self._calls -= 1
            if self._calls < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = whole(*args, **kwargs)
            if self._calls == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call


def _mortal_run(kubeconfig: str, namespace: str, role: Role, calls: int) -> None:
    mortal: Any = _Mortal(connect(kubeconfig), calls)
    outcome = converge(mortal, wanted(namespace, {"server": role}), timeouts=Timeouts(20, 20, 20, 3))
    os._exit(0 if outcome.phase == "Converged" else 3)


@ENDINGS
def test_killed_at_any_request_the_next_run_finishes_and_no_second_replica_is_ever_away(
    lab: Lab, kubeconfig: Path, code: str
) -> None:
    lab.open_queue(2)
    ends = {EXIT_CODE: code, EXIT_AFTER: "0.1"}
    lab.up(server=Role("v0", replicas=2, annotations=ends))
    process, death = multiprocessing.get_context("fork"), 0
    with lab.watching(lambda: (lab.admitted_uids(), len(lab.pods()))) as seen:
        finished = False
        while not finished:
            death += 1 if code == "0" else 3
            role = Role(f"v{death}", replicas=2, annotations=ends)
            child = process.Process(target=_mortal_run, args=(str(kubeconfig), lab.namespace, role, death))
            child.start()
            child.join(60)
            assert child.exitcode in (0, -signal.SIGKILL)
            finished = child.exitcode == 0
            outcome = lab.up(server=role)
            assert outcome.phase == "Converged", (death, outcome.reasons)
            assert lab.configs() == {0: [role.config], 1: [role.config]}
    assert death > 15
    assert min(held for held, _ in seen) >= 1
    assert max(pods for _, pods in seen) <= 2


def _record(lab: Lab) -> Record:
    stored = lab.unseen.get(CONFIG_MAP, lab.namespace, record_name(NAME))
    assert stored is not None
    return Record.from_object(stored)
