"""Knock on both ports without credentials, and tell which one serves (contract section 2.1)."""

import socket

from maint.adapters.manager.transport import Broken, Call, NotSent, Transport
from maint.errors import Invalid
from maint.model.manager import Door, Presence

_PATH = "/api/version"  # an anonymous 401 there proves that the server is up (contract section 2.2)


def knock(transport: Transport) -> Presence:
    """Knock on both ports.

    A TLS port that listens, and a plain one that redirects, both mean that TLS is on: the plain port is then never
    an alternative, whatever is wrong with the other.
    """
    plain = _plain(transport)
    tls, chain, listening = _tls(transport)
    otherwise = Door.PLAIN if plain.startswith("answers") else Door.CLOSED
    return Presence(door=Door.TLS if listening else otherwise, plain=plain, tls=tls, chain=chain)


def _plain(transport: Transport) -> str:
    try:
        return _answer(transport, Door.PLAIN)
    except (NotSent, Broken) as failure:
        return failure.words


def _tls(transport: Transport) -> tuple[str, str | None, bool]:
    """Return words on the TLS port, why what listens there cannot be used, and whether anything listens."""
    try:
        return _answer(transport, Door.TLS), None, True
    except (NotSent, Broken) as failure:
        words, chain = failure.words, "; ".join((failure.message, *failure.detail))
    except Invalid as failure:
        words, chain = failure.message, failure.message
    if words != "refused" and _listens(transport):
        return words, chain, True
    return words, None, False


def _answer(transport: Transport, door: Door) -> str:
    answer = transport.send(door, Call("GET", _PATH, read=transport.timeouts.knock))
    answer.close()
    if 300 <= answer.status_code < 400:
        return f"redirects ({answer.status_code})"
    return f"answers {answer.status_code}"


def _listens(transport: Transport) -> bool:
    place = (transport.settings.host, transport.port(Door.TLS))
    try:
        socket.create_connection(place, transport.timeouts.connect).close()
    except OSError:
        return False
    return True
