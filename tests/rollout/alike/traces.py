"""What a trace does: bursts of requests, after each of which everything comes to rest."""

from dataclasses import dataclass
from random import Random

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json

GROUPS = ("low-0", "low-1", "high")
FULL = 4
"""The quota a trace begins with, in Pods."""
SLOW = "0.9"


@dataclass(frozen=True)
class CreatePod:
    """A Pod joins its group."""

    name: str
    group: str
    total: int
    code: str
    """How it exits once it is deleted: 0 or not."""
    slow: bool

    def manifest(self, priority_class: str) -> Json:
        """The Pod, by the sandbox's annotations."""
        labels = {keys.QUEUE_NAME: "queue", keys.GROUP_NAME: self.group}
        if self.group.startswith("high"):
            labels["kueue.x-k8s.io/priority-class"] = priority_class
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": labels,
                "annotations": {
                    keys.GROUP_TOTAL: str(self.total),
                    keys.GROUP_SERVING: "true",
                    keys.ROLE_HASH: "main",
                    "sandbox.gpustack.ai/exit-code": self.code,
                    **({"sandbox.gpustack.ai/exit-after": SLOW} if self.slow else {}),
                },
            },
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}],
            },
        }


@dataclass(frozen=True)
class DeletePod:
    """Somebody deletes a Pod; nothing when it does not stand."""

    name: str


@dataclass(frozen=True)
class DeleteWorkload:
    """Somebody deletes a group's Workload; nothing when there is none."""

    group: str


@dataclass(frozen=True)
class Activate:
    """Somebody sets a Workload's `spec.active`; nothing when there is none."""

    group: str
    active: bool


@dataclass(frozen=True)
class SetQuota:
    """Somebody edits the ClusterQueue."""

    pods: int


Step = CreatePod | DeletePod | DeleteWorkload | Activate | SetQuota
Burst = tuple[Step, ...]


class _Author:
    """Writes one trace; it remembers what it has created, not what has become of it."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._code = {group: chance.choice("01") for group in GROUPS}
        self._slow = {group: chance.random() < 0.3 for group in GROUPS}
        self._total = {group: chance.choice((1, 2)) for group in GROUPS}
        self._standing: dict[str, list[str]] = {group: [] for group in GROUPS}
        self._number = 0

    def burst(self) -> Burst:
        group = self._chance.choice(GROUPS)
        if not self._standing[group]:
            return self._create(group, self._chance.choice((0, 0, 0, -1, 1)))
        match self._chance.randrange(11):
            case 0 | 1 | 2:
                return self._turn_over(group)
            case 3:
                return self._delete(group, self._standing[group][:1])
            case 4:
                return self._delete(group, self._standing[group][:1]) + self._create(group, 1 - self._total[group])
            case 5:
                return (DeleteWorkload(group),)
            case 6:
                return (Activate(group, active=False),)
            case 7:
                return (Activate(group, active=True),)
            case 8:
                return self._create(group, self._chance.choice((1 - self._total[group], 0)))
            case _:
                return (SetQuota(self._chance.randrange(FULL + 1)),)

    def _create(self, group: str, more: int) -> Burst:
        """The group's Pods, some more or fewer than it says."""
        return tuple(self._pod(group) for _ in range(self._total[group] + more))

    def _pod(self, group: str) -> Step:
        self._number += 1
        name = f"{group}-{self._number}"
        self._standing[group].append(name)
        return CreatePod(name, group, self._total[group], self._code[group], self._slow[group])

    def _delete(self, group: str, pods: list[str]) -> Burst:
        self._standing[group] = [name for name in self._standing[group] if name not in pods]
        return tuple(map(DeletePod, pods))

    def _turn_over(self, group: str) -> Burst:
        """Pods and Workload leave in some order, replacements come before that or not yet."""
        pods = self._delete(group, self._standing[group])
        workload: Burst = (DeleteWorkload(group),) if self._chance.random() < 0.8 else ()
        leave = pods + workload if self._chance.random() < 0.6 else workload + pods
        return leave + self._create(group, 0) if self._chance.random() < 0.4 else leave


def trace(seed: int, bursts: int = 5) -> tuple[Burst, ...]:
    """One trace; the same for the same seed."""
    author = _Author(Random(seed))
    return tuple(burst for burst in (author.burst() for _ in range(bursts)) if burst)
