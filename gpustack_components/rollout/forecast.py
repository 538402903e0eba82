"""The whole way ahead, before anything is done: which replica, in which order, what it waits for, what the edit costs.

It judges replicas as `decide` does and orders them by its rules; what others will do to the quota meanwhile it cannot
know, and says so by what it compares with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from gpustack_components.cluster.port import Json
from gpustack_components.rollout.decide import decide
from gpustack_components.rollout.desired import Desired, DesiredRole
from gpustack_components.rollout.observe import Member, Observed
from gpustack_components.rollout.quota import Amounts, Queue, requests_of, telling, times, worded
from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.retirement.outlook import outlook, unselected, worth_a_run
from gpustack_components.rollout.retirement.reservation import Retiring
from gpustack_components.rollout.role_pass import Replica, judge, runs_on
from gpustack_components.rollout.slots import Slot, Slots
from gpustack_components.rollout.turnovers import Estimate, Turnovers, estimate
from gpustack_components.rollout.wording import about, count, place, span
from gpustack_components.status.fit import Lessening, never_fits_until

StepKind = Literal["create", "replace", "remove", "clear", "wait", "select"]
"""Create a missing replica; replace one; remove one for good; clear away one that ended by itself, then create it
again; wait for the admission of one; let Services and routers select one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that will happen to one replica. Steps of one role that replace come one after another, in this
    order."""

    kind: StepKind
    role: str
    ordinal: int | None
    reason: str
    """Why, in a few words."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do from here."""

    steps: tuple[Step, ...]
    """Role by role, in order; empty when there is nothing to do."""
    lines: tuple[str, ...]
    """The same for people, one line per role and matter."""
    estimates: tuple[Estimate, ...] = ()
    """How long the replacements of a role take by its last turnovers; a role without any is left out."""


def forecast(
    desired: Desired,
    observed: Observed,
    slots: Slots,
    queues: Mapping[str, Json],
    *,
    changed: Mapping[str, Sequence[str]] | None = None,
    turnovers: Turnovers | None = None,
    retirement: Operation | None = None,
) -> Forecast:
    """What lies ahead.

    `queues` holds the ClusterQueue behind each LocalQueue by the LocalQueue's name, as far as it could be read.
    `changed` names the edited fields by role, as `edited_fields.changes` finds them. `turnovers` and `retirement` are
    what the record remembers.
    """
    decision = worth_a_run(desired, decide(desired, observed, slots, retiring=Retiring(retirement)))
    if decision.converged:
        over = "a replacement that is done or not needed any more is taken off the record; no Pod is touched"
        return Forecast((), (over,) if slots else ())
    selected = unselected(decision)
    departing = outlook(desired, observed, slots, retirement)
    behind: dict[str, Queue] = {}
    known: dict[str, Queue] = {}
    for local, obj in queues.items():
        queue = Queue.of(obj)
        behind[local] = known.setdefault(queue.name, queue)
    steps: list[Step] = []
    lines: list[str] = []
    estimates: list[Estimate] = []
    for role in desired.roles:
        ahead = _Role(
            desired,
            role,
            observed,
            slots.get(role.name),
            behind.get(role.queue),
            (changed or {}).get(role.name, ()),
            frozenset(ordinal for name, ordinal in departing.held if name == role.name),
        )
        ahead.look()
        steps += ahead.steps
        lines += ahead.lines
        replaced = sum(step.kind == "replace" for step in ahead.steps)
        found = estimate(role.name, replaced, turnovers or {})
        if found is not None and not ahead.short:
            estimates.append(found)
            lines.append(f"role {role.name}: {takes(found)}")
    declared = {role.name for role in desired.roles}
    for name in sorted({member.role for member in observed.members if member.belonging == "ours"} - declared):
        ordinals = sorted(
            {m.ordinal for m in observed.members if m.role == name and (name, m.ordinal) not in departing.held},
            key=lambda o: (o is None, o),
            reverse=True,
        )
        steps += [Step("remove", name, ordinal, "the role is gone") for ordinal in ordinals]
        if ordinals:
            lines.append(f"role {name}: no longer declared: {_list(place(name, o) for o in ordinals)} leave")
    steps += [Step("remove", *seat, "withdrawn and drained first") for seat in departing.leaving]
    lines += departing.lines
    steps += [Step("select", *seat, "it is ready") for seat in selected]
    if selected:
        lines.append(f"{_list(place(*seat) for seat in selected)} labelled as ready to be selected; no Pod is touched")
    if not steps:
        steps += [Step("wait", wait.role, wait.ordinal, wait.message) for wait in decision.waits]
        steps = steps or [Step("clear", "", None, "leftovers")]
    if not lines:
        lines += [
            f"role {wait.role}: {place(wait.role, wait.ordinal)} waits: {wait.message}" for wait in decision.waits
        ]
        lines = lines or ["headless Services or the record are put in order; no Pod is touched"]
    return Forecast(tuple(steps), tuple(lines), tuple(estimates))


def takes(found: Estimate) -> str:
    """How long an estimate says it takes, for people."""
    if found.replicas == 1:
        after = f", and {about(found.ready)} more until it is ready" if found.ready is not None else ""
        return f"about {about(found.admitted)} until its replacement is admitted (by the last turnovers){after}"
    each = f"{found.replicas} replicas, {span(found.each)} each by the last turnovers"
    after = f", and {about(found.ready)} more until the last is ready" if found.ready is not None else ""
    return f"about {about(found.admitted)} until all are admitted ({each}){after}"


class _Role:
    """What lies ahead of one role."""

    def __init__(
        self,
        desired: Desired,
        role: DesiredRole,
        observed: Observed,
        slot: Slot | None,
        queue: Queue | None,
        changed: Sequence[str],
        retiring: frozenset[int],
    ) -> None:
        self.steps: list[Step] = []
        self.lines: list[str] = []
        self.short = False
        """Whether the first replacement would not find the quota it asks for."""
        self._desired = desired
        self._role = role
        self._queue = queue
        self._changed = [field for field in changed if field != "replicas"]
        self._retiring = retiring
        self._present: dict[int | None, tuple[Member, ...]] = {
            ordinal: observed.at(name, ordinal) for name, ordinal in observed.seats() if name == role.name
        }
        self._replicas = {
            ordinal: judge(desired, role, observed, ordinal, live)
            for ordinal, members in self._present.items()
            if ordinal is not None and (live := tuple(member for member in members if member.live))
        }
        standing = self._replicas.get(slot.ordinal) if slot is not None else None
        over = slot is not None and runs_on(slot, standing, self._present.get(slot.ordinal, ()))
        self._slot = None if over else slot
        self._asked = times(role.requests, role.size)

    def look(self) -> None:
        """Fill `steps` and `lines`."""
        if hold := self._desired.hold("weights"):
            self._line(f"nothing is created or replaced: {hold.message}")
        self._remove()
        self._create()
        self._replace()
        self._waits()

    def _remove(self) -> None:
        beyond = (o for o in self._present if o is not None and o >= self._role.replicas)
        leaving = sorted((o for o in beyond if o not in self._retiring), reverse=True)
        if leaving:
            self.steps += [Step("remove", self._role.name, ordinal, "scaled down") for ordinal in leaving]
            stay = f"the other {self._role.replicas}" if self._role.replicas != 1 else "the other one"
            self._line(f"scaled down: {self._places(leaving)} leave{_s(leaving)} at once; {stay} untouched")
        for orphan in self._present.get(None, ()):
            self.steps.append(Step("remove", self._role.name, None, "names no ordinal"))
            self._line(f"Pod {orphan.name} names no ordinal and leaves")

    def _create(self) -> None:
        if self._desired.hold("weights"):
            return
        slot = self._slot.ordinal if self._slot is not None else None
        missing = [o for o in range(self._role.replicas) if o not in self._replicas and o != slot]
        departing = [ordinal for ordinal in missing if self._present.get(ordinal)]
        fresh = [ordinal for ordinal in missing if ordinal not in departing]
        for ordinal in departing:
            self.steps.append(Step("clear", self._role.name, ordinal, "it ended or was deleted"))
            self._line(f"{place(self._role.name, ordinal)} ended or was deleted: cleared away, then created again")
        if not fresh:
            return
        self.steps += [Step("create", self._role.name, ordinal, "missing") for ordinal in fresh]
        total = len(fresh) * self._asked.get(telling(self._asked), Fraction(0))
        each = f", {self._amount(self._asked)} each = {worded(total)}" if telling(self._asked) else ""
        whole = len(fresh) == self._role.replicas
        what = count(len(fresh), "replica") if whole else f"{self._places(fresh)} created,"
        self._line(f"{what} of {count(self._role.size, 'Pod')}{each}; {self._fit(fresh)}")

    def _fit(self, ordinals: list[int]) -> str:
        """Which of these replicas start at once, and what the others wait for."""
        queue = self._queue
        if queue is None:
            return "its queue could not be read, so what fits is not known"
        if lacking := queue.uncovered(self._asked):
            return (
                f"queue {queue.name} has no quota for {_list(lacking)}, so none is ever admitted: add it to the queue"
            )
        key = telling(self._asked)
        room = f"queue {queue.name} has {worded(max(queue.free.get(key, Fraction(0)), Fraction(0)))} free of "
        room += worded(queue.nominal.get(key, Fraction(0)))
        starting: list[int] = []
        waiting: list[int] = []
        for ordinal in ordinals:
            fits = not queue.short(self._asked)
            (starting if fits else waiting).append(ordinal)
            if fits:
                queue.take(self._asked)
        parts: list[str] = []
        if starting:
            parts.append("all start at once" if not waiting else f"{_replicas(starting)} start{_s(starting)} at once")
        if waiting:
            short = queue.short(self._asked)
            key = telling(short)
            parts.append(
                f"{_replicas(waiting)} wait{_s(waiting)} for {worded(short[key])} x {key}{self._never(len(waiting))}"
            )
        return f"{room}: {', '.join(parts)}"

    def _never(self, waiting: int) -> str:
        queue = self._queue
        if queue is None or queue.cohort:
            return f" unless cohort {queue.cohort} lends it" if queue is not None else ""
        demand = {key: amount * self._role.replicas for key, amount in self._asked.items()}
        over = [key for key, amount in demand.items() if amount > queue.nominal.get(key, amount)]
        if not over:
            return ""
        alone = any(amount > queue.nominal.get(key, amount) for key, amount in self._asked.items())
        lessening: Lessening = "the replica asks for less" if alone else "replicas is lowered"
        return f" (never fit{_s(range(waiting))} until {never_fits_until(queue.name, lessening)})"

    def _replace(self) -> None:
        hold = self._desired.hold("weights") or self._desired.hold("cache")
        order = self._order()
        if not order:
            return
        if hold is not None and self._desired.hold("weights") is None:
            self._line(f"{self._places([o for o, _ in order])} keep running as they are for now: {hold.message}")
            return
        if hold is not None:
            return
        self.steps += [Step("replace", self._role.name, ordinal, why) for ordinal, why in order]
        ordinals = [ordinal for ordinal, _ in order]
        fields = _list(self._changed) if self._changed else ""
        edit = f": {fields}" if fields and any(why == "edited" for _, why in order) else ""
        if len(order) == 1 and order[0][1] != "edited":
            self._line(
                f"{place(self._role.name, ordinals[0])} is replaced: {order[0][1]}{self._replacement_fit(ordinals[0])}"
            )
            return
        how = "turns over" if len(order) == 1 else "turn over one at a time, highest first"
        special = [f"{place(self._role.name, o)} first: {why}" for o, why in order if why != "edited"]
        self._line(
            f"{self._places(ordinals)} {how}{edit}{f' ({_list(special)})' if special else ''}; "
            f"{self._cost()}{self._replacement_fit(ordinals[0])}"
        )

    def _order(self) -> list[tuple[int, str]]:
        """The declared replicas that will be replaced, in order, each with its reason."""
        declared = {ordinal: replica for ordinal, replica in self._replicas.items() if ordinal < self._role.replicas}
        order: list[tuple[int, str]] = []
        if self._slot is not None and self._slot.ordinal < self._role.replicas:
            ordinal = self._slot.ordinal
            standing = declared.pop(ordinal, None)
            if standing is None:
                order.append((ordinal, "its replacement was begun"))
            elif not standing.current or standing.broken:
                order.append((ordinal, "its replacement was begun and is rebuilt"))
        down = sorted(declared.values(), key=lambda replica: -replica.ordinal)
        order += [(replica.ordinal, "it lost a member") for replica in down if replica.broken]
        rest = [replica for replica in down if not replica.broken and not replica.current]
        queued = [replica for replica in rest if replica.never_admitted]
        order += [(replica.ordinal, "edited") for replica in queued]
        order += [(replica.ordinal, "edited") for replica in rest if not replica.never_admitted]
        return order

    def _cost(self) -> str:
        if self._role.replicas == 1:
            return "serving stops from its deletion until the replacement is ready"
        return (
            f"each leaves before its replacement is admitted, so {self._role.replicas - 1} of {self._role.replicas} "
            "run meanwhile, and a replacement still loading does not hold back the next"
        )

    def _replacement_fit(self, ordinal: int) -> str:
        """What the first replacement would find, when that is not enough."""
        queue, standing = self._queue, self._replicas.get(ordinal)
        if queue is None:
            return ""
        if lacking := queue.uncovered(self._asked):
            self.short = True
            return f"; queue {queue.name} has no quota for {_list(lacking)}: its replacement would never be admitted"
        returned = _reserved(standing)
        queue.give(returned)
        short = queue.short(self._asked)
        queue.take(returned)
        if not short:
            return ""
        self.short = True
        key = telling(short)
        has = worded(self._asked[key] - short[key])
        return (
            f"; its replacement asks for {worded(self._asked[key])} x {key} and queue {queue.name} would have {has}: "
            f"it waits{self._never(1)}, and no other replica of the role is touched until it is admitted"
        )

    def _waits(self) -> None:
        replaced = {step.ordinal for step in self.steps if step.kind == "replace"}
        waiting = [
            replica
            for ordinal, replica in sorted(self._replicas.items())
            if ordinal < self._role.replicas
            and not replica.admitted
            and not replica.broken
            and not (ordinal in replaced and replica.never_admitted)
        ]
        for replica in waiting:
            said = (replica.workload.message if replica.workload is not None else "") or "Kueue has said nothing"
            self.steps.append(Step("wait", self._role.name, replica.ordinal, said))
            after = "; nothing healthy of the role turns over before it is admitted" if replaced else ""
            self._line(f"{place(self._role.name, replica.ordinal)} waits for admission: {said}{after}")

    def _line(self, text: str) -> None:
        self.lines.append(f"role {self._role.name}: {text}")

    def _places(self, ordinals: Iterable[int]) -> str:
        return _list([place(self._role.name, ordinal) for ordinal in ordinals])

    def _amount(self, amounts: Amounts) -> str:
        key = telling(amounts)
        return f"{worded(amounts[key])} x {key}" if key else "nothing"


def _reserved(replica: Replica | None) -> dict[str, Fraction]:
    """What a replica's Pods ask for, when quota is held for them."""
    total: dict[str, Fraction] = {}
    if replica is not None and replica.workload is not None and replica.workload.quota_reserved:
        for member in replica.live:
            for key, amount in requests_of(member.pod).items():
                total[key] = total.get(key, Fraction(0)) + amount
    return total


def _list(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; a long list is shortened."""
    words = list(items)
    if len(words) > 8:
        words = [*words[:6], f"{len(words) - 7} more", words[-1]]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def _replicas(ordinals: list[int]) -> str:
    return f"replica{'' if len(ordinals) == 1 else 's'} {_list(map(str, ordinals))}"


def _s(items: Sequence[Any]) -> str:
    return "s" if len(items) == 1 else ""
