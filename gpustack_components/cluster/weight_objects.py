"""The live objects that decide whether weights can reach a Pod now, and where: a claim with its class and volume, and
the node plugin (bindings sheet 5.6)."""

from dataclasses import dataclass

from gpustack_components.cluster.port import Cluster, Forbidden, Json, Kind, NotServed
from gpustack_components.cluster.readings import at

CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
CSI_DRIVER = Kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", namespaced=False)


@dataclass(frozen=True, slots=True)
class Named:
    """One object of a cluster by its name."""

    kind: Kind
    """Its kind."""
    namespace: str | None
    """Its namespace; None where the kind has none."""
    name: str
    """Its name."""


@dataclass(frozen=True, slots=True)
class Found:
    """What looking for one object gave."""

    object: Json | None = None
    """The object; None when it does not exist or could not be read."""
    unread: str = ""
    """Why it could not be read, in a sentence; empty when it could."""


@dataclass(frozen=True, slots=True)
class ClaimFound:
    """A claim and what stands behind it."""

    claim: Found = Found()
    """The PersistentVolumeClaim."""
    storage_class: Found | None = None
    """The StorageClass of a claim that is Pending; None when there was none to look for."""
    volume: Found | None = None
    """The PersistentVolume of a claim that is Bound; None when there was none to look for."""

    @property
    def unread(self) -> tuple[str, ...]:
        """What could not be read, one sentence each."""
        found = (self.claim, self.storage_class, self.volume)
        return tuple(one.unread for one in found if one is not None and one.unread)


def read_one(cluster: Cluster, named: Named) -> Found:
    """Look for one object. Raises `ClusterError` but for what may not be read or is not served."""
    try:
        return Found(cluster.get(named.kind, named.namespace, named.name))
    except NotServed:
        return Found()
    except Forbidden as refused:
        return Found(unread=f"{named.kind.kind} {named.name} could not be read: {refused}")


def read_claim(cluster: Cluster, namespace: str, name: str) -> ClaimFound:
    """Look for a claim, and for its class while it is Pending or its volume once it is Bound. Raises `ClusterError`."""
    found = read_one(cluster, Named(CLAIM, namespace, name))
    phase = at(found.object, "status", "phase")
    behind = at(found.object, "spec", "volumeName" if phase == "Bound" else "storageClassName")
    if not isinstance(behind, str) or not behind:
        return ClaimFound(found)
    if phase == "Bound":
        return ClaimFound(found, volume=read_one(cluster, Named(VOLUME, None, behind)))
    return ClaimFound(found, storage_class=read_one(cluster, Named(STORAGE_CLASS, None, behind)))
