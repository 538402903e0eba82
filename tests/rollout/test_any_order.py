"""The real executor on the simulated cluster, under any order of edits, misfortunes and deaths of its process."""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import (
    admitted,
    annotation,
    at,
    each,
    fingerprint,
    gated,
    label,
    ordinal,
    terminal,
    terminating,
    uid,
)
from gpustack_components.rollout.contract import Outcome, Timeouts, Wanted
from gpustack_components.rollout.converge import converge, teardown
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.view import Snapshot
from tests.rollout.lab import OWNER, Role, wanted
from tests.rollout.simulated import Killed, SimulatedClock, SimulatedCluster, SimulatedView

NAMESPACE = "team-a"
TIMEOUTS = Timeouts(admission=60, drain=60, ready=60, lease=0)


class World:
    """A simulated cluster, what is wanted of it, and the rules that no moment may break."""

    def __init__(self, chance: Random, quota: int = 100) -> None:
        self.chance = chance
        self.clock = SimulatedClock()
        self.cluster = SimulatedCluster(self.clock, quota)
        self.cluster.before_write = self._judge
        self.wanted: Wanted | None = None
        self.roles: dict[str, Role] = {}
        self.meanwhile: Callable[[], None] = lambda: None
        self.after_look: Callable[[Snapshot], None] = lambda known: None
        self.lines: list[str] = []

    def want(self, **roles: Role) -> None:
        self.roles = roles
        self.wanted = wanted(NAMESPACE, roles)

    def run(self, dies_after: int | None = None) -> Outcome | None:
        """One run of the driver; None when its process died."""
        assert self.wanted is not None
        self.cluster.dies_after = dies_after
        view = SimulatedView(self.cluster, NAMESPACE, "qwen", self.chance)
        view.meanwhile = self.meanwhile
        view.after_look = self.after_look
        try:
            return converge(
                self.cluster, self.wanted, timeouts=TIMEOUTS, clock=self.clock, view=view, progress=self.lines.append
            )
        except Killed:
            self._bury()
            return None
        finally:
            self.cluster.dies_after = None

    def remove(self, dies_after: int | None = None) -> Outcome | None:
        """One teardown."""
        self.cluster.dies_after = dies_after
        view = SimulatedView(self.cluster, NAMESPACE, "qwen", self.chance)
        try:
            return teardown(
                self.cluster, NAMESPACE, "qwen", owner=OWNER, holder="t", timeouts=TIMEOUTS, clock=self.clock, view=view
            )
        except Killed:
            self._bury()
            return None
        finally:
            self.cluster.dies_after = None

    def _bury(self) -> None:
        """The dead driver's Lease names a process that lives on in this test; let it read as dead."""
        for (kind, _), obj in list(self.cluster.objects.items()):
            if kind == "Lease":
                obj["metadata"]["annotations"]["modeldeployment.gpustack.ai/driver-process"] = "4194999"

    def live(self, role: str, number: int) -> list[Json]:
        """Live Pods of one replica."""
        return [
            pod
            for pod in self.cluster.pods()
            if label(pod, keys.APP_COMPONENT) == role
            and ordinal(pod) == number
            and not terminating(pod)
            and not terminal(pod)
        ]

    def serves(self, role: str, number: int) -> bool:
        """Whether that replica is whole and admitted."""
        pods = self.live(role, number)
        if not pods or len(pods) < int(annotation(pods[0], keys.GROUP_TOTAL) or 1) or any(map(gated, pods)):
            return False
        owners = [
            {owner["uid"] for owner in each(workload, "metadata", "ownerReferences")}
            for workload in self.cluster.workloads()
            if admitted(workload) and not terminating(workload)
        ]
        return any(uid(pods[0]) in of for of in owners)

    def _judge(self, verb: str, obj: Json) -> None:
        if obj["kind"] != "Pod":
            return
        role, number = label(obj, keys.APP_COMPONENT) or "", ordinal(obj)
        assert number is not None
        of = self.roles.get(role)
        if verb == "create":
            standing = [
                pod for pod in self.live(role, number) if label(pod, keys.MEMBER_INDEX) == label(obj, keys.MEMBER_INDEX)
            ]
            assert not standing, f"{role}/{number} is doubled"
            return
        if of is None or number >= of.replicas or terminal(obj) or not self.serves(role, number):
            return
        slot = self._record().slots.get(role)
        assert slot is not None and slot.ordinal == number, f"{role}/{number} is deleted without being remembered"
        assert uid(obj) in slot.member_uids
        if uid(obj) in self.superseded:
            return
        pods = self.live(role, number)
        current = all(fingerprint(pod) == self._hash(role, number, pod) for pod in pods)
        assert not current, f"{role}/{number} is current, admitted and whole, and is deleted"
        others = [other for other in range(of.replicas) if other != number]
        assert all(self.serves(role, other) for other in others), (
            f"{role}/{number} leaves while a sibling is not admitted"
        )

    superseded: frozenset[str] = frozenset()

    def _hash(self, role: str, number: int, pod: Json) -> str | None:
        assert self.wanted is not None
        of = self.wanted.desired.role(role)
        return of.seat(number, int(label(pod, keys.MEMBER_INDEX) or 0)) if of else None

    def _record(self) -> Record:
        return Record.from_object(self.cluster.objects["ConfigMap", "qwen-modeldeployment"])

    def check_done(self) -> None:
        """Everything declared serves as it is wanted, and nothing else is left."""
        self.cluster.settle(self.chance)
        for role, of in self.roles.items():
            for number in range(of.replicas):
                assert self.serves(role, number), f"{role}/{number} does not serve"
                for pod in self.live(role, number):
                    assert fingerprint(pod) == self._hash(role, number, pod)
        expected = sum(of.replicas * of.size for of in self.roles.values())
        assert len(self.cluster.pods()) == expected
        assert len(self.cluster.workloads()) == sum(of.replicas for of in self.roles.values())
        before = self.cluster.version
        again = self.run()
        assert again is not None and again.phase == "Converged" and not again.wrote
        assert self.cluster.version == before, "a run without an edit wrote something"


CONFIGS = st.sampled_from(["a", "b", "c"])
ROLES = st.builds(Role, config=CONFIGS, replicas=st.integers(1, 4), size=st.integers(1, 2))
SEEDS = st.integers(0, 2**32)
DEATHS = st.none() | st.integers(0, 40)
EXAMPLES = int(os.environ.get("ROLLOUT_EXAMPLES", "100"))
SHRINKING = [] if "ROLLOUT_EXAMPLES" in os.environ else [Phase.shrink]
CALM = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *SHRINKING],
    suppress_health_check=list(HealthCheck),
)


@CALM
@given(
    st.lists(st.tuples(ROLES, ROLES, DEATHS), min_size=1, max_size=4),
    st.integers(0, 1),
    SEEDS,
)
def test_edits_and_deaths_end_as_wanted_with_one_replica_away_at_most(
    edits: list[tuple[Role, Role, int | None]], code: int, seed: int
) -> None:
    world = World(Random(seed))
    world.cluster.exit_code = lambda pod: code
    for prefill, decode, death in edits:
        world.want(prefill=prefill, decode=decode)
        world.superseded = _held(world)
        outcome = world.run(death)
        if outcome is not None:
            assert outcome.phase == "Converged", outcome.reasons
    outcome = world.run()
    assert outcome is not None and outcome.phase == "Converged", outcome
    assert world.cluster.excess == 0
    world.check_done()


def _held(world: World) -> frozenset[str]:
    """Pods on an ordinal whose slot is still held: a newer edit may replace them without waiting (4.5)."""
    if ("ConfigMap", "qwen-modeldeployment") not in world.cluster.objects:
        return frozenset()
    return frozenset(uid(pod) for slot in world._record().slots.values() for pod in world.live(slot.role, slot.ordinal))


@CALM
@given(
    st.lists(
        st.tuples(ROLES, DEATHS, st.sampled_from(["preempt", "lose", "fail", "none"]), st.integers(0, 30)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 1),
    SEEDS,
)
def test_misfortunes_in_any_order_are_repaired(
    story: list[tuple[Role, int | None, str, int]], code: int, seed: int
) -> None:
    world = World(Random(seed))
    world.cluster.exit_code = lambda pod: code
    for role, death, misfortune, moment in story:
        world.want(server=role)
        world.superseded = _held(world)
        world.meanwhile = _later(world, misfortune, moment)
        world.run(death)
    world.meanwhile = lambda: None
    outcome = world.run()
    assert outcome is not None and outcome.phase == "Converged", (outcome, world.lines)
    world.check_done()


def _later(world: World, misfortune: str, moment: int) -> Callable[[], None]:
    """Strike once, at the given wait."""
    left = moment

    def strike() -> None:
        nonlocal left
        left -= 1
        if left != 0:
            return
        cluster = world.cluster
        if misfortune == "preempt":
            running = [w for w in cluster.workloads() if admitted(w) and not terminating(w)]
            if running:
                cluster.preempt(world.chance.choice(running))
        pods = [pod for pod in cluster.pods() if at(pod, "status", "phase") == "Running" and not terminating(pod)]
        if misfortune == "lose" and pods:
            cluster.lose(world.chance.choice(pods))
        if misfortune == "fail" and pods:
            cluster.fail(world.chance.choice(pods))

    return strike


@CALM
@given(ROLES, st.lists(st.integers(0, 30), max_size=3), st.integers(0, 1), SEEDS)
def test_a_teardown_killed_anywhere_leaves_nothing_after_the_next(
    role: Role, deaths: list[int], code: int, seed: int
) -> None:
    world = World(Random(seed))
    world.cluster.exit_code = lambda pod: code
    world.want(server=role)
    world.run()
    world.roles = {}
    for death in deaths:
        world.remove(death)
    outcome = world.remove()
    assert outcome is not None and outcome.phase == "Deleted", outcome
    world.cluster.settle(world.chance)
    assert not world.cluster.objects


def test_without_quota_for_all_the_rest_runs_and_the_run_says_who_waits() -> None:
    world = World(Random(1), quota=3)
    world.want(server=Role("a", replicas=4))
    outcome = world.run()
    assert outcome is not None and outcome.phase == "Incomplete"
    assert sum(world.serves("server", number) for number in range(4)) == 3
    assert [reason for reason in outcome.reasons if "not admitted after 1m" in reason and "1 more needed" in reason]
    world.cluster.quota = 4
    again = world.run()
    assert again is not None and again.phase == "Converged"
    world.check_done()


@pytest.mark.parametrize("code", [0, 1])
def test_killed_at_every_single_call_the_next_run_finishes(code: int) -> None:
    calls, death = True, 0
    while calls:
        world = World(Random(death))
        world.cluster.exit_code = lambda pod: code
        world.want(server=Role("a", replicas=2, size=2))
        world.run()
        world.want(server=Role("b", replicas=2, size=2))
        calls = world.run(death) is None
        outcome: Any = world.run()
        assert outcome.phase == "Converged", (death, outcome)
        world.check_done()
        death += 1
    assert death > 20


def test_a_sibling_lost_before_the_watch_shows_it_saves_the_next_healthy_replica() -> None:
    world = World(Random(5))
    world.want(server=Role("a", replicas=2))
    world.run()
    world.want(server=Role("b", replicas=2))
    struck: list[str] = []

    def after_look(known: Snapshot) -> None:
        """Once the driver sees the replacement admitted, it loses its admission before anything is done."""
        slots = world._record().slots
        waiting = "server" in slots and slots["server"].phase == "WaitingForAdmission"
        seen = len(known.workloads) == 2 and all(map(admitted, known.workloads))
        if waiting and seen and not struck and not any(map(gated, known.pods)):
            (replaced,) = world.live("server", 1)
            world.cluster.preempt(next(one for one in world.cluster.workloads() if uid(replaced) in _owners(one)))
            struck.append("server/1")

    world.after_look = after_look
    outcome = world.run()
    assert struck
    assert outcome is not None and outcome.phase == "Converged", outcome
    world.check_done()


def _owners(workload: Json) -> set[str]:
    return {owner["uid"] for owner in each(workload, "metadata", "ownerReferences")}
