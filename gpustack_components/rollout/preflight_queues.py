"""Whether the queues a run submits to would ever admit its replicas, and whether those could run then."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    NODE,
    RESOURCE_FLAVOR,
    Cluster,
    ClusterError,
    Forbidden,
    Json,
    Kind,
)
from gpustack_components.cluster.readings import annotation, at, condition, each, name
from gpustack_components.rollout.desired import DesiredRole
from gpustack_components.rollout.preflight_kueue import SETTLING
from gpustack_components.rollout.quota import Queue, telling, times, worded

_ADMISSION_CHECK = Kind("kueue.x-k8s.io/v1beta2", "AdmissionCheck", "admissionchecks", namespaced=False)
_PROVISIONING = "kueue.x-k8s.io/provisioning-request"
_BY_PULUMI = ", or, where a Pulumi program declares it, `pulumi up --refresh` makes it again"


def queue_findings(
    cluster: Cluster,
    namespace: str,
    roles: Sequence[DesiredRole],
    to_come: Mapping[str, Json] | None = None,
    flavors: Mapping[str, Json] | None = None,
    *,
    pause: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """One sentence for each queue that would admit nothing, and for each role that could not run.

    `to_come` and `flavors` are ClusterQueues (by LocalQueue) and ResourceFlavors that a program brings about first.
    Without `pause` nothing is waited for. Raises `ClusterError`; what may not be read is passed over.
    """
    to_come, flavors = to_come or {}, flavors or {}
    for local in sorted({role.queue for role in roles}):
        served = [role for role in roles if role.queue == local]
        queue, sentence = _behind(cluster, namespace, local, served, to_come, pause)
        if sentence:
            yield sentence
        elif queue is not None:
            for role in served:
                if local not in to_come:
                    yield from _too_large(queue, role)
                yield from _no_node(cluster, queue, role, flavors)


def _behind(
    cluster: Cluster,
    namespace: str,
    local: str,
    roles: Iterable[DesiredRole],
    to_come: Mapping[str, Json],
    pause: Callable[[float], None] | None,
) -> tuple[Json | None, str]:
    """The ClusterQueue behind a LocalQueue, or why nothing is admitted through it; neither where it may not be
    read."""
    label = f"LocalQueue {namespace}/{local}"
    try:
        standing = cluster.get(LOCAL_QUEUE, namespace, local)
        if standing is None:
            named = ", ".join(role.name for role in roles)
            missing = (
                f"{label}, to which role {named} is submitted, does not exist: create it with the role's ClusterQueue "
                f"behind it{_BY_PULUMI}."
            )
            return _usable(to_come[local]) if local in to_come else (None, missing)
        if sentence := _stopped(standing, label):
            return None, sentence
        behind = str(at(standing, "spec", "clusterQueue") or "")
        queue = cluster.get(CLUSTER_QUEUE, None, behind)
        if queue is None:
            missing = f"ClusterQueue {behind}, to which {label} leads, does not exist: create it{_BY_PULUMI}."
            return _usable(to_come[local]) if local in to_come else (None, missing)
        for seconds in SETTLING:
            if pause is None or _stopped(queue, behind) or not _inactive(queue):
                break
            pause(seconds)
            queue = cluster.get(CLUSTER_QUEUE, None, behind) or queue
        return _usable(queue)
    except Forbidden:
        return None, ""


def _usable(queue: Json) -> tuple[Json | None, str]:
    """The ClusterQueue, or why it admits nothing."""
    sentence = _stopped(queue, f"ClusterQueue {name(queue)}") or _inactive(queue)
    return (None, sentence) if sentence else (queue, "")


def _stopped(queue: Json, label: str) -> str:
    policy = at(queue, "spec", "stopPolicy")
    if policy in (None, "None"):
        return ""
    return f"{label} is stopped (spec.stopPolicy {policy}) and would admit no replacement: set it to None first."


def _inactive(queue: Json) -> str:
    active = condition(queue, "Active")
    if active is None or active.status != "False":
        return ""
    why = (active.message or active.reason or "no reason given").rstrip(".")
    return (
        f"ClusterQueue {name(queue)} is not active and admits nothing: {why}. "
        f"`kubectl describe clusterqueue {name(queue)}` shows more."
    )


def _too_large(obj: Json, role: DesiredRole) -> Iterator[str]:
    """Whether one replica asks for more than the queue could ever give, with everything it may borrow."""
    queue, limits = Queue.of(obj), _limits(obj)
    whole = times(role.requests, role.size)
    over = {key: amount for key, amount in whole.items() if key in limits and amount > limits[key]}
    if not over:
        return
    key = telling(over)
    borrowed = f", and borrows no more than {worded(limits[key])} in all" if queue.cohort else ""
    yield (
        f"role {role.name}: one replica asks for {worded(whole[key])} {key} and ClusterQueue {queue.name} has "
        f"{worded(queue.nominal[key])}{borrowed}, so it is never admitted: raise the queue's quota, or ask for less."
    )


def _limits(obj: Json) -> dict[str, Fraction]:
    """The most a queue can give of each resource; one it may borrow without a limit is left out."""
    limits: dict[str, Fraction] = {}
    unlimited: set[str] = set()
    cohort = at(obj, "spec", "cohortName") or at(obj, "spec", "cohort")
    for group in each(obj, "spec", "resourceGroups"):
        for resource in (one for flavor in each(group, "flavors") for one in each(flavor, "resources")):
            key, borrowing = str(resource.get("name")), resource.get("borrowingLimit")
            if cohort and borrowing is None:
                unlimited.add(key)
            own = Quantity(resource.get("nominalQuota") or 0).value
            more = Quantity(borrowing).value if cohort and borrowing is not None else Fraction(0)
            limits[key] = limits.get(key, Fraction(0)) + own + more
    return {key: limit for key, limit in limits.items() if key not in unlimited}


def _no_node(cluster: Cluster, queue: Json, role: DesiredRole, flavors: Mapping[str, Json]) -> Iterator[str]:
    """Whether no node of any flavor could hold a Pod of the role: Kueue would admit it, and it would never run."""
    asked = times(role.requests, 1)
    key = telling(asked)
    tried: list[str] = []
    try:
        for flavor in _flavors_of(queue, key):
            obj = flavors.get(flavor) or cluster.get(RESOURCE_FLAVOR, None, flavor)
            labels: dict[str, Any] = at(obj, "spec", "nodeLabels") or {}
            if obj is None or not labels or annotation(obj, keys.NODES_ON_DEMAND) == "true":
                return
            selector = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
            lacking = _lacking(cluster.list(NODE, None, selector).items, key, asked[key])
            if not lacking:
                return
            tried.append(f"{lacking.format(selector)} (ResourceFlavor {flavor})")
        if not tried or _provisions(cluster, queue):
            return
    except (Forbidden, KeyError):
        return
    yield (
        f"role {role.name}: a Pod would be admitted by ClusterQueue {name(queue)} and never run: {'; '.join(tried)}. "
        "Add or label the nodes, or correct the flavor's nodeLabels; if such nodes join on demand, say so with "
        f"`kubectl annotate resourceflavor NAME {keys.NODES_ON_DEMAND}=true`."
    )


def _flavors_of(queue: Json, key: str) -> list[str]:
    return [
        str(flavor.get("name"))
        for group in each(queue, "spec", "resourceGroups")
        if key in (group.get("coveredResources") or ())
        for flavor in each(group, "flavors")
    ]


def _lacking(nodes: Sequence[Json], key: str, amount: Fraction) -> str:
    """What is wrong with these nodes; empty when one of them is large enough, or none says how large it is."""
    if not nodes:
        return "no node carries the labels {}"
    offered = [at(node, "status", "allocatable", key) for node in nodes]
    sizes = [Quantity(one).value for one in offered if one is not None]
    if not sizes or max(sizes) >= amount:
        return ""
    return (
        f"the largest node with the labels {{}} offers {worded(max(sizes))} {key}, of which a Pod asks {worded(amount)}"
    )


def _provisions(cluster: Cluster, queue: Json) -> bool:
    """Whether an admission check of the queue brings the nodes."""
    strategy = each(queue, "spec", "admissionChecksStrategy", "admissionChecks")
    named = [str(one.get("name")) for one in strategy] + list(at(queue, "spec", "admissionChecks") or ())
    try:
        checks = [cluster.get(_ADMISSION_CHECK, None, one) for one in named]
    except ClusterError:
        return bool(named)
    return any(at(check, "spec", "controllerName") == _PROVISIONING for check in checks)
