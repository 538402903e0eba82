"""What must be so before the first side effect, each with its own sentence when it is not."""

from collections.abc import Iterator

from gpustack_components.cluster.port import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    SERVICE,
    WORKLOAD,
    Cluster,
    Forbidden,
    Json,
    Kind,
    NotServed,
)
from gpustack_components.cluster.readings import at, condition
from gpustack_components.rollout.contract import RolloutRefused
from gpustack_components.rollout.desired import Desired

VERBS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (POD, ("create", "delete", "patch", "watch")),
    (WORKLOAD, ("delete", "watch")),
)
"""What a run must be allowed to do to finish what it begins. Reading them, the record and the Lease come first
anyway."""

SERVICE_VERBS = ("create", "delete")
"""What it does to headless Services, where a replica has more than one Pod."""


def preflight(cluster: Cluster, desired: Desired) -> None:
    """Raise `RolloutRefused` with every reason why this deployment could not be driven; `ClusterError` when reading
    fails."""
    sentences = [*_namespace(cluster, desired.namespace)]
    if not sentences:
        sentences = [*_queues(cluster, desired), *_rights(cluster, desired)]
    if sentences:
        raise RolloutRefused(*sentences)


def kueue_missing(error: NotServed) -> RolloutRefused:
    """The refusal for a cluster that does not serve Kueue's Workloads."""
    return RolloutRefused(
        f"Kueue is not installed in this cluster, or in a version without {WORKLOAD.api_version}: {error} "
        "Install Kueue 0.17 or newer with its Pod integration on."
    )


def _namespace(cluster: Cluster, namespace: str) -> Iterator[str]:
    try:
        found = cluster.get(NAMESPACE, None, namespace)
    except Forbidden:
        return
    if found is None:
        yield f"namespace {namespace} does not exist: create it, or correct metadata.namespace."
    elif at(found, "metadata", "deletionTimestamp"):
        yield f"namespace {namespace} is being deleted: wait until it is gone and create it again."


def _queues(cluster: Cluster, desired: Desired) -> Iterator[str]:
    for queue in sorted({role.queue for role in desired.roles}):
        roles = ", ".join(role.name for role in desired.roles if role.queue == queue)
        try:
            local = cluster.get(LOCAL_QUEUE, desired.namespace, queue)
        except Forbidden:
            continue
        if local is None:
            yield (
                f"LocalQueue {desired.namespace}/{queue}, to which role {roles} is submitted, does not exist: create "
                "it with the role's ClusterQueue behind it."
            )
            continue
        if sentence := _stopped(local, f"LocalQueue {desired.namespace}/{queue}"):
            yield sentence
            continue
        try:
            name = str(at(local, "spec", "clusterQueue") or "")
            behind = cluster.get(CLUSTER_QUEUE, None, name)
        except Forbidden:
            continue
        if behind is None:
            yield f"ClusterQueue {name}, to which LocalQueue {desired.namespace}/{queue} leads, does not exist."
        elif sentence := _stopped(behind, f"ClusterQueue {name}") or _inactive(behind, f"ClusterQueue {name}"):
            yield sentence


def _stopped(queue: Json, words: str) -> str:
    policy = at(queue, "spec", "stopPolicy")
    if policy in (None, "None"):
        return ""
    return f"{words} is stopped (spec.stopPolicy {policy}) and would admit no replacement: set it to None first."


def _inactive(queue: Json, words: str) -> str:
    active = condition(queue, "Active")
    if active is None or active.status != "False":
        return ""
    return f"{words} is not active and admits nothing: {active.message or active.reason}."


def _rights(cluster: Cluster, desired: Desired) -> Iterator[str]:
    wanted = [*VERBS, *([(SERVICE, SERVICE_VERBS)] if any(role.size > 1 for role in desired.roles) else [])]
    for kind, verbs in wanted:
        missing = [verb for verb in verbs if not cluster.may(verb, kind, desired.namespace)]
        if missing:
            group = kind.api_version.rpartition("/")[0] or '""'
            yield (
                f"these credentials may not {', '.join(missing)} {kind.plural} in namespace {desired.namespace}: grant "
                f"a Role with apiGroups [{group}], resources [{kind.plural}], verbs [{', '.join(verbs)}]."
            )
