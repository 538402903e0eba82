"""From ModelArtifact to weights: delivery, identity, and what holds Pods back (bindings sheet 5)."""

from typing import Any

import pytest

from gpustack_components.bindings.artifact import Artifact, cache_size, deliver, key_prefix
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.failure import Hold
from gpustack_components.bindings.settings import Settings
from gpustack_components.render.objects import render_all
from gpustack_components.render.replica import PodsHeld, render_replica
from tests.render import build

Json = dict[str, Any]
DOCUMENT = build.deployment(model={"artifactRef": {"name": "weights"}})
CLAIM = {"persistentVolumeClaim": {"claimName": "pvc"}}
IMAGE = {"image": {"reference": f"registry/qwen@{build.DIGEST}"}}
HUB = {"huggingFace": {"repository": "Qwen/Q"}}


def delivered(source: Json, mode: str = "Engine", **spec: Any) -> Artifact | Hold | None:
    settings = Settings.from_mapping({"model-artifact-delivery-mode": mode})
    return deliver(DOCUMENT, Bindings.of([build.artifact(source, **spec)]), settings)


@pytest.mark.parametrize(
    ("source", "mode", "delivery", "model"),
    [
        (CLAIM, "Engine", "PVC", "/var/lib/gpustack/model"),
        (CLAIM, "Node", "PVC", "/var/lib/gpustack/model"),
        (IMAGE, "Engine", "Image", "/var/lib/gpustack/model"),
        (IMAGE, "Node", "Image", "/var/lib/gpustack/model"),
        (HUB, "Engine", "Engine", "Qwen/Q"),
        (HUB, "Node", "Node", "/var/lib/gpustack/model"),
    ],
)
def test_source_and_setting_decide_the_delivery(source: Json, mode: str, delivery: str, model: str) -> None:
    found = delivered(source, mode)
    assert isinstance(found, Artifact)
    assert (found.delivery, found.model) == (delivery, model)


def test_the_identity_in_keys_is_the_digests_or_the_uids() -> None:
    assert key_prefix(build.DIGEST, "uid-qwen") == "m-0123456789abcdef0123456789abcdef"
    assert key_prefix("", "uid-qwen") == "m-57f3699032b8949484888f4bcc2497e0"
    assert key_prefix("", "") == ""


@pytest.mark.parametrize(("size", "cache"), [(100 << 30, 110 << 30), (1 << 20, 1025 << 20), (0, 1 << 30)])
def test_the_download_volume_has_a_tenth_or_a_gibibyte_to_spare(size: int, cache: int) -> None:
    assert cache_size(size) == cache


RESOLVED = [{"type": "Resolved", "status": "True"}]


@pytest.mark.parametrize(
    ("reason", "artifact"),
    [
        ("ArtifactNotFound", None),
        ("ArtifactNotResolved", build.artifact(resolved={})),
        ("ArtifactNotResolved", build.artifact(resolved={"conditions": [{"type": "Resolved", "status": "False"}]})),
        ("ArtifactNotResolved", build.artifact(resolved={"conditions": RESOLVED})),
        ("ArtifactNotResolved", build.artifact(CLAIM, resolved={})),
        ("FilterNeedsNodeDelivery", build.artifact(allowPatterns=["*.safetensors"])),
        ("FilterNeedsNodeDelivery", build.artifact(ignorePatterns=["*.bin"])),
        ("AnchorNeedsNodeDelivery", build.artifact(expectedDigest=build.DIGEST)),
    ],
)
def test_weights_that_may_not_be_used_yet_hold_pods_and_nothing_else(reason: str, artifact: object) -> None:
    found = build.resolved(DOCUMENT, [artifact])
    assert [hold.reason for hold in found.holds] == [reason]
    assert "weights" in found.holds[0].message
    assert {manifest["kind"] for manifest in render_all(found)} == {"LocalQueue", "Service"}
    with pytest.raises(PodsHeld, match=reason):
        render_replica(found, "server", 0)


def test_what_cannot_be_sized_or_named_is_held_too() -> None:
    unsized = {"resolved": {"revision": build.COMMIT, "manifestDigest": build.DIGEST}, "conditions": RESOLVED}
    assert isinstance(delivered(HUB, "Engine", resolved=unsized), Hold)
    assert isinstance(delivered(HUB, "Node", resolved=unsized), Artifact)
    assert isinstance(delivered(HUB, "Node", uid=None), Hold)
    assert isinstance(delivered(HUB, "Engine", uid=None), Artifact)


@pytest.mark.parametrize("spec", [{"allowPatterns": ["*.safetensors"]}, {"expectedDigest": build.DIGEST}])
def test_node_delivery_filters_and_checks(spec: Json) -> None:
    assert isinstance(delivered(HUB, "Node", **spec), Artifact)


def test_a_deployment_without_a_reference_has_no_artifact() -> None:
    assert deliver(build.deployment(), Bindings.of([build.artifact()]), Settings()) is None


def test_a_declared_claim_without_a_uid_cannot_be_named_in_the_stores_keys() -> None:
    document = build.deployment(model={"artifactRef": {"name": "weights"}}, kvCache={"poolRef": {"name": "cache"}})
    failures = build.resolution(document, [*build.store(), build.artifact(CLAIM, uid=None)]).failures
    assert [failure.retryable for failure in failures] == [True]
    assert "metadata.uid" in failures[0].message
    assert build.resolution(DOCUMENT, [build.artifact(CLAIM, uid=None)]).resolved is not None
