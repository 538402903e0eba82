"""The objects a deployment may depend on, as a cluster holds them: which kinds they are, and reading them (bindings
sheet 0).

One reading for all doors: commands list every object, the program and its provider get those that a deployment names.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from gpustack_components.api.names import DNS_1123_SUBDOMAIN
from gpustack_components.cluster.port import CUSTOM_RESOURCE_DEFINITION, Cluster, Forbidden, Json, Kind, NotServed
from gpustack_components.cluster.readings import at, each, name

API_VERSION = "worker.gpustack.ai/v1"
DEFAULT_NAMESPACE = "default"

INSTANCE_TYPE = Kind(API_VERSION, "InstanceType", "instancetypes", namespaced=False)
POOL_BINDING = Kind(API_VERSION, "KVCachePoolBinding", "kvcachepoolbindings")
POOL = Kind(API_VERSION, "KVCachePool", "kvcachepools", namespaced=False)
BACKEND = Kind(API_VERSION, "KVCacheBackend", "kvcachebackends", namespaced=False)
ARTIFACT = Kind(API_VERSION, "ModelArtifact", "modelartifacts")
KINDS = (INSTANCE_TYPE, POOL_BINDING, POOL, BACKEND, ARTIFACT)
"""Every kind a deployment may name, or that such an object names in turn."""

MODEL_DEPLOYMENT = Kind(API_VERSION, "ModelDeployment", "modeldeployments")
"""A deployment that the operator drives itself."""

OPERATOR_CRD = f"{INSTANCE_TYPE.plural}.{API_VERSION.partition('/')[0]}"
"""Where this CRD is served the operator runs, and makes every LocalQueue itself."""

REFERENCES = {
    INSTANCE_TYPE.kind: "spec.roles",
    ARTIFACT.kind: "spec.model.artifactRef.name",
    POOL_BINDING.kind: "spec.kvCache.poolRef.name",
    POOL.kind: "spec.kvCache.poolRef.name",
    BACKEND.kind: "spec.kvCache.poolRef.name",
}
"""The field of a deployment that decides which objects of a kind it depends on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a cluster's binding objects."""

    objects: tuple[Json, ...] = ()
    """The objects, each with its `apiVersion` and `kind`."""
    kinds: frozenset[str] = frozenset()
    """The kinds that were read, so that an object missing here does not exist."""
    unread: tuple[str, ...] = ()
    """What may exist and could not be read, one sentence each."""


def is_hidden(kind: str, unknown: Iterable[str]) -> bool:
    """Whether the reference to objects of a kind lies within a value that is not known yet."""
    path = REFERENCES[kind]
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in unknown)


def operator_runs(cluster: Cluster) -> bool:
    """Whether the cluster serves the operator's InstanceTypes; False where nothing of it may be read. Raises
    `ClusterError`."""
    try:
        return cluster.get(CUSTOM_RESOURCE_DEFINITION, None, OPERATOR_CRD) is not None
    except Forbidden:
        pass
    try:
        cluster.get(INSTANCE_TYPE, None, "any")
    except (Forbidden, NotServed):
        return False
    return True


def follow(document: Json, find: Callable[[Kind, set[str]], Sequence[Json]]) -> list[Json]:
    """Everything a raw deployment depends on; `find` gives the objects of a kind that have one of the names."""
    attached = find(POOL_BINDING, _texts((document,), "spec", "kvCache", "poolRef", "name"))
    pools = find(POOL, _texts(attached, "spec", "poolRef", "name"))
    return [
        *find(INSTANCE_TYPE, _texts(each(document, "spec", "roles"), "instanceType")),
        *find(ARTIFACT, _texts((document,), "spec", "model", "artifactRef", "name")),
        *attached,
        *pools,
        *find(BACKEND, _texts(pools, "spec", "backends", 0)),
    ]


def read_all(cluster: Cluster) -> Reading:
    """Every binding object of every kind the cluster serves. Raises `ClusterError` but for what may not be read."""
    reader = _Reader(cluster)
    for kind in KINDS:
        reader.list(kind)
    return reader.reading


def read_named(
    cluster: Cluster, document: Json, declared: Sequence[Json] = (), unknown: Collection[str] = ()
) -> Reading:
    """The binding objects that a raw deployment depends on, by name, and no others.

    `declared` are raw documents that stand beside it and name further objects; `unknown` are the paths of references
    that are not known yet. Raises `ClusterError` but for what may not be read.
    """
    reader = _Reader(cluster)
    namespace = at(document, "metadata", "namespace")
    namespace = namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE

    def find(kind: Kind, names: set[str]) -> list[Json]:
        beside = [one for one in declared if at(one, "kind") == kind.kind and name(one) in names]
        if is_hidden(kind.kind, unknown):
            return beside
        return [*reader.get(kind, namespace if kind.namespaced else None, sorted(names)), *beside]

    follow(document, find)
    return reader.reading


class _Reader:
    """Reads kind by kind and keeps what was found, and what could not be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects: list[Json] = []
        self._kinds: set[str] = set()
        self._unread: list[str] = []

    @property
    def reading(self) -> Reading:
        """Everything read so far."""
        return Reading(tuple(self._objects), frozenset(self._kinds), tuple(self._unread))

    def list(self, kind: Kind) -> None:
        """Every object of a kind."""
        self._keep(kind, lambda: self._cluster.list(kind, None).items, f"the cluster's {kind.plural}")

    def get(self, kind: Kind, namespace: str | None, names: Iterable[str]) -> Sequence[Json]:
        """The objects of a kind that exist under these names; one that no object can have is passed over."""
        wanted = [one for one in names if re.fullmatch(DNS_1123_SUBDOMAIN, one)]

        def read() -> tuple[Json, ...]:
            found = (self._cluster.get(kind, namespace, one) for one in wanted)
            return tuple(one for one in found if one is not None)

        return self._keep(kind, read, " and ".join(f"{kind.kind} {one}" for one in wanted))

    def _keep(self, kind: Kind, read: Callable[[], Sequence[Json]], words: str) -> Sequence[Json]:
        try:
            found = [{"apiVersion": kind.api_version, "kind": kind.kind, **one} for one in read()]
        except NotServed:
            return ()
        except Forbidden as refused:
            self._unread.append(f"{words} could not be read: {refused}")
            return ()
        self._kinds.add(kind.kind)
        self._objects.extend(found)
        return found


def _texts(values: Iterable[Json], *path: str | int) -> set[str]:
    """The texts that the values hold at a path."""
    found = (at(value, *path) for value in values)
    return {one for one in found if isinstance(one, str) and one}
