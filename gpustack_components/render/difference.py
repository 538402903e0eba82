"""What an edit changes in which Pods and in the router, and whether it rolls them (`render --diff`)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.render.explain import Explained, Part, explain
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.router import router_objects
from gpustack_components.render.router.explain import explain_router
from gpustack_components.render.version import CURRENT, floor


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in a Pod that differs."""

    part: Part
    """What kind of thing differs."""
    name: str
    """Flag, variable, key or field."""
    before: str | None
    """What was rendered, without text that may be a secret; None when it is new."""
    after: str | None
    """What is rendered now, in the same way; None when it is gone."""
    rule: str
    """The rule behind it, with its section of the rendering sheet."""
    field: str
    """The input it comes from; empty for a constant of the product."""


@dataclass(frozen=True, slots=True)
class RoleDifference:
    """How one role differs."""

    role: str
    """Name of the role."""
    rolls: bool
    """Whether running replicas are turned over: their fingerprint moved."""
    replicas: tuple[int, int]
    """Declared replicas before and after; 0 where the role is not declared."""
    changes: tuple[Change, ...]
    """What differs in the first Pod of the first replica, in the order of the manifest. Changes of a role that does
    not roll show on new and replaced Pods only."""

    def __bool__(self) -> bool:
        return self.rolls or bool(self.changes) or self.replicas[0] != self.replicas[1]


@dataclass(frozen=True, slots=True)
class RouterDifference:
    """How the router differs. No edit of it turns an engine replica over; adding and removing it may, by the roles."""

    rolls: bool
    """Whether its Pods are replaced: their template differs."""
    replicas: tuple[int, int]
    """Copies before and after; 0 where there is no router."""
    changes: tuple[Change, ...]
    """What differs in its objects, in the order of the manifests; empty where it is new or gone."""


@dataclass(frozen=True, slots=True)
class FloorDifference:
    """How the oldest render version that may go on running differs (rollout sheet 2.2)."""

    before: int
    """The floor before the edit."""
    after: int
    """The floor after it."""
    stated: str | None
    """The `min-render-version` annotation after the edit; None when there is none."""
    current: int
    """Render version of the Pods this release renders; no floor is above it."""

    @property
    def raised(self) -> bool:
        """Whether replicas under the new floor are turned over, whatever their fingerprint says."""
        return self.after > self.before


def floors(before: ResolvedDeployment, after: ResolvedDeployment, *, current: int = CURRENT) -> FloorDifference | None:
    """How an edit of the `min-render-version` annotation moves the floor; None when the annotation stays."""
    old, new = before.min_render_version, after.min_render_version
    if old == new:
        return None
    return FloorDifference(floor(old, current=current), floor(new, current=current), new, current)


def difference(before: ResolvedDeployment, after: ResolvedDeployment) -> tuple[RoleDifference, ...]:
    """Every role that differs, in the order of the later document, then roles that are gone."""
    return tuple(found for found in _roles(before, after) if found)


def router_difference(before: ResolvedDeployment, after: ResolvedDeployment) -> RouterDifference | None:
    """How the router differs; None when it does not."""
    counts = tuple(side.router.replicas if side.router else 0 for side in (before, after))
    if not all(counts):
        return RouterDifference(False, (counts[0], counts[1]), ()) if any(counts) else None
    if router_objects(before) == router_objects(after):
        return None
    changes = tuple(_changes(explain_router(before), explain_router(after)))
    return RouterDifference(_router_pod(before) != _router_pod(after), (counts[0], counts[1]), changes)


def _router_pod(resolved: ResolvedDeployment) -> Json:
    """The Pod template of the router's Deployment."""
    return next(one["spec"]["template"] for one in router_objects(resolved) if one["kind"] == "Deployment")


def _roles(before: ResolvedDeployment, after: ResolvedDeployment) -> Iterator[RoleDifference]:
    old = {role.name: role for role in before.roles}
    new = {role.name: role for role in after.roles}
    for name in (*new, *(name for name in old if name not in new)):
        count = (old[name].replicas if name in old else 0, new[name].replicas if name in new else 0)
        if name not in old or name not in new:
            yield RoleDifference(name, False, count, ())
            continue
        rolls = fingerprint(before, name, 0, 0) != fingerprint(after, name, 0, 0)
        yield RoleDifference(name, rolls, count, tuple(_changes(explain(before, name), explain(after, name))))


def _changes(before: tuple[Explained, ...], after: tuple[Explained, ...]) -> Iterator[Change]:
    old, new = _numbered(before), _numbered(after)
    for key, line in new.items():
        was = old.get(key)
        if was is None or was.value != line.value:
            now = line.shown()
            yield Change(now.part, now.name, was.shown().value if was else None, now.value, now.rule, now.field)
    for key, line in old.items():
        if key not in new:
            gone = line.shown()
            yield Change(gone.part, gone.name, gone.value, None, gone.rule, gone.field)


def _numbered(lines: tuple[Explained, ...]) -> dict[tuple[str, str, int], Explained]:
    """Lines by part, name and how often that name came before; hashes, which say nothing by themselves, are left
    out."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str, int], Explained] = {}
    for line in lines:
        if line.name in (keys.POD_SPEC_HASH, keys.ROUTER_CONFIG_HASH):
            continue
        found[line.part, line.name, seen[line.part, line.name]] = line
        seen[line.part, line.name] += 1
    return found
