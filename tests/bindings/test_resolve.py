"""Resolving a deployment: all failures at once, and none that is not one (rendering sheet 18)."""

from dataclasses import replace

import pytest

from tests.render import build


def test_every_failure_of_every_role_is_told() -> None:
    roles = [
        {"name": "a", "instanceType": "missing"},
        {"name": "b", "resources": {"accelerator": "1500m", "interface": 1}},
        {"name": "c", "elasticEp": {"width": 2}},
    ]
    outcome = build.resolution(build.deployment(roles=roles))
    assert outcome.resolved is None
    assert [(f.role, f.retryable) for f in outcome.failures] == [("a", True), ("b", False), ("b", False), ("c", False)]
    assert [str(f).startswith(f"role {f.role}: ") for f in outcome.failures] == [True] * 4


@pytest.mark.parametrize(
    ("prefill", "decode", "fails"), [(2, 2, False), (4, 2, False), (2, 4, True), (1, 2, True)], ids=str
)
def test_an_ascend_decoder_is_no_wider_than_its_prefiller(prefill: int, decode: int, fails: bool) -> None:
    roles = build.pair(
        prefill={"extraArgs": ["-tp", str(prefill)], "resources": {"accelerator": 8}},
        decode={"extraArgs": ["-tp", str(decode)], "resources": {"accelerator": 8}},
    )
    document = build.deployment(roles=roles, router={"name": "llm-d-router"})
    ascend = build.resolution(document, [build.instance_type(manufacturer="ascend")])
    assert (ascend.resolved is None) is fails
    for failure in ascend.failures:
        assert str(prefill) in failure.message and str(decode) in failure.message
    assert build.resolution(document).resolved is not None


def test_roles_of_two_manufacturers_render_each_from_its_own_type() -> None:
    roles = build.pair(decode={"instanceType": "npu"})
    document = build.deployment(roles=roles, router={"name": "llm-d-router"})
    known = [build.instance_type(), build.instance_type("npu", "ascend")]
    connectors = {
        role: build.value_after(build.main(build.pod(document, known, role))["command"], "--kv-transfer-config")
        for role in ("prefill", "decode")
    }
    assert '"MooncakeConnector"' in (connectors["prefill"] or "")
    assert '"MooncakeConnectorV1"' in (connectors["decode"] or "")


def test_the_ascend_half_of_a_mixed_pair_still_needs_its_own_transport() -> None:
    roles = build.pair(decode={"instanceType": "npu"})
    document = build.deployment(roles=roles, router={"name": "llm-d-router"}, kvCache={"poolRef": {"name": "cache"}})
    known = [build.instance_type(), build.instance_type("npu", "ascend"), *build.store()]
    assert [failure.role for failure in build.resolution(document, known).failures] == ["decode"]


def test_an_unobserved_accelerated_type_is_a_retryable_failure() -> None:
    unobserved = build.instance_type(status={"detail": {"manufacturer": ""}})
    failures = build.resolution(build.deployment(), [unobserved]).failures
    assert [(f.role, f.retryable) for f in failures] == [("server", True)]
    assert "status.detail.manufacturer" in failures[0].message


def test_a_deployment_without_a_namespace_lives_in_default() -> None:
    document = build.deployment()
    homeless = document.model_copy(update={"metadata": document.metadata.model_copy(update={"namespace": None})})
    assert build.pod(homeless)["metadata"]["namespace"] == "default"


def test_half_a_connection_is_a_retryable_failure_and_never_half_a_connector() -> None:
    document = build.deployment(kvCache={"poolRef": {"name": "cache"}})
    store = build.resolved(document, build.store()).store
    assert store is not None
    failures = build.resolution(document, remembered=replace(store, offers=())).failures
    assert [failure.retryable for failure in failures] == [True]
    assert "shared-dram" in failures[0].message and "protocol" in failures[0].message


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
def test_an_identity_that_would_split_the_stores_keys_is_a_failure(engine: str) -> None:
    status = {
        "resolved": {"revision": build.COMMIT, "manifestDigest": "sha256:a@b:c", "sizeBytes": 1},
        "conditions": [{"type": "Resolved", "status": "True"}],
    }
    cached = {"kvCache": {"poolRef": {"name": "cache"}}, "model": {"artifactRef": {"name": "weights"}}}
    document = build.deployment(engine, **cached)
    known = [*build.store(), build.artifact(resolved=status)]
    settings = {"model-artifact-sglang-cache-prefix": True}
    failures = build.resolution(document, known, settings=settings).failures
    assert [failure.retryable for failure in failures] == [False]
    assert "m-a@b:c" in failures[0].message


def test_an_image_of_weights_needs_a_cluster_that_mounts_images() -> None:
    document = build.deployment(model={"artifactRef": {"name": "weights"}})
    known = [build.artifact({"image": {"reference": f"registry/qwen@{build.DIGEST}"}})]
    assert build.resolution(document, known, kubernetes=(1, 35)).resolved is not None
    failures = build.resolution(document, known, kubernetes=(1, 34)).failures
    assert len(failures) == 1
    assert "1.35" in failures[0].message and "1.34" in failures[0].message
