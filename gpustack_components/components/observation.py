"""What a deployment looks like in its cluster right now, read once for `check`, `refresh` and before an update."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gpustack_components.api.names import router_url, service_host
from gpustack_components.cluster import keys
from gpustack_components.cluster.binding_objects import MODEL_DEPLOYMENT, Reading, operator_runs, read_named
from gpustack_components.cluster.port import (
    POD,
    RUNTIME_CLASS,
    SERVICE,
    WORKLOAD,
    Cluster,
    Forbidden,
    Json,
    NotServed,
)
from gpustack_components.cluster.readings import label, owner_uids
from gpustack_components.cluster.retrying import Patience
from gpustack_components.components.request import Request

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.rollout.record import Record

HASTE = Patience(attempts=2, seconds=3.0)
"""For reads that a preview can do without: a cluster that does not answer is said, and not waited for."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the cluster offers to any deployment."""

    kubernetes: tuple[int, int]
    """Version of the API server."""
    runtime_classes: frozenset[str]
    """RuntimeClasses there are."""
    operator: bool
    """Whether the operator's CRDs are served."""


@dataclass(frozen=True, slots=True)
class Found:
    """What stands of one deployment."""

    record: "Record | None"
    """What earlier runs wrote down; None: nothing, also in a namespace that does not exist yet."""
    pods: tuple[Json, ...] = ()
    """Pods that carry the deployment's labels."""
    workloads: tuple[Json, ...] = ()
    """Workloads of the namespace, those of the Pods' groups among them."""
    services: tuple[Json, ...] = ()
    """Services that carry the deployment's labels."""
    operated: bool = False
    """Whether the GPUStack operator drives a deployment of this name here."""

    @property
    def empty(self) -> bool:
        """Whether nothing of the deployment is there."""
        return self.record is None and not self.pods


_offered: WeakKeyDictionary[Cluster, Surroundings] = WeakKeyDictionary()


def surroundings(cluster: Cluster) -> Surroundings:
    """What the cluster offers, read once per connection. Raises `ClusterError`."""
    if cluster not in _offered:
        _offered[cluster] = _read_surroundings(cluster)
    return _offered[cluster]


def _read_surroundings(cluster: Cluster) -> Surroundings:
    classes = cluster.list(RUNTIME_CLASS, None).items
    names = frozenset(item["metadata"]["name"] for item in classes)
    return Surroundings(cluster.server_version(), names, operator_runs(cluster))


def observed_bindings(cluster: Cluster, asked: Request, around: Surroundings) -> Reading | None:
    """The binding objects that a request refers to, read anew; None where no operator keeps any. Raises
    `ClusterError`."""
    return read_named(cluster, asked.document, asked.bindings, asked.unknown) if around.operator else None


def standing(cluster: Cluster, asked: Request) -> Found:
    """Read what stands of a deployment. Raises `ClusterError`, and `RolloutRefused` when its record cannot be one."""
    from gpustack_components.rollout.record import load

    selector = keys.selector(asked.name)
    record = load(cluster, asked.namespace, asked.name)
    pods = cluster.list(POD, asked.namespace, selector).items
    return Found(
        record,
        pods,
        _workloads(cluster, asked.namespace, pods),
        cluster.list(SERVICE, asked.namespace, selector).items if record is not None else (),
        any(owner_uids(pod, MODEL_DEPLOYMENT.kind) for pod in pods) or _declared_to_operator(cluster, asked),
    )


def _declared_to_operator(cluster: Cluster, asked: Request) -> bool:
    """Whether a ModelDeployment of that name stands in the cluster, as far as may be read."""
    if not surroundings(cluster).operator:
        return False
    try:
        return cluster.get(MODEL_DEPLOYMENT, asked.namespace, asked.name) is not None
    except (NotServed, Forbidden):
        return False


_counted: WeakKeyDictionary[Cluster, dict[str, int]] = WeakKeyDictionary()
"""How many Workloads a namespace held when it was last listed."""
_CROWDED = 8
"""From how many Workloads in the namespace for each of its own a deployment gets those by name instead of listing."""


def _workloads(cluster: Cluster, namespace: str, pods: Sequence[Json]) -> tuple[Json, ...]:
    """The Workloads that may own these Pods. They carry no label of ours, so they are found by the name of the Pods'
    groups; in a namespace of many deployments a list for each would grow with their square."""
    groups = sorted({group for pod in pods if (group := label(pod, keys.GROUP_NAME))})
    if not groups:
        return ()
    counted = _counted.setdefault(cluster, {})
    try:
        if counted.get(namespace, 0) >= _CROWDED * len(groups):
            found = [cluster.get(WORKLOAD, namespace, group) for group in groups]
            return tuple(workload for workload in found if workload is not None)
        every = cluster.list(WORKLOAD, namespace).items
    except NotServed:
        return ()
    counted[namespace] = len(every)
    return every


def endpoint_of(resolved: "ResolvedDeployment", answers: bool) -> str:
    """Where a deployment is reached inside the cluster; with a router that does not answer yet, nowhere (router sheet,
    section 14)."""
    if resolved.declared.spec.router is not None:
        return router_url(resolved.name, resolved.namespace) if answers else ""
    listening = resolved.roles[0].listening
    scheme = listening.scheme.lower()
    return f"{scheme}://{service_host(resolved.name, resolved.namespace)}:{listening.external[0].number}"
