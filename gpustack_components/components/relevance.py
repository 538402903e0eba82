"""Which of the bindings a program knows one deployment depends on: only those become its inputs.

A program that reads a folder of manifests hands every binding to every deployment. An edit of one that a deployment
does not name must not show as a change of it, nor make its state larger.
"""

from collections.abc import Sequence

from gpustack_components.cluster.readings import at, each, name
from gpustack_components.components.arguments import KIND
from gpustack_components.components.plain import Json

_POOL_REF = "spec.kvCache.poolRef.name"
_ARTIFACT = "spec.model.artifactRef.name"


def relevant(bindings: Sequence[Json], document: Json, unknown: Sequence[str] = ()) -> list[Json]:
    """The bindings that the document refers to, in their order; also those of a kind that nothing here can place.

    Where a reference is not known yet, every binding it could mean stays.
    """

    def named(kind: str, wanted: set[str], path: str) -> list[Json]:
        anything = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in unknown)
        return [one for one in bindings if one.get("kind") == kind and (anything or name(one) in wanted)]

    types = {str(role.get("instanceType")) for role in each(document, "spec", "roles")}
    attached = named("KVCachePoolBinding", _text(document, "spec", "kvCache", "poolRef", "name"), _POOL_REF)
    pools = named("KVCachePool", _texts(attached, "spec", "poolRef", "name"), _POOL_REF)
    kept = [
        *named("InstanceType", types, "spec.roles"),
        *named("ModelArtifact", _text(document, "spec", "model", "artifactRef", "name"), _ARTIFACT),
        *attached,
        *pools,
        *named("KVCacheBackend", _texts(pools, "spec", "backends", 0), _POOL_REF),
    ]
    placed = {"InstanceType", "ModelArtifact", "KVCachePoolBinding", "KVCachePool", "KVCacheBackend", KIND}
    return [one for one in bindings if one.get("kind") not in placed or any(one is other for other in kept)]


def _text(value: Json, *path: str | int) -> set[str]:
    found = at(value, *path)
    return {found} if isinstance(found, str) else set()


def _texts(values: Sequence[Json], *path: str | int) -> set[str]:
    return set[str]().union(*(_text(value, *path) for value in values))
