"""Reading and reviewing the documents of a command: what `check`, `render` and `plan` share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack_components.cli import sources
from gpustack_components.cli.guard import CommandError
from gpustack_components.cli.live import DEFAULT_NAMESPACE, LiveBindings

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
        _, namespace, name = identity(self.raw.value)
        return "/".join(part for part in (namespace, name) if part) if name else self.place

    @property
    def place(self) -> str:
        """File and line the document starts at."""
        return f"{self.raw.source}:{self.raw.line}"

    @property
    def kind(self) -> str:
        """The document's kind, or `document` when it names none."""
        return identity(self.raw.value)[0] or "document"

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

    def accepted(self, kind: type) -> "Iterable[Any]":
        """The accepted, defaulted documents of one kind."""
        return (one.review.document for one in self.judged if isinstance(one.review.document, kind))


def judge(
    files: Sequence[str], *, old: str | None = None, settings_file: str | None = None, live: LiveBindings | None = None
) -> Judgement:
    """Read, decode and review every document of the files.

    `old` names where the documents stood before; `live` are a cluster's objects, for names the files do not declare.
    Raises `CommandError` when something cannot be read.
    """
    raws = _without_repeats(sources.read_documents(files))
    before = {_key(raw.value): raw.value for raw in sources.read_old(old, files)} if old is not None else {}
    settings = read_settings(settings_file)

    from gpustack_components.admission.review import review
    from gpustack_components.api.decode import decode
    from gpustack_components.bindings.catalog import Bindings

    decoded = [decode(raw.value) for raw in raws]
    declared = {_key(raw.value) for raw in raws}
    live = live or LiveBindings()
    observed = [decode(value, stored=True) for value in live.objects if _key(value) not in declared]
    known = [one.document for one in (*decoded, *observed) if one.document is not None]
    bindings = Bindings.of(known, complete="InstanceType" in live.kinds)
    judged: list[Judged] = []
    for raw, one in zip(raws, decoded, strict=True):
        answer = review(
            one.document or raw.value, old=before.get(_key(raw.value)), bindings=bindings, settings=settings
        )
        judged.append(Judged(raw, answer))
    return Judgement(tuple(judged), bindings, settings)


def read_settings(file: str | None) -> "Settings":
    """The settings of the file over their defaults."""
    from gpustack_components.bindings.settings import InvalidSettings, Settings

    if file is None:
        return Settings()
    try:
        return Settings.from_mapping(sources.read_mapping(file, "settings"))
    except InvalidSettings as invalid:
        raise CommandError(*(f"{file}: {problem}" for problem in invalid.problems)) from None


def identity(value: Any) -> Identity:
    """Kind, namespace and name of a raw document; empty where it states none."""
    if not isinstance(value, Mapping):
        return "", "", ""
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        metadata = {}
    kind, namespace, name = value.get("kind"), metadata.get("namespace"), metadata.get("name")
    return tuple(part if isinstance(part, str) else "" for part in (kind, namespace, name))


def _key(value: Any) -> Identity:
    """What makes two documents the same object; a namespace left out is the default one."""
    kind, namespace, name = identity(value)
    return kind, namespace or DEFAULT_NAMESPACE, name


def _without_repeats(raws: "Sequence[RawDocument]") -> "list[RawDocument]":
    """The documents, one declared twice kept once; raises `CommandError` for two different documents of one name."""
    first: dict[Identity, RawDocument] = {}
    kept: list[RawDocument] = []
    problems: list[str] = []
    for raw in raws:
        key = _key(raw.value)
        earlier = first.setdefault(key, raw) if key[2] else raw
        if earlier is raw:
            kept.append(raw)
        elif earlier.value != raw.value:
            label = "/".join(part for part in key[1:] if part)
            problems.append(
                f"{raw.source}:{raw.line}: {key[0]} {label} is declared differently "
                f"at {earlier.source}:{earlier.line}; keep one of the two"
            )
    if problems:
        raise CommandError(*problems)
    return kept
