"""`make demo`: deploy the quickstart example with the real engine, show what came of it, and say how to go on."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox import toolchain
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.progress import Progress

EXAMPLE = Path(__file__).parent.parent / "examples" / "quickstart"
"""The program that is deployed."""
STACK = "demo"
"""Its stack; the state is kept in the sandbox's folder, not in the example."""
DESTROY_CURRENT = f"{os.path.relpath(sys.executable)} -m sandbox demo --cluster current --destroy"
"""The command that removes what a demo put into the cluster of KUBECONFIG."""
_SHOWN = "pods,workloads.kueue.x-k8s.io,services"


def in_sandbox(sandbox: Sandbox) -> dict[str, str]:
    """The environment for a demo in a sandbox."""
    home = sandbox.directory / "pulumi"
    provider = toolchain.install_provider(sandbox.directory / "bin", home)
    return {**os.environ, **sandbox.environment(home), **provider}


def current_cluster(directory: Path, progress: Progress) -> dict[str, str]:
    """The environment for a demo in the cluster of KUBECONFIG; tools and state go to `directory`.

    Raises SandboxError when the cluster does not answer or has no Kueue.
    """
    if not os.environ.get("KUBECONFIG"):
        raise SandboxError("the current cluster is that of KUBECONFIG, which is not set: export KUBECONFIG=FILE")
    _find_kubectl()
    probe = ["kubectl", "get", "crd", "workloads.kueue.x-k8s.io", "--request-timeout=15s", "--output=name"]
    shown = subprocess.run(probe, capture_output=True, text=True, check=False)
    if shown.returncode:
        reason = shown.stderr.strip().splitlines()[-1]
        raise SandboxError(
            f"the cluster of KUBECONFIG={os.environ['KUBECONFIG']} cannot be used: {reason}\n"
            "It has to answer, and to run Kueue: https://kueue.sigs.k8s.io/docs/installation/"
        )
    tools, home = directory / "bin", directory / "pulumi"
    shutil.rmtree(tools, ignore_errors=True)
    for folder in (tools, home):
        folder.mkdir(parents=True, exist_ok=True)
    toolchain.link_commands(toolchain.find_engine(progress=progress), tools)
    path = os.pathsep.join([*toolchain.search_path(tools), os.environ.get("PATH", os.defpath)])
    provider = toolchain.install_provider(tools, home)
    return {**os.environ, **toolchain.pulumi_environment(home), **provider, "PATH": path}


def deploy(environment: Mapping[str, str], cluster: str) -> int:
    """Run `pulumi up` on the example and show the result; returns Pulumi's exit code. Raises SandboxError."""
    _find_kubectl()
    code = _pulumi(environment, "up", "--yes")
    if code:
        return code
    print(flush=True)
    subprocess.run(["kubectl", "get", _SHOWN, "--all-namespaces"], env=environment, check=False)
    again = "make demo" if cluster == "sandbox" else "make demo CLUSTER=current"
    python = os.path.relpath(sys.executable)
    look = "kubectl get pods --all-namespaces --watch"
    if cluster == "sandbox":
        look = f'eval "$({python} -m sandbox env)"; {look}'
    stop = "make clean" if cluster == "sandbox" else DESTROY_CURRENT
    print(f"\nLook:    {look}\nChange:  edit {os.path.relpath(EXAMPLE)}/__main__.py, then: {again}\nStop:    {stop}")
    return 0


def destroy(environment: Mapping[str, str]) -> int:
    """Run `pulumi destroy` on the example; returns Pulumi's exit code. Raises SandboxError."""
    return _pulumi(environment, "destroy", "--yes")


def _pulumi(environment: Mapping[str, str], *command: str) -> int:
    if not (EXAMPLE / "Pulumi.yaml").is_file():
        raise SandboxError(f"{EXAMPLE} holds no Pulumi program")
    select = ["pulumi", "stack", "select", "--create", STACK]
    done = subprocess.run(select, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SandboxError(f"`{' '.join(select)}` failed: {done.stderr.strip()}")
    return subprocess.run(["pulumi", *command, "--stack", STACK], cwd=EXAMPLE, env=environment, check=False).returncode


def _find_kubectl() -> None:
    if not shutil.which("kubectl"):
        raise SandboxError("kubectl was not found on PATH: https://kubernetes.io/docs/tasks/tools/")
