"""What a dynamic provider process can tell the engine that started it, and learn of it.

The SDK gives a dynamic provider no logger and no sign of the engine's end. The engine's address is the first argument
of the provider process; through it a line reaches the row of its own resource (pulumi-facts sheet, section 3), and a
refused connection means that nobody waits for the result any more (section 4).
"""

import contextlib
import re
import socket
import sys
import threading
from functools import cache
from typing import Any, Literal

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

Level = Literal["info", "warning", "error"]

_ADDRESS = re.compile(r"^(?P<host>[^\s:]+):(?P<port>\d{1,5})$")
_SEVERITIES: dict[str, "engine_pb2.LogSeverity.ValueType"] = {
    "info": engine_pb2.INFO,
    "warning": engine_pb2.WARNING,
    "error": engine_pb2.ERROR,
}
_ANSWER_SECONDS = 5.0
_CONNECT_SECONDS = 1.0
_sending = threading.Lock()


def engine_address() -> tuple[str, int] | None:
    """Host and port of the engine, or None outside a provider process."""
    found = _ADDRESS.match(sys.argv[1]) if len(sys.argv) > 1 else None
    return (found["host"], int(found["port"])) if found else None


@cache
def _stub(host: str, port: int) -> Any:
    return engine_pb2_grpc.EngineStub(grpc.insecure_channel(f"{host}:{port}"))


def say(urn: str, text: str, *, level: Level = "info", lasting: bool = False) -> None:
    """Show text on the row of the resource `urn`, or on the stack's when it is empty.

    A lasting text is repeated under the resource's diagnostics at the end of the run. Never raises: a line that
    cannot be delivered must not end a rollout.
    """
    address = engine_address()
    if address is None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)  # noqa: T201
        return
    request = engine_pb2.LogRequest(severity=_SEVERITIES[level], message=text, urn=urn, ephemeral=not lasting)
    with contextlib.suppress(grpc.RpcError), _sending:
        _stub(*address).Log(request, timeout=_ANSWER_SECONDS)


def engine_answers() -> bool:
    """False when nothing listens at the engine's address any more; True outside a provider process."""
    address = engine_address()
    if address is None:
        return True
    try:
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except ConnectionError:
        return False
    except OSError:
        return True
    return True
