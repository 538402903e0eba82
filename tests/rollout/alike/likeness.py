"""The same traces on the simulation, and whether what the real Kueue showed is among what it can show.

Which of several controllers is first is chance on both sides. So a burst is played many times from wherever the trace
can have come to, each time in another order; the real end must be one of those found, and so must the line of phases of
each object on the way there. The plays that ended as the real one did go on with the next burst.
"""

from random import Random
from typing import Any

from tests.rollout.alike.sightings import Place, Seen, Sightings
from tests.rollout.alike.traces import FULL, Activate, Burst, CreatePod, DeletePod, DeleteWorkload, SetQuota
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.cluster import SimulatedCluster

PLAYS = 60
"""How often each burst is played."""
MOST = 3000
"""And at most, while the way the real Kueue went has not been found among them."""
PRIORITY_CLASS = "high"
EAGER = (0, 0, 2, 12, 40)
"""How many steps of others come between two of a burst, at most; the same all through it, or another each time."""


class Play:
    """One way a trace may go."""

    def __init__(self, cluster: SimulatedCluster, sightings: Sightings) -> None:
        self._cluster = cluster
        self._sightings = sightings
        cluster.on_change = self._see
        self.seen = Seen({}, {})

    def _see(self, obj: Any) -> None:
        self._sightings.see(obj, gone=self._cluster.current(obj) is None)

    def fork(self) -> "Play":
        """The same again, to go on differently."""
        return Play(self._cluster.copy(), self._sightings.copy())

    def on(self, burst: Burst, chance: Random) -> "Play":
        """Go on with a burst, in an order given by chance."""
        even, eager = chance.random() < 0.5, chance.choice(EAGER)
        self._cluster.in_real_time = chance.random() < 0.5
        for step in burst:
            _do(self._cluster, step)
            for _ in range(chance.randint(0, eager if even else chance.choice(EAGER))):
                self._cluster.tick(chance)
        self._cluster.settle(chance)
        self._cluster.clock.sleep(2)
        self.seen = Seen(self._sightings.take(), self._sightings.state())
        return self


def _do(cluster: SimulatedCluster, step: Any) -> None:
    match step:
        case CreatePod():
            cluster.create(step.manifest(PRIORITY_CLASS))
        case DeletePod():
            if (pod := cluster.objects.get(("Pod", step.name))) is not None:
                cluster.ask_deletion(pod)
        case DeleteWorkload():
            if (workload := cluster.objects.get(("Workload", step.group))) is not None:
                cluster.ask_deletion(workload)
        case Activate():
            if (workload := cluster.objects.get(("Workload", step.group))) is not None:
                cluster.update(workload, spec={"active": step.active})
        case SetQuota():
            cluster.set_quota(step.pods)
        case _:
            raise AssertionError(step)


class Likeness:
    """Follows one trace: all the ways it may go, and which of them the real Kueue went."""

    def __init__(self) -> None:
        cluster = SimulatedCluster(SimulatedClock(), FULL)
        cluster.kueue.priorities = {PRIORITY_CLASS: 100}
        self._chance = Random(0)
        self._begun = [Play(cluster, Sightings())]
        self._plays: list[Play] = []
        self._burst: Burst = ()

    def ends(self, burst: Burst) -> list[dict[Place, str]]:
        """How everything may stand after the next burst."""
        self._burst = burst
        self._plays = [self._play() for _ in range(PLAYS)]
        return _ends(self._plays)

    def differences(self, real: Seen) -> list[str]:
        """What the real Kueue showed that the simulation cannot; empty when it is alike."""
        alike = [play for play in self._plays if play.seen.state == real.state]
        while not alike or not all(line in _lines(alike, place) for place, line in real.lines.items()):
            if len(self._plays) >= MOST:
                break
            self._plays.append(self._play())
            if self._plays[-1].seen.state == real.state:
                alike.append(self._plays[-1])
        self._begun = alike
        if not alike:
            return [f"the real end is {real.state}", *(f"here it is {end}" for end in _ends(self._plays))]
        return [
            f"{' '.join(place)} went {', '.join(line)}; here {sorted(_lines(alike, place))}; the end was {real.state}"
            for place, line in real.lines.items()
            if line not in _lines(alike, place)
        ]

    def _play(self) -> Play:
        return self._chance.choice(self._begun).fork().on(self._burst, self._chance)


def _lines(plays: list[Play], place: Place) -> set[tuple[str, ...]]:
    return {play.seen.lines.get(place, ()) for play in plays}


def _ends(plays: list[Play]) -> list[dict[Place, str]]:
    found: list[dict[Place, str]] = []
    for play in plays:
        if play.seen.state not in found:
            found.append(play.seen.state)
    return found
