"""Start and stop processes that outlive us, and never mistake another process for one of ours.

A process id alone is not an identity: ids are reused. A process is ours while its id still carries the start time
noted when we started it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Process:
    """A process by id and start time."""

    pid: int
    """Process id."""
    started: str
    """When it started, in the operating system's own notation; compared, never read."""


def identify(pid: int) -> Process:
    """The process that carries the id now. Raises ProcessLookupError when none does."""
    started = _start_time(pid)
    if not started:
        raise ProcessLookupError(pid)
    return Process(pid, started)


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path) -> Process:
    """Start a process in a session of its own, output appended to `log`. Raises OSError when it can't run."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd, start_new_session=True
        )
    _children.append(child)
    return Process(child.pid, _start_time(child.pid) or "exited")


def alive(process: Process) -> bool:
    """Whether this very process still runs."""
    for child in [child for child in _children if child.poll() is not None]:
        _children.remove(child)
    return _start_time(process.pid) == process.started


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the process if it is still the one we know."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def stop(processes: Iterable[Process], *, grace: float) -> None:
    """Ask the processes to end, and kill those that still run after `grace` seconds. Returns when none runs."""
    running = [process for process in processes if alive(process)]
    for process in running:
        kill(process, signal.SIGTERM)
    if not wait_until(lambda: not any(map(alive, running)), seconds=grace):
        for process in running:
            kill(process)
        wait_until(lambda: not any(map(alive, running)), seconds=10)


def below(directory: Path) -> list[Process]:
    """Processes of programs and scripts that were started from somewhere in a folder, and what these have started, as
    far as the system shows them."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with contextlib.suppress(OSError):
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            # The interpreter of a script comes first, then the script.
            words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
            if any(Path(os.fsdecode(word)).is_relative_to(directory) for word in words):
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    running: list[Process] = []
    for pid in sorted(found):
        with contextlib.suppress(ProcessLookupError):
            running.append(identify(pid))
    return running


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float = 0.05) -> bool:
    """Poll until the condition holds; False when it did not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def _start_time(pid: int) -> str | None:
    """The start time of a process, or None when there is none or only its exit status is left."""
    if sys.platform == "linux":
        try:
            # The name in parentheses may hold spaces and parentheses itself; the fields are counted from its end.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            # The first thread may have ended before the others, which then still hold files and ports.
            threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            return None
        return None if fields[0] in "ZX" and threads <= 1 else fields[19]
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return started.strip() or None if state and not state.startswith("Z") else None
