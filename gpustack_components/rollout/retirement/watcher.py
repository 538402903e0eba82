"""What only a driver can find out about a replica that is leaving: whether Services still lead to it, and whether its
engine is idle.

Asked once per pass and only in the states that need it; between two of its own looks it says when the next is due.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpustack_components.api.names import role_service
from gpustack_components.cluster import keys, readings
from gpustack_components.cluster.port import ENDPOINT_SLICE, SERVICE, Cluster, ClusterError, Json
from gpustack_components.cluster.readings import at, each
from gpustack_components.render.lifecycle import IDLE_GAUGES
from gpustack_components.rollout.observe import Member, Observed
from gpustack_components.rollout.qualification import answering
from gpustack_components.rollout.retirement.idle import Reading, trouble_in, verdict
from gpustack_components.rollout.retirement.operation import Operation
from gpustack_components.rollout.retirement.reservation import target_of

WITHDRAWAL_POLL = 1.0
"""Seconds between two looks at the endpoints."""
DRAIN_POLL = 2.0
"""Seconds between two reads of the engines."""

_SERVICE_NAME = "kubernetes.io/service-name"
_METRICS = "/metrics"


@dataclass
class Watcher:
    """The looks of one run."""

    cluster: Cluster
    namespace: str
    deployment: str
    engine: str
    now: Callable[[], float]
    """Seconds that never go back."""
    served_by: tuple[str, ...] | None = None
    """Services that still list a member of the target as serving; None while that is not asked."""
    busy: str | None = None
    """Why the target does not count as idle; None while that is not asked."""
    _next: float = 0.0
    _state: str = ""
    _idle: dict[str, str] = field(default_factory=dict[str, str])

    def look(self, operation: Operation | None, observed: Observed) -> None:
        """Look again where the operation's state needs it and the time has come. Raises `ClusterError` when the
        endpoints cannot be read; an engine that cannot be read is not idle."""
        state = operation.state if operation is not None else ""
        if state != self._state:
            self._state, self._next, self._idle = state, 0.0, {}
            self.served_by = self.busy = None
        if operation is None or self.now() < self._next:
            return
        if state == "Disqualified":
            self.served_by = _served_by(self.cluster, self.namespace, self.deployment, operation)
            self._next = self.now() + WITHDRAWAL_POLL
        elif state == "Draining":
            self.busy, self._idle = verdict(self._round(operation, observed), self._idle)
            self._next = self.now() + DRAIN_POLL

    def due(self) -> float | None:
        """Seconds until the next look; None when none is to come."""
        return max(self._next - self.now(), 0.0) if self._state in ("Disqualified", "Draining") else None

    def _round(self, operation: Operation, observed: Observed) -> list[Reading]:
        """Every answering member, read once."""
        target = [member for member in target_of(operation, observed) if member.live]
        return [self._read(member) for member in answering(target, self.engine)] if target else []

    def _read(self, member: Member) -> Reading:
        incarnation, trouble = _incarnation(member)
        port = readings.whole_number(readings.annotation(member.pod, keys.PROMETHEUS_PORT))
        if not trouble and (readings.mode([member.pod]) != "managed" or not port):
            trouble = f"TakeOver: Pod {member.name} runs a command of its own, whose metrics are not known"
        if not trouble:
            trouble = self._asked(member, port or 0)
        return Reading(member.name, incarnation, trouble)

    def _asked(self, member: Member, port: int) -> str:
        scheme = readings.annotation(member.pod, keys.PROMETHEUS_SCHEME) or "http"
        try:
            text = self.cluster.read_pod(self.namespace, member.name, port, _METRICS, scheme=scheme)
        except ClusterError as error:
            return f"MetricsUnread: Pod {member.name} could not be asked: {error}"
        return trouble_in(text, IDLE_GAUGES.get(self.engine, ())).replace("{pod}", f"Pod {member.name}")


def _incarnation(member: Member) -> tuple[str, str]:
    """Which start of the engine's container runs, and what is wrong with it."""
    statuses = each(member.pod, "status", "containerStatuses")
    main = next((status for status in statuses if status.get("name") == keys.MAIN_CONTAINER), None)
    if main is None or at(main, "state", "running") is None:
        return "", f"NotRunning: the engine of Pod {member.name} does not run"
    return f"{main.get('restartCount', 0)} {main.get('containerID', '')}", ""


def _served_by(cluster: Cluster, namespace: str, deployment: str, operation: Operation) -> tuple[str, ...]:
    """The deployment's front Services that select by the label and still list a member of the target."""
    listed = cluster.list(ENDPOINT_SLICE, namespace, keys.selector(deployment)).items
    front = {deployment, role_service(deployment, operation.role)}
    names = {
        service
        for slice_ in listed
        if (service := readings.label(slice_, _SERVICE_NAME) or "") in front
        and any(_leads_to(endpoint, operation.members) for endpoint in each(slice_, "endpoints"))
    }
    return tuple(sorted(name for name in names if _narrowed(cluster, namespace, name)))


def _leads_to(endpoint: Json, members: Sequence[str]) -> bool:
    """An unset condition counts as ready, as the API says."""
    if at(endpoint, "targetRef", "uid") not in members:
        return False
    conditions = at(endpoint, "conditions")
    return at(conditions, "ready") is not False or at(conditions, "serving") is True


def _narrowed(cluster: Cluster, namespace: str, name: str) -> bool:
    """Whether a Service selects by the label at all; one that does not is left when the Pod is deleted."""
    service = cluster.get(SERVICE, namespace, name)
    return at(service, "spec", "selector", keys.ENDPOINT_ELIGIBLE) is not None
