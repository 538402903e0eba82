"""Start, find and stop a cluster: etcd, kube-apiserver, controller-manager, scheduler, Kueue and kwok on loopback.

Everything of one instance lies in one folder and listens on ports of its own, so any number run side by side. A start
is all or nothing: when a part fails, what was started is stopped again, and the error names the part and its log.
"""

import functools
import os
import shutil
import ssl
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from sandbox import components, toolchain
from sandbox.api import Api, Manifest
from sandbox.components import Context, Identity, KueuePorts, Launch
from sandbox.errors import SandboxError
from sandbox.instance import Instance, Record, RunningPart
from sandbox.ports import free_ports
from sandbox.processes import Process, alive, below, kill, spawn, stop, wait_until
from sandbox.progress import Progress, Silent

_PATIENCE = 120.0
"""Seconds that one part gets to become ready; a busy machine needs a few, an idle one under ten for the slowest."""
_BUSY = 20.0
"""Seconds that a running part may take to answer before it counts as broken: the machine may be busy."""
_ATTEMPTS = 4
"""Starts of one part when another process took its port in between."""


class Sandbox:
    """One running instance."""

    def __init__(self, instance: Instance, record: Record) -> None:
        self._instance = instance
        self._record = record
        self._recording = threading.Lock()

    @classmethod
    def start(cls, directory: Path, *, progress: Progress | None = None, owner: Process | None = None) -> "Sandbox":
        """Start an instance in the folder, or take the healthy one that runs there.

        Missing parts of the toolchain are built first. What an earlier run left in the folder, dead or half alive, is
        stopped and removed. `owner` is the process the instance should not outlive (see `sweep`). Raises
        SandboxError.
        """
        progress = progress or Silent()
        instance = Instance(directory.expanduser().absolute())
        with instance.locked():
            record = instance.read()
            if record and record.complete:
                found = cls(instance, record)
                if not found.ailing(patience=_BUSY):
                    return found
            if record:
                stop([part.process for part in record.parts], grace=5)
            tools = toolchain.find(progress=progress)
            instance.clear()
            started = cls(instance, Record(owner=owner))
            try:
                with progress.task("starting the cluster") as task:
                    started._bring_up(tools, task.update)
            except BaseException:
                stop([part.process for part in started._record.parts], grace=2)
                raise
            return started

    @classmethod
    def attach(cls, directory: Path) -> "Sandbox":
        """The instance that runs in the folder. Raises SandboxError when there is none or it is not well."""
        instance = Instance(directory.expanduser().absolute())
        record = instance.read() if instance.directory.is_dir() else None
        if not record or not record.complete:
            raise SandboxError(
                f"no sandbox runs in {instance.directory}: start one with `python -m sandbox up --dir {directory}`"
            )
        found = cls(instance, record)
        ailing = found.ailing(patience=_BUSY)
        if ailing:
            raise SandboxError(
                f"the sandbox in {instance.directory} is not well: no answer from {', '.join(ailing)}; "
                f"`python -m sandbox up --dir {directory}` starts it anew"
            )
        return found

    @classmethod
    def stop_in(cls, directory: Path) -> bool:
        """Stop whatever runs of the instance in a folder, well or not; False when nothing did."""
        instance = Instance(directory.expanduser().absolute())
        record = instance.read() if instance.directory.is_dir() else None
        if not record or not any(alive(part.process) for part in record.parts):
            return False
        cls(instance, record).stop()
        return True

    @property
    def directory(self) -> Path:
        """The instance's folder."""
        return self._instance.directory

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's administrator."""
        return self._instance.kubeconfig

    @property
    def audit_log(self) -> Path:
        """One JSON line (audit.k8s.io/v1 Event) per request from anyone but the sandbox's own parts."""
        return self._instance.audit_log

    @property
    def parts(self) -> dict[str, RunningPart]:
        """Everything that was started, by name."""
        return {part.name: part for part in self._record.parts}

    def log(self, part: str) -> Path:
        """Log of one part."""
        return self._instance.log(part)

    def ailing(self, *, patience: float = 0) -> list[str]:
        """Parts that do not run, or run and do not answer within `patience` seconds, in the order of the start."""
        parts = self._record.parts

        def dead() -> list[str]:
            return [part.name for part in parts if not alive(part.process)]

        def silent() -> list[str]:
            return [part.name for part in parts if not _healthy(part.health)]

        wait_until(lambda: bool(dead()) or not silent(), seconds=patience, every=0.5)
        return dead() or silent()

    @property
    def search_path(self) -> tuple[str, ...]:
        """Folders that a Pulumi run needs in front of PATH."""
        return toolchain.search_path(self._instance.bin)

    def environment(self, project_directory: Path) -> dict[str, str]:
        """Variables for a Pulumi run against this cluster, to be laid over the caller's own.

        State and Pulumi's home are kept in the given folder, which is made if missing; PATH offers the engine, its
        plugins and this Python's programs.
        """
        project_directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([*self.search_path, os.environ.get("PATH", os.defpath)])
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path, **toolchain.pulumi_environment(project_directory)}

    def stop(self) -> None:
        """Stop everything this instance started, and nothing else. Logs and data stay until the next start."""
        with self._instance.locked():
            record = self._instance.read() or self._record
            processes = {part.name: part.process for part in record.parts}
            store = [processes.pop(name) for name in ("kube-apiserver", "etcd") if name in processes]
            stop(processes.values(), grace=5)
            for process in store:
                stop([process], grace=5)
            stop(below(self.directory), grace=2)  # plugins whose engine was killed
            self._record = replace(record, complete=False)
            self._instance.write(self._record)

    def kill(self, part: str) -> None:
        """Kill one part at once, as a crash would; it stays down until `restart`."""
        process = self._known(part).process
        kill(process)
        wait_until(lambda: not alive(process), seconds=10)

    def restart(self, part: str) -> None:
        """Stop one part if it runs, start it again on the same ports, and wait until it is ready."""
        known = self._known(part)
        stop([known.process], grace=10)
        launch = Launch(known.name, known.argv, known.health, known.env)
        self._await(self._spawn(launch))

    def _known(self, part: str) -> RunningPart:
        try:
            return self.parts[part]
        except KeyError:
            raise SandboxError(f"no part is called {part!r}; there are {', '.join(self.parts)}") from None

    def _bring_up(self, tools: toolchain.Toolchain, report: Callable[[str], None]) -> None:
        instance = self._instance
        instance.write(self._record)
        toolchain.link_commands(tools.engine, instance.bin)
        context = Context(tools, instance, Identity.create(instance.pki))
        report("etcd")
        etcd_port, _ = self._launch(2, lambda ports: components.etcd(context, ports[0], ports[1]))
        report("kube-apiserver")
        (api_port,) = self._launch(1, lambda ports: components.kube_apiserver(context, ports[0], etcd_port))
        context = replace(context, api_port=api_port)
        authority = context.identity.authority.pair.certificate
        components.write_kubeconfig(instance.kubeconfig, api_port, authority, context.identity.admin)
        api = Api(api_port, authority, context.identity.clients["sandbox"])
        report("controllers, scheduler, Kueue, kwok")
        self._all_at_once(
            lambda: self._launch(1, lambda ports: components.kube_controller_manager(context, ports[0])),
            lambda: self._launch(1, lambda ports: components.kube_scheduler(context, ports[0])),
            lambda: self._launch(3, lambda ports: self._prepare_kueue(context, api, KueuePorts(*ports))),
            lambda: self._launch(1, lambda ports: components.kwok(context, ports[0])),
            lambda: [api.apply(manifest) for manifest in (*components.policies(), *components.nodes())],
        )
        report("Nodes, webhooks")
        self._until("kwok", lambda: _nodes_ready(api), "its Nodes did not become ready")
        self._until("kueue", lambda: _webhooks_answer(api), "its webhooks do not answer")
        self._record = replace(self._record, complete=True)
        instance.write(self._record)

    def _prepare_kueue(self, context: Context, api: Api, ports: KueuePorts) -> Launch:
        """Install what Kueue needs in the cluster: it ends at once when one of its kinds is missing."""
        for manifest in components.kueue_admission(context, ports.webhook):
            api.apply(manifest)
        crds = list(components.kueue_crds(context, ports.webhook))
        for crd in crds:
            api.apply(crd)
        names = [crd["metadata"]["name"] for crd in crds]

        def served() -> bool:
            return all(_established(api, name) for name in names)

        self._until("kube-apiserver", served, "Kueue's CRDs are not served")
        return components.kueue(context, ports)

    def _all_at_once(self, *steps: Callable[[], object]) -> None:
        """Take steps at the same time. When one fails, end all parts so that the others give up; raises its error."""
        with ThreadPoolExecutor(len(steps)) as pool:
            done, _ = wait([pool.submit(step) for step in steps], return_when=FIRST_EXCEPTION)
            failures = [error for error in (future.exception() for future in done) if error]
            if failures:
                stop([part.process for part in self._record.parts], grace=2)
                raise failures[0]

    def _launch(self, count: int, make: Callable[[list[int]], Launch]) -> list[int]:
        """Start one part and wait until it is ready; on other ports when somebody else took one in between."""
        for attempt in range(_ATTEMPTS):
            ports = free_ports(count)
            part = self._spawn(make(ports))
            if self._await(part, tolerate_taken_port=attempt + 1 < _ATTEMPTS):
                return ports
        raise AssertionError("the last attempt returns or raises")

    def _spawn(self, launch: Launch) -> RunningPart:
        log = self._instance.log(launch.name)
        environment = {**os.environ, **launch.env}
        try:
            process = spawn(launch.argv, log=log, env=environment, cwd=self._instance.directory)
        except OSError as error:
            raise SandboxError(f"{launch.name} could not be started: {launch.argv[0]}: {error.strerror}") from None
        part = RunningPart(launch.name, launch.argv, launch.env, launch.health, process)
        with self._recording:
            self._record = self._record.with_part(part)
            self._instance.write(self._record)
        return part

    def _await(self, part: RunningPart, *, tolerate_taken_port: bool = False) -> bool:
        """Wait until the part answers. False: its port was taken. Raises SandboxError on any other end."""
        wait_until(lambda: _healthy(part.health) or not alive(part.process), seconds=_PATIENCE)
        if alive(part.process) and _healthy(part.health):
            return True
        ended = not alive(part.process)
        if (
            ended
            and tolerate_taken_port
            and "address already in use" in self.log(part.name).read_text(errors="replace")
        ):
            return False
        what = "ended during the start" if ended else f"was not ready after {_PATIENCE:.0f} s"
        raise self._failure(part.name, what)

    def _until(self, part: str, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for something that `part` has to bring about, giving up early when the part ends."""

        def settled() -> bool:
            known = self.parts.get(part)
            return condition() or (known is not None and not alive(known.process))

        if not wait_until(settled, seconds=_PATIENCE, every=0.1) or not condition():
            raise self._failure(part, otherwise)

    def _failure(self, part: str, what: str) -> SandboxError:
        log = self.log(part)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        last = "\n".join(f"    {line[:300]}" for line in lines[-5:])
        return SandboxError(f"{part}: {what}\n{last}\nIts log: {log}")


def sweep(parent: Path) -> list[Path]:
    """Stop and remove the instances in folders below `parent` whose owner has ended; returns their folders."""
    swept: list[Path] = []
    for directory in sorted(parent.iterdir()) if parent.is_dir() else []:
        instance = Instance(directory.absolute())
        record = instance.read() if directory.is_dir() else None
        if record and record.owner and not alive(record.owner):
            Sandbox.stop_in(directory)
            shutil.rmtree(directory, ignore_errors=True)
            swept.append(directory)
    return swept


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=3, context=_unverified()) as answer:  # noqa: S310 - always http(s)
            return answer.status == 200
    except OSError:
        return False


@functools.cache
def _unverified() -> ssl.SSLContext:
    """For health on loopback: the answer is only a status, and some parts sign their certificate themselves."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _established(api: Api, crd: str) -> bool:
    return _holds(api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"), "Established")


def _nodes_ready(api: Api) -> bool:
    found: list[Manifest] = api.get("/api/v1/nodes")["items"]
    ready = [node for node in found if _holds(node, "Ready") and not node["spec"].get("taints")]
    return len(ready) == len(list(components.nodes()))


def _holds(manifest: Manifest, condition: str) -> bool:
    conditions: list[dict[str, str]] = manifest.get("status", {}).get("conditions") or []
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def _webhooks_answer(api: Api) -> bool:
    probe = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "sandbox-probe"}}
    try:
        api.apply(probe, dry_run=True)
    except SandboxError:
        return False
    return True
