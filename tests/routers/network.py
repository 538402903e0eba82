"""A network namespace in which every Pod's address is local: no root, nothing leaves it.

A socket belongs to the namespace it was made in, whoever uses it. So the namespace's agent only makes sockets and
passes them here: simulated engines and clients run in the test's own process and still answer and call at the
addresses of Pods, as the programs started with `command` see them.
"""

import contextlib
import http.client
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

from sandbox.components import POD_RANGE

_AGENT = Path(__file__).parent / "network_agent.py"


class NoNamespace(Exception):  # noqa: N818
    """A network namespace cannot be made here; the message says what is missing."""


class Network:
    """One namespace, alive until `close`. Programs started in it end with the test's process at the latest."""

    def __init__(self) -> None:
        missing = [tool for tool in ("unshare", "nsenter", "setpriv") if not shutil.which(tool)]
        if missing:
            raise NoNamespace(f"the tests of routers need Linux with {', '.join(missing)}: install util-linux")
        self._asking = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pods = ipaddress.ip_interface(POD_RANGE)
        own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        agent = [sys.executable, "-I", "-S", str(_AGENT), str(theirs.fileno()), f"{pods.ip}/{pods.netmask}"]
        with theirs:
            self._agent = subprocess.Popen(
                ["unshare", "--net", *own_user, *agent], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
            )
        try:
            self.tcp().close()
        except OSError:
            self.close()
            assert self._agent.stderr
            words = self._agent.stderr.read().decode().strip()
            raise NoNamespace(
                f"`unshare --net {' '.join(own_user)}` does not work here ({words}): "
                "the tests of routers need root, or user namespaces that anybody may make"
            ) from None

    def tcp(self) -> socket.socket:
        """A TCP socket of the namespace, neither bound nor connected."""
        with self._asking:
            self._ours.send(b".")
            _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
        if not descriptors:
            raise ConnectionResetError("the namespace's agent has ended")
        return socket.socket(fileno=descriptors[0])

    def listens(self, port: int) -> bool:
        """Whether anything accepts connections to the port at 127.0.0.1 of the namespace, as a TCP probe asks."""
        try:
            with self.tcp() as probe:
                probe.connect(("127.0.0.1", port))
        except OSError:
            return False
        return True

    def listen(self, address: str, port: int) -> socket.socket:
        """A socket that accepts connections to the address inside the namespace."""
        listener = self.tcp()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(128)
        return listener

    def connection(self, address: str, port: int, seconds: float) -> http.client.HTTPConnection:
        """An HTTP client of a server in the namespace; gives up after so many seconds without a byte."""
        return _Connection(self, address, port, seconds)

    def command(self, argv: list[str]) -> list[str]:
        """The command that runs a program inside, and ends it when our process ends."""
        spaces = f"/proc/{self._agent.pid}/ns"
        enter = ["nsenter", f"--net={spaces}/net"]
        if os.geteuid() != 0:
            enter += [f"--user={spaces}/user", "--preserve-credentials"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *argv]

    def forward(self, port: int) -> None:
        """Let 127.0.0.1:port inside reach 127.0.0.1:port of the machine, for as long as the namespace lives."""
        listener = self.listen("127.0.0.1", port)
        threading.Thread(target=_forward, args=(listener, port), daemon=True).start()

    def close(self) -> None:
        """End the agent."""
        self._ours.close()
        self._agent.wait(10)


class _Connection(http.client.HTTPConnection):
    def __init__(self, network: Network, address: str, port: int, seconds: float) -> None:
        super().__init__(address, port, timeout=seconds)
        self._network = network

    def connect(self) -> None:
        self.sock = self._network.tcp()
        self.sock.settimeout(self.timeout)
        self.sock.connect((self.host, self.port))


def _forward(listener: socket.socket, port: int) -> None:
    while True:
        inside, _ = listener.accept()
        outside = socket.create_connection(("127.0.0.1", port))
        for source, target in ((inside, outside), (outside, inside)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
