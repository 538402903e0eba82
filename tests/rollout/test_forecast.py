"""What a preview says is ahead."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.api.quantity import Quantity
from gpustack_components.rollout.desired import Protocol
from gpustack_components.rollout.edited_fields import changes
from gpustack_components.rollout.forecast import forecast
from gpustack_components.rollout.observe import observe
from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.turnovers import turnovers_from_json
from gpustack_components.rollout.wording import about, place
from tests.rollout.notation import OWNER, desired, observed, slot

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "cases" / "forecast.yaml").read_text())


def cluster_queue(nominal: int, reserved: int) -> dict[str, Any]:
    """A ClusterQueue with one flavor."""
    resource = {"name": "nvidia.com/gpu", "nominalQuota": str(nominal)}
    return {
        "metadata": {"name": "h20-8x"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "h20", "resources": [resource]}]}]},
        "status": {
            "flavorsReservation": [{"name": "h20", "resources": [{"name": "nvidia.com/gpu", "total": str(reserved)}]}]
        },
    }


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_forecast_says_what_is_ahead(case: dict[str, Any]) -> None:
    base = desired(**case["wanted"])
    cards = {"nvidia.com/gpu": Quantity(case.get("cards", 1))}
    wanted = replace(base, roles=tuple(replace(role, requests=cards) for role in base.roles))
    queues = {"queue": cluster_queue(*case["quota"])} if "quota" in case else {}
    slots = {"server": slot(case["slot"])} if "slot" in case else {}
    changed, turnovers = {"server": case.get("changed", [])}, turnovers_from_json(case.get("turnovers"))
    ahead = forecast(wanted, observed(case["state"]), slots, queues, changed=changed, turnovers=turnovers)
    if "lines" in case:
        assert list(ahead.lines) == case["lines"]
    if "steps" in case:
        assert [f"{step.kind} {place(step.role, step.ordinal)}" for step in ahead.steps] == case["steps"]
    if "estimates" in case:
        assert [asdict(one) for one in ahead.estimates] == case["estimates"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"),
        (2.4, "2 s"),
        (9.8, "10 s"),
        (12, "10 s"),
        (42, "40 s"),
        (89, "90 s"),
        (90, "2 min"),
        (540, "9 min"),
        (3600, "1 h"),
        (4300, "1 h 10 min"),
    ],
)
def test_an_estimated_duration_is_rounded(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_changes_name_the_fields_that_an_edit_moves_role_by_role() -> None:
    before = {
        "spec": {
            "engine": {"name": "vLLM", "image": "a"},
            "roles": [{"name": "prefill", "replicas": 1}, {"name": "decode", "resources": {"accelerator": 1}}],
        }
    }
    after = {
        "spec": {
            "engine": {"name": "vLLM", "image": "b"},
            "roles": [{"name": "prefill", "replicas": 2}, {"name": "decode", "resources": {"accelerator": 2}}],
        }
    }
    assert changes(before, after) == {
        "prefill": ["replicas", "engine.image"],
        "decode": ["resources.accelerator", "engine.image"],
    }


RETIRING = Operation("server", 3, 1, ("server-o3-m0-new",), "", "Draining", BEGIN, BEGIN, "Busy: Pod p has requests")


@pytest.mark.parametrize(
    ("replicas", "operation", "lines", "steps"),
    [
        (
            2,
            None,
            [
                "role server: scaled down: server/3, server/2 leave one after another, each taken out of selection, "
                "drained until idle (240 s at most), then deleted; the other 2 untouched"
            ],
            ["remove 3", "remove 2"],
        ),
        (
            3,
            None,
            [
                "role server: scaled down: server/3 leaves: it is taken out of selection, drained until idle (240 s at "
                "most), then deleted; the other 3 untouched"
            ],
            ["remove 3"],
        ),
        (
            3,
            RETIRING,
            ["role server: server/3 is on its way out (Draining: Pod p has requests)"],
            ["remove 3"],
        ),
        (
            3,
            RETIRING.aborts("BudgetSpent: not drained in time; Busy: Pod p", BEGIN),
            [
                "role server: server/3 keeps running and holds back the others that are to leave: its retirement was "
                "aborted (BudgetSpent: not drained in time; Busy: Pod p); a retry directive, replicas raised again, or "
                "qualification switched off end that"
            ],
            ["wait 3"],
        ),
        (
            4,
            RETIRING,
            ["role server: server/3 was on its way out and is kept, since it is declared again"],
            ["wait 3"],
        ),
    ],
)
def test_a_forecast_says_how_replicas_leave_under_the_protocol(
    replicas: int, operation: Operation | None, lines: list[str], steps: list[str]
) -> None:
    wanted = replace(desired(replicas=replicas), protocol=Protocol())
    standing = observed(dict.fromkeys(range(4), "new/A"))
    ahead = forecast(wanted, standing, {}, {}, retirement=operation)
    assert list(ahead.lines) == lines
    assert [f"{step.kind} {step.ordinal}" for step in ahead.steps] == steps


@pytest.mark.parametrize(("token", "steps"), [("again", ["remove 3"]), ("followed", ["wait 3"])])
def test_a_forecast_says_whether_an_aborted_retirement_is_tried_again(token: str, steps: list[str]) -> None:
    aborted = replace(RETIRING.aborts("BudgetSpent: not drained in time", BEGIN), consumed="followed")
    wanted = replace(desired(replicas=3), protocol=Protocol(retry=f"server:3:{token}"))
    ahead = forecast(wanted, observed(dict.fromkeys(range(4), "new/A")), {}, {}, retirement=aborted)
    assert [f"{step.kind} {step.ordinal}" for step in ahead.steps] == steps
    assert ("is tried again as the directive asks" in ahead.lines[0]) == (token == "again")


def test_a_ready_replica_that_is_not_labelled_is_worth_a_run_only_where_labels_select() -> None:
    standing = observed({0: "new/A"})
    standing.members[0].pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    ready = observe([standing.members[0].pod], [one.workload for one in standing.workloads], OWNER)
    plain = desired(replicas=1)
    assert forecast(plain, ready, {}, {}).steps == ()
    ahead = forecast(replace(plain, protocol=Protocol()), ready, {}, {})
    assert [(step.kind, step.ordinal) for step in ahead.steps] == [("select", 0)]
    assert list(ahead.lines) == ["server/0 labelled as ready to be selected; no Pod is touched"]
