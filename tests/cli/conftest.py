"""Runs the command line through its real argument parser, in this process or as the installed script."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpustack_components.cli.main import app

SCRIPT = Path(sys.executable).with_name("gpustack-components")


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Cli:
    """The command line as a test uses it."""

    script = SCRIPT
    """The installed script."""

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Ran:
        result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="gpustack-components")
        return Ran(result.exit_code, result.stdout, result.stderr)

    def process(
        self, *arguments: str, stdin: bytes | None = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        """The installed script in a process of its own."""
        done = subprocess.run(
            [SCRIPT, *arguments],
            input=stdin,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            capture_output=True,
            check=False,
            timeout=120,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def cli() -> Cli:
    return Cli()


MINIMAL = """\
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata:
  name: qwen
  namespace: team-a
spec:
  model:
    name: Qwen/Qwen3-8B
  engine:
    name: vLLM
    image: vllm/vllm-openai:v0.25.1
  roles:
    - name: server
      replicas: 3
      instanceType: h20-8x
      resources:
        accelerator: 2
      extraArgs:
        - --tensor-parallel-size=2
"""

H20 = """\
apiVersion: worker.gpustack.ai/v1
kind: InstanceType
metadata:
  name: h20-8x
spec:
  acceleratable: true
  acceleratorGroup: nvidia-h20
  os: linux
  arch: amd64
  unitResources:
    cpu: "16"
    ram: 64Gi
  localStorage: 512Gi
status:
  accelerator:
    capacity: "16"
  detail:
    manufacturer: nvidia
    memory: 98304Mi
"""


@pytest.fixture
def minimal_text() -> str:
    """The smallest deployment, as text."""
    return MINIMAL


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    """The smallest deployment, in a file."""
    path = tmp_path / "qwen.yaml"
    path.write_text(MINIMAL)
    return path


@pytest.fixture
def h20_text() -> str:
    """The InstanceType the smallest deployment names, as text."""
    return H20


@pytest.fixture
def h20(tmp_path: Path) -> Path:
    """The InstanceType the smallest deployment names, in a file."""
    path = tmp_path / "h20.yaml"
    path.write_text(H20)
    return path
