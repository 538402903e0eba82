"""Plain words for a deployment's state: rows of a table, what holds each replica, and what happened when.

Data only; a door decides about columns and colours. Times are RFC 3339 text as objects carry it; ages are
counted to the `now` that is passed in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at, each
from gpustack_components.status.deployed import Observation, Replica
from gpustack_components.status.facts import Expected
from gpustack_components.status.rollout import outdated

State = Literal[
    "serving",
    "starting",
    "failing",
    "waiting",
    "never fits",
    "evicted",
    "incomplete",
    "leaving",
    "missing",
    "outside quota",
]
"""Where one replica stands, in one or two words."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a replica is not serving: what holds it now, since when, and what would release it."""

    what: str
    """What holds it, in Kueue's or Kubernetes' own words where they have said something."""
    since: str
    """Since when, RFC 3339; empty when not known."""
    release: str
    """What would release it: what to wait for, or what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One replica, as a line of a table."""

    role: str
    """Role name."""
    ordinal: int | None
    """Ordinal; None for a Pod that names none."""
    state: State
    """Where it stands."""
    admitted: bool
    """Whether its Workload is admitted."""
    ready: tuple[int, int]
    """Ready members, and members it should have."""
    age: float | None
    """Seconds since its oldest Pod was created; None without a Pod."""
    current: bool | None
    """Whether it runs what the spec asks for now; None when that was not compared."""
    hold: Hold | None
    """Why it is not serving; None when it is."""

    @property
    def name(self) -> str:
        """`server/2`."""
        return f"{self.role}/{'?' if self.ordinal is None else self.ordinal}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened."""

    time: str
    """When, RFC 3339."""
    subject: str
    """To what: `server/2`, or a Pod's name."""
    words: str
    """What."""


def rows(
    deployment: ModelDeployment, observation: Observation, now: datetime, expected: Expected | None = None
) -> tuple[Row, ...]:
    """A row per declared replica, in order, and one for each further replica that still reads."""
    found: list[Row] = []
    declared = {role.name: role for role in deployment.spec.roles}
    for role in deployment.spec.roles:
        standing = {replica.ordinal: replica for replica in observation.replicas(role.name)}
        for ordinal in range(role.replicas):
            replica = standing.pop(ordinal, None)
            if replica is None:
                found.append(_missing(role, ordinal, observation))
            else:
                found.append(row(role, replica, now, expected))
        extra = [r for r in observation.replicas(role.name) if r.ordinal is None or r.ordinal >= role.replicas]
        found += [row(role, replica, now, expected) for replica in extra]
    for replica in observation.replicas():
        if replica.role not in declared:
            found.append(row(None, replica, now, expected))
    return tuple(found)


def row(role: Role | None, replica: Replica, now: datetime, expected: Expected | None = None) -> Row:
    """One replica that reads; `role` is None when the spec no longer declares it."""
    state, hold = _judge(role, replica)
    total = replica.shape.total or (role.size if role is not None else len(replica.members))
    created = [time for pod in replica.members if (time := _time(at(pod, "metadata", "creationTimestamp")))]
    return Row(
        role=replica.role,
        ordinal=replica.ordinal,
        state=state,
        admitted=replica.admitted,
        ready=(sum(readings.ready(pod) for pod in replica.live), total),
        age=(now - min(created)).total_seconds() if created else None,
        current=None if expected is None or replica.leaving else not outdated(replica, expected),
        hold=hold,
    )


def timeline(observation: Observation) -> tuple[Moment, ...]:
    """What happened to the replicas that still read, oldest first."""
    moments: list[Moment] = []
    for replica in observation.replicas():
        for pod in replica.members:
            subject = readings.name(pod)
            moments += _moment(at(pod, "metadata", "creationTimestamp"), subject, "created")
            moments += _moment(readings.deletion_asked(pod), subject, "asked to leave")
            moments += _turned(pod, subject, {"Ready": ("Ready", "not Ready"), "PodScheduled": ("scheduled", "")})
        if replica.workload is not None:
            moments += _turned(replica.workload, replica.label, _WORKLOAD_WORDS)
    return tuple(sorted(set(moments), key=lambda moment: (moment.time, moment.subject, moment.words)))


def duration(seconds: float) -> str:
    """Seconds in at most two units, as people write them: `1.2 s`, `45 s`, `3m10s`, `2h5m`, `3d4h`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for upper, lower, size in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= size:
            count, rest = divmod(whole, size)
            minor = rest // {"h": 3600, "m": 60, "s": 1}[lower]
            return f"{count}{upper}{minor}{lower}" if minor else f"{count}{upper}"
    return f"{whole} s"


_WORKLOAD_WORDS = {
    "QuotaReserved": ("got quota", ""),
    "Admitted": ("admitted", ""),
    "Evicted": ("evicted", ""),
}


def _missing(role: Role, ordinal: int, observation: Observation) -> Row:
    started = bool(observation.pods)
    what = "it does not exist" if started else "no Pod of the deployment exists"
    hold = Hold(what, "", "the next `pulumi up`, or the run that is under way, creates it")
    return Row(role.name, ordinal, "missing", False, (0, role.size), None, None, hold)


def _judge(role: Role | None, replica: Replica) -> tuple[State, Hold | None]:
    if replica.leaving:
        return "leaving", _leaving(replica)
    workload = replica.workload
    if replica.shape.state == "short":
        return "incomplete", _incomplete(replica)
    if workload is None:
        return _without_workload(replica)
    if readings.evicted(workload) or not readings.active(workload):
        return "evicted", _evicted(workload)
    if not replica.admitted:
        return _waiting(role, workload)
    if len(replica.live) < len(replica.members):
        return "incomplete", _leaving(replica)
    if replica.ready:
        return "serving", None
    trouble = next((t for pod in replica.live if (t := pod_trouble(pod))), None)
    if trouble is not None:
        return "failing", trouble
    admitted = readings.condition(workload, "Admitted")
    what = "its Pods run and are not Ready yet"
    if any(not at(pod, "spec", "nodeName") for pod in replica.live):
        what = "its Pods are admitted and not scheduled yet"
    return "starting", Hold(
        what, admitted.since if admitted else "", "the engine has loaded the model and answers its probe"
    )


def pod_trouble(pod: Json) -> Hold | None:
    """What a Pod itself says is wrong: a container that fails, an image that is not there, no node that fits."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in each(pod, "status", kind):
            reason = at(status, "state", "waiting", "reason")
            if reason in (None, "ContainerCreating", "PodInitializing"):
                continue
            message = at(status, "state", "waiting", "message")
            since = str(at(status, "lastState", "terminated", "finishedAt") or "")
            logs = f"kubectl logs {readings.name(pod)} -c {status.get('name')} --previous"
            pull = "correct the image, or the pull secret" if "Image" in str(reason) else f"see `{logs}`"
            return Hold(f"container {status.get('name')}: {reason}{f', {message}' if message else ''}", since, pull)
    scheduled = readings.condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.reason == "Unschedulable":
        what = f"no node fits: {scheduled.message}"
        return Hold(what, scheduled.since, "a node with room and the labels asked for; quota alone is not enough")
    return None


def _leaving(replica: Replica) -> Hold:
    going = [pod for pod in replica.members if readings.terminating(pod)]
    since = min((readings.deletion_asked(pod) for pod in going), default="")
    ended = [pod for pod in replica.members if readings.terminal(pod)]
    if len(ended) == len(replica.members) and replica.workload is not None:
        name = readings.name(replica.workload)
        return Hold("its Pods have ended and Kueue's Workload holds them", since, f"Workload {name} is deleted")
    return Hold(
        f"{len(going) or len(ended)} of its Pods are leaving", since, "they exit, at the latest when their grace ends"
    )


def _incomplete(replica: Replica) -> Hold:
    have, total = len(replica.live), replica.shape.total
    what = f"{have} of {total} Pods exist; Kueue admits a replica only as a whole"
    return Hold(what, "", "the next run rebuilds it whole")


def _without_workload(replica: Replica) -> tuple[State, Hold]:
    if not any(map(readings.managed_by_kueue, replica.live)):
        what = "Kueue does not manage its Pods, so they run outside any quota"
        release = f"a namespace that Kueue's managedJobsNamespaceSelector covers, and the label {keys.QUEUE_NAME}"
        return "outside quota", Hold(what, "", release)
    return "waiting", Hold("Kueue has not made a Workload for it", "", "Kueue's controller runs and sees all its Pods")


def _evicted(workload: Json) -> Hold:
    found = readings.condition(workload, "Evicted")
    since = found.since if found is not None else ""
    words = (found.message or found.reason) if found is not None else ""
    if not readings.active(workload):
        name = readings.name(workload)
        return Hold(
            f"deactivated{f': {words}' if words else ''}", since, f"spec.active of Workload {name} is set to true"
        )
    return Hold(words or "Kueue evicted it", since, "the next run replaces it; it queues again for quota")


def _waiting(role: Role | None, workload: Json) -> tuple[State, Hold]:
    queue = str(at(workload, "spec", "queueName") or "")
    reserved = readings.condition(workload, "QuotaReserved")
    since = reserved.since if reserved is not None else str(at(workload, "metadata", "creationTimestamp") or "")
    words = readings.waiting_reason(workload)
    if readings.quota_reserved(workload):
        return "waiting", Hold(words or "it holds quota and is not admitted yet", since, "its admission checks pass")
    if readings.never_fits(workload):
        release = f"the quota behind queue {queue} is raised, or the replica asks for less; waiting does not help"
        return "never fits", Hold(words, since, release)
    return "waiting", Hold(words or "Kueue has not said why", since, _release(words, queue, role))


def _release(words: str, queue: str, role: Role | None) -> str:
    if "LocalQueue" in words and "doesn't exist" in words:
        return f"LocalQueue {queue} is created in its namespace"
    if "ClusterQueue" in words and ("doesn't exist" in words or "is inactive" in words):
        return "the ClusterQueue is there and active; its condition Active says what it lacks"
    if "is inactive" in words:
        return f"LocalQueue {queue} is active again: its stopPolicy is None"
    if "doesn't match node affinity" in words or "untolerated taint" in words:
        return "a flavor of the queue matches what the Pods ask for"
    if "unavailable in ClusterQueue" in words:
        return "the ClusterQueue covers that resource"
    if "namespace doesn't match" in words:
        return "the ClusterQueue's namespaceSelector covers the namespace"
    asked = f" of {role.instance_type}" if role is not None else ""
    return f"other work in queue {queue} ends, or the quota{asked} grows"


def _turned(obj: Json, subject: str, words: dict[str, tuple[str, str]]) -> Iterable[Moment]:
    for type_, (when_true, when_false) in words.items():
        found = readings.condition(obj, type_)
        if found is None:
            continue
        said = {"True": when_true, "False": when_false}.get(found.status, "")
        if said:
            message = f": {found.message}" if found.message and type_ == "Evicted" else ""
            yield from _moment(found.since, subject, said + message)


def _moment(time: object, subject: str, words: str) -> Sequence[Moment]:
    return [Moment(time, subject, words)] if isinstance(time, str) and time else []


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
