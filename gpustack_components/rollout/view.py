"""What the executor sees of the cluster: the deployment's Pods and the namespace's Workloads, listed once and then
watched.

No polling: between two changes nothing is asked. Watches start with the first wait, so a run that has nothing to do
makes none. `fresh` reads live what a deletion or a creation is decided on.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gpustack_components.cluster import keys
from gpustack_components.cluster.port import (
    DEPLOYMENT,
    POD,
    WORKLOAD,
    Cluster,
    ClusterError,
    Event,
    Expired,
    Forbidden,
    Json,
    Kind,
    Listing,
    NotServed,
    Stop,
)
from gpustack_components.cluster.readings import at, uid
from gpustack_components.cluster.weight_objects import Named

_TICK = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Raw objects at one moment."""

    pods: tuple[Json, ...]
    """Pods that carry the deployment's labels, its router's excepted."""
    workloads: tuple[Json, ...]
    """Workloads of the namespace."""
    deployments: tuple[Json, ...] = ()
    """Deployments that carry the deployment's labels, where a router is watched: its own."""


class View(Protocol):
    """How the executor looks at the cluster; the tests' simulation has one of its own."""

    @property
    def trouble(self) -> ClusterError | None:
        """Why watching does not work at the moment; None while it does."""
        ...

    def snapshot(self) -> Snapshot:
        """What is known without asking."""
        ...

    def fresh(self) -> Snapshot:
        """What the server holds now. Raises `ClusterError`."""
        ...

    def note(self, obj: Json) -> None:
        """Take in an object that a write returned, before a watch shows it."""
        ...

    def wait(self, seconds: float) -> None:
        """Return at the first change, when watching breaks or works again, at the latest after that time, and within a
        second of a stop. Raises `ClusterError` when watching cannot go on."""
        ...

    def attend(self, objects: tuple[Named, ...]) -> tuple[Named, ...]:
        """Return from `wait` at changes of these objects too, in place of those attended before; those of them that can
        be watched. Raises `ClusterError`."""
        ...

    @property
    def attended(self) -> int:
        """How many changes of attended objects were seen."""
        ...

    def close(self) -> None:
        """End the watches."""
        ...


class LiveView:
    """A `View` that lists and watches a `Cluster`; the watches are threads of their own."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        deployment: str,
        stop: Stop,
        *,
        without_kueue: bool = False,
        router: bool = False,
    ) -> None:
        """`without_kueue` reads a cluster that serves no Workloads as one that has none. `router` watches the router's
        Deployment as well."""
        self._stop = stop
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._count = 0
        self._seen = 0
        self._trouble: dict[str, ClusterError] = {}
        self._fatal: ClusterError | None = None
        self._pods = _Watched(cluster, POD, namespace, keys.engine_selector(deployment))
        self._workloads = _Watched(cluster, WORKLOAD, namespace, "", optional=without_kueue)
        self._routers = _Watched(cluster, DEPLOYMENT, namespace, keys.selector(deployment)) if router else None
        self._watched = [one for one in (self._pods, self._workloads, self._routers) if one is not None]
        self._cluster = cluster
        self._started = False
        self._attending: list[_Watched] = []
        self._attended = 0

    @property
    def trouble(self) -> ClusterError | None:
        """The first watch's problem, if any has one."""
        with self._changed:
            return next(iter(self._trouble.values()), None)

    def snapshot(self) -> Snapshot:
        """What the lists and watches have shown so far."""
        with self._changed:
            self._seen = self._count
            routers = self._routers.items() if self._routers else ()
            return Snapshot(self._pods.items(), self._workloads.items(), routers)

    def fresh(self) -> Snapshot:
        """List Pods and Workloads anew; no deletion or creation depends on the router, which is listed once."""
        for watched in self._watched:
            if watched is self._routers and watched.listed:
                continue
            listing = watched.list()
            with self._changed:
                watched.replace(listing)
        return self.snapshot()

    def note(self, obj: Json) -> None:
        """Take in what a write returned."""
        with self._changed:
            (self._pods if obj.get("kind") == POD.kind else self._workloads).note(obj)

    def wait(self, seconds: float) -> None:
        """Wait for a change that no snapshot has shown yet."""
        if not self._started:
            self._started = True
            for watched in self._watched:
                self._start(watched)
        with self._changed:
            left = seconds
            while self._count == self._seen and self._fatal is None and left > 0 and not self._stop.is_set():
                self._changed.wait(min(left, _TICK))
                left -= _TICK
            if self._fatal is not None:
                raise self._fatal

    def attend(self, objects: tuple[Named, ...]) -> tuple[Named, ...]:
        """List and watch these objects; what is not served or may not be read is left out."""
        for watched in self._attending:
            watched.served = False
        self._attending.clear()
        found: list[Named] = []
        for named in objects:
            watched = _Watched(self._cluster, named.kind, named.namespace, "", optional=True, name=named.name)
            try:
                watched.replace(watched.list())
            except Forbidden:
                continue
            if watched.served:
                found.append(named)
                self._attending.append(watched)
                self._start(watched)
        return tuple(found)

    @property
    def attended(self) -> int:
        """How many changes of attended objects the watches showed."""
        with self._changed:
            return self._attended

    def close(self) -> None:
        """End the watches; their threads follow within a second."""
        self._closed.set()

    def is_set(self) -> bool:
        """Whether the watches should end: this view is also their stop."""
        return self._closed.is_set() or self._stop.is_set()

    def _start(self, watched: "_Watched") -> None:
        name = f"rollout {watched.kind.plural}"
        threading.Thread(target=self._follow, args=(watched,), name=name, daemon=True).start()

    def _follow(self, watched: "_Watched") -> None:
        pause = _FIRST_PAUSE
        while not self.is_set():
            if not watched.served:
                return
            try:
                for event in watched.events(self):
                    self._change(lambda event=event: self._apply(watched, event))
                    if not watched.served:
                        return
                    pause = _FIRST_PAUSE
                continue
            except Expired:
                pass
            except ClusterError as error:
                if not error.retryable:
                    self._change(lambda error=error: self._fail(error))
                    return
                self._change(lambda error=error: self._trouble.update({watched.kind.kind: error}))
                self._closed.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                listing = watched.list()
            except ClusterError:
                continue
            self._change(lambda listing=listing: self._recover(watched, listing))

    def _apply(self, watched: "_Watched", event: Event) -> None:
        watched.apply(event)
        if watched.name and event.type != "BOOKMARK":
            self._attended += 1

    def _fail(self, error: ClusterError) -> None:
        self._fatal = error

    def _recover(self, watched: "_Watched", listing: Listing) -> None:
        watched.replace(listing)
        self._attended += bool(watched.name)
        self._trouble.pop(watched.kind.kind, None)

    def _change(self, make: Callable[[], object]) -> None:
        with self._changed:
            make()
            self._count += 1
            self._changed.notify_all()


class _Watched:
    """One kind's objects, by uid, as the latest list and the events since leave them."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespace: str | None,
        selection: str,
        *,
        optional: bool = False,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.name = name
        self.served = True
        self._optional = optional
        self._cluster = cluster
        self._namespace = namespace
        self._selection = selection
        self._field = f"metadata.name={name}" if name else ""
        self._objects: dict[str, Json] = {}
        self._gone: set[str] = set()
        self._listed = -1
        self._version = ""

    @property
    def listed(self) -> bool:
        return self._listed >= 0

    def items(self) -> tuple[Json, ...]:
        return tuple(self._objects.values())

    def list(self) -> Listing:
        try:
            return self._cluster.list(self.kind, self._namespace, self._selection, field_selector=self._field)
        except NotServed:
            if not self._optional:
                raise
            self.served = False
            return Listing((), "")

    def events(self, stop: Stop) -> Iterator[Event]:
        return self._cluster.watch(
            self.kind,
            self._namespace,
            self._selection,
            field_selector=self._field,
            resource_version=self._version,
            stop=stop,
        )

    def replace(self, listing: Listing) -> None:
        """Take in a list; a watch may have been told more than it shows, for both are answered side by side."""
        listed = _number(listing.resource_version)
        if listed < self._listed:
            return
        since = {key: one for key, one in self._objects.items() if _version(one) > listed}
        self._objects = {uid(one): one for one in listing.items if uid(one) not in self._gone} | since
        self._listed, self._version = listed, listing.resource_version

    def note(self, obj: Json) -> None:
        if uid(obj) not in self._gone and _version(obj) > _version(self._objects.get(uid(obj))):
            self._objects[uid(obj)] = obj

    def apply(self, event: Event) -> None:
        if version := at(event.object, "metadata", "resourceVersion"):
            self._version = str(version)
        if event.type == "DELETED":
            self._gone.add(uid(event.object))
            self._objects.pop(uid(event.object), None)
        elif event.type != "BOOKMARK" and _version(event.object) > self._listed:
            self.note(event.object)


def _version(obj: Json | None) -> int:
    return -1 if obj is None else _number(at(obj, "metadata", "resourceVersion"))


def _number(version: object) -> int:
    """A resource version as a number: Kubernetes orders them so since 1.35, and every API server before did."""
    return int(version) if isinstance(version, str) and version.isdigit() else 0
