"""Runs first in a new network namespace: makes addresses local, then hands out sockets that belong to the namespace.

Started by `network.Network` with the descriptor of a Unix socket and the addresses, each as `address/netmask`; ends
when that socket is closed. The standard library only, so that it starts fast.
"""

import fcntl
import socket
import struct
import sys

_SET_FLAGS, _SET_ADDRESS, _SET_MASK = 0x8914, 0x8916, 0x891C
_UP_AND_RUNNING = 0x41


def _request(name: str, content: bytes) -> bytes:
    return struct.pack("16s24s", name.encode(), content)


def _address(address: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def make_local(ranges: list[str]) -> None:
    """Bring loopback up and make every address of the ranges local, as 127.0.0.0/8 is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, _request("lo", struct.pack("H", _UP_AND_RUNNING)))
        for number, entry in enumerate(ranges, start=1):
            address, _, mask = entry.partition("/")
            fcntl.ioctl(control, _SET_ADDRESS, _request(f"lo:{number}", _address(address)))
            fcntl.ioctl(control, _SET_MASK, _request(f"lo:{number}", _address(mask)))


def main(descriptor: int, ranges: list[str]) -> None:
    """Answer every byte with a new TCP socket."""
    with socket.socket(fileno=descriptor) as asker:
        make_local(ranges)
        while asker.recv(1):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as fresh:
                socket.send_fds(asker, [b"."], [fresh.fileno()])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
