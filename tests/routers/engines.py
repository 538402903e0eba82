"""Simulated engines: real HTTP servers that answer as vLLM and SGLang do, and note what they were asked."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
COMPLETIONS = ("/v1/chat/completions", "/v1/completions", "/generate")
_GAUGES = {
    "vLLM": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    "SGLang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
}


@dataclass(frozen=True)
class Call:
    """One completion that an engine was asked for."""

    path: str
    """Path of the request."""
    headers: dict[str, str]
    """Its headers, by lower-case name."""
    body: Json
    """The JSON document it carried."""


class Engine:
    """One engine process: as many listeners as it is given, one state."""

    def __init__(self, name: str, *, engine: str, model: str, pace: float = 0.05) -> None:
        self.name = name
        """Whose answers these are; every piece of text is this name."""
        self.calls: list[Call] = []
        """Completions asked for, in order."""
        self.cut = 0
        """Completions that its end, or the client's, cut off."""
        self.paths: set[str] = set()
        """Every other path that was asked for."""
        self.pace = pace
        """Seconds per token."""
        self.ended = False
        """Whether it was told to end."""
        self._engine, self._model = engine, model
        self._servers: list[_Server] = []
        self._open: set[socket.socket] = set()
        self._running = 0
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """Completions under way."""
        return self._running

    def serve(self, listener: socket.socket) -> None:
        """Answer on this listener from now on."""
        server = _Server(listener, self)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def end(self) -> None:
        """What SIGTERM does to an engine: nothing is accepted any more, what is under way is cut off."""
        self.ended = True
        for server in self._servers:
            server.shutdown()
            server.server_close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def metrics(self) -> str:
        """The gauges that the drain hook and the picker read."""
        running, *others = _GAUGES[self._engine]
        labels = f'{{engine="0",model_name="{self._model}"}}'
        return f"{running}{labels} {float(self._running)}\n" + "".join(f"{name}{labels} 0.0\n" for name in others)

    def about(self, path: str) -> Json | str | None:
        """The answer to a GET; None when there is no such path."""
        if path in ("/health", "/health_generate", "/ping"):
            return {}
        if path == "/metrics":
            return self.metrics()
        if path == "/v1/models":
            entry = {"id": self._model, "object": "model", "created": 0, "owned_by": self._engine.lower()}
            return {"object": "list", "data": [{**entry, "root": self._model, "max_model_len": 32768}]}
        if path == "/version":
            return {"version": "0.25.1"}
        if path == "/query" and self._engine == "vLLM":
            return {"0": {"engine_id": f"engine-of-{self.name}", "worker_addr": {"0": {"0": "tcp://10.0.0.1:5000"}}}}
        if self._engine == "SGLang" and path in ("/get_server_info", "/server_info"):
            return {"model_path": self._model, "served_model_name": self._model, "dp_size": 1, "tp_size": 1}
        if self._engine == "SGLang" and path in ("/get_model_info", "/model_info"):
            return {"model_path": self._model, "tokenizer_path": self._model, "is_generation": True}
        return None

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Count a completion as running while the block runs."""
        with self._lock:
            self._running += 1
        try:
            yield
        except OSError:
            self.cut += 1
            raise
        finally:
            with self._lock:
                self._running -= 1

    def opened(self, connection: socket.socket) -> None:
        """Note a connection, so that the engine's end cuts it."""
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._lock:
            self._open.discard(connection)

    def pieces(self, body: Json) -> Iterator[Json]:
        """The answer, token by token, as chunks of a stream."""
        chat = "messages" in body
        for number in range(int(body.get("max_tokens") or body.get("max_completion_tokens") or 1)):
            time.sleep(self.pace)
            text = {"delta": {"role": "assistant", "content": self.name}} if chat else {"text": self.name}
            yield self.answer(body, {"index": 0, "finish_reason": None, **text}, number)

    def answer(self, body: Json, choice: Json, tokens: int) -> Json:
        """The document around a choice."""
        kind = "chat.completion" if "messages" in body else "text_completion"
        usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}
        extra: Json = {}
        if asked := body.get("kv_transfer_params"):
            extra = {"kv_transfer_params": {**asked, "remote_engine_id": f"engine-of-{self.name}"}}
        envelope = {"id": f"cmpl-{self.name}", "object": kind, "created": 0, "model": self._model}
        return {**envelope, "choices": [choice], "usage": usage, **extra}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, engine: Engine) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.engine = engine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the test's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.engine.opened(self.connection)

    def finish(self) -> None:
        self.server.engine.closed(self.connection)
        super().finish()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.engine.paths.add(path)
        found = self.server.engine.about(path)
        if isinstance(found, str):
            self._send(200, found.encode(), "text/plain")
        else:
            self._send(404 if found is None else 200, json.dumps(found or {}).encode())

    def do_POST(self) -> None:
        engine = self.server.engine
        body = self._body()
        if self.path not in COMPLETIONS:
            engine.paths.add(self.path)
            self._send(404, b"{}")
            return
        engine.calls.append(Call(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        with engine.handling():
            if body.get("stream"):
                self._stream(engine, body)
                return
            text = "".join(self.text_of(piece) for piece in engine.pieces(body))
            message = {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
            tokens = int(body.get("max_tokens") or 1)
            answer = engine.answer(body, {"index": 0, "finish_reason": "length", **message}, tokens)
            self._send(200, json.dumps(answer).encode())

    @staticmethod
    def text_of(piece: Json) -> str:
        """The text of one chunk of a stream."""
        (choice,) = piece["choices"]
        return choice["text"] if "text" in choice else choice["delta"]["content"]

    def _stream(self, engine: Engine, body: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in engine.pieces(body):
            self._chunk(f"data: {json.dumps(piece)}\n\n".encode())
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def _body(self) -> Json:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return json.loads(content)

    def _send(self, code: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""
