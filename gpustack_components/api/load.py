"""Text to raw documents: multi-document YAML or JSON, read as Kubernetes' own tools read it (api sheet 1).

Scalars follow YAML 1.1 as Kubernetes' Go parser does: `yes` is true, `1e3` is a number, a date stays text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from gpustack_components.api.paths import printable
from gpustack_components.api.unreadable import UnreadableInput

LONGEST = 16 * 2**20
"""Most characters of one input."""

MOST_DOCUMENTS = 10_000
"""Most documents in one input."""


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document as it was written, before any judgement."""

    source: str
    """Where the text came from: a path, or `-` for standard input."""
    index: int
    """Position among the documents of the source, from 0; entries of a list count one by one."""
    line: int
    """Line the document starts on, from 1; entries of a list share the list's."""
    value: dict[str, Any]
    """The document as JSON."""


def load_text(text: str, source: str) -> tuple[RawDocument, ...]:
    """Every document in the text, in order; empty documents are skipped and `List` objects flattened.

    Raises `UnreadableInput`, also when no document is left.
    """
    if len(text) > LONGEST:
        raise UnreadableInput(
            source, f"the text has {len(text):,} characters and at most {LONGEST:,} are read; split it into files"
        )
    text = text.removeprefix("\ufeff")
    documents: list[RawDocument] = []
    for line, value in _values(text, source):
        if value is None:
            continue
        for entry in _entries(value, source, line):
            documents.append(RawDocument(source, len(documents), line, entry))
    if not documents:
        raise UnreadableInput(source, "the text holds no document; write at least one object with apiVersion and kind")
    if len(documents) > MOST_DOCUMENTS:
        raise UnreadableInput(source, f"the text holds more than {MOST_DOCUMENTS:,} documents; split it into files")
    return tuple(documents)


def _values(text: str, source: str) -> Iterator[tuple[int, Any]]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return iter(list(_json_values(text, source)))
        except json.JSONDecodeError as error:
            if source.endswith(".json"):
                problem = f"broken JSON: {error.msg[:1].lower()}{error.msg[1:]}"
                raise UnreadableInput(source, problem, error.lineno, error.colno) from None
        except RecursionError:
            raise UnreadableInput(source, "the document is nested too deeply to be read; flatten it") from None
    from gpustack_components.api.yaml_events import yaml_values

    return yaml_values(text, source)


def _entries(value: Any, source: str, line: int) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        found = "a list" if isinstance(value, list) else "a lone value"
        raise UnreadableInput(
            source,
            f"found {found} where a document belongs; write a map with apiVersion, kind, metadata and spec",
            line,
        )
    document = cast("dict[str, Any]", value)
    kind, items = document.get("kind"), document.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None):
        for entry in cast("list[Any]", items or []):
            yield from _entries(entry, source, line)
    else:
        yield document


def _json_values(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """Concatenated JSON values, as kubectl reads them."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            keys = [key for key, _ in pairs]
            key = next(key for position, key in enumerate(keys) if key in keys[:position])
            raise UnreadableInput(source, f'the key "{printable(key, 80)}" stands twice in one map; keep one')
        return out

    def refuse(constant: str) -> NoReturn:
        raise UnreadableInput(source, f"found {constant}, which JSON has no number for; write a finite number")

    def integer(digits: str) -> int:
        if len(digits) > 400:
            raise UnreadableInput(source, f"found a number of {len(digits)} digits; write a smaller one")
        return int(digits)

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse, parse_int=integer)
    position, line = _next(text, 0), 1
    counted = 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        value, end = decoder.raw_decode(text, position)
        yield line, value
        position = _next(text, end)


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
