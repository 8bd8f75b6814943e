"""Certificates that a port of the lab shows: good ones, and bad ones for faults."""

import ssl
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.files import write_whole

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
