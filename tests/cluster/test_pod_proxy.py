"""Asking a server inside a Pod: what comes back, and how little is waited for (rollout sheet 7.2)."""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.pod_proxy import MOST_BYTES
from gpustack_components.cluster.port import POD, Busy, ClusterError, Forbidden, Unreachable
from tests.faults.proxy import FaultProxy

PATH = "GET /api/v1/namespaces/team-a/pods/qwen-0:8000/proxy/metrics"


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        yield proxy


def read(server: FaultProxy, **more: str) -> str:
    return connect(server.kubeconfig).read_pod("team-a", "qwen-0", 8000, "/metrics", **more)


def test_the_text_is_returned_as_it_is(server: FaultProxy) -> None:
    server.answer(PATH, 200, b"a 1\nb 2\n")
    assert read(server) == "a 1\nb 2\n"


def test_a_server_behind_tls_is_asked_as_one(server: FaultProxy) -> None:
    server.answer("GET */pods/https:qwen-0:8000/proxy/metrics", 200, b"a 1\n")
    assert read(server, scheme="https") == "a 1\n"


@pytest.mark.parametrize(("code", "error"), [(403, Forbidden), (404, ClusterError), (503, Busy), (204, ClusterError)])
def test_any_other_answer_is_an_error_and_is_not_asked_for_again(
    server: FaultProxy, code: int, error: type[ClusterError]
) -> None:
    server.answer(PATH, code)
    with pytest.raises(error):
        read(server)
    assert server.count(PATH) == 1


def test_a_server_that_does_not_answer_is_given_two_seconds(server: FaultProxy) -> None:
    server.hang(PATH)
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        read(server)
    assert 1.5 < time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("body", "words"), [(b"a" * (MOST_BYTES + 1), "more than"), (b"\xff\xfe", "something else than text")]
)
def test_an_answer_that_is_no_metrics_is_refused(server: FaultProxy, body: bytes, words: str) -> None:
    server.answer(PATH, 200, body)
    with pytest.raises(ClusterError, match=words):
        read(server)


class _Dribbling(http.server.BaseHTTPRequestHandler):
    """Sends a byte now and then, for ever."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(40):
                self.wfile.write(b"a")
                self.wfile.flush()
                time.sleep(0.25)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def test_a_slow_answer_is_given_five_seconds_in_all(server: FaultProxy) -> None:
    slow = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Dribbling)
    slow.daemon_threads, slow.block_on_close = True, False
    threading.Thread(target=slow.serve_forever, daemon=True).start()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterError, match="did not finish its answer within 5 s"):
            connect(server.kubeconfig.replace(server.url, f"http://127.0.0.1:{slow.server_port}")).read_pod(
                "team-a", "qwen-0", 8000, "/metrics"
            )
        assert time.monotonic() - begun < 8
    finally:
        slow.shutdown()


class _Metrics(http.server.BaseHTTPRequestHandler):
    """An engine's metrics."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(b"vllm:num_requests_running 0\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.mark.cluster
def test_a_real_api_server_asks_the_pod(kubeconfig: Path, namespace: str, core: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        address = probe.getsockname()[0]
    engine = http.server.ThreadingHTTPServer((address, 0), _Metrics)
    engine.daemon_threads = True
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    cluster = connect(str(kubeconfig))
    spec = {
        "nodeName": "gpu-0",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "i"}],
    }
    try:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "qwen-0", "namespace": namespace}, "spec": spec}
        _until(lambda: _created(cluster, pod))
        _until(lambda: core.read_namespaced_pod("qwen-0", namespace).status.pod_ip)
        moved = [
            {"op": "replace", "path": "/status/podIP", "value": address},
            {"op": "replace", "path": "/status/podIPs", "value": [{"ip": address}]},
        ]
        cluster.patch(POD, namespace, "qwen-0", moved, subresource="status")
        text = cluster.read_pod(namespace, "qwen-0", engine.server_port, "/metrics")
        assert text == "vllm:num_requests_running 0\n"
        with pytest.raises(ClusterError):
            cluster.read_pod(namespace, "qwen-0", engine.server_port, "/other")
    finally:
        engine.shutdown()


def _created(cluster: Client, pod: dict[str, Any]) -> bool:
    """A namespace's service account comes about a moment after it."""
    try:
        cluster.create(pod)
    except Forbidden:
        return False
    return True


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)
