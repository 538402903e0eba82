"""Which replicas may be selected: every leg, every ruling, and the labels that follow (rollout sheet 9)."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.rollout.actions import Mark
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.observe import Observed, observe
from gpustack_components.rollout.qualification import answering, eligible, legs, ruling
from tests.rollout.notation import OWNER, desired, pod, slot, state

VERIFIED = {
    "MemberSetComplete": "verified",
    "MembersReady": "verified",
    "GroupForward": "verified",
    "NoPlannedRetirement": "verified",
    "NoPendingReplacement": "verified",
}
READY, UNREADY, UNKNOWN, NONE = "True", "False", "Unknown", None


def member(index: int, total: int, ready: str | None, **more: Any) -> Json:
    """A running Pod with that Ready condition."""
    raw = pod("new", 0, member=index, total=total, life="running")
    raw["status"]["conditions"] = [{"type": "Ready", "status": ready}] if ready else []
    raw["metadata"]["annotations"] |= {keys.PROMETHEUS_PORT: "8000"} | more.get("annotations", {})
    raw["metadata"]["labels"] |= more.get("labels", {})
    raw["spec"]["containers"][0] |= {"args": more.get("args", [])}
    return raw


def see(pods: list[Json]) -> Observed:
    return observe(pods, [], OWNER)


CASES: list[tuple[str, list[Json], Mapping[str, bool], Mapping[str, str], str]] = [
    ("whole and ready", [member(0, 1, READY)], {}, {}, "grant"),
    ("short of its own total", [member(0, 2, READY)], {}, {"MemberSetComplete": "failed"}, "revoke"),
    (
        "its members contradict each other",
        [member(0, 2, READY), member(1, 3, READY)],
        {},
        {"MemberSetComplete": "unknown", "GroupForward": "unknown"},
        "hold",
    ),
    ("a member is not ready", [member(0, 1, UNREADY)], {}, {"MembersReady": "failed"}, "revoke"),
    ("no Ready condition yet", [member(0, 1, NONE)], {}, {"MembersReady": "unknown"}, "hold"),
    ("Ready is Unknown", [member(0, 1, UNKNOWN)], {}, {"MembersReady": "unknown"}, "hold"),
    (
        "a follower is not ready, the leader unknown",
        [member(0, 2, NONE), member(1, 2, UNREADY)],
        {},
        {"MembersReady": "failed", "GroupForward": "unknown"},
        "revoke",
    ),
    ("a whole group whose leader is ready", [member(0, 2, READY), member(1, 2, READY)], {}, {}, "grant"),
    ("it is to leave", [member(0, 1, READY)], {"retiring": True}, {"NoPlannedRetirement": "failed"}, "revoke"),
    ("it is replaced", [member(0, 1, READY)], {"replaced": True}, {"NoPendingReplacement": "failed"}, "revoke"),
    (
        "failed beside unknown revokes",
        [member(0, 1, NONE)],
        {"retiring": True},
        {"MembersReady": "unknown", "NoPlannedRetirement": "failed"},
        "revoke",
    ),
]


@pytest.mark.parametrize(("pods", "marked", "differing", "rules"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_replica_is_judged_by_its_legs(
    pods: list[Json], marked: Mapping[str, bool], differing: Mapping[str, str], rules: str
) -> None:
    found = legs(see(pods).members, **marked)
    assert dict(found) == {**VERIFIED, **differing}
    assert ruling(found) == rules


EXTERNAL = {"args": ["--data-parallel-size", "2", "--data-parallel-rank", "0"]}


@pytest.mark.parametrize(
    ("pods", "answer"),
    [
        ([member(0, 1, READY)], [0]),
        ([member(0, 2, READY), member(1, 2, READY)], [0]),
        ([member(0, 2, READY, **EXTERNAL), member(1, 2, READY, **EXTERNAL)], [0, 1]),
        (
            [member(i, 2, READY, labels={keys.ROLE_KIND: "decode"}, **EXTERNAL) for i in range(2)],
            [0],
        ),
        ([member(0, 2, READY), member(0, 2, READY)], []),
    ],
    ids=["one Pod", "a group's leader", "external data parallelism", "half of a pair", "unreadable"],
)
def test_the_shape_says_which_members_answer(pods: list[Json], answer: list[int]) -> None:
    for index, raw in enumerate(pods):
        raw["metadata"] |= {"uid": f"uid-{index}", "name": f"pod-{index}"}
    assert [one.seat for one in answering(see(pods).members, "vLLM")] == answer


def marks(pods: list[Json], workloads: list[Json], **more: Any) -> list[str]:
    decision = decide(desired(replicas=1), observe(pods, workloads, OWNER), **{"slots": {}, **more})
    return [f"{'+' if one.eligible else '-'}{one.pod.name}" for one in decision.actions if isinstance(one, Mark)]


def standing(ready: str | None, labelled: str | None, life: str = "new/A") -> tuple[list[Json], list[Json]]:
    pods, workloads = state({"0": life})
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": ready}] if ready else []
    if labelled:
        pods[0]["metadata"]["labels"][keys.ENDPOINT_ELIGIBLE] = labelled
    return pods, workloads


@pytest.mark.parametrize(
    ("ready", "labelled", "written"),
    [
        (READY, None, ["+qwen-server-0-new"]),
        (READY, "true", []),
        (READY, "false", ["+qwen-server-0-new"]),
        (UNREADY, "true", ["-qwen-server-0-new"]),
        (UNREADY, None, []),
        (UNKNOWN, "true", []),
        (NONE, None, []),
    ],
)
def test_a_label_is_written_only_where_it_differs(ready: str | None, labelled: str | None, written: list[str]) -> None:
    assert marks(*standing(ready, labelled)) == written


def test_a_pod_that_is_deleted_anyway_is_not_labelled_before() -> None:
    assert marks(*standing(READY, "true", "old/A")) == []


def test_a_replica_whose_replacement_is_remembered_is_out_of_selection() -> None:
    pods, workloads = standing(READY, "true")
    held = {"server": slot("0 Cleanup other")}
    decision = decide(desired(replicas=1), observe(pods, workloads, OWNER), held)
    assert not [action for action in decision.actions if isinstance(action, Mark) and action.eligible]


def test_what_is_inconclusive_is_counted_as_nothing() -> None:
    ready, unready, unknown = (standing(of, None)[0][0] for of in (READY, UNREADY, NONE))
    for index, raw in enumerate((ready, unready, unknown)):
        raw["metadata"]["labels"][keys.POD_ORDINAL] = str(index)
        raw["metadata"]["uid"] = f"uid-{index}"
    assert eligible(["server"], see([ready, unready]), {}, None) == {"server": 1}
    assert eligible(["server"], see([unready]), {}, None) == {"server": 0}
    assert eligible(["server"], see([ready, unknown]), {}, None) == {"server": None}
    assert eligible(["server", "other"], see([]), {}, None) == {"server": 0, "other": 0}
