"""What keeps a deployment as a whole from being converged, and which conditions somebody should see."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.status.facts import Facts, RouterFound, Weights
from gpustack_components.status.report import report
from gpustack_components.status.text import rows
from gpustack_components.status.why import Run, causes, unfine
from tests.status.objects import deployment, expected, observation

CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent.parent / "data" / "status_why.yaml").read_text()
)
NOW = datetime(2026, 1, 1, 0, 10, 0, tzinfo=UTC)


def looked(case: dict[str, Any]) -> Any:
    spec: dict[str, Any] = {}
    if "router" in case:
        spec["router"] = {"name": "llm-d-router"}
    if "domain" in case:
        spec["kvCache"] = {"poolRef": {"name": "pool"}}
    if "weights" in case:
        spec["model"] = {"name": "m", "artifactRef": {"name": "weights"}}
    document = deployment(case.get("roles", [{}]), **spec)
    options = {key: case[key] for key in ("cache_hold", "weights_hold") if key in case}
    facts = Facts(
        expected=expected(document, **options) if case.get("compared", True) else None,
        domain=case.get("domain"),
        domain_message=case.get("domain", ""),
        router=RouterFound(**case["router"]) if case.get("router") is not None else None,
        weights=Weights(**case["weights"]) if "weights" in case else None,
        retirement=case.get("retirement"),
    )
    found = observation(case.get("replicas", ["server/0 ready A"]))
    return (
        document,
        report(document, found, facts, now="2026-01-01T00:09:00Z"),
        rows(document, found, NOW, facts.expected, retirement=facts.retirement),
        facts.router,
    )


@pytest.mark.parametrize("case", CASES["causes"], ids=lambda case: case["name"])
def test_every_cause_is_one_sentence_with_what_releases_it_and_the_command(case: dict[str, Any]) -> None:
    document, status, told, router = looked(case)
    run = Run(**{"phase": "Converged", **case.get("run", {})})
    found = causes(document, status, told, run, case.get("absent", ()), router)
    assert [one.subject for one in found] == [one["subject"] for one in case["expect"]]
    for cause, wanted in zip(found, case["expect"], strict=True):
        assert re.search(wanted["what"], cause.hold.what), cause.hold.what
        assert re.search(wanted.get("release", ""), cause.hold.release), cause.hold.release
        assert re.search(wanted.get("command", ""), cause.hold.command), cause.hold.command
        assert cause.hold.release
        assert "since" not in wanted or cause.hold.since == wanted["since"]


@pytest.mark.parametrize("case", CASES["conditions"], ids=lambda case: case["name"])
def test_a_condition_is_shown_when_somebody_should_see_it(case: dict[str, Any]) -> None:
    _, status, _, _ = looked(case)
    assert [f"{one.type} {one.reason}" for one in unfine(status)] == case["expect"]
