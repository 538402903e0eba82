"""What a namespace showed, moment by moment: watches of Pods and Workloads, folded into who was admitted when."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import POD, WORKLOAD, Cluster, Expired, Kind

Seat = tuple[str, int, int]
"""Role, ordinal and member index of a Pod."""


@dataclass(frozen=True)
class Moment:
    """The namespace after one change."""

    admitted: frozenset[tuple[str, int]]
    """Replicas whose every live member belongs to a Workload that is admitted and not evicted."""
    live: dict[Seat, frozenset[str]]
    """UIDs of the Pods on each seat that are not being deleted."""
    images: dict[tuple[str, int], frozenset[str]]
    """Images of the live Pods of each replica."""


def _true(workload: dict[str, Any], condition: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def moment(pods: dict[str, dict[str, Any]], workloads: dict[str, dict[str, Any]]) -> Moment:
    """Fold the objects that stand now, by UID."""
    owners: set[str] = set()
    for workload in workloads.values():
        if _true(workload, "Admitted") and not _true(workload, "Evicted"):
            owners |= {o["uid"] for o in workload["metadata"].get("ownerReferences", []) if o["kind"] == "Pod"}
    live: dict[Seat, set[str]] = {}
    images: dict[tuple[str, int], set[str]] = {}
    held: dict[tuple[str, int], bool] = {}
    for uid, pod in pods.items():
        labels = pod["metadata"].get("labels", {})
        if labels.get(keys.APP_NAME) != keys.APP_NAME_VALUE or "deletionTimestamp" in pod["metadata"]:
            continue
        role, ordinal = labels[keys.APP_COMPONENT], int(labels[keys.POD_ORDINAL])
        live.setdefault((role, ordinal, int(labels[keys.MEMBER_INDEX])), set()).add(uid)
        main = next(c for c in pod["spec"]["containers"] if c["name"] == keys.MAIN_CONTAINER)
        images.setdefault((role, ordinal), set()).add(main["image"])
        held[role, ordinal] = held.get((role, ordinal), True) and uid in owners
    return Moment(
        frozenset(replica for replica, ok in held.items() if ok),
        {seat: frozenset(uids) for seat, uids in live.items()},
        {replica: frozenset(found) for replica, found in images.items()},
    )


@dataclass
class Timeline:
    """Records every moment of a namespace between `with` and its end."""

    cluster: Cluster
    namespace: str
    moments: list[Moment] = field(default_factory=list[Moment])

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._objects: dict[Kind, dict[str, dict[str, Any]]] = {POD: {}, WORKLOAD: {}}
        self._threads: list[threading.Thread] = []
        self._failures: list[Exception] = []

    def __enter__(self) -> "Timeline":
        for kind in self._objects:
            listing = self.cluster.list(kind, self.namespace)
            self._objects[kind] = {item["metadata"]["uid"]: item for item in listing.items}
            thread = threading.Thread(target=self._follow, args=(kind, listing.resource_version), daemon=True)
            self._threads.append(thread)
        self._note()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        assert not self._failures, self._failures

    def _note(self) -> None:
        self.moments.append(moment(self._objects[POD], self._objects[WORKLOAD]))

    def _follow(self, kind: Kind, version: str) -> None:
        while not self._stop.is_set():
            try:
                for event in self.cluster.watch(kind, self.namespace, resource_version=version, stop=self._stop):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type == "BOOKMARK":
                        continue
                    with self._lock:
                        objects = self._objects[kind]
                        if event.type == "DELETED":
                            objects.pop(event.object["metadata"]["uid"], None)
                        else:
                            objects[event.object["metadata"]["uid"]] = event.object
                        self._note()
            except Expired as error:
                self._failures.append(error)
                return

    def fewest_admitted(self, role: str, after: int) -> int:
        """The smallest number of admitted replicas of the role once `after` of them had been admitted."""
        counts = [sum(1 for found, _ in m.admitted if found == role) for m in self.moments]
        start = next(i for i, count in enumerate(counts) if count >= after)
        return min(counts[start:])

    def most_on_one_seat(self) -> int:
        """The largest number of live Pods that shared a seat at any moment."""
        return max((len(uids) for m in self.moments for uids in m.live.values()), default=0)

    def ever_on_each_seat(self) -> dict[Seat, set[str]]:
        """UIDs of all Pods that were ever live on each seat."""
        ever: dict[Seat, set[str]] = {}
        for m in self.moments:
            for seat, uids in m.live.items():
                ever.setdefault(seat, set()).update(uids)
        return ever

    def order_of(self, change: Callable[[frozenset[str]], bool]) -> list[tuple[str, int]]:
        """Replicas in the order in which their images first satisfied `change`."""
        seen: list[tuple[str, int]] = []
        for m in self.moments:
            for replica in sorted(m.images):
                if replica not in seen and change(m.images[replica]):
                    seen.append(replica)
        return seen

    def __str__(self) -> str:
        return json.dumps([sorted(m.admitted) for m in self.moments])
