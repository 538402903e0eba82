"""Opens a session: whose credentials, over which connections.

Credentials that a kubeconfig holds as they are need nobody's help. Where a login command runs, a login is refreshed, a
proxy is gone through or a Pod's service account is meant, the official client does that; importing it costs more than
all requests of a preview, so it is left alone otherwise. Credential files are removed as soon as the TLS context has
read them, so that a killed process leaves no key behind.
"""

import contextlib
import shutil
import ssl
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpustack_components.cluster import kubeconfig, official, written, x509
from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.login import Login

_USER_AGENT = "gpustack-components"


@dataclass(slots=True)
class Session:
    """Credentials loaded once, and the connections made with them."""

    server: str
    """The API server's URL."""
    pool: Any
    """The urllib3 pool manager."""
    authorization: Callable[[], dict[str, str]]
    """The header with the current token, refreshed when it is due; empty without one."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Headers of every request."""
    credentials: str = "the credentials"
    """What is presented, in words without a secret in them."""

    def request_headers(self) -> dict[str, str]:
        """Headers with the current token."""
        return {**self.headers, **self.authorization()}


def open_session(source: kubeconfig.Source, context: str | None) -> Session:
    """Load credentials and prepare TLS; raises `KubeconfigError`, or `Unauthorized` when a login command fails."""
    if source.in_cluster and context:
        raise KubeconfigError(
            f"Context {context} was asked for, but {source.origin} leads to no kubeconfig to find it in."
        )
    access = None if source.in_cluster else kubeconfig.read(source, context)
    with _scratch() as folder:
        if access is not None and written.suffices(access):
            login = written.log_in(access, folder)
        else:
            login = official.log_in(access, folder)
        certificate = _certificate_end(login.cert_file)
        tls = _tls(login) if login.server.startswith("https") else None
    headers = {"Accept": "application/json", "User-Agent": _USER_AGENT}
    if access is not None:
        headers |= access.impersonation
    return Session(login.server, login.pool(tls), login.authorization, headers, _describe(access, certificate))


def _tls(login: Login) -> ssl.SSLContext:
    import urllib3
    from urllib3.util.ssl_ import create_urllib3_context

    context = create_urllib3_context()
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    try:
        if login.verify:
            if login.ca_file:
                context.load_verify_locations(login.ca_file)
            else:
                context.load_default_certs()
        else:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if login.cert_file:
            context.load_cert_chain(login.cert_file, login.key_file)
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


@contextlib.contextmanager
def _scratch() -> Generator[str]:
    folder = tempfile.mkdtemp(prefix="gpustack-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
