"""Edits around a router (router sheet 15): which objects move, which engine replicas roll, and how that is shown."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_components.api.model_deployment import ModelDeployment
from gpustack_components.bindings.resolve import ResolvedDeployment
from gpustack_components.render.difference import difference, router_difference
from gpustack_components.render.fingerprint import fingerprint
from gpustack_components.render.replica import render_replica
from gpustack_components.render.router import router_objects
from gpustack_components.render.router.explain import explain_router
from gpustack_components.render.services import front_services
from tests.render import build
from tests.render.routers import MATRIX, Routed

Json = dict[str, Any]
PULL = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(1, 9),
        "image": st.sampled_from(["own:1", "own:latest", f"own@{build.DIGEST}"]),
        "imagePullPolicy": st.sampled_from(["Always", "Never", "IfNotPresent"]),
        "imagePullSecrets": st.lists(st.sampled_from("abc").map(lambda name: {"name": name}), max_size=3),
        "extraArgs": st.lists(st.text(min_size=1, max_size=8), max_size=3),
        "requestTimeoutSeconds": st.integers(1, 100000),
    },
)
"""Everything in `spec.router` but its name, and the threshold, which one router has."""


def engine_side(resolved: ResolvedDeployment) -> Json:
    """Everything but the router: the Services, and each role's first Pod with its fingerprint."""
    return {
        "services": front_services(resolved),
        "pods": [render_replica(resolved, role, 0).members for role in resolved.roles],
        "hashes": [fingerprint(resolved, role, 0, 0) for role in resolved.roles],
    }


@settings(deadline=None, max_examples=50)
@given(case=st.sampled_from(MATRIX), before=PULL, after=PULL, threshold=st.one_of(st.none(), st.integers(0, 2**31 - 1)))
def test_no_edit_inside_the_block_reaches_an_engine_pod(
    case: Routed, before: Json, after: Json, threshold: int | None
) -> None:
    if threshold is not None and case.router == "llm-d-router":
        after = {**after, "disaggregationThresholdTokens": threshold}
    old, new = case.resolved(before), case.resolved(after)
    assert engine_side(old) == engine_side(new)
    assert difference(old, new) == ()


@settings(deadline=None, max_examples=50)
@given(case=st.sampled_from(MATRIX), before=PULL, after=PULL)
def test_a_difference_is_shown_exactly_when_there_is_one(case: Routed, before: Json, after: Json) -> None:
    old, new = case.resolved(before), case.resolved(after)
    found = router_difference(old, new)
    assert (found is not None) == (router_objects(old) != router_objects(new))
    if found is not None:
        assert found.changes
        assert found.replicas == (before.get("replicas", 1), after.get("replicas", 1))


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case.name)
def test_everything_in_a_router_is_explained(case: Routed) -> None:
    lines = explain_router(case.resolved({"replicas": 2}))
    assert all(line.rule and line.value for line in lines)
    shown = {line.value for line in lines}
    for one in router_objects(case.resolved({"replicas": 2})):
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                words = " ".join(line.value for line in lines if line.part == "argument").split()
                assert set(container["args"]) <= set(words)
                assert container["image"] in shown


EDITS: list[tuple[Json, set[str], bool]] = [
    ({"replicas": 3}, {"Deployment", "PodDisruptionBudget"}, False),
    ({"image": "own:1"}, {"Deployment"}, True),
    ({"imagePullPolicy": "Always"}, {"Deployment"}, True),
    ({"imagePullSecrets": [{"name": "a"}]}, {"Deployment"}, True),
    ({"extraArgs": ["--v=4"]}, {"ConfigMap", "Deployment"}, True),
    ({"requestTimeoutSeconds": 90}, {"ConfigMap", "Deployment"}, True),
    ({"disaggregationThresholdTokens": 0}, {"ConfigMap", "Deployment"}, True),
]


@pytest.mark.parametrize(
    ("edit", "moved", "replaced"), EDITS, ids=lambda value: str(sorted(value) if isinstance(value, set) else value)
)
def test_an_edit_moves_these_objects_of_llm_d_router(edit: Json, moved: set[str], replaced: bool) -> None:
    def resolved(router: Json) -> ResolvedDeployment:
        return build.resolved(build.deployment(roles=build.pair(), router={"name": "llm-d-router", **router}))

    def objects(found: ResolvedDeployment) -> Json:
        return {one["kind"]: one for one in router_objects(found)}

    before, after = resolved({}), resolved(edit)
    old, new = objects(before), objects(after)
    assert {kind for kind in {*old, *new} if old.get(kind) != new.get(kind)} == moved
    found = router_difference(before, after)
    assert found is not None and found.rolls == replaced


@pytest.mark.parametrize("case", MATRIX, ids=lambda case: case.name)
def test_scaling_a_role_moves_no_router_object(case: Routed) -> None:
    roles = [build.merged(role, {"replicas": 7}) for role in case.roles["roles"]]
    scaled = Routed(case.router, case.engine, {**case.roles, "roles": roles})
    assert router_objects(scaled.resolved()) == router_objects(case.resolved())
    assert router_difference(case.resolved(), scaled.resolved()) is None


def test_a_router_that_comes_or_goes_is_counted() -> None:
    without = build.resolved(build.deployment())
    routed = build.resolved(build.deployment(router={"name": "vllm-router", "replicas": 2}))
    came, gone = router_difference(without, routed), router_difference(routed, without)
    assert came is not None and gone is not None
    assert (came.replicas, gone.replicas) == ((0, 2), (2, 0))
    assert router_difference(without, without) is None


def test_roles_on_different_ports_are_a_failure_that_names_them_and_no_crash() -> None:
    roles = build.pair(prefill={"ports": [{"port": 8100}]})
    document = build.deployment(roles=roles, router={"name": "vllm-router"})
    outcome = build.resolution(document)
    assert outcome.resolved is None
    [failure] = outcome.failures
    assert failure.role == "" and not failure.retryable
    assert all(word in str(failure) for word in ("spec.router", "vllm-router", "8000 and 8100", "--port"))


def test_a_deployment_without_a_namespace_is_routed_in_the_default_one() -> None:
    raw = build.deployment(router={"name": "vllm-router"}).model_dump(by_alias=True, exclude_unset=True)
    raw["metadata"].pop("namespace")
    found = build.resolved(ModelDeployment.model_validate(raw))
    for one in router_objects(found):
        assert one["metadata"]["namespace"] == "default"
        if one["kind"] == "Deployment":
            args = one["spec"]["template"]["spec"]["containers"][0]["args"]
            assert "--service-discovery-namespace=default" in args
