"""What a row of the table holds, and how it is measured without being misled by one slow moment."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.cluster import Sandbox

TOLERANCE = 2.0
"""How many times its budget a row may cost before the run fails."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement against its budget."""

    what: str
    """What was measured."""
    against: str
    """What it is compared with; `-` for an absolute figure."""
    value: float | None
    """The figure; None when it could not be measured."""
    budget: float
    """The most it should be."""
    unit: str = "x"
    """Unit of figure and budget; `x` is times the baseline."""
    detail: str = ""
    """The parts of the figure, or why there is none."""

    @property
    def verdict(self) -> str:
        """`ok`, `over`, `FAIL` or `not measured`."""
        if self.value is None:
            return "not measured"
        if self.value <= self.budget:
            return "ok"
        return "over" if self.value <= self.budget * TOLERANCE else "FAIL"


@dataclass(slots=True)
class Bench:
    """What rows share: how often to repeat, where to write, and the cluster to use."""

    folder: Path
    """Scratch space, removed afterwards."""
    rounds: int = 3
    """How often each side is measured."""
    given: Path | None = None
    """Directory of a running sandbox to use instead of starting one."""
    _sandbox: "Sandbox | None" = field(default=None, init=False)

    def sandbox(self) -> "Sandbox":
        """The sandbox, started on first use; raises `SandboxError` when it cannot be had."""
        if self._sandbox is None:
            from sandbox.cluster import Sandbox

            given = self.given
            self._sandbox = Sandbox.start(self.folder / "sandbox") if given is None else Sandbox.attach(given)
        return self._sandbox

    def close(self) -> None:
        """Stop a sandbox that was started here."""
        if self._sandbox is not None and self.given is None:
            self.sandbox().stop()


def alternate(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """The median of each side, measured in turns so that a busy moment of the machine hits both."""
    figures: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for taken, side in zip(figures, sides, strict=True):
            taken.append(side())
    return [statistics.median(taken) for taken in figures]


def fastest(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """The shortest time of each side in seconds, measured in turns: what it costs when nothing else runs."""
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for position, side in enumerate(sides):
            best[position] = min(best[position], seconds(side))
    return best


def seconds(function: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def python(*arguments: str, cwd: Path | None = None) -> str:
    """Run this interpreter and return its output; raises with all of it when it fails."""
    return run([sys.executable, *arguments], cwd=cwd)


def run(command: Sequence[str], cwd: Path | None = None) -> str:
    """Run a command and return its output; raises with all of it when it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
