"""What a failed exchange means: one of the port's errors, worded for a person.

Only the server's own words, addresses and names go into a sentence; never a credential, a kubeconfig's text or a
request's body.
"""

import json
import re
import ssl
from collections.abc import Mapping
from typing import Any

from gpustack_components.cluster.port import (
    AlreadyExists,
    Busy,
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    Json,
    NotSeenYet,
    NotServed,
    Unauthorized,
    Unreachable,
)
from gpustack_components.cluster.readings import at
from gpustack_components.cluster.requests import Request

_WRITES = frozenset({"create", "update", "patch", "delete"})
_WEBHOOK_REFUSED = re.compile(r'admission webhook "(?P<name>[^"]+)" denied the request: ?(?P<words>.*)', re.DOTALL)
_WEBHOOK_FAILED = re.compile(r'failed calling webhook "(?P<name>[^"]+)": ?(?P<words>.*)', re.DOTALL)
_UNPRIVILEGED = re.compile(r"User \"[^\"]*\" cannot ")


class KubeconfigError(ClusterError):
    """No usable way to a cluster in the kubeconfig: missing file, broken YAML, unknown context, missing key file."""


class Lost(Unreachable):
    """The connection broke after the request may have reached the server: what it asked for may have happened."""


def status_of(body: bytes) -> Json:
    """The `Status` object in an answer's body, or an empty dict when it is something else."""
    try:
        value: Any = json.loads(body)
    except ValueError:
        return {}
    return value if at(value, "kind") == "Status" else {}


def worth_repeating(code: int, body: bytes) -> bool:
    """Whether the same request may be answered better a moment later."""
    return code == 429 or (code >= 500 and code != 501 and not _outside_schema(code, _words(status_of(body), body)))


def names_an_object(body: bytes) -> bool:
    """Whether a 404 says that an object is missing, rather than that the kind or path is not served."""
    status = status_of(body)
    return status.get("reason") == "NotFound" and bool(at(status, "details", "name"))


def failure(
    request: Request, code: int, headers: Mapping[str, str], body: bytes, *, credentials: str = "the credentials"
) -> ClusterError:
    """The error that an HTTP answer of 300 or above means; `credentials` says in words what this client presented."""
    status = status_of(body)
    words = _words(status, body)
    asked = f"{_GERUNDS[request.verb]} {request.subject}"
    if code == 401:
        return Unauthorized(
            f"The API server refused {credentials} (401) when {asked}. Log in again or renew them, then retry."
        )
    if code == 403:
        return _forbidden(request, asked, words)
    if code == 404:
        return _not_found(request, asked, status, words, body)
    if code == 409:
        if status.get("reason") == "AlreadyExists":
            return AlreadyExists(f"{request.subject} exists already.")
        return Conflict(f"Conflict when {asked}: {words}")
    if code == 410:
        return Expired(f"The version asked for when {asked} is too old on the server: {words}")
    if code == 422 and _failed_test(request, status, words):
        return Conflict(f"Conflict when {asked}: a condition of the patch no longer holds.")
    if code in (400, 413, 415, 422) or _outside_schema(code, words):
        return Invalid(_refused(asked, words))
    if code == 429 or code >= 500:
        return Busy(_busy(asked, code, headers, words))
    return ClusterError(f"Unexpected answer {code} when {asked}: {words}. Is the address really an API server's?")


def not_json(request: Request, code: int) -> ClusterError:
    """An answer that claims success and is not JSON."""
    return ClusterError(
        f"Answer {code} when {_GERUNDS[request.verb]} {request.subject} is not JSON. Is the address in the "
        "kubeconfig really an API server's, and not a login page's or a proxy's?"
    )


def broken(
    request: Request, server: str, cause: BaseException, *, sent: bool, read_seconds: float, connect_seconds: float
) -> Unreachable:
    """The error for an exchange that got no answer; `cause` is the transport's exception."""
    asked = f"{_GERUNDS[request.verb]} {request.subject}"
    root = root_cause(cause)
    start = f"No answer from the API server at {server} when {asked}"
    kind = type(cause).__name__
    if isinstance(root, ssl.SSLError) or kind == "SSLError":
        return Unreachable(f"No TLS connection to the API server at {server}: {_tls(root)}")
    if "Timeout" in kind and sent:
        return Lost(f"{start} within {read_seconds:g} s.")
    if "Timeout" in kind:
        return Unreachable(
            f"{start}: no connection within {connect_seconds:g} s. Is the address right, and is there a route to it?"
        )
    if "NameResolution" in kind or "gaierror" in type(root).__name__:
        return Unreachable(f"{start}: its host name is not known. Check `server` in the kubeconfig, DNS and VPN.")
    if kind == "ProxyError":
        return Unreachable(f"{start}: the proxy does not pass it on ({_short(root)}). Check proxy-url or HTTPS_PROXY.")
    if isinstance(root, ConnectionRefusedError):
        return Unreachable(f"{start}: connection refused. Is it running, and is the port right?")
    if sent:
        return Lost(f"{start}: the connection broke ({_short(root)}).")
    return Unreachable(f"{start}: {_short(root)}.")


def root_cause(error: BaseException) -> BaseException:
    """The innermost exception that led to this one."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        reason: object = getattr(error, "reason", None)
        inner = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__
        if inner is None and error.args and isinstance(error.args[-1], BaseException):
            inner = error.args[-1]
        if inner is None:
            return error
        error = inner
    return error


_GERUNDS = {
    "get": "reading",
    "list": "listing",
    "watch": "watching",
    "create": "creating",
    "update": "updating",
    "patch": "changing",
    "delete": "deleting",
}


def _words(status: Json, body: bytes) -> str:
    message = str(status.get("message") or "").strip()
    if message:
        return message
    text = body[:300].decode(errors="replace").strip()
    return " ".join(text.split()) if text and not text.startswith("<") else "(no explanation)"


def _forbidden(request: Request, asked: str, words: str) -> ClusterError:
    if request.verb in _WRITES and not _UNPRIVILEGED.search(words):
        return Invalid(_refused(asked, words))
    where = f" in namespace {request.namespace}" if request.namespace else ""
    resource = request.kind.plural if request.kind else request.path
    return Forbidden(
        f"Not allowed to {request.verb} {resource}{where}: {words}. Ask for a Role that "
        "grants it, or use another context."
    )


def _not_found(request: Request, asked: str, status: Json, words: str, body: bytes) -> ClusterError:
    if names_an_object(body):
        if at(status, "details", "kind") == "namespaces":
            return Invalid(
                f"Namespace {at(status, 'details', 'name')} does not exist, so {request.subject} cannot be there. "
                "Create it first."
            )
        if by := _WEBHOOK_REFUSED.search(words):
            return NotSeenYet(
                f"Admission webhook {by['name']} does not see yet what it needs when {asked}: {by['words']}"
            )
        return Invalid(f"Not found when {asked}: {words}")
    if request.kind is None:
        return NotServed(f"The API server does not serve {request.path}.")
    kind = request.kind
    return NotServed(
        f"The API server does not serve {kind.kind} ({kind.api_version}). "
        "Are its CustomResourceDefinitions installed, in this version?"
    )


def _failed_test(request: Request, status: Json, words: str) -> bool:
    """Whether a JSON patch failed for one of its conditions; the server does not say so, and says nothing else."""
    if request.content_type != "application/json-patch+json" or at(status, "details", "causes"):
        return False
    conditional = any(at(operation, "op") == "test" for operation in request.body)
    return conditional and "rejected our request due to an error in our request" in words


def _outside_schema(code: int, words: str) -> bool:
    """Server-side apply answers 500 to a field that the kind does not have."""
    return code == 500 and "typed patch object" in words


def _refused(asked: str, words: str) -> str:
    by = _WEBHOOK_REFUSED.search(words)
    if by:
        return f"Admission webhook {by['name']} refused {asked}: {by['words'].strip() or '(no explanation)'}"
    return f"The API server refused {asked}: {words}"


def _busy(asked: str, code: int, headers: Mapping[str, str], words: str) -> str:
    by = _WEBHOOK_FAILED.search(words)
    if by:
        return (
            f"Admission webhook {by['name']} did not answer when {asked}: {by['words'].strip()}. "
            "Is its controller running?"
        )
    wait = headers.get("Retry-After")
    again = f"; it asks to wait {wait} s" if wait and wait.isdigit() else ""
    overloaded = "is asking for fewer requests" if code == 429 else f"failed ({code})"
    return f"The API server {overloaded} when {asked}: {words}{again}."


def _tls(root: BaseException) -> str:
    if isinstance(root, ssl.SSLCertVerificationError):
        reason = root.verify_message or _short(root)
        if "mismatch" in reason or "doesn't match" in reason:
            return (
                f"its certificate is for another name ({reason}). "
                "Use a name it covers in `server`, or set tls-server-name."
            )
        if "expired" in reason or "not yet valid" in reason:
            return f"its certificate is out of its time ({reason}). Renew it, and check this machine's clock."
        return f"its certificate is not trusted ({reason}). Check certificate-authority(-data) in the kubeconfig."
    words = _short(root)
    if "WRONG_VERSION_NUMBER" in words or "record layer" in words:
        return "it does not speak TLS there. Check `server` in the kubeconfig: scheme and port."
    if "CERTIFICATE_REQUIRED" in words or "alert" in words.lower():
        return f"it broke off the handshake ({words}). Check the client certificate in the kubeconfig."
    return f"{words}."


def _short(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
