"""What SSH connections run on: sockets that read ahead, and transports made for many short visits at once."""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from maint.adapters.ssh.library import Channel, Message, Packetizer, SSHException, Transport

_AHEAD = 4 * 1024  # bytes, set aside for every connection that waits
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

    def close(self) -> None:
        """Close it, and wake whoever waits for bytes from it."""
        with suppress(OSError):  # it was never connected, or is no more
            self.shutdown(socket.SHUT_RDWR)
        super().close()

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


class _Brief(Transport):
    """A transport for one short visit among many: it wakes when there is something to do, not ten times a second.

    Closing its socket wakes it, too. It never lives long enough to need new keys.
    """

    _active_check_timeout = 1.0  # seconds

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Exchange keys, within so many seconds.

        Raises:
            TimeoutError: it took longer.
            SSHException, EOFError, OSError: it failed.
        """
        done = event or threading.Event()
        super().start_client(event=done)
        if event is None and not done.wait(timeout):
            raise TimeoutError
        if event is None and not self.is_active():
            raise self.get_exception() or SSHException("the key exchange failed")

    def _parse_debug(self, message: Message) -> None:
        """Pass over what OpenSSH says about each key to whoever logs it; spelling it out takes longer than a check."""


def transport_factory(key_types: Sequence[str], *, brief: bool) -> Factory:
    """Return what makes a transport.

    Args:
        key_types: the types of host keys that are asked for first.
        brief: whether it is for one short visit.
    """
    kind = _Brief if brief else Transport

    def build(sock: "socket.socket | Channel", **options: Any) -> Transport:  # paramiko's own, handed through
        transport = kind(sock, packetizer_class=_Packets, **options)
        offered = transport.get_security_options()
        offered.key_types = _preferring(key_types, offered.key_types)
        offered.ciphers = _preferring(_FIRST, offered.ciphers)
        return transport

    return build


def _preferring(wanted: Sequence[str], offered: Sequence[str]) -> list[str]:
    known = [name for name in wanted if name in offered]
    return [*known, *(name for name in offered if name not in known)]
