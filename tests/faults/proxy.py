"""A proxy in front of a real API server that misbehaves as a test tells it: faults of networks and busy servers.

Clients speak plain HTTP to it, with the kubeconfig it offers; it speaks to the API server with the credentials of the
kubeconfig it was given. Without one it answers only what is scripted. Faults apply in the order they were scripted; one
that is used up steps aside.

    with FaultProxy(Path(kubeconfig)) as proxy:
        proxy.answer("POST */pods*", 429, retry_after=1, times=2)
        proxy.lose("POST */pods*", times=1)
        cluster = connect(proxy.kubeconfig)
        ...
        proxy.cut_streams(); proxy.go_away(); proxy.come_back()
"""

import base64
import contextlib
import fnmatch
import http.client
import http.server
import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import yaml

Json = dict[str, Any]


@dataclass(slots=True)
class Fault:
    """One scripted misbehaviour, for requests whose `METHOD /path?query` matches the pattern."""

    pattern: str
    action: Literal["answer", "delay", "drop", "lose", "repeat", "hang", "call"]
    times: int | None = None
    code: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    seconds: float = 0.0
    call: Callable[[], object] | None = None
    used: int = 0
    """How often it has struck."""


class FaultProxy:
    """Listens on loopback from construction to `close`; every method may be called from any thread."""

    def __init__(self, kubeconfig: Path | None = None) -> None:
        self._upstream = None if kubeconfig is None else Upstream(kubeconfig)
        self._lock = threading.RLock()
        self._faults: list[Fault] = []
        self._connections: set[socket.socket] = set()
        self._streams: set[socket.socket] = set()
        self._muted: set[socket.socket] = set()
        self._server: _Server | None = None
        self._port = 0
        self.seen: list[str] = []
        """Every request that arrived, as `METHOD /path?query`, in order."""
        self.come_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> str:
        """The text of a kubeconfig that leads through it."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "faults",
                "contexts": [{"name": "faults", "context": {"cluster": "faults", "user": "faults"}}],
                "clusters": [{"name": "faults", "cluster": {"server": self.url}}],
                "users": [{"name": "faults", "user": {}}],
            }
        )

    def answer(
        self,
        pattern: str,
        code: int,
        body: Json | bytes | None = None,
        *,
        retry_after: int | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer in the server's place, without asking it; a `Status` of that code unless a body is given."""
        if body is None:
            body = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "message": f"scripted {code}",
                "code": code,
            }
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return self._script(Fault(pattern, "answer", times, code, payload, headers))

    def delay(self, pattern: str, seconds: float, *, times: int | None = None) -> Fault:
        """Pass it on only after some time."""
        return self._script(Fault(pattern, "delay", times, seconds=seconds))

    def drop(self, pattern: str, *, times: int | None = None) -> Fault:
        """Close the connection; the server never hears of the request."""
        return self._script(Fault(pattern, "drop", times))

    def lose(self, pattern: str, *, times: int | None = None) -> Fault:
        """Let the server act, then close the connection instead of answering."""
        return self._script(Fault(pattern, "lose", times))

    def repeat(self, pattern: str, *, times: int | None = None) -> Fault:
        """Let the server act twice and pass on its second answer, as a proxy does that tries again by itself."""
        return self._script(Fault(pattern, "repeat", times))

    def hang(self, pattern: str, *, times: int | None = None) -> Fault:
        """Take the request and never answer, until the connection ends."""
        return self._script(Fault(pattern, "hang", times))

    def call(self, pattern: str, function: Callable[[], object], *, times: int | None = 1) -> Fault:
        """Run a function before the request is passed on: to change the world at a chosen moment."""
        return self._script(Fault(pattern, "call", times, call=function))

    def clear(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    def cut_streams(self) -> int:
        """Break every open watch; returns how many there were."""
        with self._lock:
            streams = list(self._streams)
        for connection in streams:
            _shut(connection)
        return len(streams)

    def mute_streams(self) -> int:
        """Let every open watch stand and deliver nothing more, as when a network forgets a connection; how many."""
        with self._lock:
            self._muted = set(self._streams)
            return len(self._muted)

    def is_muted(self, connection: socket.socket) -> bool:
        """Whether this watch delivers nothing any more."""
        with self._lock:
            return connection in self._muted

    def open_streams(self) -> int:
        """How many watches are open."""
        with self._lock:
            return len(self._streams)

    def go_away(self) -> None:
        """Refuse connections, and break those that are open."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)

    def come_back(self) -> None:
        """Listen again, on the same port."""
        if self._server is None:
            self._server = _Server(self, self._port)
            self._port = self._server.server_port
            threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fault proxy", daemon=True).start()

    def close(self) -> None:
        """Stop for good."""
        self.go_away()
        if self._upstream is not None:
            self._upstream.close()

    def count(self, pattern: str) -> int:
        """How many requests that match arrived so far."""
        with self._lock:
            return sum(fnmatch.fnmatchcase(line, pattern) for line in self.seen)

    def _script(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def note(self, line: str) -> list[Fault]:
        """Remember a request; the faults that strike it."""
        with self._lock:
            self.seen.append(line)
            striking: list[Fault] = []
            for fault in self._faults:
                if (fault.times is None or fault.used < fault.times) and fnmatch.fnmatchcase(line, fault.pattern):
                    fault.used += 1
                    striking.append(fault)
                    if fault.action not in ("delay", "call"):
                        break
            return striking

    @contextlib.contextmanager
    def counted(self, connection: socket.socket, *, stream: bool = False) -> Iterator[None]:
        """Keep a connection in reach of `go_away`, or of `cut_streams`."""
        held = self._streams if stream else self._connections
        with self._lock:
            held.add(connection)
        try:
            yield
        finally:
            with self._lock:
                held.discard(connection)

    def forward(self, method: str, target: str, headers: dict[str, str], body: bytes) -> "Passage":
        """Ask the real server."""
        assert self._upstream is not None, f"nothing is scripted for {method} {target}, and there is no server behind"
        return self._upstream.ask(method, target, headers, body)


@dataclass(slots=True)
class Passage:
    """An answer of the real server, still to be read."""

    response: http.client.HTTPResponse
    connection: http.client.HTTPConnection


class Upstream:
    """The API server that a kubeconfig's current context names."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
        self._address: str = cluster["server"].partition("://")[2]
        self._folder = tempfile.TemporaryDirectory(prefix="fault-proxy-")
        self._token: str | None = user.get("token")
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
            if "certificate-authority-data" in cluster
            else None,
            cafile=cluster.get("certificate-authority"),
        )
        if "client-certificate-data" in user:
            pair = [Path(self._folder.name) / name for name in ("client-certificate", "client-key")]
            for path in pair:
                path.write_bytes(base64.b64decode(user[f"{path.name}-data"]))
            self._tls.load_cert_chain(*pair)
        elif "client-certificate" in user:
            self._tls.load_cert_chain(user["client-certificate"], user["client-key"])

    def ask(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Passage:
        """Send a request on a connection of its own."""
        connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=400)
        if self._token:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        connection.request(method, target, body or None, headers)
        return Passage(connection.getresponse(), connection)

    def close(self) -> None:
        """Remove the credentials it wrote."""
        self._folder.cleanup()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy, port: int) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are what this is for."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def handle(self) -> None:
        with self.server.proxy.counted(self.connection):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read `FaultProxy.seen` instead."""

    def _serve(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        lost = repeated = False
        watching = "watch=true" in self.path
        for fault in proxy.note(f"{self.command} {self.path}"):
            if fault.action == "delay":
                time.sleep(fault.seconds)
            elif fault.action == "call" and fault.call is not None:
                fault.call()
            elif fault.action == "answer":
                self._reply(fault.code, fault.headers, fault.body)
                return
            elif fault.action == "hang":
                self.connection.settimeout(600)
                with contextlib.suppress(OSError):
                    self.connection.recv(1)
                self._end()
                return
            elif fault.action == "drop" or (fault.action == "lose" and watching):
                self._end()
                return
            elif fault.action == "repeat":
                repeated = not watching
            else:
                lost = True
        dropped = ("host", "connection", "content-length", "accept-encoding")
        headers = {key: value for key, value in self.headers.items() if key.lower() not in dropped}
        if repeated:
            first = proxy.forward(self.command, self.path, headers, body)
            first.response.read()
            first.connection.close()
        passage = proxy.forward(self.command, self.path, headers, body)
        try:
            if lost:
                passage.response.read()
                self._end()
            elif passage.response.getheader("Transfer-Encoding") == "chunked" and watching:
                self._stream(passage)
            else:
                kept = {
                    k: v
                    for k, v in passage.response.getheaders()
                    if k.lower() in ("content-type", "retry-after", "warning")
                }
                self._reply(passage.response.status, kept, passage.response.read())
        finally:
            passage.connection.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _reply(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(code)
        for key, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, passage: Passage) -> None:
        self.send_response(passage.response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        upstream = passage.connection.sock
        assert upstream is not None
        with self.server.proxy.counted(self.connection, stream=True):
            ended = threading.Thread(target=self._await_client, args=(upstream,), daemon=True)
            ended.start()
            while piece := passage.response.read1(65536):
                if self.server.proxy.is_muted(self.connection):
                    continue
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _await_client(self, upstream: socket.socket) -> None:
        """A client that leaves a silent watch ends the one behind it too."""
        with contextlib.suppress(OSError, ValueError):
            self.connection.recv(1)
        _shut(upstream)

    def _end(self) -> None:
        self.close_connection = True
        _shut(self.connection)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
