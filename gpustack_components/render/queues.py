"""Kueue objects behind an InstanceType, for clusters without the operator: LocalQueue, ResourceFlavor,
ClusterQueue.

Kueue admits a Pod only when its queue covers every resource the Pod requests, so the ClusterQueue covers all that
`template.resources` can render for the type (bindings sheets 1.4 to 1.6, kueue-facts 1 and 8).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.names import entrance
from gpustack_components.api.quantity import Quantity
from gpustack_components.bindings.manufacturers import CREDITS_PER_CARD, Manufacturer, manufacturer
from gpustack_components.bindings.resources import CPU, EPHEMERAL, EPHEMERAL_DEFAULT, MEMORY
from gpustack_components.bindings.settings import Settings
from gpustack_components.cluster.keys import QUEUE_ENTRANCE, QUEUE_FULL_NAME
from gpustack_components.cluster.port import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, Json, Kind

_PERCENT = 100


def entrance_of(instance_type: InstanceType) -> str:
    """The queue name Pods of the type carry: what it publishes, or derived from its name when it states none."""
    stated = instance_type.status.entrance if instance_type.status else None
    return entrance(instance_type.metadata.name) if stated is None else stated


def local_queue(instance_type: InstanceType, namespace: str) -> Json:
    """The LocalQueue through which a namespace reaches the type's ClusterQueue."""
    return local_queue_manifest(instance_type.metadata.name, entrance_of(instance_type), namespace)


def local_queue_manifest(cluster_queue: str, name: str, namespace: str) -> Json:
    """A LocalQueue of that name in front of that ClusterQueue, whose full name it records."""
    manifest = _manifest(LOCAL_QUEUE, name, {"clusterQueue": cluster_queue})
    manifest["metadata"] |= {"namespace": namespace, "annotations": {QUEUE_FULL_NAME: cluster_queue}}
    return manifest


def instance_type_objects(
    instance_type: InstanceType,
    *,
    nodes: int,
    cards_per_node: int,
    node_labels: Mapping[str, str],
    settings: Settings | None = None,
    slices: bool | None = None,
    interfaces: Mapping[str, int] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    topology_name: str = "",
) -> tuple[Json, Json]:
    """ResourceFlavor and ClusterQueue of the type's name, sized for `nodes` equal nodes that `node_labels` select.

    `cards_per_node` counts cards, or CPU units on a type without accelerators. Logical slices are covered when the
    type offers them, unless `slices` says otherwise; partitions as far as it lists profiles; `interfaces` gives the
    quota of each fabric interface key. `topology_name` names the Topology that required levels are looked up in.
    Cards and the slices cut from them are separate quotas: give a type one use.

    Raises `ValueError` with a sentence when the type cannot be queued for so.
    """
    name = instance_type.metadata.name
    if nodes < 1 or cards_per_node < 1:
        raise ValueError(
            f"InstanceType {name}: nodes and cards per node must be at least 1, found {nodes} and {cards_per_node}"
        )
    if not node_labels:
        raise ValueError(f"InstanceType {name}: node labels are needed, or its Pods could be placed on any node")
    quotas = dict(
        _quotas(
            instance_type,
            nodes,
            cards_per_node,
            settings or Settings(),
            slices=_offers_slices(instance_type) if slices is None else slices,
            interfaces=interfaces or {},
        )
    )
    flavor_spec: dict[str, Any] = {"nodeLabels": dict(node_labels)}
    if tolerations:
        flavor_spec["tolerations"] = [dict(toleration) for toleration in tolerations]
    if topology_name:
        flavor_spec["topologyName"] = topology_name
    queue_spec: dict[str, Any] = {
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": {},
        "stopPolicy": "Hold" if instance_type.spec.inactive else "None",
        "resourceGroups": [
            {
                "coveredResources": list(quotas),
                "flavors": [
                    {
                        "name": name,
                        "resources": [{"name": key, "nominalQuota": quota} for key, quota in quotas.items()],
                    }
                ],
            }
        ],
    }
    queue = _manifest(CLUSTER_QUEUE, name, queue_spec)
    queue["metadata"]["labels"] = {QUEUE_ENTRANCE: entrance_of(instance_type)}
    return _manifest(RESOURCE_FLAVOR, name, flavor_spec), queue


def _quotas(
    instance_type: InstanceType,
    nodes: int,
    cards_per_node: int,
    settings: Settings,
    *,
    slices: bool,
    interfaces: Mapping[str, int],
) -> Iterator[tuple[str, str]]:
    """Resource and nominal quota. Cpu and memory are the nodes' whole units: Kueue counts requests, which never
    exceed them."""
    name, spec = instance_type.metadata.name, instance_type.spec
    cards = nodes * cards_per_node
    yield CPU, (_quantity(name, "unitResources.cpu", spec.unit_resources.cpu) * cards).canonical()
    yield MEMORY, (_quantity(name, "unitResources.ram", spec.unit_resources.ram) * cards).canonical()
    local = _quantity(name, "localStorage", spec.local_storage) * nodes
    yield EPHEMERAL, max(local, EPHEMERAL_DEFAULT * cards).canonical()
    if spec.acceleratable:
        detail = instance_type.status.detail if instance_type.status else None
        maker = manufacturer(detail.manufacturer if detail else "", settings)
        if maker is None:
            raise ValueError(
                f"InstanceType {name}: its manufacturer (status.detail.manufacturer) is not known; state it"
            )
        yield maker.resource, str(cards)
        if slices:
            yield from _slice_quotas(maker, cards)
        yield from _partition_quotas(instance_type, maker, cards)
    for key, count in interfaces.items():
        yield key, str(count)


def _offers_slices(instance_type: InstanceType) -> bool:
    return instance_type.status is not None and instance_type.status.detail.sliced_detail.logical.count > 0


def _slice_quotas(maker: Manufacturer, cards: int) -> Iterator[tuple[str, str]]:
    base = f"{maker.resource}.sliced"
    yield base, str(cards * _PERCENT)
    yield f"{base}.memory-percentage", str(cards * _PERCENT)
    yield f"{base}.cores-percentage", str(cards * _PERCENT)
    yield f"{base}.units", str(cards * CREDITS_PER_CARD)


def _partition_quotas(instance_type: InstanceType, maker: Manufacturer, cards: int) -> Iterator[tuple[str, str]]:
    detail = instance_type.status.detail if instance_type.status else None
    physical = detail.sliced_detail.physical if detail else None
    if physical is None or not physical.count or not maker.partition_kind:
        return
    base = f"{maker.resource}.partitioned"
    yield base, str(physical.count)
    for profile in physical.profiles:
        yield f"{base}.{maker.partition_kind}-{profile.name}", str(profile.count)
    yield f"{base}.units", str(cards * CREDITS_PER_CARD)


def _quantity(name: str, field: str, text: str) -> Quantity:
    try:
        return Quantity(text)
    except ValueError as fault:
        raise ValueError(f"InstanceType {name}: spec.{field}: {fault}") from None


def _manifest(kind: Kind, name: str, spec: dict[str, Any]) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
