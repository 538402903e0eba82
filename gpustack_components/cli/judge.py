"""Reading and reviewing the documents of a command: what `check`, `render` and `plan` share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import sources
from gpustack_components.cli.guard import CommandError, complain
from gpustack_components.cluster.binding_objects import DEFAULT_NAMESPACE, Reading
from gpustack_components.cluster.readings import at

if TYPE_CHECKING:
    from gpustack_components.admission.review import Review
    from gpustack_components.api.load import RawDocument
    from gpustack_components.api.refusal import Refusal
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.settings import Settings

Json = dict[str, Any]
Identity = tuple[str, str, str]
"""Kind, namespace and name of a document."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One document with the verdict on it."""

    raw: "RawDocument"
    review: "Review"

    @property
    def label(self) -> str:
        """Namespace and name, or the source of a document without a name."""
        from gpustack_components.api.paths import printable

        _, namespace, name = identity(self.raw.value)
        return printable("/".join(part for part in (namespace, name) if part), 320) if name else self.place

    @property
    def place(self) -> str:
        """File and line the document starts at."""
        return f"{self.raw.source}:{self.raw.line}"

    @property
    def kind(self) -> str:
        """The document's kind, or `document` when it names none."""
        from gpustack_components.api.paths import printable

        return printable(identity(self.raw.value)[0], 63) or "document"

    @property
    def refusals(self) -> "tuple[Refusal, ...]":
        """Every refusal of the document, in the order of the rules."""
        return self.review.refusals


@dataclass(frozen=True, slots=True)
class Judgement:
    """All documents of a command with their verdicts, in the order of the input."""

    judged: tuple[Judged, ...]
    bindings: "Bindings"
    settings: "Settings"

    @property
    def refused(self) -> bool:
        """Whether any document is refused."""
        return any(one.refusals for one in self.judged)


def read(files: Sequence[str]) -> "tuple[RawDocument, ...]":
    """The documents of the files, each once; two different ones of one name are left for the review to refuse.

    Raises `CommandError` with a sentence for every file that cannot be read.
    """
    kept: list[RawDocument] = []
    first: dict[Identity, RawDocument] = {}
    for raw in sources.read_documents(files):
        earlier = first.setdefault(key(raw.value), raw)
        if earlier is raw or earlier.value != raw.value:
            kept.append(raw)
    return tuple(kept)


def read_old(old: str, files: Sequence[str]) -> dict[Identity, Json]:
    """The documents as they were before the edit; see `sources.read_old`."""
    return {key(raw.value): raw.value for raw in sources.read_old(old, files)}


def judge(
    raws: "Sequence[RawDocument]",
    settings: "Settings",
    *,
    old: Mapping[Identity, Json] = MappingProxyType({}),
    live: Reading | None = None,
) -> Judgement:
    """Review every document beside the others.

    `old` holds the documents as they were; `live` are a cluster's objects, beside those that the documents declare.
    What a document contradicts of its namesake in the cluster is said.
    """
    from gpustack_components.admission.review import review_all
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.observed import decode_observed, differences

    values = [raw.value for raw in raws]
    observed = decode_observed(live.objects if live else ())
    around = Bindings.of(observed.documents, complete=_is_complete(values, live))
    reviews = review_all(values, old=old, bindings=around, settings=settings)
    judged = tuple(Judged(raw, review) for raw, review in zip(raws, reviews, strict=True))
    declared = [one.review.document for one in judged if one.review.document is not None]
    stated = Bindings.of(declared)
    for sentence in (*observed.unreadable, *differences(stated, around)):
        complain(sentence)
    return Judgement(judged, stated.over(around), settings)


def read_settings(file: str | None) -> "Settings":
    """The settings of the file over their defaults."""
    from gpustack_components.bindings.settings import InvalidSettings, Settings

    if file is None:
        return Settings()
    try:
        return Settings.from_mapping(sources.read_mapping(file, "settings"))
    except InvalidSettings as invalid:
        raise CommandError(*(f"{file}: {problem}" for problem in invalid.problems)) from None


def identity(value: Json) -> Identity:
    """Kind, namespace and name of a raw document; empty where it states none."""
    kind, namespace, name = at(value, "kind"), at(value, "metadata", "namespace"), at(value, "metadata", "name")
    return _text(kind), _text(namespace), _text(name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def key(value: Json) -> Identity:
    """What makes two documents the same object; a namespace left out is the default one."""
    kind, namespace, name = identity(value)
    return kind, namespace or DEFAULT_NAMESPACE, name


def namespace_of(raw: "RawDocument") -> str:
    """The namespace a document is for; the default one when it states none."""
    return identity(raw.value)[1] or DEFAULT_NAMESPACE


def _is_complete(values: Sequence[Json], live: Reading | None) -> bool:
    """Whether an object that is not known does not exist.

    Files that declare any InstanceType (and, where a cache is used, any KVCachePoolBinding) are taken to declare all
    of them, so that a misspelt name is refused; files without any leave it open.
    """
    kinds = {identity(value)[0] for value in values} | (live.kinds if live else set[str]())
    caching = any(at(value, "spec", "kvCache") for value in values)
    return "InstanceType" in kinds and (not caching or "KVCachePoolBinding" in kinds)
