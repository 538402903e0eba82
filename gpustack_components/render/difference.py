"""What an edit changes in which Pods, and whether it rolls them (`render --diff`)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster import keys
from gpustack_components.render.explain import Explained, Part, explain
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.version import CURRENT, floor


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in a Pod that differs."""

    part: Part
    """What kind of thing differs."""
    name: str
    """Flag, variable, key or field."""
    before: str | None
    """What was rendered; None when it is new."""
    after: str | None
    """What is rendered now; None when it is gone."""
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
            yield Change(line.part, line.name, was.value if was else None, line.value, line.rule, line.field)
    for key, line in old.items():
        if key not in new:
            yield Change(line.part, line.name, line.value, None, line.rule, line.field)


def _numbered(lines: tuple[Explained, ...]) -> dict[tuple[str, str, int], Explained]:
    """Lines by part, name and how often that name came before; the fingerprint, which says nothing by itself, is
    left out."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str, int], Explained] = {}
    for line in lines:
        if line.name == keys.POD_SPEC_HASH:
            continue
        found[line.part, line.name, seen[line.part, line.name]] = line
        seen[line.part, line.name] += 1
    return found
