"""Rollouts through a network and a server that misbehave at random: nothing is lost, nothing doubled, one at a time.

Twenty seeds by default; `ROLLOUT_SEEDS=200` runs two hundred, `ROLLOUT_SEEDS=17:18` the one of that number.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.port import ClusterError
from gpustack_components.cluster.retrying import Patience
from gpustack_components.rollout.contract import RolloutRefused, Timeouts
from sandbox.cluster import Sandbox
from tests.e2e.timeline import Timeline
from tests.faults.proxy import Fault, FaultProxy
from tests.rollout.lab import EXIT_AFTER, EXIT_CODE, Lab, Role
from tests.rollout.side_by_side import CPU, SideBySide, chosen

pytestmark = pytest.mark.cluster

REPLICAS = 3
SHORT = Patience(attempts=2, seconds=2.0)
TIMEOUTS = Timeouts(admission=60, drain=60, ready=60, lease=5)
STRIKES, AHEAD = 24, 3
"""Most faults of one rollout, and most that may lie in wait at a time: they would pile up while a run pauses."""
TARGETS = (
    "* */pods*",
    "* */workloads*",
    "* */configmaps*",
    "* */leases*",
    "POST */pods*",
    "POST *",
    "DELETE *",
    "PUT *",
    "GET *",
)
FAULTS = ("delay", "lose", "drop", "repeat", "busy", "busy for a second", "error", "conflict", "gone", "cut", "away")


def _seeds() -> range:
    first, _, last = os.environ.get("ROLLOUT_SEEDS", "20").rpartition(":")
    return range(int(first or 0), int(last))


@pytest.fixture(scope="module")
def rollouts(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[SideBySide]:
    """All seeds at work."""
    together = SideBySide(sandbox.kubeconfig, width=10)
    for (seed,) in chosen(request, "seed"):
        together.begin(seed, lambda lab, seed=seed: _disturbed_rollout(lab, sandbox, seed))
    yield together
    together.close()


@pytest.mark.parametrize("seed", _seeds())
def test_under_random_faults_nothing_is_lost_and_nothing_doubled(rollouts: SideBySide, seed: int) -> None:
    rollouts.outcome(seed)


class Disturbance:
    """Strikes a proxy at random moments between `with` and its end."""

    def __init__(self, proxy: FaultProxy, chance: Random) -> None:
        self.proxy = proxy
        self.chance = chance
        self.scripted: list[Fault] = []
        self.struck: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Disturbance":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.proxy.clear()
        self.proxy.come_back()

    @property
    def doubled_creations(self) -> int:
        """How many creations of Pods the proxy may have sent twice."""
        return sum(f.used for f in self.scripted if f.action == "repeat" and f.pattern[:1] in ("*", "P"))

    def _run(self) -> None:
        while self.struck.total() < STRIKES and not self._done.wait(self.chance.uniform(0.02, 0.3)):
            pending = sum(1 for fault in self.scripted if fault.used < (fault.times or 1))
            if pending < AHEAD:
                self._strike()

    def _strike(self) -> None:
        proxy, chance = self.proxy, self.chance
        target, kind = chance.choice(TARGETS), chance.choice(FAULTS)
        self.struck[kind] += 1
        match kind:
            case "delay":
                fault = proxy.delay(target, chance.uniform(0.1, 1), times=2)
            case "lose":
                fault = proxy.lose(target, times=1)
            case "drop":
                fault = proxy.drop(target, times=1)
            case "repeat":
                fault = proxy.repeat(target, times=1)
            case "busy":
                fault = proxy.answer(target, 429, times=2)
            case "busy for a second":
                fault = proxy.answer(target, 429, retry_after=1, times=1)
            case "error":
                fault = proxy.answer(target, 500, times=1)
            case "conflict":
                fault = proxy.answer("PUT *", 409, times=1)
            case "gone":
                fault = proxy.answer("GET *watch=*", 410, times=1)
            case "cut":
                proxy.cut_streams()
                return
            case _:
                proxy.go_away()
                self._done.wait(chance.uniform(0.1, 1))
                proxy.come_back()
                return
        self.scripted.append(fault)


def _disturbed_rollout(lab: Lab, sandbox: Sandbox, seed: int) -> None:
    chance = Random(seed)
    size = chance.choice((1, 2))
    ends = {EXIT_CODE: chance.choice(("0", "1")), EXIT_AFTER: "0.3"}
    new = Role("v2", replicas=REPLICAS, size=size, annotations=ends, resource=CPU)
    lab.open_queue(REPLICAS * size)
    first = lab.up(server=Role("v1", replicas=REPLICAS, size=size, annotations=ends, resource=CPU), timeouts=TIMEOUTS)
    assert first.phase == "Converged", first.reasons
    with Timeline(lab.unseen, lab.namespace) as timeline, FaultProxy(sandbox.kubeconfig) as proxy:
        with Disturbance(proxy, chance) as disturbance:
            for _ in range(5):
                if _attempt(lab, new, proxy):
                    break
        final = lab.up(server=new, timeouts=TIMEOUTS)
    faults = f"seed {seed}, {dict(disturbance.struck)}"
    assert final.phase == "Converged", (faults, final.reasons)
    assert lab.configs() == {number: ["v2"] * size for number in range(REPLICAS)}, faults
    assert len(lab.workloads()) == REPLICAS, faults
    assert timeline.fewest_admitted("server", after=REPLICAS) >= REPLICAS - 1, faults
    doubled = disturbance.doubled_creations if size == 1 else 0
    ever = timeline.ever_on_each_seat()
    assert sum(map(len, ever.values())) <= 2 * REPLICAS * size + doubled, (faults, ever)
    assert timeline.most_on_one_seat() <= 1 + doubled, faults


def _attempt(lab: Lab, role: Role, proxy: FaultProxy) -> bool:
    """Whether one run through the disturbed proxy converged; a Lease it could not release is removed."""
    try:
        outcome = lab.up(server=role, cluster=connect(proxy.kubeconfig, patience=SHORT), timeouts=TIMEOUTS)
    except (ClusterError, RolloutRefused):
        lab.close_lease()
        return False
    if outcome.phase != "Converged":
        lab.close_lease()
    return outcome.phase == "Converged"
