"""A router Pod that answers: the programs of its containers, run as the Pod says, in a network of the Pod's own.

They start with exactly the Pod's command lines, and are ended as a kubelet does: the container's `sleep` first, then
SIGTERM, then SIGKILL when the grace period is over. In the place of the picker a stand-in runs, which is told the
endpoints that the rendered selector finds.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CONFIG_MAP, POD, Cluster
from gpustack_components.cluster.readings import condition, label
from sandbox.processes import wait_until
from tests.routers.network import Network
from tests.routers.programs import Programs

Json = dict[str, Any]
PICKER = Path(__file__).parent / "picker.py"
_GRPC = 9002


class RouterPod:
    """One Pod, from the start of its programs to their end."""

    def __init__(
        self, cluster: Cluster, pod: Json, network: Network, programs: Programs, folder: Path, account: Path
    ) -> None:
        self.network = network
        """The Pod's own network, in which the engines of its deployment answer too."""
        self.instance = str(label(pod, keys.APP_INSTANCE))
        """The deployment it belongs to."""
        self.address = str(pod["status"]["podIP"])
        """Its address."""
        self.arguments: dict[str, list[str]] = {}
        """What each program was started with, by container."""
        self.codes: dict[str, int] = {}
        """How each program ended, by container."""
        self.ended = False
        """Whether its end has begun to be final: programs were told to stop, or killed."""
        self.closed = False
        """Whether its network is gone too."""
        self._cluster, self._pod, self._programs = cluster, pod, programs
        self._folder, self._account = folder, account
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._selector = self._port = ""

    def start(self) -> None:
        """Start every container; returns once the ports that its probes ask accept connections, and no earlier than the
        probes begin."""
        delays = [one["readinessProbe"].get("initialDelaySeconds", 0) for one in self._pod["spec"]["containers"]]
        probed = time.monotonic() + max(delays)
        for container in self._pod["spec"]["containers"]:
            self.arguments[container["name"]] = [*container.get("command", ()), *container.get("args", ())]
            self._running[container["name"]] = self._run(container["name"], self._command(container))
        ports = [8081, *([_GRPC] if "epp" in self._running else [])]
        assert wait_until(lambda: all(map(self.network.listens, ports)), seconds=40), self.log()
        wait_until(lambda: time.monotonic() >= probed, seconds=max(delays))

    def look(self) -> None:
        """Tell the picker's stand-in what its selector finds now: Ready and not being deleted."""
        if not self._selector or self.ended:
            return
        found = self._cluster.list(POD, self._pod["metadata"]["namespace"], self._selector).items
        standing = [pod for pod in found if "deletionTimestamp" not in pod["metadata"] and _is_ready(pod)]
        plan = {"endpoint": self._addresses(standing, "decode"), "prefill": self._addresses(standing, "prefill")}
        fresh = self._folder / "plan.new"
        fresh.write_text(json.dumps(plan))
        fresh.rename(self._folder / "plan.json")

    def end(self, grace: float, hurried: Callable[[], bool] = lambda: False) -> None:
        """End every container side by side, within so many seconds."""
        ends = [
            threading.Thread(target=self._end, args=(one, grace, hurried)) for one in self._pod["spec"]["containers"]
        ]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()
        self.closed = True
        self.network.close()

    def log(self) -> str:
        """What its programs wrote."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.log")))

    def _command(self, container: Json) -> list[str]:
        arguments = self.arguments[container["name"]]
        if container["name"] == "router":
            return self._programs.command(arguments)
        stored = self._cluster.get(CONFIG_MAP, self._pod["metadata"]["namespace"], f"{self.instance}-router")
        assert stored
        if container["name"] == "envoy":
            for name, text in stored["data"].items():
                (self._folder / name).write_text(text)
            return [str(self._programs.envoy), *(arg.replace("/config/", f"{self._folder}/") for arg in arguments)]
        keys_of = {one["name"]: one["valueFrom"].get("configMapKeyRef", {}).get("key") for one in container["env"]}
        self._selector = stored["data"][keys_of["ENDPOINT_SELECTOR"]]
        self._port = stored["data"][keys_of["ENDPOINT_TARGET_PORTS"]]
        self.look()
        return [str(self._programs.python), "-I", str(PICKER), str(self._folder)]

    def _run(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as output:
            return subprocess.Popen(
                self.network.command(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "KUBECONFIG": str(self._account)},
                cwd=self._folder,
            )

    def _end(self, container: Json, grace: float, hurried: Callable[[], bool]) -> None:
        name, deadline = container["name"], time.monotonic() + grace
        program = self._running.get(name)
        if program is None:
            return
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        wait_until(hurried, seconds=min(sleep, grace))
        self.ended = True
        if grace and not hurried():
            program.terminate()
            wait_until(lambda: program.poll() is not None or hurried(), seconds=max(deadline - time.monotonic(), 0))
        program.kill()
        self.codes[name] = program.wait(10)

    def _addresses(self, pods: list[Json], kind: str) -> list[str]:
        return [f"{pod['status']['podIP']}:{self._port}" for pod in pods if label(pod, keys.ROLE_KIND) == kind]


def _is_ready(pod: Json) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.status == "True"
