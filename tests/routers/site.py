"""A namespace of the sandbox in which engine Pods answer at their addresses, and rendered routers run among them."""

import contextlib
import copy
import http.client
import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes import client, config

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.api.names import router_name
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.cluster import keys
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import POD, Cluster
from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from sandbox.processes import wait_until
from tests.render import build
from tests.routers.engines import Engine
from tests.routers.kubelet import ENGINE, HANG, READY_AFTER, Kubelet
from tests.routers.network import Network
from tests.routers.programs import Programs

Json = dict[str, Any]
MODEL = "Qwen/Qwen2.5-72B-Instruct"
"""Model of every deployment and engine here."""
NODE = "cpu-0"


@dataclass
class Answer:
    """One answered request."""

    status: int
    """HTTP status."""
    headers: dict[str, str]
    """Response headers, by lower-case name."""
    text: str
    """The body."""
    arrivals: list[float]
    """When each piece of the body came, in seconds after the request was sent."""

    @property
    def by(self) -> str:
        """Name of the engine that wrote the text of the completion."""
        texts = [
            choice.get("text") or choice.get("message", choice.get("delta", {})).get("content") or ""
            for document in self.documents()
            for choice in document["choices"]
        ]
        return "".join(texts)

    @property
    def tokens(self) -> int:
        """Pieces of text in a stream."""
        return len(self.documents())

    @property
    def complete(self) -> bool:
        """Whether a stream came to its own end."""
        return self.text.rstrip().endswith("data: [DONE]")

    def documents(self) -> list[Json]:
        """The JSON documents of the body: one, or one per event of a stream."""
        if "data: " not in self.text:
            return [json.loads(self.text)]
        events = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: ")]
        return [json.loads(event) for event in events if event != "[DONE]"]


@dataclass
class Site:
    """One namespace with its own network."""

    cluster: Cluster
    """The API server, as its administrator."""
    namespace: str
    """Where everything stands."""
    network: Network
    """Where every Pod's address is local, and the API server's is too."""
    kubelet: Kubelet
    """Runs the engines of the namespace's Pods."""
    kubeconfig: Path
    """The administrator's."""
    folder: Path
    """For logs and configuration of the programs."""
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    """Everything started in the network."""

    def resolved(
        self, engine: str, roles: list[Json], router: Json, name: str = "qwen", settings: Json | None = None
    ) -> ResolvedDeployment:
        """A deployment of this namespace with a router."""
        document = build.deployment(engine, roles, name, router=router)
        moved = document.model_dump(by_alias=True, exclude_none=True)
        moved["metadata"]["namespace"] = self.namespace
        return build.resolved(ModelDeployment.model_validate(moved), settings=settings or {})

    def start(self, resolved: ResolvedDeployment, role: str, ordinal: int = 0) -> Engine:
        """Create the leader Pod of a replica as rendered, less its queue, and wait until its engine answers."""
        pod = self.create(copy.deepcopy(render_replica(resolved, role, ordinal).members[0]), resolved.engine)
        return self.engine(pod)

    def create(self, pod: Json, engine: str = "vLLM") -> str:
        """Create a Pod that needs no devices and leaves readiness and exit to our kubelet; returns its name."""
        spec = pod["spec"]
        spec["nodeName"] = NODE
        for key in ("nodeSelector", "affinity", "runtimeClassName", "resourceClaims", "volumes"):
            spec.pop(key, None)
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            container.pop("resources", None)
            container.pop("volumeMounts", None)
        pod["metadata"]["labels"].pop(keys.QUEUE_NAME, None)
        pod["metadata"].setdefault("annotations", {}).update({HANG: "true", READY_AFTER: "never", ENGINE: engine})
        return str(self.cluster.create(pod)["metadata"]["name"])

    def engine(self, pod: str) -> Engine:
        """The engine of a Pod, once it runs."""
        assert wait_until(lambda: pod in self.kubelet.engines, seconds=20), f"Pod {pod} got no engine"
        return self.kubelet.engines[pod]

    def pod(self, engine: Engine) -> Json:
        """The Pod of an engine as it stands."""
        pod = self.cluster.get(POD, self.namespace, engine.name)
        assert pod, f"Pod {engine.name} is gone"
        return pod

    def label(self, engine: Engine, key: str, value: str | None) -> None:
        """Set a label of an engine's Pod, or take it away."""
        path = f"/metadata/labels/{key.replace('/', '~1')}"
        operation = {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
        self.cluster.patch(POD, self.namespace, engine.name, [operation])

    def delete(self, engine: Engine) -> None:
        """Ask for the deletion of an engine's Pod."""
        self.cluster.delete(POD, self.namespace, engine.name)

    def gone(self, engine: Engine) -> bool:
        """Whether the Pod has left the cluster."""
        return self.cluster.get(POD, self.namespace, engine.name) is None

    def wait_gone(self, *engines: Engine) -> None:
        """Wait until the Pods have left the cluster."""
        assert wait_until(lambda: all(map(self.gone, engines)), seconds=28), "a Pod outlived its drain"

    def apply(self, resolved: ResolvedDeployment) -> list[Json]:
        """Create the router's objects as rendered; returns its containers as the API server stored them."""
        containers: list[Json] = []
        for rendered in router_objects(resolved):
            stored = self.cluster.create(rendered)
            if stored["kind"] == "Deployment":
                containers = stored["spec"]["template"]["spec"]["containers"]
        return containers

    def start_router(self, programs: Programs, resolved: ResolvedDeployment) -> subprocess.Popen[bytes]:
        """Apply and run an argv router with exactly the rendered command line, as its own ServiceAccount."""
        (container,) = self.apply(resolved)
        account = self.service_account(router_name(resolved.name))
        argv = programs.command([*container["command"], *container["args"]])
        return self.run(argv, log="router", env={"KUBECONFIG": str(account)})

    def service_account(self, name: str) -> Path:
        """A kubeconfig that is nobody but the ServiceAccount; in a Pod the same token is mounted instead."""
        path = self.folder / f"{name}.kubeconfig"
        with config.new_client_from_config(str(self.kubeconfig)) as connection:
            token = client.CoreV1Api(connection).create_namespaced_service_account_token(
                name, self.namespace, {"spec": {"expirationSeconds": 3600}}
            )
        admin: Json = yaml.safe_load(self.kubeconfig.read_text())
        admin["users"] = [{"name": admin["users"][0]["name"], "user": {"token": token.status.token}}]
        path.write_text(yaml.safe_dump(admin))
        return path

    def run(self, argv: list[str], *, log: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a program inside the network; its output goes to `<log>.log`."""
        with (self.folder / f"{log}.log").open("ab") as output:
            program = subprocess.Popen(
                self.network.command(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {})},
                cwd=self.folder,
            )
        self.programs.append(program)
        return program

    def listens(self, port: int) -> bool:
        """Whether anything accepts connections to the port at 127.0.0.1 of the network, as a TCP probe asks."""
        try:
            with self.network.tcp() as probe:
                probe.connect(("127.0.0.1", port))
        except OSError:
            return False
        return True

    def log(self, name: str) -> str:
        """What a program wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def get(self, path: str, *, port: int = 8081) -> Answer:
        """GET from 127.0.0.1 of the network."""
        return self._call("GET", path, port, None, {}, 10)

    def complete(
        self,
        *,
        path: str = "/v1/completions",
        text: str = "",
        tokens: int = 1,
        port: int = 8081,
        headers: dict[str, str] | None = None,
        seconds: float = 60,
        **fields: Any,
    ) -> Answer:
        """Ask for a completion at 127.0.0.1 of the network, and read it to the end or until it breaks off."""
        prompt: Json = {"prompt": text or f"{uuid.uuid4()} what now?"}
        if path.endswith("chat/completions"):
            prompt = {"messages": [{"role": "user", "content": prompt["prompt"]}]}
        body = {"model": MODEL, **prompt, "max_tokens": tokens, **fields}
        return self._call("POST", path, port, body, headers or {}, seconds)

    def _call(
        self, method: str, path: str, port: int, body: Json | None, headers: dict[str, str], seconds: float
    ) -> Answer:
        connection = self.network.connection("127.0.0.1", port, seconds)
        started = time.monotonic()
        content = None if body is None else json.dumps(body)
        with contextlib.closing(connection):
            connection.request(method, path, content, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            pieces: list[bytes] = []
            arrivals: list[float] = []
            with contextlib.suppress(OSError, http.client.HTTPException):
                while piece := response.read1():
                    pieces.append(piece)
                    arrivals.append(time.monotonic() - started)
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, b"".join(pieces).decode(), arrivals)

    def answers(self, port: int = 8081, **options: Any) -> Answer | None:
        """A completion, or None while there is nobody who gives one."""
        try:
            answer = self.complete(port=port, **options)
        except OSError:
            return None
        return answer if answer.status == 200 else None

    def reached(self, times: int = 12, **options: Any) -> set[str]:
        """Names of the engines that answer one-token completions, asked so often."""
        return {answer.by for answer in (self.answers(**options) for _ in range(times)) if answer}


@contextlib.contextmanager
def site(kubeconfig: Path, namespace: str, folder: Path) -> Iterator[Site]:
    """A site in the namespace; afterwards its programs and engines are ended."""
    network = Network()
    cluster = connect(str(kubeconfig))
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    network.forward(urlsplit(server).port or 443)
    try:
        with Kubelet(cluster, namespace, network, model=MODEL) as kubelet:
            found = Site(cluster, namespace, network, kubelet, kubeconfig, folder)
            try:
                yield found
            finally:
                for program in found.programs:
                    program.kill()
                    program.wait(10)
    finally:
        network.close()


class InFlight:
    """A completion that is read in the background."""

    def __init__(self, site: Site, **options: Any) -> None:
        self.answer: Answer | None = None
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(site, options), daemon=True)
        self._thread.start()

    def _run(self, site: Site, options: Json) -> None:
        try:
            self.answer = site.complete(**options)
        except Exception as failure:
            self.failure = failure

    def result(self, seconds: float) -> Answer:
        """The answer, once it is there."""
        self._thread.join(seconds)
        assert self.failure is None, self.failure
        assert self.answer, f"no answer within {seconds} s"
        return self.answer


class Load:
    """Clients that ask for completions, one after the other, between `with` and its end."""

    def __init__(self, site: Site, clients: int, **options: Any) -> None:
        self.answers: list[Answer] = []
        """Everything answered."""
        self.failures: list[Exception] = []
        """Requests that got no answer at all."""
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(site, number % 2 == 0, options), daemon=True)
            for number in range(clients)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self, site: Site, stream: bool, options: Json) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(site.complete(stream=stream, **options))
            except Exception as failure:
                self.failures.append(failure)

    @property
    def lost(self) -> list[object]:
        """Requests that were not answered completely."""
        incomplete = [
            answer
            for answer in self.answers
            if answer.status != 200 or ("data: " in answer.text and not answer.complete)
        ]
        return [*incomplete, *self.failures]
