"""What a retirement takes for itself in a pass: who is kept until it is their turn, who is deleted now, and what is
waited for (rollout sheet 4.1 step 4, 7.2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpustack_components.cluster import keys, readings
from gpustack_components.rollout.actions import DeletePods, PodRef, Wait, WaitKind
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Member, Observed, shape
from gpustack_components.rollout.qualification import healthy
from gpustack_components.rollout.retirement.machine import Seen, advance
from gpustack_components.rollout.retirement.operation import Operation, retry_token, whole
from gpustack_components.rollout.shedding import Removal
from gpustack_components.rollout.slots import Slots
from gpustack_components.rollout.wording import place

_TRANSFERRING = frozenset({"prefill", "decode"})
_INTENT = {
    "scaled-down": "ScaledDown: the role declares fewer replicas",
    "surplus": "Surplus: its seat is filled twice",
    "role-removed": "RoleRemoved: the role is declared no more",
}


@dataclass(frozen=True, slots=True)
class Retiring:
    """What a pass knows of the retirement beyond what stands in the cluster."""

    operation: Operation | None = None
    """The one that is remembered."""
    now: datetime | None = None
    """What time it is; None in a forecast, which carries nothing on."""
    generation: int = 0
    """The record's generation."""
    served_by: tuple[str, ...] | None = None
    """Services that still list one of its members as serving; None when nobody has looked."""
    busy: str | None = None
    """Why it does not count as idle; empty when it does; None when nobody has looked."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What the retirement keeps from the rest of the pass."""

    operation: Operation | None = None
    """To be remembered before anything is done."""
    spared: frozenset[str] = frozenset()
    """Uids of Pods that are to leave and that nothing else may delete."""
    queue: tuple[Removal, ...] = ()
    """What leaves by the protocol, in the order in which it does."""
    deletions: tuple[DeletePods, ...] = ()
    """The retirement's own."""
    waits: tuple[Wait, ...] = ()
    """What it waits for."""

    def holds(self, role: str, ordinal: int | None) -> bool:
        """Whether that replica is neither turned over nor filled again."""
        operation = self.operation
        return operation is not None and operation.holds and (operation.role, operation.ordinal) == (role, ordinal)


def reserve(
    desired: Desired, observed: Observed, slots: Slots, leaving: Sequence[Removal], retiring: Retiring
) -> Reservation:
    """The retirement's part of a pass: carry the one under way on, or begin the next."""
    before = retiring.operation
    if desired.protocol is None and before is not None and before.state not in ("Deleting", "Settling"):
        before = None
    queue = [one for one in leaving if desired.protocol is not None and covered(one, observed, slots)]
    queue.sort(key=lambda one: -(one.ordinal or 0))
    operation = before
    if before is not None and retiring.now is not None:
        operation = advance(before, _seen(before, desired, observed, leaving, retiring), retiring.now)
    if (before is None or before.left_by_itself) and queue and retiring.now is not None:
        operation = _admit(queue[0], desired, observed, retiring.generation, retiring.now)
    spared = {member.uid for one in queue for member in one.members}
    if operation is not None and operation.holds:
        spared.update(operation.members)
    return Reservation(
        operation=operation,
        spared=frozenset(spared),
        queue=tuple(queue),
        deletions=tuple(_deletions(operation, observed)),
        waits=tuple(_waits(operation, desired, queue)),
    )


def target_of(operation: Operation, observed: Observed) -> tuple[Member, ...]:
    """The Pods of an operation that still read."""
    return tuple(member for member in observed.members if member.uid in operation.members)


def covered(removal: Removal, observed: Observed, slots: Slots) -> bool:
    """Whether it leaves by the protocol: a replica that can be named, not short by its own account, that has ever run.

    What the role's one slot is about is cancelled with it instead (sheet 4.5).
    """
    slot = slots.get(removal.role)
    live = all(member.live for member in removal.members)
    ran = any(member.started for member in removal.members)
    named = removal.ordinal is not None and (slot is None or slot.ordinal != removal.ordinal)
    return named and live and ran and shape(removal.members).state != "short"


def _seen(
    operation: Operation, desired: Desired, observed: Observed, leaving: Sequence[Removal], retiring: Retiring
) -> Seen:
    target, protocol = target_of(operation, observed), desired.protocol
    going = {member.uid for one in leaving for member in one.members}
    live = [member for member in target if member.live]
    kinds = {readings.label(member.pod, keys.ROLE_KIND) for member in target}
    reading = {member.uid for member in (*observed.members, *observed.foreign)} - set(operation.members)
    return Seen(
        target=target,
        intended=any(member.uid in going for member in live),
        adoptable=len(live) == len(operation.members) and healthy(live),
        token=retry_token(protocol.retry, operation.role, operation.ordinal) if protocol else "",
        served_by=retiring.served_by,
        router=bool(desired.router),
        handoff_seconds=protocol.handoff_seconds if protocol and kinds & _TRANSFERRING else 0.0,
        busy=retiring.busy,
        quota_held=any(one.uid == operation.workload and not one.owners & reading for one in observed.workloads),
    )


def _admit(removal: Removal, desired: Desired, observed: Observed, generation: int, now: datetime) -> Operation:
    """A directive that stands there already is about an earlier operation, so it counts as followed."""
    assert removal.ordinal is not None and desired.protocol is not None
    workload = observed.workload_of(removal.members)
    return Operation(
        role=removal.role,
        ordinal=removal.ordinal,
        generation=generation,
        members=tuple(sorted(member.uid for member in removal.members)),
        workload=workload.uid if workload is not None else "",
        state="Admitted",
        started=whole(now),
        phase_started=whole(now),
        reason=_INTENT[removal.why],
        consumed=retry_token(desired.protocol.retry, removal.role, removal.ordinal),
    )


def _deletions(operation: Operation | None, observed: Observed) -> Iterator[DeletePods]:
    """All members together, each by its uid; those whose deletion was asked for already are left out."""
    if operation is None or operation.state != "Deleting":
        return
    pods = tuple(PodRef(m.name, m.uid) for m in target_of(operation, observed) if not m.terminating)
    if pods:
        yield DeletePods(operation.role, operation.ordinal, pods, "retired")


def _waits(operation: Operation | None, desired: Desired, queue: Sequence[Removal]) -> Iterator[Wait]:
    held = operation is not None and operation.holds
    if operation is not None and held:
        again = desired.declares(operation.role, operation.ordinal)
        kind: WaitKind = "retained" if operation.state == "Aborted" and not again else "retirement"
        message = f"{operation.state}, {operation.reason}"
        if operation.state == "Aborted" and again:
            message += "; it is declared again and kept once all its Pods are Ready, and deleting them has it made anew"
        yield Wait(kind, operation.role, operation.ordinal, message)
    for one in queue:
        if operation is None or not held:
            yield Wait("retirement", one.role, one.ordinal, "its retirement to begin")
        elif (one.role, one.ordinal) != (operation.role, operation.ordinal):
            message = f"the retirement of {place(operation.role, operation.ordinal)} to end; one at a time"
            yield Wait("turn", one.role, one.ordinal, message)
