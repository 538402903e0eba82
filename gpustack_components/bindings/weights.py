"""Whether weights that are resolved can reach Pods now, and which nodes suit them: live facts as plain values, and what
follows from them (bindings sheet 5.6).

What holds Pods back for want of a resolved ModelArtifact is `artifact.deliver`'s; here is what only a cluster can tell.
None of it enters a fingerprint.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from gpustack_components.bindings.artifact import MODEL_CSI_DRIVER, Artifact
from gpustack_components.bindings.failure import Hold
from gpustack_components.bindings.resolved import ResolvedDeployment
from gpustack_components.cluster.port import Json

SHARED_MODES = frozenset(("ReadOnlyMany", "ReadWriteMany"))
"""Access modes under which Pods of several nodes may mount one claim."""
MOST_NODES = 16
"""Nodes that a placement preference names at most."""
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_PREFERENCE = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim as far as Pods that mount it depend on it."""

    phase: str
    """`Pending`, `Bound` or `Lost`; empty when the claim does not exist."""
    access_modes: tuple[str, ...] = ()
    """Modes it may be mounted in."""
    storage_class: str = ""
    """Its class; empty for none."""
    waits_for_a_pod: bool = False
    """Whether its class provisions a volume only once a Pod that mounts it is scheduled."""
    leaving: bool = False
    """Whether its deletion was asked for, after which no new Pod may mount it."""
    nodes: Json | None = None
    """The node affinity of its volume, a NodeSelector; None when any node will do or the volume is not known."""


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """What a cluster says of the delivery of one deployment's weights; what is None was not or could not be read."""

    claim: Claim | None = None
    """The claim of a PVC artifact."""
    node_delivery: bool | None = None
    """Whether the cluster's nodes have the plugin that Node delivery needs."""


def claim_of(claim: Json | None, storage_class: Json | None, volume: Json | None) -> Claim:
    """A claim as Kubernetes gives it out, beside its class while it is Pending and its volume once it is Bound."""
    if claim is None:
        return Claim("")
    spec, status = _section(claim, "spec"), _section(claim, "status")
    phase = str(status.get("phase") or "Pending")
    modes = status.get("accessModes") if phase == "Bound" else None
    provisioner = str((storage_class or {}).get("provisioner") or "")
    late = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
    required = _section(_section(volume or {}, "spec"), "nodeAffinity").get("required")
    return Claim(
        phase,
        tuple(map(str, modes or spec.get("accessModes") or ())),
        str(spec.get("storageClassName") or ""),
        waits_for_a_pod=late and provisioner not in ("", _NO_PROVISIONER),
        leaving=bool(_section(claim, "metadata").get("deletionTimestamp")),
        nodes=cast("Json", required) if isinstance(required, dict) else None,
    )


def _section(value: Mapping[str, Any], key: str) -> Json:
    found = value.get(key)
    return cast("Json", found) if isinstance(found, dict) else {}


def awaiting(resolved: ResolvedDeployment, facts: WeightFacts) -> ResolvedDeployment:
    """The deployment with what holds its Pods back for want of a delivery that works now; itself when nothing does."""
    if resolved.artifact is None:
        return resolved
    pods = sum(role.replicas * role.size for role in resolved.roles)
    holds = tuple(_holds(resolved.artifact, resolved.namespace, pods, facts))
    return replace(resolved, holds=(*resolved.holds, *holds)) if holds else resolved


def _holds(artifact: Artifact, namespace: str, pods: int, facts: WeightFacts) -> Iterator[Hold]:
    if artifact.delivery == "Node" and facts.node_delivery is False:
        yield Hold(
            "NodeDeliveryUnavailable",
            f"ModelArtifact {artifact.name} is delivered by nodes, and the cluster has no CSIDriver "
            f"{MODEL_CSI_DRIVER}; install the node plugin, or set model-artifact-delivery-mode to Engine",
        )
    if artifact.delivery == "PVC" and facts.claim is not None:
        name = f"PersistentVolumeClaim {namespace}/{artifact.claim}"
        if (why := _unbound(facts.claim)) is not None:
            yield Hold("ClaimNotBound", f"{name} of ModelArtifact {artifact.name} {why}")
        elif pods > 1 and SHARED_MODES.isdisjoint(facts.claim.access_modes):
            modes = " and ".join(facts.claim.access_modes) or "no access mode"
            yield Hold(
                "AccessModeConflict",
                f"{name} of ModelArtifact {artifact.name} allows {modes}, and {pods} Pods are to mount it; use a claim "
                "with ReadOnlyMany or ReadWriteMany, or one replica of one Pod",
            )


def _unbound(claim: Claim) -> str | None:
    """Why a claim gives no volume to a new Pod; None when it does, or will as soon as there is one."""
    if not claim.phase:
        return "does not exist; create it with the weights in it"
    if claim.leaving:
        return "is being deleted; wait until it is gone and create it anew"
    if claim.phase == "Lost":
        return "has lost its volume; restore the volume, or make the claim anew with the weights in it"
    if claim.phase != "Pending" or claim.waits_for_a_pod:
        return None
    behind = f"class {claim.storage_class}" if claim.storage_class else "no class"
    return f"is Pending ({behind}); Pods are created once it is bound, so bind it to the volume that holds the weights"


def node_affinity(claim: Claim | None, holders: Iterable[str] = ()) -> Json:
    """The node affinity of a Pod that is created now: nodes that reach the claim's volume are required, nodes that hold
    the weights already preferred. Empty when neither is known."""
    found: Json = {}
    if claim is not None and claim.nodes is not None:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = claim.nodes
    nodes = sorted(set(holders))[:MOST_NODES]
    if nodes:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}
        preferred = [{"weight": _PREFERENCE, "preference": term}]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return found
