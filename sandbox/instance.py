"""The folder of one instance: what lies where in it, and the record of what runs.

The record is written before anything else may go wrong, so that whoever finds the folder later can stop exactly what
was started.
"""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError
from sandbox.processes import Process


@dataclass(frozen=True)
class RunningPart:
    """One process of an instance, with all that is needed to start it again."""

    name: str
    """Name of the part, such as `kueue`."""
    argv: tuple[str, ...]
    """Program and arguments."""
    env: dict[str, str]
    """What is added to the environment."""
    health: str
    """URL on loopback that answers 200 when the part is ready."""
    process: Process
    """The process, or the last one when it has ended."""


@dataclass(frozen=True)
class Record:
    """What `instance.json` holds."""

    parts: tuple[RunningPart, ...] = ()
    """Everything started, in the order of the start."""
    complete: bool = False
    """Whether the start went through."""
    owner: Process | None = None
    """The process that the instance was started for, and should not outlive; None: it runs until it is stopped."""

    def with_part(self, part: RunningPart) -> "Record":
        """The record with one part added, or exchanged for the one of the same name."""
        parts = {known.name: known for known in self.parts} | {part.name: part}
        return replace(self, parts=tuple(parts.values()))


@dataclass(frozen=True)
class Instance:
    """The folder of one instance."""

    directory: Path
    """Absolute path; everything the instance writes is below it."""
    pki: Path = field(init=False)
    """Certificates and keys."""
    logs: Path = field(init=False)
    """One log per part."""
    config: Path = field(init=False)
    """Configuration files of the parts."""
    bin: Path = field(init=False)
    """Links to the programs a Pulumi run needs on PATH."""
    kubeconfig: Path = field(init=False)
    """Kubeconfig of the cluster's administrator, mode 0600."""
    audit_log: Path = field(init=False)
    """One JSON line per request that reached the API server from anyone but the sandbox's own parts."""

    def __post_init__(self) -> None:
        """Derive every path from the folder."""
        for name in ("pki", "logs", "config", "bin", "kubeconfig"):
            object.__setattr__(self, name, self.directory / name)
        object.__setattr__(self, "audit_log", self.logs / "audit.jsonl")

    def log(self, part: str) -> Path:
        """Log of one part."""
        return self.logs / f"{part}.log"

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Keep out everybody else who starts or stops this instance, for the duration of the block."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / "lock").open("w")
        except OSError as error:
            raise SandboxError(f"{self.directory} cannot be used for a sandbox: {error.strerror}") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> Record | None:
        """The record, or None when nothing was ever started here."""
        try:
            raw: dict[str, Any] = json.loads((self.directory / "instance.json").read_text())
        except FileNotFoundError:
            return None
        parts = tuple(
            RunningPart(
                name=part["name"],
                argv=tuple(part["argv"]),
                env=part["env"],
                health=part["health"],
                process=Process(**part["process"]),
            )
            for part in raw["parts"]
        )
        owner = Process(**raw["owner"]) if raw["owner"] else None
        return Record(parts, raw["complete"], owner)

    def write(self, record: Record) -> None:
        """Replace the record in one step."""
        fresh = self.directory / "instance.json.new"
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(asdict(record), indent=1))
        fresh.rename(self.directory / "instance.json")

    def clear(self) -> None:
        """Remove what an earlier run left. Raises SandboxError when the folder holds anything else."""
        known = {
            "pki",
            "logs",
            "config",
            "bin",
            "kubeconfig",
            "etcd",
            "pulumi",
            "instance.json",
            "instance.json.new",
            "lock",
        }
        found = {path.name for path in self.directory.iterdir()}
        if found - known:
            foreign = ", ".join(sorted(found - known))
            raise SandboxError(f"{self.directory} holds {foreign}, which no sandbox wrote: give an empty or new folder")
        for name in found - {"lock"}:
            path = self.directory / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for folder in (self.pki, self.logs, self.config, self.bin):
            folder.mkdir(mode=0o700)
