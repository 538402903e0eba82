"""Build the parts that are missing, once per machine, with progress a person can follow.

Each part is built beside its place in the cache and renamed into it, so what is there is whole. One builder at a
time: a second one waits and then finds everything done.
"""

import contextlib
import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.parts import PARTS, Part, cache_directory
from sandbox.progress import Progress

_NEEDED = "Building the sandbox needs Go 1.21 or newer on PATH (it fetches the exact version by itself): https://go.dev/doc/install"


def built(part: Part) -> Path | None:
    """Folder of the part in the cache, or None while it has to be built."""
    place = cache_directory() / part.key(_go_version(part))
    return place if place.is_dir() else None


def build(parts: Sequence[Part] = PARTS, *, progress: Progress | None = None) -> dict[str, Path]:
    """Build what is missing of the parts; returns the folder of each by name.

    Raises SandboxError that names the part that failed, why, and its log. Parts built before stay.
    """
    places = {part.name: cache_directory() / part.key(_go_version(part)) for part in parts}
    if all(place.is_dir() for place in places.values()):
        return places
    progress = progress or Progress()
    cache_directory().mkdir(parents=True, exist_ok=True)
    with _only_builder(progress):
        for number, part in enumerate(parts, 1):
            if not places[part.name].is_dir():
                _build_one(part, places[part.name], f"[{number}/{len(parts)}] {part.name}", progress)
    return places


@contextlib.contextmanager
def _only_builder(progress: Progress) -> Generator[None]:
    with (cache_directory() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another build is running on this machine; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_one(part: Part, place: Path, title: str, progress: Progress) -> None:
    log = place.with_suffix(".log")
    scratch = Path(tempfile.mkdtemp(prefix=f"{part.name}-building-", dir=place.parent))
    try:
        scratch.chmod(0o755)
        (scratch / "bin").mkdir()
        with log.open("wb") as output, progress.task(title) as task:
            child = subprocess.Popen(
                part.build_command(scratch / "bin" / part.binary),
                cwd=part.source,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
                stdout=output,
                stderr=output,
            )
            try:
                while child.poll() is None:
                    task.update(_doing(log))
                    time.sleep(0.5)
            finally:
                if child.poll() is None:
                    child.terminate()
                    child.wait()
        if child.returncode:
            raise SandboxError(f"{part.name} could not be built: {_reason(log)}\nIts log: {log}")
        for copied in part.copied:
            module = _module_directory(part, copied.module)
            for path in copied.paths:
                _copy(module / path, scratch / copied.into / Path(path).name)
        scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _doing(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    compiled = sum(not line.startswith("go: ") for line in lines)
    if compiled:
        return f"packages compiled: {compiled}"
    return "downloading modules" if lines else "preparing"


def _reason(log: Path) -> str:
    """The lines of a build log that say what went wrong, without the list of packages compiled."""
    lines = [
        line for line in log.read_text(errors="replace").splitlines() if line and not line.startswith("go: downloading")
    ]
    telling = [line for line in lines if re.search(r"[: ]", line)]
    return "\n".join(telling[-8:]) or "go ended without saying why"


@functools.cache
def _go_version(part: Part) -> str:
    """The toolchain that `go` uses for the part, after its go.mod had its say."""
    try:
        shown = subprocess.run(["go", "env", "GOVERSION"], cwd=part.source, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SandboxError(f"go was not found. {_NEEDED}") from None
    if shown.returncode:
        raise SandboxError(f"{part.name}: `go env GOVERSION` failed: {shown.stderr.strip()}. {_NEEDED}")
    return shown.stdout.strip()


def _module_directory(part: Part, module: str) -> Path:
    shown = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=part.source, capture_output=True, text=True, check=False
    )
    if shown.returncode or not shown.stdout.strip():
        raise SandboxError(f"{part.name}: the source of {module} was not found: {shown.stderr.strip()}")
    return Path(shown.stdout.strip())


def _copy(source: Path, target: Path) -> None:
    """Copy out of the module cache, whose files are read-only, into files their owner can remove."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        for file in sorted(source.rglob("*")):
            if file.is_file():
                _copy(file, target / file.relative_to(source))
        return
    shutil.copyfile(source, target)
    target.chmod(0o755 if target.parent.name == "bin" else 0o644)
