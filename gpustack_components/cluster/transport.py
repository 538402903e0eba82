"""The official client as transport: credentials, TLS and proxies are its work; requests and answers stay ours.

It is imported on first use only, for it costs several hundred milliseconds. Credential files that it writes are removed
as soon as the TLS context has read them, so that a killed process leaves no key behind.
"""

import contextlib
import io
import logging
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpustack_components.cluster import kubeconfig, x509
from gpustack_components.cluster.errors import KubeconfigError, broken
from gpustack_components.cluster.port import Unauthorized
from gpustack_components.cluster.readings import at
from gpustack_components.cluster.requests import Request

CONNECT_SECONDS = 5.0
"""Longest wait for a connection, TLS included."""
READ_SECONDS = 30.0
"""Longest silence while an answer is awaited or read."""

_USER_AGENT = "gpustack-components"
_NEVER_SENT = frozenset(
    {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "SSLError", "ProxyError", "LocationValueError"}
)
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: any HTTP status."""

    code: int
    """HTTP status code."""
    headers: Mapping[str, str]
    """Headers, looked up without regard to case."""
    body: bytes
    """The body as sent."""


@dataclass(slots=True)
class Session:
    """Credentials loaded once, and the connections made with them."""

    server: str
    """The API server's URL."""
    configuration: Any
    """The official client's `Configuration`."""
    pool: Any
    """The official client's urllib3 pool manager."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers of every request."""
    credentials: str = "the credentials"
    """What is presented, in words without a secret in them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards the client's refresh hook."""

    def request_headers(self) -> dict[str, str]:
        """Headers with the current bearer token; runs the official client's refresh when it is due."""
        headers = dict(self.headers)
        with self.lock, _captured_errors():
            settings: dict[str, Any] = self.configuration.auth_settings()
        for setting in settings.values():
            if setting.get("value"):
                headers[setting["key"]] = setting["value"]
        return headers


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


def open_session(source: kubeconfig.Source, context: str | None) -> Session:
    """Load credentials and prepare TLS; raises `KubeconfigError`, or `Unauthorized` when a login command fails."""
    if source.in_cluster and context:
        raise KubeconfigError(
            f"Context {context} was asked for, but {source.origin} leads to no kubeconfig to find it in."
        )
    access = None if source.in_cluster else kubeconfig.read(source, context)
    with _loading:  # the official client's modules import each other, which two threads at once end with half of one
        from kubernetes.client import Configuration  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]
        from kubernetes.client.rest import RESTClientObject  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    configuration: Any = Configuration()
    configuration.socket_options = _keep_alive()
    configuration.connection_pool_maxsize = 16
    with _loading, _scratch() as folder:
        if access is None:
            _load_in_cluster(configuration)
        else:
            _load(access, configuration, folder)
        certificate = _certificate_end(configuration.cert_file)
        context_tls = _tls(configuration) if str(configuration.host).startswith("https") else None
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    try:
        pool: Any = RESTClientObject(configuration).pool_manager
    except (ImportError, ValueError) as error:
        socks = " (a SOCKS proxy needs the package pysocks)" if isinstance(error, ImportError) else ""
        raise KubeconfigError(f"The proxy that is configured cannot be used: {error}{socks}.") from None
    if context_tls is not None:
        for key in ("ca_certs", "ca_cert_data", "cert_file", "key_file"):
            pool.connection_pool_kw.pop(key, None)
        pool.connection_pool_kw["ssl_context"] = context_tls
    headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
    if access is not None:
        headers |= access.impersonation
    return Session(
        server=str(configuration.host).rstrip("/"),
        configuration=configuration,
        pool=pool,
        headers=headers,
        credentials=_describe(access, certificate),
    )


def _load(access: kubeconfig.Access, configuration: Any, folder: str) -> None:
    from kubernetes.config.config_exception import ConfigException  # pyright: ignore[reportMissingTypeStubs]
    from kubernetes.config.kube_config import KubeConfigLoader  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    with _captured_errors() as complaints:
        try:
            loader: Any = KubeConfigLoader(
                access.config, active_context=access.context, config_base_path="", temp_file_path=folder
            )
            loader.load_and_set(configuration)
        except (ConfigException, ValueError, TypeError, OSError) as error:
            detail = str(error) if isinstance(error, ConfigException) else type(error).__name__
            raise KubeconfigError(f"Context {access.context} cannot be used: {detail}.") from None
    if access.user.get("exec") and not configuration.api_key and not configuration.cert_file:
        command = at(access.user, "exec", "command") or "(none)"
        said = " ".join("; ".join(complaints).split())[:300]
        raise Unauthorized(
            f"The login command of context {access.context} ({command}) gave no credentials: {said or 'no output'}. "
            "Run it by hand, or log in again."
        )


def _load_in_cluster(configuration: Any) -> None:
    from kubernetes.config.config_exception import ConfigException  # pyright: ignore[reportMissingTypeStubs]
    from kubernetes.config.incluster_config import load_incluster_config  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise KubeconfigError(
            f"The Pod's service account cannot be used: {error} Does this run in a Pod with a mounted token?"
        ) from None


def _tls(configuration: Any) -> ssl.SSLContext:
    import urllib3
    from urllib3.util.ssl_ import create_urllib3_context

    context = create_urllib3_context()
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    try:
        if configuration.verify_ssl:
            if configuration.ssl_ca_cert:
                context.load_verify_locations(configuration.ssl_ca_cert)
            else:
                context.load_default_certs()
        else:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        raise KubeconfigError(
            "A certificate or key in the kubeconfig cannot be read "
            f"({getattr(error, 'reason', None) or error.strerror or type(error).__name__}). Do client certificate and "
            "key belong together, and are they PEM?"
        ) from None
    return context


def _certificate_end(cert_file: str | None) -> datetime | None:
    if not cert_file:
        return None
    try:
        return x509.not_after(Path(cert_file).read_text())
    except (OSError, ValueError):
        return None


def _describe(access: kubeconfig.Access | None, certificate_end: datetime | None) -> str:
    if access is None:
        return "the Pod's service account token"
    what = next(
        (words for key, words in _METHODS.items() if access.user.get(key)),
        "no credentials" if not access.user else "the credentials",
    )
    if (
        certificate_end is not None
        and what.startswith("the client certificate")
        and certificate_end < datetime.now(UTC)
    ):
        what = f"the client certificate, which expired on {certificate_end:%Y-%m-%d %H:%M} UTC,"
    return f"{what} of context {access.context}"


_METHODS = {
    "token": "the token",
    "tokenFile": "the token file",
    "exec": "what the login command gave",
    "client-certificate-data": "the client certificate",
    "client-certificate": "the client certificate",
    "auth-provider": "the login",
    "username": "user name and password",
}


def _keep_alive() -> list[tuple[int, int, int]]:
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), seconds))
    return options


@contextlib.contextmanager
def _scratch() -> Generator[str]:
    folder = tempfile.mkdtemp(prefix="gpustack-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _captured_errors() -> Generator[list[str]]:
    """The official client only logs when a login command fails; take those lines instead of letting them be printed."""
    stream = io.StringIO()
    here = threading.get_ident()
    handler = logging.StreamHandler(stream)
    handler.addFilter(lambda record: record.thread == here)
    root = logging.getLogger()
    lines: list[str] = []
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        lines.extend(line for line in stream.getvalue().splitlines() if line.strip())
