"""Planners that are wrong on purpose, each in one way: the machine has to find every one of them out.

Each takes the real planner and answers with its decision, spoiled.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpustack_components.rollout.actions import (
    Action,
    CreateReplica,
    Decision,
    DeletePods,
    DeleteWorkload,
    PodRef,
    in_order,
)
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Member, Observed
from gpustack_components.rollout.slots import Slot, Slots

Spoil = Callable[[Decision, Desired, Observed, Slots], Decision]


def _refs(members: tuple[Member, ...]) -> tuple[PodRef, ...]:
    return tuple(PodRef(member.name, member.uid) for member in members)


def _live(observed: Observed, role: str, ordinal: int | None) -> tuple[Member, ...]:
    return tuple(member for member in observed.at(role, ordinal) if member.live)


def _also(decision: Decision, *actions: Action) -> Decision:
    return replace(decision, actions=in_order((*decision.actions, *actions)))


def _without(decision: Decision, kind: type[Action]) -> Decision:
    return replace(decision, actions=tuple(action for action in decision.actions if not isinstance(action, kind)))


def _captured(observed: Observed, role: str, ordinal: int) -> Slot:
    members = observed.at(role, ordinal)
    workload = observed.workload_of(members)
    uids = tuple(sorted(member.uid for member in members))
    return Slot(role, ordinal, "Cleanup", uids, workload.uid if workload else "")


def waits_for_no_admission(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Turns a healthy replica over although a sibling is not admitted."""
    for wait in decision.waits:
        if wait.kind == "guard" and wait.ordinal is not None and wait.role not in decision.slots:
            pods = _refs(_live(observed, wait.role, wait.ordinal))
            opened = {**decision.slots, wait.role: _captured(observed, wait.role, wait.ordinal)}
            return replace(
                _also(decision, DeletePods(wait.role, wait.ordinal, pods, "outdated")),
                slots=opened,
            )
    return decision


def waits_for_no_turn(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Turns a second replica of a role over beside the first."""
    more = [
        DeletePods(wait.role, wait.ordinal, _refs(_live(observed, wait.role, wait.ordinal)), "outdated")
        for wait in decision.waits
        if wait.kind == "turn"
    ]
    return _also(decision, *more)


def gives_its_turn_up_early(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Is done with a replacement before it is admitted."""
    kept = {role: slot for role, slot in decision.slots.items() if not slot.current_member_uids}
    return replace(decision, slots=kept)


def forgets_the_slot(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes without remembering what."""
    return replace(decision, slots={})


def remembers_late(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Remembers what it deletes one pass later."""
    return replace(decision, slots=slots) if any(isinstance(one, DeletePods) for one in decision.actions) else decision


def waits_for_no_vacancy(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Creates a replica while its predecessor is leaving."""
    more = [
        CreateReplica(wait.role, wait.ordinal, tuple(range(role.size)))
        for wait in decision.waits
        if wait.kind in ("exit", "release")
        and wait.ordinal is not None
        and (role := desired.role(wait.role)) is not None
        and wait.ordinal < role.replicas
        and not _live(observed, wait.role, wait.ordinal)
    ]
    return _also(decision, *more)


def tops_up(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Creates the missing member of a running group instead of rebuilding it."""
    actions: list[Action] = []
    for action in decision.actions:
        if isinstance(action, DeletePods) and action.why == "broken" and action.ordinal is not None:
            seats = {member.seat for member in _live(observed, action.role, action.ordinal)}
            role = desired.role(action.role)
            missing = tuple(seat for seat in range(role.size if role else 0) if seat not in seats)
            actions.append(CreateReplica(action.role, action.ordinal, missing))
        else:
            actions.append(action)
    return replace(decision, actions=in_order(actions))


def deletes_the_workload_at_once(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes a Workload while its Pods still run."""
    more = [
        DeleteWorkload(action.role, action.ordinal, workload.name, workload.uid)
        for action in decision.actions
        if isinstance(action, DeletePods)
        for pod in action.pods
        for workload in observed.owning(pod.uid)
    ]
    return _also(decision, *more)


def leaves_the_workload(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Never deletes a Workload, so nothing releases the Pods."""
    return _without(decision, DeleteWorkload)


def clears_foreign_pods(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes what belongs to somebody else."""
    return _also(decision, *(DeletePods(pod.role, pod.ordinal, _refs((pod,)), "surplus") for pod in observed.foreign))


def takes_names_for_ownership(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes a Workload because it stands on the name of one of its groups."""
    more = [
        DeleteWorkload(role.name, ordinal, workload.name, workload.uid)
        for role in desired.roles
        for ordinal in range(role.replicas)
        if (workload := observed.named(desired.group_name(role.name, ordinal))) is not None and not workload.owners
    ]
    return _also(decision, *more)


def creates_what_is_there(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Creates a replica again that is waiting for its admission."""
    more = [
        CreateReplica(wait.role, wait.ordinal, tuple(range(role.size)))
        for wait in decision.waits
        if wait.kind == "admission" and wait.ordinal is not None and (role := desired.role(wait.role)) is not None
    ]
    return _also(decision, *more)


def replaces_what_is_right(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Turns a replica over once more after it has been replaced."""
    for role, slot in slots.items():
        if role not in decision.slots and (live := _live(observed, role, slot.ordinal)):
            again = {**decision.slots, role: _captured(observed, role, slot.ordinal)}
            return replace(
                _also(decision, DeletePods(role, slot.ordinal, _refs(live), "outdated")),
                slots=again,
            )
    return decision


def cuts_the_lowest(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Scales down from the wrong end."""
    actions = [
        replace(action, ordinal=0, pods=_refs(_live(observed, action.role, 0)))
        if isinstance(action, DeletePods) and action.why == "scaled-down"
        else action
        for action in decision.actions
    ]
    return replace(decision, actions=in_order(actions))


def retires_nobody(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes what is scaled down without withdrawing and draining it."""
    return decide(replace(desired, protocol=None), observed, slots) if desired.protocol else decision


@dataclass(frozen=True, slots=True)
class _Rash(Decision):
    @property
    def risky(self) -> bool:
        return False


def believes_the_watch(decision: Decision, desired: Desired, observed: Observed, slots: Slots) -> Decision:
    """Deletes and creates on what a watch has shown."""
    return _Rash(decision.actions, decision.slots, decision.waits, decision.retirement)


MUTANTS: tuple[Spoil, ...] = (
    waits_for_no_admission,
    waits_for_no_turn,
    gives_its_turn_up_early,
    forgets_the_slot,
    remembers_late,
    waits_for_no_vacancy,
    tops_up,
    deletes_the_workload_at_once,
    leaves_the_workload,
    clears_foreign_pods,
    takes_names_for_ownership,
    creates_what_is_there,
    replaces_what_is_right,
    cuts_the_lowest,
    retires_nobody,
    believes_the_watch,
)
