"""What a driver writes down about a deployment beside driving it: status, events, and how long turnovers took."""

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from gpustack_components.cluster.port import Forbidden
from gpustack_components.rollout.contract import Outcome, Timeouts
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.slots import Slot
from gpustack_components.rollout.turnovers import KEPT, Stopwatch, Turnover, estimate, turnovers_from_json
from tests.rollout.lab import OWNER, Role, wanted
from tests.rollout.notation import observed
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster
from tests.rollout.simulation.view import SimulatedView

Json = dict[str, Any]
TIMEOUTS = Timeouts(admission=60, drain=60, ready=60, lease=0)


class World:
    """The deployment `qwen` on a simulated cluster, and everything its record said."""

    def __init__(self, quota: int = 100) -> None:
        self.clock = SimulatedClock()
        self.cluster = SimulatedCluster(self.clock, quota)
        self.cluster.on_change = self._seen
        self.written: list[Record] = []
        self.lines: list[str] = []

    def _seen(self, obj: Json) -> None:
        if obj["kind"] == "ConfigMap":
            self.written.append(Record.from_object(obj))

    def _view(self) -> SimulatedView:
        return SimulatedView(self.cluster, "team-a", "qwen", Random(1))

    def up(self, **roles: Role) -> Outcome:
        """One run; `written` and `lines` are of this run alone."""
        self.written.clear()
        self.lines.clear()
        return converge(
            self.cluster,
            wanted("team-a", roles),
            timeouts=TIMEOUTS,
            clock=self.clock,
            view=self._view(),
            progress=self.lines.append,
        )

    def down(self) -> Outcome:
        self.written.clear()
        return teardown(
            self.cluster,
            "team-a",
            "qwen",
            owner=OWNER,
            holder="t",
            timeouts=TIMEOUTS,
            clock=self.clock,
            view=self._view(),
        )

    @property
    def record(self) -> Record:
        return Record.from_object(self.cluster.objects["ConfigMap", "qwen-modeldeployment"])

    @property
    def events(self) -> list[Json]:
        return [obj for (kind, _), obj in self.cluster.objects.items() if kind == "Event"]


def condition(record: Record, type_: str) -> Json:
    return next(one for one in record.status["conditions"] if one["type"] == type_)


def reasons(world: World, type_: str) -> list[str]:
    """The reasons of a condition in the order in which they were written, each once."""
    found = [condition(record, type_)["reason"] for record in world.written]
    return list(dict.fromkeys(found))


def test_the_record_tells_where_the_deployment_stands_when_a_run_has_ended() -> None:
    world = World()
    assert world.up(server=Role(replicas=2)).phase == "Converged"
    status = world.record.status
    assert (status["phase"], status["roleSummary"], status["endpoint"]) == (
        "Ready",
        "2S",
        "http://qwen.team-a.svc:8000",
    )
    assert reasons(world, "ReplicasUpToDate") == ["UpToDate"]
    assert all(one["lastTransitionTime"] for one in status["conditions"])


def test_a_run_without_an_edit_writes_no_status() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    before = world.cluster.version
    world.clock.sleep(3600)
    assert world.up(server=Role(replicas=2)).wrote is False
    assert world.cluster.version == before


def test_a_status_costs_no_write_of_its_own() -> None:
    told, silent = World(), World()
    for world in (told, silent):
        world.up(server=Role(replicas=2))
    bare = wanted("team-a", {"server": Role(replicas=2, config="v2")})
    silent.written.clear()
    converge(
        silent.cluster,
        type(bare)(bare.desired, bare.render, bare.document, bare.owner, bare.holder),
        timeouts=TIMEOUTS,
        clock=silent.clock,
        view=silent._view(),
    )
    told.up(server=Role(replicas=2, config="v2"))
    assert len(told.written) == len(silent.written)


def test_a_turnover_is_told_as_one_and_times_stay_while_nothing_changes() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    before = world.record
    world.clock.sleep(100)
    world.up(server=Role(replicas=2, config="v2"))
    assert reasons(world, "ReplicasUpToDate")[-2:] == ["RolloutInProgress", "UpToDate"]
    assert "ReplacementInProgress" not in reasons(world, "ReplicasUpToDate")
    after = world.record
    stood, moved = (
        {one["type"]: one["lastTransitionTime"] for one in record.status["conditions"]} for record in (before, after)
    )
    assert stood["RouterReady"] == moved["RouterReady"]
    assert stood["ReplicasUpToDate"] < moved["ReplicasUpToDate"]


def test_a_lost_replica_is_told_as_a_replacement() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    world.cluster.lose(world.cluster.pods()[0])
    assert world.up(server=Role(replicas=2)).phase == "Converged"
    assert reasons(world, "ReplicasUpToDate")[-1] == "UpToDate"
    assert "RolloutInProgress" not in reasons(world, "ReplicasUpToDate")


def test_a_removal_is_told_before_anything_goes() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    assert world.down().phase == "Deleted"
    assert world.written[0].status["phase"] == "Deleting"
    assert "2 Pods" in world.written[0].status["phaseMessage"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"conditions": 3}', '{"conditions": [{"type": 1}]}'])
def test_a_status_that_cannot_be_read_is_made_anew(text: str) -> None:
    world = World()
    world.up(server=Role())
    stored = world.cluster.objects["ConfigMap", "qwen-modeldeployment"]
    world.cluster.store({**stored, "data": {**stored["data"], "status": text}})
    world.up(server=Role(config="v2"))
    assert world.record.status["phase"] == "Ready"


def test_a_pod_that_leaves_is_one_event_of_the_record() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    assert world.events == []
    world.up(server=Role(replicas=2, config="v2"))
    assert [event["reason"] for event in world.events] == ["ReplicaLeaving", "ReplicaLeaving"]
    (event, _) = world.events
    assert event["involvedObject"]["name"] == "qwen-modeldeployment"
    assert event["involvedObject"]["uid"] == world.record.uid
    assert "server/1" in event["message"]
    assert "30 s" in event["message"]


def test_a_pod_that_restarts_again_is_counted_and_not_told_twice() -> None:
    world = World()
    world.up(server=Role())
    restarted = [{"name": "main", "restartCount": 1}]
    world.cluster.update(world.cluster.pods()[0], status={"containerStatuses": restarted})
    world.up(server=Role(replicas=2))
    (event,) = world.events
    assert (event["reason"], event["count"]) == ("ReplicaRestarted", 1)
    world.cluster.update(world.cluster.pods()[0], status={"containerStatuses": [{**restarted[0], "restartCount": 4}]})
    world.up(server=Role(replicas=3))
    (event,) = world.events
    assert event["count"] == 4
    assert "4 times" in event["message"]


def test_a_run_that_may_not_record_events_says_so_once_and_goes_on() -> None:
    world = World()
    create = world.cluster.create

    def refuse(obj: Json, *, dry_run: bool = False) -> Json:
        if obj["kind"] == "Event":
            raise Forbidden("may not create events in namespace team-a.")
        return create(obj, dry_run=dry_run)

    world.cluster.create = refuse  # pyright: ignore[reportAttributeAccessIssue]
    world.up(server=Role(replicas=3))
    assert world.up(server=Role(replicas=3, config="v2")).phase == "Converged"
    (line,) = [line for line in world.lines if "events" in line]
    assert "grant create and patch on events" in line


def test_turnovers_are_timed_and_only_the_last_few_are_kept() -> None:
    world = World()
    many = KEPT + 2
    world.up(server=Role(replicas=many))
    assert world.record.turnovers == {}
    world.up(server=Role(replicas=many, config="v2"))
    found = world.record.turnovers["server"]
    assert len(found) == KEPT
    assert all(one.gone > 0 and one.admitted > 0 for one in found)
    assert found[-1].ready is not None
    world.up(other=Role())
    assert world.record.turnovers == {}


CLEANUP = Slot("server", 1, "Cleanup", member_uids=("old",))
WAITING = Slot("server", 1, "WaitingForAdmission", member_hashes=("h",))


def timed(*steps: tuple[float, Slot | None, str | None]) -> dict[str, tuple[Turnover, ...]]:
    """Turnovers of a run whose passes left these slots, seeing this replica server/1, at these times."""
    watch, before = Stopwatch(), {}
    for now, slot, standing in steps:
        after = {"server": slot} if slot is not None else {}
        watch.passed(before, after, observed({1: standing} if standing else {}), now)
        before = after
    return watch.turnovers


def test_a_turnover_is_timed_from_its_deletion_over_its_admission_to_its_readiness() -> None:
    steps = [(10, CLEANUP, "old~run/A"), (14, WAITING, None), (15, WAITING, "new/q"), (20, None, "new/A")]
    assert timed(*steps) == {"server": (Turnover(4, 6),)}


def test_a_turnover_that_an_earlier_run_began_is_not_timed() -> None:
    watch = Stopwatch()
    slots = [{"server": CLEANUP}, {"server": CLEANUP}, {"server": WAITING}, {}]
    for before, after in pairwise(slots):
        watch.passed(before, after, observed({1: "new/A"}), 5)
    assert watch.turnovers == {}


def test_a_turnover_that_a_newer_edit_replaces_is_not_timed() -> None:
    steps = [(0, CLEANUP, None), (4, WAITING, None), (9, CLEANUP, "new/q"), (12, WAITING, None), (30, None, "new/A")]
    assert timed(*steps) == {}


def test_a_turnover_that_a_scale_down_cancels_is_not_timed() -> None:
    assert timed((0, CLEANUP, None), (4, WAITING, None), (9, None, None)) == {}


def test_turnovers_read_back_as_they_were_written_and_nonsense_as_none() -> None:
    world = World()
    world.up(server=Role(replicas=2))
    world.up(server=Role(replicas=2, config="v2"))
    kept = json.loads(world.cluster.objects["ConfigMap", "qwen-modeldeployment"]["data"]["state"])["turnovers"]
    assert turnovers_from_json(kept) == world.record.turnovers
    for nonsense in (None, 3, [], {"server": 3}, {"server": [{}]}, {"server": [{"gone": "x", "admitted": 1}]}):
        assert turnovers_from_json(nonsense) == {}


def test_an_estimate_takes_the_middle_of_the_last_turnovers() -> None:
    seen = {"server": (Turnover(10, 5, 100), Turnover(20, 10), Turnover(90, 900, 200))}
    found = estimate("server", 3, seen)
    assert found is not None
    assert (found.each, found.admitted, found.ready, found.seen) == (30, 90, 150, 3)
    assert estimate("other", 3, seen) is None
    assert estimate("server", 0, seen) is None
