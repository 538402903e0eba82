"""Asking a server inside a Pod: what comes back, and how little is waited for (rollout sheet 7.2)."""

import http.server
import threading
import time
from collections.abc import Iterator

import pytest

from gpustack_components.cluster.client import connect
from gpustack_components.cluster.pod_proxy import MOST_BYTES
from gpustack_components.cluster.port import Busy, ClusterError, Forbidden, Unreachable
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
    assert 1.5 < time.monotonic() - begun < 4


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
