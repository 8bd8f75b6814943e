"""Ports of loopback that nothing listens on."""

import itertools
import secrets
import socket

OWN_PORTS = range(20_000, 32_000)
# One after the other: a lab that is down keeps its ports, and no other lab of this process is given them.
turns = itertools.count(secrets.randbelow(len(OWN_PORTS)))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as holder:
        return _bound(holder, 0)


def free_ports(first: int, second: int) -> tuple[int, int]:
    """Return two ports that differ; 0 is for any free one, OSError where a wanted one is taken."""
    with socket.socket() as one, socket.socket() as other:
        return _bound(one, first), _bound(other, second)


def _bound(holder: socket.socket, wanted: int) -> int:
    # A free port is below those that the system hands out: a server that restarts finds its port free again.
    while True:
        port = wanted or OWN_PORTS[next(turns) % len(OWN_PORTS)]
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            if wanted:
                raise
            continue
        return port
