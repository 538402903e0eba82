"""One watch, read by a thread of its own, so that the consumer can stop at once even when no byte arrives.

The reader resumes a cut watch from the last version it has seen, bookmarks included; it ends when the server ends it in
its own time, and raises `Expired` when the version is too old.
"""

import contextlib
import json
import queue
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from gpustack_components.cluster.errors import failure
from gpustack_components.cluster.port import Busy, ClusterError, Event, Json, Stop, Unreachable
from gpustack_components.cluster.readings import at
from gpustack_components.cluster.requests import Request
from gpustack_components.cluster.retrying import Pauses
from gpustack_components.cluster.transport import READ_SECONDS, Session, Transport

SECONDS = 300
"""About how long the server keeps one watch open."""

_TICK = 0.2
_HELD = 512


def watch_seconds() -> int:
    """How long one watch is asked for: spread, so that many watches do not renew at one moment."""
    return SECONDS - 30 + random.randrange(60)  # noqa: S311 (not a secret)


@dataclass(slots=True)
class Watch:
    """A running watch; iterate over it once."""

    transport: Transport
    """Sends the requests."""
    request: Callable[[str, int], Request]
    """Builds the request that follows a version for some seconds."""
    pauses: Pauses
    """How often, and how fast, a cut watch is resumed."""
    resource_version: str
    """The last version seen."""
    stop: Stop
    """Ends the watch."""
    seconds: int = field(default_factory=watch_seconds)
    """How long the server is asked to keep it open."""
    _events: "queue.Queue[Event | ClusterError | None]" = field(default_factory=lambda: queue.Queue(_HELD))
    _closed: threading.Event = field(default_factory=threading.Event)
    _response: Any = None

    def __iter__(self) -> Iterator[Event]:
        reader = threading.Thread(target=self._run, name=f"watch {self.request('', 0).subject}", daemon=True)
        reader.start()
        try:
            while not self.stop.is_set():
                try:
                    item = self._events.get(timeout=_TICK)
                except queue.Empty:
                    continue
                if item is None:
                    return
                if isinstance(item, ClusterError):
                    raise item
                yield item
        finally:
            self._closed.set()
            self._shut()

    def _run(self) -> None:
        try:
            self._follow()
            self._put(None)
        except ClusterError as error:
            self._put(error)
        except Exception as error:
            self._put(ClusterError(f"The watch ended by a defect: {type(error).__name__}: {error}"))

    def _follow(self) -> None:
        """Read until the server ends the watch in its own time; resume it when it is cut earlier."""
        pauses = replace(self.pauses, stop=_Either(self.stop, self._closed))
        end = pauses.clock() + self.seconds
        tries = pauses.begin()
        renewed = False
        while not self._ended():
            left = int(end - pauses.clock())
            if left < 1:
                return
            session = self.transport.session
            request = self.request(self.resource_version, left)
            before, headers, trouble = self.resource_version, None, None
            try:
                code, headers, body = self._read(request, session, left)
                if code == 200:
                    if pauses.clock() >= end - 1:
                        return
                elif code == 401 and not renewed:
                    renewed = True
                    if self.transport.renew(session):
                        continue
                if code != 200:
                    trouble = failure(request, code, headers, body, credentials=session.credentials)
            except (Unreachable, Busy) as error:
                trouble = error
            if trouble is not None and not isinstance(trouble, Unreachable | Busy):
                raise trouble
            if before != self.resource_version:
                tries = pauses.begin()
            if not tries.again(headers) and not self._ended():
                if trouble is not None:
                    raise trouble
                tries = pauses.begin()

    def _read(self, request: Request, session: Session, seconds: int) -> tuple[int, Any, bytes]:
        response = self.transport.open_stream(request, session, seconds + READ_SECONDS)
        self._response = response
        try:
            if self._ended():
                return 200, response.headers, b""
            if response.status != 200:
                return response.status, response.headers, response.read(decode_content=True)
            rest = b""
            for piece in self._pieces(response):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        self._take(request, session, line)
            return 200, response.headers, b""
        except ClusterError:
            raise
        except Exception as error:
            if self._ended():
                return 200, response.headers, b""
            raise self.transport.broken_stream(request, session, error) from None
        finally:
            self._response = None
            with contextlib.suppress(Exception):
                response.close()

    def _pieces(self, response: Any) -> Iterator[bytes]:
        if getattr(response, "chunked", False):
            yield from response.read_chunked(decode_content=True)
            return
        while piece := response.read1(65536):
            yield piece

    def _take(self, request: Request, session: Session, line: bytes) -> None:
        try:
            value = cast("Json", json.loads(line))
            kind, obj = str(value["type"]), cast("Json", value["object"])
        except (ValueError, KeyError, TypeError):
            raise Unreachable(f"The watch of {request.subject} delivered something that is not an event.") from None
        if kind == "ERROR":
            code = int(obj.get("code") or 500)
            raise failure(request, code, {}, json.dumps(obj).encode(), credentials=session.credentials)
        version = at(obj, "metadata", "resourceVersion")
        if version:
            self.resource_version = str(version)
        self._put(Event(cast("Literal['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']", kind), obj))

    def _put(self, item: Event | ClusterError | None) -> None:
        while not self._ended():
            with contextlib.suppress(queue.Full):
                self._events.put(item, timeout=_TICK)
                return

    def _ended(self) -> bool:
        return self._closed.is_set() or self.stop.is_set()

    def _shut(self) -> None:
        response = self._response
        if response is not None:
            with contextlib.suppress(Exception):
                response.shutdown()


@dataclass(frozen=True, slots=True)
class _Either:
    first: Stop
    second: Stop

    def is_set(self) -> bool:
        return self.first.is_set() or self.second.is_set()
