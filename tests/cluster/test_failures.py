"""What each failure of an API server is called, and what is said about it."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster import port
from gpustack_components.cluster.client import Client, connect
from gpustack_components.cluster.port import POD, WORKLOAD
from gpustack_components.cluster.retrying import Patience
from tests.cluster.certificates import Authority, Pair
from tests.cluster.kubeconfigs import kubeconfig
from tests.faults.proxy import FaultProxy

ONCE = Patience(attempts=1)
A_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}}


def status(code: int, message: str, reason: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
        "details": details,
    }


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        yield proxy


def read(c: Client) -> object:
    return c.get(POD, "team-a", "p")


def make(c: Client) -> object:
    return c.create(A_POD)


def update(c: Client) -> object:
    return c.replace({**A_POD, "metadata": {**A_POD["metadata"], "resourceVersion": "1"}})


def patch(c: Client) -> object:
    return c.patch(POD, "team-a", "p", [{"op": "test", "path": "/metadata/uid", "value": "u"}])


WEBHOOK = 'admission webhook "vpod.kb.io" denied the request: spec: Forbidden: queue name is immutable'
UNSEEN = 'admission webhook "mpod.kb.io" denied the request: Namespace "team-a" not found'
FAILED_HOOK = 'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: connection refused'
RBAC = 'pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "team-a"'


@pytest.mark.parametrize(
    ("ask", "code", "answer", "error", "words"),
    [
        (read, 401, status(401, "Unauthorized"), port.Unauthorized, "refused no credentials of context faults .401."),
        (read, 403, status(403, RBAC, "Forbidden"), port.Forbidden, "Not allowed to get pods in namespace team-a: "),
        (make, 403, status(403, WEBHOOK, "Forbidden"), port.Invalid,
         "webhook vpod.kb.io refused creating Pod team-a/p: spec: Forbidden: queue name is immutable"),
        (make, 400, status(400, WEBHOOK), port.Invalid, "webhook vpod.kb.io refused creating Pod team-a/p"),
        (make, 404, status(404, UNSEEN, "NotFound", name="team-a", kind="Namespace"), port.NotSeenYet,
         'webhook mpod.kb.io does not see yet what it needs when creating Pod team-a/p: Namespace "team-a" not found'),
        (make, 403, status(403, 'pods "p" is forbidden: violates PodSecurity "restricted"', "Forbidden"), port.Invalid,
         "refused creating Pod team-a/p: .*PodSecurity"),
        (make, 422, status(422, 'Pod "p" is invalid: spec.containers: Required value', "Invalid"), port.Invalid,
         "spec.containers: Required value"),
        (make, 409, status(409, 'pods "p" already exists', "AlreadyExists"), port.AlreadyExists, "Pod team-a/p exists"),
        (make, 404, status(404, 'namespaces "team-a" not found', "NotFound", name="team-a", kind="namespaces"),
         port.Invalid, "Namespace team-a does not exist, .* Create it first"),
        (update, 409, status(409, "the object has been modified", "Conflict"), port.Conflict, "has been modified"),
        (update, 404, status(404, 'pods "p" not found', "NotFound", name="p", kind="pods"), port.Conflict,
         "was deleted"),
        (patch, 422, status(422, "the server rejected our request due to an error in our request", "Invalid"),
         port.Conflict, "a condition of the patch no longer holds"),
        (patch, 422, status(422, 'Pod "p" is invalid: spec: Forbidden', "Invalid", name="p", causes=[{}]), port.Invalid,
         "spec: Forbidden"),
        (read, 404, b"404 page not found\n", port.NotServed, r"does not serve Pod \(v1\)"),
        (read, 410, status(410, "too old resource version", "Expired"), port.Expired, "too old"),
        (read, 429, status(429, "Too many requests", "TooManyRequests"), port.Busy, "asking for fewer requests"),
        (read, 503, b"<html>upstream", port.Busy, r"failed \(503\) when reading Pod team-a/p"),
        (make, 500, status(500, FAILED_HOOK, "InternalError"), port.Busy,
         "webhook mpod.kb.io did not answer .* controller"),
        (read, 200, b"<html>log in", port.ClusterError, "is not JSON. .*login page"),
        (read, 302, b"", port.ClusterError, "Unexpected answer 302"),
    ],
)  # fmt: skip
def test_an_answer_becomes_the_error_it_means(
    server: FaultProxy,
    ask: Callable[[Client], object],
    code: int,
    answer: dict[str, Any] | bytes,
    error: type[port.ClusterError],
    words: str,
) -> None:
    server.answer("*", code, answer)
    with pytest.raises(error, match=words) as caught:
        ask(connect(server.kubeconfig, patience=ONCE))
    assert type(caught.value) is error


def test_a_missing_object_is_none_and_a_missing_kind_is_an_error(server: FaultProxy) -> None:
    server.answer("GET /api/v1/*", 404, status(404, 'pods "p" not found', "NotFound", name="p", kind="pods"))
    server.answer("GET /apis/kueue.x-k8s.io/*", 404, b"404 page not found\n")
    cluster = connect(server.kubeconfig)
    assert cluster.get(POD, "team-a", "p") is None
    with pytest.raises(
        port.NotServed, match=r"does not serve Workload .kueue.x-k8s.io/v1beta2.*CustomResourceDefinitions"
    ):
        cluster.get(WORKLOAD, "team-a", "g")
    with pytest.raises(port.NotServed):
        cluster.list(WORKLOAD, "team-a")


def test_a_deletion_of_another_uid_or_of_nothing_is_false(server: FaultProxy) -> None:
    other = {**A_POD, "metadata": {**A_POD["metadata"], "uid": "other"}}
    server.answer(
        "DELETE *", 409, status(409, "uid in precondition: x, UID in object meta: other", "Conflict"), times=1
    )
    server.answer("GET *", 200, other, times=1)
    server.answer("DELETE *", 404, status(404, 'pods "p" not found', "NotFound", name="p", kind="pods"))
    cluster = connect(server.kubeconfig)
    assert cluster.delete(POD, "team-a", "p", uid="mine") is False
    assert cluster.delete(POD, "team-a", "p", uid="mine") is False


def test_nobody_listening_is_said_at_once_on_first_contact(server: FaultProxy) -> None:
    cluster = connect(server.kubeconfig)
    server.go_away()
    with pytest.raises(
        port.Unreachable, match=r"127.0.0.1:.* when reading Pod team-a/p: connection refused. Is it running"
    ):
        cluster.get(POD, "team-a", "p")


def test_an_unknown_host_name_is_said() -> None:
    with pytest.raises(port.Unreachable, match=r"host name is not known. Check `server`"):
        connect(kubeconfig("https://no-such-host.invalid")).get(POD, "a", "b")


class TlsServer:
    """Accepts TLS connections and answers every request with the same status."""

    def __init__(self, pair: Pair, folder: Path, client_ca: bytes | None = None, answer: bytes = b"") -> None:
        paths = [folder / "server.crt", folder / "server.key"]
        for path, content in zip(paths, (pair.certificate, pair.key), strict=True):
            path.write_bytes(content)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(*paths)
        if client_ca is not None:
            self._tls.load_verify_locations(cadata=client_ca.decode())
            self._tls.verify_mode = ssl.CERT_REQUIRED
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(connection, server_side=True) as secured:
                secured.recv(65536)
                secured.sendall(
                    b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                    % (len(self._answer), self._answer)
                )
        except OSError:
            connection.close()

    def close(self) -> None:
        self._socket.close()


def trusting(authority: Authority) -> dict[str, Any]:
    return {"certificate-authority-data": base64.b64encode(authority.pem).decode()}


@pytest.mark.parametrize(
    ("issued", "trusted", "words"),
    [
        ({"address": "127.0.0.1"}, False, "not trusted .*certificate-authority"),
        ({"address": "10.9.8.7"}, True, "is for another name .*tls-server-name"),
        ({"address": "127.0.0.1", "begins": -3, "ends": -1}, True, "out of its time .*clock"),
    ],
)
def test_a_certificate_that_does_not_hold_says_why(
    tmp_path: Path, issued: dict[str, Any], trusted: bool, words: str
) -> None:
    authority = Authority()
    server = TlsServer(authority.issue("server", **issued), tmp_path)
    text = kubeconfig(server.url, cluster=trusting(authority if trusted else Authority()))
    with pytest.raises(port.Unreachable, match=words):
        connect(text).get(POD, "a", "b")
    server.close()


def test_https_asked_of_a_plain_server_says_so(server: FaultProxy) -> None:
    with pytest.raises(port.Unreachable, match="does not speak TLS there"):
        connect(kubeconfig(server.url.replace("http:", "https:"))).get(POD, "a", "b")


def test_an_expired_client_certificate_is_named_as_the_cause_of_a_401(tmp_path: Path) -> None:
    authority = Authority()
    expired = authority.issue("jane", begins=-3, ends=-2)
    server = TlsServer(
        authority.issue("server", address="127.0.0.1"), tmp_path, answer=json.dumps(status(401, "x")).encode()
    )
    user = {
        "client-certificate-data": base64.b64encode(expired.certificate).decode(),
        "client-key-data": base64.b64encode(expired.key).decode(),
    }
    with pytest.raises(
        port.Unauthorized, match=r"the client certificate, which expired on 20\d\d-.* UTC, of context here"
    ):
        connect(kubeconfig(server.url, cluster=trusting(authority), user=user)).get(POD, "a", "b")
    server.close()


def test_a_renewed_token_is_picked_up_after_a_401(server: FaultProxy, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server.call("GET *", lambda: token.write_text("new"))
    server.answer("GET *", 401, status(401, "Unauthorized"), times=1)
    server.answer("GET *", 200, A_POD)
    assert connect(kubeconfig(server.url, user={"tokenFile": str(token)})).get(POD, "team-a", "p") == A_POD
    assert len(server.seen) == 2


def test_the_same_refused_token_is_not_tried_again(server: FaultProxy) -> None:
    server.answer("GET *", 401, status(401, "Unauthorized"))
    with pytest.raises(port.Unauthorized, match=r"the token of context here .*Log in again") as caught:
        connect(kubeconfig(server.url, user={"token": "s3cret"})).get(POD, "team-a", "p")
    assert "s3cret" not in str(caught.value)
    assert len(server.seen) == 1
