"""What only a cluster can tell of weights: whether they can reach Pods now, and which nodes suit them (bindings sheet
5.6)."""

from typing import Any

import pytest

from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.bindings.weights import WeightFacts, awaiting, claim_of, node_affinity
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.placement import placed
from tests.render import build

Json = dict[str, Any]
CASES = build.cases("deliveries")
CLAIM = {
    "metadata": {"name": "pvc"},
    "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "fast", "volumeName": "pv"},
    "status": {"phase": "Bound"},
}
CLASS = {"provisioner": "csi.example.com", "volumeBindingMode": "Immediate"}
ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
SOURCES: dict[str, tuple[Json | None, str]] = {
    "PVC": ({"persistentVolumeClaim": {"claimName": "pvc"}}, "Engine"),
    "Image": ({"image": {"reference": f"registry/qwen@{build.DIGEST}"}}, "Engine"),
    "Engine": (None, "Engine"),
    "Node": (None, "Node"),
}


def laid(base: Json, change: Json | None) -> Json | None:
    return None if change is None else build.merged(base, change)


def deployed(delivery: str, pods: int) -> ResolvedDeployment:
    source, mode = SOURCES[delivery]
    artifact: ModelArtifact = build.artifact(source)
    document = build.deployment(roles=[{"replicas": pods}], model={"artifactRef": {"name": "weights"}})
    return build.resolved(document, [artifact], settings={"model-artifact-delivery-mode": mode})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_delivery_that_cannot_work_now_holds_pods(case: Json) -> None:
    claim = claim_of(laid(CLAIM, case.get("claim", {})), laid(CLASS, case.get("class", {})), None)
    resolved = deployed(case.get("delivery", "PVC"), case["pods"])
    found = awaiting(resolved, WeightFacts(claim, case.get("plugin")))
    assert [hold.reason for hold in found.holds] == ([case["holds"]] if "holds" in case else [])
    assert all(word in found.holds[0].message for word in case.get("names", ()))
    assert fingerprint(found, "server", 0, 0) == fingerprint(resolved, "server", 0, 0)


@pytest.mark.parametrize("delivery", SOURCES)
def test_what_was_not_read_holds_nothing(delivery: str) -> None:
    resolved = deployed(delivery, 4)
    assert awaiting(resolved, WeightFacts()) is resolved


def test_every_pod_of_every_role_counts_against_a_claim_of_one_node() -> None:
    document = build.deployment(roles=build.pair(), model={"artifactRef": {"name": "weights"}})
    resolved = build.resolved(document, [build.artifact(SOURCES["PVC"][0])])
    once = claim_of(build.merged(CLAIM, {"spec": {"accessModes": ["ReadWriteOnce"]}}), None, None)
    (hold,) = awaiting(resolved, WeightFacts(once)).holds
    assert (hold.reason, "2 Pods" in hold.message) == ("AccessModeConflict", True)


def test_a_new_pod_is_bound_to_the_nodes_that_reach_its_claim_and_outside_its_fingerprint() -> None:
    resolved = deployed("PVC", 1)
    claim = claim_of(CLAIM, None, {"spec": {"nodeAffinity": {"required": ZONE}}})
    pod = build.pod(resolved.declared, [build.artifact(SOURCES["PVC"][0])])
    found = placed(pod, node_affinity(claim))
    assert found["spec"]["affinity"] == {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ZONE}}
    assert found["metadata"] == pod["metadata"] and "affinity" not in pod["spec"]
    assert {key: value for key, value in found["spec"].items() if key != "affinity"} == pod["spec"]


def test_a_new_pod_prefers_at_most_sixteen_nodes_that_hold_its_weights() -> None:
    nodes = [f"node-{index:02}" for index in range(40)]
    affinity = node_affinity(None, [*reversed(nodes), *nodes])
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    (match,) = term["preference"]["matchExpressions"]
    assert (match["key"], match["operator"], match["values"]) == ("kubernetes.io/hostname", "In", nodes[:16])
    assert set(affinity) == {"preferredDuringSchedulingIgnoredDuringExecution"}


def test_where_nothing_is_known_a_pod_stays_as_it_is_rendered() -> None:
    pod = build.pod(build.deployment())
    assert node_affinity(claim_of(CLAIM, None, {"spec": {}})) == node_affinity(None) == {}
    assert placed(pod, {}) is pod


def test_other_affinities_of_a_pod_are_kept() -> None:
    pod = {"spec": {"affinity": {"podAffinity": {"x": 1}}}}
    assert placed(pod, {"y": 2}) == {"spec": {"affinity": {"podAffinity": {"x": 1}, "nodeAffinity": {"y": 2}}}}
