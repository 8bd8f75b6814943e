"""Ports of loopback: free ones that nobody else is given meanwhile, and closed ones that stay closed."""

import socket

from maint.lab.http.server import free_port

__all__ = ["closed_port", "free_port"]

_HELD: list[socket.socket] = []


def closed_port() -> int:
    """Return a port that refuses connections until the tests have ended: bound, so that nobody opens it."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    _HELD.append(holder)
    return int(holder.getsockname()[1])
