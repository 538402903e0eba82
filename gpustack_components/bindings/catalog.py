"""The binding objects by kind and name: what was declared in the program or read live, in one place (bindings sheet
0)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from gpustack_components.api.document import Document
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from gpustack_components.api.metadata import ObjectMeta
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.bindings.observed import merged

Key = TypeVar("Key")
Kept = TypeVar("Kept", bound=Document)

DEFAULT_NAMESPACE = "default"
"""Namespace of a document that names none, as Kubernetes clients read it."""


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace or DEFAULT_NAMESPACE, metadata.name


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


def _over(ours: Mapping[Key, Kept], theirs: Mapping[Key, Kept]) -> Mapping[Key, Kept]:
    shared = {key: merged(one, theirs[key]) if key in theirs else one for key, one in ours.items()}
    return MappingProxyType({**theirs, **shared})


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """The objects a ModelDeployment may depend on. Lookups give None when an object is not known."""

    instance_types: Mapping[str, InstanceType] = field(default_factory=_empty)
    """InstanceTypes by name; cluster-scoped."""
    pool_bindings: Mapping[tuple[str, str], KVCachePoolBinding] = field(default_factory=_empty)
    """KVCachePoolBindings by namespace and name."""
    pools: Mapping[str, KVCachePool] = field(default_factory=_empty)
    """KVCachePools by name; cluster-scoped."""
    backends: Mapping[str, KVCacheBackend] = field(default_factory=_empty)
    """KVCacheBackends by name; cluster-scoped."""
    artifacts: Mapping[tuple[str, str], ModelArtifact] = field(default_factory=_empty)
    """ModelArtifacts by namespace and name."""
    complete: bool = False
    """True when these are all the objects there are, so that one missing here does not exist: a program that
    declares every binding, or a full list from a cluster. False: a missing object may exist elsewhere and cannot be
    judged."""
    conflicts: tuple[str, ...] = ()
    """Objects given twice with different content, as `InstanceType h20-8x`; the first one counts. Doors refuse
    these."""

    @classmethod
    def of(cls, documents: Iterable[object], *, complete: bool = False) -> "Bindings":
        """Sort documents by kind and name. Documents of other kinds (a ModelDeployment among them) are passed
        over."""
        bindings: dict[tuple[str, str], KVCachePoolBinding] = {}
        artifacts: dict[tuple[str, str], ModelArtifact] = {}
        types: dict[str, InstanceType] = {}
        pools: dict[str, KVCachePool] = {}
        backends: dict[str, KVCacheBackend] = {}
        conflicts: list[str] = []
        for document in documents:
            match document:
                case InstanceType():
                    kept: object = types.setdefault(document.metadata.name, document)
                case KVCachePool():
                    kept = pools.setdefault(document.metadata.name, document)
                case KVCacheBackend():
                    kept = backends.setdefault(document.metadata.name, document)
                case KVCachePoolBinding():
                    kept = bindings.setdefault(_key(document.metadata), document)
                case ModelArtifact():
                    kept = artifacts.setdefault(_key(document.metadata), document)
                case _:
                    continue
            if kept != document:
                conflicts.append(f"{document.kind} {document.metadata.name}")
        return cls(
            instance_types=MappingProxyType(types),
            pool_bindings=MappingProxyType(bindings),
            pools=MappingProxyType(pools),
            backends=MappingProxyType(backends),
            artifacts=MappingProxyType(artifacts),
            complete=complete,
            conflicts=tuple(conflicts),
        )

    def over(self, others: "Bindings") -> "Bindings":
        """These objects and those of `others` that have no namesake here; as complete as `others`.

        Where a namesake there was read from a cluster, what was observed is taken from it (see `bindings.observed`).
        """
        return Bindings(
            instance_types=_over(self.instance_types, others.instance_types),
            pool_bindings=_over(self.pool_bindings, others.pool_bindings),
            pools=_over(self.pools, others.pools),
            backends=_over(self.backends, others.backends),
            artifacts=_over(self.artifacts, others.artifacts),
            complete=others.complete,
            conflicts=(*others.conflicts, *self.conflicts),
        )

    def instance_type(self, name: str) -> InstanceType | None:
        """The InstanceType of that name."""
        return self.instance_types.get(name)

    def pool_binding(self, namespace: str | None, name: str) -> KVCachePoolBinding | None:
        """The KVCachePoolBinding of that name in the namespace."""
        return self.pool_bindings.get((namespace or DEFAULT_NAMESPACE, name))

    def pool(self, name: str) -> KVCachePool | None:
        """The KVCachePool of that name."""
        return self.pools.get(name)

    def backend(self, name: str) -> KVCacheBackend | None:
        """The KVCacheBackend of that name."""
        return self.backends.get(name)

    def artifact(self, namespace: str | None, name: str) -> ModelArtifact | None:
        """The ModelArtifact of that name in the namespace."""
        return self.artifacts.get((namespace or DEFAULT_NAMESPACE, name))

    def backend_behind(self, namespace: str | None, binding: str) -> KVCacheBackend | None:
        """The first backend of the pool a binding names; None when a link of that chain is missing."""
        bound = self.pool_binding(namespace, binding)
        pool = self.pool(bound.spec.pool_ref.name) if bound else None
        return self.backend(pool.spec.backends[0]) if pool and pool.spec.backends else None
