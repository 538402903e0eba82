"""When the Rollout has something to do: `diff` over outputs in state and checked inputs."""

from typing import Any

import pytest
from pulumi.output import UNKNOWN

from gpustack_components.components.provider import RolloutProvider

INPUTS: dict[str, Any] = {
    "metadata": {"name": "qwen", "namespace": "team-a"},
    "spec": {"roles": [{"name": "server", "replicas": 3.0}]},
    "bindings": [{"kind": "InstanceType"}],
    "owner": "pulumi stack acme/llm/prod",
    "plan": [],
    "observed": {"cluster": "answers", "record": "generation 1, Converged", "settled": True},
    "__provider": "pickled",
}
STATE: dict[str, Any] = {
    **{key: value for key, value in INPUTS.items() if key not in ("plan", "observed")},
    "phase": "Converged",
    "reasons": [],
}


def changes(state: dict[str, Any], inputs: dict[str, Any]) -> bool | None:
    return RolloutProvider().diff("team-a/qwen", state, inputs).changes


def test_nothing_to_do_is_no_change():
    assert changes(STATE, INPUTS) is False


def test_a_number_that_travelled_as_a_float_is_no_change():
    assert changes({**STATE, "spec": {"roles": [{"name": "server", "replicas": 3}]}}, INPUTS) is False


def test_another_plan_or_observation_alone_is_no_change():
    blind = {"cluster": "The API server could not be reached"}
    assert changes(STATE, {**INPUTS, "plan": ["the plan is not known"], "observed": blind}) is False


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"roles": []}},
        {"spec": UNKNOWN},
        {"spec": {"engine": {"image": UNKNOWN}}},
        {"bindings": []},
        {"settings": {"instance-privileged-allowed": True}},
        {"timeouts": {"ready": "1m"}},
        {"adopt": ["pulumi stack acme/llm/old"]},
        {"metadata": {"name": "qwen", "namespace": "team-a", "labels": {"a": "b"}}},
        {"kubeconfig": "text"},
        {"context": "other"},
    ],
)
def test_an_edit_is_a_change_in_place(edit: dict[str, Any]):
    result = RolloutProvider().diff("team-a/qwen", STATE, {**INPUTS, **edit})
    assert result.changes is True and not result.replaces


def test_a_rollout_that_did_not_converge_is_resumed_without_an_edit():
    assert changes({**STATE, "phase": "Incomplete"}, INPUTS) is True


def test_a_cluster_that_disagrees_with_the_state_is_a_change_without_an_edit():
    observed = {"cluster": "answers", "record": "generation 2, Progressing", "settled": False}
    assert changes(STATE, {**INPUTS, "observed": observed}) is True


@pytest.mark.parametrize("identity", [{"name": "chat"}, {"namespace": "team-b"}])
def test_another_name_or_namespace_replaces_and_deletes_first(identity: dict[str, str]):
    moved = {**INPUTS, "metadata": {**INPUTS["metadata"], **identity}}
    result = RolloutProvider().diff("team-a/qwen", STATE, moved)
    assert (result.changes, result.replaces, result.delete_before_replace) == (True, ["metadata"], True)
