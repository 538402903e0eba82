"""The executor: look, decide, remember, act, wait for a change; until all is as wanted or nothing can go on.

Nothing here decides what happens to a replica; that is `decide`. Here is what a decision needs around it: live reads
before what cannot be undone, the record before the first deletion, conditions on every write, patience, and an end that
is said.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    SERVICE,
    Cluster,
    ClusterError,
    Json,
    Stop,
)
from gpustack_components.cluster.readings import name
from gpustack_components.rollout import front_door, groups
from gpustack_components.rollout import record as records
from gpustack_components.rollout.acting import Actor, GivenUp
from gpustack_components.rollout.actions import Decision, Wait
from gpustack_components.rollout.contract import Clock, Outcome, Phase, RolloutRefused, Timeouts
from gpustack_components.rollout.deadlines import Deadlines
from gpustack_components.rollout.decide import awaiting_release, decide
from gpustack_components.rollout.desired import Desired
from gpustack_components.rollout.event_log import EventLog
from gpustack_components.rollout.keeping import keep
from gpustack_components.rollout.lease import DriverLease, LeaseLost
from gpustack_components.rollout.narrator import Narrator
from gpustack_components.rollout.observe import Observed, observe
from gpustack_components.rollout.outage import Outage
from gpustack_components.rollout.preflight import preflight
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.reporting import Reporter, observation
from gpustack_components.rollout.retirement.operation import resume
from gpustack_components.rollout.retirement.reservation import Retiring
from gpustack_components.rollout.retirement.watcher import Watcher
from gpustack_components.rollout.turnovers import Stopwatch
from gpustack_components.rollout.view import Snapshot, View
from gpustack_components.rollout.weights import Awaited
from gpustack_components.rollout.wording import no_answer, not_ready, reason, span
from gpustack_components.status.events import events

KUEUES_CHANCE = 5.0
"""Seconds Kueue has to release an exited Pod that no Workload holds any more, before its finalizer is taken off
here."""


@dataclass
class Driver:
    """One run over one deployment; `run` returns how it ended and never raises."""

    cluster: Cluster
    desired: Desired
    actor: Actor
    """Carries single actions out."""
    claim: Callable[[Record | None], Record]
    """What the record should say, from what it says; raises `RolloutRefused` when it is somebody else's."""
    finished: Callable[["Driver"], list[str] | None]
    """Asked when nothing is left to do: None to go on looking, reasons to give up, an empty list when all is done."""
    view: View
    lease: DriverLease
    timeouts: Timeouts
    narrator: Narrator
    stop: Stop
    clock: Clock
    awaited: Awaited | None = None
    """Reads anew what is wanted while its weights hold it back; None: a run that is held ends at once."""
    reporter_of: Callable[[Record], Reporter | None] = field(default=lambda record: None)
    """Makes the status document of what the record holds; None: the record keeps the one it has."""
    busy: Phase = "Progressing"
    """The phase while this run is at work."""
    goal: Phase = "Converged"
    """The phase when it has finished."""
    stored: Record | None = None
    """The record as it stands in the cluster."""
    record: Record = field(init=False)
    """What is to be remembered; written when it differs from `stored`."""
    observed: Observed = field(default_factory=lambda: observe((), (), ""))
    """What the latest pass saw."""
    group_names: set[str] = field(default_factory=set[str])
    """Names of the groups that a Pod of the deployment belonged to at any time of this run."""
    groups: set[str] = field(default_factory=set[str])
    """Uids of the Workloads that owned one of the deployment's Pods at any time of this run."""
    wrote: bool = False
    """Whether anything was changed in the cluster."""
    router: Json | None = None
    """The router's Deployment as the latest pass saw it; None without one."""
    _stuck_since: dict[str, float] = field(default_factory=dict[str, float])
    _suspect: bool = True
    _live: bool = True
    """Whether the latest pass decided on a live read. A watch may have gone silent: nothing is given up on its word."""
    _converged_at: float | None = None
    _declared: tuple[object, frozenset[str]] | None = None
    _deadlines: Deadlines = field(init=False)
    _outage: Outage = field(init=False)
    _decision: Decision = field(default_factory=lambda: Decision((), {}, ()))
    _stopwatch: Stopwatch = field(default_factory=Stopwatch)
    _events: EventLog = field(init=False)
    _watcher: Watcher = field(init=False)
    _begun: datetime = field(init=False)
    _begun_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.actor.keep = self.lease.keep
        self._deadlines = Deadlines(self.timeouts)
        self._outage = Outage(self.narrator, self.clock, self.stop, self.timeouts.drain, self._deadlines.left)
        self._events = EventLog(self.cluster, self.narrator)
        self._begun, self._begun_at = self.clock.now(), self.clock.monotonic()
        self.actor.engine = self.desired.engine
        self.actor.selects = self.desired.protocol is not None
        self._watcher = Watcher(
            self.cluster, self.desired.namespace, self.desired.name, self.desired.engine, self.clock.monotonic
        )

    def run(self) -> Outcome:
        """Pass after pass until all is done. Raises `RolloutRefused` and `ClusterError` only before the first write."""
        try:
            self._read()
            while not self.stop.is_set():
                try:
                    if self._pass():
                        return self._end(self.goal)
                except ClusterError as error:
                    if not self.wrote:
                        raise
                    self._suspect = True
                    self._outage.stumble(error)
            return self._end("Incomplete", ("interrupted; run again to go on",), interrupted=True)
        except GivenUp as why:
            return self._end("Incomplete", why.args)
        except LeaseLost as lost:
            return self._end("Incomplete", (f"{lost}; run again once the other one is done",))
        except (RolloutRefused, ClusterError):
            raise
        except Exception as defect:
            if not self.wrote:
                raise
            return self._end("Incomplete", (f"a defect of gpustack_components, please report it: {defect!r}",))
        finally:
            self.view.close()

    def wait_until_settled(self) -> list[str] | None:
        """None while a Workload stands whose Pods are all gone, as Kueue may leave one for a moment (kueue-facts 3), or
        some Pod is not Ready; then an empty list, or the reasons when that has lasted too long.
        """
        reading = {member.uid for member in (*self.observed.members, *self.observed.foreign)}
        abandoned = [
            workload.name
            for workload in self.observed.workloads
            if workload.name in self.group_names and workload.owners and not workload.owners & reading
        ]
        if abandoned:
            return self.wait_for_workloads(abandoned)
        return self.wait_for_ready()

    def wait_for_ready(self) -> list[str] | None:
        """None while some Pod is not Ready or the router does not answer; then an empty list, or the reasons when
        `timeouts.ready` has passed."""
        now = self.clock.monotonic()
        self._converged_at = now if self._converged_at is None else self._converged_at
        waited = now - self._converged_at
        missing = [member for member in self.observed.members if not member.ready]
        closed = front_door.missing(self.router, self.desired.router) if self.desired.router else ""
        if self.timeouts.ready == 0 and missing and self.desired.protocol is not None:
            self.narrator.say(
                "Services and routers select what is not Ready yet only after another run has labelled it"
            )
        if not (missing or closed) or self.timeouts.ready == 0:
            return []
        if closed and not missing:
            self.narrator.waits_for_router(closed)
        if waited >= self.timeouts.ready:
            reasons = not_ready(self.desired.namespace, self.desired.name, missing, waited, self.timeouts)
            if closed:
                deployed = self.router is not None
                reasons.append(
                    no_answer(
                        self.desired.namespace, self.desired.name, closed, waited, self.timeouts, deployed=deployed
                    )
                )
            return reasons
        self.rest(self.timeouts.ready - waited)
        return None

    def wait_for_workloads(self, names: Iterable[str]) -> list[str] | None:
        """None while these Workloads stand; the reasons when they have stood too long."""
        waits = [Wait("release", "", None, f"Workload {one} to go", one) for one in names]
        now = self.clock.monotonic()
        self._deadlines.update(waits, now)
        if expired := self._deadlines.expired(now):
            return self._reasons(expired, now)
        self.rest(self._deadlines.left(now) or 0.0)
        return None

    def _read(self) -> None:
        """Read what only this driver changes while it holds the Lease: the record and the headless Services."""
        self.stored = records.load(self.cluster, self.desired.namespace, self.desired.name)
        self.record = self.claim(self.stored)
        if self.record.retirement is not None:
            self.record = replace(self.record, retirement=resume(self.record.retirement, self.clock.now()))
        self._stopwatch = Stopwatch(dict(self.record.turnovers))
        listing = self.cluster.list(SERVICE, self.desired.namespace, keys.selector(self.desired.name))
        self.actor.services = list(listing.items)

    def _pass(self) -> bool:
        snapshot = self.view.fresh() if self._suspect else self.view.snapshot()
        decision = self._decide(snapshot)
        self._live = self._suspect or decision.risky
        if decision.risky and not self._suspect:
            decision = self._decide(self.view.fresh())
        self._suspect = False
        before, retired = self.record.slots, self.record.retirement
        turning = decision.slots != before or decision.retirement != retired
        phase = self.record.phase if decision.converged else self.busy
        self.record = replace(
            self.record,
            slots=dict(decision.slots),
            retirement=decision.retirement,
            phase=phase,
            reasons=() if phase == self.busy else self.record.reasons,
        )
        done = decision.converged and not turning
        if not self.lease.held and not (done and self._unchanged()):
            self._begin(decision)
            return False
        self._decision = decision
        if self.lease.held:
            self._stopwatch.passed(before, decision.slots, self.observed, self.clock.monotonic())
        if decision.actions or turning:
            self.lease.keep()
            self.remember()
        self.narrator.retiring(retired, decision.retirement)
        self.narrator.looked(self.observed, decision.waits, self.clock.monotonic())
        acted = self._act(decision)
        self._warn()
        self._outage.over(watching=self.view.trouble is None)
        now = self.clock.monotonic()
        if not done:
            self._deadlines.update(decision.waits, now)
        if acted or (turning and not decision.actions):
            return False
        if done:
            reasons = self.finished(self)
            if reasons and self._live:
                raise GivenUp(*reasons)
            self._suspect = bool(reasons)
            return reasons is not None and not reasons
        self._converged_at = None
        self.remember()
        if self.stop.is_set():
            return False
        self._wait_or_give_up(decision, now)
        return False

    def _unchanged(self) -> bool:
        """Whether the record would say after this run what it says now."""
        final = replace(self.record, phase=self.goal, reasons=())
        return self.stored is not None and self.stored.says_the_same(final)

    def _begin(self, decision: Decision) -> None:
        """Make sure that the run can be finished, and take the Lease; then look at everything again."""
        if decision.actions or decision.retirement is not None:
            preflight(self.cluster, self.desired, self.observed, self.actor.render, self.clock.sleep)
        self.wrote = True
        end = self.clock.monotonic() + self.timeouts.lease
        said = ""
        while (other := self.lease.acquire()) is not None:
            if self.clock.monotonic() >= end or self.stop.is_set():
                self.wrote = False
                raise RolloutRefused(
                    f"{self.desired.namespace}/{self.desired.name} is being driven by {other.holder} since "
                    f"{other.since}: wait until that run has ended. If it has died, its Lease expires in "
                    f"{span(max(other.expires, 0))} at the latest; `kubectl -n {self.desired.namespace} delete lease "
                    f"{records.record_name(self.desired.name)}` frees it at once."
                )
            if said != other.holder:
                said = other.holder
                self.narrator.say(f"waits for {other.holder} to end")
            self.clock.sleep(0.5)
        try:
            self._read()
        except (RolloutRefused, ClusterError):
            self.lease.release()
            self.wrote = False
            raise
        self._suspect = True

    def _decide(self, snapshot: Snapshot) -> Decision:
        now = self.clock.monotonic()
        owner = self.stored.uid if self.stored is not None else ""
        self.observed = observe(
            snapshot.pods,
            groups.related(snapshot.workloads, snapshot.pods, self.group_names | self._declared_groups()),
            owner,
            record_name=records.record_name(self.desired.name),
            services=self.actor.services,
            leaving=frozenset(self.actor.leaving),
            before=self.observed,
        )
        self.router = front_door.router_of(snapshot.deployments, self.desired.router)
        self.group_names.update(member.group for member in self.observed.members)
        self.groups.update(one.uid for member in self.observed.members for one in self.observed.owning(member.uid))
        waiting = awaiting_release(self.observed)
        self._stuck_since = {one: self._stuck_since.get(one, now) for one in waiting}
        stuck = frozenset(one for one, since in self._stuck_since.items() if now - since >= KUEUES_CHANCE)
        if self.lease.held:
            self._watcher.look(self.record.retirement, self.observed)
        decision = decide(self.desired, self.observed, self.record.slots, stuck=stuck, retiring=self._retiring())
        return self.actor.without_blocked(decision, now)

    def _declared_groups(self) -> frozenset[str]:
        """The groups of the record's document and slots, named once for each."""
        told = (self.record.document, self.record.slots)
        if self._declared is None or self._declared[0] != told:
            self._declared = (told, groups.declared(self.record))
        return self._declared[1]

    def remember(self) -> None:
        """Write the record when it says anything new; before any deletion it stands for."""
        if self.lease.leaving or (self.stored is not None and self.stored.says_the_same(self.record)):
            return
        self.record = self._told()
        self.stored = self.record = keep(self.cluster, self.record, self.stored, self.clock.now())
        self.wrote = True

    def _retiring(self) -> Retiring:
        """What is known of the retirement; its clock cannot be set while the run lasts."""
        now = self._begun + timedelta(seconds=self.clock.monotonic() - self._begun_at)
        watcher = self._watcher
        return Retiring(self.record.retirement, now, self.record.generation, watcher.served_by, watcher.busy)

    def _retirement_due(self) -> list[float]:
        """Seconds until the retirement must be looked at again though nothing changed."""
        operation, due = self.record.retirement, self._watcher.due()
        if operation is None:
            return []
        ends, now = operation.phase_ends, self._retiring().now
        spent = [(ends - now).total_seconds()] if ends is not None and now is not None else []
        return [*spent, *([due] if due is not None else [])]

    def _told(self) -> Record:
        """The record with what the latest pass saw: nothing is decided by it, so it is no reason to write."""
        self._stopwatch.only([role.name for role in self.desired.roles])
        told = replace(self.record, turnovers=dict(self._stopwatch.turnovers))
        reporter = self.reporter_of(told)
        if reporter is None:
            return told
        status = reporter.status(self.observed, self._decision, told, self.router, self.clock.now())
        return replace(told, status=status)

    def _warn(self) -> None:
        """Record the events of this pass; that everything of a removed deployment leaves is none."""
        if self.lease.held and self.record.uid and self.busy != "Deleting":
            self._events.add(events(observation(self.observed)), self.record, self.clock.now())

    def _act(self, decision: Decision) -> bool:
        self.wrote = self.wrote or bool(decision.actions)
        acted = self.actor.act(decision.actions, self.record, self.observed, self.stop)
        for written in self.actor.written:
            self.view.note(written)
        self.actor.written.clear()
        self._suspect, self.actor.stale = self._suspect or self.actor.stale, False
        return acted

    def _wait_or_give_up(self, decision: Decision, now: float) -> None:
        if any(wait.kind == "held" for wait in decision.waits) and self._renew():
            return
        left = self._deadlines.left(now)
        if (left is None or left <= 0) and not self._live:
            self._suspect = True
        elif left is None or left <= 0:
            stuck = self._deadlines.expired(now)
            told = [wait for wait in decision.waits if wait.kind in ("held", "retained")]
            stuck += [wait for wait in told if wait not in stuck]
            stuck = stuck or list(decision.waits)
            raise GivenUp(*(self._reasons(stuck, now) or ["nothing can go on; run again"]))
        else:
            self.rest(left)

    def _renew(self) -> bool:
        """Take over what is wanted now, when something that holds the deployment back has changed."""
        if self.awaited is None:
            return False
        try:
            wanted = self.awaited.renewed()
        except RolloutRefused as refused:
            raise GivenUp(*refused.sentences) from None
        self._deadlines.holds_end = self.awaited.watches
        if wanted is None:
            return False
        self.desired, self.actor.render = wanted.desired, wanted.render
        if self.actor.placement is not None:
            self.actor.placement.artifact = wanted.artifact
        self.record = replace(self.record, store=wanted.store)
        self.reporter_of = lambda record: wanted.reporter
        return True

    def _reasons(self, waits: list[Wait], now: float) -> list[str]:
        place = (self.desired.namespace, self.desired.name)
        return [reason(*place, wait, self._deadlines.waited(wait, now), self.timeouts) for wait in waits]

    def rest(self, seconds: float) -> None:
        """Wait for a change, no longer than that, than the Lease allows, or than a stuck Pod or blocked place asks
        for."""
        now = self.clock.monotonic()
        bounds = [seconds, self.narrator.silence_ends(now)]
        if self.lease.held:
            bounds.append(self.lease.due())
        bounds += [since + KUEUES_CHANCE - now for since in self._stuck_since.values()]
        bounds += [until - now for until, _ in self.actor.blocked.values()]
        bounds += self._retirement_due()
        self.view.wait(max(min(bounds), 0.05))
        if (trouble := self.view.trouble) is not None:
            self._outage.away(trouble)
        self.lease.keep()

    def _end(self, phase: Phase, reasons: tuple[str, ...] = (), *, interrupted: bool = False) -> Outcome:
        """Write how it ended, if that is new and the Lease is still held, and let the Lease go."""
        self.record = replace(self.record, phase=phase, reasons=reasons)
        trouble: list[str] = []
        if self.lease.held and self.stored is not None:
            try:
                self.remember()
            except (ClusterError, GivenUp) as error:
                trouble.append(f"how this run ended could not be recorded: {error}")
        try:
            self.lease.release()
            if phase == self.goal and not self.wrote:
                self.wrote = self.lease.clear()
        except ClusterError as error:
            trouble.append(f"the Lease could not be released and expires by itself: {error}")
        if trouble:
            phase = "Incomplete"
        answers, standing = front_door.answers(self.router), {name(service) for service in self.actor.services}
        absent = tuple(one.name for one in self.desired.fronts if one.name not in standing)
        return Outcome(phase, (*reasons, *trouble), self.stored, interrupted, self.wrote, answers, absent)
