"""The time in which requests fail that may succeed later: when to try again, and when to stop trying."""

from collections.abc import Callable
from dataclasses import dataclass

from gpustack_components.cluster.port import ClusterError, Conflict, NotServed, Stop, Unreachable
from gpustack_components.rollout.acting import GivenUp
from gpustack_components.rollout.contract import Clock
from gpustack_components.rollout.narrator import Narrator
from gpustack_components.rollout.wording import span

_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)


@dataclass
class Outage:
    """What one run has met of failing requests and broken watches since the last pass that went through."""

    narrator: Narrator
    clock: Clock
    stop: Stop
    patience: float
    """Seconds without an answer after which a run gives up that nothing else makes wait longer."""
    left: Callable[[float], float | None]
    """Seconds from then on that the run waits for its deployment anyway; None when it waits for nothing."""
    _since: float | None = None
    _unreachable: bool = False
    _failures: int = 0

    def stumble(self, error: ClusterError) -> None:
        """A request failed: pause where trying again can help. Raises `GivenUp` where it cannot."""
        if isinstance(error, NotServed):
            raise GivenUp(f"the cluster stopped serving what the rollout needs: {error}")
        if not error.retryable and not isinstance(error, Conflict):
            raise GivenUp(str(error))
        self.away(error)
        pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        end = self.clock.monotonic() + pause
        while not self.stop.is_set() and (left := end - self.clock.monotonic()) > 0:
            self.clock.sleep(min(left, 0.2))

    def away(self, error: ClusterError) -> None:
        """Nobody answers, or what answers is not up to it. Raises `GivenUp` when that has lasted too long."""
        now = self.clock.monotonic()
        unreachable = isinstance(error, Unreachable)
        if self._since is None or unreachable != self._unreachable:
            self._since = now if self._since is None else self._since
            self._unreachable = unreachable
            what = "the API server cannot be reached" if unreachable else "a request failed"
            self.narrator.say(f"{what}, trying again: {error}")
        left = self.left(now)
        longest = max(left if left is not None else 0.0, self._since + self.patience - now)
        if longest <= 0:
            what = "the API server could not be reached" if unreachable else "requests failed"
            raise GivenUp(f"{what} for {span(now - self._since)}: {error}")

    def over(self, *, watching: bool) -> None:
        """A pass went through; the outage has ended when the watches work again too."""
        self._failures = 0
        if self._since is not None and watching:
            what = "the API server answers again" if self._unreachable else "requests succeed again"
            self.narrator.say(f"{what} after {span(self.clock.monotonic() - self._since)}")
            self._since = None
