"""What an API server does with the objects of one namespace: uids, versions, preconditions, finalizers, deletion.

Stored JSON is never changed in place: a write stores another object, so what was read stays as it was read, and reading
needs no copies.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from gpustack_components.cluster.port import (
    CONFIG_MAP,
    LEASE,
    POD,
    SERVICE,
    WORKLOAD,
    AlreadyExists,
    Conflict,
    Event,
    Json,
    Kind,
    Listing,
    Stop,
)
from gpustack_components.cluster.readings import at, holds, name, terminal, terminating, uid
from tests.rollout.simulation.clock import SimulatedClock

KINDS = {kind.kind: kind for kind in (POD, WORKLOAD, CONFIG_MAP, SERVICE, LEASE)}
_GRACE = 30


class ApiServer:
    """One namespace behind the `Cluster` protocol."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str], Json] = {}
        """What stands, by kind and name."""
        self.version = 0
        """Of the latest write."""
        self.calls: Counter[str] = Counter()
        """Requests so far, by verb."""

    # The `Cluster` protocol.

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self.calls["get"] += 1
        if kind.kind in ("Namespace", "LocalQueue", "ClusterQueue"):
            return {"metadata": {"name": name}, "spec": {"clusterQueue": "all"} if kind.kind == "LocalQueue" else {}}
        return self.objects.get((kind.kind, name))

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        self.calls["list"] += 1
        terms = [term for term in selector.split(",") if term]
        found = [
            obj
            for (of, _), obj in sorted(self.objects.items())
            if of == kind.kind and all(_selects(term, obj["metadata"].get("labels") or {}) for term in terms)
        ]
        return Listing(tuple(found), str(self.version))

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        self.calls["create"] += 1
        metadata = {**obj["metadata"]}
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self.version + 1:05d}"
        metadata["uid"] = f"uid-{self.version + 1}"
        metadata["creationTimestamp"] = self._now()
        metadata["resourceVersion"] = str(self.version + 1)
        created = self.admit_object({**obj, "metadata": metadata})
        if dry_run:
            self.version += 1
            return self.admit_object(created)
        if (obj["kind"], metadata["name"]) in self.objects:
            raise AlreadyExists(f"{obj['kind']} {metadata['name']} exists already")
        return self.store(created)

    def outdated(self, obj: Json) -> bool:
        """Whether somebody else has written or removed it since it was read."""
        version = at(self.objects.get((obj["kind"], name(obj))), "metadata", "resourceVersion")
        return version is None or version != at(obj, "metadata", "resourceVersion")

    def replace(self, obj: Json) -> Json:
        self.calls["replace"] += 1
        if self.outdated(obj):
            raise Conflict(f"somebody else wrote {obj['kind']} {name(obj)}")
        metadata = {**obj["metadata"], "uid": uid(self.objects[obj["kind"], name(obj)])}
        if obj["kind"] == LEASE.kind:
            metadata["managedFields"] = [{"time": self._now()}]
        return self.store({**obj, "metadata": metadata})

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
    ) -> Json | None:
        self.calls["patch"] += 1
        standing = self.objects.get((kind.kind, name))
        if standing is None:
            return None
        obj = pickle.loads(pickle.dumps(standing))
        for operation in operations:
            _patched(obj, operation)
        return self.store(obj)

    def apply(self, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Json:
        raise AssertionError("the rollout applies nothing")

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        self.calls["delete"] += 1
        obj = self.objects.get((kind.kind, name))
        if obj is None or uid not in (None, obj["metadata"]["uid"]):
            return False
        self.ask_deletion(obj, grace_seconds)
        return True

    def watch(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        *,
        field_selector: str = "",
        resource_version: str,
        stop: Stop,
    ) -> Iterator[Event]:
        raise AssertionError("tests look through a view of the simulation")

    def may(self, verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> bool:
        return True

    def server_version(self) -> tuple[int, int]:
        return (1, 35)

    # What controllers and tests do to stored objects.

    def admit_object(self, obj: Json) -> Json:
        """What admission webhooks make of a new object."""
        return obj

    def changed(self, obj: Json) -> None:
        """Called after every write with the object as it now stands, or last stood."""

    def current(self, obj: Json) -> Json | None:
        """The same object as it stands now, or None when it is gone."""
        standing = self.objects.get((obj["kind"], name(obj)))
        return standing if standing is not None and uid(standing) == uid(obj) else None

    def store(self, obj: Json) -> Json:
        """Write an object; one that is deleted and that nothing holds any more goes instead."""
        self.version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        key = (stored["kind"], stored["metadata"]["name"])
        if _held(stored):
            self.objects[key] = stored
        else:
            self.objects.pop(key, None)
        self.changed(stored)
        return stored

    def update(self, obj: Json, **changes: Mapping[str, Any]) -> Json:
        """Write an object with some entries of its `metadata`, `spec` or `status` replaced."""
        return self.store({**obj, **{part: {**(obj.get(part) or {}), **entries} for part, entries in changes.items()}})

    def ask_deletion(self, obj: Json, grace_seconds: int | None = None) -> None:
        """Delete an object: at once, or, where something holds it, as soon as that lets go."""
        if terminating(obj) and grace_seconds != 0:
            return
        grace = 0
        if obj["kind"] == "Pod" and obj["spec"].get("nodeName") and grace_seconds is None:
            grace = 0 if terminal(obj) else obj["spec"].get("terminationGracePeriodSeconds", _GRACE)
        moment = (self.clock.now() + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        deleted = {"deletionTimestamp": moment, "deletionGracePeriodSeconds": grace}
        if obj["kind"] == "Pod" and not terminating(obj):
            obj = self.update(obj, metadata={**deleted, "deletionGracePeriodSeconds": _GRACE})
        self.update(obj, metadata=deleted)

    def release(self, obj: Json, finalizer: str) -> None:
        """Take a finalizer off."""
        left = [one for one in obj["metadata"].get("finalizers", ()) if one != finalizer]
        self.update(obj, metadata={"finalizers": left})

    def set_condition(self, obj: Json, kind: str, status: str, reason: str, message: str) -> Json:
        """Write a condition, unless it says that already."""
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        before = obj["status"].get("conditions", [])
        if condition in before:
            return obj
        others = [one for one in before if one["type"] != kind]
        return self.update(obj, status={"conditions": [*others, condition]})

    # What stands.

    def pods(self, group: str | None = None) -> list[Json]:
        """Pods, of one Kueue group if given, oldest first."""
        found = [obj for (kind, _), obj in self.objects.items() if kind == "Pod"]
        if group is not None:
            found = [pod for pod in found if group_of(pod) == group]
        return sorted(found, key=age)

    def workloads(self) -> list[Json]:
        """Workloads by name."""
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "Workload"]

    def _now(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def group_of(pod: Json) -> str:
    """The Kueue group a Pod names; empty when it names none."""
    return str(pod["metadata"]["labels"].get("kueue.x-k8s.io/pod-group-name") or "")


def age(obj: Json) -> int:
    """Sorts objects by their creation, oldest first."""
    return int(uid(obj).removeprefix("uid-"))


def reserved(workload: Json) -> bool:
    """Whether a Workload holds quota."""
    return holds(workload, "QuotaReserved")


def _selects(term: str, labels: Mapping[str, str]) -> bool:
    """Whether one term of a label selector, `key=value` or `!key`, selects an object with these labels."""
    key, _, value = term.partition("=")
    return key[1:] not in labels if key.startswith("!") else labels.get(key) == value


def _held(obj: Json) -> bool:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return True
    return obj["kind"] == "Pod" and bool(metadata.get("deletionGracePeriodSeconds"))


def _patched(obj: Json, operation: Mapping[str, Any]) -> None:
    """Apply one operation of a JSON patch in place."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].strip("/").split("/")]
    *path, last = [int(part) if part.isdigit() else part for part in parts]
    target = at(obj, *path)
    match operation["op"]:
        case "test":
            if at(target, last) != operation["value"]:
                raise Conflict(f"{operation['path']} no longer says {operation['value']}")
        case "remove":
            if target is None or at(target, last) is None:
                raise Conflict(f"{operation['path']} is not there")
            del target[last]
        case "add" | "replace":
            target[last] = operation["value"]
        case other:
            raise AssertionError(f"the simulation knows no patch operation {other}")
