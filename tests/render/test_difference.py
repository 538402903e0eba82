"""`render --diff`: what an edit changes in which Pod, and whether it rolls."""

from typing import Any

from gpustack_components.cluster.keys import MIN_RENDER_VERSION
from gpustack_components.render.difference import Change, FloorDifference, RoleDifference, difference, floors
from tests.render import build

Json = dict[str, Any]


def between(before: Json, after: Json, **options: Any) -> tuple[RoleDifference, ...]:
    old = build.resolved(build.deployment(**before))
    return difference(old, build.resolved(build.deployment(**after), **options))


def test_no_edit_is_no_difference() -> None:
    assert between({"roles": build.pair()}, {"roles": build.pair()}) == ()


def test_an_image_edit_rolls_its_role_and_changes_what_depends_on_it() -> None:
    (found,) = between({"roles": build.pair()}, {"roles": build.pair(prefill={"image": "own:1"})})
    assert (found.role, found.rolls) == ("prefill", True)
    assert {change.name for change in found.changes} == {"image", "gpustack-compile-cache"}
    assert found.changes[0] == Change(
        "container field", "image", "vllm/vllm-openai:v0.25.1", "own:1", "image (15.4)", "spec.roles[0].image"
    )


def test_an_argument_edit_shows_the_argument() -> None:
    (found,) = between(
        {"roles": [{"extraArgs": ["--a=1", "--b"]}]}, {"roles": [{"extraArgs": ["--a=2", "--b", "--c"]}]}
    )
    shown = {(change.name, change.before, change.after) for change in found.changes if change.part == "argument"}
    assert shown == {("--a=1", "--a=1", None), ("--a=2", None, "--a=2"), ("--c", None, "--c")}
    assert found.rolls


def test_a_count_edit_rolls_nothing_and_changes_no_pod() -> None:
    assert between({"roles": [{}]}, {"roles": [{"replicas": 5}]}) == (RoleDifference("server", False, (1, 5), ()),)


def test_a_setting_shows_on_new_pods_and_rolls_none() -> None:
    (found,) = between({}, {}, settings={"instance-general-resources-overcommit": False})
    assert not found.rolls
    assert ("cpu", "3200m", "32") in {(change.name, change.before, change.after) for change in found.changes}


def test_a_router_edit_is_no_difference_and_adding_one_rolls_what_it_reaches() -> None:
    routed = {"roles": build.pair(), "router": {"name": "llm-d-router"}}
    assert between(routed, {**routed, "router": {"name": "llm-d-router", "replicas": 3, "image": "r:2"}}) == ()
    added = between({"roles": build.pair()}, routed)
    assert [(found.role, found.rolls) for found in added] == [("prefill", True), ("decode", True)]
    assert "routing-proxy" in {change.name for change in added[1].changes}


def test_roles_that_come_and_go_are_counted_and_roll_no_other() -> None:
    found = between({"roles": [{"name": "a"}, {"name": "b"}]}, {"roles": [{"name": "a"}, {"name": "c", "replicas": 2}]})
    assert [(role.role, role.rolls, role.replicas) for role in found] == [("c", False, (0, 2)), ("b", False, (1, 0))]


def moved(before: str | None, after: str | None, current: int = 3) -> FloorDifference | None:
    old, new = (
        build.resolved(build.deployment(annotations={} if text is None else {MIN_RENDER_VERSION: text}))
        for text in (before, after)
    )
    assert difference(old, new) == ()
    return floors(old, new, current=current)


def test_a_raised_floor_rolls_what_older_versions_rendered() -> None:
    found = moved(None, "3")
    assert found == FloorDifference(1, 3, "3", 3)
    assert found.raised


def test_a_floor_never_exceeds_what_this_release_renders_and_never_rolls_when_lowered() -> None:
    above, lower, unread, same = moved("2", "9"), moved("3", "2"), moved("2", "new"), moved("2", "2")
    assert above and (above.after, above.raised) == (3, True)
    assert lower and (lower.after, lower.raised) == (2, False)
    assert unread and (unread.after, unread.raised) == (1, False)
    assert same is None
