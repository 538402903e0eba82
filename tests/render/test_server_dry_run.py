"""A real API server with a real Kueue accepts what is rendered (server-side dry run)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.render.queues import instance_type_objects, local_queue
from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from gpustack_components.render.services import front_services
from tests.render import build
from tests.render.routers import MATRIX
from tests.render.seeds import resolution
from tests.render.test_seeds import ORDINARY
from tests.render.test_shapes import RENDERED, outcome

pytestmark = pytest.mark.cluster
Json = dict[str, Any]


def moved(manifest: Json, namespace: str) -> Json:
    """The manifest in the test's own namespace."""
    out = copy.deepcopy(manifest)
    out["metadata"]["namespace"] = namespace
    return out


def rendered() -> list[Json]:
    found: list[Json] = []
    for one in [*(outcome(case) for case in RENDERED), *(resolution(name) for name in ORDINARY)]:
        assert one.resolved is not None
        found += front_services(one.resolved)
        for role in one.resolved.roles:
            replica = render_replica(one.resolved, role, 0)
            found += [*replica.members, *([replica.service] if replica.service else [])]
    return found


def test_every_shape_and_seed_is_accepted_and_taken_in_by_kueue(kubeconfig: Path, namespace: str) -> None:
    cluster = connect(str(kubeconfig))
    for manifest in rendered():
        stored = cluster.create(moved(manifest, namespace), dry_run=True)
        if manifest["kind"] == "Pod":
            assert stored["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
            assert "kueue.x-k8s.io/admission" in [gate["name"] for gate in stored["spec"]["schedulingGates"]]


def test_every_router_is_accepted_and_its_pods_keep_to_the_restricted_profile(
    kubeconfig: Path, namespace: str, core: Any
) -> None:
    cluster = connect(str(kubeconfig))
    core.patch_namespace(namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    found = {
        json.dumps(one, sort_keys=True): one
        for case in MATRIX
        for one in router_objects(case.resolved({"replicas": 2}))
    }
    for manifest in found.values():
        assert cluster.create(moved(manifest, namespace), dry_run=True)["metadata"]["name"] == "qwen-router"
    templates = [one["spec"]["template"] for one in found.values() if one["kind"] == "Deployment"]
    for template in templates:
        pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
        pod["metadata"] |= {"name": "router", "namespace": namespace}
        del pod["spec"]["serviceAccountName"]
        assert cluster.create(pod, dry_run=True)["spec"]["securityContext"]["runAsNonRoot"]


@pytest.mark.parametrize("manufacturer", ["nvidia", ""])
def test_the_queue_of_a_type_is_accepted(kubeconfig: Path, namespace: str, manufacturer: str) -> None:
    cluster = connect(str(kubeconfig))
    kind = build.instance_type("dry-run-type", manufacturer)
    taint: Json = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    objects = instance_type_objects(
        kind,
        nodes=2,
        cards_per_node=8,
        node_labels={"gpu": "h20"},
        interfaces={"device.gpustack.ai/rdma": 16, "device.gpustack.ai/rdma.shared": 64},
        tolerations=[taint],
    )
    for manifest in (*objects, local_queue(kind, namespace)):
        assert cluster.create(manifest, dry_run=True)["metadata"]["name"]
