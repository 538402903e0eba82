"""Values as Pulumi hands them over, as plain JSON: whole floats become ints, absent fields go, unknown values are
named.

In a preview the value of an Output may not be known yet, at any depth. What stands beside it can still be judged, so
the unknown value gives way to a word that is legal there, and its path is kept: a refusal that could depend on it is
not a refusal, it is something that could not be judged (pulumi-facts sheet, section 6).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Json = dict[str, Any]

_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")
_ROLE = re.compile(r"^spec\.roles\[\d+\]")
_COMMAND_LINE = re.compile(r"^(spec\.roles\[\d+\]|spec\.router)\.(extraArgs|command|env)\b")


def member(path: str, key: str | int) -> str:
    """The path of a member: `spec` and `roles` give `spec.roles`, then 1 gives `spec.roles[1]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _KEY.match(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def placeholder(path: str) -> str:
    """A word that decodes at the path of an unknown value."""
    if path.endswith((".mountPath", ".path")):
        return "/unknown"
    return "unknown"


@dataclass(frozen=True, slots=True)
class Known:
    """A value with a word in the place of everything that is not known yet."""

    value: Any
    unknown: tuple[str, ...] = ()
    """Paths of the values that are not known yet."""

    def hides(self, path: str) -> bool:
        """Whether what stands at the path could depend on a value that is not known yet."""
        return any(_related(path, hidden) for hidden in self.unknown)


def _related(path: str, hidden: str) -> bool:
    if not path or _within(path, hidden) or _within(hidden, path):
        return True
    if not _COMMAND_LINE.match(hidden):
        return False
    role = _ROLE.match(hidden)
    return path.startswith("spec.router") or (role is not None and (_within(path, role[0]) or path == "spec.roles"))


def _within(path: str, container: str) -> bool:
    return path == container or path.startswith((f"{container}.", f"{container}["))


def known(value: Any, is_unknown: Callable[[Any], bool], path: str = "") -> Known:
    """Plain JSON of a value in which `is_unknown` recognises what is not known yet."""
    found: list[str] = []
    return Known(_plain(value, is_unknown, path, found), tuple(found))


def plain(value: Any) -> Any:
    """Plain JSON of a value without unknowns: ints for whole floats, no None members, no proxies."""
    return _plain(value, lambda _: False, "", [])


def _plain(value: Any, is_unknown: Callable[[Any], bool], path: str, found: list[str]) -> Any:
    if is_unknown(value):
        found.append(path)
        return placeholder(path)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        items = ((key, _plain(item, is_unknown, member(path, key), found)) for key, item in _in_order(value))
        return {key: item for key, item in items if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        elements = cast(Sequence[Any], value)
        return [_plain(item, is_unknown, member(path, index), found) for index, item in enumerate(elements)]
    return value


def paths_of(value: Any, wanted: Callable[[Any], bool], path: str = "") -> Iterable[tuple[str, Any]]:
    """Path and value of everything inside that `wanted` recognises; does not look inside what it recognised."""
    if wanted(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in _in_order(value):
            yield from paths_of(item, wanted, member(path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast(Sequence[Any], value)):
            yield from paths_of(item, wanted, member(path, index))


def _in_order(value: Any) -> list[tuple[str, Any]]:
    """The members by name: the engine hands a map's over in another order each time."""
    members = cast(Mapping[Any, Any], value)
    return sorted(((str(key), item) for key, item in members.items()), key=lambda pair: pair[0])
