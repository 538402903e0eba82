"""What a pass keeps for the retirement, admits to it, and leaves to the plain removal (rollout sheet 4.1, 7.2)."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.rollout.actions import Decision, DeletePods
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.desired import Desired, Protocol
from gpustack_components.rollout.observe import Observed, observe
from gpustack_components.rollout.retirement.operation import LEFT_BY_ITSELF, Operation
from gpustack_components.rollout.retirement.reservation import Retiring
from tests.rollout.notation import OWNER, desired, observed, pod_uid, say, slot, state

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wanted(replicas: int, *, retry: str = "", **more: Any) -> Desired:
    return replace(desired(replicas=replicas, **more), protocol=Protocol(retry=retry))


def operation(ordinal: int, of: str, *uids: str, **more: Any) -> Operation:
    return Operation("server", ordinal, 1, uids or (f"server-o{ordinal}-m0-new",), "", of, NOW, NOW, **more)  # type: ignore[arg-type]


def plan(of: Desired, standing: Observed, before: Operation | None = None, **more: Any) -> Decision:
    return decide(of, standing, more.pop("slots", {}), retiring=Retiring(before, NOW, 7, **more))


def deleted(decision: Decision) -> list[str]:
    return [say(action) for action in decision.actions if isinstance(action, DeletePods)]


def admitted(decision: Decision) -> str:
    found = decision.retirement
    return "none" if found is None else f"{found.role}/{found.ordinal} {found.state}"


@pytest.mark.parametrize(
    ("one", "size", "result", "plain"),
    [
        ("new/A", 1, "server/1 Admitted", []),
        ("old/A", 1, "server/1 Admitted", []),
        ("new~run/A", 1, "none", []),
        ("new/q", 1, "none", ["delete server/1 server-o1-m0-new (scaled-down)"]),
        ("new~done/A", 1, "none", ["delete server/1 server-o1-m0-new (finished)"]),
        ("new[2]/A", 2, "server/1 Admitted", []),
        ("new[2]:0/A", 2, "none", ["delete server/1 server-o1-m0-new (scaled-down)"]),
    ],
    ids=[
        "it runs",
        "it is outdated",
        "it leaves by itself",
        "it never ran",
        "it has ended",
        "a group",
        "a broken group",
    ],
)
def test_only_a_whole_replica_that_runs_is_retired(one: str, size: int, result: str, plain: list[str]) -> None:
    first = "new/A" if size == 1 else "new[2]/A"
    decision = plan(wanted(1, size=size), observed({0: first, 1: one}))
    assert admitted(decision) == result and deleted(decision) == plain


def test_a_replica_that_the_slot_is_about_is_cancelled_with_it() -> None:
    decision = plan(wanted(1), observed({0: "new/A", 1: "new/A"}), slots={"server": slot("1 Waiting new recorded")})
    assert admitted(decision) == "none"
    assert deleted(decision) == ["delete server/1 server-o1-m0-new (scaled-down)"]


def test_the_pass_that_admits_deletes_nothing_and_the_highest_goes_first() -> None:
    decision = plan(wanted(1, retry="server:3:old"), observed(dict.fromkeys(range(4), "new/A")))
    found = decision.retirement
    assert admitted(decision) == "server/3 Admitted" and deleted(decision) == []
    assert found is not None and found.generation == 7 and found.consumed == "old"
    assert found.members == ("server-o3-m0-new",) and found.workload == "server-o3-wl-new"
    waits = {(wait.kind, wait.ordinal) for wait in decision.waits}
    assert waits == {("retirement", 3), ("turn", 2), ("turn", 1)}


def test_a_role_that_is_declared_no_more_is_retired_too() -> None:
    pods, workloads = state({0: "new/A", 1: "new/A"}, role="old")
    decision = plan(replace(desired(roles={}), protocol=Protocol()), observe(pods, workloads, OWNER))
    assert admitted(decision) == "old/1 Admitted" and deleted(decision) == []
    plain = decide(desired(roles={}), observe(pods, workloads, OWNER), {})
    assert sorted(deleted(plain)) == [f"delete old/{o} old-o{o}-m0-new (role-removed)" for o in (0, 1)]


def test_a_seat_that_is_filled_twice_retires_the_surplus_alone() -> None:
    decision = plan(wanted(1), observed({0: "new/A old/A"}))
    found = decision.retirement
    assert found is not None and found.members == (pod_uid("old", "server", 0, 0),)
    assert found.reason.startswith("Surplus") and deleted(decision) == []


def test_a_pod_without_an_ordinal_leaves_plainly() -> None:
    decision = plan(wanted(1), observed({0: "new/A", "orphan-a": "old/A"}))
    assert admitted(decision) == "none" and deleted(decision) == ["delete server/orphan server-oNone-m0-old (orphan)"]


def test_committed_deletion_takes_all_members_together_and_nobody_else() -> None:
    uids = ("server-o1-m0-new", "server-o1-m1-new")
    standing = observed({0: "new[2]/A", 1: "new[2]/A", 2: "new[2]/A"})
    decision = plan(wanted(1, size=2), standing, operation(1, "Draining", *uids), busy="")
    assert admitted(decision) == "server/1 Deleting"
    assert deleted(decision) == ["delete server/1 server-o1-m0-new server-o1-m1-new (retired)"]
    half = observed({0: "new[2]/A", 1: "new[2]:0,1!/A"})
    again = plan(wanted(1, size=2), half, operation(1, "Deleting", *uids))
    assert deleted(again) == ["delete server/1 server-o1-m0-new (retired)"], "a run that was killed in between"


def test_an_ordinal_that_is_being_retired_is_filled_again_only_once_the_record_is_gone() -> None:
    vacant = observed({0: "new/A"})
    going = plan(wanted(2), vacant, operation(1, "Deleting", "gone"))
    assert admitted(going) == "server/1 Settling" and going.actions == ()
    over = plan(wanted(2), vacant, going.retirement)
    assert admitted(over) == "none" and [say(action) for action in over.actions] == ["create server/1 0"]


def test_an_aborted_retirement_keeps_its_replica_from_everything_and_the_others_waiting() -> None:
    standing = observed({0: "old/A", 1: "old/A", 2: "old/A", 3: "old/A"})
    kept = replace(operation(3, "Aborted", "server-o3-m0-old", reason="BudgetSpent: late"), closed=NOW)
    decision = plan(wanted(2), standing, kept)
    assert decision.retirement == kept
    assert deleted(decision) == ["delete server/1 server-o1-m0-old (outdated)"], "a declared one turns over meanwhile"
    assert {(wait.kind, wait.ordinal) for wait in decision.waits} >= {("retained", 3), ("turn", 2)}


def test_a_replica_that_is_declared_again_is_neither_turned_over_nor_judged_before_it_is_adopted() -> None:
    standing = observed({0: "new/A", 1: "old/A"})
    aborted = replace(operation(1, "Aborted", "server-o1-m0-old", reason="BudgetSpent: late"), closed=NOW)
    held = plan(wanted(2), standing, aborted)
    assert held.retirement == aborted and deleted(held) == [] and [w.kind for w in held.waits] == ["retirement"]
    assert "kept once all its Pods are Ready, and deleting them has it made anew" in held.waits[0].message
    for member in standing.members:
        member.pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    ready = observe([member.pod for member in standing.members], [one.workload for one in standing.workloads], OWNER)
    adopted = plan(wanted(2), ready, aborted)
    assert adopted.retirement is None and deleted(adopted) == ["delete server/1 server-o1-m0-old (outdated)"]


def test_one_that_left_by_itself_makes_room_for_the_next() -> None:
    gone = replace(operation(3, "Aborted", reason=f"{LEFT_BY_ITSELF}: somebody deleted it"), closed=NOW)
    decision = plan(wanted(2), observed({0: "new/A", 1: "new/A", 2: "new/A", 3: "new~run/A"}), gone)
    assert admitted(decision) == "server/2 Admitted"


def test_without_the_protocol_nothing_of_a_retirement_is_left_but_a_committed_deletion() -> None:
    standing = observed({0: "new/A", 1: "new/A"})
    plain = decide(desired(replicas=1), standing, {}, retiring=Retiring(operation(1, "Draining"), NOW))
    assert plain.retirement is None and deleted(plain) == ["delete server/1 server-o1-m0-new (scaled-down)"]
    committed = decide(desired(replicas=1), standing, {}, retiring=Retiring(operation(1, "Deleting"), NOW))
    assert admitted(committed) == "server/1 Deleting"
    assert deleted(committed) == ["delete server/1 server-o1-m0-new (retired)"]


def test_half_of_a_pair_is_given_its_handoff_wait() -> None:
    standing = observed({0: "new/A", 1: "new/A"})
    of = replace(wanted(1), protocol=Protocol(handoff_seconds=30))
    assert admitted(plan(of, standing, operation(1, "Draining"), busy="")) == "server/1 Deleting"
    for member in standing.members:
        member.pod["metadata"]["labels"][keys.ROLE_KIND] = "decode"
    waiting = plan(of, standing, operation(1, "Draining"), busy="")
    assert admitted(waiting) == "server/1 Draining"
    assert waiting.retirement is not None and waiting.retirement.reason.startswith("HandoffWait")


def test_its_quota_is_given_back_when_its_workload_is_gone_or_stands_for_somebody_else() -> None:
    leaving = replace(operation(1, "Settling", "gone"), workload="server-o1-wl-new")
    assert admitted(plan(wanted(1), observed({0: "new/A", 1: "new:/A"}), leaving)) == "server/1 Settling"
    assert plan(wanted(1), observed({0: "new/A"}), leaving).retirement is None
    shared = replace(leaving, workload="server-o0-wl-new")
    assert plan(wanted(1), observed({0: "new/A"}), shared).retirement is None
