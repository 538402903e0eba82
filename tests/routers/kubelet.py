"""The part of a kubelet that the sandbox leaves out: a process behind every Pod, ended as its Pod says.

Watches one namespace. A Pod of an engine gets a simulated one at its address and port, and where router Pods are run
too, in their networks as well. An engine Pod that is being deleted has its own preStop hook run, in a network namespace
of its own so that the hook's 127.0.0.1 is that Pod's; then its engine is ended as SIGTERM would, at the end of the
grace period at the latest, and the Pod exits.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import POD, Cluster, Expired
from sandbox.processes import wait_until
from tests.routers.engines import Engine
from tests.routers.network import Network
from tests.routers.router_pod import RouterPod

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
        self.routers: Callable[[Json], RouterPod] | None = None
        """Starts what a router Pod runs; None leaves router Pods alone."""
        self.router_pods: dict[str, RouterPod] = {}
        """Every router Pod that ever ran, by name."""
        self.missing_image = ""
        """An image that cannot be pulled, so that a router Pod of it never starts."""
        self.hurry = False
        """Whether Pods exit at once from now on, without being drained."""
        self.drains: dict[str, float] = {}
        """Seconds that each ended hook took, by Pod name."""
        self.failures: list[BaseException] = []
        """What went wrong in here; tests look at the end."""
        self._cluster, self._namespace, self._network, self._model = cluster, namespace, network, model
        self._stop = threading.Event()
        self._seen: set[str] = set()
        self._ending: set[str] = set()
        self._reaching = threading.Lock()
        self._graces: dict[str, SimpleQueue[float]] = {}
        self._places: dict[str, tuple[str, str, list[int]]] = {}
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Kubelet":
        self._start(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.hurry = True
        for grace in self._graces.values():
            grace.put(0)
        for thread in self._threads:
            thread.join(15)
        for engine in self.engines.values():
            engine.end()
        for pod in self._cluster.list(POD, self._namespace).items:
            self._exit(pod)
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
        router = keys.ROUTER in pod["metadata"].get("labels", {})
        if not pod.get("status", {}).get("podIP") or (self.routers is None if router else not engine_of(pod)):
            return
        deleted = "deletionTimestamp" in pod["metadata"]
        if not deleted and name not in self._seen:
            self._seen.add(name)
            self._graces[name] = SimpleQueue()
            self._start(self._run_router if router else self._run_engine, pod)
        if deleted and name in self._seen and name not in self._ending:
            self._ending.add(name)
            if router:
                self._graces[name].put(pod["metadata"].get("deletionGracePeriodSeconds", 30))
            else:
                self._start(self._end, pod)
        for running in list(self.router_pods.values()):
            running.look()

    def _run_engine(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        engine = Engine(name, engine=engine_of(pod) or "vLLM", model=self._model)
        with self._reaching:
            self._places[name] = (_instance(pod), pod["status"]["podIP"], _ports(pod))
            for network in (self._network, *self._networks_of(_instance(pod))):
                self._reach(engine, network)
            self.engines[name] = engine
        self._ready(pod)

    def _run_router(self, pod: Json) -> None:
        """The life of a router Pod, in one thread: its programs end with the thread that started them."""
        assert self.routers is not None
        if any(container["image"] == self.missing_image for container in pod["spec"]["containers"]):
            self._graces[pod["metadata"]["name"]].get()
            self._exit(pod)
            return
        router = self.routers(pod)
        with self._reaching:
            self.router_pods[pod["metadata"]["name"]] = router
            for engine in self.engines.values():
                if self._places[engine.name][0] == router.instance and not engine.ended:
                    self._reach(engine, router.network)
        router.start()
        self._ready(pod)
        router.end(self._graces[pod["metadata"]["name"]].get(), lambda: self.hurry)
        self._exit(pod)

    def _networks_of(self, instance: str) -> list[Network]:
        running = [router for router in self.router_pods.values() if not router.ended]
        return [router.network for router in running if router.instance == instance]

    def _reach(self, engine: Engine, network: Network) -> None:
        _, address, ports = self._places[engine.name]
        for port in ports:
            engine.serve(network.listen(address, port))

    def _ready(self, pod: Json) -> None:
        annotations = pod["metadata"].get("annotations", {})
        if annotations.get(READY_AFTER) == "never" and LOADING not in annotations:
            self._annotate(pod, {"op": "replace", "path": _path(READY_AFTER), "value": "0"})

    def _end(self, pod: Json) -> None:
        assert wait_until(lambda: pod["metadata"]["name"] in self.engines, seconds=20)
        engine = self.engines[pod["metadata"]["name"]]
        started = time.monotonic()
        hook = _main(pod).get("lifecycle", {}).get("preStop")
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        if hook and grace and not self.hurry:
            own = Network()
            engine.serve(own.listen("127.0.0.1", _ports(pod)[0]))
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(own.command(hook["exec"]["command"]), env={"PATH": path}, timeout=grace, check=True)
            own.close()
            self.drains[pod["metadata"]["name"]] = time.monotonic() - started
        engine.end()
        self._exit(pod)

    def _exit(self, pod: Json) -> None:
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


def _instance(pod: Json) -> str:
    return str(pod["metadata"]["labels"][keys.APP_INSTANCE])


def _path(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"


def _ports(pod: Json) -> list[int]:
    """Ports of `main`, its engine's own first, and of the routing sidecar before it, which is not to be had: what
    comes in there reaches the engine unchanged."""
    sidecars = [one for one in pod["spec"].get("initContainers", []) if one.get("restartPolicy") == "Always"]
    return [port["containerPort"] for one in (_main(pod), *sidecars) for port in one.get("ports", [])]


def _main(pod: Json) -> Json:
    return next(one for one in pod["spec"]["containers"] if one["name"] == "main")
