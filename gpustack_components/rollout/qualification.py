"""Which members of a replica may be selected by Services and routers (rollout sheet 9).

A replica is judged by five legs, each verified, failed or unknown. Any failed leg takes it out of selection at once;
an unknown one leaves everything as it is; only when all are verified is it put in. The label on the members that answer
says so, and is written whether or not anything selects by it yet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from gpustack_components.api.command_line import read_parallelism
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import at
from gpustack_components.rollout.actions import Mark, PodRef
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.observe import Member, Observed, shape
from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.slots import Slots

Verdict = Literal["verified", "failed", "unknown"]
"""What is known of one leg."""
Leg = Literal["MemberSetComplete", "MembersReady", "GroupForward", "NoPlannedRetirement", "NoPendingReplacement"]
"""What a replica must fulfil to be selected."""
Ruling = Literal["grant", "hold", "revoke"]
"""What follows for its members: selected, as they are, not selected."""


def legs(members: Sequence[Member], *, retiring: bool = False, replaced: bool = False) -> Mapping[Leg, Verdict]:
    """The legs of the replica whose live members these are."""
    state = _state(members)
    ready = [member.ready for member in members]
    return {
        "MemberSetComplete": "verified" if state == "complete" else "failed" if state == "short" else "unknown",
        "MembersReady": "failed" if False in ready else "unknown" if None in ready or not ready else "verified",
        "GroupForward": _forward(members, state),
        "NoPlannedRetirement": "failed" if retiring else "verified",
        "NoPendingReplacement": "failed" if replaced else "verified",
    }


def ruling(found: Mapping[Leg, Verdict]) -> Ruling:
    """What follows from the legs."""
    verdicts = set(found.values())
    return "revoke" if "failed" in verdicts else "hold" if "unknown" in verdicts else "grant"


def answering(members: Sequence[Member], engine: str) -> tuple[Member, ...]:
    """The members that answer requests by the deployed shape: the only one, the leader of a group, or every member of a
    server with external data parallelism (sheet 5.3). None of a shape that cannot be read."""
    if _state(members) == "unreadable":
        return ()
    return tuple(member for member in members if answers_requests(member.pod, member.seat, member.total, engine))


def answers_requests(pod: Json, seat: int, total: int, engine: str) -> bool:
    """Whether a Pod on that seat of a replica of so many answers requests, by its own shape."""
    return seat == 0 or (total > 1 and _every_member_serves(pod, engine))


def healthy(members: Sequence[Member]) -> bool:
    """Whether every leg but the planned retirement is verified."""
    return ruling(legs(members)) == "grant"


def marks(
    desired: Desired, observed: Observed, slots: Slots, operation: Operation | None, leaving: frozenset[str]
) -> Iterator[Mark]:
    """The labels to write, where they differ from what is there. `leaving` are uids of Pods this pass deletes: their
    deletion takes them out of selection by itself."""
    for role, ordinal, members in replicas(observed):
        if leaving & {member.uid for member in members}:
            continue
        rules = ruling(_judged(role, ordinal, members, slots, operation))
        if rules == "hold":
            continue
        answer = {member.uid for member in answering(members, desired.engine)} if rules == "grant" else set[str]()
        for member in members:
            if member.eligible != (member.uid in answer):
                yield Mark(role, ordinal, PodRef(member.name, member.uid), not member.eligible)


def eligible(
    roles: Iterable[str], observed: Observed, slots: Slots, operation: Operation | None
) -> Mapping[str, int | None]:
    """Qualified replicas by role; None while any replica of the role is inconclusive (sheet 8.1)."""
    found: dict[str, int | None] = dict.fromkeys(roles, 0)
    unclear: set[str] = set()
    for role, ordinal, members in replicas(observed):
        rules = ruling(_judged(role, ordinal, members, slots, operation))
        if rules == "hold":
            unclear.add(role)
        elif rules == "grant" and role in found:
            found[role] = (found[role] or 0) + 1
    return {role: None if role in unclear else number for role, number in found.items()}


def replicas(observed: Observed, of: str | None = None) -> Iterator[tuple[str, int, tuple[Member, ...]]]:
    """Every replica with live members, or every one of a role; a Pod without an ordinal is none."""
    for role, ordinal in observed.seats():
        if of not in (None, role):
            continue
        members = tuple(member for member in observed.at(role, ordinal) if member.live)
        if ordinal is not None and members:
            yield role, ordinal, members


def _judged(
    role: str, ordinal: int, members: Sequence[Member], slots: Slots, operation: Operation | None
) -> Mapping[Leg, Verdict]:
    retiring = operation is not None and (operation.role, operation.ordinal) == (role, ordinal)
    slot = slots.get(role)
    replaced = slot is not None and slot.ordinal == ordinal and slot.phase == "Cleanup"
    return legs(members, retiring=retiring, replaced=replaced)


def _state(members: Sequence[Member]) -> str:
    """The state of the shape; a single whole Pod, which most replicas are, is told at a glance."""
    if len(members) == 1 and (members[0].total, members[0].seat) == (1, 0):
        return "complete"
    return shape(members).state


def _forward(members: Sequence[Member], state: str) -> Verdict:
    """Whether a whole group computes: its leader's readiness says so, since both engines answer their health check only
    after a forward pass of all ranks. A take-over group is held to readiness alone."""
    if state == "unreadable" or not members:
        return "unknown"
    if members[0].total == 1 or readings.mode(member.pod for member in members) == "takeover":
        return "verified"
    leader = next((member for member in members if member.seat == 0), None)
    return "verified" if leader is not None and leader.ready else "unknown"


def _every_member_serves(pod: Json, engine: str) -> bool:
    if readings.mode([pod]) != "managed" or readings.label(pod, keys.ROLE_KIND) not in (None, "server"):
        return False
    main = readings.main_container(pod)
    tokens = (*(at(main, "command") or ()), *(at(main, "args") or ()))
    return _external(engine, tuple(map(str, tokens)))


@lru_cache(maxsize=256)
def _external(engine: str, tokens: tuple[str, ...]) -> bool:
    return read_parallelism(engine, tokens).balance().every_member_serves
