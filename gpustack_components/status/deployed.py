"""The replicas that stand in the cluster, as raw Pods and Workloads show them (rollout sheet 8, words of its head)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpustack_components.cluster import readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import Mode, Shape


@dataclass(frozen=True, slots=True)
class Replica:
    """All Pods of one role and ordinal, and the Workload that owns them."""

    role: str
    """Role name."""
    ordinal: int | None
    """Ordinal; None for a Pod that names none, which stands alone."""
    members: tuple[Json, ...]
    """Its Pods by name, terminating ones included."""
    workload: Json | None
    """The Workload that owns one of them, or None."""

    @property
    def label(self) -> str:
        """Role and ordinal as sentences name a replica: `server/2`."""
        return f"{self.role}/{'?' if self.ordinal is None else self.ordinal}"

    @property
    def live(self) -> tuple[Json, ...]:
        """Its Pods that are neither being deleted nor ended."""
        return tuple(p for p in self.members if not readings.terminating(p) and not readings.terminal(p))

    @property
    def leaving(self) -> bool:
        """Whether no live Pod is left of it."""
        return not self.live

    @property
    def shape(self) -> Shape:
        """How whole its live Pods are by their own account."""
        return readings.shape(self.live)

    @property
    def whole(self) -> bool:
        """Whether it has all its members and none is leaving."""
        return len(self.live) == len(self.members) and self.shape.state == "complete"

    @property
    def ready(self) -> bool:
        """Whether it is whole and every member is Ready."""
        return self.whole and all(readings.ready(pod) for pod in self.members)

    @property
    def admitted(self) -> bool:
        """Whether its Workload is admitted and not evicted."""
        return self.workload is not None and readings.admitted(self.workload)

    @property
    def quota_reserved(self) -> bool:
        """Whether its Workload holds quota."""
        return self.workload is not None and readings.quota_reserved(self.workload)

    @property
    def evicted(self) -> bool:
        """Whether Kueue evicted its Workload."""
        return self.workload is not None and readings.evicted(self.workload)

    @property
    def preempted(self) -> bool:
        """Whether its Workload lost its quota to another one."""
        return self.workload is not None and readings.preempted(self.workload)

    @property
    def mode(self) -> Mode:
        """Who wrote its command line, by its Pods."""
        return readings.mode(self.live)


@dataclass(frozen=True)
class Observation:
    """What was read: the deployment's own Pods, and the namespace's Workloads.

    A failed list makes no observation: then the status stays as it was.
    """

    pods: tuple[Json, ...] = ()
    """The Pods that the deployment's record owns, terminating ones included."""
    workloads: tuple[Json, ...] = ()
    """The Workloads of the namespace; those that own none of the Pods do not matter."""
    _replicas: Mapping[str, tuple[Replica, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_replicas", _group(self.pods, self.workloads))

    def replicas(self, role: str | None = None) -> tuple[Replica, ...]:
        """The replicas of a role by ordinal, those without one last; of every role without an argument."""
        if role is not None:
            return self._replicas.get(role, ())
        return tuple(replica for name in sorted(self._replicas) for replica in self._replicas[name])

    def live(self, role: str) -> tuple[Replica, ...]:
        """The replicas of a role that have a live Pod."""
        return tuple(replica for replica in self.replicas(role) if not replica.leaving)


MOST_SPANS = 12
"""Groups of replicas that a sentence names; the rest are counted, so that no message grows with the replicas."""


def spans(replicas: Iterable[Replica]) -> str:
    """Replicas named shortly: `server/0, server/2-5`."""
    words: list[str] = []
    ordered = sorted(replicas, key=lambda r: (r.role, -1 if r.ordinal is None else r.ordinal))
    start = 0
    for position in range(1, len(ordered) + 1):
        previous, first = ordered[position - 1], ordered[start]
        if position < len(ordered):
            following = ordered[position]
            adjacent = previous.ordinal is not None and following.ordinal == previous.ordinal + 1
            if following.role == first.role and adjacent:
                continue
        words.append(first.label if previous is first else f"{first.label}-{previous.ordinal}")
        start = position
    if len(words) > MOST_SPANS:
        words = [*words[:MOST_SPANS], f"and {len(words) - MOST_SPANS} more groups"]
    return ", ".join(words)


def _group(pods: Iterable[Json], workloads: Iterable[Json]) -> Mapping[str, tuple[Replica, ...]]:
    owning: dict[str, Json] = {}
    for workload in sorted(workloads, key=lambda w: (readings.terminating(w), readings.name(w))):
        for uid in readings.owner_uids(workload, "Pod"):
            owning.setdefault(uid, workload)
    seats: dict[tuple[str, int | None, str], list[Json]] = {}
    for pod in sorted(pods, key=readings.name):
        ordinal = readings.ordinal(pod)
        alone = readings.uid(pod) if ordinal is None else ""
        seats.setdefault((readings.role(pod) or "", ordinal, alone), []).append(pod)
    by_role: dict[str, list[Replica]] = {}
    for (role, ordinal, _), members in seats.items():
        owners = (owning.get(readings.uid(pod)) for pod in sorted(members, key=readings.terminating))
        workload = next((owner for owner in owners if owner is not None), None)
        by_role.setdefault(role, []).append(Replica(role, ordinal, tuple(members), workload))
    return {
        role: tuple(sorted(replicas, key=lambda r: (r.ordinal is None, r.ordinal or 0, readings.name(r.members[0]))))
        for role, replicas in by_role.items()
    }
