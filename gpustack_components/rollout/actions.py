"""What the planner answers with: actions to take, slots to remember, and what is being waited for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.slots import Slots

Why = Literal[
    "outdated", "broken", "superseded", "orphan", "surplus", "scaled-down", "role-removed", "retired", "finished"
]
"""Why Pods are deleted: they differ from what is wanted; the replica lost a member; a newer edit came while they were
queued; no ordinal; a seat is doubled; the count fell; the role is gone; withdrawn and drained; the Pod ended by
itself."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """One Pod, exactly that one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete these Pods, each on the condition of its uid, with their own grace period."""

    role: str
    ordinal: int | None
    """None for a Pod that names no ordinal."""
    pods: tuple[PodRef, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete this Workload on the condition of its uid; all its Pods have exited."""

    role: str
    ordinal: int | None
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ReleaseFinalizer:
    """Take Kueue's finalizer off an exited, deleted Pod that no Workload is left to release."""

    role: str
    ordinal: int | None
    pod: PodRef


@dataclass(frozen=True, slots=True)
class EnsureService:
    """Create the headless Service of a replica of more than one Pod."""

    role: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class PruneService:
    """Delete a headless Service that no Pod needs any more."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Create these members of one replica from what is wanted now; nothing of it reads on the server."""

    role: str
    ordinal: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Label a member as one that Services and routers may select, or take that label off (sheet 9)."""

    role: str
    ordinal: int
    pod: PodRef
    eligible: bool
    """Whether it may be selected."""


@dataclass(frozen=True, slots=True)
class Select:
    """Have a Service in front of a role select other Pods than it does (sheet 5.3)."""

    role: str
    name: str
    uid: str
    before: Mapping[str, str]
    """The selector that stands."""
    selector: Mapping[str, str]
    mixed: bool
    """Whether the role's replicas differ in shape, so that this is not what the Service declares."""


Action = DeletePods | DeleteWorkload | ReleaseFinalizer | EnsureService | PruneService | CreateReplica | Mark | Select

WaitKind = Literal[
    "exit", "release", "admission", "foreign", "turn", "guard", "held", "unreadable", "retirement", "retained"
]
"""What is waited for: Pods to exit; Kueue or the garbage collector to let go; Kueue to admit; a foreign object to
leave; the role's one slot; every declared replica's admission; a hold to end; contradictory Pods to be sorted out; a
retirement to end; a person to say what becomes of a replica whose retirement was aborted."""

BOUNDED: frozenset[WaitKind] = frozenset({"exit", "release", "admission", "foreign", "unreadable", "retirement"})
"""Waits with a timeout of their own. The others end when one of these does."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that is not as it should be, and that only time or someone else changes."""

    kind: WaitKind
    role: str
    ordinal: int | None
    message: str
    """What is known of it as a clause, in Kueue's own words where Kueue has said something."""
    workload: str = ""
    """The Workload to look at, when there is one."""
    quoted: bool = False
    """Whether the message is Kueue's own rather than a remark of ours that the next moment may overtake."""
    grace: float = 0.0
    """Seconds that the Pods whose exit is waited for were given for it; they were deleted with that."""

    @property
    def key(self) -> tuple[WaitKind, str, int | None]:
        """What makes it the same wait in the next pass."""
        return (self.kind, self.role, self.ordinal)


@dataclass(frozen=True, slots=True)
class Decision:
    """One pass: remember `slots` and `retirement`, then take `actions` in order; meanwhile `waits` are waited for."""

    actions: tuple[Action, ...]
    slots: Slots
    waits: tuple[Wait, ...]
    retirement: Operation | None = None
    """The retirement to remember; None when there is none (any more)."""

    @property
    def converged(self) -> bool:
        """True when every declared replica runs admitted and current and nothing else of the deployment reads."""
        return not self.actions and not self.slots and not self.waits

    @property
    def risky(self) -> bool:
        """True when an action is only right on what the server holds now, so that it must be decided on a live read."""
        return any(isinstance(action, DeletePods | CreateReplica) for action in self.actions)


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Deletions before creations, Services before the Pods that need them, labels and selectors last; otherwise as
    decided."""
    kinds = (DeletePods, DeleteWorkload, ReleaseFinalizer, EnsureService, CreateReplica, PruneService, Mark, Select)
    return tuple(sorted(actions, key=lambda action: kinds.index(type(action))))
