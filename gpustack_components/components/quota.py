"""The queues a preview counts with: what the ClusterQueues hold now, with what this very program declares for them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpustack_components.cluster.port import CLUSTER_QUEUE, LOCAL_QUEUE, Cluster, Forbidden, Json, NotServed
from gpustack_components.cluster.readings import at, each, name
from gpustack_components.components.instance_type import quota_of, read, states_quota

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.rollout.preflight import ToCome


def queues(cluster: Cluster, resolved: "ResolvedDeployment", bindings: Sequence[Json]) -> dict[str, Json]:
    """The ClusterQueue behind each LocalQueue that the roles name, by the LocalQueue's name.

    One that does not exist yet is taken from the program; one that does is counted with the program's quota, since
    the program brings that about first. Left out where nothing is known. Raises `ClusterError`.
    """
    declared = _declared(bindings)
    found: dict[str, Json] = {}
    for role in resolved.roles:
        live = _live(cluster, resolved.namespace, role.entrance)
        _, wanted = declared.get(role.declared.instance_type, (None, None))
        queue = _with_quota(live, wanted) if live is not None else wanted
        if queue is not None:
            found[role.entrance] = queue
    return found


def to_come(cluster: Cluster, resolved: "ResolvedDeployment", bindings: Sequence[Json], *, operator: bool) -> "ToCome":
    """What a program brings about before the replicas: the LocalQueue of every role, unless the operator makes those,
    with the ClusterQueue and flavor that it declares or that stand in the cluster. Raises `ClusterError`.
    """
    from gpustack_components.render.queues import local_queue
    from gpustack_components.rollout.preflight import ToCome

    if operator:
        return ToCome()
    queues: dict[str, Json] = {}
    flavors: dict[str, Json] = {}
    declared = _declared(bindings)
    roles = {role.declared.instance_type: role.entrance for role in resolved.roles}
    for document in bindings:
        if document.get("kind") != "InstanceType" or (entrance := roles.get(name(dict(document)))) is None:
            continue
        decoded = read(document)
        if made := declared.get(decoded.metadata.name):
            flavor, queues[entrance] = made
            flavors[name(flavor)] = flavor
            continue
        try:
            standing = cluster.get(CLUSTER_QUEUE, None, local_queue(decoded, "")["spec"]["clusterQueue"])
        except (NotServed, Forbidden):
            continue
        if standing is not None:
            queues[entrance] = standing
    return ToCome(queues, flavors)


def _live(cluster: Cluster, namespace: str, entrance: str) -> Json | None:
    try:
        local = cluster.get(LOCAL_QUEUE, namespace, entrance)
        behind = at(local, "spec", "clusterQueue")
        return cluster.get(CLUSTER_QUEUE, None, behind) if behind else None
    except (NotServed, Forbidden):
        return None


def _declared(bindings: Sequence[Json]) -> dict[str, tuple[Json, Json]]:
    """The ResourceFlavors and ClusterQueues that this program makes, by InstanceType."""
    from gpustack_components.render.queues import instance_type_objects

    made: dict[str, tuple[Json, Json]] = {}
    for document in bindings:
        if not states_quota(document):
            continue
        decoded = read(document)
        nodes, per_node, labels = quota_of(document)
        made[decoded.metadata.name] = instance_type_objects(
            decoded, nodes=nodes, cards_per_node=per_node, node_labels=labels
        )
    return made


def _with_quota(live: Json, declared: Mapping[str, Any] | None) -> Json:
    """The live queue with the declared quota; as it is when the two do not cover the same resources."""
    if declared is None or _covered(live) != _covered(declared):
        return live
    return {**live, "spec": declared["spec"]}


def _covered(queue: Mapping[str, Any]) -> list[Any]:
    return [sorted(group.get("coveredResources") or ()) for group in each(dict(queue), "spec", "resourceGroups")]
