"""Any Python value to plain JSON that validation can trust, with problems noted where it is none.

Pulumi sends whole numbers as floats, Kubernetes reads null as absent, and a hostile document may nest without end: all
of that ends here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gpustack_components.api.paths import Location, printable

DEEPEST = 64
"""Most levels of maps and lists in a document."""

MOST_NODES = 250_000
"""Most values in a document, counted as often as they are reached."""

_MOST_BITS = 1100


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a document that is no plain JSON."""

    location: Location
    """Where it stands."""
    rule: str
    """`schema-type` or `schema-bounds`."""
    message: str
    """What was found and the way out."""


def plain(raw: Any) -> tuple[Any, tuple[Problem, ...]]:
    """A fresh copy as plain JSON, and the problems found.

    Whole floats become integers, null fields are left out, and what is no JSON is replaced by None.
    """
    reader = _Reader()
    return reader.read(raw), tuple(reader.problems)


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.location: list[str | int] = []
        self.left = MOST_NODES

    def note(self, rule: str, message: str) -> None:
        self.problems.append(Problem(tuple(self.location), rule, message))

    def read(self, value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind is str:
            if value.isascii() or _is_unicode(value):
                return value
            return self.note("schema-type", "the text is no valid Unicode; remove the lone surrogate")
        if kind is dict:
            return self.read_map(value)
        if kind is list or kind is tuple:
            return self.read_list(value)
        if kind is bool or value is None:
            return value
        if kind is int:
            if value.bit_length() <= _MOST_BITS:
                return value
            return self.note("schema-bounds", "the number is beyond what any field holds; write a smaller one")
        if kind is float:
            if math.isfinite(value):
                return int(value) if value.is_integer() else value
            return self.note("schema-type", f"found {value}, which JSON cannot hold; write a finite number")
        return self.read_other(value)

    def read_other(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.read(str.__str__(value))
        if isinstance(value, int):
            return self.read(int(value))
        if isinstance(value, float):
            return self.read(float(value))
        if isinstance(value, Mapping):
            return self.read_map(cast("Mapping[Any, Any]", value))
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return self.read_list(cast("Sequence[Any]", value))
        name = type(cast("object", value)).__name__
        return self.note("schema-type", f"found a Python {name}; write text, a number, true or false, a list or a map")

    def read_map(self, value: Mapping[Any, Any]) -> dict[str, Any] | None:
        if not self.enter(len(value)):
            return None
        location, read = self.location, self.read
        out: dict[str, Any] = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                self.note("schema-type", f"found the key {_shown(key)}, which is no text; write it in quotes")
            elif not key.isascii() and not _is_unicode(key):
                self.note(
                    "schema-type", f'the key "{printable(key, 80)}" is no valid Unicode; remove the lone surrogate'
                )
            elif inner is not None:
                location.append(key)
                out[key] = read(inner)
                location.pop()
        return out

    def read_list(self, value: Sequence[Any]) -> list[Any] | None:
        if not self.enter(len(value)):
            return None
        location, read = self.location, self.read
        out: list[Any] = []
        for index, inner in enumerate(value):
            location.append(index)
            out.append(read(inner))
            location.pop()
        return out

    def enter(self, entries: int) -> bool:
        if self.left < 0:
            return False
        self.left -= entries
        if self.left < 0:
            self.note("schema-bounds", f"the document holds more than {MOST_NODES:,} values; split it")
            return False
        if len(self.location) >= DEEPEST:
            self.note("schema-bounds", f"the document is nested deeper than {DEEPEST} levels; flatten it")
            return False
        return True


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, int) and key.bit_length() <= _MOST_BITS:
        return str(key)
    return "null" if key is None else f"of Python type {type(key).__name__}"
