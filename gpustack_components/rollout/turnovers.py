"""How long the last turnovers of each role took, and what that says about the next ones.

Measured while a driver is at work, kept in the record, read by forecasts. A few per role, whatever the replicas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self, cast

from gpustack_components.cluster.port import Json
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.slots import Slot, Slots

KEPT = 5
"""Turnovers remembered of each role."""


@dataclass(frozen=True, slots=True)
class Turnover:
    """One replica that was replaced, in seconds."""

    gone: float
    """From the first deletion until nothing of it stood any more."""
    admitted: float
    """From then until its replacement was admitted, creation included."""
    ready: float | None = None
    """From then until every Pod of it was Ready; None when the run ended before."""

    def to_json(self) -> Json:
        """As the record keeps it."""
        ready = {} if self.ready is None else {"ready": round(self.ready, 1)}
        return {"gone": round(self.gone, 1), "admitted": round(self.admitted, 1), **ready}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What `to_json` wrote. Raises `KeyError`, `TypeError` or `ValueError` when it is not."""
        ready = value.get("ready")
        return cls(float(value["gone"]), float(value["admitted"]), None if ready is None else float(ready))


Turnovers = Mapping[str, tuple[Turnover, ...]]
"""The last turnovers of each role, oldest first; a role without any has no key."""


def turnovers_to_json(turnovers: Turnovers) -> Json:
    """As the record keeps them."""
    return {role: [one.to_json() for one in turnovers[role]] for role in sorted(turnovers)}


def turnovers_from_json(value: Any) -> dict[str, tuple[Turnover, ...]]:
    """Those a record holds; what cannot be read is forgotten, for nothing is decided by it."""
    try:
        by_role = dict(cast("Mapping[str, Sequence[Any]]", value or {}))
        return {str(role): tuple(map(Turnover.from_json, entries))[-KEPT:] for role, entries in by_role.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


@dataclass
class Stopwatch:
    """Times the turnovers of one run; told of each pass, it knows nothing of clocks."""

    turnovers: dict[str, tuple[Turnover, ...]] = field(default_factory=dict[str, tuple[Turnover, ...]])
    """What is remembered, the turnovers of this run included."""
    _begun: dict[str, tuple[Slot, float]] = field(default_factory=dict[str, tuple[Slot, float]])
    _vacant: dict[tuple[str, int], tuple[float, float]] = field(
        default_factory=dict[tuple[str, int], tuple[float, float]]
    )
    _loading: dict[tuple[str, int], tuple[Turnover, float]] = field(
        default_factory=dict[tuple[str, int], tuple[Turnover, float]]
    )

    def passed(self, before: Slots, after: Slots, observed: Observed, now: float) -> None:
        """A pass moved the slots from `before` to `after`, having seen `observed`.

        One that was begun by an earlier run is not timed: nobody knows when.
        """
        for role in {*before, *after}:
            self._step(role, before.get(role), after.get(role), observed, now)
        for seat, (turnover, since) in list(self._loading.items()):
            members = [member for member in observed.at(*seat) if member.live]
            if members and all(member.ready for member in members):
                del self._loading[seat]
                self._complete(seat[0], turnover, now - since)

    def only(self, roles: Sequence[str]) -> None:
        """Forget roles that are no longer declared."""
        self.turnovers = {role: found for role, found in self.turnovers.items() if role in roles}

    def _step(self, role: str, old: Slot | None, new: Slot | None, observed: Observed, now: float) -> None:
        ended = old is not None and (new is None or new.ordinal != old.ordinal)
        if old is not None and ended:
            self._end(old, observed, now)
        if new is None:
            return
        seat = (role, new.ordinal)
        if new.phase == "Cleanup":
            if old is None or ended:
                self._begun[role] = (new, now)
                self._loading.pop(seat, None)
            elif old.phase != "Cleanup":
                self._forget(role, new.ordinal)
        elif role in self._begun and seat not in self._vacant:
            _, since = self._begun.pop(role)
            self._vacant[seat] = (now - since, now)

    def _end(self, slot: Slot, observed: Observed, now: float) -> None:
        seat = (slot.role, slot.ordinal)
        measured = self._vacant.pop(seat, None)
        self._begun.pop(slot.role, None)
        live = [member for member in observed.at(*seat) if member.live]
        if measured is None or not live:
            return
        turnover = Turnover(measured[0], now - measured[1])
        self.turnovers[slot.role] = (*self.turnovers.get(slot.role, ()), turnover)[-KEPT:]
        self._loading[seat] = (turnover, now)

    def _forget(self, role: str, ordinal: int) -> None:
        """It was superseded by a newer edit or lost a member: its time says nothing about the next one's."""
        self._begun.pop(role, None)
        self._vacant.pop((role, ordinal), None)

    def _complete(self, role: str, turnover: Turnover, ready: float) -> None:
        found = list(self.turnovers.get(role, ()))
        for index, one in enumerate(found):
            if one is turnover:
                found[index] = Turnover(one.gone, one.admitted, ready)
        self.turnovers[role] = tuple(found)


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long the replacements ahead of a role take, if they go as the last ones did; all in seconds."""

    role: str
    """Role name."""
    replicas: int
    """Replicas to be replaced, one after another."""
    each: float
    """One of them, from its deletion until its replacement is admitted: when the next one may leave."""
    admitted: float
    """All of them, until the last is admitted."""
    ready: float | None
    """From then until the last one is Ready; None when that was never seen."""
    seen: int
    """Turnovers it is estimated from."""


def estimate(role: str, replicas: int, turnovers: Turnovers) -> Estimate | None:
    """What the last turnovers say about these; None without any."""
    found = turnovers.get(role, ())
    if not found or replicas < 1:
        return None
    each = median(one.gone + one.admitted for one in found)
    loading = [one.ready for one in found if one.ready is not None]
    return Estimate(role, replicas, each, each * replicas, median(loading) if loading else None, len(found))
