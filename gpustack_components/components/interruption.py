"""When a running create, update or delete must end early.

Three things end a run: the first Ctrl-C, which reaches a dynamic provider only as a `Cancel` call that the SDK
answers with nothing; the second, which shuts the thread pool of the process down; and the death of the engine, which
reaches it not at all (pulumi-facts sheet, section 4). One watching thread per process turns all three into one event
that every wait looks at.
"""

import concurrent.futures.thread
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from google.protobuf import empty_pb2

from gpustack_components.components.engine_link import engine_answers

POLL_SECONDS = 0.5
FAREWELL_SECONDS = 60.0
"""How long a provider without an engine may take to record where it stopped before the process ends."""

cancelled = threading.Event()
"""Set by the engine's `Cancel` call."""

stopped = threading.Event()
"""Set once the process must stop, whatever the reason."""

_lock = threading.Lock()
_operations = 0
_reason = ""
_watching = False


def _cancel(_self: Any, _request: Any, _context: Any) -> Any:
    """Runs in place of the SDK's `Cancel`, with the globals of `pulumi.dynamic.__main__`, which has `sys` and
    `empty_pb2`.
    """
    sys.modules["gpustack_components.components.interruption"].cancelled.set()
    return empty_pb2.Empty()


def attend() -> None:
    """Start to watch for the end of the run; once per process, repeated calls do nothing."""
    global _watching
    with _lock:
        if _watching:
            return
        _watching = True
    hear_cancel()
    threading.Thread(target=_watch, name="interruption", daemon=True).start()


def hear_cancel() -> bool:
    """Make the SDK's servicer of this process set `cancelled` on a `Cancel` call; False when this SDK has no such
    servicer.

    The bound method was handed to gRPC at the start of the process, so its code is exchanged, not the attribute.
    """
    servicer = getattr(sys.modules.get("__main__"), "DynamicResourceProviderServicer", None)
    method = getattr(servicer, "Cancel", None)
    if method is None or not hasattr(method, "__code__") or method.__code__.co_freevars:
        return False
    method.__code__ = _cancel.__code__
    return True


def interrupted() -> str:
    """Why the process must stop, as the start of a sentence; empty while it need not."""
    return _reason


def _find_reason(silent: int) -> str:
    if cancelled.is_set():
        return "interrupted by the user"
    if getattr(concurrent.futures.thread, "_shutdown", False):
        return "the engine is shutting down"
    return "the engine is gone" if silent >= 2 else ""


def _watch() -> None:
    global _reason
    silent = 0
    while not _reason:
        time.sleep(POLL_SECONDS)
        silent = 0 if engine_answers() else silent + 1
        _reason = _find_reason(silent)
    stopped.set()
    while engine_answers():
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + FAREWELL_SECONDS
    while _operations and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os._exit(1)


@contextmanager
def operation() -> Generator[threading.Event]:
    """The event that every wait of a create, update or delete looks at. Set: record where it stopped, and return."""
    global _operations
    attend()
    with _lock:
        _operations += 1
    try:
        yield stopped
    finally:
        with _lock:
            _operations -= 1
