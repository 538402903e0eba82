"""Which process a driver is, told so precisely that its death can be proved on the same machine."""

import getpass
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Holder:
    """One driver of one deployment."""

    words: str
    """Who it is, for people: `ada (pulumi stack acme/llm/prod) on build-7, process 4711`."""
    token: str
    """Unique to this acquisition."""
    machine: str = ""
    """This boot of this machine and process namespace; empty when it cannot be told."""
    pid: int = 0
    started: str = ""
    """When the process started, as the kernel counts; empty when it cannot be told."""

    @classmethod
    def here(cls, description: str) -> Self:
        """This process, acting as `description`."""
        pid, host = os.getpid(), socket.gethostname()
        who = description or _user()
        return cls(f"{who} on {host}, process {pid}", uuid.uuid4().hex, _machine(), pid, _started(pid) or "")

    def provably_dead(self) -> bool:
        """True only when it ran in this boot of this machine and its process is gone; False when in doubt."""
        if not self.machine or self.machine != _machine() or self.pid <= 0:
            return False
        started = _started(self.pid)
        return started is None or (started != "" and self.started != "" and started != self.started)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def _machine() -> str:
    try:
        return f"{_BOOT.read_text().strip()}/{_PID_NAMESPACE.readlink()}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode():x}"


def _started(pid: int) -> str | None:
    """When that process started; None when there is no such process, empty when the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return ""
    else:
        return None if fields[0] in ("Z", "X") else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""
