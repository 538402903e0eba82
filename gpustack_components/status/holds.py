"""What holds one replica now, since when, what would release it, and the command that helps.

Read off its Pods and Workload, in Kueue's or Kubernetes' own words where they have said something; nodes and queues add
what a Pod does not know, where they were read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from gpustack_components.api.model_deployment import Role
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at, each, moment
from gpustack_components.status.deployed import Replica
from gpustack_components.status.fit import never_fits_until

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
    """What holds it."""
    since: str
    """Since when, RFC 3339; empty when not known."""
    release: str
    """What would release it: what to wait for, or what to do."""
    command: str = ""
    """A command that shows more, or does it; empty for none."""


@dataclass(frozen=True, slots=True)
class Around:
    """What else of the cluster was read; empty where it was not."""

    nodes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Nodes that the Pods are bound to, by name."""
    queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """The ClusterQueue behind each LocalQueue of the namespace, by name."""
    quotas: Mapping[str, str] = field(default_factory=dict[str, str])
    """How much of each LocalQueue's quota is in use, as a clause."""


def hold_of(role: Role | None, replica: Replica, around: Around, now: datetime) -> tuple[State, Hold | None]:
    """Where a replica stands and what holds it; `role` is None when the spec no longer declares it."""
    if replica.leaving:
        return "leaving", _leaving(replica, around, now)
    workload = replica.workload
    if replica.shape.state == "short":
        return "incomplete", _incomplete(replica)
    if workload is None:
        return _without_workload(replica)
    if readings.evicted(workload) or not readings.active(workload):
        return "evicted", _evicted(workload)
    if not replica.admitted:
        return _waiting(role, workload, around)
    if len(replica.live) < len(replica.members):
        return "incomplete", _leaving(replica, around, now)
    if replica.ready:
        return "serving", None
    lost = next((hold for pod in replica.live if (hold := _node_lost(pod, around))), None)
    if lost is not None:
        return "failing", lost
    trouble = next((hold for pod in replica.live if (hold := pod_trouble(pod))), None)
    if trouble is not None:
        return "failing", trouble
    return "starting", _starting(replica, workload)


def pod_trouble(pod: Json) -> Hold | None:
    """What a Pod itself says is wrong: a container that fails, an image that is not there, no node that fits."""
    describe = _kubectl(pod, "describe pod", readings.name(pod))
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in each(pod, "status", kind):
            reason = at(status, "state", "waiting", "reason")
            if reason in (None, "ContainerCreating", "PodInitializing"):
                continue
            message = at(status, "state", "waiting", "message")
            what = f"container {status.get('name')}: {reason}{f', {message}' if message else ''}"
            if "Image" in str(reason):
                since = str(at(pod, "status", "startTime") or "")
                return Hold(what, since, "the image, or the secret it is pulled with, is corrected", describe)
            since = str(at(status, "lastState", "terminated", "finishedAt") or "")
            logs = _kubectl(pod, "logs", f"{readings.name(pod)} -c {status.get('name')} --previous")
            return Hold(what, since, "what its log complains of is corrected", logs)
    scheduled = readings.condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.reason == "Unschedulable":
        release = "a node has room and the labels asked for; quota alone is not enough"
        return Hold(f"no node fits: {scheduled.message}", scheduled.since, release, describe)
    return None


def _starting(replica: Replica, workload: Json) -> Hold:
    admitted = readings.condition(workload, "Admitted")
    since = admitted.since if admitted else ""
    first = min(replica.live, key=readings.ready)
    describe = _kubectl(first, "describe pod", readings.name(first))
    gated = [pod for pod in replica.live if each(pod, "spec", "schedulingGates")]
    if gated:
        gates = sorted({str(gate.get("name")) for pod in gated for gate in each(pod, "spec", "schedulingGates")})
        what = f"it is admitted, and {len(gated)} of its Pods are still behind {_gates(gates)}"
        return Hold(what, since, f"whoever set {'it takes it' if len(gates) == 1 else 'them takes them'} off", describe)
    if any(not at(pod, "spec", "nodeName") for pod in replica.live):
        what = "its Pods are admitted and not scheduled yet"
        return Hold(what, since, "the scheduler binds them to nodes", describe)
    logs = _kubectl(first, "logs", f"{readings.name(first)} -c {keys.MAIN_CONTAINER} --follow")
    what = "its Pods run and are not Ready yet"
    return Hold(what, since, "the engine has loaded the model and answers its probe", logs)


def _gates(gates: Sequence[str]) -> str:
    return f"scheduling gate{'' if len(gates) == 1 else 's'} {', '.join(gates)}"


def _node_lost(pod: Json, around: Around) -> Hold | None:
    """A replica on a node that is registered and does not answer is never replaced (5.1)."""
    name = str(at(pod, "spec", "nodeName") or "")
    node = around.nodes.get(name)
    ready = readings.condition(node, "Ready") if node is not None else None
    if ready is None or ready.status == "True":
        return None
    what = f"its node {name} is not Ready{f': {ready.message}' if ready.message else ''}"
    release = f"the node answers again; if it is lost for good, `kubectl delete node {name}` lets it be replaced"
    return Hold(what, ready.since, release, f"kubectl describe node {name}")


def _leaving(replica: Replica, around: Around, now: datetime) -> Hold:
    going = [pod for pod in replica.members if readings.terminating(pod)]
    since = min((readings.deletion_asked(pod) for pod in going), default="")
    ended = [pod for pod in replica.members if readings.terminal(pod)]
    if len(ended) == len(replica.members) and replica.workload is not None:
        name = readings.name(replica.workload)
        what = "its Pods have ended and Kueue's Workload holds them"
        return Hold(what, since, f"Workload {name} is deleted, which a run does", "pulumi up")
    overdue = [pod for pod in going if (end := moment(at(pod, "metadata", "deletionTimestamp"))) and end < now]
    if overdue:
        return _stuck(overdue[0], len(overdue), since, around)
    release = "they exit, at the latest when their grace ends"
    return Hold(f"{len(going) or len(ended)} of its Pods are leaving", since, release)


def _stuck(pod: Json, count: int, since: str, around: Around) -> Hold:
    """A Pod that should be gone by now."""
    name = readings.name(pod)
    describe = _kubectl(pod, "describe pod", name)
    more = f" and {count - 1} more" if count > 1 else ""
    if (lost := _node_lost(pod, around)) is not None:
        return Hold(f"Pod {name}{more} cannot exit: {lost.what}", since, lost.release, lost.command)
    finalizers = [str(one) for one in at(pod, "metadata", "finalizers") or ()]
    if readings.terminal(pod) and finalizers:
        what = f"Pod {name}{more} has exited and is held by finalizer {', '.join(finalizers)}"
        who = "Kueue" if finalizers == [keys.MANAGED] else "whoever set it"
        return Hold(what, since, f"{who} takes it off", describe)
    held = f" (finalizer {', '.join(finalizers)})" if finalizers else ""
    what = f"Pod {name}{more} is past its grace period and still there{held}"
    release = "its kubelet reports that it has ended; it is never deleted by force, for two could hold one accelerator"
    return Hold(what, since, release, describe)


def _incomplete(replica: Replica) -> Hold:
    have, total = len(replica.live), replica.shape.total
    what = f"{have} of {total} Pods exist; Kueue admits a replica only as a whole"
    return Hold(what, "", "the next run rebuilds it whole", "pulumi up")


def _without_workload(replica: Replica) -> tuple[State, Hold]:
    first = replica.live[0]
    if not any(map(readings.managed_by_kueue, replica.live)):
        what = "Kueue does not manage its Pods, so they run outside any quota"
        release = f"a namespace that Kueue's managedJobsNamespaceSelector covers, and the label {keys.QUEUE_NAME}"
        return "outside quota", Hold(what, "", release, "kubectl get namespaces --show-labels")
    since = str(at(first, "metadata", "creationTimestamp") or "")
    command = _kubectl(first, "get events", f"--field-selector involvedObject.name={readings.name(first)}")
    release = "Kueue's controller runs and sees all its Pods"
    return "waiting", Hold("Kueue has not made a Workload for it", since, release, command)


def _evicted(workload: Json) -> Hold:
    found = readings.condition(workload, "Evicted")
    since = found.since if found is not None else ""
    words = (found.message or found.reason) if found is not None else ""
    name = readings.name(workload)
    if not readings.active(workload):
        activate = _kubectl(workload, "patch workload", f'{name} --type merge -p \'{{"spec":{{"active":true}}}}\'')
        release = f"spec.active of Workload {name} is set to true"
        return Hold(f"deactivated{f': {words}' if words else ''}", since, release, activate)
    return Hold(words or "Kueue evicted it", since, "the next run replaces it; it queues again for quota", "pulumi up")


def _waiting(role: Role | None, workload: Json, around: Around) -> tuple[State, Hold]:
    local = str(at(workload, "spec", "queueName") or "")
    queue = around.queues.get(local) or (role.instance_type if role is not None else local)
    reserved = readings.condition(workload, "QuotaReserved")
    since = reserved.since if reserved is not None else str(at(workload, "metadata", "creationTimestamp") or "")
    words = readings.waiting_reason(workload)
    describe = _kubectl(workload, "describe workload", readings.name(workload))
    if readings.quota_reserved(workload):
        what = words or "it holds quota and is not admitted yet"
        return "waiting", Hold(what, since, "its admission checks pass", describe)
    quota = around.quotas.get(local, "")
    what = f"{words or 'Kueue has not said why'}{f' ({quota})' if quota else ''}"
    if readings.never_fits(workload):
        return "never fits", Hold(what, since, never_fits_until(queue), f"kubectl describe clusterqueue {queue}")
    return "waiting", Hold(what, since, _release(words, local, queue), _look(words, workload, local, queue) or describe)


def _release(words: str, local: str, queue: str) -> str:
    if "LocalQueue" in words and "doesn't exist" in words:
        return f"LocalQueue {local} is created in its namespace"
    if "ClusterQueue" in words and ("doesn't exist" in words or "is inactive" in words):
        return "the ClusterQueue is there and active; its condition Active says what it lacks"
    if "is inactive" in words:
        return f"LocalQueue {local} is active again: its stopPolicy is None"
    if "doesn't match node affinity" in words or "untolerated taint" in words:
        return "a flavor of the queue matches what the Pods ask for"
    if "unavailable in ClusterQueue" in words:
        return "the ClusterQueue covers that resource"
    if "namespace doesn't match" in words:
        return "the ClusterQueue's namespaceSelector covers the namespace"
    return f"other work in queue {local} ends, or the quota of {queue} grows"


def _look(words: str, workload: Json, local: str, queue: str) -> str:
    """The queue to look at, when it is what is wrong; empty otherwise."""
    if "LocalQueue" in words:
        return _kubectl(workload, "get localqueue", local)
    return f"kubectl describe clusterqueue {queue}" if "ClusterQueue" in words else ""


def _kubectl(obj: Json, verb: str, rest: str) -> str:
    """A command in the object's own namespace."""
    namespace = at(obj, "metadata", "namespace")
    return " ".join(("kubectl", *(("-n", str(namespace)) if namespace else ()), verb, rest))
