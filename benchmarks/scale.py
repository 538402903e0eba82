"""A hundred deployments in one stack, against a program that declares their Pods one by one: time and memory.

It takes minutes, so it is measured only when asked for: `python -m benchmarks scale`.
"""

import json
import os
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.row import Bench, Row
from tests.e2e.engine import Stack

if TYPE_CHECKING:
    from gpustack_components.cluster.port import Cluster

DEPLOYMENTS = int(os.environ.get("SCALE_DEPLOYMENTS", "100"))
REPLICAS = 4
NODES = 5
AGAINST = "plain pulumi-kubernetes, same Pods"
OLD, NEW = "vllm/vllm-openai:v0.25.0", "vllm/vllm-openai:v0.25.1"

OURS = """
import json, pathlib
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
pool = gpustack.InstanceType(
    case["pool"], cores_per_node=190, nodes=case["nodes"],
    unit_resources={"cpu": "1", "ram": "1Mi"}, node_labels={"scale": case["pool"]})
for number in range(case["deployments"]):
    gpustack.ModelDeployment(
        f"qwen-{number}", namespace=case["namespace"], bindings=[pool],
        spec={"model": {"name": "m"},
              "engine": {"name": "vLLM", "image": case["images"].get(str(number), case["image"])},
              "roles": [{"name": "server", "replicas": case["replicas"], "instanceType": case["pool"]}]},
        timeouts={"admission": "5m", "ready": "5m", "drain": "60s"})
"""

PLAIN = """
import json, pathlib
import pulumi
import pulumi_kubernetes as kubernetes

case = json.loads(pathlib.Path("case.json").read_text())
objects = json.loads(pathlib.Path("objects.json").read_text())
for number in range(case["deployments"]):
    image = case["images"].get(str(number), case["image"])
    for ordinal in range(case["replicas"]):
        text = json.dumps(objects["pod"]).replace("NUMBER", str(number)).replace("ORDINAL", str(ordinal))
        pod = json.loads(text)
        main = next(one for one in pod["spec"]["containers"] if one["name"] == "main")
        main["image"] = image
        main.setdefault("env", []).append({"name": "IMAGE", "value": image})
        kubernetes.core.v1.Pod(f"qwen-{number}-{ordinal}", metadata=pod["metadata"], spec=pod["spec"],
            opts=pulumi.ResourceOptions(delete_before_replace=True))
    for service in objects["services"]:
        service = json.loads(json.dumps(service).replace("NUMBER", str(number)))
        kubernetes.core.v1.Service(service["metadata"]["name"], metadata=service["metadata"], spec=service["spec"])
"""
"""An environment value makes the edit one that Kubernetes cannot take in place, as most edits of a Pod are."""


@dataclass
class Side:
    """One of the two programs, and what its commands took."""

    stack: Stack
    case: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    memory: dict[str, float] = field(default_factory=dict[str, float])
    """Largest resident size of all processes of a command together, in MiB."""

    def take(self, what: str, *arguments: str, **changes: Any) -> None:
        """Run `pulumi up` and keep what it took."""
        self.case.update(changes)
        (self.stack.program / "case.json").write_text(json.dumps(self.case))
        running = self.stack.start_up(*arguments)
        peak = Peak(running.process.pid)
        self.seconds[what] = running.wait(1800).expect(0).seconds
        self.memory[what] = peak.stop()


class Peak:
    """Samples the resident size of a process and everything below it until it is stopped."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._largest = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The largest sum so far, in MiB."""
        self._done.set()
        self._thread.join()
        return self._largest

    def _sample(self) -> None:
        while not self._done.wait(0.25):
            self._largest = max(self._largest, _resident(self._pid))


def _resident(root: int) -> float:
    parents: dict[int, int] = {}
    sizes: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(stat[1])
                sizes[int(entry.name)] = int(stat[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return sum(size for pid, size in sizes.items() if _descends(pid, root, parents))


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in (0, root):
        pid = parents.get(pid, 0)
    return pid == root


def measure(bench: Bench) -> list[Row]:
    """A first `up`, one without an edit, and one with an edit of one field of one deployment, each side in turn."""
    from gpustack_components.cluster.client import connect
    from gpustack_components.cluster.port import NAMESPACE, NODE

    sandbox = bench.sandbox()
    cluster = connect(str(sandbox.kubeconfig))
    identity = f"s-{uuid.uuid4().hex[:6]}"
    common = {"deployments": DEPLOYMENTS, "replicas": REPLICAS, "nodes": NODES, "pool": identity, "image": OLD}
    sides: list[Side] = []
    for name, program in (("ours", OURS), ("plain", PLAIN)):
        namespace = f"{name}-{identity}"
        stack = Stack(bench.folder / name, sandbox.environment(bench.folder / name))
        stack.write(program, files={"objects.json": json.dumps(_objects(namespace, identity))})
        sides.append(Side(stack, {**common, "namespace": namespace, "images": {}}))
    try:
        _add_nodes(cluster, identity)
        for side in sides:
            name = side.case["namespace"]
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for side in sides:
            side.take("`up`")
            side.take("`up` without an edit", "--expect-no-changes")
            side.take("`up` with one edited field", images={"0": NEW})
        sizes = [len(json.dumps(side.stack.state())) for side in sides]
    finally:
        for side in sides:
            side.stack.destroy(timeout=1800)
            cluster.delete(NAMESPACE, None, side.case["namespace"])
        for number in range(NODES):
            cluster.delete(NODE, None, f"{identity}-{number}")
    return [*_rows(*sides), _state_row(sizes)]


BUDGETS = {"`up`": 1.0, "`up` without an edit": 2.0, "`up` with one edited field": 1.2}
"""A plain program without an edit compares inputs with the state and asks the cluster nothing; ours reads what runs."""


def _rows(ours: Side, plain: Side) -> list[Row]:
    rows: list[Row] = []
    for what, budget in BUDGETS.items():
        times, peaks = (ours.seconds[what], plain.seconds[what]), (ours.memory[what], plain.memory[what])
        label = f"{what}, {DEPLOYMENTS} deployments x {REPLICAS}"
        detail = f"{times[0]:.1f} s : {times[1]:.1f} s"
        rows.append(Row(f"{label}: time", AGAINST, times[0] / times[1], budget, detail=detail))
        detail = f"{peaks[0]:.0f} MiB : {peaks[1]:.0f} MiB"
        rows.append(Row(f"{label}: memory of all processes", AGAINST, peaks[0] / peaks[1], 1.0, detail=detail))
    return rows


def _state_row(sizes: list[int]) -> Row:
    detail = f"{sizes[0]:,} : {sizes[1]:,} bytes"
    return Row(f"state of {DEPLOYMENTS} deployments x {REPLICAS}", AGAINST, sizes[0] / sizes[1], 0.5, detail=detail)


def _add_nodes(cluster: "Cluster", identity: str) -> None:
    resources = {"cpu": "192", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "200"}
    for number in range(NODES):
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "scale": identity}
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"{identity}-{number}", "labels": labels},
                "status": {"allocatable": resources, "capacity": resources},
            }
        )


def _objects(namespace: str, pool: str) -> dict[str, Any]:
    """One Pod and the Services of a deployment as manifests, words in the place of its number and ordinal."""
    from benchmarks.inputs import API, resolved
    from gpustack_components.api.decode import decode
    from gpustack_components.bindings.catalog import Bindings
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.render.replica import render_replica
    from gpustack_components.render.services import front_services

    kind: dict[str, Any] = {
        "apiVersion": API,
        "kind": "InstanceType",
        "metadata": {"name": pool},
        "spec": {
            "acceleratable": False,
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "1", "ram": "1Mi"},
            "localStorage": "1Gi",
        },
        "status": {"cpu": {"capacity": "1000"}},
    }
    role = {"name": "server", "replicas": 1, "instanceType": pool}
    document: dict[str, Any] = {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen-0", "namespace": namespace},
        "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM", "image": OLD}, "roles": [role]},
    }
    ready = resolved(document, Bindings.of([decode(kind).document]), Settings())
    text = json.dumps(
        {
            "pod": _without_kueue(
                dict(render_replica(ready, "server", 0).members[0]), "qwen-0-ORDINAL", {"scale": pool}
            ),
            "services": [_without_kueue(dict(service), "", {}) for service in front_services(ready)],
        }
    )
    return json.loads(text.replace("qwen-0", "qwen-NUMBER"))


def _without_kueue(manifest: dict[str, Any], name: str, node: dict[str, str]) -> dict[str, Any]:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "generateName"}
    for part in ("labels", "annotations"):
        metadata[part] = {key: value for key, value in (metadata.get(part) or {}).items() if "kueue" not in key}
    if name:
        return {**manifest, "metadata": {**metadata, "name": name}, "spec": {**manifest["spec"], "nodeSelector": node}}
    return {**manifest, "metadata": {**metadata, "annotations": {"pulumi.com/skipAwait": "true"}}}
