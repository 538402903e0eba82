"""What is sent again, what never is, and how long it takes: against a server that is scripted to fail."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpustack_components.cluster import port
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.kubeconfig import locate
from gpustack_components.cluster.port import CONFIG_MAP, POD
from gpustack_components.cluster.requests import Request
from gpustack_components.cluster.retrying import Patience, Pauses
from gpustack_components.cluster.transport import Transport
from tests.faults.proxy import FaultProxy

LABELS = {"app.kubernetes.io/instance": "qwen"}


def pod(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team-a", "labels": LABELS, **metadata}}


NAMED = pod(name="p", uid="u", resourceVersion="7")
EXISTS = {"kind": "Status", "status": "Failure", "code": 409, "reason": "AlreadyExists", "message": "p exists"}


@dataclass
class FakeTime:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        yield proxy


def client(server: FaultProxy, fake: FakeTime, patience: Patience | None = None) -> Client:
    """A client in touch with the server, whose pauses take no time."""
    server.answer("GET /version", 200, {"major": "1", "minor": "35+"})
    pauses = Pauses(patience or Patience(), fake.clock, fake.sleep, chance=lambda: 1.0)
    made = Client(Transport(locate(server.kubeconfig), None), pauses)
    assert made.server_version() == (1, 35)
    server.seen.clear()
    return made


def test_a_read_outlasts_busy_answers_and_broken_connections(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.answer("GET *", 503, times=1)
    server.answer("GET *", 429, times=1)
    server.drop("GET *", times=1)
    server.answer("GET *", 500, times=1)
    server.answer("GET *", 200, NAMED)
    assert cluster.get(POD, "team-a", "p") == NAMED
    assert len(server.seen) == 5


def test_pauses_grow_and_the_server_may_ask_for_longer_ones(server: FaultProxy) -> None:
    fake = FakeTime()
    cluster = client(server, fake)
    server.answer("GET *", 503, times=3)
    server.answer("GET *", 429, retry_after=7, times=1)
    server.answer("GET *", 200, NAMED)
    cluster.get(POD, "team-a", "p")
    assert fake.now == pytest.approx(0.2 + 0.4 + 0.8 + 7)


def test_trying_ends_after_a_number_of_times_and_after_a_time(server: FaultProxy) -> None:
    fake = FakeTime()
    cluster = client(server, fake)
    server.answer("GET */pods/p", 503)
    with pytest.raises(port.Busy, match="503"):
        cluster.get(POD, "team-a", "p")
    assert len(server.seen) == Patience().attempts
    server.seen.clear()
    server.clear()
    server.answer("GET */pods/p", 429, retry_after=60)
    with pytest.raises(port.Busy, match="it asks to wait 60 s"):
        cluster.get(POD, "team-a", "p")
    assert len(server.seen) == 1


def test_a_stop_ends_the_tries(server: FaultProxy) -> None:
    server.answer("GET *", 429, retry_after=15)
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    with pytest.raises(port.Busy):
        connect(server.kubeconfig, stop=stop).get(POD, "team-a", "p")
    assert time.monotonic() - started < 5


def test_a_stop_ends_a_request_that_hangs_and_leaves_a_second_for_the_last_words(server: FaultProxy) -> None:
    server.hang("GET *", times=1)
    server.answer("PUT *", 200, record("8"))
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    cluster = connect(server.kubeconfig, stop=stop)
    started = time.monotonic()
    with pytest.raises(port.Unreachable, match="the run was stopped"):
        cluster.get(POD, "team-a", "p")
    assert time.monotonic() - started < 5
    assert cluster.replace(record("7")) == record("8")


def test_a_create_without_a_name_is_never_repeated_once_it_may_have_arrived(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.drop("POST *", times=1)
    with pytest.raises(port.Unreachable, match="creating Pod in namespace team-a: the connection broke"):
        cluster.create(pod(generateName="qwen-"))
    server.answer("POST *", 500)
    with pytest.raises(port.Busy):
        cluster.create(pod(generateName="qwen-"))
    assert len(server.seen) == 2


def test_a_create_without_a_name_is_repeated_when_the_server_has_not_taken_it(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.answer("POST *", 429, times=2)
    server.answer("POST *", 201, NAMED)
    assert cluster.create(pod(generateName="qwen-")) == NAMED


def test_a_create_with_a_name_whose_answer_was_lost_is_found(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.drop("POST *", times=1)
    server.answer("POST *", 409, EXISTS)
    server.answer("GET *", 200, NAMED)
    assert cluster.create(pod(name="p")) == NAMED


@pytest.mark.parametrize("other", [pod(name="p", labels={}), pod(name="p", deletionTimestamp="2026-01-01T00:00:00Z")])
def test_another_object_of_the_name_is_not_taken_for_the_lost_create(server: FaultProxy, other: dict[str, Any]) -> None:
    cluster = client(server, FakeTime())
    server.drop("POST *", times=1)
    server.answer("POST *", 409, EXISTS)
    server.answer("GET *", 200, other)
    with pytest.raises(port.AlreadyExists):
        cluster.create(pod(name="p"))


def test_an_object_that_stood_there_before_is_no_lost_create(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.answer("POST *", 409, EXISTS)
    with pytest.raises(port.AlreadyExists):
        cluster.create(pod(name="p"))
    assert server.count("GET *") == 0


def record(version: str, **data: str) -> dict[str, Any]:
    metadata = {"name": "r", "namespace": "team-a", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_a_replace_whose_answer_was_lost_is_recognised_and_another_writer_is_not(server: FaultProxy) -> None:
    conflict = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
    cluster = client(server, FakeTime())
    server.answer("GET *", 200, record("8", slot="2", phase="Cleanup"))
    server.drop("PUT *", times=1)
    server.answer("PUT *", 409, conflict)
    assert cluster.replace(record("7", slot="2"))["metadata"]["resourceVersion"] == "8"
    with pytest.raises(port.Conflict):
        cluster.replace(record("7", slot="1"))


def test_a_patch_is_repeated_only_when_doing_it_twice_changes_nothing(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.drop("PATCH *", times=1)
    server.answer("PATCH *", 200, NAMED)
    assert cluster.patch(POD, "team-a", "p", [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]) == NAMED
    server.clear()
    server.drop("PATCH *", times=1)
    with pytest.raises(port.Unreachable):
        cluster.patch(POD, "team-a", "p", [{"op": "remove", "path": "/metadata/finalizers/0"}])


def test_a_deletion_whose_answer_was_lost_counts_as_done(server: FaultProxy) -> None:
    gone = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "gone", "details": {"name": "p"}}
    cluster = client(server, FakeTime())
    server.drop("DELETE *", times=1)
    server.answer("DELETE *", 404, gone)
    assert cluster.delete(POD, "team-a", "p", uid="u") is True


def test_a_long_list_is_read_in_pages_of_one_version(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    first = {"metadata": {"resourceVersion": "40", "continue": "next"}, "items": [{"metadata": {"name": "a"}}]}
    last = {"metadata": {"resourceVersion": "40"}, "items": [{"metadata": {"name": "b"}}]}
    server.answer("GET *continue=next*", 200, last)
    server.answer("GET *limit=500*", 200, first)
    listing = cluster.list(CONFIG_MAP, None, "app=x", field_selector="metadata.name=y")
    assert [(item["kind"], item["metadata"]["name"]) for item in listing.items] == [
        ("ConfigMap", "a"),
        ("ConfigMap", "b"),
    ]
    assert listing.resource_version == "40"
    assert server.seen[0] == "GET /api/v1/configmaps?labelSelector=app%3Dx&fieldSelector=metadata.name%3Dy&limit=500"


def test_a_list_whose_pages_expired_is_read_at_once(server: FaultProxy) -> None:
    cluster = client(server, FakeTime())
    server.answer("GET *continue=next*", 410)
    server.answer("GET *limit=500*", 200, {"metadata": {"resourceVersion": "4", "continue": "next"}, "items": []})
    server.answer("GET *", 200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}}]})
    listing = cluster.list(POD, "team-a")
    assert (len(listing.items), listing.resource_version) == (1, "9")


def test_a_watch_stops_soon_while_the_server_says_nothing_at_all(server: FaultProxy) -> None:
    server.hang("GET *")
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    assert list(connect(server.kubeconfig).watch(POD, "team-a", resource_version="1", stop=stop)) == []
    assert time.monotonic() - started < 5


def test_every_request_is_shown_to_the_hook_retries_included(server: FaultProxy) -> None:
    shown: list[Request] = []
    server.answer("GET *", 503, times=1)
    server.answer("GET *", 200, NAMED)
    connect(server.kubeconfig, on_request=shown.append).get(POD, "team-a", "p")
    assert [(r.verb, r.subject) for r in shown] == [("get", "Pod team-a/p")] * 2
