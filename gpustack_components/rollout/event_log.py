"""Kubernetes Events of a deployment, on its record, while a driver is at work: one per Pod and cause (sheet 10).

They are a courtesy: one that cannot be written costs a line at most, never the run.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gpustack_components.api.names import fnv64
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CONFIG_MAP, EVENT, AlreadyExists, Cluster, ClusterError, Forbidden, Json
from gpustack_components.cluster.readings import timestamp
from gpustack_components.rollout.narrator import Narrator
from gpustack_components.rollout.record import Record, record_name
from gpustack_components.status.events import DeploymentWarning


@dataclass
class EventLog:
    """Writes each warning of one run once, and again only when it happened again."""

    cluster: Cluster
    narrator: Narrator
    _told: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _muted: bool = False

    def add(self, warnings: Iterable[DeploymentWarning], record: Record, now: datetime) -> None:
        """Record what has not been recorded yet. Never raises `ClusterError`."""
        for warning in warnings:
            known = self._told.get((warning.uid, warning.reason), 0)
            if self._muted or known >= warning.count:
                continue
            self._told[warning.uid, warning.reason] = warning.count
            try:
                self._write(warning, record, now, again=known > 0)
            except Forbidden as refused:
                self._muted = True
                self.narrator.say(f"events are not recorded (grant create and patch on events for that): {refused}")
            except ClusterError:
                continue

    def _write(self, warning: DeploymentWarning, record: Record, now: datetime, *, again: bool) -> None:
        event = event_of(warning, record, now)
        if not again:
            try:
                self.cluster.create(event)
            except AlreadyExists:
                again = warning.count > 1
            else:
                return
        if again:
            fields = ("message", "count", "lastTimestamp")
            operations = [{"op": "add", "path": f"/{name}", "value": event[name]} for name in fields]
            self.cluster.patch(EVENT, record.namespace, event["metadata"]["name"], operations)


def event_of(warning: DeploymentWarning, record: Record, now: datetime) -> Json:
    """The Event; the same Pod and cause always have the same name."""
    name = record_name(record.name)
    time = timestamp(now)
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{name}.{fnv64(f'{warning.uid}/{warning.reason}')}",
            "namespace": record.namespace,
            "labels": {keys.APP_INSTANCE: record.name, keys.MANAGED_BY: keys.FIELD_MANAGER},
        },
        "involvedObject": {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "namespace": record.namespace,
            "name": name,
            "uid": record.uid,
        },
        "type": "Warning",
        "reason": warning.reason,
        "message": warning.message,
        "count": warning.count,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": keys.FIELD_MANAGER},
        "reportingComponent": keys.FIELD_MANAGER,
    }
