"""A program under test that reads everything it varies from a file, so that an edit is an edit of that file."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import CLUSTER_QUEUE, NAMESPACE, POD, WORKLOAD, Cluster
from sandbox.cluster import Sandbox
from tests.e2e.engine import Stack
from tests.e2e.timeline import Timeline

PROGRAM = """
import json, pathlib
import pulumi
import pulumi_kubernetes as kubernetes
import gpustack_components as gpustack

case = json.loads(pathlib.Path("case.json").read_text())
namespace = kubernetes.core.v1.Namespace(
    "namespace", metadata={"name": case["namespace"], "annotations": case["annotations"]})
pool = gpustack.InstanceType(
    case["pool"], manufacturer="nvidia", cards_per_node=case["cards"], nodes=1,
    unit_resources={"cpu": "2", "ram": "4Gi"}, node_labels={"gpu": case["nodes"]})
for name, spec in case["deployments"].items():
    deployment = gpustack.ModelDeployment(
        name, namespace=case["namespace"], spec=spec, bindings=[pool], timeouts=case["timeouts"],
        settings=case["settings"].get(name),
        opts=pulumi.ResourceOptions(depends_on=[namespace]))
    pulumi.export(name, {"endpoint": deployment.endpoint, "phase": deployment.phase})
"""

OLD, NEW = "vllm/vllm-openai:v0.25.0", "vllm/vllm-openai:v0.25.1"


class Case:
    """A stack with one namespace, one pool of its own and the deployments it is given."""

    def __init__(
        self, stack: Stack, sandbox: Sandbox, *, cards: int, exit_after: float = 0.3, nodes: str = "h20"
    ) -> None:
        identity = uuid.uuid4().hex[:8]
        self.stack = stack
        self.cluster: Cluster = connect(str(sandbox.kubeconfig))
        self.namespace = f"e2e-{identity}"
        self.pool = f"pool-{identity}"
        self.values: dict[str, Any] = {
            "namespace": self.namespace,
            "annotations": {"sandbox.gpustack.ai/exit-after": str(exit_after)},
            "pool": self.pool,
            "cards": cards,
            "nodes": nodes,
            "deployments": {},
            "settings": {},
            "timeouts": {"admission": "20s", "ready": "60s", "drain": "60s"},
        }
        stack.write(PROGRAM, files={"case.json": json.dumps(self.values)})

    def role(self, replicas: int, **fields: Any) -> dict[str, Any]:
        """A Server role of the pool, one card a Pod."""
        return {
            "name": "server",
            "replicas": replicas,
            "instanceType": self.pool,
            "resources": {"accelerator": 1},
            **fields,
        }

    def deploy(self, *roles: dict[str, Any], image: str = OLD, name: str = "qwen") -> None:
        """Write a deployment into the program's file."""
        spec = {"model": {"name": "Qwen/Qwen3-8B"}, "engine": {"name": "vLLM", "image": image}, "roles": list(roles)}
        self.values["deployments"][name] = spec
        self.save()

    def edit(self, **fields: Any) -> None:
        """Change fields of the only role."""
        (spec,) = self.values["deployments"].values()
        spec["roles"][0].update(fields)
        self.save()

    def edit_image(self, image: str) -> None:
        """Change the engine's image."""
        for spec in self.values["deployments"].values():
            spec["engine"]["image"] = image
        self.save()

    def change(self, **values: Any) -> None:
        """Change anything else the program reads."""
        self.values.update(values)
        self.save()

    def save(self) -> None:
        """Write the file the program reads."""
        (self.stack.program / "case.json").write_text(json.dumps(self.values))

    @contextmanager
    def watched(self) -> Iterator[Timeline]:
        """Record every moment of the namespace while the block runs."""
        with Timeline(self.cluster, self.namespace) as timeline:
            yield timeline

    def pods(self) -> list[dict[str, Any]]:
        """The Pods of the namespace."""
        return list(self.cluster.list(POD, self.namespace).items)

    def images(self) -> dict[str, str]:
        """Image of the main container by seat, e.g. `server/0/0`."""
        prefix = "modeldeployment.gpustack.ai"
        return {
            "/".join(
                (
                    pod["metadata"]["labels"]["app.kubernetes.io/component"],
                    pod["metadata"]["labels"][f"{prefix}/pod-ordinal"],
                    pod["metadata"]["labels"][f"{prefix}/member-index"],
                )
            ): pod["spec"]["containers"][0]["image"]
            for pod in self.pods()
        }

    def uids(self) -> set[str]:
        """UIDs of the Pods of the namespace."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def leftovers(self) -> list[str]:
        """What a destroyed stack left behind."""
        found = [
            f"{kind.kind} {item['metadata']['name']}"
            for kind in (POD, WORKLOAD)
            for item in self.cluster.list(kind, self.namespace).items
        ]
        found += [
            f"{kind.kind} {name}"
            for kind, name in ((NAMESPACE, self.namespace), (CLUSTER_QUEUE, self.pool))
            if self.cluster.get(kind, None, name)
        ]
        return found


def audited(sandbox: Sandbox, namespace: str, since: int) -> list[dict[str, Any]]:
    """Finished requests on a namespace from byte `since` of the audit log on."""
    with Path(sandbox.audit_log).open() as log:
        log.seek(since)
        events = [json.loads(line) for line in log if line.endswith("\n")]
    return [
        e for e in events if e.get("objectRef", {}).get("namespace") == namespace and e["stage"] == "ResponseComplete"
    ]


def audit_position(sandbox: Sandbox) -> int:
    """Where the audit log ends now."""
    return Path(sandbox.audit_log).stat().st_size
