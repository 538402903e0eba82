"""A run whose weights are in a claim of a real cluster: it waits while the claim has no volume, then goes on by
itself."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack_components.api.encode import encode
from gpustack_components.cluster.port import CONFIG_MAP, Json
from gpustack_components.cluster.readings import at
from gpustack_components.cluster.weight_objects import CLAIM, VOLUME
from gpustack_components.components.preview import prepare, preview
from gpustack_components.components.provider import _wanted as wanted_of  # pyright: ignore[reportPrivateUsage]
from gpustack_components.components.request import Request
from gpustack_components.rollout.contract import Outcome, Timeouts
from gpustack_components.rollout.converge import converge
from tests.render import build
from tests.rollout.lab import NAME, OWNER, QUEUE, Lab

pytestmark = pytest.mark.cluster
NODE = "gpu-1"


@pytest.fixture
def lab(kubeconfig: Path, namespace: str) -> Iterator[Lab]:
    """A namespace with a queue; its volume is deleted afterwards."""
    of = Lab(kubeconfig, namespace)
    yield of
    of.close()
    of.unseen.delete(VOLUME, None, namespace)


def covering(flavor: str) -> Json:
    """Plenty of everything that a Pod asks for."""
    quotas = {"cpu": "100", "memory": "1Ti", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "1"}
    resources = [{"name": key, "nominalQuota": quota} for key, quota in quotas.items()]
    return {"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}


def claim(namespace: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": namespace,
        },
    }


def volume(namespace: str) -> Json:
    """A volume that only one node reaches."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/srv/weights"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def asked(namespace: str) -> Request:
    role = {"resources": {"accelerator": 1}, "terminationGracePeriodSeconds": 15}
    document = build.merged(
        encode(build.deployment(roles=[role])),
        {"metadata": {"namespace": namespace}, "spec": {"model": {"artifactRef": {"name": "weights"}}}},
    )
    artifact = build.merged(
        encode(build.artifact({"persistentVolumeClaim": {"claimName": "pvc"}})), {"metadata": {"namespace": namespace}}
    )
    type_ = encode(build.instance_type(status={"entrance": QUEUE}))
    return Request(document, (type_, artifact), owner=OWNER)


def test_a_run_waits_for_its_claim_to_be_bound_and_places_the_pod_where_the_volume_is(lab: Lab) -> None:
    lab.open_queue(1)
    lab.set_quota(1, resourceGroups=[covering(lab.queue)])
    lab.unseen.create(claim(lab.namespace))
    request = asked(lab.namespace)
    shown = preview(request, None, lambda: lab.unseen)
    assert any("PersistentVolumeClaim" in line and "is Pending (no class)" in line for line in shown.plan), shown
    ended: list[Outcome] = []

    def run() -> None:
        wanted = wanted_of(request, prepare(request, lab.cluster), lab.cluster)
        bounds = Timeouts(weights=60, admission=20, ready=0, drain=20, lease=3)
        ended.append(converge(lab.cluster, wanted, timeouts=bounds, progress=lab.lines.append))

    thread = threading.Thread(target=run)
    thread.start()
    lab.until(lambda: any("waits: " in line for line in lab.lines))
    time.sleep(0.5)
    asked_so_far = len(lab.requests)
    time.sleep(1.0)
    assert len(lab.requests) == asked_so_far and lab.pods() == []
    record = lab.unseen.get(CONFIG_MAP, lab.namespace, f"{NAME}-modeldeployment")
    told = {one["type"]: one for one in json.loads(at(record, "data", "status"))["conditions"]}
    assert (told["WeightsReady"]["status"], told["WeightsReady"]["reason"]) == ("False", "ClaimNotBound")
    assert "is Pending (no class)" in told["WeightsReady"]["message"]
    lab.unseen.create(volume(lab.namespace))
    nudge = {"op": "add", "path": "/metadata/annotations", "value": {"look": "again"}}
    lab.unseen.patch(CLAIM, lab.namespace, "pvc", [nudge])
    thread.join(40)
    (outcome,) = ended
    assert outcome.phase == "Converged", (outcome.reasons, lab.lines)
    (pod,) = lab.pods()
    assert at(pod, "spec", "nodeName") == NODE
    required = at(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    assert required == volume(lab.namespace)["spec"]["nodeAffinity"]["required"]
    bound = preview(request, request, lambda: lab.unseen)
    assert not any("PersistentVolumeClaim" in line for line in bound.plan)
