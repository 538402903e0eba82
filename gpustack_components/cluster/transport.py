"""Sends requests over a session's connections; what it means when an answer does not come is told apart here."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_components.cluster import kubeconfig
from gpustack_components.cluster.errors import broken
from gpustack_components.cluster.requests import Request
from gpustack_components.cluster.session import Session, open_session

CONNECT_SECONDS = 5.0
"""Longest wait for a connection, TLS included."""
READ_SECONDS = 30.0
"""Longest silence while an answer is awaited or read."""

_NEVER_SENT = frozenset(
    {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "SSLError", "ProxyError", "LocationValueError"}
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: any HTTP status."""

    code: int
    """HTTP status code."""
    headers: Mapping[str, str]
    """Headers, looked up without regard to case."""
    body: bytes
    """The body as sent."""


class Transport:
    """Sends requests, from any thread."""

    def __init__(
        self,
        source: kubeconfig.Source,
        context: str | None,
        *,
        on_request: Callable[[Request], None] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._source = source
        self._context = context
        self._on_request = on_request
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._session = open_session(source, context)
        self._renewing = threading.Lock()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._session.server

    @property
    def session(self) -> Session:
        """The session now in use; `renew` makes another."""
        return self._session

    def renew(self, stale: Session) -> bool:
        """Load the credentials anew unless another thread has done so; False when what is there now is the same."""
        with self._renewing:
            if self._session is not stale:
                return True
            fresh = open_session(self._source, self._context)
            changed = fresh.request_headers() != stale.request_headers() or fresh.credentials != stale.credentials
            self._session = fresh
            return changed

    def send(self, request: Request, session: Session) -> Answer:
        """Send once and read the whole answer; raises `Unreachable`, or `Lost` when the request may have arrived."""
        response = self._open(request, session, self._read_seconds)
        try:
            body: bytes = response.read(decode_content=True)
        except Exception as error:
            raise self._broken(request, session, error, sent=True) from None
        finally:
            response.release_conn()
        return Answer(response.status, response.headers, body)

    def open_stream(self, request: Request, session: Session, silence: float) -> Any:
        """Send once and return the open urllib3 response; `silence` is the longest pause between two bytes."""
        return self._open(request, session, silence)

    def broken_stream(self, request: Request, session: Session, error: Exception) -> Exception:
        """The error for a stream that broke while it was read."""
        return self._broken(request, session, error, sent=True)

    def _open(self, request: Request, session: Session, read_seconds: float) -> Any:
        import urllib3

        headers = session.request_headers()
        payload = request.payload
        if payload is not None:
            headers["Content-Type"] = request.content_type
        if request.verb == "list":
            headers["Accept-Encoding"] = "gzip"
        elif request.verb == "watch":
            headers["Connection"] = "close"
        if self._on_request is not None:
            self._on_request(request)
        try:
            return session.pool.request(
                request.method,
                session.server + request.target,
                body=payload,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._connect_seconds, read=read_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except Exception as error:
            raise self._broken(request, session, error, sent=type(error).__name__ not in _NEVER_SENT) from None

    def _broken(self, request: Request, session: Session, error: Exception, *, sent: bool) -> Exception:
        import urllib3

        if not isinstance(error, urllib3.exceptions.HTTPError | OSError):
            return error
        return broken(
            request,
            session.server,
            error,
            sent=sent,
            read_seconds=self._read_seconds,
            connect_seconds=self._connect_seconds,
        )
