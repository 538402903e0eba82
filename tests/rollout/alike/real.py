"""Traces on the real Kueue."""

import threading
import time
from typing import Any

from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import POD, WORKLOAD, Expired, Json, Kind
from tests.rollout.alike.likeness import Likeness
from tests.rollout.alike.sightings import Place, Seen, Sightings
from tests.rollout.alike.traces import FULL, Activate, Burst, CreatePod, DeletePod, DeleteWorkload, SetQuota
from tests.rollout.lab import Lab

QUIET = 1.4
"""Seconds without a change after which a burst is over: longer than Kueue takes to look at waiting Workloads again."""
PREEMPTION = {"withinClusterQueue": "LowerPriority"}
PATIENCE = 30.0
"""Seconds without a change after which it is over even though more was to be expected: a busy machine is slow."""


class Watcher:
    """Two watches over all namespaces, for all traces of a run."""

    def __init__(self, kubeconfig: str) -> None:
        self._cluster = connect(kubeconfig)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._of: dict[str, Watched] = {}
        for kind in (POD, WORKLOAD):
            threading.Thread(target=self._follow, args=(kind,), daemon=True, name=f"alike {kind.plural}").start()

    def namespace(self, namespace: str) -> "Watched":
        """From now on, what happens in a namespace."""
        with self._lock:
            return self._of.setdefault(namespace, Watched())

    def close(self) -> None:
        """End the watches."""
        self._closed.set()

    def _follow(self, kind: Kind) -> None:
        version = self._cluster.list(kind, None).resource_version
        while not self._closed.is_set():
            try:
                for event in self._cluster.watch(kind, None, resource_version=version, stop=self._closed):
                    version = event.object["metadata"]["resourceVersion"]
                    with self._lock:
                        watched = self._of.get(event.object["metadata"].get("namespace", ""))
                    if watched is not None and event.type != "BOOKMARK":
                        watched.see({**event.object, "kind": kind.kind}, gone=event.type == "DELETED")
            except Expired:
                version = self._cluster.list(kind, None).resource_version


class Watched:
    """One namespace under watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sightings = Sightings()
        self._changed = time.monotonic()

    def see(self, obj: Json, *, gone: bool) -> None:
        """Take in an event."""
        with self._lock:
            if self._sightings.see(obj, gone=gone):
                self._changed = time.monotonic()

    def rest(self, expected: list[dict[Place, str]]) -> Seen:
        """Wait until nothing moves, longer while it stands in none of the ways expected; what was seen until then."""
        with self._lock:
            self._changed = time.monotonic()
        while True:
            time.sleep(0.05)
            with self._lock:
                quiet, state = time.monotonic() - self._changed, self._sightings.state()
                if quiet > (QUIET if state in expected else PATIENCE):
                    return Seen(self._sightings.take(), state)


def play(lab: Lab, watched: Watched, bursts: tuple[Burst, ...], priority_class: str) -> list[str]:
    """Do a trace in a lab of its own and compare; what the real Kueue showed that the simulation cannot."""
    lab.open_queue(FULL)
    lab.set_quota(FULL, preemption=PREEMPTION)
    likeness = Likeness()
    for burst in bursts:
        expected = likeness.ends(burst)
        for step in burst:
            _do(lab, step, priority_class)
        if found := likeness.differences(watched.rest(expected)):
            return [f"burst {burst}", *found]
    return []


def _do(lab: Lab, step: Any, priority_class: str) -> None:
    cluster: Client = lab.unseen
    match step:
        case CreatePod():
            pod = step.manifest(priority_class)
            pod["metadata"]["namespace"] = lab.namespace
            cluster.create(pod)
        case DeletePod():
            cluster.delete(POD, lab.namespace, step.name)
        case DeleteWorkload():
            cluster.delete(WORKLOAD, lab.namespace, step.group)
        case Activate():
            operation = {"op": "add", "path": "/spec/active", "value": step.active}
            cluster.patch(WORKLOAD, lab.namespace, step.group, [operation])
        case SetQuota():
            lab.set_quota(step.pods, preemption=PREEMPTION)
        case _:
            raise AssertionError(step)
