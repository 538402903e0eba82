"""What of a cluster explains why replicas wait or are not ready: their nodes, and the queues they wait in."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack_components.cluster.port import Cluster
    from gpustack_components.status.deployed import Observation
    from gpustack_components.status.holds import Around

Json = dict[str, Any]

MOST_NODES = 20
"""Nodes that are read to tell why replicas are not ready."""


def look_around(cluster: "Cluster", namespace: str, observation: "Observation") -> "Around":
    """The nodes of Pods that are not ready, and the queues of Workloads that wait; what may not be read is left out."""
    from gpustack_components.cluster import readings
    from gpustack_components.cluster.port import CLUSTER_QUEUE, LOCAL_QUEUE, NODE
    from gpustack_components.rollout.quota import in_use
    from gpustack_components.status.holds import Around

    names: set[str] = set()
    waiting: dict[str, Json] = {}
    for replica in observation.replicas():
        names |= {str(readings.at(p, "spec", "nodeName") or "") for p in replica.members if not readings.ready(p)}
        if replica.workload is not None and not replica.admitted:
            waiting.setdefault(str(readings.at(replica.workload, "spec", "queueName") or ""), replica.workload)
    nodes = {name: node for name in sorted(names - {""})[:MOST_NODES] if (node := _read(cluster, NODE, None, name))}
    queues: dict[str, str] = {}
    quotas: dict[str, str] = {}
    for local, workload in sorted(waiting.items()):
        behind = str(readings.at(_read(cluster, LOCAL_QUEUE, namespace, local), "spec", "clusterQueue") or "")
        queue = _read(cluster, CLUSTER_QUEUE, None, behind) if behind else None
        if queue is not None:
            queues[local], quotas[local] = behind, in_use(queue, workload)
    return Around(nodes, queues, quotas)


def _read(cluster: "Cluster", kind: Any, namespace: str | None, name: str) -> Json | None:
    from gpustack_components.cluster.port import Forbidden, NotServed

    try:
        return cluster.get(kind, namespace, name) if name else None
    except (Forbidden, NotServed):
        return None
