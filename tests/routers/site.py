"""A namespace of the sandbox in which engine Pods answer at their addresses, and rendered routers run among them."""

import contextlib
import copy
import http.client
import os
import subprocess
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
from tests.routers.calls import Caller
from tests.routers.engines import Engine
from tests.routers.kubelet import ENGINE, HANG, READY_AFTER, Kubelet
from tests.routers.network import Network
from tests.routers.programs import Programs
from tests.routers.router_pod import RouterPod

Json = dict[str, Any]
MODEL = "Qwen/Qwen2.5-72B-Instruct"
"""Model of the deployments that are built here."""
NODE = "cpu-0"


@dataclass
class Site(Caller):
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
    model: str
    """Model of its deployments."""
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

    def service_account(self, name: str, folder: Path | None = None) -> Path:
        """A kubeconfig that is nobody but the ServiceAccount; in a Pod the same token is mounted instead."""
        path = (folder or self.folder) / f"{name}.kubeconfig"
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

    def router_pod(self, programs: Programs, pod: Json) -> RouterPod:
        """A router Pod with its programs and its own network, started."""
        network = Network()
        network.forward(_api_port(self.kubeconfig))
        folder = self.folder / pod["metadata"]["name"]
        folder.mkdir()
        account = self.service_account(pod["spec"]["serviceAccountName"], folder)
        return RouterPod(self.cluster, pod, network, programs, folder, account)

    def network_at(self, address: str) -> Network:
        """Where that address is a Pod's: the network of a router Pod, or the one of the engines."""
        routers = [one for one in self.kubelet.router_pods.values() if one.address == address and not one.closed]
        return routers[-1].network if routers else self.network

    def listens(self, port: int) -> bool:
        """Whether anything accepts connections to the port at 127.0.0.1 of the network, as a TCP probe asks."""
        return self.network.listens(port)

    def log(self, name: str) -> str:
        """What a program wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def connection(self, seconds: float, port: int) -> http.client.HTTPConnection:
        """To 127.0.0.1 of the network."""
        return self.network.connection("127.0.0.1", port, seconds)


@contextlib.contextmanager
def site(
    kubeconfig: Path, namespace: str, folder: Path, *, model: str = MODEL, programs: Programs | None = None
) -> Iterator[Site]:
    """A site in the namespace; afterwards its programs and engines are ended. With `programs`, its router Pods run
    theirs; otherwise a router runs where a test starts it."""
    network = Network()
    cluster = connect(str(kubeconfig))
    network.forward(_api_port(kubeconfig))
    try:
        with Kubelet(cluster, namespace, network, model=model) as kubelet:
            found = Site(cluster, namespace, network, kubelet, kubeconfig, folder, model)
            if programs is not None:
                kubelet.routers = lambda pod: found.router_pod(programs, pod)
            try:
                yield found
            finally:
                for program in found.programs:
                    program.kill()
                    program.wait(10)
    finally:
        network.close()


def _api_port(kubeconfig: Path) -> int:
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return urlsplit(server).port or 443
