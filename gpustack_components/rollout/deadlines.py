"""How long each wait has lasted in this run, and which of them have lasted too long."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpustack_components.rollout.actions import BOUNDED, Wait
from gpustack_components.rollout.contract import Timeouts
from gpustack_components.rollout.retirement.operation import WHOLE_SECONDS


@dataclass(slots=True)
class Deadlines:
    """The waits of the latest pass, each with the moment it was first seen."""

    timeouts: Timeouts
    """The bounds."""
    holds_end: bool = False
    """Whether the end of a hold would be seen, so that it is worth waiting for."""
    _since: dict[object, float] = field(default_factory=dict[object, float])
    _waits: tuple[Wait, ...] = ()

    def update(self, waits: Iterable[Wait], now: float) -> None:
        """Take in the waits of a pass; one that is new starts at `now`."""
        self._waits = tuple(waits)
        self._since = {wait.key: self._since.get(wait.key, now) for wait in self._waits}

    def waited(self, wait: Wait, now: float) -> float:
        """Seconds since that wait was first seen."""
        return now - self._since.get(wait.key, now)

    def left(self, now: float) -> float | None:
        """Seconds until the last bounded wait expires; None when there is no bounded wait."""
        remaining = [self._since[wait.key] + self._bound(wait) - now for wait in self._bounded()]
        return max(remaining) if remaining else None

    def expired(self, now: float) -> list[Wait]:
        """The bounded waits that have lasted too long."""
        return [wait for wait in self._bounded() if self._since[wait.key] + self._bound(wait) <= now]

    def _bounded(self) -> list[Wait]:
        return [wait for wait in self._waits if wait.kind in BOUNDED or (wait.kind == "held" and self.holds_end)]

    def _bound(self, wait: Wait) -> float:
        match wait.kind:
            case "admission":
                return self.timeouts.admission
            case "exit":
                return self.timeouts.drain + wait.grace
            case "held":
                return self.timeouts.weights
            case "unreadable":
                return 0.0
            case "retirement":
                return max(WHOLE_SECONDS + self.timeouts.drain, self.timeouts.ready)
            case _:
                return self.timeouts.drain
