"""Reads what a server inside a Pod answers, through the API server's proxy: once, bounded in size and in time.

The proxy is plain HTTP with the credentials of every other request, so no second protocol is needed; what the server
inside says is judged by the caller.
"""

import time
from typing import Any

from gpustack_components.cluster.errors import failure
from gpustack_components.cluster.port import ClusterError
from gpustack_components.cluster.requests import Request
from gpustack_components.cluster.transport import Transport

ANSWER_SECONDS = 2.0
"""Longest wait for the answer to begin, and longest silence within it (rollout sheet 7.2)."""
WHOLE_SECONDS = 5.0
"""Longest time for the whole answer."""
MOST_BYTES = 1 << 20
"""Longest answer."""

_PIECE = 1 << 16


def probe(transport: Transport, request: Request) -> str:
    """The text of a 200. Raises `ClusterError` for any other answer, a longer one, a slower one, and for none."""
    session, begun = transport.session, time.monotonic()
    response = transport.open_stream(request, session, ANSWER_SECONDS)
    try:
        body = _read(transport, request, response, begun + WHOLE_SECONDS)
    finally:
        response.close()
    if response.status >= 300:
        raise failure(request, response.status, response.headers, body, credentials=session.credentials)
    if response.status != 200:
        raise ClusterError(f"{request.subject} answered {response.status} instead of 200.")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise ClusterError(f"{request.subject} answered something else than text.") from None


def _read(transport: Transport, request: Request, response: Any, end: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            piece: bytes = response.read1(_PIECE, decode_content=True)
        except Exception as error:
            raise transport.broken_stream(request, transport.session, error) from None
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise ClusterError(f"{request.subject} answered with more than {MOST_BYTES:,} bytes.")
        if time.monotonic() >= end:
            raise ClusterError(f"{request.subject} did not finish its answer within {WHOLE_SECONDS:.0f} s.")
