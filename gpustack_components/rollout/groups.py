"""Which Workloads of a namespace concern one deployment.

Kueue's Workloads carry no label of ours, so a run reads all of the namespace. In a namespace of a hundred deployments
almost all are somebody else's; they are left out before anything looks into them.
"""

from collections.abc import Collection, Iterable

from gpustack_components.api import names
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import each, label, uid
from gpustack_components.rollout.record import Record


def declared(record: Record) -> frozenset[str]:
    """The groups that the recorded document declares, and those that slots remember."""
    seats = {(slot.role, slot.ordinal) for slot in record.slots.values()}
    for role in each(record.document, "spec", "roles"):
        replicas = role.get("replicas")
        seats |= {(str(role.get("name")), ordinal) for ordinal in range(replicas if isinstance(replicas, int) else 1)}
    return frozenset(names.group_name(record.namespace, record.name, role, ordinal) for role, ordinal in seats)


def related(workloads: Iterable[Json], pods: Iterable[Json], groups: Collection[str]) -> tuple[Json, ...]:
    """The Workloads named after one of these groups or of the Pods' own, or owned by one of the Pods."""
    known, uids = set(groups), set[str]()
    for pod in pods:
        uids.add(uid(pod))
        known.update(filter(None, (label(pod, keys.GROUP_NAME),)))
    return tuple(workload for workload in workloads if _concerns(workload["metadata"], known, uids))


def _concerns(metadata: Json, groups: set[str], uids: set[str]) -> bool:
    if metadata.get("name") in groups:
        return True
    return any(owner.get("uid") in uids for owner in metadata.get("ownerReferences") or ())
