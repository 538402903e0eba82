"""Which fields an edit moves, by role: what a forecast names as the reason of a turnover."""

from typing import Any, cast

from gpustack_components.cluster.port import Json


def changes(before: Json, after: Json) -> dict[str, list[str]]:
    """The fields of `spec` that an edit moves, by role: its own as they are called in the role, the deployment's with
    their path from `spec`."""
    old, new = _spec(before), _spec(after)
    common = [key for key in sorted({*old, *new}) if key != "roles" and old.get(key) != new.get(key)]
    shared = [path for key in common for path in _paths(key, old.get(key), new.get(key))]
    former = {str(role.get("name")): role for role in _roles(old)}
    found: dict[str, list[str]] = {}
    for role in _roles(new):
        was = former.get(str(role.get("name")), {})
        own = [key for key in sorted({*was, *role}) if was.get(key) != role.get(key)]
        found[str(role.get("name"))] = [
            path for key in own for path in _paths(key, was.get(key), role.get(key))
        ] + shared
    return found


def _spec(document: Json) -> Json:
    spec = document.get("spec")
    return cast("Json", spec) if isinstance(spec, dict) else {}


def _roles(spec: Json) -> list[Json]:
    roles = spec.get("roles")
    return (
        [cast("Json", role) for role in cast("list[Any]", roles) if isinstance(role, dict)]
        if isinstance(roles, list)
        else []
    )


def _paths(key: str, old: Any, new: Any) -> list[str]:
    """One level further down where both sides are objects: `engine.image` rather than `engine`."""
    if isinstance(old, dict) and isinstance(new, dict):
        was, now = cast("Json", old), cast("Json", new)
        return [f"{key}.{inner}" for inner in sorted({*was, *now}) if was.get(inner) != now.get(inner)]
    return [key]
