"""The status document as values (rollout sheet 8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_components.cluster.port import Json
from gpustack_components.cluster.readings import each

Phase = Literal["Starting", "Ready", "Degraded", "Deleting"]
"""Where a deployment stands as a whole."""

ConditionType = Literal[
    "DomainRegistered",
    "QuotaReserved",
    "CacheAttached",
    "ReplicasUpToDate",
    "RoleKindsReady",
    "KVEventsPublishing",
    "RouterReady",
    "WeightsReady",
    "EndpointEligibility",
    "ElasticResize",
]
"""The conditions of a deployment."""

Truth = Literal["True", "False", "Unknown"]
"""A condition's value."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a deployment (8.2)."""

    type: ConditionType
    """What is judged."""
    status: Truth
    """The judgement."""
    reason: str
    """Why, in one word."""
    message: str = ""
    """Why, in a sentence; may be empty."""
    since: str = ""
    """When the status last changed, RFC 3339; empty when unknown."""

    def to_json(self) -> Json:
        """As Kubernetes writes a condition."""
        values = {"type": self.type, "status": self.status, "reason": self.reason, "message": self.message}
        return values | ({"lastTransitionTime": self.since} if self.since else {})


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """One role as it stands (8.1)."""

    name: str
    """Role name."""
    kind: str
    """Effective kind."""
    desired: int
    """Replicas the spec asks for now."""
    ready: int
    """Replicas whole by their own account, with every member Ready."""
    quota_reserved: int
    """Live replicas whose Workload holds quota."""
    unmanaged: bool
    """Whether its Pods run a command line of the user's own."""
    assigned_flavors: tuple[str, ...] = ()
    """Flavors that its accelerators were charged to, sorted."""
    parallelism: Json | None = None
    """Degrees that the current spec's arguments declare."""
    endpoints: Json | None = None
    """How many of its replicas are qualified and served; absent until that was looked at."""

    def to_json(self) -> Json:
        """In camelCase, without absent fields."""
        values: Json = {
            "name": self.name,
            "kind": self.kind,
            "desired": self.desired,
            "ready": self.ready,
            "quotaReserved": self.quota_reserved,
            "unmanaged": self.unmanaged,
        }
        if self.assigned_flavors:
            values["assignedFlavors"] = list(self.assigned_flavors)
        if self.parallelism is not None:
            values["parallelism"] = self.parallelism
        if self.endpoints is not None:
            values["endpoints"] = self.endpoints
        return values


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """What is known of a deployment (8)."""

    phase: Phase
    """Where it stands."""
    phase_message: str
    """Why, in a sentence; empty when Ready."""
    role_summary: str
    """Ready replicas by kind: `1R2P4D`."""
    roles: tuple[RoleStatus, ...]
    """Its roles, in spec order."""
    conditions: tuple[Condition, ...]
    """What could be judged, in a fixed order."""
    endpoint: str = ""
    """Where callers send requests; empty while there is nothing to call."""
    sections: tuple[tuple[str, Json], ...] = ()
    """`kvCache`, `router`, `model`, `retirement`, where there is something to say."""

    def condition(self, type_: ConditionType) -> Condition | None:
        """The condition of that type, or None when it could not be judged."""
        return next((c for c in self.conditions if c.type == type_), None)

    def to_json(self) -> Json:
        """In camelCase, without absent fields."""
        values: Json = {"phase": self.phase}
        if self.phase_message:
            values["phaseMessage"] = self.phase_message
        if self.endpoint:
            values["endpoint"] = self.endpoint
        values["roleSummary"] = self.role_summary
        values["roles"] = [role.to_json() for role in self.roles]
        values["conditions"] = [condition.to_json() for condition in self.conditions]
        return values | dict(self.sections)


def conditions_of(status: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """The conditions of an earlier status document in JSON; unreadable entries are left out."""
    read = each(status, "conditions") if status else []
    return tuple(
        Condition(
            entry["type"],
            entry["status"],
            str(entry.get("reason") or ""),
            str(entry.get("message") or ""),
            str(entry.get("lastTransitionTime") or ""),
        )
        for entry in read
        if isinstance(entry.get("type"), str) and entry.get("status") in ("True", "False", "Unknown")
    )


def dated(found: Sequence[Condition], previous: Sequence[Condition], now: str) -> tuple[Condition, ...]:
    """Conditions with the time since when their status holds: kept from before while it is the same, else `now`."""
    before = {condition.type: condition for condition in previous}
    return tuple(Condition(c.type, c.status, c.reason, c.message, _since(c, before.get(c.type), now)) for c in found)


def _since(condition: Condition, before: Condition | None, now: str) -> str:
    if condition.since:
        return condition.since
    return before.since if before is not None and before.status == condition.status and before.since else now
