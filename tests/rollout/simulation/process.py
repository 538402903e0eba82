"""A driver as a process of its own, which can be left waiting, disturbed, stopped or killed between any two requests.

Each request has two moments at which the process can be interrupted: before it reaches the server, and after the server
has done it but before its answer arrives. So a crash "in between" is a crash at either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from greenlet import getcurrent, greenlet

from gpustack_components.cluster.keys import selector
from gpustack_components.cluster.port import (
    LEASE,
    POD,
    WORKLOAD,
    Busy,
    ClusterError,
    Conflict,
    Event,
    Json,
    Kind,
    Listing,
    Stop,
    Unreachable,
)
from gpustack_components.cluster.readings import name, uid
from gpustack_components.rollout.contract import Outcome, RolloutRefused
from gpustack_components.rollout.view import Snapshot
from tests.rollout.simulation.clock import SimulatedClock
from tests.rollout.simulation.serving import ServingCluster

Fault = Literal["unreachable", "answer lost", "busy", "conflict"]
"""What happens to one request: it never arrives; it is done and its answer is lost; the server is overloaded; the write
meets a condition that no longer holds."""


class Killed(BaseException):
    """The driver's process died."""


@dataclass
class Process:
    """One driver, from its start to its end."""

    run: Callable[[Process], Outcome]
    """The whole run; it must speak to the cluster through a `Connection` of this process."""
    clock: SimulatedClock
    outcome: Outcome | None = None
    """How the run ended; None while it goes on, when it was refused, and when it was killed."""
    refused: RolloutRefused | ClusterError | None = None
    """Why it did not begin."""
    ended: bool = False
    faults: list[Fault] = field(default_factory=list[Fault])
    """What happens to the requests ahead, one by one."""
    blocked: bool = False
    """Whether it waits for a change or for time to pass."""
    late: set[str] = field(default_factory=set[str])
    """Kinds whose watch shows it nothing for now."""
    leases: set[str] = field(default_factory=set[str])
    """Uids of the Leases it made or wrote its name on."""
    rests: int = 0
    """How often it has waited."""
    _stop: bool = False
    _left: int = 0

    def __post_init__(self) -> None:
        self._greenlet = greenlet(self._work)

    def _work(self) -> None:
        try:
            self.outcome = self.run(self)
        except (RolloutRefused, ClusterError) as refused:
            self.refused = refused
        except Killed:
            pass
        finally:
            self.ended = True

    def go(self, moments: int) -> None:
        """Let it run for that many moments, until it ends, or until it has to wait."""
        if not self.ended:
            self._left, self.blocked = moments, False
            self._greenlet.switch()

    def kill(self) -> None:
        """End it where it is."""
        if not self.ended:
            if self._greenlet:  # has begun
                self._greenlet.throw(Killed)
            self.ended = True

    def stop(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        self._stop = True

    def is_set(self) -> bool:
        """Whether it was asked to end: a process is its own `Stop`."""
        return self._stop

    def moment(self) -> None:
        """A moment at which something else may happen."""
        self._left -= 1
        if self._left <= 0:
            self._yield()

    def wait(self, seconds: float, until: Callable[[], bool]) -> None:
        """Wait for something to come about, no longer than that."""
        end = self.clock.seconds + seconds
        self.rests += 1
        while not self._stop and not until() and self.clock.seconds < end:
            self.blocked = True
            self._yield()
        self.moment()

    def _yield(self) -> None:
        parent = getcurrent().parent
        assert parent is not None
        parent.switch()

    # The `Clock` protocol: this process sleeps, the others go on.

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def now(self) -> Any:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.moment()


class Connection:
    """A `Cluster` over which one process speaks to the simulated one."""

    def __init__(
        self,
        cluster: ServingCluster,
        process: Process,
        on_write: Callable[[Connection, str, Json], None],
    ) -> None:
        self.cluster = cluster
        self.process = process
        self._on_write = on_write
        self._told: dict[str, tuple[Json, ...]] = {}
        self._listed: dict[str, int] = {}

    def told(self, kind: str) -> tuple[Json, ...]:
        """The objects of that kind as this process knows them, from a list or a watch."""
        return self._told.get(kind, ())

    def tell(self, kind: str, items: tuple[Json, ...]) -> None:
        """A watch shows the process these objects."""
        self._told[kind] = items

    @property
    def has_asked(self) -> bool:
        """Whether it has listed Pods and Workloads since it last rested."""
        return all(self._listed.get(kind.kind) == self.process.rests for kind in (POD, WORKLOAD))

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        return self._ask(lambda: self.cluster.get(kind, namespace, name))

    def list(self, kind: Kind, namespace: str | None, selector: str = "", *, field_selector: str = "") -> Listing:
        listing = self._ask(lambda: self.cluster.list(kind, namespace, selector))
        self._told[kind.kind], self._listed[kind.kind] = listing.items, self.process.rests
        return listing

    def create(self, obj: Json, *, dry_run: bool = False) -> Json:
        if dry_run:
            return self._ask(lambda: self.cluster.create(obj, dry_run=True))

        return self._write("create", obj, lambda: self._held(self.cluster.create(obj)))

    def replace(self, obj: Json) -> Json:
        return self._write("replace", obj, lambda: self._held(self.cluster.replace(obj)), conflicts=True)

    def _held(self, stored: Json) -> Json:
        if stored["kind"] == LEASE.kind:
            self.process.leases.add(uid(stored))
        return stored

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        manager: str = "",
    ) -> Json | None:
        def do() -> Json | None:
            obj = self.cluster.objects.get((kind.kind, name))
            if obj is not None:
                self._on_write(self, "patch", obj)
            return self.cluster.patch(kind, namespace, name, operations)

        return self._ask(do, conflicts=True)

    def apply(self, obj: Json, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Json:
        raise AssertionError("the rollout applies nothing")

    def delete(
        self, kind: Kind, namespace: str | None, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> bool:
        assert grace_seconds is None, "nothing is ever deleted by force"

        def do() -> bool:
            obj = self.cluster.objects.get((kind.kind, name))
            if obj is None or uid not in (None, obj["metadata"]["uid"]):
                return False
            self._on_write(self, "delete", obj)
            return self.cluster.delete(kind, namespace, name, uid=uid)

        return self._ask(do)

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
        raise AssertionError("a process looks through its ProcessView")

    def read_pod(self, namespace: str, name: str, port: int, path: str, *, scheme: str = "http") -> str:
        return self._ask(lambda: self.cluster.read_pod(namespace, name, port, path, scheme=scheme))

    def may(self, verb: str, kind: Kind, namespace: str | None, *, subresource: str = "") -> bool:
        return True

    def server_version(self) -> tuple[int, int]:
        return (1, 35)

    def _write(self, verb: str, obj: Json, do: Callable[[], Any], *, conflicts: bool = False) -> Any:
        def judged() -> Any:
            if verb != "replace" or not self.cluster.outdated(obj):
                self._on_write(self, verb, obj)
            return do()

        return self._ask(judged, conflicts=conflicts)

    def _ask(self, do: Callable[[], Any], *, conflicts: bool = False) -> Any:
        self.process.moment()
        fault = self.process.faults.pop(0) if self.process.faults else None
        if fault == "unreachable":
            raise Unreachable("connection refused")
        if fault == "busy":
            raise Busy("the server is overloaded")
        if fault == "conflict" and conflicts:
            raise Conflict("somebody else wrote it meanwhile")
        answer = do()
        self.process.moment()
        if fault == "answer lost":
            raise Unreachable("the connection was reset before the answer came")
        return answer


class ProcessView:
    """A `rollout.view.View` over a connection: lists when asked to, else shows what its two watches have delivered."""

    trouble = None

    def __init__(self, connection: Connection, namespace: str, deployment: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._selector = selector(deployment)
        self._known = Snapshot((), ())
        self._shown = -1

    def fresh(self) -> Snapshot:
        cluster = self._connection.cluster
        pods = self._connection.list(POD, self._namespace, self._selector).items
        workloads = self._connection.list(WORKLOAD, self._namespace).items
        self._known, self._shown = Snapshot(pods, workloads), cluster.version
        return self._known

    def snapshot(self) -> Snapshot:
        return self._known

    def note(self, obj: Json) -> None:
        others = (pod for pod in self._known.pods if name(pod) != name(obj))
        self._connection.tell(POD.kind, (*others, obj))
        self._known = Snapshot(self._connection.told(POD.kind), self._known.workloads)

    def wait(self, seconds: float) -> None:
        cluster, process = self._connection.cluster, self._connection.process
        process.wait(seconds, lambda: cluster.version != self._shown)
        self._shown = cluster.version
        if POD.kind not in process.late:
            self._connection.tell(POD.kind, cluster.list(POD, self._namespace, self._selector).items)
        if WORKLOAD.kind not in process.late:
            self._connection.tell(WORKLOAD.kind, cluster.list(WORKLOAD, self._namespace).items)
        self._known = Snapshot(self._connection.told(POD.kind), self._connection.told(WORKLOAD.kind))

    def close(self) -> None:
        pass
