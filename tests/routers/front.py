"""Envoy and a stand-in for the picker, run from the rendered ConfigMap of llm-d-router."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from gpustack_components.cluster.port import CONFIG_MAP
from sandbox.processes import wait_until
from tests.render import build
from tests.routers.engines import Engine
from tests.routers.programs import Programs
from tests.routers.site import Site

Json = dict[str, Any]
DESTINATION = "x-gateway-destination-endpoint"
PREFILLER = "x-prefiller-host-port"
_PICKER = Path(__file__).parent / "picker.py"


class Front:
    """The two programs of one router Pod, in the network of a site."""

    def __init__(self, site: Site, programs: Programs, **router: Any) -> None:
        self.site = site
        self.resolved = site.resolved("vLLM", build.pair(), {"name": "llm-d-router", **router})
        """The deployment, a Prefill and a Decode role."""
        self._programs = programs
        self._proxy, _ = site.apply(self.resolved)
        self._config, self._folder = site.folder / "config", site.folder / "picker"
        for folder in (self._config, self._folder):
            folder.mkdir()
        stored = site.cluster.get(CONFIG_MAP, site.namespace, "qwen-router")
        assert stored
        for name, text in stored["data"].items():
            (self._config / name).write_text(text)
        self.plan()
        self.picker = self._start_picker()
        """The picker's process."""
        self.envoy = self._start_envoy()
        """Envoy's process."""

    def plan(self, decoder: Engine | None = None, prefiller: Engine | None = None, **more: Any) -> None:
        """What the picker does from now on; see `picker`."""
        chosen = {"endpoint": decoder and self.endpoint(decoder), "prefill": prefiller and self.endpoint(prefiller)}
        (self._folder / "plan.json").write_text(json.dumps({**chosen, **more}))

    def endpoint(self, engine: Engine) -> str:
        """Address and port of an engine's Pod."""
        return f"{self.site.pod(engine)['status']['podIP']}:8000"

    def seen(self, what: str) -> list[Json]:
        """What the picker saw: `request` or `response`."""
        log = self._folder / "seen.jsonl"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [line for line in lines if what in line]

    def access_log(self) -> list[Json]:
        """Ends Envoy, which writes out the access log; its lines."""
        self.envoy.terminate()
        self.envoy.wait(10)
        return [json.loads(line) for line in self.site.log("envoy").splitlines() if line.startswith("{")]

    def stop_picker(self) -> None:
        """End the picker as SIGTERM does."""
        self.picker.send_signal(signal.SIGTERM)
        self.picker.wait(10)

    def start_picker(self) -> None:
        """Start it again."""
        self.picker = self._start_picker()

    def _start_picker(self) -> subprocess.Popen[bytes]:
        argv = [str(self._programs.python), "-I", str(_PICKER), str(self._folder)]
        program = self.site.run(argv, log="picker")
        assert wait_until(lambda: self.site.listens(9002), seconds=20), self.site.log("picker")
        return program

    def _start_envoy(self) -> subprocess.Popen[bytes]:
        args = [arg.replace("/config/", f"{self._config}/") for arg in self._proxy["args"]]
        program = self.site.run([str(self._programs.envoy), *args], log="envoy")
        assert wait_until(lambda: self.site.listens(8081), seconds=20), self.site.log("envoy")
        return program
