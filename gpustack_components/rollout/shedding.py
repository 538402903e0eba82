"""What stands and no declared replica explains, so that it leaves for good (rollout sheet 4.1, step 5, and 4.2)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpustack_components.rollout.actions import Why
from gpustack_components.rollout.desired import Desired, DesiredRole
from gpustack_components.rollout.observe import Member, Observed


@dataclass(frozen=True, slots=True)
class Removal:
    """Live members of one replica that are to leave."""

    role: str
    ordinal: int | None
    """None for a Pod that names no ordinal."""
    members: tuple[Member, ...]
    """Greatest name first."""
    why: Why


def removals(desired: Desired, observed: Observed) -> tuple[Removal, ...]:
    """Everything that leaves: role by role as the document lists them, highest ordinal first, Pods without an ordinal
    last; then the roles it lists no more."""
    return (
        *(removal for role in desired.roles for removal in _beyond(desired, role, observed)),
        *_of_removed_roles(desired, observed),
    )


def is_current(desired: Desired, role: DesiredRole, ordinal: int, member: Member) -> bool:
    """Whether a Pod is what its seat should hold now (sheet 4.2): the render of that seat, not under the floor."""
    wanted = role.seat(ordinal, member.seat)
    return wanted is not None and member.fingerprint == wanted and member.render_version >= desired.floor


def _beyond(desired: Desired, role: DesiredRole, observed: Observed) -> Iterator[Removal]:
    live = {
        ordinal: tuple(member for member in observed.at(name, ordinal) if member.live)
        for name, ordinal in observed.seats()
        if name == role.name
    }
    orphans = live.pop(None, ())
    for ordinal in sorted((ordinal for ordinal in live if ordinal is not None), reverse=True):
        if ordinal >= role.replicas:
            gone, why = live.pop(ordinal), "scaled-down"
        else:
            gone, why = _doubled(desired, role, ordinal, live[ordinal]), "surplus"
        if gone:
            yield Removal(role.name, ordinal, _greatest_first(gone), why)
    vacant = sum(1 for ordinal in range(role.replicas) if not live.get(ordinal))
    if beyond := _greatest_first(orphans)[: max(len(orphans) - vacant, 0)]:
        yield Removal(role.name, None, beyond, "orphan")


def _doubled(desired: Desired, role: DesiredRole, ordinal: int, live: Iterable[Member]) -> tuple[Member, ...]:
    """Members on a seat that another one keeps: the one that matches the render, then the smaller name. One whose seat
    cannot be read is on no seat twice (sheet 12)."""
    seats: dict[int, list[Member]] = {}
    for member in live:
        if member.seated:
            seats.setdefault(member.seat, []).append(member)
    surplus: list[Member] = []
    for on_seat in seats.values():
        on_seat.sort(key=lambda member: (not is_current(desired, role, ordinal, member), member.name))
        surplus += on_seat[1:]
    return tuple(surplus)


def _of_removed_roles(desired: Desired, observed: Observed) -> Iterator[Removal]:
    seats = [seat for seat in observed.seats() if desired.role(seat[0]) is None]
    for role, ordinal in sorted(seats, key=lambda seat: (seat[1] is None, -(seat[1] or 0), seat[0])):
        standing = [m for m in observed.at(role, ordinal) if m.belonging == "ours" and not m.terminating]
        if standing:
            yield Removal(role, ordinal, _greatest_first(standing), "role-removed")


def _greatest_first(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: member.name, reverse=True))
