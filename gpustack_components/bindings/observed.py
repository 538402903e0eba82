"""Binding objects as a cluster holds them, beside those that are declared: decoding, merging, and what of them decides
a Pod.

A declared object and the one of its name in the cluster are one object: what the declaration states of the spec counts,
since that is what is on its way to the cluster; what was observed is the cluster's to say.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic.alias_generators import to_camel

from gpustack_components.api.document import Document
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePool, KVCachePoolBinding
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.part import Part
from gpustack_components.bindings.transport import offers

if TYPE_CHECKING:
    from gpustack_components.bindings.catalog import Bindings

BindingObject = TypeVar("BindingObject", bound=Document)

_MOVING = frozenset(("phase", "conditions", "capacity", "remaining", "once_max_request", "count", "cpu"))
"""Observed fields that change by themselves, so that a declaration which states them is no contradiction."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The documents among raw objects of a cluster."""

    documents: tuple[Document, ...]
    """Those that can be read."""
    unreadable: tuple[str, ...]
    """One sentence for each of the others."""


def decode_observed(objects: Iterable[Mapping[str, Any]]) -> Decoded:
    """Read binding objects that came from a cluster; one that cannot be read counts as not there, and is said."""
    from gpustack_components.api.decode import decode

    documents: list[Document] = []
    unreadable: list[str] = []
    for value in objects:
        decoded = decode(dict(value), stored=True)
        if decoded.document is not None:
            documents.append(decoded.document)
            continue
        metadata = value.get("metadata")
        stated: Mapping[str, Any] = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
        label = "/".join(str(stated[key]) for key in ("namespace", "name") if stated.get(key))
        unreadable.append(
            f"{value.get('kind')} {label} of the cluster counts as not there, since it cannot be read: "
            f"{decoded.refusals[0]}"
        )
    return Decoded(tuple(documents), tuple(unreadable))


def merged(declared: BindingObject, other: BindingObject) -> BindingObject:
    """One object of two namesakes: the declared one, with what was observed where the other stands in a cluster."""
    if not is_live(other):
        return declared
    if not _differing(_spec(declared), _spec(other), "spec"):
        return other
    return other.model_copy(update={"spec": _spec(declared)})


def is_live(document: Document) -> bool:
    """Whether the object was read from a cluster."""
    return document.metadata.resource_version is not None


def differences(declared: "Bindings", observed: "Bindings") -> tuple[str, ...]:
    """One sentence for each declared object that contradicts its namesake in the cluster, naming every such field."""
    return tuple(
        sentence
        for ours, theirs in _families(declared, observed)
        for key, one in ours.items()
        if (other := theirs.get(key)) is not None and is_live(other)
        for sentence in _contradictions(one, other)
    )


def facts(observed: "Bindings") -> dict[str, dict[str, str]]:
    """What observed objects decide of a Pod, in a few words each, by kind and name; nothing that moves by itself."""
    return {
        f"{one.kind} {one.metadata.name}": {key: text for key, text in _facts(one).items() if text}
        for family, _ in _families(observed, observed)
        for one in family.values()
    }


def _families(left: "Bindings", right: "Bindings") -> Iterator[tuple[Mapping[Any, Document], Mapping[Any, Document]]]:
    yield left.instance_types, right.instance_types
    yield left.pool_bindings, right.pool_bindings
    yield left.pools, right.pools
    yield left.backends, right.backends
    yield left.artifacts, right.artifacts


def _contradictions(declared: Document, live: Document) -> Iterator[str]:
    label = f"{declared.kind} {declared.metadata.name}"
    spec = _differing(_spec(declared), _spec(live), "spec")
    if spec:
        yield (
            f"{label} is declared here and differs from the one in the cluster: {'; '.join(spec)}; the declared spec "
            "counts here, and the operator goes by the cluster's"
        )
    status = _differing(_status(declared), _status(live), "status")
    if status:
        yield (
            f"{label} is declared here with another state than the cluster has: {'; '.join(status)}; the cluster's "
            "counts, remove the status from the declaration"
        )


def _differing(declared: Any, live: Any, path: str) -> list[str]:
    """The fields that a declaration states and that differ in the cluster, with both values."""
    if isinstance(declared, Part) and type(declared) is type(live):
        return [
            line
            for field in sorted(declared.model_fields_set)
            if not (path.startswith("status") and field in _MOVING)
            for line in _differing(getattr(declared, field), getattr(live, field), f"{path}.{to_camel(field)}")
        ]
    if isinstance(declared, tuple) and isinstance(live, tuple):
        ours, theirs = cast("tuple[Any, ...]", declared), cast("tuple[Any, ...]", live)
        if len(ours) == len(theirs):
            pairs = enumerate(zip(ours, theirs, strict=True))
            return [line for index, pair in pairs for line in _differing(*pair, f"{path}[{index}]")]
    if declared is None or declared == live:
        return []
    return [f"{path} {_shown(declared)}, in the cluster {_shown(live)}"]


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    return str(value) if not isinstance(value, Part | tuple | dict) else "other"


def _spec(document: Document) -> Any:
    return getattr(document, "spec", None)


def _status(document: Document) -> Any:
    return getattr(document, "status", None)


def _facts(document: Document) -> dict[str, str]:
    match document:
        case InstanceType(spec=spec, status=status):
            return {
                "entrance": (status.entrance if status else None) or "",
                "manufacturer": status.detail.manufacturer if status else "",
                "cpu": spec.unit_resources.cpu,
                "ram": spec.unit_resources.ram,
            }
        case KVCachePoolBinding(spec=spec):
            return {"pool": spec.pool_ref.name, "domain": spec.domain.name, "dtype": spec.domain.dtype}
        case KVCachePool(spec=spec, status=status):
            return {
                "backend": next(iter(spec.backends), ""),
                "clientEndpoint": status.client_endpoint if status else "",
            }
        case KVCacheBackend():
            return {"transport": " ".join(offers(document))}
        case ModelArtifact(status=status):
            found = status.resolved if status else None
            return {"revision": found.revision, "manifestDigest": found.manifest_digest} if found else {}
        case _:
            return {}
