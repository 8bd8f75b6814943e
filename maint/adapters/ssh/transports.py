"""Transports whose channels do not harm each other, that tell who failed, and wait for nothing without a limit."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from maint.adapters.ssh.channel_guard import Outlet, outlet_of, put_outlet
from maint.adapters.ssh.paramiko_import import (
    AuthenticationException,
    Channel,
    Message,
    Packetizer,
    PKey,
    SSHException,
    Transport,
)
from maint.adapters.ssh.wire import DEAD_AFTER

# Encryption and integrity in one call of OpenSSL; with the others paramiko compares checksums in Python, byte by byte.
# The others stay on offer, so the site's own policy decides as before.
_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_CHANNEL_CLOSE = 97  # RFC 4250, 4.1.2
Factory: TypeAlias = Callable[..., Transport]


class _Packets(Packetizer):
    """Packets whose end is known to all threads at once, without a watchdog.

    The watchdog would be a thread a connection, stopped anew with every packet. What it bounds, the key exchange, is
    bounded by `start_client(timeout=…)` already.
    """

    def __init__(self, sock: "socket.socket | Channel") -> None:
        super().__init__(sock)  # type: ignore[arg-type]  # the stub does not know of channels in place of sockets
        self._sock = sock
        self.failed = False

    def start_handshake(self, timeout: float) -> None:
        """Do nothing."""

    def read_message(self) -> tuple[int, Message]:
        """Return the next message."""
        try:
            return super().read_message()
        except (EOFError, OSError, SSHException):
            self.failed = True
            raise

    def write_all(self, out: bytes) -> None:  # type: ignore[override]  # what it is really given
        """Write all of it; a far side that takes nothing any more is given up, where paramiko would try for ever.

        Raises:
            EOFError: the connection is lost.
        """
        until = time.monotonic() + DEAD_AFTER
        while out:
            sent = self._written(out)
            if sent:
                out, until = out[sent:], time.monotonic() + DEAD_AFTER
            elif self.closed or time.monotonic() > until:
                self.failed = True
                self.close()  # wakes whoever reads from it
                raise EOFError("the host takes nothing any more")

    def _written(self, out: bytes) -> int:
        """Return how many bytes went out, 0 where there was no room for a while."""
        try:
            sent = self._sock.send(out)
        except (TimeoutError, BlockingIOError):
            return 0
        except OSError:
            sent = 0
        if not sent:
            # Not closed yet: what the host has said before may still be there to be read.
            self.failed = True
            raise EOFError("the connection was lost")
        return sent


class _Careful(Transport):
    """A transport that many threads share."""

    packetizer: _Packets

    def __init__(self, sock: "socket.socket | Channel", **options: Any) -> None:  # paramiko's own, handed through
        super().__init__(sock, packetizer_class=_Packets, **options)
        self._ours = threading.local()  # .number: of the channel that this thread opens
        self._refusals: dict[int, str] = {}

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

    def is_active(self) -> bool:
        """Whether nobody has noticed its end yet; paramiko's own answer lags behind the first who noticed."""
        return super().is_active() and not self.packetizer.failed

    def open_channel(self, *args: Any, **options: Any) -> Channel:
        """Open a channel.

        Raises:
            TimeoutError: no answer.
            SSHException: the host said no, in its words; or the connection is lost.
        """
        self._ours.number = None
        try:
            channel = super().open_channel(*args, **options)
        except SSHException:
            # paramiko keeps one failure for all: with several threads each would be told another one's.
            words = self._refusals.pop(self._ours.number, None)
            if words is not None:
                raise SSHException(words) from None
            if self.is_active():
                raise TimeoutError from None
            raise
        put_outlet(channel, self)
        return channel

    def auth_publickey(self, username: str, key: PKey, event: threading.Event | None = None) -> list[str]:
        """Log in by a key; a connection that is lost meanwhile is no refusal."""
        try:
            return super().auth_publickey(username, key, event)
        except AuthenticationException as error:
            if str(error) == "Authentication timeout.":
                raise TimeoutError from None
            # An answer that was no leaves the handler without a name.
            if not self.is_active() and getattr(self.auth_handler, "username", None) is not None:
                raise EOFError("closed by the host during the login") from None
            raise

    def _next_channel(self) -> int:
        number: int = super()._next_channel()  # type: ignore[misc]  # absent from the stub
        self._ours.number = number
        return number

    def _parse_channel_open_failure(self, message: Message) -> None:
        copy = Message(message.asbytes())
        number = copy.get_int()
        reason, words = copy.get_int(), copy.get_text()
        self._refusals[number] = words or f"reason {reason}"
        super()._parse_channel_open_failure(message)  # type: ignore[misc]  # absent from the stub

    def _parse_disconnect(self, message: Message) -> None:
        message.get_int()
        self.saved_exception = SSHException(f"closed by the host: {message.get_text()}")
        self.packetizer.failed = True

    def _parse_debug(self, message: Message) -> None:
        """Pass over what OpenSSH says about each key to whoever logs it; spelling it out takes longer than a check."""

    @staticmethod
    def _hung_up(channel: Channel, message: Message) -> None:
        outlet = outlet_of(channel)
        if isinstance(outlet, Outlet):  # it has none yet while it is being opened
            outlet.hung_up = True
        channel._handle_close(message)  # type: ignore[attr-defined]  # absent from the stub

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own, which it only reads
        **Transport._channel_handler_table,  # type: ignore[attr-defined]  # absent from the stub
        _CHANNEL_CLOSE: _hung_up,
    }


class _Brief(_Careful):
    """A transport for one short visit among many: it wakes when there is something to do, not ten times a second.

    Closing its socket wakes it, too. It never lives long enough to need new keys.
    """

    _active_check_timeout = 1.0  # seconds


def transport_factory(key_types: Sequence[str], *, brief: bool) -> Factory:
    """Return what makes a transport.

    Args:
        key_types: the types of host keys that are asked for first.
        brief: whether it is for one short visit.
    """
    kind = _Brief if brief else _Careful

    def build(sock: "socket.socket | Channel", **options: Any) -> Transport:  # paramiko's own, handed through
        transport = kind(sock, **options)
        offered = transport.get_security_options()
        offered.key_types = _preferring(key_types, offered.key_types)
        offered.ciphers = _preferring(_FIRST, offered.ciphers)
        return transport

    return build


def _preferring(wanted: Sequence[str], offered: Sequence[str]) -> list[str]:
    known = [name for name in wanted if name in offered]
    return [*known, *(name for name in offered if name not in known)]
