"""What a forecast says about replicas that leave by the protocol, and about those that are not selected yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpustack_components.rollout.actions import Action, Decision, Mark, Select
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.retirement.operation import Operation, retry_token
from gpustack_components.rollout.retirement.reservation import Retiring, reserve
from gpustack_components.rollout.shedding import Removal, removals
from gpustack_components.rollout.slots import Slots
from gpustack_components.rollout.wording import place


@dataclass(frozen=True, slots=True)
class Outlook:
    """The retirements ahead."""

    leaving: tuple[tuple[str, int], ...] = ()
    """Role and ordinal of each replica that leaves by the protocol, in order; one that is kept is not among them."""
    held: frozenset[tuple[str, int]] = frozenset()
    """Those, and the one that a retirement keeps as it is."""
    lines: tuple[str, ...] = ()
    """The same for people."""


def outlook(desired: Desired, observed: Observed, slots: Slots, operation: Operation | None) -> Outlook:
    """What the protocol does from here."""
    every = removals(desired, observed)
    reservation = reserve(desired, observed, slots, every, Retiring(operation))
    current = reservation.operation if reservation.operation is not None and reservation.operation.holds else None
    seat = (current.role, current.ordinal) if current is not None else None
    queue = [one for one in reservation.queue if (one.role, one.ordinal) != seat]
    lines = [*_under_way(current, desired), *_queued(queue, desired)]
    first = [seat] if current is not None and seat is not None and _leaves(current, desired) else []
    leaving = (*first, *((one.role, one.ordinal or 0) for one in queue))
    return Outlook(leaving, frozenset({*leaving, *([seat] if seat is not None else [])}), tuple(lines))


def worth_a_run(desired: Desired, decision: Decision) -> Decision:
    """The decision with those labels only that are worth a run: of replicas which become selectable, where Services and
    routers select by them. Selectors are none: the program writes what Services declare, and the rest follows the
    replicas."""
    selects = desired.protocol is not None

    def worth(action: Action) -> bool:
        if isinstance(action, Mark):
            return selects and action.eligible
        return not isinstance(action, Select)

    return replace(decision, actions=tuple(filter(worth, decision.actions)))


def unselected(decision: Decision) -> tuple[tuple[str, int], ...]:
    """The replicas that it lets Services and routers select."""
    return tuple(sorted({(one.role, one.ordinal) for one in decision.actions if isinstance(one, Mark)}))


def _leaves(operation: Operation, desired: Desired) -> bool:
    if operation.state in ("Deleting", "Settling"):
        return True
    return (operation.state != "Aborted" or _retried(operation, desired)) and not desired.declares(
        operation.role, operation.ordinal
    )


def _retried(operation: Operation, desired: Desired) -> bool:
    """Whether a directive that was not followed yet asks for an aborted one once more."""
    token = retry_token(desired.protocol.retry, operation.role, operation.ordinal) if desired.protocol else ""
    return operation.state == "Aborted" and token not in ("", operation.consumed)


def _under_way(operation: Operation | None, desired: Desired) -> Iterator[str]:
    if operation is None:
        return
    where, why = f"role {operation.role}: {place(operation.role, operation.ordinal)}", operation.reason.partition(": ")
    if _leaves(operation, desired) and operation.state == "Aborted":
        yield f"{where} leaves after all: its retirement, which was aborted, is tried again as the directive asks"
    elif _leaves(operation, desired):
        yield f"{where} is on its way out ({operation.state}: {why[2]})"
    elif desired.declares(operation.role, operation.ordinal):
        yield f"{where} was on its way out and is kept, since it is declared again"
    else:
        yield (
            f"{where} keeps running and holds back the others that are to leave: its retirement was aborted "
            f"({operation.reason}); a retry directive, replicas raised again, or qualification switched off end that"
        )


def _queued(queue: Sequence[Removal], desired: Desired) -> Iterator[str]:
    by_role: dict[str, list[Removal]] = {}
    for one in queue:
        by_role.setdefault(one.role, []).append(one)
    for name, leaving in by_role.items():
        listed = ", ".join(place(name, one.ordinal) for one in leaving)
        role = desired.role(name)
        why = {"scaled-down": "scaled down", "surplus": "a seat is filled twice"}.get(
            leaving[0].why, "the role is gone"
        )
        several = len(leaving) > 1
        how = "leave one after another, each" if several else "leaves: it is"
        rest = ""
        if role is not None and leaving[0].why == "scaled-down":
            rest = f"; the other {role.replicas} untouched" if role.replicas != 1 else "; the other one untouched"
        yield (
            f"role {name}: {why}: {listed} {how} taken out of selection, drained until idle (240 s at most), "
            f"then deleted{rest}"
        )
