"""Pods, Workloads and deployments as a cluster shows them, from a short notation.

A replica reads `server/0 old ready A`: role and ordinal, then words.
Of the Pods: `old` (another configuration), `ready`, `T` (all members terminating), `takeover`, `outside` (not taken in
by Kueue), `v1` (render version), `2of3` (members there of members declared), `failed`, `crash`, `pull`, `nofit`,
`unbound`, `ran` (the engine's container runs), `young` (`T` only now), `held` (by Kueue's finalizer), `gated` (by a
foreign gate).
Of the Workload, none without one of these: `q` waits, `r` holds quota, `A` admitted, `evicted`, `preempted`, `off`
(deactivated), `parked`; `flavor-h100` names the flavor it is charged to. `message: ...` ends the line with Kueue's
words.
"""

import re
from collections.abc import Iterable
from typing import Any

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.status.deployed import Observation
from gpustack_components.status.facts import Expected

Json = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:30Z"
YOUNG = "2026-01-01T00:10:20Z"


def deployment(roles: Iterable[Json], **spec: Any) -> ModelDeployment:
    """A deployment of these roles, named team-a/qwen."""
    document = {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "team-a"},
        "spec": {
            "model": {"name": "m"},
            "engine": {"name": "vLLM", "image": "i"},
            "roles": [{"name": "server", "instanceType": "h20", **role} for role in roles],
            **spec,
        },
    }
    return ModelDeployment.model_validate(document)


def observation(lines: Iterable[str]) -> Observation:
    """What stands, replica by replica."""
    pods: list[Json] = []
    workloads: list[Json] = []
    for number, line in enumerate(lines):
        members, workload = replica(line, number)
        pods += members
        workloads += [workload] if workload is not None else []
    return Observation(tuple(pods), tuple(workloads))


def expected(document: ModelDeployment, **values: Any) -> Expected:
    """What the notation's `new` stands for: a fingerprint per seat."""
    hashes = {
        role.name: tuple(tuple(f"new-{o}-{m}" for m in range(role.size)) for o in range(role.replicas))
        for role in document.spec.roles
    }
    return Expected(hashes, **values)


def replica(line: str, number: int = 0) -> tuple[list[Json], Json | None]:
    """The Pods and the Workload of one replica."""
    line, _, message = line.partition(" message: ")
    place, *words = line.split()
    role, _, ordinal = place.partition("/")
    count = next((match for word in words if (match := re.fullmatch(r"(\d+)of(\d+)", word))), None)
    have, total = (int(count[1]), int(count[2])) if count else (1, 1)
    members = [_pod(role, ordinal, index, total, words, number) for index in range(have)]
    return members, _workload(role, ordinal, members, words, message)


def _pod(role: str, ordinal: str, index: int, total: int, words: list[str], number: int) -> Json:
    config = "old" if "old" in words else "new"
    version = next((word[1:] for word in words if re.fullmatch(r"v\d+", word)), "1")
    annotations = {
        "kueue.x-k8s.io/pod-group-total-count": str(total),
        "modeldeployment.gpustack.ai/pod-spec-hash": f"{config}-{ordinal}-{index}",
        "modeldeployment.gpustack.ai/render-version": version,
    }
    if "takeover" not in words:
        annotations["prometheus.io/port"] = "8000"
    labels = {"app.kubernetes.io/component": role, "modeldeployment.gpustack.ai/member-index": str(index)}
    if ordinal != "?":
        labels["modeldeployment.gpustack.ai/pod-ordinal"] = ordinal
    if "outside" not in words:
        labels["kueue.x-k8s.io/managed"] = "true"
    name = f"qwen-{role}-r{ordinal}-m{index}"
    metadata: Json = {
        "name": name,
        "uid": f"{name}-{number}",
        "labels": labels,
        "annotations": annotations,
        "creationTimestamp": CREATED,
    }
    if "T" in words:
        metadata |= {"deletionTimestamp": YOUNG if "young" in words else LATER, "deletionGracePeriodSeconds": 30}
    if "held" in words:
        metadata["finalizers"] = ["kueue.x-k8s.io/managed"]
    ready = {"type": "Ready", "status": "True" if "ready" in words else "False", "lastTransitionTime": LATER}
    status: Json = {"phase": "Failed" if "failed" in words else "Running", "conditions": [ready]}
    for word, reason, message in _TROUBLES:
        if word in words:
            waiting = {"waiting": {"reason": reason, "message": message}}
            status["containerStatuses"] = [{"name": "main", "restartCount": 3, "state": waiting}]
    if "ran" in words:
        status["containerStatuses"] = [{"name": "main", "restartCount": 0, "started": True, "state": {"running": {}}}]
    if "nofit" in words:
        unschedulable = {"reason": "Unschedulable", "message": "0/3 nodes are available", "lastTransitionTime": LATER}
        status["conditions"].append({"type": "PodScheduled", "status": "False", **unschedulable})
    bound = {} if {"unbound", "nofit"} & set(words) else {"nodeName": "gpu-0"}
    gates = {"schedulingGates": [{"name": "example.com/wait"}]} if "gated" in words else {}
    spec = {"containers": [{"name": "main", "image": "i"}], **bound, **gates}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


_TROUBLES = (
    ("crash", "CrashLoopBackOff", "back-off 10s restarting failed container"),
    ("pull", "ImagePullBackOff", "not found"),
)


def _workload(role: str, ordinal: str, members: list[Json], words: list[str], message: str) -> Json | None:
    states = {"q", "r", "A", "evicted", "preempted", "off", "parked"} & set(words)
    if not states:
        return None
    holding = bool(states & {"r", "A"})

    def condition(type_: str, status: bool, reason: str, text: str = "") -> Json:
        value = "True" if status else "False"
        return {"type": type_, "status": value, "reason": reason, "message": text, "lastTransitionTime": LATER}

    conditions = [condition("QuotaReserved", holding, "QuotaReserved" if holding else "Pending", message)]
    if "A" in states:
        conditions.append(condition("Admitted", True, "Admitted"))
    if "evicted" in states:
        conditions.append(condition("Evicted", True, "ClusterQueueStopped", message))
    if "preempted" in states:
        conditions += [condition("Evicted", True, "Preempted", message), condition("Preempted", True, "InClusterQueue")]
    status: Json = {"conditions": conditions}
    if "parked" in states:
        check = {"name": "gpustack-model-deployment-joint", "state": "Pending", "message": message}
        status["admissionChecks"] = [check]
    if holding:
        flavor = next((word.removeprefix("flavor-") for word in words if word.startswith("flavor-")), "h20")
        flavors = {"credits.gpustack.ai/nvidia": flavor, "cpu": "cpu-flavor"}
        status["admission"] = {"podSetAssignments": [{"name": role, "flavors": flavors}]}
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in members
    ]
    name = f"group-{role}-{ordinal}"
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "uid": f"{name}-uid", "ownerReferences": owners, "creationTimestamp": CREATED},
        "spec": {"queueName": "gpustack-h20", "active": not states & {"off", "parked"}},
        "status": status,
    }
