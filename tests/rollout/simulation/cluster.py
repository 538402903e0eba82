"""A cluster in memory that behaves as kueue-facts.md says Kueue 0.17, the kubelet and the garbage collector do.

It implements the `Cluster` protocol, so the real executor runs on it. Nothing happens by itself: each `tick` lets one
controller, chosen by the given chance, take one step, so that any interleaving can be had and repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import name
from tests.rollout.simulation.api_server import ApiServer, group_of
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.kueue import Kueue
from tests.rollout.simulation.machines import GarbageCollector, Kubelets

_MANY = 5000
_SLOWNESS = {"kubelet": 1, "requeue": 2}
"""Who takes tenths of a second, and who a second; the others take milliseconds."""


class SimulatedCluster(ApiServer):
    """API server, Kueue, scheduler, kubelets and garbage collector of one namespace."""

    def __init__(self, clock: SimulatedClock, quota: int) -> None:
        super().__init__(clock)
        self.kueue = Kueue(self, quota)
        self.kubelets = Kubelets(self)
        self.collector = GarbageCollector(self)
        self.on_change: Callable[[Json], None] = lambda obj: None
        """Told of every object that was written, as it now stands or last stood."""
        self.in_real_time = False
        """Whether the slow ones move only when the quick ones have nothing to do, rather than anybody at any time."""
        self._due: dict[tuple[str, str], None] = {}

    def copy(self) -> SimulatedCluster:
        """The same again, to go on differently."""
        clock = SimulatedClock()
        clock.seconds = self.clock.seconds
        again = SimulatedCluster(clock, self.kueue.quota)
        again.objects, again.version, again._due = dict(self.objects), self.version, dict(self._due)
        again.kueue.priorities, again.kueue.excess = self.kueue.priorities, self.kueue.excess
        again.in_real_time = self.in_real_time
        again.kubelets.exit_code, again.kubelets.hanging = self.kubelets.exit_code, set(self.kubelets.hanging)
        return again

    def admit_object(self, obj: Json) -> Json:
        return self.kueue.take_in(obj) if obj["kind"] == "Pod" else obj

    def changed(self, obj: Json) -> None:
        due, kind = self._due, obj["kind"]
        if kind == "Pod":
            due["kubelet", name(obj)] = None
            if group := group_of(obj):
                due["group", group] = None
        elif kind == "Workload":
            due["group", name(obj)] = None
            due["workload", name(obj)] = None
            due["scheduler", ""] = due["requeue", ""] = None
        if obj["metadata"].get("ownerReferences") or (kind, name(obj)) not in self.objects:
            due["collector", ""] = None
        self.on_change(obj)

    def stir(self) -> None:
        """Let every controller look at everything again, after something that is no object has changed."""
        for obj in list(self.objects.values()):
            self.changed(obj)
        self._due["requeue", ""] = None

    def set_quota(self, pods: int) -> None:
        """Change how many Pods may hold quota at once."""
        self.kueue.quota = pods
        self._due["requeue", ""] = None

    def tick(self, chance: Random) -> bool:
        """One step of one controller that has something to do; False when none has."""
        while self._due:
            place = chance.choice(self._next())
            if self._step(*place, chance):
                return True
            self._due.pop(place, None)
        return False

    def _next(self) -> list[tuple[str, str]]:
        """Who may move now."""
        due = list(self._due)
        if self.in_real_time:
            first = min(_SLOWNESS.get(controller, 0) for controller, _ in due)
            due = [place for place in due if _SLOWNESS.get(place[0], 0) == first]
        return due

    def _step(self, controller: str, of: str, chance: Random) -> bool:
        match controller:
            case "group":
                return self.kueue.reconcile_group(of, chance)
            case "scheduler":
                return self.kueue.schedule(chance)
            case "requeue":
                del self._due["requeue", ""]
                self._due["scheduler", ""] = None
                return self.kueue.look_again()
            case "collector":
                return self.collector.collect()
            case "workload":
                workload = self.objects.get(("Workload", of))
                return workload is not None and self.kueue.reconcile_workload(workload)
            case _:
                pod = self.objects.get(("Pod", of))
                return pod is not None and self.kubelets.sync(pod)

    def settle(self, chance: Random) -> None:
        """Tick until nothing moves."""
        for _ in range(_MANY):
            if not self.tick(chance):
                return
        raise AssertionError("the simulated cluster does not come to rest")

    # Misfortunes.

    def preempt(self, workload: Json) -> None:
        """Kueue evicts it for a more important one."""
        self.kueue.evict(workload, "Preempted")

    def fail(self, pod: Json, phase: str = "Failed") -> None:
        """The Pod ends by itself."""
        self.update(pod, status={"phase": phase, "reason": "Evicted"})

    def lose(self, pod: Json) -> None:
        """Somebody deletes the Pod."""
        self.ask_deletion(pod)
