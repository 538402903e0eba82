"""Several documents of one input judged together."""

from typing import Any

import pytest

from gpustack_components.admission.review import Review, review_all
from gpustack_components.api.decode import decode
from gpustack_components.bindings.catalog import Bindings
from gpustack_components.bindings.settings import Settings
from tests.admission.cases import edited, world, world_texts

Json = dict[str, Any]


def judge(*documents: Any, bindings: Bindings | None = None, old: dict[Any, Any] | None = None) -> tuple[Review, ...]:
    return review_all(documents, old=old or {}, bindings=bindings or world(), settings=Settings())


def rules(verdicts: tuple[Review, ...]) -> list[list[tuple[str, str]]]:
    return [[(refusal.rule, refusal.path) for refusal in verdict.refusals] for verdict in verdicts]


def deployment(name: str, *roles: str, namespace: str = "team-a", **role: Any) -> Json:
    edits = {"metadata.name": name, "metadata.namespace": namespace}
    listed = [{"name": one, "instanceType": "h20-8x", **role} for one in roles]
    return edited("server", {**edits, "spec.roles": listed})


def test_the_objects_of_one_input_are_bindings_of_its_deployments() -> None:
    declared = [raw for raw in world_texts() if raw["kind"] == "InstanceType"]
    verdicts = judge(*declared, edited("server", {"spec.roles[0].resources.accelerator": 9}), bindings=Bindings())
    assert rules(verdicts)[-1] == [("accelerator-capacity", "spec.roles[0].resources.accelerator")]
    assert all(verdict.accepted for verdict in verdicts[:-1])


def test_a_declared_object_goes_before_a_given_one() -> None:
    larger = next(raw for raw in world_texts() if raw["metadata"]["name"] == "h20-8x")
    larger = {**larger, "status": {**larger["status"], "accelerator": {"capacity": "16"}}}
    verdicts = judge(larger, edited("server", {"spec.roles[0].resources.accelerator": 9}))
    assert rules(verdicts) == [[], []]


@pytest.mark.parametrize(("namespace", "expected"), [("team-a", ["document-duplicate"]), ("team-b", [])])
def test_one_name_twice_is_refused_on_the_later_document(namespace: str, expected: list[str]) -> None:
    first, second = judge(deployment("qwen", "server"), deployment("qwen", "server", namespace=namespace))
    assert first.accepted
    assert [refusal.rule for refusal in second.refusals] == expected


def test_two_objects_of_one_name_are_said_once_and_on_the_later_one() -> None:
    shape = next(raw for raw in world_texts() if raw["metadata"]["name"] == "h20-8x")
    elsewhere = {
        **shape,
        "metadata": {**shape["metadata"], "namespace": "team-a"},
        "spec": {**shape["spec"], "os": "l"},
    }
    found = rules(judge(shape, elsewhere, edited("server", {}), bindings=Bindings()))
    assert found == [[], [("document-duplicate", "metadata.name")], []]


def test_an_absent_namespace_is_the_default_one() -> None:
    unnamed = edited("server", {"metadata.namespace": None})
    _, second = judge(unnamed, edited("server", {"metadata.namespace": "default"}))
    assert "document-duplicate" in [refusal.rule for refusal in second.refusals]


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (deployment("a", "b-c"), deployment("a-b", "c"), "spec.roles[0].name"),
        (deployment("a", "b"), deployment("a-b", "c"), "metadata.name"),
        (
            deployment("a", "router"),
            edited("server", {"metadata.name": "a-router", "spec.roles[0].name": "x"}),
            "metadata.name",
        ),
        (deployment("a", "b", replicas=2, size=2), deployment("a-b", "r1"), "spec.roles[0].name"),
        (deployment("a-b", "r1"), deployment("a", "b", replicas=2, size=2), "spec.roles[0].name"),
    ],
)
def test_two_deployments_may_not_share_a_service(one: Json, other: Json, path: str) -> None:
    found = rules(judge(one, other))
    assert found[0] == []
    assert ("service-name-shared", path) in found[1]
    elsewhere = {**other, "metadata": {**other["metadata"], "namespace": "team-b"}}
    assert rules(judge(one, elsewhere)) == [[], []]


def test_the_router_of_one_and_the_role_of_another_may_not_share_a_service() -> None:
    routed = edited("server", {"metadata.name": "a-b", "spec.router": {"name": "llm-d-router"}})
    found = rules(judge(deployment("a", "b-router"), routed))
    assert found == [[], [("service-name-shared", "spec.router")]]


def test_deployments_with_names_of_their_own_are_accepted() -> None:
    verdicts = judge(deployment("a", "b", replicas=2, size=2), deployment("a-c", "b"), deployment("a-b", "r2"))
    assert rules(verdicts) == [[], [], [("service-name-shared", "metadata.name")]]


def test_a_scaler_is_judged_by_the_deployment_beside_it() -> None:
    scaler = edited("scaler", {"spec.roles[1].name": "decoder", "spec.ratios": None})
    targets = [{"name": "prefill", "target": "3"}, {"name": "decoder", "target": "3"}]
    scaler["spec"]["algorithm"]["proportional"]["roleTargets"] = targets
    verdict = judge(scaler, edited("pair", {}))[0]
    assert [refusal.path for refusal in verdict.refusals] == ["spec.roles", "spec.roles[1].name"]
    assert verdict.unjudged == ()


def test_two_active_scalers_of_one_deployment_are_refused() -> None:
    first = edited("scaler", {"spec.mode": "Active"})
    second = edited("scaler", {"spec.mode": "Active", "metadata.name": "other"})
    assert rules(judge(first, second)) == [[], [("scaler-already-bound", "spec.targetRef.name")]]
    assert rules(judge(first, edited("scaler", {"metadata.name": "other"}))) == [[], []]


def test_each_document_meets_its_own_stored_one() -> None:
    old = {("ModelDeployment", "team-a", "qwen"): edited("server", {"spec.model.name": "before"})}
    verdicts = judge(edited("scaler", {}), edited("server", {}), old=old)
    assert rules(verdicts)[1] == [("identity-model", "spec.model")]


def test_documents_that_do_not_decode_do_not_hide_the_others() -> None:
    verdicts = judge({"kind": "Deployment"}, None, [], decode(edited("server", {})).document)
    assert [verdict.accepted for verdict in verdicts] == [False, False, False, True]
