"""One pass of the state machine, row by row of the rollout sheet's tables."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.rollout.actions import EnsureService, PruneService
from gpustack_components.rollout.decide import decide
from tests.rollout.notation import desired, observed, say, say_slot, slot

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "cases" / "decide.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_pass_answers_as_the_sheet_says(case: dict[str, Any]) -> None:
    slots = {"server": slot(case["slot"])} if "slot" in case else {}
    decision = decide(desired(**case["wanted"]), observed(case["state"]), slots)
    about_pods = [action for action in decision.actions if not isinstance(action, EnsureService | PruneService)]
    assert [say(action) for action in about_pods] == case["actions"]
    assert say_slot(decision.slots.get("server")) == case["after"]
    if "waits" in case:
        assert sorted(f"{wait.kind} {wait.ordinal}" for wait in decision.waits) == sorted(case["waits"])
