"""What a run knows of its deployment's weights beyond the documents: whether they can reach Pods now, which nodes suit
them, and when to look again while they hold everything back (bindings sheet 5.6)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gpustack_components.bindings.artifact import MODEL_CSI_DRIVER, Artifact
from gpustack_components.bindings.weights import Claim, WeightFacts, awaiting, claim_of, node_affinity
from gpustack_components.cluster import keys
from gpustack_components.cluster.binding_objects import ARTIFACT
from gpustack_components.cluster.port import POD, Cluster, Forbidden, Json
from gpustack_components.cluster.readings import at, each, ready
from gpustack_components.cluster.weight_objects import CLAIM, CSI_DRIVER, ClaimFound, Named, read_claim, read_one

if TYPE_CHECKING:
    from gpustack_components.bindings.resolve import ResolvedDeployment
    from gpustack_components.rollout.contract import Wanted


def look(cluster: Cluster, resolved: "ResolvedDeployment") -> "tuple[ResolvedDeployment, tuple[str, ...]]":
    """The deployment with what holds its Pods back in this cluster, and what could not be read for it, one sentence
    each. Asks nothing for weights that no object of the cluster delivers. Raises `ClusterError`."""
    artifact = resolved.artifact
    if artifact is None or artifact.delivery not in ("PVC", "Node"):
        return resolved, ()
    if artifact.delivery == "PVC":
        found = read_claim(cluster, resolved.namespace, artifact.claim)
        claim = None if found.claim.unread else _claim(found)
        return awaiting(resolved, WeightFacts(claim)), found.unread
    driver = read_one(cluster, Named(CSI_DRIVER, None, MODEL_CSI_DRIVER))
    known = None if driver.unread else driver.object is not None
    return awaiting(resolved, WeightFacts(node_delivery=known)), tuple(filter(None, (driver.unread,)))


def _claim(found: ClaimFound) -> Claim:
    behind, volume = found.storage_class, found.volume
    claim = claim_of(found.claim.object, behind.object if behind else None, volume.object if volume else None)
    if behind is not None and behind.unread and claim.phase == "Pending":
        return Claim("Pending", claim.access_modes, claim.storage_class, waits_for_a_pod=True, leaving=claim.leaving)
    return claim


def awaited(resolved: "ResolvedDeployment") -> tuple[Named, ...]:
    """The objects whose change may end what holds the deployment back; empty while nothing does."""
    reference = resolved.declared.spec.model.artifact_ref
    if not resolved.holds or reference is None:
        return ()
    artifact = Named(ARTIFACT, resolved.namespace, reference.name)
    found = resolved.artifact
    if found is None:
        return (artifact,)
    if found.delivery == "PVC":
        return (artifact, Named(CLAIM, resolved.namespace, found.claim))
    return (artifact, Named(CSI_DRIVER, None, MODEL_CSI_DRIVER))


class Placement:
    """Which nodes suit a Pod that is created now. Asks nothing for weights that are at home on every node."""

    def __init__(
        self, cluster: Cluster, namespace: str, artifact: Artifact | None, own: Callable[[], tuple[Json, ...]]
    ):
        """`own` are the deployment's Pods as the run sees them."""
        self._cluster = cluster
        self._namespace = namespace
        self.artifact = artifact
        self._own = own
        self._claim: Claim | None = None
        self._beside: tuple[Json, ...] | None = None

    def node_affinity(self) -> Json:
        """The node affinity for the Pods of one replica. Raises `ClusterError` but for what may not be read."""
        artifact = self.artifact
        if artifact is None:
            return {}
        if artifact.delivery == "PVC":
            if self._claim is None or self._claim.phase != "Bound":
                self._claim = _claim(read_claim(self._cluster, self._namespace, artifact.claim))
            return node_affinity(self._claim)
        if artifact.delivery == "Node":
            pods = (*self._others(), *self._own())
            return node_affinity(None, (node for pod in pods if (node := _holds(pod, artifact.digest))))
        return {}

    def _others(self) -> tuple[Json, ...]:
        """Pods of the namespace's deployments, listed once in a run."""
        if self._beside is None:
            try:
                self._beside = self._cluster.list(POD, self._namespace, keys.DEPLOYMENTS).items
            except Forbidden:
                self._beside = ()
        return self._beside


def _holds(pod: Json, digest: str) -> str:
    """The node on which a Pod is ready with weights of this digest that its node delivered; empty when none."""
    mounted = (at(volume, "csi") for volume in each(pod, "spec", "volumes"))
    if not ready(pod) or not any(
        at(csi, "driver") == MODEL_CSI_DRIVER and at(csi, "volumeAttributes", "manifestDigest") == digest
        for csi in mounted
    ):
        return ""
    return str(at(pod, "spec", "nodeName") or "")


class Attending(Protocol):
    """A view that also watches single objects: `rollout.view.View`."""

    def attend(self, objects: tuple[Named, ...]) -> tuple[Named, ...]:
        """Watch these objects too; those of them that can be watched."""
        ...

    @property
    def attended(self) -> int:
        """How many changes of attended objects were seen."""
        ...


class Awaited:
    """Reads anew what is wanted once an object that holds the deployment back has changed; never by the clock."""

    def __init__(self, wanted: "Wanted", view: Attending) -> None:
        self._wanted: Wanted = wanted
        self._view = view
        self._attending: tuple[Named, ...] | None = None
        self._seen = -1
        self.watches = False
        """Whether a change of what is waited for would be seen, so that waiting makes sense."""

    def renewed(self) -> "Wanted | None":
        """What is wanted now; None when nothing that it waits for has changed. Raises what `Wanted.again` raises."""
        if self._wanted.again is None:
            return None
        if self._attending != self._wanted.awaits:
            self.watches = bool(self._view.attend(self._wanted.awaits))
            self._attending, self._seen = self._wanted.awaits, -1
        count = self._view.attended
        if not self.watches or count == self._seen:
            return None
        self._wanted = self._wanted.again()
        self._seen = count
        return self._wanted
