"""YAML 1.1 as Kubernetes reads it, from libyaml's events to plain values.

PyYAML's own constructors accept duplicate keys, expand aliases without end, turn dates into objects and know no `1e3`.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from gpustack_components.api.paths import printable
from gpustack_components.api.plain import DEEPEST
from gpustack_components.api.unreadable import UnreadableInput

MOST_ALIASED = 100_000
"""Most values that aliases may repeat, in one document."""

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_FIRST = frozenset(word[:1] for word in _WORDS)
_NUMERIC = frozenset("+-.0123456789")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))\Z")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_values(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """The line and value of each document of the text; an empty document is None. Raises `UnreadableInput`."""
    try:
        events: Iterator[Event] = yaml.parse(text, Loader=_LOADER)
        for event in events:
            if isinstance(event, DocumentStartEvent):
                yield _Document(events, source).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise UnreadableInput(source, f"broken YAML: {problem}{_advice(text, line)}", line, column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableInput(source, "found a control character that YAML does not allow; remove it", line) from None
    except UnicodeEncodeError:
        raise UnreadableInput(source, "the text is no valid Unicode; save it as UTF-8") from None


def _advice(text: str, line: int | None) -> str:
    if line is not None and any("\t" in found for found in text.split("\n", line)[line - 1 : line]):
        return "; the line holds a tab, indent with spaces"
    return ""


class _Document:
    """Reads one document off the events; every value knows how many values it holds, so that aliases can be bounded."""

    def __init__(self, events: Iterator[Event], source: str) -> None:
        self.events = events
        self.source = source
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.open: set[str] = set()
        self.aliased = 0
        self.count = 0

    def read(self) -> tuple[int, Any]:
        event = next(self.events)
        return _line(event), self.value(event, 0)

    def value(self, event: Event, depth: int) -> Any:
        self.count += 1
        if type(event) is ScalarEvent:
            value = self.scalar(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = (value, 1)
            return value
        if type(event) is AliasEvent:
            return self.alias(event)
        if depth >= DEEPEST:
            raise self.problem(event, f"the document is nested deeper than {DEEPEST} levels; flatten it")
        container = cast("MappingStartEvent | SequenceStartEvent", event)
        before, anchor = self.count, container.anchor
        if anchor is not None:
            self.anchors.pop(anchor, None)
            self.open.add(anchor)
        value = self.map(container, depth) if type(event) is MappingStartEvent else self.list(container, depth)
        if anchor is not None:
            self.open.discard(anchor)
            self.anchors[anchor] = (value, self.count - before + 1)
        return value

    def list(self, start: Event, depth: int) -> list[Any]:
        self.check_tag(start, "seq")
        out: list[Any] = []
        for event in self.events:
            if type(event) is SequenceEndEvent:
                break
            out.append(self.value(event, depth + 1))
        return out

    def map(self, start: Event, depth: int) -> dict[str, Any]:
        self.check_tag(start, "map")
        out: dict[str, Any] = {}
        merged: list[Any] = []
        for event in self.events:
            if type(event) is MappingEndEvent:
                break
            if type(event) is ScalarEvent and event.value == "<<" and event.implicit[0]:
                merged.append((event, self.value(next(self.events), depth + 1)))
                continue
            key = self.key(event)
            if key in out:
                raise self.problem(event, f'the key "{printable(key, 80)}" stands twice in one map; keep one')
            out[key] = self.value(next(self.events), depth + 1)
        for event, value in merged:
            for source in cast("list[Any]", value) if isinstance(value, list) else [value]:
                if not isinstance(source, dict):
                    raise self.problem(event, "a merge key (<<) takes a map or a list of maps")
                for key, inner in cast("dict[str, Any]", source).items():
                    out.setdefault(key, inner)
        return out

    def key(self, event: Event) -> str:
        if type(event) is AliasEvent:
            value, written = self.alias(event), f"*{event.anchor}"
        elif type(event) is ScalarEvent:
            value, written = self.scalar(event), event.value
            if event.anchor is not None:
                self.anchors[event.anchor] = (value, 1)
        else:
            raise self.problem(event, "a list or map cannot be a key; write text")
        if isinstance(value, str):
            return value
        if type(value) is int and str(value) == written:
            return written
        raise self.problem(event, f"the key {written or 'null'} reads as {_read_as(value)} in YAML; write it in quotes")

    def alias(self, event: AliasEvent) -> Any:
        name = cast("str", event.anchor)
        if name in self.open:
            raise self.problem(event, f"the alias *{name} stands inside its own anchor; write the value out")
        if name not in self.anchors:
            raise self.problem(event, f"the alias *{name} has no anchor before it; add &{name} or write the value out")
        value, held = self.anchors[name]
        self.aliased += held
        self.count += held
        if self.aliased > MOST_ALIASED:
            raise self.problem(event, f"aliases repeat more than {MOST_ALIASED:,} values; write them out")
        return value

    def scalar(self, event: ScalarEvent) -> Any:
        text = event.value
        if event.tag is None or event.tag == "!":
            return _plain(text) if event.implicit[0] else text
        return self.tagged(event, text)

    def tagged(self, event: ScalarEvent, text: str) -> Any:
        tag = cast("str", event.tag)
        kind = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
        if kind in ("str", "timestamp"):
            return text
        value = _plain(text)
        if kind == "float" and type(value) is int:
            return float(value)
        if kind in _KINDS and type(value) is _KINDS[kind]:
            return value
        shown = f"!!{kind}" if kind else tag
        raise self.problem(event, f"the tag {printable(shown, 60)} does not suit the text behind it; remove the tag")

    def check_tag(self, event: Event, kind: str) -> None:
        tag = cast("MappingStartEvent", event).tag
        if tag not in (None, "!", _TAG + kind):
            raise self.problem(
                event, f"the tag {printable(tag.replace(_TAG, '!!'), 60)} has no meaning here; remove it"
            )

    def problem(self, event: Event, problem: str) -> UnreadableInput:
        return UnreadableInput(self.source, problem, _line(event), cast("Any", event.start_mark).column + 1)


def _line(event: Event) -> int:
    return cast("Any", event.start_mark).line + 1


_KINDS = {"bool": bool, "int": int, "float": float, "null": type(None)}


def _plain(text: str) -> Any:
    """What an unquoted scalar means."""
    first = text[:1]
    if first in _FIRST and text in _WORDS:
        return _WORDS[text]
    if first in _NUMERIC and first:
        return _number(text)
    return text


def _number(text: str) -> Any:
    digits = text.replace("_", "") if text[0] != "." else text
    whole = _INTEGER.match(digits)
    if whole is not None and len(digits) <= 400:
        sign, hexadecimal, binary, octal, decimal = whole.groups()
        value = int(
            hexadecimal or binary or octal or decimal, 16 if hexadecimal else 2 if binary else 8 if octal else 10
        )
        if value < 2**64:
            return -value if sign == "-" else value
    return float(digits) if _FLOAT.match(digits) and len(digits) <= 400 else text


def _read_as(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "nothing" if value is None else f"the number {value}"
