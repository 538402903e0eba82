"""What a raw Pod or Workload says, read in one place for the planner and for the status: pure functions on plain JSON.

An absent or malformed value reads as "not so", never as an error: these objects come from a server to which others
write. Section numbers are of the rollout sheet.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import Json

_get: Callable[[Any, Any], Any] = cast("Any", dict).get


def at(value: Any, *path: str | int) -> Any:
    """The value below `path` in nested JSON, or None when any step of it is absent."""
    for step in path:
        if isinstance(value, dict):
            value = _get(value, step)
        elif isinstance(value, list) and isinstance(step, int):
            entries = cast("list[Any]", value)
            value = entries[step] if -len(entries) <= step < len(entries) else None
        elif isinstance(value, Mapping) and isinstance(step, str):
            value = cast("Mapping[str, Any]", value).get(step)
        else:
            return None
    return value


def each(value: Any, *path: str | int) -> list[Json]:
    """The mappings in the list below `path`; empty when there is no list."""
    entries = at(value, *path)
    if not isinstance(entries, list):
        return []
    found: list[Any] = [entry for entry in cast("list[Any]", entries) if isinstance(entry, dict | Mapping)]
    return found


def uid(obj: Json) -> str:
    """The object's uid, empty when absent."""
    return str(at(obj, "metadata", "uid") or "")


def name(obj: Json) -> str:
    """The object's name, empty when absent."""
    return str(at(obj, "metadata", "name") or "")


def label(obj: Json, key: str) -> str | None:
    """A label's value, or None."""
    value = at(obj, "metadata", "labels", key)
    return value if isinstance(value, str) else None


def annotation(obj: Json, key: str) -> str | None:
    """An annotation's value, or None."""
    value = at(obj, "metadata", "annotations", key)
    return value if isinstance(value, str) else None


def owner_uids(obj: Json, kind: str | None = None) -> frozenset[str]:
    """Uids of the object's owners, of one kind only when given."""
    owners = each(obj, "metadata", "ownerReferences")
    return frozenset(str(owner.get("uid")) for owner in owners if kind is None or owner.get("kind") == kind)


def terminating(obj: Json) -> bool:
    """Whether deletion was asked for."""
    return bool(at(obj, "metadata", "deletionTimestamp"))


def timestamp(time: datetime) -> str:
    """A moment as objects state it: RFC 3339 in UTC, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: object) -> datetime | None:
    """A moment as objects state it; None for anything else."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) and text else None
    except ValueError:
        return None


def deletion_asked(obj: Json) -> str:
    """When deletion was asked for, RFC 3339; empty when it was not. `deletionTimestamp` itself lies a grace later."""
    text = at(obj, "metadata", "deletionTimestamp")
    grace = at(obj, "metadata", "deletionGracePeriodSeconds")
    if not isinstance(text, str):
        return ""
    end = moment(text)
    try:
        asked = end and end - timedelta(seconds=grace if isinstance(grace, int) else 0)
    except OverflowError:
        asked = None
    return asked.isoformat().replace("+00:00", "Z") if asked else text


def whole_number(text: str | None) -> int | None:
    """A decimal number of at least 0 as labels carry it, or None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `status.conditions`."""

    status: str
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    """The reason's word."""
    message: str = ""
    """The reason in a sentence."""
    since: str = ""
    """When the status last changed, RFC 3339; empty when not said."""


def condition(obj: Json, type_: str) -> Condition | None:
    """A condition of the object, or None when it has none of that type."""
    for entry in each(obj, "status", "conditions"):
        if entry.get("type") == type_:
            reason, message = str(entry.get("reason") or ""), str(entry.get("message") or "")
            return Condition(str(entry.get("status")), reason, message, str(entry.get("lastTransitionTime") or ""))
    return None


def holds(obj: Json, type_: str) -> bool:
    """Whether a condition of the object is True."""
    found = condition(obj, type_)
    return found is not None and found.status == "True"


def role(pod: Json) -> str | None:
    """The role a Pod belongs to (1.1)."""
    return label(pod, keys.APP_COMPONENT)


def ordinal(pod: Json) -> int | None:
    """The replica a Pod belongs to; None when the label is absent, negative or not a number (1.1)."""
    return whole_number(label(pod, keys.POD_ORDINAL))


def member_index(pod: Json) -> int | None:
    """The Pod's seat in its replica: 0 when the label is absent, None when it cannot be read (1.1)."""
    text = label(pod, keys.MEMBER_INDEX)
    return 0 if text is None else whole_number(text)


def declared_total(pod: Json) -> int | None:
    """How many members the Pod's replica has by its own account: 1 when not said, None when unreadable (12)."""
    text = annotation(pod, keys.GROUP_TOTAL)
    if text is None:
        return 1
    total = whole_number(text)
    return total if total else None


def render_version(pod: Json) -> int:
    """The baseline the Pod was built by; 0 when absent or unreadable (2.2)."""
    return whole_number(annotation(pod, keys.RENDER_VERSION)) or 0


def fingerprint(pod: Json) -> str:
    """What the Pod was built from (2.1); empty when absent."""
    return annotation(pod, keys.POD_SPEC_HASH) or ""


def phase(pod: Json) -> str:
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    return str(at(pod, "status", "phase") or "Unknown")


def terminal(pod: Json) -> bool:
    """Whether every container has ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def gated(pod: Json) -> bool:
    """Whether Kueue still holds the Pod back from scheduling."""
    return any(gate.get("name") == keys.ADMISSION_GATE for gate in each(pod, "spec", "schedulingGates"))


def ready(pod: Json) -> bool:
    """Whether the Pod is Ready."""
    return holds(pod, "Ready")


def managed_by_kueue(pod: Json) -> bool:
    """Whether Kueue took the Pod in; without it the Pod runs outside any quota (kueue-facts 8)."""
    finalizers = at(pod, "metadata", "finalizers")
    return label(pod, keys.MANAGED) == "true" or (isinstance(finalizers, list) and keys.MANAGED in finalizers)


def restarts(pod: Json) -> int:
    """Restarts of all its containers, init containers included."""
    kinds = ("containerStatuses", "initContainerStatuses")
    counts = (entry.get("restartCount") for kind in kinds for entry in each(pod, "status", kind))
    return sum(count for count in counts if isinstance(count, int))


def main_container(pod: Json) -> Json | None:
    """The container that runs the engine, or None."""
    return next((c for c in each(pod, "spec", "containers") if c.get("name") == keys.MAIN_CONTAINER), None)


Mode = Literal["managed", "takeover", "unreadable"]
"""Who wrote the replica's command: this product, or the user with `command` (12)."""


def mode(members: Iterable[Json]) -> Mode:
    """The mode of a replica, read from its Pods (12)."""
    pods = list(members)
    if not pods or any(main_container(pod) is None for pod in pods):
        return "unreadable"
    annotated = {annotation(pod, keys.PROMETHEUS_PORT) is not None for pod in pods}
    if len(annotated) > 1:
        return "unreadable"
    return "managed" if True in annotated else "takeover"


@dataclass(frozen=True, slots=True)
class Shape:
    """How many members a replica has and should have, by its members' own declaration (12)."""

    state: Literal["complete", "short", "unreadable"]
    """Complete: every seat taken; short: fewer members than declared; unreadable: they contradict each other."""
    total: int | None
    """The declared total; None when unreadable."""


def shape(members: Sequence[Json]) -> Shape:
    """The deployed shape of the Pods of one ordinal, as the table of section 12 judges them."""
    unreadable = Shape("unreadable", None)
    totals = {declared_total(pod) for pod in members}
    if len(totals) != 1:
        return unreadable
    total = totals.pop()
    if total is None:
        return unreadable
    seated = [label(pod, keys.MEMBER_INDEX) is not None for pod in members]
    if not all(seated) and not (total == 1 and len(members) == 1):
        return unreadable
    seats = [member_index(pod) for pod in members]
    if any(seat is None or seat >= total for seat in seats) or len(set(seats)) != len(seats):
        return unreadable
    return Shape("complete" if len(seats) == total else "short", total)


def admitted(workload: Json) -> bool:
    """Whether a Workload's quota is held and its Pods may run: Admitted=True and not Evicted."""
    return holds(workload, "Admitted") and not holds(workload, "Evicted")


def quota_reserved(workload: Json) -> bool:
    """Whether a Workload holds quota."""
    return holds(workload, "QuotaReserved")


def evicted(workload: Json) -> bool:
    """Whether Kueue has evicted the Workload."""
    return holds(workload, "Evicted")


def preempted(workload: Json) -> bool:
    """Preempted=True, or Evicted=True for the reason Preempted (8.2)."""
    eviction = condition(workload, "Evicted")
    by_eviction = eviction is not None and eviction.status == "True" and eviction.reason == "Preempted"
    return holds(workload, "Preempted") or by_eviction


def active(workload: Json) -> bool:
    """Whether Kueue considers the Workload at all: `spec.active`, true when absent."""
    return at(workload, "spec", "active") is not False


def waiting_reason(workload: Json) -> str:
    """Kueue's own sentence for why a Workload is not admitted; empty when it says none."""
    if holds(workload, "Admitted"):
        return ""
    checks = each(workload, "status", "admissionChecks")
    held = [f"{check.get('name')}: {check.get('message') or check.get('state')}" for check in checks]
    if quota_reserved(workload):
        return "; ".join(line for check, line in zip(checks, held, strict=True) if check.get("state") != "Ready")
    found = condition(workload, "QuotaReserved")
    return found.message if found is not None else ""


def never_fits(workload: Json) -> bool:
    """Whether Kueue says that the queue can never give what is asked, however long one waits (kueue-facts 1)."""
    return "maximum capacity" in waiting_reason(workload)


def pod_set_flavors(workload: Json, pod_set: str) -> dict[str, str]:
    """The flavor assigned per resource name to one PodSet."""
    for assignment in each(workload, "status", "admission", "podSetAssignments"):
        if assignment.get("name") == pod_set:
            flavors = at(assignment, "flavors")
            if isinstance(flavors, Mapping):
                return {str(key): str(value) for key, value in cast("Mapping[str, Any]", flavors).items()}
    return {}
