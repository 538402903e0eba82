"""The retirement's state machine: one step from what a pass sees and what time it is (rollout sheet 7.2).

It asks nothing and remembers nothing but the operation, so that a run which was killed between any two steps goes on
from the record alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpustack_components.rollout.observe import Member
from gpustack_components.rollout.retirement.operation import (
    ABORTABLE,
    BUDGET_SPENT,
    DECLARED_AGAIN,
    LEFT_BY_ITSELF,
    ROUTER_SETTLE_SECONDS,
    SETTLE_SECONDS,
    WITHDRAWAL,
    Operation,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a pass sees of the replica that is leaving."""

    target: tuple[Member, ...]
    """The Pods to delete that still read, terminating ones included."""
    intended: bool = True
    """Whether it is still to leave: the spec does not declare it again."""
    adoptable: bool = False
    """Whether it is healthy but for its retirement: every other leg of its qualification is verified."""
    token: str = ""
    """Token of the retry directive for this replica; empty when there is none."""
    served_by: tuple[str, ...] | None = None
    """Services that still list one of its members as serving; None while nobody has looked."""
    router: bool = False
    """Whether a router is declared, which needs a moment to take in that a member is not selected."""
    handoff_seconds: float = 0.0
    """What a prefill or decode replica is given for transfers that were begun; 0 for any other kind."""
    busy: str | None = None
    """Why it does not count as idle, empty when it was read idle twice in a row; None while nobody has looked."""
    quota_held: bool = False
    """Whether the Workload that held its quota still stands."""


def advance(operation: Operation, seen: Seen, now: datetime) -> Operation | None:
    """The operation after this pass; None when it is over and forgotten. At most one state further."""
    if operation.state == "Aborted":
        return _aborted(operation, seen, now)
    if operation.state in ABORTABLE:
        if gone := _gone(operation, seen.target):
            return operation.aborts(f"{LEFT_BY_ITSELF}: {gone}", now)
        if not seen.intended:
            return operation.aborts(f"{DECLARED_AGAIN}: the replica is declared again", now)
        if operation.spent(now):
            return operation.aborts(_spent(operation), now)
    match operation.state:
        case "Admitted":
            if any(member.eligible for member in seen.target):
                return operation.stays("RemovalIntended: its members are being taken out of selection")
            return operation.enters("Disqualified", "Unlabelled: no member is selected any more", now, clock=False)
        case "Disqualified":
            return _withdrawn(operation, seen, now)
        case "Withdrawing":
            return operation.enters("Draining", "Withdrawn: no Service or router sends it requests", now)
        case "Draining":
            return _drained(operation, seen, now)
        case "Deleting":
            if seen.target:
                return operation.stays("DeletionCommitted: its Pods are leaving")
            return operation.enters("Settling", "PodsGone: its quota is being given back", now)
        case _:
            return _settled(operation, seen, now)


def _aborted(operation: Operation, seen: Seen, now: datetime) -> Operation | None:
    if operation.left_by_itself or not seen.target:
        return operation if seen.target else None
    if gone := _gone(operation, seen.target):
        return operation.stays(f"{LEFT_BY_ITSELF}: {gone}")
    if not seen.intended:
        return None if seen.adoptable else operation
    if seen.token and seen.token != operation.consumed:
        return operation.begins_anew("Retried: a retry was asked for", now, consumed=seen.token)
    return operation


def _withdrawn(operation: Operation, seen: Seen, now: datetime) -> Operation:
    if any(member.eligible for member in seen.target):
        return operation.stays("Labelled: a member was put back into selection by somebody else")
    if seen.served_by is None:
        return operation
    if seen.served_by:
        return operation.stays(f"StillServed: {_service(seen.served_by)} still {_leads(seen.served_by)} to it")
    if seen.router and now < operation.phase_started + timedelta(seconds=ROUTER_SETTLE_SECONDS):
        return operation.stays("RouterSettling: the router is given a moment to take in that it is not selected")
    return operation.enters("Withdrawing", "Withdrawn: no Service or router sends it requests", now, clock=False)


def _drained(operation: Operation, seen: Seen, now: datetime) -> Operation:
    if now < operation.phase_started + timedelta(seconds=seen.handoff_seconds):
        return operation.stays("HandoffWait: transfers that were begun are given time to end")
    if seen.busy is None:
        return operation
    if seen.busy:
        return operation.stays(seen.busy)
    return operation.enters("Deleting", "Drained: every answering member was idle twice in a row", now)


def _settled(operation: Operation, seen: Seen, now: datetime) -> Operation | None:
    if not seen.quota_held:
        return None
    if now >= operation.phase_started + timedelta(seconds=SETTLE_SECONDS):
        return operation.stays("QuotaHeld: Kueue has not given its quota back yet")
    return operation


def _gone(operation: Operation, target: Iterable[Member]) -> str:
    """Who of the target was ended by somebody else; empty while all of it stands."""
    standing = {member.uid: member for member in target}
    leaving = [member for member in standing.values() if not member.live]
    if leaving:
        return f"Pod {min(member.name for member in leaving)} was deleted or ended by somebody else"
    missing = len(set(operation.members) - standing.keys())
    return f"{missing} of its {len(operation.members)} Pods were removed by somebody else" if missing else ""


def _spent(operation: Operation) -> str:
    if operation.state in WITHDRAWAL:
        return f"{BUDGET_SPENT}: not withdrawn in time; {operation.reason}"
    return f"{BUDGET_SPENT}: not drained in time; {operation.reason}"


def _service(names: tuple[str, ...]) -> str:
    return f"Service{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def _leads(names: tuple[str, ...]) -> str:
    return "lead" if len(names) > 1 else "leads"
