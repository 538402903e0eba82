"""What the planner does with objects no worked sequence shows: history, foreign and former Pods, stuck finalizers."""

from typing import Any

import pytest

from gpustack_components.api import names
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.actions import EnsureService, PruneService
from gpustack_components.rollout.decide import awaiting_release, decide
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Observed, observe, shape
from gpustack_components.rollout.slots import slots_from_json, slots_to_json
from tests.rollout.notation import (
    NAME,
    NAMESPACE,
    OWNER,
    desired,
    pod,
    pod_uid,
    say,
    say_slot,
    slot,
    state,
    workload,
)

RECORD = "qwen-modeldeployment"


def see(pods: list[Json], workloads: list[Json], services: list[Json] | None = None) -> Observed:
    return observe(pods, workloads, OWNER, record_name=RECORD, services=services or [])


def acts(wanted: Desired, observed: Observed, **slots: Any) -> list[str]:
    return [say(action) for action in decide(wanted, observed, slots).actions]


def _queued(**status: Any) -> tuple[list[Json], list[Json]]:
    """One queued replica of an older configuration, its Workload's status as given."""
    waiting = workload("old", 0, [pod_uid("old", "server", 0, 0)], "q")
    conditions = status.pop("conditions", [])
    waiting["status"] = {"conditions": waiting["status"]["conditions"] + conditions, **status}
    return [pod("old", 0)], [waiting]


def _condition(kind: str, status: str, reason: str = "Because") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": ""}


FIRST_ADMISSION = {
    "nothing but waiting": ({}, True),
    "quota reserved, not admitted yet": ({"conditions": [_condition("Admitted", "False")]}, True),
    "PodsReady False/WaitForStart": ({"conditions": [_condition("PodsReady", "False", "WaitForStart")]}, True),
    "Preempted True": ({"conditions": [_condition("Preempted", "True")]}, False),
    "Evicted False is history": ({"conditions": [_condition("Evicted", "False")]}, False),
    "Requeued True": ({"conditions": [_condition("Requeued", "True")]}, False),
    "Finished": ({"conditions": [_condition("Finished", "False")]}, False),
    "Admitted Unknown": ({"conditions": [_condition("Admitted", "Unknown")]}, False),
    "PodsReady True": ({"conditions": [_condition("PodsReady", "True")]}, False),
    "PodsReady False/WaitForRecovery": ({"conditions": [_condition("PodsReady", "False", "WaitForRecovery")]}, False),
    "past execution of 0 s": ({"accumulatedPastExecutionTimeSeconds": 0}, False),
    "requeue state": ({"requeueState": {"count": 1}}, False),
    "reclaimable Pods": ({"reclaimablePods": [{"name": "server", "count": 1}]}, False),
    "eviction statistics": ({"schedulingStats": {"evictions": [{"reason": "Preempted", "count": 1}]}}, False),
}


@pytest.mark.parametrize("history", FIRST_ADMISSION)
def test_only_a_replica_that_was_never_admitted_is_replaced_without_the_guard(history: str) -> None:
    status, qualifies = FIRST_ADMISSION[history]
    pods, workloads = _queued(**dict(status))
    replaced = acts(desired(replicas=1), see(pods, workloads)) != []
    assert replaced == qualifies


@pytest.mark.parametrize("progress", ["gate removed", "node assigned", "container status"])
def test_a_replica_that_has_begun_to_run_is_not_replaced_without_the_guard(progress: str) -> None:
    pods, workloads = _queued()
    match progress:
        case "gate removed":
            pods[0]["spec"]["schedulingGates"] = []
        case "node assigned":
            pods[0]["spec"]["nodeName"] = "node-a"
        case _:
            pods[0]["status"]["initContainerStatuses"] = [{"name": "init"}]
    assert acts(desired(replicas=1), see(pods, workloads)) == []


SHAPES = [
    ([("1", "0")], "complete"),
    ([("2", "0"), ("2", "1")], "complete"),
    ([("2", "0")], "short"),
    ([(None, "0")], "complete"),
    ([(None, None)], "complete"),
    ([("2", None), ("2", None)], "unreadable"),
    ([("2", "bad"), ("2", "bad")], "unreadable"),
    ([("2", "0"), ("2", "-1")], "unreadable"),
    ([("2", "0"), ("1", "0")], "unreadable"),
    ([("2", "0"), ("2", "0")], "unreadable"),
    ([("2", "0"), ("2", "1"), ("2", "2")], "unreadable"),
    ([("2", "0"), ("2", None)], "unreadable"),
    *[([(total, "0")], "unreadable") for total in ("0", "-1", "many", "1.5")],
    ([], "unreadable"),
]


@pytest.mark.parametrize(("members", "expected"), SHAPES, ids=[str(members) for members, _ in SHAPES])
def test_the_shape_of_a_replica_is_what_its_own_pods_declare(
    members: list[tuple[str | None, str | None]], expected: str
) -> None:
    pods: list[Json] = []
    for index, (total, seat) in enumerate(members):
        raw = pod("new", 0, uid=f"pod-{index}", name=f"pod-{index}", life="running")
        raw["metadata"]["annotations"].pop(keys.GROUP_TOTAL)
        raw["metadata"]["labels"].pop(keys.MEMBER_INDEX)
        if total is not None:
            raw["metadata"]["annotations"][keys.GROUP_TOTAL] = total
        if seat is not None:
            raw["metadata"]["labels"][keys.MEMBER_INDEX] = seat
        pods.append(raw)
    assert shape(see(pods, []).members).state == expected


def test_an_unreadable_replica_is_held_and_condemned_by_nothing() -> None:
    pods, workloads = state({0: "new[2]/A", 1: "new[2]/A"})
    pods[0]["metadata"]["annotations"][keys.GROUP_TOTAL] = "many"
    decision = decide(desired(replicas=2, size=2), see(pods, workloads), {})
    assert [say(a) for a in decision.actions if not isinstance(a, EnsureService)] == []
    assert ("unreadable", 0) in {(wait.kind, wait.ordinal) for wait in decision.waits}


@pytest.mark.parametrize("seats", [(None, None), ("bad", "bad"), ("0", None), ("0", "-1")])
def test_members_whose_seats_cannot_be_read_are_held_and_on_no_seat_twice(seats: tuple[str | None, ...]) -> None:
    pods, workloads = state({0: "new[2]/A", 1: "new[2]/A"})
    for raw, seat in zip(pods[:2], seats, strict=True):
        raw["metadata"]["labels"].pop(keys.MEMBER_INDEX)
        if seat is not None:
            raw["metadata"]["labels"][keys.MEMBER_INDEX] = seat
    decision = decide(desired(replicas=2, size=2), see(pods, workloads), {})
    assert [say(a) for a in decision.actions if not isinstance(a, EnsureService)] == []
    assert {(wait.kind, wait.ordinal) for wait in decision.waits} == {("unreadable", 0)}


def test_two_roles_turn_over_side_by_side_and_only_the_edited_one() -> None:
    prefill, decode = state({0: "old/A"}, "prefill"), state({0: "same/A", 1: "same/A"}, "decode")
    wanted = desired(roles={"prefill": {"config": "new"}, "decode": {"config": "same", "replicas": 2}})
    observed = see(prefill[0] + decode[0], prefill[1] + decode[1])
    assert acts(wanted, observed) == ["delete prefill/0 prefill-o0-m0-old (outdated)"]


def test_a_foreign_pod_on_an_ordinal_is_waited_out_and_left_alone() -> None:
    theirs = pod("new", 0, owner="somebody", life="running")
    theirs["metadata"]["ownerReferences"][0]["name"] = "something-else"
    decision = decide(desired(replicas=1), see([theirs], []), {})
    assert decision.actions == ()
    assert [(wait.kind, wait.ordinal) for wait in decision.waits] == [("foreign", 0)]


def test_a_workload_that_owns_a_foreign_pod_too_is_not_deleted() -> None:
    ours = pod("new", 0, life="out")
    theirs = pod("new", 0, owner="x", uid="theirs", name="theirs", life="running")
    theirs["metadata"]["ownerReferences"][0]["name"] = "something-else"
    shared = workload("new", 0, [ours["metadata"]["uid"], "theirs"], "A")
    assert acts(desired(replicas=1), see([ours, theirs], [shared])) == []


def test_pods_of_a_record_that_is_gone_are_cleared_once_they_have_exited() -> None:
    former = pod("old", 0, owner="former-record", life="out")
    theirs = workload("old", 0, [former["metadata"]["uid"]], "A")
    assert acts(desired(replicas=1), see([former], [theirs])) == ["delete workload server-o0-wl-old"]


def test_pods_of_a_record_that_is_gone_are_left_to_the_garbage_collector_while_they_run() -> None:
    former = pod("old", 0, owner="former-record", life="running")
    decision = decide(desired(replicas=1), see([former], []), {})
    assert decision.actions == () and [wait.kind for wait in decision.waits] == ["release"]


def test_a_ghost_workload_of_captured_pods_is_deleted_and_never_taken_for_an_admission() -> None:
    ghost = workload("ghost", 1, [pod_uid("old", "server", 1, 0)], "A")
    kept, owning = state({0: "old/A"})
    decision = decide(desired(replicas=2), see(kept, [*owning, ghost]), {"server": slot("1 Cleanup old")})
    assert [say(action) for action in decision.actions] == ["delete workload server-o1-wl-ghost"]
    assert say_slot(decision.slots["server"]) == "1 Cleanup server-o1-m0-old"


def test_an_exited_pod_that_nothing_can_release_is_released_after_kueue_had_its_chance() -> None:
    observed = see([pod("old", 0, life="out")], [])
    assert awaiting_release(observed) == {"server-o0-m0-old"}
    assert acts(desired(replicas=1), observed) == []
    decision = decide(desired(replicas=1), observed, {}, stuck=awaiting_release(observed))
    assert [say(action) for action in decision.actions] == ["release server-o0-m0-old"]


@pytest.mark.parametrize("life", ["run", "running", "done"])
def test_a_finalizer_is_never_taken_off_a_pod_that_runs_or_is_not_deleted(life: str) -> None:
    assert awaiting_release(see([pod("old", 0, life=life)], [])) == frozenset()


def test_a_finalizer_is_left_to_kueue_while_a_workload_stands_on_the_group() -> None:
    assert awaiting_release(see([pod("old", 0, life="out")], [workload("old", 0, ["gone"], "A")])) == frozenset()


def test_admission_counts_only_when_the_workload_stands_for_exactly_these_pods() -> None:
    pods, workloads = state({0: "new[2]/A"})
    held = {"server": slot("0 Waiting new[2] recorded")}
    wanted = desired(replicas=1, size=2)
    assert "server" not in decide(wanted, see(pods, workloads), held).slots
    for spoil in (_owns_one, _counts_three, _other_queue, _other_image, _evicted, _deactivated):
        pods, workloads = state({0: "new[2]/A"})
        spoil(workloads[0])
        assert "server" in decide(wanted, see(pods, workloads), held).slots, spoil.__name__


def _owns_one(raw: Json) -> None:
    raw["metadata"]["ownerReferences"].pop()


def _counts_three(raw: Json) -> None:
    raw["spec"]["podSets"][0]["count"] = 3


def _other_queue(raw: Json) -> None:
    raw["spec"]["queueName"] = "another"


def _other_image(raw: Json) -> None:
    raw["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["image"] = "another"


def _evicted(raw: Json) -> None:
    raw["status"]["conditions"].append(_condition("Evicted", "True"))


def _deactivated(raw: Json) -> None:
    raw["spec"]["active"] = False


def _service(ordinal: int) -> Json:
    return {
        "metadata": {
            "name": names.instance_service(NAME, "server", ordinal),
            "namespace": NAMESPACE,
            "uid": f"service-{ordinal}",
            "ownerReferences": [{"kind": "ConfigMap", "name": RECORD, "uid": OWNER}],
        }
    }


def test_a_headless_service_stands_before_its_pods_and_as_long_as_any_member_reads() -> None:
    first = decide(desired(replicas=1, size=2), see([], []), {})
    assert [type(action).__name__ for action in first.actions] == ["EnsureService", "CreateReplica"]
    pods, workloads = state({0: "old[2]~run/A"})
    leaving = decide(desired(replicas=1, size=1), see(pods, workloads, [_service(0)]), {})
    assert not [action for action in leaving.actions if isinstance(action, PruneService)]
    pods[0]["metadata"]["annotations"][keys.GROUP_TOTAL] = pods[1]["metadata"]["annotations"][keys.GROUP_TOTAL] = "many"
    unreadable = decide(desired(replicas=1, size=1), see(pods, workloads, [_service(0)]), {})
    assert not [action for action in unreadable.actions if isinstance(action, PruneService)]
    pods, workloads = state({0: "new/A"})
    left = decide(desired(replicas=1, size=1), see(pods, workloads, [_service(0)]), {})
    assert left.actions == (PruneService("qwen-server-r0", "service-0"),)


def test_a_headless_service_of_somebody_else_is_not_ours_to_prune() -> None:
    theirs = _service(0)
    theirs["metadata"]["ownerReferences"] = []
    pods, workloads = state({0: "new/A"})
    assert decide(desired(replicas=1), see(pods, workloads, [theirs]), {}).converged


def test_what_the_server_accepted_to_delete_is_not_asked_for_again() -> None:
    pods, workloads = state({0: "old/A"})
    uids = frozenset({pods[0]["metadata"]["uid"]})
    observed = observe(pods, workloads, OWNER, record_name=RECORD, leaving=uids)
    decision = decide(desired(replicas=1), observed, {"server": slot("0 Cleanup old")})
    assert decision.actions == () and [wait.kind for wait in decision.waits] == ["exit"]


def test_a_queued_pod_whose_deletion_was_accepted_may_run_until_it_is_seen_to_leave() -> None:
    pods, workloads = state({0: "old/q"})
    asked = observe(pods, workloads, OWNER, record_name=RECORD, leaving=frozenset({pods[0]["metadata"]["uid"]}))
    decision = decide(desired(replicas=1), asked, {"server": slot("0 Cleanup old")})
    assert decision.actions == ()
    assert [(wait.kind, wait.message) for wait in decision.waits] == [("exit", "Pod qwen-server-0-old to exit")]
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen = see(pods, workloads)
    assert acts(desired(replicas=1), seen, server=slot("0 Cleanup old")) == ["delete workload server-o0-wl-old"]


def test_slots_survive_being_written_down() -> None:
    held = {"server": slot("2 Cleanup old[2]"), "decode": slot("1 Waiting new recorded", "decode")}
    assert slots_from_json(slots_to_json(held)) == held
    assert slots_from_json(None) == {}
    for broken in ([1], {"server": {}}, {"server": {"role": "r", "ordinal": "x", "phase": "Cleanup"}}, "text"):
        with pytest.raises(ValueError, match="unreadable"):
            slots_from_json(broken)
