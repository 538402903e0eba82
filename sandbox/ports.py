"""Free loopback ports that stay ours across a restart of a part.

They are taken from below the range that the kernel hands to outgoing connections, so that no client grabs one while a
part is down.
"""

import random
import re
import socket
from pathlib import Path

LOWEST = 10240
"""First port ever tried."""


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listens on now. Another process may yet be faster: callers retry."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(LOWEST, _first_ephemeral())  # noqa: S311 - not a secret
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _first_ephemeral() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except OSError:
        return 32768
    first = re.match(r"\d+", text)
    # A machine that gives nearly every port to outgoing connections leaves nothing below them: then any port has to do.
    return int(first.group()) if first and int(first.group()) > 2 * LOWEST else 60999
