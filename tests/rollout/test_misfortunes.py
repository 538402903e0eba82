"""What others and the weather do to a deployment on a cluster that works: every row and every scenario at once."""

from collections.abc import Callable, Iterator

import pytest

from sandbox.cluster import Sandbox
from tests.rollout import weather
from tests.rollout.kueue_facts import ROWS, Row, strike
from tests.rollout.lab import Lab
from tests.rollout.side_by_side import SideBySide, chosen

pytestmark = pytest.mark.cluster

Scenario = Callable[[Lab], None]
SCENARIOS: tuple[Scenario, ...] = (
    weather.a_lost_node_is_waited_for_and_its_pod_replaced_once_the_node_object_is_gone,
    weather.a_lease_left_behind_elsewhere_expires_by_the_clock_of_the_api_server,
    weather.a_watch_that_the_network_forgot_is_not_taken_for_a_replica_that_hangs,
    weather.a_clock_that_is_set_forth_and_back_disturbs_no_rollout,
    weather.a_run_that_slept_past_its_lease_leaves_the_deployment_to_the_other_one,
    weather.a_preemption_in_the_middle_of_a_rollout_is_waited_out,
    weather.a_teardown_waits_for_a_pod_that_hangs_and_the_next_one_completes,
    weather.a_namespace_that_is_deleted_in_the_middle_of_a_rollout_ends_it_with_that_reason,
    weather.a_teardown_in_a_namespace_that_is_being_deleted_ends_when_all_is_gone,
)
CODES = ("0", "1")


@pytest.fixture(scope="module")
def misfortunes(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[SideBySide]:
    """All of them under way, those that take long first."""
    together = SideBySide(sandbox.kubeconfig, width=12)
    for (scenario,) in chosen(request, "scenario"):
        together.begin(scenario, scenario)
    for row, code in chosen(request, "row", "code"):
        together.begin((row.what, code), lambda lab, row=row, code=code: strike(lab, row, code))
    yield together
    together.close()


@pytest.mark.parametrize("code", CODES, ids=["exit 0", "exit 1"])
@pytest.mark.parametrize("row", ROWS, ids=[row.what for row in ROWS])
def test_whatever_befell_a_replica_one_run_makes_it_whole(misfortunes: SideBySide, row: Row, code: str) -> None:
    misfortunes.outcome((row.what, code))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_in_bad_weather(misfortunes: SideBySide, scenario: Scenario) -> None:
    misfortunes.outcome(scenario)
