"""Single stories about the real executor on the simulated cluster, told where any order of things would say less."""

import pytest

from gpustack_components.cluster.readings import admitted, name, uid
from tests.rollout.lab import Role
from tests.rollout.simulation.process import Process
from tests.rollout.world import World


def test_without_quota_for_all_the_rest_runs_and_the_run_says_who_waits() -> None:
    world = World(quota=3)
    world.want(server=Role("a", replicas=4))
    outcome = world.up()
    assert outcome.phase == "Incomplete"
    assert sum(world.serves("server", number) for number in range(4)) == 3
    assert [reason for reason in outcome.reasons if "not admitted after 1m" in reason and "1 more needed" in reason]
    world.cluster.set_quota(4)
    assert world.up().phase == "Converged"
    world.check_done()


@pytest.mark.parametrize("code", ["0", "1"])
def test_killed_at_every_single_moment_the_next_run_finishes(code: str) -> None:
    moment, ended = 1, False
    while not ended:
        world = World(seed=moment)
        world.cluster.kubelets.exit_code = code
        world.want(server=Role("a", replicas=2, size=2))
        world.up()
        world.want(server=Role("b", replicas=2, size=2))
        ended = _killed(world, world.start(), moment)
        assert world.up().phase == "Converged", f"killed at {moment}\n{world.tell()}"
        world.check_done()
        moment += 1
    assert moment > 60


@pytest.mark.parametrize("code", ["0", "1"])
def test_a_teardown_killed_at_every_single_moment_leaves_nothing_after_the_next(code: str) -> None:
    moment, ended = 1, False
    while not ended:
        world = World(seed=moment)
        world.cluster.kubelets.exit_code = code
        world.want(server=Role("a", replicas=2, size=2))
        world.up()
        world.want()
        ended = _killed(world, world.start_teardown(), moment)
        outcome = world.finish(world.start_teardown())
        assert outcome.phase == "Deleted", f"killed at {moment}\n{world.tell()}"
        world.cluster.settle(world.chance)
        assert not [key for key in world.cluster.objects if key[0] != "Event"], world.tell()
        world.check()
        moment += 1
    assert moment > 40


def _killed(world: World, driver: Process, moment: int) -> bool:
    """Kill a driver at its given moment; whether it had ended before."""
    for _ in range(moment):
        while True:
            world.go(driver, 1)
            if driver.ended:
                return True
            if not driver.blocked:
                break
            if not world.cluster.tick(world.chance):
                world.clock.sleep(2)
    world.kill(driver)
    return False


def test_a_sibling_lost_before_the_watch_shows_it_saves_the_next_healthy_replica() -> None:
    world = World(seed=5)
    world.want(server=Role("a", replicas=2))
    world.up()
    world.want(server=Role("b", replicas=2))
    driver = world.start()
    while not (world.serves("server", 1) and world.current("server", 1, world.asked().desired)):
        world.go(driver, 1)
        world.cluster.tick(world.chance)
    (replaced,), (healthy,) = world.live("server", 1), world.live("server", 0)
    driver.late = {"Workload"}
    for workload in world.cluster.workloads():
        if admitted(workload) and workload["metadata"]["ownerReferences"][0]["uid"] == uid(replaced):
            world.cluster.preempt(workload)
    preempted = len(world.story)
    assert world.finish(driver).phase == "Converged", "what its watch does not show, lists do"
    since = world.story[preempted:]
    back = next(number for number, line in enumerate(since) if "server/1  admitted after" in line)
    assert since.index(f"driver: delete Pod {name(healthy)}") > back
    world.check_done()


@pytest.mark.parametrize(("kind", "name"), [("Service", "qwen-server-r1"), ("Pod", "qwen-server-r1-m1")])
def test_a_foreign_object_on_a_fixed_name_is_named_waited_for_and_never_touched(kind: str, name: str) -> None:
    world = World()
    foreign = {"kind": kind, "metadata": {"name": name, "labels": {}, "annotations": {}}, "spec": {}}
    theirs = world.cluster.create(foreign)
    world.want(server=Role("a", replicas=1, size=2))
    world.up()
    world.want(server=Role("a", replicas=2, size=2))
    driver = world.start()
    while not driver.ended and world.clock.seconds < 40:
        world.go(driver, 20)
        if not world.cluster.tick(world.chance):
            world.clock.sleep(1)
    assert not driver.ended, (driver.outcome, world.tell())
    assert any(f"waits: {kind} {name}, which belongs to somebody else" in line for line in world.story)
    assert uid(world.cluster.objects[kind, name]) == uid(theirs)
    del world.cluster.objects[kind, name]
    assert world.finish(driver).phase == "Converged"
    world.check_done()


@pytest.mark.parametrize("asleep", range(1, 40))
def test_a_driver_that_slept_while_another_took_over_does_no_more_than_the_request_under_way(asleep: int) -> None:
    world = World(seed=asleep)
    world.want(server=Role("a", replicas=3, size=2))
    world.up()
    world.want(server=Role("b", replicas=1, size=1))
    sleeper = world.start()
    world.go(sleeper, asleep)
    world.clock.sleep(1100)
    world.want(server=Role("c", replicas=3, size=1))
    other = world.start()
    while not (other.ended or other.leases):
        world.go(other, 5)
    while not sleeper.ended:
        world.go(sleeper, 40)
        world.cluster.tick(world.chance)
        world.clock.sleep(0.1)
    outcome = other.outcome if other.ended else world.finish(other)
    assert world.up().phase == "Converged", outcome
    world.check_done()
