"""Whom a Service in front of a role selects, for every mix of shapes (rollout sheet 5.3)."""

from dataclasses import replace
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.actions import Select
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.desired import Front
from gpustack_components.rollout.observe import observe
from gpustack_components.rollout.selection import follows_shapes
from tests.rollout.notation import OWNER, desired, pod

RANKS = ["--data-parallel-size", "2", "--data-parallel-rank", "0"]
BASE = {keys.APP_COMPONENT: "server"}
LEADER = {**BASE, keys.MEMBER_INDEX: "0"}
LABELLED = {**BASE, keys.API_ANSWERING: "true"}
QUALIFIED = {**BASE, keys.ENDPOINT_ELIGIBLE: "true"}


def replica(
    ordinal: int, total: int, *, args: list[str] | None = None, takeover: bool = False, labelled: bool = True
) -> list[Json]:
    """A running replica of that many Pods; who answers carries the label, unless it is an older one."""
    made: list[Json] = []
    for index in range(total):
        raw = pod("new", ordinal, member=index, total=total, life="running")
        raw["metadata"]["annotations"] |= {} if takeover else {keys.PROMETHEUS_PORT: "8000"}
        raw["metadata"]["labels"] |= {keys.MEMBER_INDEX: str(index)}
        raw["spec"]["containers"][0] |= {"args": args or []}
        if labelled and (index == 0 or (args and not takeover)):
            raw["metadata"]["labels"] |= {keys.API_ANSWERING: "true"}
        made.append(raw)
    return made


def decided(pods: list[Json], declared: dict[str, str], standing: dict[str, str] | None) -> tuple[list[Any], bool]:
    """The selectors written, and whether the Services follow the replicas."""
    services: list[Json] = []
    if standing is not None:
        services = [{"metadata": {"name": "qwen-server", "uid": "front"}, "spec": {"selector": standing}}]
    wanted = replace(desired(replicas=2), fronts=(Front("qwen-server", "server", declared),), engine="vLLM")
    observed = observe(pods, [], OWNER, services=services)
    actions = decide(wanted, observed, {}).actions
    return [action for action in actions if isinstance(action, Select)], follows_shapes(wanted, observed)


@pytest.mark.parametrize(
    ("pods", "declared", "selected"),
    [
        ([replica(0, 1), replica(1, 1)], BASE, BASE),
        ([replica(0, 2), replica(1, 2)], LEADER, LEADER),
        ([replica(0, 2, args=RANKS), replica(1, 2, args=RANKS)], BASE, BASE),
        ([replica(0, 1), replica(1, 2)], LEADER, LEADER),
        ([replica(0, 2), replica(1, 1)], BASE, LEADER),
        ([replica(0, 4), replica(1, 2)], LEADER, LEADER),
        ([replica(0, 2), replica(1, 2, args=RANKS)], BASE, LABELLED),
        ([replica(0, 2, args=RANKS), replica(1, 2)], LEADER, LABELLED),
        ([replica(0, 2, args=RANKS), replica(1, 1)], BASE, BASE),
        ([replica(0, 1), replica(1, 2, args=RANKS)], BASE, BASE),
        ([replica(0, 2, args=RANKS), replica(1, 2, takeover=True)], LEADER, LABELLED),
        ([replica(0, 2, args=RANKS, takeover=True), replica(1, 2)], LEADER, LEADER),
        ([replica(0, 2, args=RANKS), replica(1, 2)], QUALIFIED, QUALIFIED),
        ([replica(0, 2, args=RANKS, labelled=False), replica(1, 2)], LEADER, LEADER),
        ([replica(0, 2, labelled=False), replica(1, 2, args=RANKS)], BASE, LEADER),
        ([], LEADER, LEADER),
        ([replica(0, 2), replica(0, 2)], LEADER, LEADER),
    ],
    ids=[
        "single Pods", "groups", "ranks", "one becomes a group", "a group becomes one", "groups of two sizes",
        "a group becomes ranks", "ranks become a group", "ranks become one Pod", "one Pod becomes ranks",
        "ranks become a take-over", "a take-over answers through its leader", "qualification is on",
        "older ranks without the label", "an older group without the label", "nothing stands",
        "a replica that cannot be read counts for nothing",
    ],
)  # fmt: skip
def test_a_service_selects_exactly_who_answers_by_the_shape_each_replica_was_created_with(
    pods: list[list[Json]], declared: dict[str, str], selected: dict[str, str]
) -> None:
    flat = [one for several in pods for one in several]
    for number, raw in enumerate(flat):
        raw["metadata"] |= {"uid": f"uid-{number}", "name": f"pod-{number}"}
    mixed = selected != declared
    written, follows = decided(flat, declared, declared)
    assert [(action.name, action.selector, action.mixed) for action in written] == (
        [("qwen-server", selected, True)] if mixed else []
    )
    assert follows is mixed
    assert decided(flat, declared, selected)[0] == [], "once written it is left alone"
    (restored,), _ = decided(flat, declared, {"somebody": "else"})
    assert (restored.selector, restored.mixed) == (selected, mixed)
    assert decided(flat, declared, None)[0] == [], "a Service that is not there is the program's to make"
