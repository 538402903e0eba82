"""The review as a whole: order, aggregation, what ends it early, what it cannot judge, and that it never raises."""

import json
from typing import Any

import pytest
import yaml

from gpustack_components.admission import ports
from gpustack_components.admission import review as module
from gpustack_components.admission.registry import RULES, subjects
from gpustack_components.admission.review import Review, review, review_all
from gpustack_components.api.decode import decode
from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings
from tests.admission import coverage
from tests.admission.cases import DATA, applied, edited, world, world_texts

Json = dict[str, Any]


def judge(document: Any, old: Any = None, bindings: Bindings | None = None) -> Review:
    return review(document, old=old, bindings=bindings or world(), settings=Settings())


def rules(verdict: Review) -> list[str]:
    return [refusal.rule for refusal in verdict.refusals]


def test_every_rule_is_shown_refused_accepted_and_on_an_update() -> None:
    assert [row.rule.id for row in coverage.rows() if row.holes] == []


def test_rule_ids_are_unique_kebab_case_and_described() -> None:
    listed = [rule for group in subjects().values() for rule in group]
    assert len(listed) == len(RULES)
    for rule in listed:
        assert rule.id == rule.id.lower()
        assert " " not in rule.id
        assert rule.when
        assert rule.way_out.endswith(".")
        assert rule.paths


def test_refusals_come_in_the_order_of_section_8() -> None:
    base = edited("pair", {"spec.router": {"name": "vllm-router", "disaggregationThresholdTokens": 1}})
    document = applied(
        base,
        {
            "spec.model.artifactRef": {"name": "a"},
            "spec.kvCache": {"poolRef": {"name": ""}},
            "spec.roles[0].extraArgs": [
                "--kv-transfer-config",
                "-dpe",
                "-dph",
                "--revision=x",
                "--served-model-name=x",
            ],
            "spec.roles[0].env": [{"name": "MOONCAKE_CONFIG_PATH", "value": ""}, {"name": "HF_TOKEN", "value": ""}],
            "spec.roles[0].resources": {"accelerator": 1, "interface": -1},
            "spec.roles[0].shmSize": 0,
            "spec.roles[0].additionalVolumes": [{"mountPath": "/var/lib/gpustack/model"}],
            "spec.roles[0].ports": [{"port": 8998}],
            "spec.roles[0].privileged": True,
            "spec.roles[0].topology": {"requiredLevel": "kubernetes.io/hostname"},
            "spec.roles[1].extraArgs": ["--kv-cache-dtype=fp8", "-tp=two", "--port=1"],
            "spec.roles[1].ports": [{"port": 2}],
            "spec.roles[1].instanceType": "no-such",
        },
    )
    old = applied(
        document, {"spec.model.name": "other", "spec.router.name": "llm-d-router", "spec.roles[1].kind": None}
    )
    old = applied(old, {"spec.roles[1].ports": None, "spec.roles[0].privileged": None, "spec.roles[0].extraArgs": None})
    assert rules(judge(document, old)) == [
        "owned-argument",
        "balance-shape",
        "owned-env",
        "interface-count",
        "shm-size",
        "volume-source",
        "artifact-argument",
        "artifact-env",
        "artifact-mount-path",
        "reserved-port",
        "parallel-degree",
        "kv-cache-pool-ref",
        "topology-level",
        "router-threshold",
        "router-port-uniform",
        "host-privileged",
        "listen-port",
        "served-model-name",
        "kv-cache-dtype",
        "identity-model",
        "identity-role-kind",
        "router-name",
        "instance-type-not-found",
    ]


def test_a_document_that_does_not_decode_is_judged_by_nothing_else() -> None:
    document = edited("server", {"spec.roles[0].template": {}, "spec.roles[0].extraArgs": ["--kv-transfer-config"]})
    assert rules(judge(document)) == ["unknown-field"]


def test_a_type_that_is_not_ready_ends_the_pass_and_keeps_what_was_found() -> None:
    document = edited(
        "pair",
        {
            "spec.roles[0].extraArgs": ["--kv-transfer-config"],
            "spec.roles[0].instanceType": "fresh",
            "spec.roles[0].resources": {"acceleratorSlicedMemoryPercentage": 50},
            "spec.roles[1].resources.accelerator": 99,
        },
    )
    verdict = judge(document)
    assert rules(verdict) == ["owned-argument", "instance-type-not-ready"]
    assert [refusal.transient for refusal in verdict.refusals] == [False, True]


def test_an_accepted_document_comes_back_with_its_defaults() -> None:
    verdict = judge(edited("server", {"spec.roles[0].resources": None}))
    assert isinstance(verdict.document, ModelDeployment)
    role = verdict.document.spec.roles[0]
    assert role.resources is not None
    assert role.resources.accelerator == 1
    assert (role.kind, role.replicas, role.size) == ("Server", 1, 1)


def test_a_document_may_be_given_decoded_on_either_side() -> None:
    raw = edited("server", {"spec.roles[0].extraArgs": ["--kv-transfer-config"]})
    document, old = decode(raw).document, decode(edited("server", {})).document
    assert judge(document).refusals == judge(raw).refusals
    assert judge(document, old).refusals == judge(raw, edited("server", {})).refusals


def test_without_bindings_type_rules_are_left_open_and_the_others_judged() -> None:
    verdict = judge(edited("server", {"spec.roles[0].shmSize": 0}), bindings=Bindings())
    assert rules(verdict) == ["shm-size"]
    (gap,) = verdict.unjudged
    assert gap.path == "spec.roles[0].instanceType"
    assert "h20-8x" in gap.reason
    assert "accelerator-capacity" in gap.rules


def test_two_objects_of_one_name_are_refused_beside_every_deployment() -> None:
    shape = next(raw for raw in world_texts() if raw["metadata"]["name"] == "h20-8x")
    other = {**shape, "spec": {**shape["spec"], "localStorage": "1Gi"}}
    objects = [decode(raw).document for raw in (*world_texts(), other, other)]
    verdict = judge(edited("server", {}), bindings=Bindings.of(objects, complete=True))
    assert [(one.rule, one.path) for one in verdict.refusals] == [("binding-conflict", "")]
    assert "InstanceType h20-8x is declared twice" in str(verdict.refusals[0])
    same = [decode(raw).document for raw in (*world_texts(), shape)]
    assert judge(edited("server", {}), bindings=Bindings.of(same, complete=True)).accepted


def test_a_gap_is_said_once_for_each_field() -> None:
    verdict = judge(edited("pair", {}), bindings=Bindings())
    assert [gap.path for gap in verdict.unjudged] == ["spec.roles[0].instanceType", "spec.roles[1].instanceType"]


def test_all_that_one_missing_type_leaves_open_is_said_together() -> None:
    document = edited("server", {"spec.roles[0].resources": None, "spec.roles[0].extraArgs": ["-tp", "2"]})
    (gap,) = judge(document, bindings=Bindings()).unjudged
    assert {"parallel-width", "accelerator-capacity"} <= set(gap.rules)


def test_an_unreadable_previous_document_leaves_the_update_rules_open() -> None:
    verdict = judge(edited("server", {}), old={"kind": "ModelDeployment"})
    assert verdict.accepted
    (gap,) = verdict.unjudged
    assert "identity-model" in gap.rules
    assert "the previous document cannot be read" in gap.reason


def test_a_previous_document_of_another_kind_leaves_the_update_rules_open() -> None:
    verdict = judge(edited("server", {}), old=edited("scaler", {}))
    assert [gap.path for gap in verdict.unjudged] == ["kind"]


def test_a_crash_inside_a_rule_is_a_refusal_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge_broken(case: object, role: object) -> list[Any]:
        raise KeyError("planted")

    checks = tuple(judge_broken if check is ports.judge_reserved_ports else check for check in module._ROLE_CHECKS)
    monkeypatch.setattr(module, "_ROLE_CHECKS", checks)
    verdict = judge(edited("server", {"spec.roles[0].shmSize": 0}))
    assert rules(verdict) == ["shm-size", "internal-error"]
    assert "judge_broken" in verdict.refusals[1].message
    assert "KeyError" in verdict.refusals[1].message
    assert verdict.document is None


@pytest.mark.parametrize(
    ("engine", "kind", "router", "expected"),
    [
        ("TGI", "Server", None, "role-kind-unsupported"),
        ("TGI", "Server", "llm-d-router", "router-engine-metrics"),
    ],
)
def test_an_engine_the_tables_do_not_know_is_refused(
    engine: str, kind: str, router: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = decode(edited("server", {"spec.router": {"name": router} if router else None})).document
    assert isinstance(document, ModelDeployment)
    spec = document.spec.model_copy(update={"engine": document.spec.engine.model_copy(update={"name": engine})})
    unknown = document.model_copy(update={"spec": spec})
    verdict = module._review_deployment(unknown, None, world(), Settings(), None, [])
    assert expected in rules(verdict)
    known = module._review_deployment(document, None, world(), Settings(), None, [])
    assert known.accepted


def test_the_documented_manifests_are_accepted_as_they_stand() -> None:
    documents = yaml.safe_load((DATA.parent / "documented.yaml").read_text())["accepted"]
    shape = next(raw for raw in world_texts() if raw["metadata"]["name"] == "h20-8x")
    named = {role["instanceType"] for one in documents for role in one["spec"]["roles"] if "instanceType" in role}
    types = [decode({**shape, "metadata": {"name": name}}).document for name in sorted(named)]
    verdicts = review_all(documents, bindings=Bindings.of(types, complete=True), settings=Settings())
    assert [verdict.refusals for verdict in verdicts] == [()] * len(documents)
    assert len(documents) == 10


def test_every_refusal_is_plain_json() -> None:
    document = edited("pair", {"spec.roles[0].resources": {"accelerator": "9"}, "spec.roles[1].shmSize": "-1Gi"})
    for refusal in judge(document).refusals:
        assert json.loads(json.dumps(refusal.value)) == refusal.value
