"""The Lease that keeps two drivers of one deployment apart: made when a run first writes, removed when it ends.

A run that waits renews it every five minutes, so waiting costs next to nothing. One whose process is provably gone
(killed, on this machine) is taken over at once; one left behind elsewhere after fifteen minutes without a renewal,
counted by the API server's own clock, so that no other clock matters.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import LEASE, AlreadyExists, Cluster, ClusterError, Conflict, Json
from gpustack_components.cluster.readings import annotation, at, each, moment, name, uid
from gpustack_components.rollout.contract import Clock
from gpustack_components.rollout.liveness import Holder

DURATION = 900.0
"""Seconds without a renewal after which a Lease may be taken over."""
RENEWAL = 300.0
"""Seconds between renewals."""
_MARGIN = 60.0
_LONG_AGO = (float("-inf"), datetime.min.replace(tzinfo=UTC))
_TERMINATED = "being terminated"
"""What an API server says of a create in a namespace that is being deleted."""

_TOKEN = "modeldeployment.gpustack.ai/driver-token"  # noqa: S105 (not a password)
_MACHINE = "modeldeployment.gpustack.ai/driver-machine"
_PROCESS = "modeldeployment.gpustack.ai/driver-process"
_STARTED = "modeldeployment.gpustack.ai/driver-started"


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Another driver is at work."""

    holder: str
    """Who, in words."""
    since: str
    """When it began, RFC 3339."""
    expires: float
    """Seconds until it may be taken over unless it is renewed."""


class LeaseLost(Exception):  # noqa: N818
    """Somebody else took the Lease over, or removed it; this run must not act any more."""


class DriverLease:
    """One run's hold on a deployment."""

    def __init__(self, cluster: Cluster, namespace: str, name: str, holder: Holder, clock: Clock) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._holder = holder
        self._clock = clock
        self._held: Json | None = None
        self.leaving = False
        """Whether the namespace is being deleted: nothing can be made there any more, only removed, which two drivers
        may do at a time."""
        self._renewed = _LONG_AGO

    @property
    def held(self) -> bool:
        """Whether this run may act: it holds the Lease, or nobody can get one any more."""
        return self._held is not None or self.leaving

    def acquire(self) -> HeldBy | None:
        """Take the Lease; the other driver when there is one at work."""
        for _ in range(5):
            asked = self._moment()
            try:
                self._keep(self._cluster.create(self._object()), asked)
                return None
            except AlreadyExists:
                standing = self._cluster.get(LEASE, self._namespace, self._name)
            except ClusterError as error:
                if _TERMINATED not in str(error):
                    raise
                self.leaving = True
                return None
            if standing is None:
                continue
            if annotation(standing, _TOKEN) == self._holder.token:
                self._keep(standing, _LONG_AGO)
                return None
            left = _left(self._cluster, standing)
            if left > 0 and not _holder(standing).provably_dead():
                words = str(at(standing, "spec", "holderIdentity") or "somebody")
                return HeldBy(words, str(at(standing, "spec", "acquireTime") or ""), left)
            self._take_away(standing)
        return HeldBy("drivers that keep taking it from each other", "", 0.0)

    def due(self) -> float:
        """Seconds until the next renewal; 0 when it is due."""
        return max(RENEWAL - self._age(), 0.0)

    def keep(self) -> None:
        """Renew when due. Raises `LeaseLost` when it is held no more, and `ClusterError`."""
        if self._held is None or self.due() > 0:
            return
        asked = self._moment()
        renewed = {**self._held, "spec": {**self._held["spec"], "renewTime": _micro(self._clock.now())}}
        try:
            self._keep(self._cluster.replace(renewed), asked)
        except Conflict:
            standing = self._cluster.get(LEASE, self._namespace, self._name)
            if standing is None or annotation(standing, _TOKEN) != self._holder.token:
                self._held = None
                who = at(standing, "spec", "holderIdentity") if standing is not None else None
                raise LeaseLost(
                    f"the Lease {self._namespace}/{self._name} was taken over by {who}"
                    if who
                    else f"the Lease {self._namespace}/{self._name} was removed while this run was at work"
                ) from None
            self._keep(standing, _LONG_AGO)

    def release(self) -> None:
        """Remove it, if held. It counts as let go even when that fails, since only the answer may have been lost."""
        held, self._held = self._held, None
        if held is not None:
            self._cluster.delete(LEASE, self._namespace, self._name, uid=uid(held))

    def clear(self) -> bool:
        """Remove the Lease that a killed run left behind, without taking it; whether there was one."""
        left = abandoned(self._cluster, self._namespace, self._name)
        return left is not None and self._take_away(left)

    def _take_away(self, standing: Json) -> bool:
        """Remove another run's Lease unless it was renewed since it was looked at; whether it was removed.

        A deletion knows uids only and not versions, so it is marked as this run's first: its former holder finds that
        out at its next renewal.
        """
        metadata = {**standing["metadata"], "annotations": self._object()["metadata"]["annotations"]}
        try:
            self._cluster.replace({**standing, "metadata": metadata, "spec": self._object()["spec"]})
        except Conflict:
            return False
        return self._cluster.delete(LEASE, self._namespace, self._name, uid=uid(standing))

    def _keep(self, stored: Json, asked: tuple[float, datetime]) -> None:
        """Hold what stands; its time runs from when it was asked for, since an answer may take any time to arrive."""
        self._held, self._renewed = stored, asked

    def _moment(self) -> tuple[float, datetime]:
        return (self._clock.monotonic(), self._clock.now())

    def _age(self) -> float:
        """Seconds since the last renewal by whichever clock ran on: a suspended machine's monotonic one stands
        still."""
        ticks, time = self._renewed
        return max(self._clock.monotonic() - ticks, (self._clock.now() - time).total_seconds())

    def _object(self) -> Json:
        now = _micro(self._clock.now())
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {keys.MANAGED_BY: keys.FIELD_MANAGER},
                "annotations": {
                    _TOKEN: self._holder.token,
                    _MACHINE: self._holder.machine,
                    _PROCESS: str(self._holder.pid),
                    _STARTED: self._holder.started,
                },
            },
            "spec": {
                "holderIdentity": self._holder.words,
                "leaseDurationSeconds": int(DURATION),
                "acquireTime": now,
                "renewTime": now,
            },
        }


def abandoned(cluster: Cluster, namespace: str, name: str) -> Json | None:
    """A Lease of that name whose driver has ended without releasing it; None when there is none. Raises
    `ClusterError`."""
    standing = cluster.get(LEASE, namespace, name)
    if standing is None or not (_holder(standing).provably_dead() or _left(cluster, standing) <= 0):
        return None
    return standing


def _left(cluster: Cluster, standing: Json) -> float:
    """Seconds until a Lease that stands may be taken over, all by the API server's clock."""
    written = [at(entry, "time") for entry in each(standing, "metadata", "managedFields")]
    written.append(at(standing, "metadata", "creationTimestamp"))
    last = max((time for text in written if (time := moment(text)) is not None), default=None)
    namespace = at(standing, "metadata", "namespace")
    probe = {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"generateName": f"{name(standing)}-", "namespace": namespace},
    }
    now = moment(at(cluster.create(probe, dry_run=True), "metadata", "creationTimestamp"))
    if last is None or now is None:
        return DURATION
    duration = at(standing, "spec", "leaseDurationSeconds")
    return (float(duration) if isinstance(duration, int) else DURATION) + _MARGIN - (now - last).total_seconds()


def _holder(standing: Json) -> Holder:
    pid = annotation(standing, _PROCESS) or ""
    return Holder(
        words=str(at(standing, "spec", "holderIdentity") or ""),
        token=annotation(standing, _TOKEN) or "",
        machine=annotation(standing, _MACHINE) or "",
        pid=int(pid) if pid.isdigit() else 0,
        started=annotation(standing, _STARTED) or "",
    )


def _micro(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
