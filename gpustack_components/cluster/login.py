"""What a way of logging in gives: who to be, whom to trust, and how to reach the server."""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

POOL_SIZE = 16
"""Connections kept open to one server."""


@dataclass(frozen=True, slots=True)
class Login:
    """One login, its files only there until TLS is prepared."""

    server: str
    """The API server's URL."""
    pool: Callable[[ssl.SSLContext | None], Any]
    """Makes the urllib3 pool manager; the context is None for plain HTTP."""
    authorization: Callable[[], dict[str, str]]
    """The header with the current token; empty without one."""
    verify: bool = True
    """Whether the server's certificate is checked."""
    ca_file: str | None = None
    """Authorities to trust, PEM; None: those of the machine."""
    cert_file: str | None = None
    """Client certificate, PEM."""
    key_file: str | None = None
    """Its key, PEM."""


def keep_alive() -> list[tuple[int, int, int]]:
    """Socket options that notice a server that went away in silence."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), seconds))
    return options
