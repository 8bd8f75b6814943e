"""What SSH connections run on: sockets that read ahead, and notice death."""

import socket
from contextlib import suppress

_AHEAD = 4 * 1024  # bytes, set aside for every connection that waits
DEAD_AFTER = 60  # seconds without a sign of life until the kernel gives a connection up


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
            (socket.TCP_KEEPIDLE, DEAD_AFTER // 2),
            (socket.TCP_KEEPINTVL, DEAD_AFTER // 6),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, DEAD_AFTER * 1000),
        ):
            self.setsockopt(socket.IPPROTO_TCP, option, value)
