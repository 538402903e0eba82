"""The rules that no moment of a rollout may break (rollout sheet 3, 4 and 13), held against every write of a driver.

What was right to do is judged by what the driver had last been told, since nobody can know more; what must never
happen, a seat taken twice or a write without the Lease, by what stands on the server.
"""

from collections.abc import Callable

from gpustack_components.api import names
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import (
    admitted,
    at,
    condition,
    each,
    fingerprint,
    gated,
    holds,
    member_index,
    name,
    ordinal,
    owner_uids,
    render_version,
    role,
    shape,
    terminal,
    terminating,
    uid,
)
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.record import Record, record_name
from gpustack_components.rollout.slots import Slot
from tests.rollout.simulation.cluster import SimulatedCluster
from tests.rollout.simulation.process import Connection

NAME = "qwen"
RECORD = ("ConfigMap", record_name(NAME))
LEASE = ("Lease", record_name(NAME))


class Judge:
    """Watches the writes of all drivers of one deployment, and the admissions of the cluster."""

    def __init__(self, cluster: SimulatedCluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self.broken: list[str] = []
        """Sentences about what should not have happened."""
        self._turning: dict[str, set[int]] = {}
        """Ordinals by role that a driver took down and that have not been admitted since."""
        self._captured: set[str] = set()
        """Uids of the Pods that the record names for deletion, or named when it was last there."""
        cluster.on_change = self._changed

    def judging(self, desired: Desired) -> Callable[[Connection, str, Json], None]:
        """Judges the writes of one driver that brings `desired` about."""
        strays = 0

        def judge(connection: Connection, verb: str, obj: Json) -> None:
            nonlocal strays
            kind = obj["kind"]
            self._say(f"driver: {verb} {kind} {at(obj, 'metadata', 'name') or _seat(obj)}")
            if kind in ("Lease", "Event"):
                return
            if kind != "ConfigMap" and uid(self._cluster.objects.get(LEASE, {})) not in connection.process.leases:
                strays += 1
                if strays > 1:
                    self.broken.append(f"{verb} {kind} {name(obj)} by a driver that had lost its Lease before")
            match kind, verb:
                case "Pod", "create":
                    self._created(connection, obj)
                case "Pod", "delete":
                    self._deleted(connection, desired, obj)
                case "Workload", "delete":
                    self._workload_deleted(obj)
                case "ConfigMap", "create" | "replace":
                    self._remembered(connection, desired, obj)
                case _:
                    pass

        return judge

    def forget(self) -> None:
        """The record is gone, and with it what was remembered."""
        self._turning.clear()

    def _record(self) -> Record | None:
        obj = self._cluster.objects.get(RECORD)
        return Record.from_object(obj) if obj is not None else None

    def _changed(self, obj: Json) -> None:
        if (obj["kind"], name(obj)) == RECORD:
            slots = Record.from_object(obj).slots.values()
            self._captured = {member for slot in slots for member in slot.member_uids}
        if obj["kind"] == "Workload" and self._turning and admitted(obj):
            for of, ordinals in self._turning.items():
                for one in list(ordinals):
                    if name(obj) == names.group_name("team-a", NAME, of, one):
                        ordinals.discard(one)

    def _must_have_asked(self, connection: Connection, what: str) -> None:
        if not connection.has_asked:
            self.broken.append(f"{what} is decided on what a watch has shown")

    def _created(self, connection: Connection, obj: Json) -> None:
        self._must_have_asked(connection, f"the creation of {_seat(obj)}")
        place, seat = (role(obj), ordinal(obj)), member_index(obj)
        for pod in self._cluster.pods():
            if (role(pod), ordinal(pod)) == place and member_index(pod) == seat and _ours(pod):
                self.broken.append(f"{_seat(obj)} is created while {name(pod)} still stands on that seat")
        listed = connection.told("Pod")
        if any((role(pod), ordinal(pod)) == place and terminating(pod) for pod in listed):
            self.broken.append(f"{_seat(obj)} is created beside a Pod that is leaving")
        group = at(obj, "metadata", "labels", "kueue.x-k8s.io/pod-group-name")
        if any(name(workload) == group for workload in connection.told("Workload")):
            self.broken.append(f"{_seat(obj)} is created while a Workload stands on its group's name")

    def _deleted(self, connection: Connection, desired: Desired, obj: Json) -> None:
        of, number = role(obj) or "", ordinal(obj)
        self._must_have_asked(connection, f"the deletion of {name(obj)}")
        if not _ours(obj):
            self.broken.append(f"the foreign Pod {name(obj)} is deleted")
        declared, told = desired.role(of), connection.told("Pod")
        if declared is None or number is None or terminating(obj) or terminal(obj):
            return
        if number >= declared.replicas:
            self._left_for_good(connection, desired, obj)
            return
        record = self._record()
        slot = record.slots.get(of) if record is not None else None
        lost = record is None and uid(obj) in self._captured
        if not lost and (slot is None or slot.ordinal != number or uid(obj) not in slot.member_uids):
            if not self._doubled(obj, told):
                self.broken.append(f"{_seat(obj)} is deleted without being remembered")
            return
        turning = self._turning.setdefault(of, set())
        turning.intersection_update(range(declared.replicas))
        turning.add(number)
        if len(turning) > 1:
            self.broken.append(f"role {of} turns over {sorted(turning)} at once")

    def _left_for_good(self, connection: Connection, desired: Desired, obj: Json) -> None:
        """Where the retirement protocol is in force, what serves leaves only withdrawn and drained (sheet 7)."""
        record, number = self._record(), ordinal(obj)
        if desired.protocol is None or record is None or number is None:
            return
        slot = record.slots.get(role(obj) or "")
        if slot is not None and slot.ordinal == number:
            return  # cancelled with its slot (sheet 4.5)
        serves = _Judgement(connection, desired, record.uid).serves(role(obj) or "", number)
        operation = record.retirement
        if serves and (operation is None or operation.state != "Deleting" or uid(obj) not in operation.members):
            self.broken.append(f"{_seat(obj)} serves and is deleted before it was withdrawn and drained")

    def _doubled(self, obj: Json, told: tuple[Json, ...]) -> bool:
        seat = (role(obj), ordinal(obj), member_index(obj))
        return any((role(p), ordinal(p), member_index(p)) == seat and uid(p) != uid(obj) for p in told)

    def _workload_deleted(self, obj: Json) -> None:
        owners = owner_uids(obj, "Pod")
        if not owners:
            self.broken.append(f"Workload {name(obj)}, which no Pod owns, is deleted")
        for pod in self._cluster.pods():
            if uid(pod) in owners and not (terminating(pod) and (terminal(pod) or not at(pod, "spec", "nodeName"))):
                self.broken.append(f"Workload {name(obj)} is deleted while {name(pod)} has not exited")

    def _remembered(self, connection: Connection, desired: Desired, obj: Json) -> None:
        """The slots change: a replacement may begin, be renewed, or be done with, only when it is right."""
        before = self._record()
        old: dict[str, Slot] = before.slots if before is not None else {}
        new = Record.from_object(obj).slots
        if old == new:
            return
        judgement = _Judgement(connection, desired, uid(obj))
        for of in sorted({*old, *new}):
            declared, was, now = desired.role(of), old.get(of), new.get(of)
            if declared is None or was == now:
                continue
            if was is not None and (now is None or now.ordinal != was.ordinal):
                done = was.ordinal >= declared.replicas or judgement.healthy(of, was.ordinal)
                if not done:
                    self.broken.append(f"the slot of {of}/{was.ordinal} is given up before its replacement is admitted")
            if now is None or now.phase != "Cleanup":
                continue
            if was is not None and was.ordinal == now.ordinal and was.phase == "Cleanup":
                continue
            if judgement.stands(of, now.ordinal):
                self._must_have_asked(connection, f"the replacement of {of}/{now.ordinal}")
            renewed = was is not None and was.ordinal == now.ordinal
            if reason := judgement.against(of, now.ordinal, declared.replicas, renewed=renewed):
                self.broken.append(f"{of}/{now.ordinal} is to be replaced although {reason}")


class _Judgement:
    """What one driver could know when it decided."""

    def __init__(self, connection: Connection, desired: Desired, record_uid: str) -> None:
        self._desired = desired
        self._pods: dict[tuple[str | None, int | None], list[Json]] = {}
        for pod in connection.told("Pod"):
            if not terminating(pod) and not terminal(pod) and record_uid in owner_uids(pod):
                self._pods.setdefault((role(pod), ordinal(pod)), []).append(pod)
        self._workloads = connection.told("Workload")

    def stands(self, of: str, number: int) -> bool:
        """Whether a Pod of it neither leaves nor has ended."""
        return (of, number) in self._pods

    def healthy(self, of: str, number: int) -> bool:
        """Whole and admitted."""
        pods = self._pods.get((of, number), [])
        return (
            bool(pods)
            and shape(pods).state == "complete"
            and not any(map(gated, pods))
            and any(admitted(w) and not terminating(w) for w in self._owning(pods))
        )

    def serves(self, of: str, number: int) -> bool:
        """Healthy, and some container of it was started: before that there is nothing to withdraw."""
        pods = self._pods.get((of, number), [])
        return self.healthy(of, number) and any(at(pod, "status", "containerStatuses") for pod in pods)

    def against(self, of: str, number: int, replicas: int, *, renewed: bool) -> str:
        """Why this replica must not be replaced now; empty when it may be."""
        pods = self._pods.get((of, number), [])
        declared = self._desired.role(of)
        assert declared is not None
        if shape(pods).state == "short" or not pods:
            return ""
        current = all(
            fingerprint(pod) == declared.seat(number, member_index(pod) or 0)
            and render_version(pod) >= self._desired.floor
            for pod in pods
        )
        if current:
            return "it is whole and as it should be"
        if renewed:
            return ""
        if not self.healthy(of, number):
            return "" if self._never_admitted(pods) else "it is neither admitted nor waiting for its first admission"
        absent = [other for other in range(replicas) if other != number and not self.healthy(of, other)]
        return f"{', '.join(f'{of}/{one}' for one in absent)} is not admitted" if absent else ""

    def _owning(self, pods: list[Json]) -> list[Json]:
        uids = set(map(uid, pods))
        return [workload for workload in self._workloads if owner_uids(workload, "Pod") & uids]

    def _never_admitted(self, pods: list[Json]) -> bool:
        """Whether nothing is lost by replacing it (sheet 4.6)."""
        workloads = self._owning(pods)
        history = ("Evicted", "Preempted", "Requeued")
        return (
            bool(workloads)
            and all(map(gated, pods))
            and not any(holds(workload, "Admitted") for workload in workloads)
            and not any(condition(workload, kind) for workload in workloads for kind in history)
        )


def _ours(obj: Json) -> bool:
    """Whether it belongs to the deployment, to its present record or a former one."""
    return any(owner.get("name") == RECORD[1] for owner in each(obj, "metadata", "ownerReferences"))


def _seat(obj: Json) -> str:
    return f"{role(obj)}/{ordinal(obj)} member {member_index(obj)}"
