"""One pass of the state machine: from what is wanted, what stands, and the remembered slots, to what happens next.

Pure and level-based: it never asks what the last pass did. The order is the sheet's (4.1): what has ended by itself is
cleared, groups that have left are released, then each role resolves its slot, sheds, turns at most one replica over,
and creates what is missing. Deletes and creates never both happen for one role in one pass.
"""

from collections.abc import Iterable, Mapping

from gpustack_components.api import names
from gpustack_components.rollout.actions import (
    Action,
    CreateReplica,
    Decision,
    DeletePods,
    DeleteWorkload,
    EnsureService,
    PodRef,
    PruneService,
    ReleaseFinalizer,
    Wait,
    in_order,
)
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Member, Observed, Workload
from gpustack_components.rollout.qualification import marks
from gpustack_components.rollout.retirement.reservation import Reservation, Retiring, reserve
from gpustack_components.rollout.role_pass import RolePass, refs
from gpustack_components.rollout.selection import selections
from gpustack_components.rollout.shedding import Removal, removals
from gpustack_components.rollout.slots import Slot, Slots


def decide(
    desired: Desired,
    observed: Observed,
    slots: Slots,
    *,
    stuck: frozenset[str] = frozenset(),
    retiring: Retiring | None = None,
) -> Decision:
    """What to do next.

    `stuck` are uids out of `awaiting_release` for which Kueue has had its chance: only the caller has a clock.
    `retiring` is what is known of the retirement under way; without a clock in it none is begun or carried on.
    """
    leaving = removals(desired, observed)
    reservation = reserve(desired, observed, slots, leaving, retiring or Retiring())
    actions: list[Action] = [*reservation.deletions]
    waits: list[Wait] = [*reservation.waits]
    ended = _clear_ended(desired, observed, leaving, reservation, actions)
    _release_departed(observed, stuck, actions, waits)
    kept: dict[str, Slot] = {}
    for slot in slots.values():
        if desired.role(slot.role) is None and any(member.role == slot.role for member in observed.members):
            kept[slot.role] = slot
    for role in desired.roles:
        own = [removal for removal in leaving if removal.role == role.name]
        turn = RolePass(desired, role, observed, slots.get(role.name), own, reservation, deleting=role.name in ended)
        turn.run()
        actions += turn.actions
        waits += turn.waits
        if turn.slot is not None:
            kept[role.name] = turn.slot
    actions += _services(desired, observed, actions)
    going = frozenset(pod.uid for action in actions if isinstance(action, DeletePods) for pod in action.pods)
    actions += marks(desired, observed, kept, reservation.operation, going)
    actions += selections(desired, observed)
    told = tuple({wait.key: wait for wait in waits}.values())
    return Decision(in_order(_once(actions)), kept, told, reservation.operation)


def awaiting_release(observed: Observed) -> frozenset[str]:
    """Uids of our exited, deleted Pods that Kueue's finalizer still holds though no Workload is left to release
    them."""
    return frozenset(member.uid for member in observed.members if _orphaned_finalizer(member, observed))


def _orphaned_finalizer(member: Member, observed: Observed) -> bool:
    return (
        member.terminating
        and member.exited
        and member.finalizer
        and not observed.owning(member.uid)
        and observed.named(member.group) is None
    )


def _clear_ended(
    desired: Desired,
    observed: Observed,
    leaving: Iterable[Removal],
    reservation: Reservation,
    actions: list[Action],
) -> set[str]:
    """Delete Pods that ended by themselves and Pods of roles that are gone; the roles it deletes from (sheet 4.1, 5 and
    6)."""
    touched: set[str] = set()
    for role, ordinal in observed.seats():
        ours = [member for member in observed.at(role, ordinal) if member.belonging == "ours"]
        gone = [member for member in ours if not member.terminating and not member.live]
        if gone and desired.role(role) is not None:
            actions.append(DeletePods(role, ordinal, refs(gone), "finished"))
            touched.add(role)
    for removal in leaving:
        unspared = [member for member in removal.members if member.uid not in reservation.spared]
        if unspared and removal.why == "role-removed":
            actions.append(DeletePods(removal.role, removal.ordinal, refs(unspared), "role-removed"))
    return touched


def _release_departed(observed: Observed, stuck: frozenset[str], actions: list[Action], waits: list[Wait]) -> None:
    """Delete the Workload of every group that has left, once all of it has exited (sheet 4.1, 7; kueue-facts 3)."""
    by_uid = {member.uid: member for member in (*observed.members, *observed.foreign)}
    for role, ordinal in observed.seats():
        present = observed.at(role, ordinal)
        leaving = [member for member in present if member.terminating]
        for workload in {
            workload.uid: workload for member in leaving for workload in observed.owning(member.uid)
        }.values():
            if not workload.terminating and _all_exited(workload, by_uid):
                actions.append(DeleteWorkload(role, ordinal, workload.name, workload.uid))
        for member in leaving:
            if member.uid in stuck and _orphaned_finalizer(member, observed):
                actions.append(ReleaseFinalizer(role, ordinal, PodRef(member.name, member.uid)))
        if running := [member for member in leaving if not member.exited]:
            nodes = sorted({member.node for member in running if member.node})
            where = f" on {', '.join(nodes)}" if nodes else ""
            message = f"{_these(running)}{where} to exit"
            waits.append(Wait("exit", role, ordinal, message, grace=max(member.grace for member in running)))
        elif left := [member for member in leaving if not _beside_live(member, observed, by_uid)]:
            first = min((workload.name for member in left for workload in observed.owning(member.uid)), default="")
            waits.append(Wait("release", role, ordinal, f"Kueue to release {_these(left)}", first))
        elif former := [member for member in present if member.belonging == "former" and not member.terminating]:
            message = f"{_these(former)} of a record that is gone to be garbage collected"
            waits.append(Wait("release", role, ordinal, message))


def _beside_live(member: Member, observed: Observed, by_uid: Mapping[str, Member]) -> bool:
    """Whether a Workload holds this Pod because a member of the same group still stands."""
    owners = {uid for workload in observed.owning(member.uid) for uid in workload.owners}
    return any(by_uid[uid].live for uid in owners if uid in by_uid)


def _all_exited(workload: Workload, by_uid: Mapping[str, Member]) -> bool:
    """Whether every Pod of this Workload that still reads is ours, deleted, and has exited."""
    owners = [by_uid[uid] for uid in workload.owners if uid in by_uid]
    return all(owner.belonging != "foreign" and owner.terminating and owner.exited for owner in owners)


def _these(members: list[Member]) -> str:
    listed = ", ".join(member.name for member in members[:3])
    more = f" and {len(members) - 3} more" if len(members) > 3 else ""
    return f"Pod{'s' if len(members) > 1 else ''} {listed}{more}"


def _services(desired: Desired, observed: Observed, actions: list[Action]) -> list[Action]:
    """A headless Service for each replica of more than one Pod while any member reads or is about to (sheet 5.3)."""
    created = {(action.role, action.ordinal) for action in actions if isinstance(action, CreateReplica)}
    needed: set[str] = set()
    result: list[Action] = []
    for role in desired.roles:
        for ordinal in range(role.replicas if role.size > 1 else 0):
            name = names.instance_service(desired.name, role.name, ordinal)
            needed.add(name)
            wanted = (role.name, ordinal) in created or observed.at(role.name, ordinal)
            if wanted and name not in observed.services:
                result.append(EnsureService(role.name, ordinal))
    for member in observed.members:
        if member.total != 1 and member.ordinal is not None:
            needed.add(names.instance_service(desired.name, member.role, member.ordinal))
    result += [PruneService(name, uid) for name, uid in sorted(observed.services.items()) if name not in needed]
    return result


def _once(actions: Iterable[Action]) -> Iterable[Action]:
    """Each Pod and each Workload is deleted once, for the first reason given."""
    seen: set[str] = set()
    for action in actions:
        match action:
            case DeletePods():
                pods = tuple(pod for pod in action.pods if pod.uid not in seen)
                seen.update(pod.uid for pod in pods)
                if pods:
                    yield DeletePods(action.role, action.ordinal, pods, action.why)
            case DeleteWorkload():
                if action.uid not in seen:
                    seen.add(action.uid)
                    yield action
            case _:
                yield action
