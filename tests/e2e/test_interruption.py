"""Runs that end in the middle: the next one goes on, and no moment shows two replicas of a role down or one doubled."""

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.case import NEW, OLD, Case
from tests.e2e.engine import Background

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]
REPLICAS = 3


def rolled(new_case: NewCase, *, exit_after: float = 1) -> Case:
    """Three replicas on quota for three, about to be given a new image; a Pod takes a while to exit."""
    case = new_case(cards=REPLICAS, exit_after=exit_after)
    case.deploy(case.role(REPLICAS))
    case.stack.up().expect(0)
    case.edit_image(NEW)
    return case


def settle(case: Case) -> None:
    """Whatever was interrupted, the next `up` completes it."""
    case.stack.cancel()
    case.stack.up().expect(0)
    assert case.images() == {f"server/{ordinal}/0": NEW for ordinal in range(REPLICAS)}


def provider_of(engine: Background) -> int | None:
    """PID of the dynamic provider that a running `pulumi` started."""
    parents: dict[int, int] = {}
    providers: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            if re.search(r"pulumi[./]dynamic", command) and "python" in command:
                providers.append(int(entry.name))
    for pid in providers:
        ancestor = pid
        while ancestor > 1 and ancestor != engine.process.pid:
            ancestor = parents.get(ancestor, 0)
        if ancestor == engine.process.pid:
            return pid
    return None


def test_one_interrupt_stops_soon_says_how_to_resume_and_the_next_up_converges(new_case: NewCase) -> None:
    case = rolled(new_case)
    with case.watched() as timeline:
        running = case.stack.start_up()
        running.wait_for_text("turning over")
        running.signal(signal.SIGINT)
        stopped = running.wait(60)
        assert stopped.code != 0
        assert "again" in stopped.output
        settle(case)
    assert timeline.fewest_admitted("server", after=REPLICAS) >= REPLICAS - 1
    assert timeline.most_on_one_seat() == 1


def test_two_interrupts_end_the_run_at_once_and_the_next_up_converges(new_case: NewCase) -> None:
    case = rolled(new_case)
    with case.watched() as timeline:
        running = case.stack.start_up()
        running.wait_for_text("turning over")
        running.signal(signal.SIGINT)
        time.sleep(0.2)
        running.signal(signal.SIGINT)
        assert running.wait(60).code != 0
        settle(case)
    assert timeline.fewest_admitted("server", after=REPLICAS) >= REPLICAS - 1
    assert timeline.most_on_one_seat() == 1


def test_killing_engine_or_provider_at_ten_random_points_never_loses_or_doubles_a_replica(new_case: NewCase) -> None:
    case = rolled(new_case)
    dice = random.Random(20261129)
    with case.watched() as timeline:
        for attempt in range(10):
            case.edit_image(NEW if attempt % 2 else OLD)
            running = case.stack.start_up()
            running.wait_for(lambda run=running: provider_of(run) is not None)
            time.sleep(dice.uniform(0.2, 5))
            provider = provider_of(running)
            if dice.random() < 0.5 and provider is not None:
                os.kill(provider, signal.SIGKILL)
            else:
                running.kill()
            running.wait(60)
            case.stack.cancel()
        case.edit_image(NEW)
        settle(case)
    assert timeline.fewest_admitted("server", after=REPLICAS) >= REPLICAS - 1, str(timeline)
    assert timeline.most_on_one_seat() == 1
    assert set(timeline.moments[-1].live) == {("server", ordinal, 0) for ordinal in range(REPLICAS)}


def test_a_second_driver_says_who_holds_the_lease_and_touches_nothing(new_case: NewCase, tmp_path: Path) -> None:
    case = rolled(new_case, exit_after=6)
    first = case.stack.start_up()
    first.wait_for_text("turning over")
    second = case.stack.copy_to(tmp_path / "second")
    impatient = {**case.values, "timeouts": {**case.values["timeouts"], "lease": "1s"}}
    (second.program / "case.json").write_text(json.dumps(impatient))
    with case.watched() as timeline:
        refused = second.up()
        assert refused.code != 0
        assert re.search(r"is being driven by .+ since", refused.output), refused.output
        assert first.wait(120).code == 0
    assert timeline.fewest_admitted("server", after=REPLICAS - 1) >= REPLICAS - 1
    assert case.images() == {f"server/{ordinal}/0": NEW for ordinal in range(REPLICAS)}
