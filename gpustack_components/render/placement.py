"""Where Pods of a deployment like to be: what is rendered, and what a Pod is given at its creation and no other time
(rendering sheets 13 and 19, bindings sheet 5.6). Neither is in a fingerprint."""

from collections.abc import Mapping
from typing import Any

from gpustack_components.bindings.resolve import ResolvedDeployment, ResolvedRole
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json

_NEIGHBOURS = {"Prefill": ("Decode", 100), "Encode": ("Prefill", 50)}
"""Beside which kind a role of a deployment with an encoder likes to be, and how much."""


def affinity(resolved: ResolvedDeployment, role: ResolvedRole) -> Json:
    """The affinity of a role's Pods: in a deployment with an Encode role, a soft wish to share a node with the kind
    that follows it in a request; else empty."""
    kinds = {other.kind for other in resolved.roles}
    kind, weight = _NEIGHBOURS.get(role.kind, ("", 0))
    if "Encode" not in kinds or kind not in kinds:
        return {}
    neighbours = {
        keys.APP_NAME: keys.APP_NAME_VALUE,
        keys.APP_INSTANCE: resolved.name,
        keys.ROLE_KIND: kind.lower(),
    }
    term = {"labelSelector": {"matchLabels": neighbours}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": weight, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def placed(pod: Json, node_affinity: Mapping[str, Any]) -> Json:
    """The Pod with this node affinity; the Pod itself where there is none to add."""
    if not node_affinity:
        return pod
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "affinity": {**spec.get("affinity", {}), "nodeAffinity": dict(node_affinity)}}}
