"""What survives in the cluster: one ConfigMap per deployment, the record, which owns its Pods and headless Services.

A run that was killed anywhere resumes from it alone. It holds no rendered Pods, so its size does not grow with
replicas, and no secret, since a document only refers to Secrets.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from gpustack_components.api import names
from gpustack_components.bindings.kv_cache import Store
from gpustack_components.cluster import keys
from gpustack_components.cluster.port import CONFIG_MAP, Cluster, Conflict, Json
from gpustack_components.cluster.readings import annotation, at, label, name, timestamp, uid
from gpustack_components.rollout.contract import Phase, RolloutRefused
from gpustack_components.rollout.retirement.operation import Operation, operation_from_json
from gpustack_components.rollout.slots import Slot, slots_from_json, slots_to_json
from gpustack_components.rollout.turnovers import Turnover, turnovers_from_json, turnovers_to_json

MAX_BYTES = 900_000
"""Largest document a record takes; a ConfigMap holds 1 MiB in all."""

_DOCUMENT, _STATE, _STATUS = "document", "state", "status"
_PHASES = ("Converged", "Progressing", "Incomplete", "Deleting")


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one deployment, as last read or written."""

    namespace: str
    name: str
    """The deployment's name; the ConfigMap is named after it."""
    owner: str
    """Who the deployment belongs to; empty when it is free to be taken over."""
    document: Json
    """The accepted, defaulted ModelDeployment."""
    generation: int = 1
    """Raised by one with every edit of the document."""
    phase: Phase = "Progressing"
    """How the last run ended, or that one is at work (or was killed)."""
    reasons: tuple[str, ...] = ()
    """Why it is Incomplete, for people."""
    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    """The remembered replacement of each role that has one."""
    render_version: int = 0
    """The baseline its newest Pods were rendered by."""
    store: Store | None = None
    """The KV cache store last rendered, which is rendered on while its Binding is away; None without one."""
    status: Json = field(default_factory=dict[str, Any])
    """The status document (sheet 8) when it was last written."""
    turnovers: dict[str, tuple[Turnover, ...]] = field(default_factory=dict[str, tuple[Turnover, ...]])
    """How long the last turnovers of each role took."""
    retirement: Operation | None = None
    """The replica that is on its way out by the retirement protocol (sheet 7.2)."""
    updated: str = ""
    """When it was last written, RFC 3339 in UTC."""
    uid: str = ""
    """The ConfigMap's uid: what Pods name as their owner. Empty before it is created."""
    resource_version: str = ""
    """The ConfigMap's version, the condition of the next write."""

    def says_the_same(self, other: "Record") -> bool:
        """Whether writing `other` over this one would change nothing but the time and what was merely observed."""
        aside: dict[str, Any] = {"updated": "", "uid": "", "resource_version": "", "status": {}, "turnovers": {}}
        return replace(other, **aside) == replace(self, **aside)

    @property
    def owner_reference(self) -> Json:
        """What a Pod or headless Service carries so that it belongs to this record."""
        return {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "name": record_name(self.name),
            "uid": self.uid,
            "controller": False,
            "blockOwnerDeletion": False,
        }

    def to_object(self) -> Json:
        """The ConfigMap."""
        metadata: Json = {
            "name": record_name(self.name),
            "namespace": self.namespace,
            "labels": {
                keys.APP_NAME: keys.APP_NAME_VALUE,
                keys.APP_INSTANCE: self.name,
                keys.MANAGED_BY: keys.FIELD_MANAGER,
            },
            "annotations": {keys.OWNER: self.owner, keys.DESCRIPTION: _description(self.name)},
        }
        if self.resource_version:
            metadata |= {"uid": self.uid, "resourceVersion": self.resource_version}
        state = {
            "generation": self.generation,
            "phase": self.phase,
            "reasons": list(self.reasons),
            "slots": slots_to_json(self.slots),
            "renderVersion": self.render_version,
            "store": self.store.to_json() if self.store is not None else None,
            "turnovers": turnovers_to_json(self.turnovers),
            "retirement": self.retirement.to_json() if self.retirement is not None else None,
            "updated": self.updated,
        }
        return {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": metadata,
            "data": {
                _DOCUMENT: json.dumps(self.document, sort_keys=True, ensure_ascii=False),
                _STATE: json.dumps(state, indent=1, sort_keys=True, ensure_ascii=False),
                _STATUS: json.dumps(self.status, indent=1, ensure_ascii=False),
            },
        }

    @classmethod
    def from_object(cls, obj: Json) -> "Record":
        """Read the ConfigMap. State that cannot be read is read as no slots and an incomplete run (sheet 4.7), so that
        the next run looks at everything again."""
        state = _json(at(obj, "data", _STATE))
        phase = state.get("phase")
        try:
            slots = slots_from_json(state.get("slots"))
        except ValueError:
            slots, phase = {}, "Incomplete"
        return cls(
            namespace=str(at(obj, "metadata", "namespace") or ""),
            name=label(obj, keys.APP_INSTANCE) or name(obj).removesuffix(record_name("")),
            owner=annotation(obj, keys.OWNER) or "",
            document=_json(at(obj, "data", _DOCUMENT)),
            generation=_count(state.get("generation")),
            phase=cast("Phase", phase) if phase in _PHASES else "Incomplete",
            reasons=tuple(map(str, state.get("reasons") or ())),
            slots=slots,
            render_version=_count(state.get("renderVersion")),
            store=_store(state.get("store")),
            status=_json(at(obj, "data", _STATUS)),
            turnovers=turnovers_from_json(state.get("turnovers")),
            retirement=operation_from_json(state.get("retirement")),
            updated=str(state.get("updated") or ""),
            uid=uid(obj),
            resource_version=str(at(obj, "metadata", "resourceVersion") or ""),
        )


def _description(deployment: str) -> str:
    return (
        f"What gpustack-components remembers of ModelDeployment {deployment}, and the owner of its Pods: deleting it "
        "deletes them."
    )


def record_name(deployment: str) -> str:
    """The name of a deployment's record and of its Lease."""
    return names.record_name(deployment)


def is_record(obj: Json) -> bool:
    """Whether a ConfigMap is a record of this product rather than somebody else's object of that name."""
    return label(obj, keys.MANAGED_BY) == keys.FIELD_MANAGER and label(obj, keys.APP_NAME) == keys.APP_NAME_VALUE


def load(cluster: Cluster, namespace: str, deployment: str) -> Record | None:
    """The deployment's record, or None. Raises `RolloutRefused` when another object stands on its name."""
    obj = cluster.get(CONFIG_MAP, namespace, record_name(deployment))
    if obj is None:
        return None
    if not is_record(obj):
        raise RolloutRefused(
            f"ConfigMap {namespace}/{record_name(deployment)} exists and is no record of this product, so {deployment} "
            "cannot keep its record there: rename the deployment, or remove that ConfigMap if nothing needs it."
        )
    return Record.from_object(obj)


def check_owner(record: Record, owner: str, adopt: frozenset[str] = frozenset()) -> None:
    """Raise `RolloutRefused` unless the record is free, this owner's, or one it may take over."""
    if record.owner in ("", owner) or record.owner in adopt:
        return
    raise RolloutRefused(
        f"{record.namespace}/{record.name} belongs to {record.owner}, not to {owner}: change it from there, destroy it "
        f"there first, or rename this one. To move it here, let this one adopt {record.owner!r}."
    )


def check_size(document: Json) -> None:
    """Raise `RolloutRefused` when a document is too large to be remembered."""
    size = len(json.dumps(document, ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise RolloutRefused(
            f"the ModelDeployment is {size:,} bytes as JSON and its record holds at most {MAX_BYTES:,}: move long "
            "values out of env and extraArgs, for example into a ConfigMap that additionalVolumes mounts."
        )


def save(cluster: Cluster, record: Record, now: datetime) -> Record:
    """Create or replace the ConfigMap on the condition that nobody else wrote it since; the record as stored.

    Raises `Conflict` when somebody did, and `AlreadyExists` when it should have been new.
    """
    stamped = replace(record, updated=timestamp(now))
    obj = stamped.to_object()
    stored = cluster.replace(obj) if record.resource_version else cluster.create(obj)
    return replace(stamped, uid=uid(stored), resource_version=str(at(stored, "metadata", "resourceVersion") or ""))


def rebase(cluster: Cluster, mine: Record) -> Record:
    """After a conflict: `mine` on top of the stored version, when the stored one says what was last written or read
    here.

    Raises `Conflict` with a sentence when somebody else changed what it says, or deleted it.
    """
    obj = cluster.get(CONFIG_MAP, mine.namespace, record_name(mine.name))
    place = f"{mine.namespace}/{record_name(mine.name)}"
    if obj is None or uid(obj) != mine.uid:
        raise Conflict(f"the record, ConfigMap {place}, was deleted while this run was at work")
    stored = Record.from_object(obj)
    if not mine.says_the_same(stored):
        raise Conflict(f"somebody else wrote the record, ConfigMap {place}, while this run was at work")
    return stored


def _json(text: Any) -> dict[str, Any]:
    try:
        value: Any = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _store(value: Any) -> Store | None:
    """A store that cannot be read is none: then the Binding alone decides, as for a new deployment."""
    try:
        return Store.from_json(value) if value is not None else None
    except (KeyError, TypeError):
        return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
