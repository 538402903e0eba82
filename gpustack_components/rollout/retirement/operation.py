"""One retirement as it is remembered: the record that a killed run is resumed from (rollout sheet 7.2)."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, cast, get_args

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import moment, timestamp

State = Literal["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "Completed", "Aborted"]
"""Where a retirement stands: `Admitted`, it is to leave; `Disqualified`, no member carries the label any more;
`Withdrawing`, nobody sends it requests; `Draining`, it finishes those it has; `Deleting`, its Pods leave; `Settling`,
its quota is given back; `Completed`, over; `Aborted`, ended before its deletion."""

WITHDRAWAL_SECONDS = 30.0
"""For `Admitted`, `Disqualified` and `Withdrawing` together."""
DRAIN_SECONDS = 240.0
"""For `Draining`, the handoff wait of prefill and decode replicas included."""
SETTLE_SECONDS = 30.0
"""For `Settling`, after which it is only said why it lasts."""
WHOLE_SECONDS = 300.0
"""From the start to the latest moment at which the deletion may be committed."""
ROUTER_SETTLE_SECONDS = 10.0
"""What a router is given to take in that a member is not selected any more; part of the withdrawal."""

WITHDRAWAL: frozenset[State] = frozenset({"Admitted", "Disqualified", "Withdrawing"})
"""The states that share the withdrawal's budget."""
ABORTABLE: frozenset[State] = frozenset({*WITHDRAWAL, "Draining"})
"""The states before the deletion; from the deletion on nothing is taken back."""

LEFT_BY_ITSELF = "TargetLeft"
"""First word of the reason when the target was deleted or ended by somebody else."""
DECLARED_AGAIN = "DeclaredAgain"
"""First word of the reason when the replica is wanted again."""
BUDGET_SPENT = "BudgetSpent"
"""First word of the reason when a phase took too long."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One replica on its way out; at most one per deployment."""

    role: str
    """Role of the replica."""
    ordinal: int
    """Ordinal of the replica."""
    generation: int
    """Generation of the record at which it was admitted."""
    members: tuple[str, ...]
    """Uids of the Pods to delete, sorted; nothing else ever is."""
    workload: str
    """Uid of the Workload that owned one of them; empty when none did."""
    state: State
    """Where it stands."""
    started: datetime
    """When it was admitted, in UTC."""
    phase_started: datetime
    """When the clock of its state began, in UTC."""
    reason: str = ""
    """What put it there or keeps it there: a word, then a sentence."""
    consumed: str = ""
    """The token of the last retry directive that was followed, or was there before it began."""
    closed: datetime | None = None
    """When it was aborted; None while it was not."""

    @property
    def deadline(self) -> datetime:
        """The latest moment for a deletion to be committed; the moment of the abort once it was aborted."""
        return self.closed or self.started + timedelta(seconds=WHOLE_SECONDS)

    @property
    def phase_ends(self) -> datetime | None:
        """When the state's budget is spent; None for a state without one."""
        if self.state in WITHDRAWAL:
            budget = WITHDRAWAL_SECONDS
        elif self.state == "Draining":
            budget = DRAIN_SECONDS
        else:
            return None
        return min(self.phase_started + timedelta(seconds=budget), self.deadline)

    @property
    def left_by_itself(self) -> bool:
        """Whether it was aborted because somebody else ended the target, so that nothing is kept."""
        return self.state == "Aborted" and self.reason.startswith(LEFT_BY_ITSELF)

    @property
    def holds(self) -> bool:
        """Whether the replica is neither deleted, turned over nor filled again by anything else."""
        return self.state != "Completed" and not self.left_by_itself

    def spent(self, now: datetime) -> bool:
        """Whether the state's budget is spent; the last moment counts as spent."""
        end = self.phase_ends
        return end is not None and now >= end

    def enters(self, state: State, reason: str, now: datetime, *, clock: bool = True) -> Self:
        """The operation in another state; `clock` says whether that state has a clock of its own."""
        return replace(self, state=state, reason=reason, phase_started=whole(now) if clock else self.phase_started)

    def stays(self, reason: str) -> Self:
        """The operation in its state, for this reason."""
        return self if reason == self.reason else replace(self, reason=reason)

    def aborts(self, reason: str, now: datetime) -> Self:
        """The operation, ended before its deletion."""
        return replace(self, state="Aborted", reason=reason, phase_started=whole(now), closed=whole(now))

    def begins_anew(self, reason: str, now: datetime, *, consumed: str | None = None) -> Self:
        """The operation from its start on, with fresh clocks."""
        token, begun = self.consumed if consumed is None else consumed, whole(now)
        return replace(
            self, state="Admitted", reason=reason, started=begun, phase_started=begun, closed=None, consumed=token
        )

    def to_json(self) -> Json:
        """As `status.retirement` and the record carry it."""
        values: Json = {
            "roleName": self.role,
            "replicaOrdinal": self.ordinal,
            "observedGeneration": self.generation,
            "targetMemberUIDs": list(self.members),
            "targetWorkloadUID": self.workload,
            "state": self.state,
            "reason": self.reason,
            "startedAt": timestamp(self.started),
            "deadline": timestamp(self.deadline),
            "phaseStartedAt": timestamp(self.phase_started),
        }
        return values | ({"lastConsumedRetryToken": self.consumed} if self.consumed else {})


def operation_from_json(value: Any) -> Operation | None:
    """What `to_json` gave; None for anything that cannot be read, so that nothing is deleted on the word of it."""
    try:
        state, started, role = value["state"], _moment(value["startedAt"]), value["roleName"]
        if state not in get_args(State) or state == "Completed" or not isinstance(role, str):
            return None
        return Operation(
            role=role,
            ordinal=int(value["replicaOrdinal"]),
            generation=int(value.get("observedGeneration") or 0),
            members=tuple(sorted(map(str, value["targetMemberUIDs"]))),
            workload=str(value.get("targetWorkloadUID") or ""),
            state=cast("State", state),
            started=started,
            phase_started=_moment(value["phaseStartedAt"]),
            reason=str(value.get("reason") or ""),
            consumed=str(value.get("lastConsumedRetryToken") or ""),
            closed=_moment(value["deadline"]) if state == "Aborted" else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def resume(operation: Operation, now: datetime) -> Operation:
    """The operation for a run that finds it: time in which nobody was at work does not count against it.

    One whose budget is spent by the clock alone begins anew; nothing was deleted yet.
    """
    unsound = operation.phase_started > now or operation.started > now
    if operation.state in ABORTABLE and (operation.spent(now) or unsound):
        return operation.begins_anew("Resumed: the run that was at work on it had ended", now)
    return operation


def whole(time: datetime) -> datetime:
    """The moment without its fraction of a second, as the record keeps it: a budget ends a little early, never
    late."""
    return time.astimezone(UTC).replace(microsecond=0)


def retry_token(directive: str, role: str, ordinal: int) -> str:
    """The token of a retry directive `<role>:<ordinal>:<token>` for that replica; empty when it is none for it."""
    parts = directive.split(":")
    if len(parts) != 3 or not all(parts) or parts[0] != role:
        return ""
    number = parts[1]
    return parts[2] if number.isascii() and number.isdigit() and int(number) == ordinal else ""


def _moment(text: Any) -> datetime:
    found = moment(text)
    if found is None or found.tzinfo is None:
        raise ValueError(text)
    return found
