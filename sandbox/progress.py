"""What a person sees while something long runs: one moving line on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Generator
from typing import TextIO

from rich.console import Console
from rich.status import Status

_PLAIN_INTERVAL = 30.0


class Task:
    """One running task."""

    def __init__(self, title: str, console: Console, status: Status | None) -> None:
        self._title = title
        self._console = console
        self._status = status
        self._begun = time.monotonic()
        self._shown = self._begun

    @property
    def elapsed(self) -> str:
        """Time since it began, such as `3m05s`."""
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"

    def update(self, detail: str) -> None:
        """Say what it does now; a plain log gets a line every half minute."""
        if self._status:
            self._status.update(f"{self._title}  {self.elapsed}  {detail}")
        elif time.monotonic() - self._shown >= _PLAIN_INTERVAL:
            self._shown = time.monotonic()
            self._console.print(f"{self._title}  {self.elapsed}  {detail}")


class Progress:
    """Writes progress to a stream, stderr unless told otherwise."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, markup=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(text)

    @contextlib.contextmanager
    def task(self, title: str) -> Generator[Task]:
        """Show a task while the block runs, and how long it took when it ends well."""
        if self._console.is_terminal:
            with self._console.status(title) as status:
                task = Task(title, self._console, status)
                yield task
        else:
            self._console.print(f"{title} ...")
            task = Task(title, self._console, None)
            yield task
        self._console.print(f"{title}  done in {task.elapsed}")


class Silent(Progress):
    """Says nothing: for tests and for callers that only want the result."""

    def __init__(self) -> None:
        self._console = Console(quiet=True)
