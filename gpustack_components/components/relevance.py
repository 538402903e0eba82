"""Which of the bindings a program knows one deployment depends on: only those become its inputs.

A program that reads a folder of manifests hands every binding to every deployment. An edit of one that a deployment
does not name must not show as a change of it, nor make its state larger.
"""

from collections.abc import Sequence

from gpustack_components.cluster.binding_objects import KINDS, follow, is_hidden
from gpustack_components.cluster.port import Kind
from gpustack_components.cluster.readings import name
from gpustack_components.components.arguments import KIND
from gpustack_components.components.plain import Json


def relevant(bindings: Sequence[Json], document: Json, unknown: Sequence[str] = ()) -> list[Json]:
    """The bindings that the document refers to, in their order; also those of a kind that nothing here can place.

    Where a reference is not known yet, every binding it could mean stays.
    """

    def find(kind: Kind, wanted: set[str]) -> list[Json]:
        anything = is_hidden(kind.kind, unknown)
        return [one for one in bindings if one.get("kind") == kind.kind and (anything or name(one) in wanted)]

    kept = follow(document, find)
    placed = {*(kind.kind for kind in KINDS), KIND}
    return [one for one in bindings if one.get("kind") not in placed or any(one is other for other in kept)]
