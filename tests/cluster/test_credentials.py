"""Whose credentials are presented, and that a kubeconfig's own ones need no official client."""

import base64
import http.server
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack_components.cluster import kubeconfig as kubeconfigs
from gpustack_components.cluster import official, written
from gpustack_components.cluster.client import connect
from gpustack_components.cluster.errors import KubeconfigError
from gpustack_components.cluster.port import POD, Unreachable
from tests.cluster.certificates import Authority
from tests.cluster.kubeconfigs import kubeconfig

A_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}}
AUTHORITY = Authority()
JANE = AUTHORITY.issue("jane")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def access(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> kubeconfigs.Access:
    return kubeconfigs.read(kubeconfigs.locate(kubeconfig("https://a.example:6443/", cluster=cluster, user=user)))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Server:
    """An HTTPS server that asks for a client certificate, and notes who came and which name was meant."""

    def __init__(self, folder: Path) -> None:
        pair = AUTHORITY.issue("server", address="127.0.0.1")
        (folder / "crt").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        self.subjects: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.names: list[str | None] = []
        noted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer: Any = self.connection
                certificate = peer.getpeercert() or {"subject": ()}
                noted.subjects += [value for part in certificate["subject"] for _, value in part]
                noted.headers.append({key.lower(): value for key, value in self.headers.items()})
                body = json.dumps(A_POD).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=AUTHORITY.pem.decode())
        tls.verify_mode = ssl.CERT_OPTIONAL
        tls.load_cert_chain(folder / "crt", folder / "key")
        tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path)
    yield started
    started.close()


TRUSTING = {"certificate-authority-data": encoded(AUTHORITY.pem)}
AS_JANE = {"client-certificate-data": encoded(JANE.certificate), "client-key-data": encoded(JANE.key)}


def test_a_client_certificate_is_presented(server: Server) -> None:
    assert connect(kubeconfig(server.url, cluster=TRUSTING, user=AS_JANE)).get(POD, "team-a", "p") == A_POD
    assert server.subjects == ["jane"]
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("user", "presented"),
    [
        ({}, None),
        ({"token": "t0ken"}, "Bearer t0ken"),
        ({"token": "t0ken", "username": "jane", "password": "x"}, "Bearer t0ken"),
        ({"username": "jane", "password": "pä:ss"}, f"Basic {encoded('jane:pä:ss'.encode())}"),
    ],
)
def test_a_token_goes_before_a_password(server: Server, user: dict[str, Any], presented: str | None) -> None:
    connect(kubeconfig(server.url, cluster=TRUSTING, user=user)).get(POD, "team-a", "p")
    assert server.headers[0].get("authorization") == presented


def test_a_server_that_is_not_checked_is_reached_and_one_that_is_not_trusted_is_not(server: Server) -> None:
    unchecked = {"insecure-skip-tls-verify": True}
    assert connect(kubeconfig(server.url, cluster=unchecked)).get(POD, "team-a", "p") == A_POD
    with pytest.raises(Unreachable, match="not trusted"):
        connect(kubeconfig(server.url)).get(POD, "team-a", "p")


def test_the_server_name_of_the_kubeconfig_is_the_one_that_is_asked_for_and_checked(server: Server) -> None:
    with pytest.raises(Unreachable, match="is for another name"):
        connect(kubeconfig(server.url, cluster={**TRUSTING, "tls-server-name": "kube.example"})).get(POD, "a", "p")
    assert server.names == ["kube.example"]


@pytest.mark.parametrize(
    ("printed", "subjects", "presented"),
    [
        ({"token": "fresh"}, [], "Bearer fresh"),
        (
            {"clientCertificateData": JANE.certificate.decode(), "clientKeyData": JANE.key.decode()},
            ["jane"],
            None,
        ),
    ],
)
def test_what_a_login_command_prints_is_presented(
    server: Server, tmp_path: Path, printed: dict[str, str], subjects: list[str], presented: str | None
) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": printed}
    (tmp_path / "credential.json").write_text(json.dumps(credential))
    command = {"command": "cat", "args": [str(tmp_path / "credential.json")], "interactiveMode": "Never"}
    user = {"exec": {"apiVersion": credential["apiVersion"], **command}}
    assert connect(kubeconfig(server.url, cluster=TRUSTING, user=user)).get(POD, "team-a", "p") == A_POD
    assert server.subjects == subjects
    assert server.headers[0].get("authorization") == presented


FILES = {"ca.pem": AUTHORITY.pem, "crt.pem": JANE.certificate, "key.pem": JANE.key, "token.txt": b"from-a-file"}


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {}),
        (TRUSTING, AS_JANE),
        ({"certificate-authority": "ca.pem"}, {"client-certificate": "crt.pem", "client-key": "key.pem"}),
        (
            {**TRUSTING, "certificate-authority": "key.pem"},
            {**AS_JANE, "client-certificate": "key.pem", "client-key": "crt.pem"},
        ),
        ({"insecure-skip-tls-verify": True}, {"token": "t"}),
        ({"insecure-skip-tls-verify": False}, {"tokenFile": "token.txt"}),
        ({"tls-server-name": "kube.example"}, {"token": "t", "tokenFile": "token.txt"}),
        ({}, {"username": "jane", "password": "s3cret"}),
        ({}, {"username": "jane"}),
        ({}, {"token": "", "username": "jane", "password": "s3cret"}),
    ],
)
def test_the_official_client_presents_and_trusts_the_same(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config").write_text(kubeconfig("https://a.example:6443/", cluster=cluster, user=user))
    chosen = kubeconfigs.read(kubeconfigs.locate(str(tmp_path / "config")))
    assert written.suffices(chosen)

    def seen(log_in: Any, folder: Path) -> dict[str, Any]:
        folder.mkdir()
        login = log_in(chosen, str(folder))
        files = {
            what: Path(path).read_bytes() if path else None
            for what, path in (("ca", login.ca_file), ("certificate", login.cert_file), ("key", login.key_file))
        }
        name = login.pool(ssl.create_default_context()).connection_pool_kw.get("server_hostname")
        return {"server": login.server, "verify": login.verify, "who": login.authorization(), "name": name, **files}

    assert seen(written.log_in, tmp_path / "ours") == seen(official.log_in, tmp_path / "theirs")


@pytest.mark.parametrize(
    ("cluster", "user", "variables", "suffices"),
    [
        ({}, {"token": "t"}, {}, True),
        ({}, {"exec": {"command": "login", "apiVersion": "client.authentication.k8s.io/v1"}}, {}, False),
        ({}, {"token": "t", "auth-provider": {"name": "oidc"}}, {}, False),
        ({"proxy-url": "http://proxy.example:3128"}, {"token": "t"}, {}, False),
        ({}, {"token": "t"}, {"HTTPS_PROXY": "http://proxy.example:3128"}, False),
        ({}, {"token": "t"}, {"all_proxy": "socks5://proxy.example:1080"}, False),
        ({}, {"token": "t"}, {"HTTP_PROXY": "http://proxy.example:3128"}, True),
    ],
)
def test_what_has_to_be_run_refreshed_or_gone_through_is_left_to_the_official_client(
    monkeypatch: pytest.MonkeyPatch,
    cluster: dict[str, Any],
    user: dict[str, Any],
    variables: dict[str, str],
    suffices: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert written.suffices(access(cluster, user)) is suffices


def test_written_credentials_do_not_load_the_official_client() -> None:
    program = """
import sys
from gpustack_components.cluster.client import connect
connect(sys.argv[1])
print("kubernetes" in sys.modules)
"""
    text = kubeconfig("https://a.example", cluster=TRUSTING, user=AS_JANE)
    done = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({"certificate-authority-data": "kein base64"}, {}, "certificate-authority-data is not base64"),
        ({}, {"client-key-data": "s3crät"}, "client-key-data is not base64"),
        ({"certificate-authority-data": encoded(b"no certificate")}, {}, "are they PEM"),
        ({}, {"client-certificate-data": AS_JANE["client-certificate-data"]}, "belong together"),
    ],
)
def test_credentials_that_cannot_be_read_are_named_but_not_shown(
    cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(KubeconfigError, match=words) as caught:
        connect(kubeconfig("https://a.example", cluster=cluster, user=user))
    assert "s3cr" not in str(caught.value)


def test_a_token_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(KubeconfigError, match=r"the tokenFile .*token cannot be read: it is not text"):
        connect(kubeconfig("https://a.example", user={"tokenFile": str(tmp_path / "token")}))
