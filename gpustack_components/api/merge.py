"""What an edit does to a stored document: a JSON merge patch, and an apply that knows the lists' keys (api sheet 9).

Both work on raw JSON and leave their arguments as they are; defaults and rules come after, through `decode` and
`admission.review`.
"""

from collections.abc import Iterator
from typing import Any, cast

from gpustack_components.api.paths import Location, path_of

_KEYS: dict[str, tuple[tuple[str, Any], ...]] = {
    "spec.roles": (("name", None),),
    "spec.roles.env": (("name", None),),
    "spec.roles.ports": (("port", None), ("protocol", "TCP")),
}
"""Lists merged by key, as field path without positions: the keys and what an absent one means. Others are atomic."""


def merge_patch(target: Any, patch: Any) -> Any:
    """The target after an RFC 7386 merge patch: maps merge, null removes, anything else, lists included, replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for key, value in cast("dict[str, Any]", patch).items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def apply_merge(target: Any, patch: Any) -> Any:
    """The target after an apply of the patch: as a merge patch, but roles, env and ports are merged by their keys.

    Entries of a keyed list keep the target's order; new ones follow in the patch's order.
    """
    return _applied(target, patch, ())


def _applied(target: Any, patch: Any, at: tuple[str, ...]) -> Any:
    if isinstance(patch, dict):
        out = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
        for key, value in cast("dict[str, Any]", patch).items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = _applied(out.get(key), value, (*at, key))
        return out
    keys = _KEYS.get(".".join(at))
    if keys is None or not isinstance(patch, list) or not isinstance(target, list):
        return cast("Any", patch)
    entries, changes = cast("list[Any]", target), cast("list[Any]", patch)
    if not all(isinstance(entry, dict) for entry in (*entries, *changes)):
        return changes
    merged = {_identity(entry, keys): entry for entry in entries}
    for change in changes:
        identity = _identity(change, keys)
        merged[identity] = _applied(merged.get(identity), change, at)
    return list(merged.values())


def _identity(entry: dict[str, Any], keys: tuple[tuple[str, Any], ...]) -> str:
    return repr([entry.get(key, absent) for key, absent in keys])


def dropped_role_fields(old: Any, new: Any) -> tuple[str, ...]:
    """Paths, in the new document, of fields its roles no longer state although the stored roles of the same name did.

    What a merge patch of one role field usually does by accident. Fields empty in the stored role do not count.
    """
    stored = {role.get("name"): role for _, role in _roles(old) if isinstance(role.get("name"), str)}
    dropped: list[str] = []
    for index, role in _roles(new):
        name = role.get("name")
        before = stored.get(name, {}) if isinstance(name, str) else {}
        here: Location = ("spec", "roles", index)
        dropped += [
            path_of((*here, field))
            for field, value in before.items()
            if value not in (None, [], {}) and field not in role
        ]
    return tuple(dropped)


def _roles(document: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for key in ("spec", "roles"):
        document = cast("dict[str, Any]", document).get(key) if isinstance(document, dict) else None
    for index, role in enumerate(cast("list[Any]", document) if isinstance(document, list) else ()):
        if isinstance(role, dict):
            yield index, cast("dict[str, Any]", role)
