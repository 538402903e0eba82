"""How the executor looks at a simulated cluster when nothing else is to happen than the cluster's own steps."""

from collections.abc import Callable
from copy import deepcopy
from random import Random

from gpustack_components.cluster.keys import selector
from gpustack_components.cluster.port import POD, WORKLOAD, Json
from gpustack_components.cluster.readings import uid
from gpustack_components.cluster.weight_objects import Named
from gpustack_components.rollout.view import Snapshot
from tests.rollout.simulation.cluster import SimulatedCluster


class SimulatedView:
    """A `rollout.view.View` whose waits let the cluster move."""

    trouble = None

    def __init__(self, cluster: SimulatedCluster, namespace: str, deployment: str, chance: Random) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector(deployment)
        self._chance = chance
        self._known = Snapshot((), ())
        self._shown = -1
        self._attending: tuple[Named, ...] = ()
        self._stood: list[Json | None] = []
        self._changes = 0
        self.after_look: Callable[[Snapshot], None] = lambda known: None
        """Called after every look that asks nothing: what the driver does not know of yet."""

    def fresh(self) -> Snapshot:
        pods = self._cluster.list(POD, self._namespace, self._selector).items
        self._known = Snapshot(pods, self._cluster.list(WORKLOAD, self._namespace).items)
        return self._known

    def snapshot(self) -> Snapshot:
        self.after_look(self._known)
        return self._known

    def note(self, obj: Json) -> None:
        others = (pod for pod in self._known.pods if uid(pod) != uid(obj))
        self._known = Snapshot((*others, obj), self._known.workloads)

    def wait(self, seconds: float) -> None:
        moved = [self._cluster.tick(self._chance) for _ in range(self._chance.randrange(1, 8))]
        if not any(moved) and self._shown == self._cluster.version:
            self._cluster.clock.sleep(seconds)
            return
        self._cluster.clock.sleep(0.1)
        if not any(moved) or self._chance.random() < 0.8:
            self._shown = self._cluster.version
            self.fresh()

    def attend(self, objects: tuple[Named, ...]) -> tuple[Named, ...]:
        self._attending = objects
        return objects

    @property
    def attended(self) -> int:
        standing = [deepcopy(self._cluster.objects.get((one.kind.kind, one.name))) for one in self._attending]
        if standing != self._stood:
            self._stood, self._changes = standing, self._changes + 1
        return self._changes

    def close(self) -> None:
        pass
