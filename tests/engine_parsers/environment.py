"""A virtual environment per engine, outside the checkout: 9 GB of packages that only their parsers are needed of."""

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROBES = Path(__file__).parent / "probes"
GIB = 1 << 30


class Unavailable(Exception):  # noqa: N818
    """The packages cannot be had here; the message says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """The packages of one data file."""

    name: str
    """`vllm`, `sglang` or `routers`: the probe and the data file."""
    requirements: tuple[str, ...]
    """What is installed, each pinned."""
    gib: int
    """Free disk space it takes, with pip's temporary files."""

    @property
    def folder(self) -> Path:
        """Where it is installed: a name with the pins, so that a new pin is a new environment."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        pins = "-".join(requirement.partition("==")[2] for requirement in self.requirements)
        return cache / "gpustack-components" / "engine-parsers" / f"{self.name}-{pins}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def install(self) -> None:
        """Install the packages unless they are there, at the lowest priority; raises `Unavailable`."""
        done = self.folder / "installed"
        if done.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free / GIB
        if free < self.gib:
            raise Unavailable(
                f"{self.folder} has {free:.0f} GiB free and {self.name} takes {self.gib}; set XDG_CACHE_HOME elsewhere"
            )
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        venv.create(self.folder, with_pip=True)
        pip = [self.python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile", *self.requirements]
        ran = subprocess.run(_idle(pip), env={**os.environ, "TMPDIR": str(temporary)}, check=False)
        shutil.rmtree(temporary)
        if ran.returncode:
            raise Unavailable(f"pip could not install {' '.join(self.requirements)}; its message is above")
        done.touch()

    def ask(self, question: Any) -> Any:
        """The probe's answer; raises `Unavailable` when the packages do not load here."""
        probe = [self.python, PROBES / f"ask_{self.name}.py"]
        ran = subprocess.run(_idle(probe), input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            raise Unavailable(f"the parser of {' '.join(self.requirements)} does not load; its message is above")
        return json.loads(ran.stdout)

    def remove(self) -> None:
        """Delete the environment."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _idle(command: list[Any]) -> list[str]:
    polite = ["nice", "-n", "19"]
    if shutil.which("ionice"):
        polite += ["ionice", "-c", "3"]
    return [*polite, *map(str, command)] if sys.platform != "win32" else [*map(str, command)]


ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("routers", ("vllm-router==0.1.17", "sglang-router==0.3.2"), 1),
        Environment("vllm", ("vllm==0.33.0",), 15),
        Environment("sglang", ("sglang==0.5.23",), 15),
    )
}
