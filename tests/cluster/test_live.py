"""Every verb on a real API server, and what becomes of it when the network between misbehaves."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_components.cluster import port
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import CONFIG_MAP, NODE, POD, WORKLOAD, Event, Kind
from gpustack_components.cluster.requests import Request
from tests.faults.proxy import FaultProxy

pytestmark = pytest.mark.cluster

NO_KIND = Kind("no.such.group/v1", "Nothing", "nothings")


@pytest.fixture
def cluster(kubeconfig: Path) -> Client:
    return connect(str(kubeconfig))


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    with FaultProxy(Path(kubeconfig)) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: FaultProxy) -> Client:
    """A client through the proxy, in touch with the server."""
    client = connect(proxy.kubeconfig)
    client.server_version()
    proxy.seen.clear()
    return client


def record(namespace: str, name: str = "r", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def generated(namespace: str) -> dict[str, Any]:
    metadata = {"generateName": "r-", "namespace": namespace, "labels": {"app": "generated"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_an_object_is_created_read_replaced_patched_applied_and_deleted(cluster: Client, namespace: str) -> None:
    assert cluster.get(CONFIG_MAP, namespace, "r") is None
    created = cluster.create(record(namespace, a="1"))
    assert cluster.get(CONFIG_MAP, namespace, "r") == created
    with pytest.raises(port.AlreadyExists, match=f"ConfigMap {namespace}/r exists already"):
        cluster.create(record(namespace))

    replaced = cluster.replace({**created, "data": {"a": "2"}})
    assert replaced["data"] == {"a": "2"}
    with pytest.raises(port.Conflict, match="modified"):
        cluster.replace({**created, "data": {"a": "3"}})

    uid = created["metadata"]["uid"]
    test = {"op": "test", "path": "/metadata/uid", "value": uid}
    patched = cluster.patch(CONFIG_MAP, namespace, "r", [test, {"op": "add", "path": "/data/b", "value": "x"}])
    assert patched is not None
    assert patched["data"] == {"a": "2", "b": "x"}
    with pytest.raises(port.Conflict, match="a condition of the patch no longer holds"):
        cluster.patch(CONFIG_MAP, namespace, "r", [{**test, "value": "other"}])
    assert cluster.patch(CONFIG_MAP, namespace, "gone", [test]) is None

    with pytest.raises(port.Conflict, match="conflict"):
        cluster.apply(
            record(namespace, b="y") | {"metadata": {"name": "r", "namespace": namespace, "ownerReferences": []}}
        )
    assert cluster.apply(record(namespace, "other", b="y"))["data"] == {"b": "y"}

    assert cluster.delete(CONFIG_MAP, namespace, "r", uid="another") is False
    assert cluster.get(CONFIG_MAP, namespace, "r") is not None
    assert cluster.delete(CONFIG_MAP, namespace, "r", uid=uid) is True
    assert cluster.delete(CONFIG_MAP, namespace, "r", uid=uid) is False


def test_lists_select_and_page(
    cluster: Client, kubeconfig: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        cluster.create(record(namespace, f"r{number}"))
    shown: list[Request] = []
    monkeypatch.setattr("gpustack_components.cluster.requests.PAGE", 3)
    listing = connect(str(kubeconfig), on_request=shown.append).list(CONFIG_MAP, namespace, "app=x")
    assert [item["metadata"]["name"] for item in listing.items] == [f"r{number}" for number in range(7)]
    assert {item["kind"] for item in listing.items} == {"ConfigMap"}
    assert len(shown) == 3
    named = cluster.list(CONFIG_MAP, namespace, field_selector="metadata.name=r3").items
    assert [item["metadata"]["name"] for item in named] == ["r3"]
    assert any(item["metadata"]["namespace"] == namespace for item in cluster.list(CONFIG_MAP, None, "app=x").items)


def test_a_dry_run_leaves_nothing(cluster: Client, namespace: str) -> None:
    cluster.create(record(namespace), dry_run=True)
    cluster.apply(record(namespace, "s"), dry_run=True)
    assert cluster.list(CONFIG_MAP, namespace, "app=x").items == ()


def test_a_field_the_server_does_not_know_is_refused_not_dropped(cluster: Client, namespace: str) -> None:
    wrong = record(namespace) | {"dataa": {}}
    with pytest.raises(port.Invalid, match='unknown field "dataa"'):
        cluster.create(wrong)
    with pytest.raises(port.Invalid, match="dataa"):
        cluster.apply(wrong)


def test_kueues_webhook_refuses_in_its_own_words(cluster: Client, namespace: str) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "g"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    with pytest.raises(port.Invalid, match=r"webhook vpod.kb.io refused creating Pod .*pod-group-total-count"):
        cluster.create(pod)


def test_a_missing_namespace_and_a_kind_that_is_not_served_are_told_apart(cluster: Client) -> None:
    with pytest.raises(port.Invalid, match="Namespace no-such does not exist"):
        cluster.create(record("no-such"))
    assert cluster.get(WORKLOAD, "no-such", "w") is None
    assert cluster.list(WORKLOAD, "no-such").items == ()
    with pytest.raises(port.NotServed, match="Nothing"):
        cluster.get(NO_KIND, "no-such", "x")
    with pytest.raises(port.NotServed):
        cluster.create({"apiVersion": "no.such.group/v1", "kind": "Nothing", "metadata": {"name": "x"}})


def test_kinds_beyond_the_ports_own_are_discovered(cluster: Client, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": namespace}}
    assert cluster.create(quota)["metadata"]["uid"]


def test_permissions_and_version(cluster: Client) -> None:
    assert cluster.may("create", POD, "default")
    assert cluster.may("patch", WORKLOAD, None, subresource="status")
    assert cluster.server_version() >= (1, 30)


class Watching:
    """A watch that runs in a thread of its own and keeps what it sees."""

    def __init__(self, client: Client, namespace: str, version: str) -> None:
        self.stop = threading.Event()
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self._client, self._namespace, self._version = client, namespace, version
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._client.watch(
                CONFIG_MAP, self._namespace, "app=x", resource_version=self._version, stop=self.stop
            ):
                self.events.append(event)
        except port.ClusterError as error:
            self.error = error

    def names(self) -> list[tuple[str, str]]:
        return [(event.type, event.object["metadata"]["name"]) for event in self.events if event.type != "BOOKMARK"]

    def until(self, count: int, seconds: float = 10) -> list[tuple[str, str]]:
        end = time.monotonic() + seconds
        while len(self.names()) < count and time.monotonic() < end and self._thread.is_alive():
            time.sleep(0.02)
        return self.names()

    def join(self) -> float:
        started = time.monotonic()
        self.stop.set()
        self._thread.join(5)
        return time.monotonic() - started


def test_a_watch_shows_changes_in_order_and_stops_soon(cluster: Client, namespace: str) -> None:
    version = cluster.list(CONFIG_MAP, namespace, "app=x").resource_version
    watching = Watching(cluster, namespace, version)
    made = cluster.create(record(namespace, "a"))
    cluster.replace({**made, "data": {"k": "v"}})
    cluster.delete(CONFIG_MAP, namespace, "a")
    assert watching.until(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert watching.join() < 5
    assert watching.error is None


def test_stopping_is_quick_every_time_even_for_many_silent_watches(cluster: Client, namespace: str) -> None:
    version = cluster.list(CONFIG_MAP, namespace).resource_version
    watches = [Watching(cluster, namespace, version) for _ in range(10)]
    time.sleep(0.5)
    assert max(watching.join() for watching in watches) < 5
    lasting = [thread.name for thread in threading.enumerate() if thread.name.startswith("watch ")]
    end = time.monotonic() + 2
    while lasting and time.monotonic() < end:
        time.sleep(0.05)
        lasting = [thread.name for thread in threading.enumerate() if thread.name.startswith("watch ")]
    assert lasting == []


ERROR_EVENT = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


@pytest.mark.parametrize(("code", "body"), [(410, None), (200, ERROR_EVENT)])
def test_a_version_that_is_too_old_raises_expired(
    through: Client, proxy: FaultProxy, namespace: str, code: int, body: bytes | None
) -> None:
    proxy.answer("GET *watch=true*", code, body)
    with pytest.raises(port.Expired, match="too old"):
        list(through.watch(CONFIG_MAP, namespace, resource_version="1", stop=threading.Event()))


def test_a_cut_watch_goes_on_without_losing_or_repeating_a_change(
    through: Client, cluster: Client, proxy: FaultProxy, namespace: str
) -> None:
    watching = Watching(through, namespace, cluster.list(CONFIG_MAP, namespace).resource_version)
    cluster.create(record(namespace, "a"))
    assert watching.until(1) == [("ADDED", "a")]
    assert proxy.cut_streams() == 1
    cluster.create(record(namespace, "b"))
    proxy.answer("GET *watch=true*", 503, times=1)
    assert watching.until(2) == [("ADDED", "a"), ("ADDED", "b")]
    proxy.go_away()
    cluster.create(record(namespace, "c"))
    time.sleep(0.3)
    proxy.come_back()
    assert watching.until(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert watching.join() < 5
    assert watching.error is None


def test_a_watch_gives_up_when_the_server_stays_away(kubeconfig: Path, proxy: FaultProxy, namespace: str) -> None:
    from gpustack_components.cluster.retrying import Patience

    client = connect(proxy.kubeconfig, patience=Patience(attempts=3))
    watching = Watching(client, namespace, client.list(CONFIG_MAP, namespace).resource_version)
    while not proxy.open_streams():
        time.sleep(0.02)
    proxy.go_away()
    watching.until(1, seconds=5)
    assert isinstance(watching.error, port.Unreachable)


def test_a_watch_on_which_nothing_happens_costs_no_request(through: Client, proxy: FaultProxy, namespace: str) -> None:
    watching = Watching(through, namespace, through.list(CONFIG_MAP, namespace).resource_version)
    while not proxy.open_streams():
        time.sleep(0.02)
    asked = len(proxy.seen)
    time.sleep(3)
    assert len(proxy.seen) == asked
    watching.join()


def test_a_lost_create_of_a_named_object_makes_exactly_one(
    through: Client, cluster: Client, proxy: FaultProxy, namespace: str
) -> None:
    lost = proxy.lose("POST */configmaps*", times=1)
    assert through.create(record(namespace, a="1"))["data"] == {"a": "1"}
    assert lost.used == 1
    assert len(cluster.list(CONFIG_MAP, namespace, "app=x").items) == 1


def test_a_lost_create_of_a_generated_name_is_left_to_the_caller(
    through: Client, cluster: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.lose("POST */configmaps*", times=1)
    with pytest.raises(port.Unreachable):
        through.create(generated(namespace))
    assert len(cluster.list(CONFIG_MAP, namespace, "app=generated").items) == 1
    proxy.answer("POST *", 429, retry_after=1, times=1)
    through.create(generated(namespace))
    assert len(cluster.list(CONFIG_MAP, namespace, "app=generated").items) == 2


def test_lost_answers_to_replace_and_delete_read_as_done(through: Client, proxy: FaultProxy, namespace: str) -> None:
    made = through.create(record(namespace, a="1"))
    proxy.lose("PUT *", times=1)
    assert through.replace({**made, "data": {"a": "2"}})["data"] == {"a": "2"}
    proxy.lose("DELETE *", times=1)
    assert through.delete(CONFIG_MAP, namespace, "r", uid=made["metadata"]["uid"]) is True


def test_a_server_that_goes_away_and_comes_back_is_waited_for(
    through: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.go_away()
    threading.Timer(1.0, proxy.come_back).start()
    assert through.get(CONFIG_MAP, namespace, "r") is None


def test_one_client_serves_many_threads(cluster: Client, namespace: str) -> None:
    def work(number: int) -> None:
        for round_ in range(5):
            name = f"t{number}-{round_}"
            cluster.create(record(namespace, name))
            assert cluster.get(CONFIG_MAP, namespace, name) is not None
            assert cluster.delete(CONFIG_MAP, namespace, name)

    failed: list[BaseException] = []
    threads = [threading.Thread(target=_guard(work, number, failed)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def _guard(work: Any, number: int, failed: list[BaseException]) -> Any:
    def run() -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    return run


def test_a_wrong_token_is_refused_without_being_named(kubeconfig: Path) -> None:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["users"][0]["user"] = {"token": "expired-s3cret"}
    with pytest.raises(port.Unauthorized, match="the token of context") as caught:
        connect(json.dumps(config)).list(NODE, None)
    assert "s3cret" not in str(caught.value)


def test_what_an_identity_may_not_do_is_named(kubeconfig: Path) -> None:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["users"][0]["user"]["as"] = "jane"
    jane = connect(json.dumps(config))
    with pytest.raises(port.Forbidden, match=r"Not allowed to create configmaps in namespace default: .*jane"):
        jane.create(record("default"))
    with pytest.raises(port.Forbidden, match="Not allowed to list pods"):
        jane.list(POD, None)
    assert jane.may("create", POD, "default") is False
