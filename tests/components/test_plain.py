"""Values at Pulumi's border: what is plain, what is not known, and what an unknown value hides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.output import UNKNOWN, Unknown

from gpustack_components.components.plain import Known, known, paths_of, plain


def is_unknown(value: object) -> bool:
    return isinstance(value, Unknown)


def test_whole_floats_become_ints_and_others_stay():
    assert plain({"replicas": 3.0, "share": 0.5, "on": True}) == {"replicas": 3, "share": 0.5, "on": True}
    assert isinstance(plain(3.0), int) and plain(True) is True


def test_absent_members_go_at_any_depth():
    assert plain({"a": None, "b": [{"c": None, "d": 1.0}]}) == {"b": [{"d": 1}]}


def test_unknown_values_are_named_by_path_and_replaced_by_legal_words():
    value = {"engine": {"image": UNKNOWN}, "roles": [{"additionalVolumes": [{"mountPath": UNKNOWN}]}]}
    found = known(value, is_unknown, "spec")
    assert found.unknown == ("spec.engine.image", "spec.roles[0].additionalVolumes[0].mountPath")
    assert found.value["roles"][0]["additionalVolumes"][0]["mountPath"].startswith("/")


@given(st.permutations(["router", "engine", "kvCache"]), st.permutations(["image", "extraArgs"]))
def test_unknown_values_are_named_in_one_order_whatever_the_order_of_the_members(outer: list[str], inner: list[str]):
    value = {part: dict.fromkeys(inner, UNKNOWN) for part in outer} | {"roles": [{}] * 10 + [{"image": UNKNOWN}] * 2}
    found = known(value, is_unknown)
    assert [path for path, _ in paths_of(value, is_unknown)] == [*found.unknown]
    assert found.unknown == (
        "engine.extraArgs", "engine.image", "kvCache.extraArgs", "kvCache.image", "roles[10].image", "roles[11].image",
        "router.extraArgs", "router.image",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hidden", "path", "hides"),
    [
        ("spec.engine.image", "spec.engine.image", True),
        ("spec.engine.image", "spec.engine", True),
        ("spec.engine.image", "spec.engine.name", False),
        ("spec.engine.image", "spec.roles[0].image", False),
        ("spec.roles[0].extraArgs[1]", "spec.roles[0].resources.accelerator", True),
        ("spec.roles[0].extraArgs[1]", "spec.roles[1].resources.accelerator", False),
        ("spec.roles[1].command[0]", "spec.router.name", True),
        ("spec.roles[1].env[0].value", "spec.roles[1].kind", True),
        ("spec.roles[1].image", "spec.roles[1].kind", False),
        ("spec.roles[1]", "spec.roles[10].kind", False),
        ("spec", "spec.roles[0].name", True),
        ("spec.engine.image", "", True),
    ],
)
def test_an_unknown_value_hides_what_could_depend_on_it_and_nothing_else(hidden: str, path: str, hides: bool):
    assert Known(None, (hidden,)).hides(path) is hides


def test_nothing_is_hidden_when_everything_is_known():
    assert not Known({}, ()).hides("") and not Known({}, ()).hides("spec.roles")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_plain_is_idempotent(value: object):
    assert plain(plain(value)) == plain(value)


@given(json_values)
def test_a_value_without_unknowns_is_known(value: object):
    assert known(value, is_unknown).unknown == ()
