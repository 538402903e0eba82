"""The machine is worth its time: it finds out every planner that is wrong."""

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from gpustack_components.rollout import driver
from gpustack_components.rollout.actions import Decision
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.slots import Slots
from tests.rollout.machine import OFF, Rollout
from tests.rollout.mutants import MUTANTS, Spoil

LOOKED_AT = settings(OFF, max_examples=1500, stateful_step_count=30, derandomize=True, database=None, print_blob=False)


@pytest.mark.parametrize("spoil", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_a_wrong_planner_is_found_out(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(desired: Desired, observed: Observed, slots: Slots, **known: Any) -> Decision:
        return spoil(decide(desired, observed, slots, **known), desired, observed, slots)

    monkeypatch.setattr(driver, "decide", wrong)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Rollout, settings=settings(LOOKED_AT, phases=[Phase.generate]))
