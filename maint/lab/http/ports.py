"""Ports of loopback that nothing listens on, and the certificates that they show: good ones, and bad ones."""

import itertools
import secrets
import socket
import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.files import write_whole

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


EXPIRED, STRANGE = "expired", "strange"


def bad_pem(kind: str, authority: pki.Authority, names: Sequence[str], now: datetime) -> bytes:
    """Return key and chain: EXPIRED yesterday, of a STRANGE authority, of one with another name (`kind`), else good."""
    if kind not in ("", EXPIRED):
        authority = pki.Authority.create(now, "Somebody Else's" if kind == STRANGE else kind)
    pair = (authority.expired if kind == EXPIRED else authority.server)(names, now)
    return pair.key_pem + authority.chain_pem(pair)


def context_of(path: Path, pem: bytes = b"") -> ssl.SSLContext:
    """Return a server's context of a PEM file, written first where a text is given."""
    if pem:
        write_whole(path, pem, 0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
