"""Edits of a stored document (api sheet 9, RFC 7386)."""

import copy
from typing import Any

import pytest

from gpustack_components.api.decode import decode
from gpustack_components.api.merge import apply_merge, dropped_role_fields, merge_patch

STORED: dict[str, Any] = {
    "apiVersion": "worker.gpustack.ai/v1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen"},
    "spec": {
        "model": {"name": "m"},
        "engine": {"name": "vLLM", "image": "i"},
        "roles": [
            {
                "name": "prefill",
                "kind": "Prefill",
                "size": 2,
                "instanceType": "t",
                "resources": {"accelerator": 2},
                "extraArgs": ["--a", "--b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"port": 80}, {"port": 80, "protocol": "UDP", "name": "u"}],
            },
            {"name": "decode", "kind": "Decode", "instanceType": "t"},
        ],
    },
}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_give_the_results_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def test_a_merge_patch_of_one_role_field_replaces_all_roles() -> None:
    patched = merge_patch(STORED, {"spec": {"roles": [{"name": "prefill", "size": 3}]}})
    assert patched["spec"]["roles"] == [{"name": "prefill", "size": 3}]
    assert [refusal.path for refusal in decode(patched).refusals] == ["spec.roles[0].instanceType"]
    assert dropped_role_fields(STORED, patched) == tuple(
        f"spec.roles[0].{field}" for field in ("kind", "instanceType", "resources", "extraArgs", "env", "ports")
    )


def test_a_role_restated_without_its_name_is_refused_for_the_name() -> None:
    patched = merge_patch(STORED, {"spec": {"roles": [{"instanceType": "t"}]}})
    assert [(r.rule, r.path) for r in decode(patched).refusals] == [("schema-required", "spec.roles[0].name")]


def test_an_apply_merges_roles_env_and_ports_by_their_keys_and_other_lists_as_a_whole() -> None:
    before = copy.deepcopy(STORED)
    patch = {
        "spec": {
            "roles": [
                {
                    "name": "prefill",
                    "size": 3,
                    "extraArgs": ["--c"],
                    "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                    "ports": [{"port": 80, "protocol": "TCP", "name": "t"}],
                }
            ]
        }
    }
    applied = apply_merge(STORED, patch)
    prefill, decode_role = applied["spec"]["roles"]
    assert decode_role == STORED["spec"]["roles"][1]
    assert (prefill["kind"], prefill["size"], prefill["extraArgs"]) == ("Prefill", 3, ["--c"])
    assert prefill["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    assert prefill["ports"] == [
        {"port": 80, "protocol": "TCP", "name": "t"},
        {"port": 80, "protocol": "UDP", "name": "u"},
    ]
    assert before == STORED
    assert dropped_role_fields(STORED, applied) == ()


def test_dropped_fields_follow_a_role_to_its_new_position() -> None:
    new = copy.deepcopy(STORED)
    new["spec"]["roles"].reverse()
    del new["spec"]["roles"][1]["resources"]
    assert dropped_role_fields(STORED, new) == ("spec.roles[1].resources",)


@pytest.mark.parametrize(
    "broken", [None, [], {"spec": None}, {"spec": {"roles": {}}}, {"spec": {"roles": [1, {"name": 2}]}}]
)
def test_broken_documents_have_no_dropped_fields(broken: Any) -> None:
    assert dropped_role_fields(broken, STORED) == ()
    assert dropped_role_fields(STORED, broken) == ()
