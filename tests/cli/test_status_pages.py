"""What people look at: the pages of `status`, and what a watch adds over time."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpustack_components.api.encode import encode
from gpustack_components.cli import status as command
from gpustack_components.cli.standing import Standing, call_lines
from gpustack_components.cli.standing_text import draw, page, plain_lines
from gpustack_components.rollout.record import Record
from gpustack_components.status.facts import Facts, RouterFound
from gpustack_components.status.holds import Around
from gpustack_components.status.timeline import Timelines
from tests.status.objects import deployment, expected, observation

NOW = datetime(2026, 1, 1, 0, 10, 0, tzinfo=UTC)
SHORT = (
    "couldn't assign flavors to pod set server: insufficient unused quota for nvidia.com/gpu in flavor h20, 2 more "
    "needed"
)


def standing(
    roles: Iterable[dict[str, Any]],
    replicas: Iterable[str],
    *,
    router: int | None = None,
    retirement: dict[str, Any] | None = None,
    absent: tuple[str, ...] = (),
) -> Standing:
    """The deployment team-a/qwen with these replicas, as a reader found it; `router` are its ready router Pods, -1
    when their Deployment does not exist."""
    document = deployment(roles, **({"router": {"name": "llm-d-router"}} if router is not None else {}))
    record = Record("team-a", "qwen", "stack prod", encode(document), generation=4, updated="2026-01-01T00:09:00Z")
    facts = Facts(
        expected=expected(document),
        router=RouterFound(deployed=router >= 0, ready=max(router, 0)) if router is not None else None,
        retirement=retirement,
    )
    return Standing(
        record=replace(record, phase="Converged"),
        deployment=document,
        observation=observation(replicas),
        strangers=(),
        driver="",
        driving_since="",
        facts=facts,
        previous={},
        around=Around(quotas={"gpustack-h20": "asks for 2; h20 has 0 free of 4 x nvidia.com/gpu"}),
        absent=absent,
    )


CASES = {
    "converged": standing([{"replicas": 2}], ["server/0 ready A", "server/1 ready A"]),
    "waiting for quota": standing([{"replicas": 3}], [
        "server/0 ready A", "server/1 crash A", f"server/2 q message: {SHORT}",
    ]),
    "a routed pair in a rollout": standing(
        [{"name": "prefill", "kind": "Prefill", "replicas": 2}, {"name": "decode", "kind": "Decode", "size": 2}],
        ["prefill/0 old ready A", "prefill/1 A", "decode/0 2of2 A T young"],
        router=0,
    ),
    "scaled down, one at a time": standing(
        [{"replicas": 2}],
        ["server/0 ready A", "server/1 ready A", "server/2 ready A", "server/3 ready A"],
        retirement={
            "roleName": "server", "replicaOrdinal": 3, "targetMemberUIDs": ["qwen-server-r3-m0-3"],
            "state": "Draining", "reason": "Busy: 2 requests run", "phaseStartedAt": "2026-01-01T00:09:00Z",
        },
    ),
    "a router and a Service that somebody deleted": standing(
        [{}], ["server/0 ready A"], router=-1, absent=("qwen-server",)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("why", [False, True], ids=["plain", "why"])
def test_a_page(case: str, why: bool, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    found, timelines = CASES[case], Timelines()
    timelines.look(found.observation, "2026-01-01T00:10:00Z")
    draw(page(found, call_lines(found), why, NOW, timelines if why else None))
    assert capsys.readouterr().out == snapshot


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lines_where_output_only_grows(case: str, snapshot: SnapshotAssertion) -> None:
    assert "\n".join(plain_lines(CASES[case], False, NOW)) == snapshot


def test_a_view_in_place_ends_with_what_happened_to_replicas_that_went(capsys: pytest.CaptureFixture[str]) -> None:
    before = CASES["converged"]
    after = replace(before, observation=observation(["server/1 ready A"]))
    command._follow_in_place(iter([before, after]), lambda found: [], why=False)
    shown = capsys.readouterr().out
    assert "timeline" in shown
    assert "gone" in shown
    assert "ReplicasUpToDate" in shown


def test_lines_are_told_once_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    before = CASES["converged"]
    after = replace(before, observation=observation(["server/0 A", "server/1 ready A"]))
    looks = iter([before, before, after, after])
    command._follow(looks, lambda found: [], why=False, form=command.TableYamlOrJson.TABLE)
    assert [line.partition("qwen")[2].strip() for line in capsys.readouterr().out.splitlines()] == [
        "server/0  serving, 1/1 Pods ready",
        "server/1  serving, 1/1 Pods ready",
        "Ready, 2S",
        "server/0  starting, 0/1 Pods ready: its Pods run and are not Ready yet",
        "Degraded, 1S: 1 of 2 replicas are ready.",
    ]
