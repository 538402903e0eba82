"""What a Pod group lives through in the sandbox: admission by Kueue, start, exit, removal."""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.cluster import Sandbox
from sandbox.processes import wait_until

pytestmark = pytest.mark.cluster

KUEUE = "kueue.x-k8s.io"


@pytest.fixture
def custom(kubeconfig: Any) -> Iterator[Any]:
    """`kubernetes.client.CustomObjectsApi` of the shared cluster."""
    from kubernetes import client, config

    with config.new_client_from_config(str(kubeconfig)) as connection:
        yield client.CustomObjectsApi(connection)


@pytest.fixture
def queue(custom: Any, namespace: str) -> Iterator[str]:
    """A LocalQueue of the test's namespace with room for eight GPUs."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    flavor = {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {"gpu": "h20"}},
    }
    cluster_queue = {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}],
                }
            ],
        },
    }
    local_queue = {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": name},
    }
    custom.create_cluster_custom_object(KUEUE, "v1beta2", "resourceflavors", flavor)
    custom.create_cluster_custom_object(KUEUE, "v1beta2", "clusterqueues", cluster_queue)
    custom.create_namespaced_custom_object(KUEUE, "v1beta2", namespace, "localqueues", local_queue)
    yield name
    custom.delete_cluster_custom_object(KUEUE, "v1beta2", "clusterqueues", name)
    custom.delete_cluster_custom_object(KUEUE, "v1beta2", "resourceflavors", name)


def group(
    name: str, queue: str, *, grace: int = 30, finalizers: list[str] | None = None, **behaviour: str
) -> list[dict[str, Any]]:
    """Two Pods of one Kueue group; `behaviour` becomes `sandbox.gpustack.ai/*` annotations, `_` read as `-`."""
    annotations = {f"sandbox.gpustack.ai/{key.replace('_', '-')}": value for key, value in behaviour.items()}
    annotations |= {
        f"{KUEUE}/pod-group-total-count": "2",
        f"{KUEUE}/pod-group-serving": "true",
        f"{KUEUE}/role-hash": "main",
    }
    return [
        {
            "metadata": {
                "name": f"{name}-{member}",
                "labels": {f"{KUEUE}/queue-name": queue, f"{KUEUE}/pod-group-name": name},
                "annotations": dict(annotations),
                "finalizers": finalizers or [],
            },
            "spec": {
                "terminationGracePeriodSeconds": grace,
                "containers": [{"name": "engine", "image": "engine", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            },
        }
        for member in range(2)
    ]


class Pods:
    """Creates, reads and deletes Pods in one namespace."""

    def __init__(self, core: Any, namespace: str) -> None:
        self.core = core
        self.namespace = namespace

    def run(self, pods: list[dict[str, Any]]) -> None:
        """Create Pods and wait until all of them run."""
        for pod in pods:
            self.core.create_namespaced_pod(self.namespace, pod)
        names = [pod["metadata"]["name"] for pod in pods]
        assert wait_until(lambda: all(self.phase(name) == "Running" for name in names), seconds=30)

    def read(self, name: str) -> Any:
        """One Pod, or None when it is gone."""
        return next(
            (pod for pod in self.core.list_namespaced_pod(self.namespace).items if pod.metadata.name == name), None
        )

    def phase(self, name: str) -> str | None:
        """Phase of one Pod, None when it is gone."""
        pod = self.read(name)
        return pod.status.phase if pod else None

    def ready(self, name: str) -> bool:
        """Whether the Pod's Ready condition holds."""
        return any(c.type == "Ready" and c.status == "True" for c in self.read(name).status.conditions or [])

    def exit_code(self, name: str) -> int:
        """Exit code of the Pod's only container."""
        return self.read(name).status.container_statuses[0].state.terminated.exit_code

    def delete(self, name: str) -> float:
        """Delete one Pod; returns when, on the monotonic clock."""
        self.core.delete_namespaced_pod(name, self.namespace)
        return time.monotonic()


@pytest.fixture
def pods(core: Any, namespace: str) -> Pods:
    """Pods of the test's namespace."""
    return Pods(core, namespace)


def test_a_pod_group_is_admitted_and_runs(pods: Pods, custom: Any, namespace: str, queue: str) -> None:
    pods.run(group("g", queue))
    workload = custom.get_namespaced_custom_object(KUEUE, "v1beta2", namespace, "workloads", "g")
    admitted = [c["status"] for c in workload["status"]["conditions"] if c["type"] == "Admitted"]
    assert admitted == ["True"]
    assert {pods.read(f"g-{member}").spec.node_name for member in range(2)} <= {"gpu-0", "gpu-1"}


def test_a_group_beyond_the_quota_waits(pods: Pods, custom: Any, core: Any, namespace: str, queue: str) -> None:
    big = group("big", queue)
    for pod in big:
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "5"
        core.create_namespaced_pod(namespace, pod)

    def waits() -> bool:
        found = custom.list_namespaced_custom_object(KUEUE, "v1beta2", namespace, "workloads")["items"]
        conditions = [c for workload in found for c in workload.get("status", {}).get("conditions", [])]
        return any(c["type"] == "QuotaReserved" and c["status"] == "False" for c in conditions)

    assert wait_until(waits, seconds=30)
    assert pods.phase("big-0") == "Pending"


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_deleted_pod_exits_as_its_annotation_says_and_keeps_foreign_finalizers(
    pods: Pods, queue: str, code: str, phase: str
) -> None:
    pods.run(group("g", queue, exit_code=code, finalizers=["example.com/hold"]))
    pods.delete("g-0")
    assert wait_until(lambda: pods.phase("g-0") == phase, seconds=20)
    assert pods.exit_code("g-0") == int(code)
    time.sleep(1)
    assert set(pods.read("g-0").metadata.finalizers) == {"example.com/hold", f"{KUEUE}/managed"}


def test_a_deleted_pod_without_annotations_exits_cleanly_and_soon(pods: Pods, queue: str) -> None:
    pods.run(group("g", queue))
    pods.delete("g-0")
    assert wait_until(lambda: pods.phase("g-0") == "Succeeded", seconds=10)


def test_a_pod_leaves_once_nobody_holds_it(pods: Pods, core: Any, namespace: str) -> None:
    core.create_namespaced_pod(
        namespace, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    )
    assert wait_until(lambda: pods.phase("p") == "Running", seconds=30)
    pods.delete("p")
    assert wait_until(lambda: pods.read("p") is None, seconds=10)


def test_a_pod_takes_its_time_to_exit(pods: Pods, queue: str) -> None:
    pods.run(group("g", queue, exit_after="3"))
    deleted = pods.delete("g-0")
    assert wait_until(lambda: pods.phase("g-0") == "Succeeded", seconds=20)
    assert time.monotonic() - deleted >= 2.9


def test_a_pod_that_outlives_its_grace_period_is_killed(pods: Pods, queue: str) -> None:
    pods.run(group("g", queue, grace=2, exit_after="60"))
    deleted = pods.delete("g-0")
    assert wait_until(lambda: pods.phase("g-0") == "Failed", seconds=20)
    assert time.monotonic() - deleted >= 1.9
    assert pods.exit_code("g-0") == 137


def test_a_pod_that_hangs_never_exits(pods: Pods, queue: str) -> None:
    pods.run(group("g", queue, grace=1, hang="true"))
    pods.delete("g-0")
    time.sleep(4)
    assert pods.phase("g-0") == "Running"


def test_a_pod_becomes_ready_when_its_annotation_says(pods: Pods, queue: str) -> None:
    slow, never = group("g", queue, ready_after="2")
    never["metadata"]["annotations"]["sandbox.gpustack.ai/ready-after"] = "never"
    pods.run([slow, never])
    assert not pods.ready("g-0")
    assert wait_until(lambda: pods.ready("g-0"), seconds=20)
    assert not pods.ready("g-1")


def test_annotations_of_a_namespace_are_handed_down_to_its_pods(
    pods: Pods, core: Any, namespace: str, queue: str
) -> None:
    behaviour = {"sandbox.gpustack.ai/exit-code": "9", "sandbox.gpustack.ai/hang": "true"}
    core.patch_namespace(namespace, {"metadata": {"annotations": behaviour}})

    def handed_down() -> bool:
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
        shown = core.create_namespaced_pod(namespace, probe, dry_run="All")
        return bool(shown.metadata.annotations)

    assert wait_until(handed_down, seconds=20)
    pods.run(group("g", queue, hang="false"))
    annotations = pods.read("g-0").metadata.annotations
    assert annotations["sandbox.gpustack.ai/exit-code"] == "9"
    assert annotations["sandbox.gpustack.ai/hang"] == "false"


def test_the_audit_log_holds_the_requests_of_clients_only(
    sandbox: Sandbox, pods: Pods, core: Any, namespace: str
) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "noted"}})

    def events() -> list[dict[str, Any]]:
        lines = sandbox.audit_log.read_text().splitlines()
        return [json.loads(line) for line in lines if f'"namespace":"{namespace}"' in line]

    assert wait_until(
        lambda: any(e["verb"] == "create" and e["objectRef"]["resource"] == "configmaps" for e in events()), seconds=10
    )
    assert {event["user"]["username"] for event in events()} == {"admin"}
