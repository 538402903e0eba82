"""Clients of models: single calls, calls in the background, and a steady load, whatever they are sent to."""

import contextlib
import http.client
import json
import threading
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass
class Answer:
    """One answered request."""

    status: int
    """HTTP status."""
    headers: dict[str, str]
    """Response headers, by lower-case name."""
    text: str
    """The body."""
    arrivals: list[float]
    """When each piece of the body came, in seconds after the request was sent."""

    @property
    def by(self) -> str:
        """Name of the engine that wrote the text of the completion."""
        texts = [
            choice.get("text") or choice.get("message", choice.get("delta", {})).get("content") or ""
            for document in self.documents()
            for choice in document["choices"]
        ]
        return "".join(texts)

    @property
    def tokens(self) -> int:
        """Pieces of text in a stream."""
        return len(self.documents())

    @property
    def complete(self) -> bool:
        """Whether a stream came to its own end."""
        return self.text.rstrip().endswith("data: [DONE]")

    def documents(self) -> list[Json]:
        """The JSON documents of the body: one, or one per event of a stream."""
        if "data: " not in self.text:
            return [json.loads(self.text)]
        events = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: ")]
        return [json.loads(event) for event in events if event != "[DONE]"]


class Caller(ABC):
    """Somebody who calls a model over HTTP."""

    model: str
    """Model that completions are asked of."""

    @abstractmethod
    def connection(self, seconds: float, port: int) -> http.client.HTTPConnection:
        """A fresh connection; `port` counts where the caller may choose one."""

    def get(self, path: str, *, port: int = 8081) -> Answer:
        """GET a path."""
        return self._call("GET", path, port, None, {}, 10)

    def complete(
        self,
        *,
        path: str = "/v1/completions",
        text: str = "",
        tokens: int = 1,
        port: int = 8081,
        headers: dict[str, str] | None = None,
        seconds: float = 60,
        **fields: Any,
    ) -> Answer:
        """Ask for a completion, and read it to the end or until it breaks off."""
        prompt: Json = {"prompt": text or f"{uuid.uuid4()} what now?"}
        if path.endswith("chat/completions"):
            prompt = {"messages": [{"role": "user", "content": prompt["prompt"]}]}
        body = {"model": self.model, **prompt, "max_tokens": tokens, **fields}
        return self._call("POST", path, port, body, headers or {}, seconds)

    def _call(
        self, method: str, path: str, port: int, body: Json | None, headers: dict[str, str], seconds: float
    ) -> Answer:
        connection = self.connection(seconds, port)
        started = time.monotonic()
        content = None if body is None else json.dumps(body)
        with contextlib.closing(connection):
            connection.request(method, path, content, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            pieces: list[bytes] = []
            arrivals: list[float] = []
            with contextlib.suppress(OSError, http.client.HTTPException):
                while piece := response.read1():
                    pieces.append(piece)
                    arrivals.append(time.monotonic() - started)
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, b"".join(pieces).decode(), arrivals)

    def answers(self, port: int = 8081, **options: Any) -> Answer | None:
        """A completion, or None while there is nobody who gives one."""
        try:
            answer = self.complete(port=port, **options)
        except OSError:
            return None
        return answer if answer.status == 200 else None

    def reached(self, times: int = 12, **options: Any) -> set[str]:
        """Names of the engines that answer one-token completions, asked so often."""
        return {answer.by for answer in (self.answers(**options) for _ in range(times)) if answer}


class InFlight:
    """A completion that is read in the background."""

    def __init__(self, caller: Caller, **options: Any) -> None:
        self.answer: Answer | None = None
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(caller, options), daemon=True)
        self._thread.start()

    def _run(self, caller: Caller, options: Json) -> None:
        try:
            self.answer = caller.complete(**options)
        except Exception as failure:
            self.failure = failure

    def result(self, seconds: float) -> Answer:
        """The answer, once it is there."""
        self._thread.join(seconds)
        assert self.failure is None, self.failure
        assert self.answer, f"no answer within {seconds} s"
        return self.answer


class Load:
    """Clients that ask for completions, one after the other, between `with` and its end."""

    def __init__(self, caller: Caller, clients: int, **options: Any) -> None:
        self.answers: list[Answer] = []
        """Everything answered."""
        self.failures: list[Exception] = []
        """Requests that got no answer at all."""
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(caller, number % 2 == 0, options), daemon=True)
            for number in range(clients)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self, caller: Caller, stream: bool, options: Json) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(caller.complete(stream=stream, **options))
            except Exception as failure:
                self.failures.append(failure)

    @property
    def lost(self) -> list[object]:
        """Requests that were not answered completely."""
        incomplete = [
            answer
            for answer in self.answers
            if answer.status != 200 or ("data: " in answer.text and not answer.complete)
        ]
        return [*incomplete, *self.failures]
