"""The drain program, run (rendering sheet 8): what it waits for, how long, and that it never fails."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpustack_components.render.lifecycle import drain_program
from tests.render import build

IDLE = 'vllm:num_requests_running{engine="0",model_name="a b"} 0.0\nvllm:num_requests_waiting{engine="0"} 0\n'
BUSY = IDLE.replace("0.0", "1.0")


def program(port: int, grace: int, *args: str) -> str:
    found = build.resolved(build.deployment(roles=[{"extraArgs": ["--port", str(port), *args]}]))
    return drain_program(found, found.roles[0], grace)


@contextlib.contextmanager
def engine(pages: list[str | int]) -> Iterator[int]:
    """An engine whose /metrics answers page after page, the last one for ever; a number is a status, -1 no answer
    at all."""
    left = list(pages)

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = left.pop(0) if len(left) > 1 else left[0]
            if page == -1:
                time.sleep(3)
                return
            self.send_response(page if isinstance(page, int) else 200)
            self.end_headers()
            self.wfile.write(b"" if isinstance(page, int) else page.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()


def seconds(code: str) -> float:
    """How long the program runs beyond its settle time, which is cut out; it must exit 0 in silence."""
    start = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", code.replace("time.sleep(5)", "time.sleep(0)")],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    return time.monotonic() - start


CASES = {
    "two idle readings end it": ([IDLE], 30, 1, 8),
    "a busy reading is waited out": ([BUSY, IDLE], 30, 2, 9),
    "one idle reading between busy ones does not end it": ([IDLE, BUSY, IDLE], 30, 3, 10),
    "an unreadable sample counts as busy": (["vllm:num_requests_running{} none\n", IDLE], 30, 2, 9),
    "a missing value counts as busy": (["vllm:num_requests_waiting\n", IDLE], 30, 2, 9),
    "other gauges are not its business": (["vllm:num_requests_swapped 7\n"], 30, 1, 8),
    "a timed-out reading counts as busy": ([-1, IDLE], 30, 3, 10),
    "an error answer ends it at once": ([500], 30, 0, 5),
    "a busy engine is left before the grace period ends": ([BUSY], 8, 3, 7),
}


@pytest.mark.parametrize("case", CASES)
def test_it_waits_for_an_idle_engine(case: str) -> None:
    pages, grace, least, most = CASES[case]
    with engine(pages) as port:
        assert least <= seconds(program(port, grace)) <= most


def test_it_ends_at_once_when_nothing_listens() -> None:
    assert seconds(program(1, 30)) < 5


def test_it_reads_past_a_proxy_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engine delivery renders HTTPS_PROXY; the hook must still reach its own loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with engine([BUSY, IDLE]) as port:
        assert seconds(program(port, 30)) >= 2


def test_it_settles_for_five_seconds_first_and_names_the_engines_gauges() -> None:
    vllm = build.resolved(build.deployment("vLLM"))
    sglang = build.resolved(build.deployment("SGLang"))
    assert "time.sleep(5)" in drain_program(vllm, vllm.roles[0], 30)
    assert "< 25:" in drain_program(vllm, vllm.roles[0], 30)
    for gauge in (
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ):
        assert repr(gauge) in drain_program(sglang, sglang.roles[0], 30)


@pytest.mark.parametrize(
    ("role", "grace", "hooked"),
    [
        ({}, 30, True),
        ({"terminationGracePeriodSeconds": 45}, 45, True),
        ({"command": ["serve"]}, None, False),
        ({"command": ["serve"], "terminationGracePeriodSeconds": 45}, 45, False),
    ],
    ids=["managed", "managed with its own grace", "take-over", "take-over with its own grace"],
)
def test_grace_and_hook_follow_who_owns_the_command(role: dict[str, object], grace: int | None, hooked: bool) -> None:
    pod = build.pod(build.deployment(roles=[role]))
    assert pod["spec"].get("terminationGracePeriodSeconds") == grace
    assert ("lifecycle" in build.main(pod)) == hooked
