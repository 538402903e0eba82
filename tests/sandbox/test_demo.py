"""`python -m sandbox demo`, as `make demo` runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox

ROOT = Path(__file__).parents[2]


def demo(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the demo command to its end."""
    argv = [sys.executable, "-m", "sandbox", "demo", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.engine
def test_the_demo_deploys_and_says_how_to_go_on(private_sandbox: Sandbox) -> None:
    done = demo(dict(os.environ), "--dir", str(private_sandbox.directory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout
    for shown in ("pod/", "workload.kueue.x-k8s.io/", "service/", "Look:", "Change:", "Stop:"):
        assert shown in done.stdout
    again = demo(dict(os.environ), "--dir", str(private_sandbox.directory))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "unchanged" in again.stdout
    gone = demo(dict(os.environ), "--dir", str(private_sandbox.directory), "--destroy")
    assert gone.returncode == 0, gone.stdout + gone.stderr


def test_the_current_cluster_has_to_be_named() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    refused = demo(environment, "--cluster", "current")
    assert refused.returncode == 1
    assert "KUBECONFIG, which is not set" in refused.stderr


def test_a_current_cluster_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        '{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],'
        '"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}]}'
    )
    refused = demo({**os.environ, "KUBECONFIG": str(kubeconfig)}, "--cluster", "current")
    assert refused.returncode == 1
    assert "cannot be used" in refused.stderr
    assert "kueue.sigs.k8s.io" in refused.stderr
