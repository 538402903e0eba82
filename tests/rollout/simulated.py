"""A cluster in memory that behaves as kueue-facts.md says Kueue 0.17, the kubelet and the garbage collector do.

It implements the `Cluster` protocol, so the real executor runs on it. Nothing happens by itself: each `tick` lets one
controller, chosen by the given chance, take one step, so that any interleaving can be had and repeated.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    CONFIG_MAP,
    LEASE,
    LOCAL_QUEUE,
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
from gpustack_components.cluster.readings import at, each, gated, holds, label, name, terminal, terminating, uid
from gpustack_components.cluster.weight_objects import Named
from gpustack_components.rollout.view import Snapshot, selector

KINDS = {kind.kind: kind for kind in (POD, WORKLOAD, CONFIG_MAP, SERVICE, LEASE)}


class Killed(BaseException):
    """The driver's process died."""


class SimulatedClock:
    """Time that only passes when something waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class SimulatedCluster:
    """API server, Kueue, scheduler, kubelets and garbage collector of one namespace."""

    def __init__(self, clock: SimulatedClock, quota: int) -> None:
        self.clock = clock
        self.quota = quota
        """Pods that may hold quota at once."""
        self.objects: dict[tuple[str, str], Json] = {}
        self.version = 0
        self.calls: Counter[str] = Counter()
        self.excess = 0
        """Pods Kueue deleted as excess."""
        self.dies_after: int | None = None
        """Calls until the driver's process dies; None: it does not."""
        self.before_write: Callable[[str, Json], None] = lambda verb, obj: None
        self.exit_code: Callable[[Json], int] = lambda pod: 0
        self.stays: Callable[[Json], bool] = lambda pod: False
        """Whether a terminating Pod does not exit for now."""

    # The `Cluster` protocol.

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self._called("get")
        if kind.kind in ("Namespace", "LocalQueue", "ClusterQueue"):
            return {"metadata": {"name": name}, "spec": {"clusterQueue": "all"} if kind is LOCAL_QUEUE else {}}
        return _copy(self.objects.get((kind.kind, name)))

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        self._called("list")
        terms = [term.split("=") for term in selector.split(",") if term]
        found = [
            _copy(obj)
            for (of, _), obj in sorted(self.objects.items())
            if of == kind.kind and all(label(obj, key) == value for key, value in terms)
        ]
        return Listing(tuple(found), str(self.version))

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        self._called("create")
        obj = _copy(obj)
        metadata = obj["metadata"]
        self.version += 1
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self.version:05d}"
        key = (obj["kind"], metadata["name"])
        metadata["uid"] = f"uid-{self.version}"
        metadata["creationTimestamp"] = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["resourceVersion"] = str(self.version)
        if dry_run:
            metadata.setdefault("labels", {})[keys.MANAGED] = "true"
            return obj
        if key in self.objects:
            raise AlreadyExists(f"{key} exists already")
        if obj["kind"] == "Pod":
            metadata.setdefault("finalizers", []).append(keys.MANAGED)
            metadata["labels"][keys.MANAGED] = "true"
            obj["spec"]["schedulingGates"] = [{"name": keys.ADMISSION_GATE}]
            obj["status"] = {"phase": "Pending"}
        self.before_write("create", obj)
        self.objects[key] = obj
        self._served()
        return _copy(obj)

    def replace(self, obj: Json) -> Json:
        self._called("replace")
        standing = self.objects.get((obj["kind"], name(obj)))
        if standing is None or at(standing, "metadata", "resourceVersion") != at(obj, "metadata", "resourceVersion"):
            raise Conflict("somebody else wrote it")
        self.before_write("replace", obj)
        stored = _copy(obj)
        stored["metadata"]["uid"] = uid(standing)
        self.objects[obj["kind"], name(obj)] = stored
        self._touch(stored)
        self._served()
        return _copy(stored)

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
    ) -> Json | None:
        self._called("patch")
        obj = self.objects.get((kind.kind, name))
        if obj is None:
            return None
        for operation in operations:
            parts = (part.replace("~1", "/") for part in operation["path"].removeprefix("/").split("/"))
            path = [int(part) if part.isdigit() else part for part in parts]
            if operation["op"] == "test" and at(obj, *path) != operation["value"]:
                raise Conflict("a condition no longer holds")
            if operation["op"] == "remove":
                del at(obj, *path[:-1])[path[-1]]
            if operation["op"] == "add":
                at(obj, *path[:-1])[path[-1]] = operation["value"]
        self._touch(obj)
        self._reap(obj)
        self._served()
        return _copy(obj)

    def apply(self, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Json:
        raise AssertionError("the rollout applies nothing")

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        self._called("delete")
        obj = self.objects.get((kind.kind, name))
        if obj is None or uid not in (None, obj["metadata"]["uid"]):
            return False
        self.before_write("delete", obj)
        self._delete(obj)
        self._served()
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
        raise AssertionError("tests look through a SimulatedView")

    def may(self, verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> bool:
        return True

    def server_version(self) -> tuple[int, int]:
        return (1, 35)

    def _called(self, verb: str) -> None:
        self.calls[verb] += 1
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Killed

    def _served(self) -> None:
        """The request is done; the process may die before it learns of it."""
        if self.dies_after is not None and self.dies_after == 0:
            raise Killed

    # What stands.

    def pods(self, group: str | None = None) -> list[Json]:
        """Pods, of one group if given, oldest first."""
        found = [obj for (kind, _), obj in self.objects.items() if kind == "Pod"]
        found = [pod for pod in found if group is None or label(pod, keys.GROUP_NAME) == group]
        return sorted(found, key=lambda pod: int(uid(pod).removeprefix("uid-")))

    def workloads(self) -> list[Json]:
        """Workloads by name."""
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "Workload"]

    def _touch(self, obj: Json) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)

    def _delete(self, obj: Json) -> None:
        if not terminating(obj):
            obj["metadata"]["deletionTimestamp"] = self.clock.now().isoformat()
            self._touch(obj)
        self._reap(obj)

    def _reap(self, obj: Json) -> None:
        """Remove a deleted object that nothing holds any more."""
        held = at(obj, "metadata", "finalizers") or (obj["kind"] == "Pod" and _runs(obj))
        if terminating(obj) and not held:
            self.objects.pop((obj["kind"], name(obj)), None)
            self._touch(obj)

    def _release(self, obj: Json, finalizer: str) -> None:
        finalizers = at(obj, "metadata", "finalizers") or []
        if finalizer in finalizers:
            finalizers.remove(finalizer)
            self._touch(obj)
            self._reap(obj)

    # Controllers: each returns whether it found something to do.

    def tick(self, chance: Random) -> bool:
        """One step of one controller that has something to do; False when none has."""
        steps = [self._kueue, self._admit, self._kubelets, self._collect]
        chance.shuffle(steps)
        return any(step(chance) for step in steps)

    def settle(self, chance: Random) -> None:
        """Tick until nothing moves."""
        for _ in range(2000):
            if not self.tick(chance):
                return
        raise AssertionError("the simulated cluster does not come to rest")

    def _kueue(self, chance: Random) -> bool:
        groups = sorted(
            {label(pod, keys.GROUP_NAME) or "" for pod in self.pods()} | {name(w) for w in self.workloads()}
        )
        chance.shuffle(groups)
        return any(self._reconcile(group) for group in groups)

    def _reconcile(self, group: str) -> bool:
        pods, workload = self.pods(group), self.objects.get(("Workload", group))
        present = [pod for pod in pods if _present(pod)]
        if workload is None:
            return self._without_workload(group, pods, present)
        if terminating(workload):
            for pod in pods:
                self._delete(pod)
                self._release(pod, keys.MANAGED)
            self._release(workload, keys.WORKLOAD_FINALIZER)
            return True
        if not pods:
            if keys.WORKLOAD_FINALIZER in at(workload, "metadata", "finalizers"):
                self._release(workload, keys.WORKLOAD_FINALIZER)
                return True
            return False
        if holds(workload, "Evicted"):
            return self._evict(workload, pods)
        count = at(workload, "spec", "podSets", 0, "count")
        if len(present) > count:
            newest = sorted(present, key=lambda pod: (not gated(pod), -int(uid(pod).removeprefix("uid-"))))[0]
            self.excess += 1
            self._release(newest, keys.MANAGED)
            self._delete(newest)
            return True
        owners = {owner["uid"] for owner in each(workload, "metadata", "ownerReferences")}
        for pod in present:
            if uid(pod) not in owners:
                workload["metadata"]["ownerReferences"].append(_owner(pod))
                self._touch(workload)
                return True
        dead = [pod for pod in pods if not _present(pod) and keys.MANAGED in at(pod, "metadata", "finalizers")]
        if dead and len(present) == count:
            self._release(dead[0], keys.MANAGED)
            return True
        if holds(workload, "Admitted"):
            for pod in present:
                if gated(pod):
                    pod["spec"]["schedulingGates"] = []
                    self._touch(pod)
                    return True
        return False

    def _without_workload(self, group: str, pods: list[Json], present: list[Json]) -> bool:
        for pod in pods:
            if not _present(pod) and keys.MANAGED in at(pod, "metadata", "finalizers"):
                self._release(pod, keys.MANAGED)
                return True
        if not present or any(at(pod, "status", "phase") == "Running" for pod in pods):
            return False
        total = int(at(present[0], "metadata", "annotations", keys.GROUP_TOTAL))
        if len(present) < total:
            return False
        self.version += 1
        self.objects["Workload", group] = {
            "apiVersion": WORKLOAD.api_version,
            "kind": "Workload",
            "metadata": {
                "name": group,
                "uid": f"uid-{self.version}",
                "resourceVersion": str(self.version),
                "finalizers": [keys.WORKLOAD_FINALIZER],
                "ownerReferences": [_owner(pod) for pod in present[:total]],
            },
            "spec": {
                "queueName": label(present[0], keys.QUEUE_NAME),
                "active": True,
                "podSets": [{"name": "main", "count": total, "template": {"spec": _copy(present[0]["spec"])}}],
            },
            "status": {"conditions": []},
        }
        return True

    def _evict(self, workload: Json, pods: list[Json]) -> bool:
        for pod in pods:
            if not terminating(pod) and not gated(pod):
                self._delete(pod)
                return True
        if holds(workload, "QuotaReserved") and not any(at(pod, "status", "phase") == "Running" for pod in pods):
            _set(workload, "QuotaReserved", "False", "preempted")
            _set(workload, "Admitted", "False", "preempted")
            _set(workload, "Evicted", "False", "Previously: preempted")
            _set(workload, "Requeued", "True", "Preempted")
            self._touch(workload)
            return True
        return False

    def _admit(self, chance: Random) -> bool:
        workloads = self.workloads()
        used = sum(at(w, "spec", "podSets", 0, "count") for w in workloads if holds(w, "QuotaReserved"))
        chance.shuffle(workloads)
        for workload in workloads:
            if holds(workload, "QuotaReserved") or terminating(workload) or not at(workload, "spec", "active"):
                continue
            count = at(workload, "spec", "podSets", 0, "count")
            if used + count <= self.quota:
                _set(workload, "QuotaReserved", "True", "reserved")
                _set(workload, "Admitted", "True", "admitted")
                self._touch(workload)
                return True
            message = f"insufficient unused quota, {used + count - self.quota} more needed"
            if _set(workload, "QuotaReserved", "False", message):
                self._touch(workload)
                return True
        return False

    def _kubelets(self, chance: Random) -> bool:
        pods = self.pods()
        chance.shuffle(pods)
        for pod in pods:
            if terminating(pod) and _runs(pod):
                if self.stays(pod):
                    continue
                pod["status"]["phase"] = "Failed" if self.exit_code(pod) else "Succeeded"
                self._touch(pod)
                return True
            if terminating(pod) and not at(pod, "metadata", "finalizers"):
                self._reap(pod)
                return True
            if not terminating(pod) and not gated(pod) and at(pod, "status", "phase") == "Pending":
                pod["spec"]["nodeName"] = "node"
                conditions = [{"type": "Ready", "status": "True"}]
                pod["status"] = {"phase": "Running", "conditions": conditions, "containerStatuses": [{"name": "main"}]}
                self._touch(pod)
                return True
        return False

    def _collect(self, chance: Random) -> bool:
        alive = {uid(obj) for obj in self.objects.values()}
        for obj in list(self.objects.values()):
            owners = {owner["uid"] for owner in each(obj, "metadata", "ownerReferences")}
            if owners and not owners & alive and not terminating(obj):
                self._delete(obj)
                return True
            if obj["kind"] == "Workload" and owners - alive and owners & alive:
                obj["metadata"]["ownerReferences"] = [
                    owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] in alive
                ]
                self._touch(obj)
                return True
        return False

    # Misfortunes.

    def preempt(self, workload: Json) -> None:
        """Kueue evicts it for a more important one."""
        for kind in ("Evicted", "Preempted"):
            _set(workload, kind, "True", "Preempted to accommodate a workload")
        self._touch(workload)

    def fail(self, pod: Json) -> None:
        """The kubelet ends the Pod by itself."""
        pod["status"] = {"phase": "Failed", "reason": "Evicted"}
        self._touch(pod)

    def lose(self, pod: Json) -> None:
        """Somebody deletes the Pod."""
        self._delete(pod)


def _copy(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))


def _owner(pod: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod)}


def _runs(pod: Json) -> bool:
    return bool(at(pod, "spec", "nodeName")) and not terminal(pod)


def _present(pod: Json) -> bool:
    """Whether Kueue counts it (kueue-facts 0, rule 1)."""
    if at(pod, "status", "phase") == "Failed":
        return False
    return bool(at(pod, "spec", "nodeName")) or not terminating(pod)


def _set(workload: Json, kind: str, status: str, message: str) -> bool:
    conditions: list[Json] = workload["status"]["conditions"]
    wanted = {"type": kind, "status": status, "reason": kind, "message": message}
    if wanted in conditions:
        return False
    conditions[:] = [condition for condition in conditions if condition["type"] != kind]
    conditions.append(wanted)
    return True


class SimulatedView:
    """How the executor looks at a simulated cluster; waiting lets the cluster move."""

    trouble = None

    def __init__(self, cluster: SimulatedCluster, namespace: str, deployment: str, chance: Random) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector(deployment)
        self._chance = chance
        self._known = Snapshot((), ())
        self._shown = -1
        self._copies: dict[str, tuple[str, Json]] = {}
        self.meanwhile: Callable[[], None] = lambda: None
        """Called in every wait: what else happens."""
        self.after_look: Callable[[Snapshot], None] = lambda known: None
        """Called after every look that asks nothing: what the driver does not know of yet."""

    def fresh(self) -> Snapshot:
        pods = self._cluster.list(POD, self._namespace, self._selector).items
        self._known = Snapshot(pods, self._cluster.list(WORKLOAD, self._namespace).items)
        return self._known

    def snapshot(self) -> Snapshot:
        self.after_look(self._known)
        return self._known

    def note(self, obj: Json) -> None:
        others = (pod for pod in self._known.pods if uid(pod) != uid(obj))
        self._known = Snapshot((*others, obj), self._known.workloads)

    def wait(self, seconds: float) -> None:
        self.meanwhile()
        moved = [self._cluster.tick(self._chance) for _ in range(self._chance.randrange(1, 8))]
        stale = self._shown != self._cluster.version
        if not any(moved) and not stale:
            self._cluster.clock.sleep(seconds)
            return
        self._cluster.clock.sleep(0.1)
        if not any(moved) or self._chance.random() < 0.8:
            self._shown = self._cluster.version
            pods = tuple(map(self._seen, filter(_labelled, self._cluster.pods())))
            self._known = Snapshot(pods, tuple(map(self._seen, self._cluster.workloads())))

    def _seen(self, obj: Json) -> Json:
        """A copy of the object; the same one as long as it has not changed."""
        version, copied = self._copies.get(uid(obj), ("", {}))
        if version != obj["metadata"]["resourceVersion"]:
            copied = _copy(obj)
            self._copies[uid(obj)] = (obj["metadata"]["resourceVersion"], copied)
        return copied

    def attend(self, objects: tuple[Named, ...]) -> tuple[Named, ...]:
        return objects

    @property
    def attended(self) -> int:
        return self._cluster.version

    def close(self) -> None:
        pass


def _labelled(pod: Json) -> bool:
    return label(pod, keys.APP_NAME) == keys.APP_NAME_VALUE
