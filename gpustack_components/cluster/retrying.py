"""When a request is sent again, and how long to wait before.

A bound in attempts and in time, with the server's own wish (Retry-After) honoured.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from gpustack_components.cluster.port import Stop

Answered = TypeVar("Answered")


class Repeat(Enum):
    """What may be done again when the first try did not end well."""

    ALWAYS = "always"
    """The request may be repeated whatever became of the first: reads, and writes that say the whole outcome."""
    UNPROCESSED = "unprocessed"
    """Only when the server has certainly not acted: refused connection, or 429."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request is tried."""

    attempts: int = 6
    """Most times it is sent, the first included."""
    seconds: float = 20.0
    """Longest time from the first try to the start of the last."""
    first_pause: float = 0.2
    """Seconds before the second try; doubled for each further one."""
    longest_pause: float = 5.0
    """Longest pause that is not the server's own wish, in seconds."""


@dataclass(slots=True)
class Pauses:
    """Clock, sleep and chance as arguments, and the stop that ends a pause early."""

    patience: Patience = field(default_factory=Patience)
    """The bound."""
    clock: Callable[[], float] = time.monotonic
    """Seconds, only ever growing."""
    sleep: Callable[[float], None] = time.sleep
    """Waits that many seconds."""
    chance: Callable[[], float] = random.random
    """A number from 0 to 1, to spread the retries of many clients."""
    stop: Stop | None = None
    """When set, no further try is made."""

    def begin(self) -> "Tries":
        """The tries of one request."""
        return Tries(self, self.clock())


@dataclass(slots=True)
class Tries:
    """The tries of one request so far."""

    pauses: Pauses
    """Where its pauses come from."""
    started: float
    """When the first try began."""
    made: int = 1
    """How many were made."""

    def again(self, headers: Mapping[str, str] | None = None) -> bool:
        """Wait until the next try is due; False when the bound is reached or a stop came."""
        pauses, patience = self.pauses, self.pauses.patience
        if self.made >= patience.attempts or _stopped(pauses.stop):
            return False
        pause = min(patience.first_pause * 2 ** (self.made - 1), patience.longest_pause) * (0.5 + pauses.chance() / 2)
        pause = max(pause, _retry_after(headers))
        if pauses.clock() + pause > self.started + patience.seconds:
            return False
        self.made += 1
        return self._wait(pause)

    def _wait(self, pause: float) -> bool:
        end = self.pauses.clock() + pause
        while (left := end - self.pauses.clock()) > 0:
            if _stopped(self.pauses.stop):
                return False
            self.pauses.sleep(min(left, 0.2))
        return not _stopped(self.pauses.stop)


GRACE = 1.0
"""Seconds that a request may still take once a stop came."""


def interruptible(call: Callable[[], Answered], stop: Stop | None, abandoned: Callable[[], Exception]) -> Answered:
    """The outcome of a call; once `stop` is set it may last `GRACE` seconds more, then `abandoned()` is raised.

    An abandoned call goes on in its thread until its own timeout, and nobody sees its outcome.
    """
    if stop is None:
        return call()
    outcome: list[Answered | BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)
        done.set()

    threading.Thread(target=run, name="request", daemon=True).start()
    while not done.wait(0.1):
        if stop.is_set():
            if done.wait(GRACE):
                break
            raise abandoned()
    (answered,) = outcome
    if isinstance(answered, BaseException):
        raise answered
    return answered


def _stopped(stop: Stop | None) -> bool:
    return stop is not None and stop.is_set()


def _retry_after(headers: Mapping[str, str] | None) -> float:
    value = (headers or {}).get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0
