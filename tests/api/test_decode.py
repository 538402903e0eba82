"""Decoding: every refusal of api sheet 6.1 with path and words, schema defaults, and what live objects may hold."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.api.decode import decode
from gpustack_components.api.encode import encode
from gpustack_components.api.instance_type import InstanceType
from gpustack_components.api.kv_cache import KVCacheBackend, KVCachePoolBinding
from gpustack_components.api.load import load_text
from gpustack_components.api.model_artifact import ModelArtifact
from gpustack_components.api.model_deployment import ModelDeployment, Role
from gpustack_components.api.scaler import ModelDeploymentScaler
from tests.api.manifests import SMALLEST, changed

DATA = Path(__file__).parents[1] / "data"
SEEDS = sorted((DATA / "seeds").glob("*.yaml"))
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "decode.yaml").read_text())

H20: dict[str, Any] = {
    "kind": "InstanceType",
    "metadata": {"name": "h20-8x"},
    "spec": {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-h20",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "16", "ram": "64Gi"},
        "localStorage": "512Gi",
    },
}


def role(**fields: Any) -> Role:
    decoded = decode(changed(SMALLEST, {f"spec.roles[0].{name}": value for name, value in fields.items()}))
    assert isinstance(decoded.document, ModelDeployment), decoded.refusals
    return decoded.document.spec.roles[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_manifest_is_refused_at_the_field_with_the_rule_and_the_way_out(case: dict[str, Any]) -> None:
    decoded = decode(changed(SMALLEST, case["set"]))
    assert [(r.rule, r.path) for r in decoded.refusals] == [(r["rule"], r["path"]) for r in case["refusals"]]
    for refusal, expected in zip(decoded.refusals, case["refusals"], strict=True):
        for name in expected["names"]:
            assert name in refusal.message
    assert (decoded.document is None) is bool(case["refusals"])


def test_a_refusal_shows_the_value_found() -> None:
    decoded = decode(changed(SMALLEST, {"spec.roles[0].replicas": 2000}))
    assert [refusal.value for refusal in decoded.refusals] == [2000]


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_the_seed_manifests_are_accepted_and_come_back_unchanged(path: Path) -> None:
    for raw in load_text(path.read_text(), str(path)):
        decoded = decode(raw.value)
        assert decoded.refusals == ()
        assert decoded.document is not None
        assert decode(encode(decoded.document)).document == decoded.document


def test_the_engine_version_of_an_older_build_is_refused_for_the_image() -> None:
    path = DATA / "seeds" / "refused" / "prefill-decode-engine-version.yaml"
    (raw,) = load_text(path.read_text(), str(path))
    refusals = decode(raw.value).refusals
    assert [(r.rule, r.path) for r in refusals] == [
        ("unknown-field", "spec.engine.version"),
        ("schema-required", "spec.engine.image"),
    ]


def test_schema_defaults_are_filled_and_nothing_else_is() -> None:
    document = decode(
        changed(SMALLEST, {"spec.kvCache": {"poolRef": {"name": "p"}}, "spec.router": {"name": "vllm-router"}})
    ).document
    assert isinstance(document, ModelDeployment)
    spec, server = document.spec, document.spec.roles[0]
    assert spec.kv_cache is not None
    assert spec.router is not None
    assert (server.kind, server.replicas, server.size, server.startup_timeout_seconds) == ("Server", 1, 1, 1800)
    assert spec.kv_cache.connector == "Mooncake"
    assert (server.resources, server.shm_size, server.termination_grace_period_seconds) == (None, None, None)
    assert (spec.router.replicas, spec.kv_transfer) == (None, None)
    assert role(ports=[{"port": 80}]).ports[0].protocol == "TCP"


def test_an_explicit_router_replica_stays_apart_from_an_absent_one() -> None:
    document = decode(changed(SMALLEST, {"spec.router": {"name": "vllm-router", "replicas": 1}})).document
    assert isinstance(document, ModelDeployment)
    assert document.spec.router is not None
    assert document.spec.router.replicas == 1
    assert encode(document)["spec"]["router"] == {"name": "vllm-router", "replicas": 1}


def test_whole_floats_are_integers_as_pulumi_sends_them() -> None:
    server = role(replicas=3.0, resources={"accelerator": 2.0}, startupTimeoutSeconds=60.0)
    assert (server.replicas, server.startup_timeout_seconds) == (3, 60)
    assert server.resources is not None
    assert server.resources.accelerator == 2
    assert encode(server)["resources"] == {"accelerator": 2}


@pytest.mark.parametrize("accelerator", [2, "2", "2000m", 2.0])
def test_quantities_are_numbers_or_text(accelerator: Any) -> None:
    resources = role(resources={"accelerator": accelerator}).resources
    assert resources is not None
    assert resources.accelerator == 2


def test_an_explicit_zero_accelerator_is_kept() -> None:
    resources = role(resources={"accelerator": 0}).resources
    assert resources is not None
    assert resources.accelerator is not None
    assert encode(resources) == {"accelerator": 0}


def test_a_null_field_is_absent() -> None:
    assert role(additionalVolumes=[{"mountPath": "/m", "subPath": None}], resources={"accelerator": None}) == role(
        additionalVolumes=[{"mountPath": "/m"}], resources={}
    )
    raw = {**SMALLEST, "spec": {**SMALLEST["spec"], "engine": {"name": "vLLM", "image": None}}}
    assert [(r.rule, r.path) for r in decode(raw).refusals] == [("schema-required", "spec.engine.image")]


def test_server_filled_metadata_and_status_of_a_live_deployment_are_accepted() -> None:
    live = changed(SMALLEST, {"status": {"phase": "Ready", "anything": [1, {"a": None}]}})
    live["metadata"] |= {
        "uid": "0d7c",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["a/b"],
        "ownerReferences": [{"kind": "X"}],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    }
    document = decode(live).document
    assert document is not None
    assert document.metadata.generation == 3
    assert encode(document)["status"]["phase"] == "Ready"


def test_a_stored_deployment_loses_the_field_of_an_earlier_build_and_a_new_one_is_refused_for_it() -> None:
    raw = changed(SMALLEST, {"spec.roles[0].elasticEp": {"width": 2, "headInstanceType": "cpu"}})
    assert [r.rule for r in decode(raw).refusals] == ["unknown-field"]
    document = decode(raw, stored=True).document
    assert document is not None
    assert encode(document)["spec"]["roles"][0]["elasticEp"] == {"width": 2}
    assert raw["spec"]["roles"][0]["elasticEp"]["headInstanceType"] == "cpu"


def test_a_stored_deployment_is_still_refused_for_any_other_unknown_field() -> None:
    decoded = decode(changed(SMALLEST, {"spec.surprise": 1}), stored=True)
    assert [r.path for r in decoded.refusals] == ["spec.surprise"]


def test_a_declared_binding_object_is_strict_and_a_live_one_is_not() -> None:
    declared = changed(H20, {"spec.surprise": 1})
    assert [r.path for r in decode(declared).refusals] == ["spec.surprise"]
    assert decode(declared, stored=True).refusals == ()
    live = changed(declared, {"metadata": {"name": "h20-8x", "resourceVersion": "1", "newServerField": {}}})
    assert decode(live).refusals == ()


def test_the_status_of_a_binding_object_may_hold_fields_this_product_does_not_read() -> None:
    raw = changed(H20, {"status": {"detail": {"manufacturer": "nvidia", "cpu": {"cores": 8}, "new": 1}, "unknown": []}})
    document = decode(raw).document
    assert isinstance(document, InstanceType)
    assert document.status is not None
    assert document.status.detail.manufacturer == "nvidia"


@pytest.mark.parametrize(
    ("status", "entrance"), [({}, None), ({"entrance": ""}, ""), ({"entrance": "q"}, "q"), ({"entrance": None}, None)]
)
def test_an_absent_entrance_stays_apart_from_an_empty_one(status: dict[str, Any], entrance: str | None) -> None:
    document = decode(changed(H20, {"status": status})).document
    assert isinstance(document, InstanceType)
    assert document.status is not None
    assert document.status.entrance == entrance


def test_a_binding_without_a_status_stays_apart_from_one_with_an_empty_status() -> None:
    raw: dict[str, Any] = {
        "kind": "KVCachePoolBinding",
        "metadata": {"name": "b", "namespace": "n"},
        "spec": {
            "poolRef": {"name": "p"},
            "quota": {"ceiling": "600Gi"},
            "domain": {"blockSize": 64, "dtype": "fp8_e4m3"},
        },
    }
    absent, empty = decode(raw).document, decode({**raw, "status": {}}).document
    assert isinstance(absent, KVCachePoolBinding)
    assert isinstance(empty, KVCachePoolBinding)
    assert absent.status is None
    assert empty.status is not None
    assert encode(empty)["status"] == {}
    assert "status" not in encode(absent)
    assert absent.spec.domain.name == "default"


def test_the_minimum_binding_documents_are_accepted() -> None:
    text = (DATA / "minimum_bindings.yaml").read_text()
    documents = {
        type(document): document for raw in load_text(text, "minimum") if (document := decode(raw.value).document)
    }
    assert len(documents) == 5
    backend, artifact = documents[KVCacheBackend], documents[ModelArtifact]
    assert isinstance(backend, KVCacheBackend)
    assert isinstance(artifact, ModelArtifact)
    assert backend.spec.connection.managed is not None
    assert backend.spec.connection.managed.leader.multi_tenancy
    assert [group.transport for group in backend.spec.connection.managed.members] == [None]
    assert artifact.status is not None
    assert artifact.status.resolved is not None
    assert artifact.status.resolved.size_bytes == 16381470720
    assert all(decode(encode(document)).document == document for document in documents.values())


@pytest.mark.parametrize(
    ("changes", "rule", "path"),
    [
        ({"spec.connection": {}}, "schema-one-of", "spec.connection"),
        ({"spec.connection": {"managed": {}, "external": {"endpoints": []}}}, "schema-one-of", "spec.connection"),
        (
            {"spec.connection.managed.leader": {"replicas": 6}},
            "schema-bounds",
            "spec.connection.managed.leader.replicas",
        ),
        ({"spec.transport": {"protocol": "tcp"}}, "schema-enum", "spec.transport.protocol"),
        (
            {"spec.connection.managed.leader": {"multiTenency": False}},
            "unknown-field",
            "spec.connection.managed.leader.multiTenency",
        ),
    ],
)
def test_a_backend_is_refused(changes: dict[str, Any], rule: str, path: str) -> None:
    backend = {
        "kind": "KVCacheBackend",
        "metadata": {"name": "b"},
        "spec": {"transport": {}, "connection": {"managed": {}}},
    }
    assert [(r.rule, r.path) for r in decode(changed(backend, changes)).refusals] == [(rule, path)]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({}, "spec.source"),
        ({"huggingFace": {"repository": "a/b"}, "image": {"reference": f"a@sha256:{'0' * 64}"}}, "spec.source"),
        ({"image": {"reference": "a:latest"}}, "spec.source.image.reference"),
        ({"huggingFace": {"repository": "a/b/c"}}, "spec.source.huggingFace.repository"),
        ({"huggingFace": {"repository": "-a"}}, "spec.source.huggingFace.repository"),
        ({"modelScope": {"repository": "https://x/y"}}, "spec.source.modelScope.repository"),
        ({"huggingFace": {"repository": "a", "revision": "a b"}}, "spec.source.huggingFace.revision"),
        ({"persistentVolumeClaim": {"claimName": "c", "path": "/x"}}, "spec.source.persistentVolumeClaim.path"),
    ],
)
def test_an_artifact_source_is_refused(source: dict[str, Any], path: str) -> None:
    decoded = decode({"kind": "ModelArtifact", "metadata": {"name": "a"}, "spec": {"source": source}})
    assert [refusal.path for refusal in decoded.refusals] == [path]


def test_the_revision_of_a_hub_source_defaults_to_the_hubs_own_branch() -> None:
    for hub, revision in (("huggingFace", "main"), ("modelScope", "master")):
        raw = {
            "kind": "ModelArtifact",
            "metadata": {"name": "a"},
            "spec": {"source": {hub: {"repository": "Qwen/Qwen3-8B"}}},
        }
        document = decode(raw).document
        assert document is not None
        assert encode(document)["spec"]["source"][hub]["revision"] == revision


def test_a_scaler_is_stored_with_its_defaults_and_a_zero_window_as_300() -> None:
    (raw,) = load_text((DATA / "seeds" / "scaling-policy.yaml").read_text(), "scaling-policy.yaml")
    document = decode(raw.value).document
    assert isinstance(document, ModelDeploymentScaler)
    spec = document.spec
    assert (spec.suspend, spec.sampling.pending_timeout_seconds) == (False, 300)
    assert spec.behavior.scale_down.stabilization_window_seconds == 300
    zero = changed(raw.value, {"spec.behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}})
    stored = decode(zero).document
    assert stored is not None
    assert encode(stored)["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"spec.mode": "On"}, "spec.mode"),
        ({"spec.sampling": {"intervalSeconds": 4}}, "spec.sampling.intervalSeconds"),
        ({"spec.sampling": {"pendingTimeoutSeconds": 1201}}, "spec.sampling.pendingTimeoutSeconds"),
        ({"spec.roles[0].maxReplicas": None}, "spec.roles[0].maxReplicas"),
        ({"spec.roles[1].name": "prefill"}, "spec.roles[1].name"),
        ({"spec.roles": []}, "spec.roles"),
        ({"spec.algorithm.proportional.tolerance": "0"}, "spec.algorithm.proportional.tolerance"),
        ({"spec.algorithm.proportional.tolerance": "1.1"}, "spec.algorithm.proportional.tolerance"),
        ({"spec.ratios[0].target": "-1"}, "spec.ratios[0].target"),
    ],
)
def test_a_scaler_is_refused(changes: dict[str, Any], path: str) -> None:
    (raw,) = load_text((DATA / "seeds" / "scaling-policy.yaml").read_text(), "scaling-policy.yaml")
    assert [refusal.path for refusal in decode(changed(raw.value, changes)).refusals] == [path]


def test_a_document_built_in_python_takes_both_spellings_of_a_field() -> None:
    assert Role.model_validate({"name": "a", "instance_type": "t"}) == Role.model_validate(
        {"name": "a", "instanceType": "t"}
    )
    assert Role(name="a", instance_type="t").instance_type == "t"


def test_a_document_is_frozen() -> None:
    server = role()
    with pytest.raises(ValueError, match="frozen"):
        server.replicas = 2  # type: ignore[misc]


def test_decoding_a_document_judges_it_again() -> None:
    document = decode(SMALLEST).document
    assert document is not None
    assert decode(document).document == document
