"""What a watch shows of a trace's Pods and Workloads, reduced to what matters: the order of their phases."""

from dataclasses import dataclass

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import gated, holds, name, terminal, terminating

GONE = "gone"
Place = tuple[str, str]
"""Kind and name."""


def phase(obj: Json) -> str:
    """The phase of an object: `running`, `done` and so on; `!` is being deleted, `-` is released by Kueue."""
    word = _pod(obj) if obj["kind"] == "Pod" else _workload(obj)
    return word + ("!" if terminating(obj) else "")


def _pod(pod: Json) -> str:
    """The Pod garbage collector looks every 20 seconds and calls deleted Pods Failed that no node has: not a phase."""
    ended = terminal(pod) and pod["spec"].get("nodeName")
    life = "gated" if gated(pod) else "done" if ended else "running"
    return life + ("" if keys.MANAGED in pod["metadata"].get("finalizers", ()) else "-")


def _workload(workload: Json) -> str:
    held = holds(workload, "QuotaReserved")
    if holds(workload, "Evicted"):
        return "evicted" if held else "evicted and waiting"
    return "admitted" if held else "waiting"


@dataclass(frozen=True)
class Seen:
    """What one burst led to."""

    lines: dict[Place, tuple[str, ...]]
    """The phases of each object that changed, in their order, beginning with the one it was in."""
    state: dict[Place, str]
    """The phase of each object that stands at the end."""


class Sightings:
    """Phases by object, in the order in which they were seen; an object made anew goes on in the same line."""

    def __init__(self) -> None:
        self._phases: dict[Place, list[str]] = {}

    def copy(self) -> "Sightings":
        """The same again."""
        again = Sightings()
        again._phases = {place: list(line) for place, line in self._phases.items()}
        return again

    def see(self, obj: Json, *, gone: bool = False) -> bool:
        """Take in a change; whether it is one."""
        place, now = (obj["kind"], name(obj)), GONE if gone else phase(obj)
        line = self._phases.setdefault(place, [GONE])
        if line[-1] == now:
            return False
        line.append(now)
        return True

    def state(self) -> dict[Place, str]:
        """How everything stands that has not gone."""
        return {place: line[-1] for place, line in self._phases.items() if line[-1] != GONE}

    def take(self) -> dict[Place, tuple[str, ...]]:
        """The lines since the last call, of what has changed, each beginning with the phase it was in."""
        taken = {place: tuple(line) for place, line in self._phases.items() if len(line) > 1}
        self._phases = {place: line[-1:] for place, line in self._phases.items()}
        return taken
