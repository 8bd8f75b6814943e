"""What SSH connections run on: sockets that read ahead, and transports made for many short visits at once."""

import socket
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from maint.adapters.ssh.library import Channel, Packetizer, Transport

_AHEAD = 16 * 1024  # bytes
_DEAD_AFTER = 60  # seconds without a sign of life until the kernel gives a connection up
# Encryption and integrity in one call of OpenSSL; with the others paramiko compares checksums in Python, byte by byte.
# The others stay on offer, so the site's own policy decides as before.
_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
Factory: TypeAlias = Callable[..., Transport]


class Wire(socket.socket):
    """A socket that takes what is there: paramiko asks for a few bytes at a time, twice for every packet."""

    __slots__ = ("_held",)

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._held = b""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return at most so many bytes, b'' at the end."""
        if not self._held:
            self._held = super().recv(max(size, _AHEAD), flags)
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def settle(self) -> None:
        """Set how a connection behaves, once it is there: no waiting for more to send, and death is noticed."""
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, _DEAD_AFTER // 2),
            (socket.TCP_KEEPINTVL, _DEAD_AFTER // 6),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, _DEAD_AFTER * 1000),
        ):
            self.setsockopt(socket.IPPROTO_TCP, option, value)


class _Packets(Packetizer):
    """Packets without a watchdog: it would be a thread a connection, stopped anew with every packet.

    What it bounds, the key exchange, is bounded by `start_client(timeout=…)` already.
    """

    def start_handshake(self, timeout: float) -> None:
        """Do nothing."""


def transport_factory(key_types: Sequence[str]) -> Factory:
    """Return what makes a transport whose host is asked for some types of keys first."""

    def build(sock: "socket.socket | Channel", **options: Any) -> Transport:  # paramiko's own, handed through
        transport = Transport(sock, packetizer_class=_Packets, **options)
        offered = transport.get_security_options()
        offered.key_types = _preferring(key_types, offered.key_types)
        offered.ciphers = _preferring(_FIRST, offered.ciphers)
        return transport

    return build


def _preferring(wanted: Sequence[str], offered: Sequence[str]) -> list[str]:
    known = [name for name in wanted if name in offered]
    return [*known, *(name for name in offered if name not in known)]
