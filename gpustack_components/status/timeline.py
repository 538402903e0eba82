"""What happened to each replica and when, read off its Pods and Workload; gathered over several looks for a live view.

Times are RFC 3339 text as objects carry it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpustack_components.cluster import readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at
from gpustack_components.status.deployed import Observation

_POD_WORDS = {"Ready": ("Ready", "not Ready"), "PodScheduled": ("scheduled", "")}
_WORKLOAD_WORDS = {"QuotaReserved": ("got quota", ""), "Admitted": ("admitted", ""), "Evicted": ("evicted", "")}


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened."""

    time: str
    """When, RFC 3339."""
    replica: str
    """To which replica: `server/2`."""
    subject: str
    """To what of it: the replica itself, or one of its Pods by name."""
    words: str
    """What."""


def timeline(observation: Observation) -> tuple[Moment, ...]:
    """What happened to the replicas that still read, oldest first."""
    moments: list[Moment] = []
    for replica in observation.replicas():
        for pod in replica.members:
            subject = readings.name(pod)
            moments += _moment(at(pod, "metadata", "creationTimestamp"), replica.label, subject, "created")
            moments += _moment(readings.deletion_asked(pod), replica.label, subject, "asked to leave")
            moments += _turned(pod, replica.label, subject, _POD_WORDS)
        if replica.workload is not None:
            moments += _turned(replica.workload, replica.label, replica.label, _WORKLOAD_WORDS)
    return in_order(moments)


def in_order(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Each once, oldest first; what happened in one second as it happens in a replica's life."""
    return tuple(sorted(set(moments), key=lambda one: (one.time, _rank(one.words), one.subject)))


@dataclass
class Timelines:
    """What happened while somebody looks on: also to Pods that have gone meanwhile."""

    longest: int = 40
    """Moments kept of each replica."""
    _moments: dict[str, tuple[Moment, ...]] = field(default_factory=dict[str, tuple[Moment, ...]])
    _pods: dict[str, tuple[str, Json]] = field(default_factory=dict[str, tuple[str, Json]])

    def look(self, observation: Observation, now: str) -> None:
        """Take in what reads at `now`, RFC 3339; a Pod that reads no more has gone by then, or when its successor was
        created."""
        found = list(timeline(observation))
        pods = {
            readings.uid(pod): (replica.label, pod) for replica in observation.replicas() for pod in replica.members
        }
        began: dict[str, str] = {}
        for label, pod in (pods[uid] for uid in pods.keys() - self._pods.keys()):
            created = str(at(pod, "metadata", "creationTimestamp") or now)
            began[label] = min(created, began.get(label, now))
        for label, pod in (self._pods[uid] for uid in self._pods.keys() - pods.keys()):
            found.append(Moment(began.get(label, now), label, readings.name(pod), "gone"))
        self._pods = pods
        for label in {moment.replica for moment in found}:
            known = (*self._moments.get(label, ()), *(moment for moment in found if moment.replica == label))
            self._moments[label] = in_order(known)[-self.longest :]

    def of(self, replica: str) -> tuple[Moment, ...]:
        """What happened to the replica of that name, oldest first."""
        return self._moments.get(replica, ())

    @property
    def replicas(self) -> tuple[str, ...]:
        """The replicas of which anything is known."""
        return tuple(sorted(self._moments))


def _rank(words: str) -> int:
    order = ("gone", "created", "got quota", "admitted", "scheduled", "not Ready", "Ready")
    return order.index(words) if words in order else len(order)


def _turned(obj: Json, replica: str, subject: str, words: dict[str, tuple[str, str]]) -> Iterable[Moment]:
    for type_, (when_true, when_false) in words.items():
        found = readings.condition(obj, type_)
        if found is None:
            continue
        said = {"True": when_true, "False": when_false}.get(found.status, "")
        if said:
            message = f": {found.message}" if found.message and type_ == "Evicted" else ""
            yield from _moment(found.since, replica, subject, said + message)


def _moment(time: object, replica: str, subject: str, words: str) -> list[Moment]:
    return [Moment(time, replica, subject, words)] if isinstance(time, str) and time else []
