"""Preview of many deployments on the real engine, against a program that declares their Pods one by one."""

import json
import resource
import statistics
import uuid
from functools import partial

from benchmarks.row import Bench, Row, alternate
from tests.e2e.engine import Stack

DEPLOYMENTS, REPLICAS = 10, 8

OURS = """
import json, pathlib
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
pool = gpustack.InstanceType(
    case["pool"], manufacturer="nvidia", cards_per_node=80, nodes=1,
    unit_resources={"cpu": "1", "ram": "1Mi"}, node_labels={"gpu": "h20"})
for number in range(case["deployments"]):
    gpustack.ModelDeployment(
        f"qwen-{number}", namespace=case["namespace"], bindings=[pool],
        spec={"model": {"name": "m"}, "engine": {"name": "vLLM", "image": "vllm/vllm-openai:v0.25.1"},
              "roles": [{"name": "server", "replicas": case["replicas"], "instanceType": case["pool"],
                         "resources": {"accelerator": 1}}]},
        timeouts={"admission": "60s", "ready": "0s", "drain": "60s"})
"""

PLAIN = """
import json, pathlib
import pulumi_kubernetes as kubernetes

case = json.loads(pathlib.Path("case.json").read_text())
for number, (pods, services) in enumerate(zip(case["pods"], case["services"])):
    for ordinal, pod in enumerate(pods):
        kubernetes.core.v1.Pod(f"qwen-{number}-{ordinal}", metadata=pod["metadata"], spec=pod["spec"])
    for service in services:
        kubernetes.core.v1.Service(service["metadata"]["name"], metadata=service["metadata"], spec=service["spec"])
"""


def measure(bench: Bench) -> list[Row]:
    """Time of a first preview, and the size of the exported state after an `up`."""
    from gpustack_components.cluster.client import connect
    from gpustack_components.cluster.port import NAMESPACE

    sandbox = bench.sandbox()
    cluster = connect(str(sandbox.kubeconfig))
    identity = uuid.uuid4().hex[:6]
    namespaces = [f"bench-{side}-{identity}" for side in ("ours", "plain")]
    for namespace in namespaces:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    stacks = [Stack(bench.folder / side, sandbox.environment(bench.folder / side)) for side in ("ours", "plain")]
    try:
        case = {"namespace": namespaces[0], "deployments": DEPLOYMENTS, "replicas": REPLICAS, "pool": f"b-{identity}"}
        stacks[0].write(OURS, files={"case.json": json.dumps(case)})
        stacks[1].write(PLAIN, files={"case.json": json.dumps(plain_objects(namespaces[1]))})
        spent: dict[str, list[float]] = {stack.directory.name: [] for stack in stacks}

        def preview(stack: Stack) -> float:
            before = _cpu()
            taken = stack.preview().expect(0).seconds
            spent[stack.directory.name].append(_cpu() - before)
            return taken

        times = alternate(bench.rounds, *(partial(preview, stack) for stack in stacks))
        sizes: list[int] = []
        for stack in stacks:
            stack.up().expect(0)
            sizes.append(len(json.dumps(stack.state())))
        count = len(stacks[0].state()["resources"]), len(stacks[1].state()["resources"])
    finally:
        for stack in stacks:
            stack.destroy()
        for namespace in namespaces:
            cluster.delete(NAMESPACE, None, namespace)
    what = f"`pulumi preview` of {DEPLOYMENTS} deployments x {REPLICAS} replicas"
    against = "plain pulumi-kubernetes, same Pods"
    resources = f"{count[0]} : {count[1]} resources"
    processor = " : ".join(f"{statistics.median(figures):.1f} s" for figures in spent.values())
    return [
        Row(
            f"{what}: time",
            against,
            times[0] / times[1],
            0.6,
            detail=f"{times[0]:.2f} s : {times[1]:.2f} s, processor {processor}",
        ),
        Row(
            f"{what}: state",
            against,
            sizes[0] / sizes[1],
            0.15,
            detail=f"{sizes[0]:,} : {sizes[1]:,} bytes, {resources}",
        ),
    ]


def _cpu() -> float:
    """Processor seconds that ended commands have used: steadier than time on a machine that others use too."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def plain_objects(namespace: str) -> dict[str, list[list[dict[str, object]]]]:
    """The same Pods and Services as manifests, without Kueue's keys: as a program without this package has them."""
    from benchmarks.inputs import bindings, resolved, ten_roles
    from gpustack_components.bindings.settings import Settings
    from gpustack_components.render.replica import render_replica
    from gpustack_components.render.services import front_services

    pods: list[list[dict[str, object]]] = []
    services: list[list[dict[str, object]]] = []
    for number in range(DEPLOYMENTS):
        document = ten_roles(REPLICAS, 1)
        document["metadata"] = {"name": f"qwen-{number}", "namespace": namespace}
        role = {"name": "server", "replicas": REPLICAS, "instanceType": "h20-8x", "resources": {"accelerator": 1}}
        document["spec"]["roles"] = [role]
        ready = resolved(document, bindings(), Settings())
        pods.append(
            [_plain(render_replica(ready, "server", o).members[0], f"qwen-{number}-{o}") for o in range(REPLICAS)]
        )
        services.append([_plain(dict(service), "") for service in front_services(ready)])
    return {"pods": pods, "services": services}


def _plain(manifest: dict[str, object], name: str) -> dict[str, object]:
    metadata = {**manifest["metadata"]}  # pyright: ignore[reportGeneralTypeIssues]
    metadata.pop("generateName", None)
    labels = {key: value for key, value in metadata.get("labels", {}).items() if "kueue" not in key}
    skip = {"pulumi.com/skipAwait": "true"}
    notes = {key: value for key, value in metadata.get("annotations", {}).items() if "kueue" not in key}
    return {
        **manifest,
        "metadata": {**metadata, **({"name": name} if name else {}), "labels": labels, "annotations": notes | skip},
    }
