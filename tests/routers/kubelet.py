"""The part of a kubelet that the sandbox leaves out: an engine process behind every engine Pod, drained as rendered.

Watches one namespace. A Pod with an address gets a simulated engine at that address and port. A Pod that is being
deleted has its own preStop hook run, in a network namespace of its own so that the hook's 127.0.0.1 is that Pod's;
then its engine is ended as SIGTERM would, at the end of the grace period at the latest, and the Pod exits.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from gpustack_components.cluster.port import POD, Cluster, Expired
from tests.routers.engines import Engine
from tests.routers.network import Network

Json = dict[str, Any]
HANG = "sandbox.gpustack.ai/hang"
"""Annotation on the Pods (or their namespace) that leaves their exit to us."""
READY_AFTER = "sandbox.gpustack.ai/ready-after"
"""Annotation that, as `never`, leaves it to us when they are Ready: once their engine answers."""
LOADING = "tests.gpustack.ai/loading"
"""Annotation of a Pod whose engine answers and never becomes Ready."""
ENGINE = "tests.gpustack.ai/engine"
"""Annotation that turns a Pod into an engine's: `vLLM` or `SGLang`; absent, read off the image of `main`."""


class Kubelet:
    """Runs the engines of one namespace between `with` and its end."""

    def __init__(self, cluster: Cluster, namespace: str, network: Network, *, model: str) -> None:
        self.engines: dict[str, Engine] = {}
        """Every engine that ever ran, by Pod name."""
        self.drains: dict[str, float] = {}
        """Seconds that each ended hook took, by Pod name."""
        self.failures: list[BaseException] = []
        """What went wrong in here; tests look at the end."""
        self._cluster, self._namespace, self._network, self._model = cluster, namespace, network, model
        self._stop = threading.Event()
        self._ending: set[str] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Kubelet":
        self._start(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)
        for engine in self.engines.values():
            engine.end()
        assert not self.failures, self.failures

    def _start(self, task: Any, *arguments: Any) -> None:
        def run() -> None:
            try:
                task(*arguments)
            except BaseException as failure:
                self.failures.append(failure)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        while not self._stop.is_set():
            listing = self._cluster.list(POD, self._namespace)
            for pod in listing.items:
                self._see(pod)
            with contextlib.suppress(Expired):
                for event in self._cluster.watch(
                    POD, self._namespace, resource_version=listing.resource_version, stop=self._stop
                ):
                    if event.type in ("ADDED", "MODIFIED"):
                        self._see(event.object)

    def _see(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        address = pod.get("status", {}).get("podIP")
        kind = engine_of(pod)
        if not kind or not address:
            return
        if name not in self.engines and "deletionTimestamp" not in pod["metadata"]:
            engine = Engine(name, engine=kind, model=self._model)
            for port in _ports(pod):
                engine.serve(self._network.listen(address, port))
            self.engines[name] = engine
            annotations = pod["metadata"].get("annotations", {})
            if annotations.get(READY_AFTER) == "never" and LOADING not in annotations:
                self._annotate(pod, {"op": "replace", "path": _path(READY_AFTER), "value": "0"})
        if "deletionTimestamp" in pod["metadata"] and name in self.engines and name not in self._ending:
            self._ending.add(name)
            self._start(self._end, pod, self.engines[name])

    def _end(self, pod: Json, engine: Engine) -> None:
        started = time.monotonic()
        hook = _main(pod).get("lifecycle", {}).get("preStop")
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        if hook and grace:
            own = Network()
            engine.serve(own.listen("127.0.0.1", _ports(pod)[0]))
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(own.command(hook["exec"]["command"]), env={"PATH": path}, timeout=grace, check=True)
            own.close()
            self.drains[pod["metadata"]["name"]] = time.monotonic() - started
        engine.end()
        if HANG in pod["metadata"].get("annotations", {}):
            self._annotate(pod, {"op": "remove", "path": _path(HANG)})

    def _annotate(self, pod: Json, operation: Json) -> None:
        self._cluster.patch(POD, self._namespace, pod["metadata"]["name"], [operation])


def engine_of(pod: Json) -> str | None:
    """Which engine a Pod runs; None for a Pod without a `main` container, such as a router's."""
    annotated = pod["metadata"].get("annotations", {}).get(ENGINE)
    if annotated:
        return str(annotated)
    main = next((one for one in pod["spec"]["containers"] if one["name"] == "main"), None)
    if main is None:
        return None
    return "SGLang" if "sglang" in main["image"].lower() else "vLLM"


def _path(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"


def _ports(pod: Json) -> list[int]:
    """Ports of `main`, its engine's own first, and of the routing sidecar before it, which is not to be had: what
    comes in there reaches the engine unchanged."""
    sidecars = [one for one in pod["spec"].get("initContainers", []) if one.get("restartPolicy") == "Always"]
    return [port["containerPort"] for one in (_main(pod), *sidecars) for port in one.get("ports", [])]


def _main(pod: Json) -> Json:
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main")
