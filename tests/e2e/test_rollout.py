"""What `pulumi up` does to the replicas of a deployment, on a real API server with a real Kueue."""

from collections.abc import Callable
from typing import Any

import pytest

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import POD
from sandbox.cluster import Sandbox
from tests.e2e.case import NEW, OLD, Case, audit_position, audited

pytestmark = pytest.mark.engine

NewCase = Callable[..., Case]


def test_image_edit_with_quota_for_exactly_three_turns_one_replica_over_at_a_time_highest_first(
    new_case: NewCase,
) -> None:
    case = new_case(cards=3)
    case.deploy(case.role(3))
    case.stack.up().expect(0)
    before = case.uids()

    case.edit_image(NEW)
    with case.watched() as timeline:
        run = case.stack.up().expect(0)

    assert timeline.fewest_admitted("server", after=3) >= 2, str(timeline)
    assert timeline.most_on_one_seat() == 1
    assert timeline.order_of(lambda images: NEW in images) == [("server", 2), ("server", 1), ("server", 0)]
    assert case.images() == {"server/0/0": NEW, "server/1/0": NEW, "server/2/0": NEW}
    assert not case.uids() & before
    assert "qwen server/2" in run.output


def test_members_of_a_replica_are_replaced_together_under_their_own_names(new_case: NewCase) -> None:
    case = new_case(cards=4)
    case.deploy(case.role(2, size=2))
    case.stack.up().expect(0)
    names = sorted(pod["metadata"]["name"] for pod in case.pods())
    assert names == [f"qwen-server-r{ordinal}-m{member}" for ordinal in (0, 1) for member in (0, 1)]

    case.edit_image(NEW)
    with case.watched() as timeline:
        case.stack.up().expect(0)

    assert timeline.fewest_admitted("server", after=2) >= 1
    assert set(case.images().values()) == {NEW}
    assert sorted(pod["metadata"]["name"] for pod in case.pods()) == names


def test_scale_up_beyond_the_quota_fails_naming_who_waits_and_why_and_the_next_up_completes(new_case: NewCase) -> None:
    case = new_case(cards=4)
    case.deploy(case.role(3))
    case.stack.up().expect(0)
    kept = case.uids()

    case.change(timeouts={"admission": "4s", "ready": "60s", "drain": "60s"})
    case.edit(replicas=5)
    waiting = case.stack.up()

    assert waiting.code != 0
    assert "server/4" in waiting.output
    assert "insufficient unused quota for nvidia.com/gpu" in waiting.output
    assert len(case.pods()) == 5

    case.change(cards=5)
    case.stack.up().expect(0)
    assert kept < case.uids(), "a scale-up left the replicas that ran alone"
    assert case.stack.outputs()["qwen"]["phase"] == "Converged"


def test_scale_down_removes_the_highest_ordinals_and_leaves_the_others_alone(new_case: NewCase) -> None:
    case = new_case(cards=4)
    case.deploy(case.role(4))
    case.stack.up().expect(0)
    by_seat = {pod["metadata"]["labels"][keys.POD_ORDINAL]: pod["metadata"]["uid"] for pod in case.pods()}

    case.edit(replicas=2)
    case.stack.up().expect(0)

    assert case.uids() == {by_seat["0"], by_seat["1"]}


def test_an_up_without_an_edit_changes_nothing_and_writes_nothing(new_case: NewCase, sandbox: Sandbox) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(2))
    case.stack.up().expect(0)
    before = {(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in case.pods()}

    since = audit_position(sandbox)
    case.stack.up("--expect-no-changes").expect(0)

    writes = [
        f"{e['verb']} {e['requestURI']}"
        for e in audited(sandbox, case.namespace, since)
        if e["verb"] not in ("get", "list", "watch")
    ]
    assert writes == []
    assert {(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in case.pods()} == before


def test_refresh_shows_a_pod_deleted_by_hand_and_up_repairs_it(new_case: NewCase) -> None:
    case = new_case(cards=2)
    case.deploy(case.role(2))
    case.stack.up().expect(0)
    victim, survivor = case.pods()
    case.cluster.delete(POD, case.namespace, victim["metadata"]["name"])

    refreshed = case.stack.refresh().expect(0)
    assert "Incomplete" in refreshed.output

    case.stack.up().expect(0)
    assert sorted(case.images()) == ["server/0/0", "server/1/0"]
    assert survivor["metadata"]["uid"] in case.uids()
    assert victim["metadata"]["uid"] not in case.uids()


def test_destroy_removes_everything_and_returns_when_it_is_gone(new_case: NewCase) -> None:
    case = new_case(cards=3, exit_after=2)
    case.deploy(case.role(3))
    case.stack.up().expect(0)

    case.stack.destroy().expect(0)

    assert case.leftovers() == []
    assert case.stack.resources() == []


@pytest.mark.parametrize("code", ["0", "1"])
def test_a_flag_edit_rolls_whatever_the_engine_exits_with(new_case: NewCase, code: str) -> None:
    case = new_case(cards=2)
    case.change(annotations={"sandbox.gpustack.ai/exit-after": "1", "sandbox.gpustack.ai/exit-code": code})
    case.deploy(case.role(2))
    case.stack.up().expect(0)

    case.edit(extraArgs=["--max-model-len=4096"])
    with case.watched() as timeline:
        case.stack.up().expect(0)

    assert timeline.fewest_admitted("server", after=2) >= 1
    commands: list[Any] = [pod["spec"]["containers"][0]["command"] for pod in case.pods()]
    assert len(commands) == 2
    assert all("--max-model-len=4096" in command for command in commands)


def test_two_roles_roll_side_by_side_each_one_replica_at_a_time(new_case: NewCase) -> None:
    case = new_case(cards=4)
    case.deploy(case.role(2), case.role(2, name="second"))
    case.stack.up().expect(0)

    case.edit_image(NEW)
    with case.watched() as timeline:
        case.stack.up().expect(0)

    assert timeline.fewest_admitted("server", after=2) >= 1
    assert timeline.fewest_admitted("second", after=2) >= 1
    assert set(case.images().values()) == {NEW}


def test_an_edit_taken_back_half_way_ends_with_the_old_configuration_everywhere(new_case: NewCase) -> None:
    case = new_case(cards=3, exit_after=1)
    case.deploy(case.role(3))
    case.stack.up().expect(0)

    case.edit_image(NEW)
    running = case.stack.start_up()
    running.wait_for(lambda: NEW in case.images().values())
    running.kill()
    running.wait()
    case.stack.cancel()

    case.edit_image(OLD)
    case.stack.up().expect(0)
    assert case.images() == {f"server/{ordinal}/0": OLD for ordinal in range(3)}
