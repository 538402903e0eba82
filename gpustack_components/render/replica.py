"""One replica's Pods: the role's template stamped with a seat (rendering sheets 1, 2 and 14).

Manifests share structure: everything the Pods of a role have in common is one object in all of them. Callers never
change a returned manifest in place; they copy what they alter.
"""

from dataclasses import dataclass
from typing import Any

from gpustack_components.api.names import group_name, instance_service, leader_address, member_pod, role_service
from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.render.environment import rank
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.services import instance_service_manifest
from gpustack_components.render.template import Template, template


@dataclass(frozen=True, slots=True)
class Replica:
    """The manifests of one replica. Pods carry no owner reference: whoever creates them adds it."""

    members: tuple[Json, ...]
    """Pods by member index; the first one leads. They share structure and must not be changed in place."""
    service: Json | None
    """The headless Service of a replica of several Pods; None at size 1."""


class PodsHeld(ValueError):  # noqa: N818
    """Asked for Pods that may not be created yet; `ResolvedDeployment.holds` says why and is read first."""


def render_replica(resolved: ResolvedDeployment, role: ResolvedRole | str, ordinal: int) -> Replica:
    """The replica `ordinal` (from 0) of a role, whether or not the role declares that many.

    Raises `PodsHeld` when the deployment's weights may not be used yet: check `resolved.holds` before.
    """
    if resolved.holds:
        raise PodsHeld("; ".join(str(hold) for hold in resolved.holds))
    role = resolved.role(role) if isinstance(role, str) else role
    shared = template(resolved, role)
    group = group_name(resolved.namespace, resolved.name, role.name, ordinal)
    if role.size == 1:
        return Replica((_pod(resolved, role, shared, group, ordinal, 0, shared.spec),), None)
    spec = _replica_spec(resolved, role, shared, ordinal)
    members = tuple(
        _pod(
            resolved,
            role,
            shared,
            group,
            ordinal,
            member,
            {"hostname": member_pod(resolved.name, role.name, ordinal, member), **spec},
        )
        for member in range(role.size)
    )
    return Replica(members, instance_service_manifest(resolved, role, ordinal))


def _replica_spec(resolved: ResolvedDeployment, role: ResolvedRole, shared: Template, ordinal: int) -> Json:
    """The spec all members of one replica share: peers' names and the rank variables added to the template."""
    containers: list[Any] = list(shared.spec["containers"])
    main = dict(containers[shared.main_index])
    leader = leader_address(resolved.name, role.name, ordinal)
    main["env"] = [*main.get("env", ()), *(entry.value for entry in rank(role, leader))]
    containers[shared.main_index] = main
    return {**shared.spec, "subdomain": instance_service(resolved.name, role.name, ordinal), "containers": containers}


def _pod(
    resolved: ResolvedDeployment,
    role: ResolvedRole,
    shared: Template,
    group: str,
    ordinal: int,
    member: int,
    spec: Json,
) -> Json:
    labels = {
        **shared.label_values,
        keys.GROUP_NAME: group,
        keys.POD_ORDINAL: str(ordinal),
        keys.MEMBER_INDEX: str(member),
    }
    annotations = {**shared.annotation_values, keys.POD_SPEC_HASH: fingerprint(resolved, role, ordinal, member)}
    metadata: Json = {"namespace": resolved.namespace, "labels": labels, "annotations": annotations}
    if role.size == 1:
        metadata["generateName"] = f"{role_service(resolved.name, role.name)}-"
    else:
        metadata["name"] = member_pod(resolved.name, role.name, ordinal, member)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
