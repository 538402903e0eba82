"""Carries single actions out, each write on a condition, so that repeating or losing one does no harm."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    POD,
    SERVICE,
    WORKLOAD,
    AlreadyExists,
    Busy,
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    Json,
    Stop,
)
from gpustack_components.cluster.readings import at, label, managed_by_kueue, name, owner_uids, terminating, uid
from gpustack_components.render.placement import placed
from gpustack_components.rollout.actions import (
    Action,
    CreateReplica,
    Decision,
    DeletePods,
    DeleteWorkload,
    EnsureService,
    Mark,
    PruneService,
    ReleaseFinalizer,
    Select,
    Wait,
)
from gpustack_components.rollout.contract import Clock, RenderedReplica
from gpustack_components.rollout.narrator import Narrator
from gpustack_components.rollout.observe import Observed
from gpustack_components.rollout.qualification import answers_requests
from gpustack_components.rollout.record import Record
from gpustack_components.rollout.selection import labelled
from gpustack_components.rollout.weights import Placement
from gpustack_components.rollout.wording import place

_RETRY = 15.0
PULUMI = "pulumi-kubernetes"
"""The field manager from which pulumi-kubernetes takes over at its next update."""


class GivenUp(Exception):  # noqa: N818
    """The run cannot go on; the arguments are the reasons."""


def _nothing() -> None:
    pass


@dataclass
class Actor:
    """The hands of one run."""

    cluster: Cluster
    namespace: str
    deployment: str
    render: Callable[[str, int], RenderedReplica]
    narrator: Narrator
    clock: Clock
    keep: Callable[[], None] = _nothing
    """Called before every write; raises `LeaseLost` when this run must not write any more."""
    placement: Placement | None = None
    """Which nodes suit a Pod that is created."""
    engine: str = ""
    """`vLLM` or `SGLang`, by which the shape of a created Pod is read."""
    services: list[Json] = field(default_factory=list[Json])
    """Services that carry the deployment's labels, as read and since changed here."""
    leaving: set[str] = field(default_factory=set[str])
    """Uids of objects whose deletion the server has accepted."""
    written: list[Json] = field(default_factory=list[Json])
    """Pods created, labelled or released since they were last taken from here."""
    selects: bool = False
    """Whether Services and routers select by the label, so that a run cannot do without it."""
    labels: bool = True
    """Whether labels are still tried, which they are not once they were refused and nothing selects by them."""
    stale: bool = False
    """Whether a Pod had changed since it was looked at, so that everything must be looked at anew."""
    blocked: dict[tuple[str, int], tuple[float, str]] = field(default_factory=dict[tuple[str, int], tuple[float, str]])
    """Replicas whose name a foreign object holds: when to try again, and what is waited for."""

    def act(self, actions: tuple[Action, ...], record: Record, observed: Observed, stop: Stop) -> bool:
        """Take the actions in order until `stop`; whether another decision is due at once: something was changed, or a
        name turned out to be held by somebody else.

        A refused create does not keep the others from being tried. Raises `GivenUp` with every refusal, `LeaseLost`
        and `ClusterError`.
        """
        acted = False
        refused: list[str] = []
        for action in actions:
            if stop.is_set():
                break
            try:
                acted = self._take(action, record, observed) or acted
            except ClusterError as error:
                if error.retryable or not isinstance(action, CreateReplica | EnsureService):
                    raise
                if "serviceaccount" in str(error) and "not found" in str(error):
                    raise Busy(str(error)) from None
                refused.append(f"{self.deployment} {place(action.role, action.ordinal)}: {error}")
        if refused:
            raise GivenUp(*refused)
        return acted

    @property
    def _writing(self) -> Cluster:
        """The cluster, for one write: the machine may have slept since the last one, and another run begun."""
        self.keep()
        return self.cluster

    def without_blocked(self, decision: Decision, now: float) -> Decision:
        """The decision without what a foreign object keeps from being done for now, which it waits for instead, and
        without labels that are refused."""
        asked = {(one.role, one.ordinal) for one in decision.actions if isinstance(one, CreateReplica | EnsureService)}
        self.blocked = {seat: entry for seat, entry in self.blocked.items() if seat in asked}
        if self.labels and not self.blocked:
            return decision
        tried = (action for action in decision.actions if self.labels or not isinstance(action, Mark))
        actions = tuple(action for action in tried if not self._is_blocked(action, now))
        waits = tuple(Wait("foreign", *seat, message) for seat, (_, message) in self.blocked.items())
        return replace(decision, actions=actions, waits=(*decision.waits, *waits))

    def _is_blocked(self, action: Action, now: float) -> bool:
        if not isinstance(action, CreateReplica | EnsureService):
            return False
        return self.blocked.get((action.role, action.ordinal), (now, ""))[0] > now

    def _take(self, action: Action, record: Record, observed: Observed) -> bool:
        match action:
            case DeletePods():
                for pod in action.pods:
                    self._writing.delete(POD, self.namespace, pod.name, uid=pod.uid)
                    self.leaving.add(pod.uid)
                self.narrator.deleted(action, self.clock.monotonic())
            case DeleteWorkload():
                self._writing.delete(WORKLOAD, self.namespace, action.name, uid=action.uid)
                self.leaving.add(action.uid)
            case ReleaseFinalizer():
                return self._release(action, observed)
            case EnsureService():
                return self._ensure_service(action, record)
            case PruneService():
                self._writing.delete(SERVICE, self.namespace, action.name, uid=action.uid)
                self.services = [service for service in self.services if uid(service) != action.uid]
            case CreateReplica():
                return self._create(action, record)
            case Mark():
                self._mark(action, observed)
            case Select():
                self._select(action)
        return True

    def _mark(self, action: Mark, observed: Observed) -> None:
        """Write or remove the label on exactly the Pod that was judged; a changed one is judged anew."""
        if not self.labels:
            return
        standing = next((member.pod for member in observed.members if member.uid == action.pod.uid), None)
        path = f"/metadata/labels/{keys.ENDPOINT_ELIGIBLE.replace('/', '~1')}"
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": action.pod.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": at(standing, "metadata", "resourceVersion")},
            {"op": "add", "path": path, "value": "true"} if action.eligible else {"op": "remove", "path": path},
        ]
        trouble = "another controller or a webhook undoes it"
        try:
            marked = self._writing.patch(POD, self.namespace, action.pod.name, operations)
        except Conflict:
            self.stale = True
            return
        except (Forbidden, Invalid) as error:
            marked, trouble = standing, str(error)
        if marked is None:
            self.stale = True
            return
        if (label(marked, keys.ENDPOINT_ELIGIBLE) == "true") == action.eligible:
            self.written.append(marked)
        elif self.selects:
            raise GivenUp(
                f"{self.deployment} {place(action.role, action.ordinal)}: Pod {action.pod.name} cannot be labelled "
                f"{keys.ENDPOINT_ELIGIBLE}, by which Services and routers select it: {trouble}"
            )
        else:
            self.labels = False
            self.narrator.say(f"Pods cannot be labelled as ready to be selected, which nothing needs yet: {trouble}")

    def _select(self, action: Select) -> None:
        """Write the selector of exactly the Service that was looked at; a changed one is looked at anew.

        It is written in the name pulumi-kubernetes takes fields over from, so that a later edit of the program is not
        refused for a field that a rollout wrote.
        """
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": "/spec/selector", "value": action.before},
            {"op": "replace", "path": "/spec/selector", "value": action.selector},
        ]
        written: Json | None = None
        try:
            standing = written = self._writing.patch(SERVICE, self.namespace, action.name, operations, manager=PULUMI)
        except Conflict:
            standing = self.cluster.get(SERVICE, self.namespace, action.name)
        self.services = [service for service in self.services if name(service) != action.name]
        if standing is not None:
            self.services.append(standing)
        if written is None:
            return
        if at(written, "spec", "selector") != action.selector:
            raise GivenUp(
                f"{self.deployment} {action.role}: Service {action.name} cannot be told whom to select: another "
                "controller or a webhook undoes it"
            )
        self.narrator.selects(action)

    def _release(self, action: ReleaseFinalizer, observed: Observed) -> bool:
        """Take Kueue's finalizer off exactly this Pod; one that has changed or gone meanwhile is looked at anew."""
        standing = next((member.pod for member in observed.members if member.uid == action.pod.uid), None)
        finalizers: list[str] = at(standing, "metadata", "finalizers") or []
        if keys.MANAGED not in finalizers:
            return False
        index = finalizers.index(keys.MANAGED)
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": action.pod.uid},
            {"op": "test", "path": f"/metadata/finalizers/{index}", "value": keys.MANAGED},
            {"op": "remove", "path": f"/metadata/finalizers/{index}"},
        ]
        try:
            released = self._writing.patch(POD, self.namespace, action.pod.name, operations)
        except Conflict:
            released = None
        if released is None:
            self.stale = True
            return False
        self.written.append(released)
        self.narrator.say(f"Pod {action.pod.name} had exited and Kueue did not release it: its finalizer was taken off")
        return True

    def _ensure_service(self, action: EnsureService, record: Record) -> bool:
        service = self.render(action.role, action.ordinal).service
        if service is None:
            return False
        owned = _owned(service, record)
        try:
            self.services.append(self._writing.create(owned))
        except AlreadyExists:
            found = self.cluster.get(SERVICE, self.namespace, name(owned))
            if found is not None and record.uid not in owner_uids(found):
                self._block(action, f"Service {name(owned)}, which belongs to somebody else, to leave its name")
                return True
            if found is not None:
                self.services.append(found)
        self.blocked.pop((action.role, action.ordinal), None)
        return True

    def _create(self, action: CreateReplica, record: Record) -> bool:
        if self._is_blocked(action, self.clock.monotonic()):
            return False
        replica = self.render(action.role, action.ordinal)
        nodes = self.placement.node_affinity() if self.placement is not None else {}
        for member in action.members:
            pod = placed(_owned(replica.members[member], record), nodes)
            if answers_requests(pod, member, len(replica.members), self.engine):
                pod = labelled(pod)
            try:
                created = self._writing.create(pod)
            except AlreadyExists:
                found = self.cluster.get(POD, self.namespace, name(pod))
                if found is not None and record.uid not in owner_uids(found):
                    self._block(action, f"Pod {name(pod)}, which belongs to somebody else, to leave its name")
                    return True
                if found is None or terminating(found):
                    raise Busy(f"Pod {name(pod)} of an earlier replica is just leaving") from None
                created = found
            if not managed_by_kueue(created):
                self._refuse_unmanaged(created)
            self.written.append(created)
        self.blocked.pop((action.role, action.ordinal), None)
        self.narrator.created(action, self.clock.monotonic())
        return True

    def _block(self, action: CreateReplica | EnsureService, message: str) -> None:
        self.blocked[action.role, action.ordinal] = (self.clock.monotonic() + _RETRY, message)

    def _refuse_unmanaged(self, pod: Json) -> None:
        self._writing.delete(POD, self.namespace, name(pod), uid=uid(pod))
        raise GivenUp(
            f"Kueue did not take in Pod {name(pod)} (no label {keys.MANAGED}), so it would have run outside any quota; "
            f"it was deleted again. Either namespace {self.namespace} is not matched by Kueue's "
            "managedJobsNamespaceSelector, or its Pod integration is off (integrations.frameworks in Kueue's "
            "configuration must list pod)."
        )


def _owned(manifest: Json, record: Record) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [record.owner_reference]}}
