"""Reading a cluster for a command: binding objects, and errors turned into sentences with exit code 4."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.cli.guard import CommandError, ExitCode, complain

if TYPE_CHECKING:
    from gpustack_components.cluster.port import Cluster

Json = dict[str, Any]

API_VERSION = "worker.gpustack.ai/v1"
DEFAULT_NAMESPACE = "default"

BINDING_KINDS = (
    ("InstanceType", "instancetypes", False),
    ("KVCachePoolBinding", "kvcachepoolbindings", True),
    ("KVCachePool", "kvcachepools", False),
    ("KVCacheBackend", "kvcachebackends", False),
    ("ModelArtifact", "modelartifacts", True),
)
"""Kind, plural and whether namespaced, of every object a deployment may name (bindings sheet 0)."""


@dataclass(frozen=True, slots=True)
class LiveBindings:
    """What a cluster holds of the objects deployments depend on."""

    objects: tuple[Json, ...] = ()
    """The binding objects, as read."""
    kinds: frozenset[str] = frozenset()
    """The kinds that are served, so that an object missing here does not exist."""


@contextmanager
def reaching(kubeconfig: str | None, context: str | None) -> "Generator[Cluster]":
    """A cluster to read; any failure to do so ends the command with a sentence and exit code 4."""
    from gpustack_components.cluster.client import connect
    from gpustack_components.cluster.port import ClusterError

    try:
        yield connect(kubeconfig, context)
    except ClusterError as failure:
        raise CommandError(str(failure), code=ExitCode.CLUSTER) from None


def operator_present(cluster: "Cluster") -> bool:
    """Whether the cluster serves the GPUStack operator's InstanceTypes."""
    from gpustack_components.cluster.port import Kind, NotServed

    kind, plural, namespaced = BINDING_KINDS[0]
    try:
        cluster.list(Kind(API_VERSION, kind, plural, namespaced), None)
    except NotServed:
        return False
    return True


def bindings_of(kubeconfig: str | None, context: str | None) -> LiveBindings:
    """The binding objects of the cluster that kubeconfig and context name."""
    with reaching(kubeconfig, context) as cluster:
        return read_bindings(cluster)


def read_bindings(cluster: "Cluster") -> LiveBindings:
    """The binding objects of all kinds the cluster serves; says so when it serves none of the operator's."""
    from gpustack_components.cluster.port import Kind, NotServed

    objects: list[Json] = []
    served: set[str] = set()
    for kind, plural, namespaced in BINDING_KINDS:
        try:
            listing = cluster.list(Kind(API_VERSION, kind, plural, namespaced), None)
        except NotServed:
            continue
        served.add(kind)
        objects.extend({"apiVersion": API_VERSION, "kind": kind, **item} for item in listing.items)
    if not served:
        complain(f"--live: the cluster serves no kind of {API_VERSION}, so only what the files declare is known")
    return LiveBindings(tuple(objects), frozenset(served))
