"""What stands in the cluster, read from raw Pods and Workloads into plain values the planner can compare.

Ownership, not labels, says what is ours: a Pod belongs to the deployment when its owner reference names the record's
uid. A Workload belongs to a replica only by an owner reference to one of its Pods; its name merely locates it (sheet
3).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpustack_components.api.quantity import Quantity
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import Shape, at, each

Belonging = Literal["ours", "former", "foreign"]
"""Owned by the record; owned by an earlier record of the same name, which is gone, so that the garbage collector is
taking the Pod; or somebody else's."""


@dataclass(frozen=True, slots=True)
class Member:
    """One Pod that carries the deployment's labels."""

    name: str
    uid: str
    belonging: Belonging
    role: str
    """The component label; empty when there is none."""
    ordinal: int | None
    """None when it names no ordinal, or one that is no number from 0 up."""
    seat: int
    """Member index: 0 when it names none, -1 when it is no number from 0 up."""
    total: int
    """Members its replica declares: 1 when it declares none, 0 when unreadable."""
    fingerprint: str
    render_version: int
    """0 when absent or unreadable: below every floor above 0."""
    group: str
    """Kueue's pod group."""
    queue: str
    phase: str
    node: str
    """The node it is bound to; empty before."""
    gated: bool
    """Still behind Kueue's admission gate."""
    started: bool
    """Some container has a status."""
    terminating: bool
    finalizer: bool
    """Kueue's finalizer holds it."""
    ready: bool | None
    """The Ready condition; None when there is none yet or it is Unknown."""
    describes: str
    """Digest of what its containers run and request, to be found again in its Workload."""
    trouble: str
    """What a container or the scheduler says is wrong, for people; empty when nothing."""
    pod: Json = field(repr=False, compare=False)
    """The object it was read from."""

    @property
    def live(self) -> bool:
        """Ours, not being deleted, and not ended."""
        return self.belonging == "ours" and not self.terminating and not readings.terminal(self.pod)

    @property
    def seated(self) -> bool:
        """Whether it says on which seat of its replica it is, as the only Pod of a replica need not."""
        return self.seat >= 0 and (self.total == 1 or readings.label(self.pod, keys.MEMBER_INDEX) is not None)

    @property
    def eligible(self) -> bool:
        """Whether it is labelled as one that Services and routers may select."""
        return readings.label(self.pod, keys.ENDPOINT_ELIGIBLE) == "true"

    @property
    def grace(self) -> float:
        """Seconds it has for its exit once it is deleted: what the deletion gave it, or what its spec says."""
        given = at(self.pod, "metadata", "deletionGracePeriodSeconds")
        given = at(self.pod, "spec", "terminationGracePeriodSeconds") if given is None else given
        return float(given) if isinstance(given, int) else 30.0

    @property
    def exited(self) -> bool:
        """Nothing of it runs any more, or ever ran: ended, or seen to be deleted before it was bound to a node. One
        whose deletion was only accepted may have been bound before that."""
        return readings.terminal(self.pod) or (readings.terminating(self.pod) and not self.node)


@dataclass(frozen=True, slots=True)
class PodSet:
    """One entry of a Workload's podSets."""

    name: str
    count: int
    describes: str
    """Digest of the template, comparable with `Member.describes`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One Kueue Workload of the namespace."""

    name: str
    uid: str
    owners: frozenset[str]
    """Uids of the Pods in its owner references."""
    queue: str
    pod_sets: tuple[PodSet, ...]
    admitted: bool
    """Condition Admitted is True, and it is neither evicted, deactivated nor being deleted."""
    quota_reserved: bool
    evicted: bool
    active: bool
    terminating: bool
    fresh: bool
    """Its status shows that it was never admitted, evicted, requeued or run (sheet 4.6)."""
    message: str
    """Why it is not admitted, in Kueue's own words; empty when it has said nothing."""
    workload: Json = field(repr=False, compare=False)
    """The object it was read from."""


@dataclass(frozen=True, slots=True)
class FrontService:
    """A Service in front of Pods, as it stands."""

    uid: str
    selector: Mapping[str, str]


@dataclass(frozen=True)
class Observed:
    """Everything of the deployment that stands on the server."""

    members: tuple[Member, ...]
    """Pods of this record and of former ones, by name."""
    foreign: tuple[Member, ...]
    """Pods that carry our labels and belong to somebody else; never touched."""
    workloads: tuple[Workload, ...]
    """Workloads of the namespace, by name."""
    services: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headless Services of the record: uid by name."""
    fronts: Mapping[str, FrontService] = field(default_factory=dict[str, "FrontService"])
    """Services with a selector that are not the record's, as those in front of roles: by name."""
    _seats: Mapping[tuple[str, int | None], tuple[Member, ...]] = field(default_factory=dict[Any, Any], repr=False)
    _owning: Mapping[str, tuple[Workload, ...]] = field(default_factory=dict[Any, Any], repr=False)
    _named: Mapping[str, Workload] = field(default_factory=dict[Any, Any], repr=False)

    def at(self, role: str, ordinal: int | None) -> tuple[Member, ...]:
        """Every member of that replica that reads, terminating ones included."""
        return self._seats.get((role, ordinal), ())

    def seats(self) -> Iterable[tuple[str, int | None]]:
        """Every (role, ordinal) at which a member reads."""
        return self._seats.keys()

    def owning(self, uid: str) -> tuple[Workload, ...]:
        """The Workloads that own this Pod, by name."""
        return self._owning.get(uid, ())

    def workload_of(self, members: Iterable[Member]) -> Workload | None:
        """The Workload that owns one of these Pods; the first by name when several do."""
        owners = {workload.name: workload for member in members for workload in self.owning(member.uid)}
        return owners[min(owners)] if owners else None

    def named(self, name: str) -> Workload | None:
        """The Workload that stands on this name, whoever made it."""
        return self._named.get(name)


def shape(members: Iterable[Member]) -> Shape:
    """How whole these members are by their own declaration (sheet 12)."""
    return readings.shape([member.pod for member in members])


def observe(
    pods: Iterable[Json],
    workloads: Iterable[Json],
    owner_uid: str,
    *,
    record_name: str = "",
    services: Iterable[Json] = (),
    leaving: frozenset[str] = frozenset(),
    before: Observed | None = None,
) -> Observed:
    """Read raw objects.

    `pods` carry the deployment's labels, `workloads` are the namespace's. `owner_uid` is the record's uid, empty when
    there is no record. `record_name` tells Pods of a former record from foreign ones. `leaving` are uids whose deletion
    the server has accepted but a watch has not yet shown. `before` is an earlier answer: what is still the same object
    is not read again.
    """
    known: dict[int, Member] = {}
    known_workloads: dict[int, Workload] = {}
    if before is not None:
        known = {id(member.pod): member for member in (*before.members, *before.foreign)}
        known_workloads = {id(workload.workload): workload for workload in before.workloads}

    def member_of(pod: Json) -> Member:
        member = known.get(id(pod)) or _member(pod)
        belonging = _belonging(pod, owner_uid, record_name)
        terminating = member.terminating or member.uid in leaving
        if (belonging, terminating) == (member.belonging, member.terminating):
            return member
        return replace(member, belonging=belonging, terminating=terminating)

    def workload_of(item: Json) -> Workload:
        workload = known_workloads.get(id(item)) or _workload(item)
        if workload.uid in leaving and not workload.terminating:
            return replace(workload, terminating=True, admitted=False)
        return workload

    read = sorted(map(member_of, pods), key=lambda member: member.name)
    members = tuple(member for member in read if member.belonging != "foreign")
    groups = tuple(sorted(map(workload_of, workloads), key=lambda workload: workload.name))
    seats: dict[tuple[str, int | None], tuple[Member, ...]] = {}
    for member in members:
        place = (member.role, member.ordinal)
        seats[place] = (*seats.get(place, ()), member)
    owning: dict[str, tuple[Workload, ...]] = {}
    for workload in groups:
        for uid in workload.owners:
            owning[uid] = (*owning.get(uid, ()), workload)
    headless: dict[str, str] = {}
    fronts: dict[str, FrontService] = {}
    for service in services:
        if _belonging(service, owner_uid, record_name) == "ours":
            headless[readings.name(service)] = readings.uid(service)
        elif selector := at(service, "spec", "selector"):
            fronts[readings.name(service)] = FrontService(readings.uid(service), selector)
    return Observed(
        members=members,
        foreign=tuple(member for member in read if member.belonging == "foreign"),
        workloads=groups,
        services=headless,
        fronts=fronts,
        _seats=seats,
        _owning=owning,
        _named={workload.name: workload for workload in groups},
    )


def _belonging(obj: Json, owner_uid: str, record_name: str) -> Belonging:
    for reference in each(obj, "metadata", "ownerReferences"):
        if reference.get("kind") != "ConfigMap":
            continue
        if owner_uid and reference.get("uid") == owner_uid:
            return "ours"
        if record_name and reference.get("name") == record_name:
            return "former"
    return "foreign"


def _member(pod: Json) -> Member:
    statuses = [
        entry
        for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for entry in each(pod, "status", name)
    ]
    ready = readings.condition(pod, "Ready")
    seat = readings.member_index(pod)
    return Member(
        name=readings.name(pod),
        uid=readings.uid(pod),
        belonging="foreign",
        role=readings.role(pod) or "",
        ordinal=readings.ordinal(pod),
        seat=-1 if seat is None else seat,
        total=readings.declared_total(pod) or 0,
        fingerprint=readings.fingerprint(pod),
        render_version=readings.render_version(pod),
        group=readings.label(pod, keys.GROUP_NAME) or "",
        queue=readings.label(pod, keys.QUEUE_NAME) or "",
        phase=readings.phase(pod),
        node=at(pod, "spec", "nodeName") or "",
        gated=readings.gated(pod),
        started=bool(statuses),
        terminating=readings.terminating(pod),
        finalizer=keys.MANAGED in (at(pod, "metadata", "finalizers") or ()),
        ready=None if ready is None else {"True": True, "False": False}.get(ready.status),
        describes=_describes(at(pod, "spec")),
        trouble=_trouble(pod, statuses),
        pod=pod,
    )


def _trouble(pod: Json, statuses: list[Json]) -> str:
    if readings.terminal(pod):
        return " ".join(filter(None, (readings.phase(pod), at(pod, "status", "reason"), at(pod, "status", "message"))))
    for entry in statuses:
        waiting = at(entry, "state", "waiting", "reason")
        if waiting not in (None, "ContainerCreating", "PodInitializing"):
            message = at(entry, "state", "waiting", "message")
            return f"container {entry.get('name')} {waiting}{f': {message}' if message else ''}"
    scheduled = readings.condition(pod, "PodScheduled")
    if scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "Unschedulable"):
        return f"unschedulable: {scheduled.message or 'no node fits'}"
    return ""


def _workload(item: Json) -> Workload:
    terminating = readings.terminating(item)
    owners = each(item, "metadata", "ownerReferences")
    active = readings.active(item)
    return Workload(
        name=readings.name(item),
        uid=readings.uid(item),
        owners=frozenset(
            str(owner.get("uid")) for owner in owners if (owner.get("kind"), owner.get("apiVersion")) == ("Pod", "v1")
        ),
        queue=at(item, "spec", "queueName") or "",
        pod_sets=tuple(
            PodSet(str(entry.get("name")), int(entry.get("count") or 0), _describes(at(entry, "template", "spec")))
            for entry in each(item, "spec", "podSets")
        ),
        admitted=readings.admitted(item) and active and not terminating,
        quota_reserved=readings.quota_reserved(item),
        evicted=readings.evicted(item),
        active=active,
        terminating=terminating,
        fresh=active and _fresh(item),
        message=_message(item),
        workload=item,
    )


def _fresh(workload: Json) -> bool:
    history = ("accumulatedPastExecutionTimeSeconds", "requeueState")
    if any(at(workload, "status", name) is not None for name in history):
        return False
    if at(workload, "status", "reclaimablePods") or at(workload, "status", "schedulingStats", "evictions"):
        return False
    if any(readings.condition(workload, name) for name in ("Evicted", "Preempted", "Requeued", "Finished")):
        return False
    admitted = readings.condition(workload, "Admitted")
    if admitted is not None and admitted.status != "False":
        return False
    ready = readings.condition(workload, "PodsReady")
    return ready is None or (ready.status == "False" and ready.reason != "WaitForRecovery")


def _message(workload: Json) -> str:
    evicted = readings.condition(workload, "Evicted")
    if not readings.active(workload):
        return f"deactivated (spec.active is false){f': {evicted.message}' if evicted and evicted.message else ''}"
    if evicted is not None and evicted.status == "True":
        return f"evicted: {evicted.message or evicted.reason}"
    return readings.waiting_reason(workload)


def _describes(spec: Any) -> str:
    """Digest of what a Pod's containers run and request; a Workload's template of the same Pod gives the same."""
    containers = [
        [
            container.get("name"),
            container.get("image"),
            container.get("command") or [],
            container.get("args") or [],
            container.get("env") or [],
            _requests(at(container, "resources", "requests")),
        ]
        for container in each(spec, "containers")
    ]
    return hashlib.sha256(json.dumps(containers, sort_keys=True).encode()).hexdigest()


def _requests(amounts: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return sorted((name, str(Quantity(amount).value)) for name, amount in (amounts or {}).items())
