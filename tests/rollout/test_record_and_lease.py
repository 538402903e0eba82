"""What survives in the cluster, and who may drive."""

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster.port import LEASE, AlreadyExists, Conflict, Json, Unreachable
from gpustack_components.rollout import record as records
from gpustack_components.rollout.contract import RolloutRefused, Timeouts, seconds
from gpustack_components.rollout.lease import DURATION, DriverLease, HeldBy, LeaseLost
from gpustack_components.rollout.liveness import Holder
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.wording import span
from tests.rollout.notation import slot
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RECORD = Record(
    "team-a",
    "qwen",
    "stack dev",
    {"spec": {"roles": []}},
    generation=3,
    phase="Incomplete",
    reasons=("it waits",),
    slots={"server": slot("2 Cleanup old")},
    render_version=1,
)


def cluster() -> SimulatedCluster:
    return SimulatedCluster(SimulatedClock(), 1)


def test_a_record_reads_back_as_it_was_written() -> None:
    server = cluster()
    written = records.save(server, RECORD, NOW)
    assert written.uid and written.updated == "2026-01-02T03:04:05Z"
    assert records.load(server, "team-a", "qwen") == written
    assert records.load(server, "team-a", "other") is None


def test_two_writers_of_a_record_cannot_overwrite_each_other() -> None:
    server = cluster()
    mine = records.save(server, RECORD, NOW)
    theirs = records.save(server, replace(mine, generation=4), NOW)
    with pytest.raises(Conflict):
        records.save(server, replace(mine, phase="Converged"), NOW)
    with pytest.raises(AlreadyExists):
        records.save(server, RECORD, NOW)
    with pytest.raises(Conflict, match="somebody else wrote the record"):
        records.rebase(server, mine)
    assert records.rebase(server, theirs) == theirs


def test_state_that_cannot_be_read_is_no_slots_and_an_incomplete_run() -> None:
    obj = records.save(cluster(), RECORD, NOW).to_object()
    for text in ("{", "[]", '{"slots": {"server": 1}, "phase": "Converged"}', '{"phase": "Odd"}'):
        read = Record.from_object({**obj, "data": {**obj["data"], "state": text}})
        assert (read.slots, read.phase, read.owner) == ({}, "Incomplete", "stack dev")


def test_another_object_on_the_records_name_is_refused() -> None:
    server = cluster()
    server.create({"kind": "ConfigMap", "metadata": {"name": "qwen-modeldeployment", "namespace": "team-a"}})
    with pytest.raises(RolloutRefused, match="exists and is no record of this product"):
        records.load(server, "team-a", "qwen")


def test_a_record_is_changed_by_its_owner_by_anyone_when_free_and_by_who_may_adopt_it() -> None:
    records.check_owner(RECORD, "stack dev")
    records.check_owner(replace(RECORD, owner=""), "stack prod")
    records.check_owner(RECORD, "stack prod", frozenset({"stack dev"}))
    with pytest.raises(RolloutRefused, match="belongs to stack dev, not to stack prod"):
        records.check_owner(RECORD, "stack prod")


def test_a_document_too_large_to_be_remembered_is_refused() -> None:
    records.check_size({"spec": "x" * 1000})
    with pytest.raises(RolloutRefused, match="at most 900,000"):
        records.check_size({"spec": "x" * 1_000_000})


def lease_of(server: SimulatedCluster, holder: Holder) -> DriverLease:
    return DriverLease(server, "team-a", "qwen-modeldeployment", holder, server.clock)


def elsewhere(words: str) -> Holder:
    return Holder(words, words, "another machine", 1, "1")


def test_a_lease_is_held_by_one_driver_and_gone_when_released() -> None:
    server = cluster()
    first, second = lease_of(server, elsewhere("ada")), lease_of(server, elsewhere("bob"))
    assert first.acquire() is None
    held = second.acquire()
    assert isinstance(held, HeldBy) and held.holder == "ada" and DURATION <= held.expires <= DURATION + 60
    first.release()
    assert ("Lease", "qwen-modeldeployment") not in server.objects
    assert second.acquire() is None


def test_a_lease_left_behind_elsewhere_is_taken_over_when_it_has_expired_and_its_holder_notices() -> None:
    server = cluster()
    first, second = lease_of(server, elsewhere("ada")), lease_of(server, elsewhere("bob"))
    first.acquire()
    server.clock.sleep(DURATION)
    assert isinstance(second.acquire(), HeldBy)
    server.clock.sleep(61)
    assert second.acquire() is None
    with pytest.raises(LeaseLost, match="taken over by bob"):
        first.keep()


class RenewedMeanwhile(SimulatedCluster):
    """While one driver asks what time it is, the one that had slept wakes up and renews its Lease."""

    sleeper: DriverLease | None = None

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        if dry_run and self.sleeper is not None:
            self.sleeper.keep()
        return super().create(obj, dry_run=dry_run)


@pytest.mark.parametrize("takes", [True, False], ids=["a run that wants it", "a run that only clears up"])
def test_an_expired_lease_that_is_renewed_while_it_is_looked_at_is_left_to_its_holder(takes: bool) -> None:
    server = RenewedMeanwhile(SimulatedClock(), 1)
    first, second = lease_of(server, elsewhere("ada")), lease_of(server, elsewhere("bob"))
    first.acquire()
    server.clock.sleep(DURATION + 61)
    server.sleeper = first
    if takes:
        assert isinstance(second.acquire(), HeldBy)
    else:
        assert not second.clear()
    server.clock.sleep(301)
    first.keep()
    assert first.held and not second.held


def test_a_lease_of_a_dead_process_of_this_machine_is_taken_over_at_once() -> None:
    server = cluster()
    with subprocess.Popen(["sleep", "60"]) as child:
        here = Holder.here("dead")
        dead = replace(here, pid=child.pid, token="dead", started=_started(child.pid))
        lease_of(server, dead).acquire()
        assert isinstance(lease_of(server, Holder.here("next")).acquire(), HeldBy)
        child.kill()
    assert lease_of(server, Holder.here("next")).acquire() is None


def _started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_pid_used_again_by_another_process_does_not_keep_a_dead_driver_alive() -> None:
    here = Holder.here("x")
    assert here.pid == os.getpid() and not here.provably_dead()
    assert replace(here, started="1").provably_dead()
    assert not replace(here, machine="elsewhere", started="1").provably_dead()


def test_a_lease_is_renewed_when_due_and_not_before() -> None:
    server = cluster()
    lease = lease_of(server, elsewhere("ada"))
    lease.acquire()
    calls = server.calls.total()
    lease.keep()
    assert server.calls.total() == calls and lease.due() == 300
    server.clock.sleep(301)
    lease.keep()
    assert server.calls.total() == calls + 1 and lease.due() == 300


def test_a_lease_removed_by_hand_is_noticed() -> None:
    server = cluster()
    lease = lease_of(server, elsewhere("ada"))
    lease.acquire()
    server.delete(LEASE, "team-a", "qwen-modeldeployment")
    server.clock.sleep(301)
    with pytest.raises(LeaseLost, match="was removed"):
        lease.keep()
    assert not lease.held


class LosesAnswers(SimulatedCluster):
    """Deletes what it is asked to, and nobody hears of it."""

    def delete(self, *place: Any, **conditions: Any) -> bool:
        super().delete(*place, **conditions)
        raise Unreachable("the connection was reset")


def test_a_lease_whose_release_was_not_answered_is_held_no_more() -> None:
    server = LosesAnswers(SimulatedClock(), 1)
    lease = lease_of(server, elsewhere("ada"))
    lease.acquire()
    with pytest.raises(Unreachable):
        lease.release()
    assert not lease.held
    assert lease.acquire() is None and lease.held, "the same run takes it again, whether it still stands or not"


DURATIONS: list[tuple[Any, float]] = [
    ("90s", 90),
    ("30m", 1800),
    ("1h30m", 5400),
    ("250ms", 0.25),
    (45, 45),
    ("12", 12),
]


@pytest.mark.parametrize(("text", "expected"), DURATIONS)
def test_durations_are_read_as_people_write_them(text: Any, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 parsecs", -1, True, "nan"])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds(text)


def test_all_wrong_timeouts_are_named_at_once() -> None:
    assert Timeouts.parse({"admission": "1h", "ready": None}) == Timeouts(admission=3600)
    with pytest.raises(ValueError) as wrong:
        Timeouts.parse({"admission": "soon", "patience": 3})
    assert [line.partition(":")[0] for line in str(wrong.value).splitlines()] == [
        "timeouts.admission",
        "timeouts.patience",
    ]


def test_spans_are_said_as_people_write_them() -> None:
    assert [span(value) for value in (0, 1.24, 48, 60, 190, 3600, 3900)] == [
        "0.0 s",
        "1.2 s",
        "48 s",
        "1m",
        "3m10s",
        "1h",
        "1h5m",
    ]
