"""Time that passes only when something says so."""

from datetime import UTC, datetime, timedelta


class SimulatedClock:
    """A `rollout.contract.Clock`; it begins with the year 2026."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self.seconds

    def now(self) -> datetime:
        """The simulated moment."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        self.seconds += seconds
