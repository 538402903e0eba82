"""The retirement's state machine: every row of its tables, and what holds on every way through it (sheet 7.2)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_components.cluster import keys
from gpustack_components.rollout.observe import Member, observe
from gpustack_components.rollout.retirement.machine import Seen, advance
from gpustack_components.rollout.retirement.operation import (
    ABORTABLE,
    DRAIN_SECONDS,
    WHOLE_SECONDS,
    WITHDRAWAL,
    WITHDRAWAL_SECONDS,
    Operation,
    operation_from_json,
    resume,
    retry_token,
)
from tests.rollout.notation import OWNER, pod

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "cases" / "retirement.yaml").read_text())
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def member(life: str = "running", *, labelled: bool = False) -> Member:
    raw = pod("new", 2, life=life, uid="target", **({keys.ENDPOINT_ELIGIBLE: "true"} if labelled else {}))
    return observe([raw], [], OWNER).members[0]


def operation(
    state: Any, *, phase: float = 0, age: float | None = None, now: datetime, consumed: str = ""
) -> Operation:
    return Operation(
        role="server",
        ordinal=2,
        generation=4,
        members=("target",),
        workload="workload",
        state=state,
        started=now - timedelta(seconds=phase if age is None else age),
        phase_started=now - timedelta(seconds=phase),
        reason="Before: as it was",
        consumed=consumed,
        closed=now - timedelta(seconds=phase) if state == "Aborted" else None,
    )


def seen(
    *, labelled: bool = False, leaving: bool = False, ended: bool = False, gone: bool = False, **more: Any
) -> Seen:
    life = "run" if leaving else "done" if ended else "running"
    more |= {"served_by": tuple(more["served_by"])} if "served_by" in more else {}
    return Seen(() if gone else (member(life, labelled=labelled),), **more)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_step_is_as_the_table_says(case: dict[str, Any]) -> None:
    now = BEGIN + timedelta(hours=1)
    before = operation(
        case["state"],
        phase=case.get("at", 1),
        age=case.get("age"),
        now=now,
        consumed=case.get("consumed", "") if case["next"] == "Aborted" else "",
    )
    after = advance(before, seen(**case["seen"]), now)
    assert (after.state if after is not None else "none") == case["next"]
    if after is None:
        return
    assert after.reason.partition(":")[0] == case.get("why", "Before"), after.reason
    if after.state != before.state:
        assert (after.phase_started == before.phase_started) == (case.get("clock") == "kept")
    if "consumed" in case:
        assert after.consumed == case["consumed"]
    assert operation_from_json(after.to_json()) == after


@pytest.mark.parametrize(
    ("directive", "token"),
    [
        ("server:2:abc", "abc"),
        ("server:02:abc", "abc"),
        ("server:2", ""),
        ("server:2:", ""),
        (":2:abc", ""),
        ("server:2:a:b", ""),
        ("server:-2:abc", ""),
        ("server:two:abc", ""),
        ("server:1:abc", ""),
        ("other:2:abc", ""),
        ("", ""),
    ],
)
def test_a_retry_directive_names_role_ordinal_and_token(directive: str, token: str) -> None:
    assert retry_token(directive, "server", 2) == token


@pytest.mark.parametrize("spoil", ["state", "startedAt", "targetMemberUIDs", "replicaOrdinal", "roleName"])
def test_a_record_that_cannot_be_read_retires_nobody(spoil: str) -> None:
    stored = operation("Draining", now=BEGIN).to_json()
    assert operation_from_json({**stored, spoil: None}) is None
    assert operation_from_json(None) is None and operation_from_json("Draining") is None


def test_time_in_which_nobody_was_at_work_does_not_count() -> None:
    stopped = operation("Draining", phase=10, age=40, now=BEGIN)
    assert resume(stopped, BEGIN) == stopped
    later = resume(stopped, BEGIN + timedelta(days=1))
    assert later.state == "Admitted" and later.started == later.phase_started == BEGIN + timedelta(days=1)
    assert resume(stopped, BEGIN - timedelta(days=1)).state == "Admitted", "a clock that was set back"
    for state in ("Deleting", "Settling", "Aborted"):
        kept = operation(state, phase=10, now=BEGIN)
        assert resume(kept, BEGIN + timedelta(days=1)) == kept


SEEN = st.builds(
    seen,
    labelled=st.booleans(),
    leaving=st.booleans(),
    gone=st.booleans(),
    served_by=st.sampled_from([(), ("qwen",)]),
    busy=st.sampled_from([None, "", "Busy: Pod p still has requests"]),
    intended=st.sampled_from([True, True, True, False]),
    adoptable=st.booleans(),
    token=st.sampled_from(["", "a", "b"]),
    quota_held=st.booleans(),
    router=st.booleans(),
    handoff_seconds=st.sampled_from([0.0, 30.0]),
)
WAY = ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(SEEN, st.floats(0, 40), st.booleans()), max_size=60))
def test_on_every_way_it_deletes_only_what_was_drained_and_keeps_its_budgets(
    steps: list[tuple[Seen, float, bool]],
) -> None:
    now = BEGIN
    current: Operation | None = operation("Admitted", now=now)
    for look, passed, killed in steps:
        assert current is not None
        if killed:
            current = operation_from_json(current.to_json())
            assert current is not None
        now += timedelta(seconds=passed)
        before, current = current, advance(current, look, now)
        if current is None:
            assert before.state in ("Settling", "Aborted")
            break
        again = operation_from_json(current.to_json())
        assert again == current and advance(before, look, now) == current, "the record alone is enough"
        if current.state == "Deleting" and before.state != "Deleting":
            assert before.state == "Draining" and look.busy == ""
            assert now >= before.phase_started + timedelta(seconds=look.handoff_seconds)
            assert now < before.phase_started + timedelta(seconds=DRAIN_SECONDS)
            assert now < before.started + timedelta(seconds=WHOLE_SECONDS)
        if current.state in ABORTABLE and current.state != "Admitted":
            budget = WITHDRAWAL_SECONDS if current.state in WITHDRAWAL else DRAIN_SECONDS
            assert now < current.phase_started + timedelta(seconds=budget + 1)
            assert now < current.started + timedelta(seconds=WHOLE_SECONDS)
        if current.state in WAY and before.state in WAY:
            moved = WAY.index(current.state) - WAY.index(before.state)
            assert moved in (0, 1), "at most one state further, never back"
        if before.state in ("Deleting", "Settling"):
            assert current.state in ("Deleting", "Settling"), "what is committed is never taken back"
        assert (current.role, current.ordinal, current.members) == (before.role, before.ordinal, before.members)
