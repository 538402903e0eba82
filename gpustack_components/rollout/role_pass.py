"""One role's turn in a pass: resolve its slot, shed, turn at most one replica over, create what is missing (sheet 4.2
to 4.9)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpustack_components.rollout.actions import (
    Action,
    CreateReplica,
    DeletePods,
    DeleteWorkload,
    PodRef,
    Wait,
    WaitKind,
    Why,
)
from gpustack_components.rollout.desired import Desired, DesiredRole
from gpustack_components.rollout.observe import Member, Observed, Workload, shape
from gpustack_components.rollout.retirement.reservation import Reservation
from gpustack_components.rollout.shedding import Removal, is_current
from gpustack_components.rollout.slots import Slot


def refs(members: Iterable[Member]) -> tuple[PodRef, ...]:
    """The members as exactly those Pods."""
    return tuple(PodRef(member.name, member.uid) for member in members)


@dataclass(frozen=True, slots=True)
class Replica:
    """A declared replica with at least one live member, judged."""

    ordinal: int
    live: tuple[Member, ...]
    workload: Workload | None
    """The Workload that owns one of them."""
    current: bool
    """Every member matches the render of its own seat and the render-version floor."""
    state: str
    """`complete`, `short` or `unreadable` (sheet 12)."""

    @property
    def broken(self) -> bool:
        """Readable, with fewer members than they declare."""
        return self.state == "short"

    @property
    def admitted(self) -> bool:
        """It counts as admitted for the cadence guard: not short, behind no gate, under an admitted Workload."""
        return (
            not self.broken
            and self.workload is not None
            and self.workload.admitted
            and not any(member.gated for member in self.live)
        )

    @property
    def never_admitted(self) -> bool:
        """It waits for its first admission, so nothing is lost by replacing it (sheet 4.6)."""
        return (
            self.state == "complete"
            and self.workload is not None
            and self.workload.fresh
            and not self.workload.terminating
            and all(member.uid in self.workload.owners for member in self.live)
            and all(
                member.phase == "Pending" and not member.node and member.gated and not member.started
                for member in self.live
            )
        )


def judge(desired: Desired, role: DesiredRole, observed: Observed, ordinal: int, live: tuple[Member, ...]) -> Replica:
    """The replica whose live members these are; a seat that cannot be read condemns nothing (sheet 4.2)."""
    state = shape(live).state
    compared = [member for member in live if member.seated or state != "unreadable"]
    return Replica(
        ordinal=ordinal,
        live=live,
        workload=observed.workload_of(live),
        current=all(is_current(desired, role, ordinal, member) for member in compared),
        state=state,
    )


def runs_on(slot: Slot, replica: Replica | None, present: tuple[Member, ...]) -> bool:
    """Whether the slot's replica runs whole and admitted: its turnover is over, or nothing of it was deleted yet. Then
    the same guard and holds decide about it as about any other."""
    if replica is None or replica.state != "complete" or not replica.admitted or len(present) != len(replica.live):
        return False
    return slot.phase != "Cleanup" or {member.uid for member in present} == set(slot.member_uids)


class RolePass:
    """The turn of one role. `run` fills `actions`, `waits` and `slot`."""

    def __init__(
        self,
        desired: Desired,
        role: DesiredRole,
        observed: Observed,
        slot: Slot | None,
        removals: Sequence[Removal],
        reservation: Reservation,
        *,
        deleting: bool,
    ) -> None:
        """`removals` are those of the role. `deleting` says that this pass deletes Pods of the role already."""
        self.desired = desired
        self.role = role
        self.observed = observed
        self.slot = slot
        self.actions: list[Action] = []
        self.waits: list[Wait] = []
        self._removals = removals
        self._reservation = reservation
        self._deleting = deleting
        self._shedding = False
        self._create: dict[int, tuple[int, ...]] = {}
        self._live = {
            ordinal: tuple(member for member in observed.at(role.name, ordinal) if member.live)
            for name, ordinal in observed.seats()
            if name == role.name
        }
        self._orphans: tuple[Member, ...] = self._live.pop(None, ())
        self._replicas: dict[int, Replica] = {}

    def run(self) -> None:
        """Take the turn."""
        self._shed()
        self._replicas = {
            ordinal: judge(self.desired, self.role, self.observed, ordinal, live)
            for ordinal, live in self._live.items()
            if live and ordinal is not None and ordinal < self.role.replicas
        }
        self._resolve()
        if not self._deleting:
            self._turn_over()
        if not self._deleting:
            self._create_missing()
        self._report()

    def _delete(self, ordinal: int | None, members: Iterable[Member], why: Why) -> None:
        if pods := refs(members):
            self.actions.append(DeletePods(self.role.name, ordinal, pods, why))
            self._deleting = True

    def _wait(self, kind: WaitKind, ordinal: int | None, message: str, workload: Workload | None = None) -> None:
        quoted = workload is not None and message == workload.message
        self.waits.append(Wait(kind, self.role.name, ordinal, message, workload.name if workload else "", quoted))

    def _shed(self) -> None:
        """Delete what no declared replica explains, highest ordinal first, orphans last, except whom a retirement takes
        (sheet 4.2)."""
        for removal in self._removals:
            if removal.ordinal is None:
                self._orphans = tuple(member for member in self._orphans if member not in removal.members)
            else:
                live = self._live[removal.ordinal]
                self._live[removal.ordinal] = tuple(member for member in live if member not in removal.members)
            for member in removal.members:
                if member.uid not in self._reservation.spared:
                    self._delete(removal.ordinal, (member,), removal.why)
                    self._shedding = True

    def _resolve(self) -> None:
        """Carry the remembered replacement on (sheet 4.5)."""
        slot = self.slot
        if slot is None:
            return
        present = self.observed.at(self.role.name, slot.ordinal)
        if slot.ordinal >= self.role.replicas:
            if not present and not self._leftover(slot):
                self.slot = None
            return
        if slot.phase == "Cleanup":
            if runs_on(slot, self._replicas.get(slot.ordinal), present):
                self.slot = None
                return
            captured = [member for member in present if member.uid in slot.member_uids]
            if standing := [member for member in captured if not member.terminating]:
                self._delete(slot.ordinal, standing, "outdated")
            if captured or self._leftover(slot):
                return
            candidate = any(member.live for member in present)
            if not candidate and not self._vacant(slot.ordinal):
                return
            self.slot = slot = Slot(
                self.role.name, slot.ordinal, "WaitingForAdmission", member_hashes=self._hashes(slot.ordinal)
            )
        self._resolve_waiting(slot, present)

    def _resolve_waiting(self, slot: Slot, present: tuple[Member, ...]) -> None:
        ordinal, hashes = slot.ordinal, self._hashes(slot.ordinal)
        replica = self._replicas.get(ordinal)
        if replica is None:
            if present:
                self._capture(ordinal, present, slot)
            elif self._vacant(ordinal):
                self.slot = Slot(self.role.name, ordinal, "WaitingForAdmission", member_hashes=hashes)
                self._create[ordinal] = tuple(range(self.role.size))
            return
        if not replica.current and not self._rolls_held():
            if runs_on(slot, replica, present) and self._admission_gap(replica) is None:
                self.slot = None
            else:
                self._supersede(replica, present, slot, "superseded")
            return
        lost = set(slot.current_member_uids) - {member.uid for member in replica.live}
        leaving = len(present) > len(replica.live)
        if replica.broken:
            stands = replica.workload or self.observed.named(self.desired.group_name(self.role.name, ordinal))
            if lost or leaving or stands is not None:
                self._supersede(replica, present, slot, "broken")
            elif replica.current:
                seats = {member.seat for member in replica.live}
                self._create[ordinal] = tuple(index for index in range(self.role.size) if index not in seats)
            return
        uids = tuple(sorted(member.uid for member in replica.live))
        self.slot = slot = replace(slot, member_hashes=hashes, current_member_uids=uids)
        if replica.state == "complete" and not leaving and self._admission_gap(replica) is None:
            self.slot = None

    def _supersede(self, replica: Replica, present: tuple[Member, ...], slot: Slot, why: Why) -> None:
        self._capture(replica.ordinal, present, slot)
        self._delete(replica.ordinal, replica.live, why)

    def _capture(self, ordinal: int, present: tuple[Member, ...], slot: Slot | None = None) -> None:
        """Remember who is about to go, before the first of them does."""
        uids = {member.uid for member in present}
        if slot is not None:
            uids.update(slot.current_member_uids)
        workload = self.observed.workload_of(present)
        if workload is None:
            owned = (item for item in self.observed.workloads if item.owners & uids)
            workload = next(owned, None)
        self.slot = Slot(
            self.role.name, ordinal, "Cleanup", tuple(sorted(uids)), workload.uid if workload is not None else ""
        )

    def _leftover(self, slot: Slot) -> bool:
        """Whether a Workload of the captured members still stands; asks for its deletion once nothing of it reads."""
        captured = {*slot.member_uids, *slot.current_member_uids}
        reading = {member.uid for member in (*self.observed.members, *self.observed.foreign)}
        live = {member.uid for members in self._live.values() for member in members}
        found = False
        for workload in self.observed.workloads:
            ours = workload.uid == slot.workload_uid or (workload.owners and workload.owners <= captured)
            if not ours or workload.owners & live:
                continue
            found = True
            if not workload.owners & reading:
                self._wait("release", slot.ordinal, f"Workload {workload.name} to go", workload)
                if not workload.terminating:
                    self.actions.append(DeleteWorkload(self.role.name, slot.ordinal, workload.name, workload.uid))
        return found

    def _hashes(self, ordinal: int) -> tuple[str, ...]:
        return self.role.hashes[ordinal]

    def _rolls_held(self) -> bool:
        return self.desired.hold("cache") is not None or self.desired.hold("weights") is not None

    def _turn_over(self) -> None:
        """Choose at most one replica to replace (sheet 4.3)."""
        if self._shedding or self._create or self.desired.hold("weights") is not None:
            return
        holding = self.slot is not None
        others = [
            replica
            for replica in self._replicas.values()
            if (self.slot is None or replica.ordinal != self.slot.ordinal) and not self._retiring(replica.ordinal)
        ]
        broken = [replica for replica in others if replica.broken]
        if broken and not holding:
            self._open(broken, "broken")
        elif self._orphans:
            orphan = max(self._orphans, key=lambda member: member.name)
            self._delete(None, (orphan,), "orphan")
        elif not holding and not self._rolls_held():
            outdated = [replica for replica in others if not replica.current and not replica.broken]
            queued = [replica for replica in outdated if replica.never_admitted]
            if queued:
                self._open(queued, "outdated")
            elif outdated and self._admitted() == self.role.replicas:
                self._open(outdated, "outdated")

    def _open(self, candidates: list[Replica], why: Why) -> None:
        victim = max(candidates, key=lambda replica: replica.ordinal)
        self._capture(victim.ordinal, self.observed.at(self.role.name, victim.ordinal))
        self._delete(victim.ordinal, victim.live, why)

    def _admitted(self) -> int:
        return sum(1 for replica in self._replicas.values() if replica.admitted)

    def _create_missing(self) -> None:
        """Create every declared replica that is missing and whose place is vacant, lowest ordinal first (sheet 4.9)."""
        missing = self.role.replicas - len(self._replicas) - len(self._orphans)
        if self.desired.hold("weights") is not None:
            self._create = {}
            return
        slot_ordinal = self.slot.ordinal if self.slot is not None else None
        missing -= sum(1 for ordinal in self._create if ordinal not in self._replicas)
        for ordinal in range(self.role.replicas):
            if missing <= 0:
                break
            if ordinal in self._replicas or ordinal == slot_ordinal or self._retiring(ordinal):
                continue
            if self._vacant(ordinal):
                self._create[ordinal] = tuple(range(self.role.size))
                missing -= 1
        for ordinal, indices in self._create.items():
            self.actions.append(CreateReplica(self.role.name, ordinal, indices))

    def _retiring(self, ordinal: int) -> bool:
        return self._reservation.holds(self.role.name, ordinal)

    def _vacant(self, ordinal: int) -> bool:
        """Whether nothing stands where a replica would: no Pod of it, terminating or foreign, and no Workload on its
        name."""
        if self.observed.at(self.role.name, ordinal):
            return False
        group = self.desired.group_name(self.role.name, ordinal)
        workload = self.observed.named(group)
        foreign = next(
            (
                pod
                for pod in self.observed.foreign
                if pod.group == group or (pod.role == self.role.name and pod.ordinal == ordinal)
            ),
            None,
        )
        if foreign is not None:
            self._wait("foreign", ordinal, f"Pod {foreign.name}, which belongs to somebody else, to leave its place")
            return False
        if workload is None:
            return True
        if workload.owners:
            self._wait("release", ordinal, f"Workload {group} of Pods that are gone to go", workload)
        else:
            self._wait(
                "foreign", ordinal, f"Workload {group}, which none of its Pods owns, to leave its name", workload
            )
        return False

    def _admission_gap(self, replica: Replica) -> str | None:
        """What is missing until this whole replica is admitted as it is wanted (sheet 4.4, 6); None when nothing is."""
        workload = replica.workload
        if workload is None:
            return "Kueue has composed no Workload for its Pods"
        if not workload.admitted:
            return workload.message or "Kueue has not judged its Workload yet"
        if not all(member.uid in workload.owners for member in replica.live):
            return f"Workload {workload.name} does not own all of its Pods"
        if any(member.gated for member in replica.live):
            return "admitted; Kueue has not opened the gate of its Pods yet"
        counted = sum(pod_set.count for pod_set in workload.pod_sets)
        described = {pod_set.describes for pod_set in workload.pod_sets}
        if len(workload.pod_sets) != 1 or counted != len(replica.live):
            return f"Workload {workload.name} stands for {counted} Pods instead of {len(replica.live)}"
        if workload.queue != replica.live[0].queue or not described & {member.describes for member in replica.live}:
            return f"Workload {workload.name} describes another Pod than the replica's"
        return None

    def _report(self) -> None:
        """Say of every declared replica what it still waits for."""
        admitted = self._admitted() == self.role.replicas
        for ordinal in range(self.role.replicas):
            replica = self._replicas.get(ordinal)
            if replica is None or self._retiring(ordinal):
                continue
            if replica.state == "unreadable":
                self._wait(
                    "unreadable", ordinal, "its Pods contradict each other about the group's total or their seats"
                )
            elif replica.broken and self.desired.hold("weights") is not None:
                self._outdated(ordinal, admitted)
            elif replica.broken:
                self._wait("turn", ordinal, "it lost a member and is rebuilt whole next", replica.workload)
            elif (gap := self._admission_gap(replica)) is not None and (replica.current or not replica.admitted):
                self._wait("admission", ordinal, gap, replica.workload)
            elif not replica.current:
                self._outdated(ordinal, admitted)
        if (weights := self.desired.hold("weights")) is not None and len(self._replicas) < self.role.replicas:
            self._wait("held", None, weights.message)

    def _outdated(self, ordinal: int, admitted: bool) -> None:
        hold = self.desired.hold("weights") or self.desired.hold("cache")
        if hold is not None:
            self._wait("held", ordinal, hold.message)
        elif self.slot is not None:
            self._wait("turn", ordinal, f"{self.role.name}/{self.slot.ordinal} is being replaced; one at a time")
        elif not admitted:
            self._wait("guard", ordinal, f"not every replica of role {self.role.name} is admitted")
