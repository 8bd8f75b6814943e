"""What paramiko's connections lack: a socket that notices death, and transports that many threads can share."""

import errno
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from paramiko import Channel, Message, PKey, Transport
from paramiko.packet import Packetizer
from paramiko.ssh_exception import AuthenticationException, SSHException

# RFC 4250, 4.1.2
_DISCONNECT, _AUTH_FAILURE, _OPEN, _OPEN_FAILURE = 1, 51, 90, 92
_ADJUST, _DATA, _EOF, _CLOSE, _REQUEST = 93, (94, 95), 96, 97, 98
_PROHIBITED = 1  # reason of a refused channel (RFC 4254, 5.1)
_AHEAD = 4 * 1024  # bytes, set aside for every connection that waits
_DEAD_AFTER = 60  # seconds without a sign of life until a connection is given up
_LOOK_UP = 1.0  # seconds between looks at whether a connection has been closed here
# Encryption and integrity in one call of OpenSSL; with the others paramiko compares checksums in Python, byte by byte.
# The others stay on offer, so the site's own policy decides as before.
_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_SECOND_NAMES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # one key, several ways to sign with it


class BufferedSocket(socket.socket):
    """A socket that takes what is there: paramiko asks for a few bytes at a time, twice for every packet."""

    __slots__ = ("_ahead",)

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._ahead = b""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return at most so many bytes, b'' at the end."""
        if not self._ahead:
            self._ahead = super().recv(max(size, _AHEAD), flags)
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def close(self) -> None:
        """Close it, and wake the thread that waits for bytes from it."""
        with suppress(OSError):  # it was never connected, or is closed
            self.shutdown(socket.SHUT_RDWR)
        super().close()


def connect_socket(host: str, port: int, timeout: float, opening: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connected socket that sends at once and notices a dead peer; OSError of the last address tried.

    Args:
        timeout: seconds for each address.
        opening: called with each socket before it connects; shutting it down ends the attempt.
    """
    failure = OSError("its name has no address")
    # Plain names as bytes: for text, Python loads all of Unicode's tables first.
    for *kind, _, place in socket.getaddrinfo(host.encode() if host.isascii() else host, port, 0, socket.SOCK_STREAM):
        sock = BufferedSocket(*kind)
        sock.settimeout(timeout)
        try:
            opening(sock)
            sock.connect(place)
        except OSError as error:
            failure = error
            sock.close()
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_AFTER // 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD_AFTER // 6)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER * 1000)
        return sock
    raise failure


class ChannelRefused(SSHException):
    """The host opened no channel, and says why; `forbidden`: its configuration does not allow it."""

    def __init__(self, words: str, *, forbidden: bool) -> None:
        super().__init__(words)
        self.forbidden = forbidden


class _Packets(Packetizer):
    """Packets, whose end and refusals all threads know at once; without a timer's thread for each key exchange."""

    def __init__(self, sock: "socket.socket | Channel") -> None:
        super().__init__(sock)  # type: ignore[arg-type]  # the stub does not know of channels in place of sockets
        self._sock = sock
        self._opening = threading.local()  # .number: of the channel that this thread opens
        self._refusals: dict[int, ChannelRefused] = {}
        self.failed = False
        self.farewell = ""  # what the host said when it closed the connection
        self.login_refused = False

    def start_handshake(self, timeout: float) -> None:
        """Do nothing."""

    def refusal(self) -> ChannelRefused | None:
        """Return, once, why the channel that this thread opened was refused."""
        return self._refusals.pop(getattr(self._opening, "number", -1), None)

    def send_message(self, data: Message) -> None:
        """Send a packet; that of a new channel bears the number under which a refusal will come."""
        content = data.asbytes()
        if content[0] == _OPEN:
            fields = Message(content[1:])
            fields.get_string()
            self._opening.number = fields.get_int()
        super().send_message(data)

    def read_message(self) -> tuple[int, Message]:
        """Return the next packet, noting what paramiko forgets or mixes up."""
        try:
            kind, message = super().read_message()
        except (EOFError, OSError, SSHException):
            self.failed = True
            raise
        if kind == _AUTH_FAILURE:
            self.login_refused = True
        elif kind == _OPEN_FAILURE:
            fields = Message(message.asbytes())
            number, reason, words = fields.get_int(), fields.get_int(), fields.get_text()
            self._refusals[number] = ChannelRefused(words or f"reason {reason}", forbidden=reason == _PROHIBITED)
        elif kind == _DISCONNECT:
            fields = Message(message.asbytes())
            fields.get_int()
            self.farewell, self.failed = f"closed by the host: {fields.get_text()}", True
            raise SSHException(self.farewell)
        return kind, message

    def write_all(self, out: bytes) -> None:  # type: ignore[override]  # what it is really given
        """Write all of it; EOFError where the peer takes nothing any more, which paramiko would try for ever."""
        until = time.monotonic() + _DEAD_AFTER
        while out:
            try:
                sent = self._sock.send(out)
            except (TimeoutError, BlockingIOError):
                if not self.closed and time.monotonic() < until:
                    continue
                self.failed = True
                self.close()  # wakes the thread that reads from it
                raise EOFError("the host takes nothing any more") from None
            except OSError:
                sent = 0
            if not sent:
                self.failed = True  # not closed yet: what the host has said before may still be there to be read
                raise EOFError("the connection was lost")
            out, until = out[sent:], time.monotonic() + _DEAD_AFTER


class SharedTransport(Transport):
    """A transport that many threads use; see the table in README.md for what each change prevents."""

    packetizer: _Packets

    def __init__(self, sock: "socket.socket | Channel", **options: Any) -> None:  # paramiko's own, handed through
        super().__init__(sock, packetizer_class=_Packets, **options)
        sock.settimeout(_LOOK_UP)  # paramiko wakes ten times a second

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Exchange keys within so many seconds; TimeoutError where it took longer."""
        super().start_client(event, timeout)
        if event is None and not self.initial_kex_done:
            raise TimeoutError

    def is_active(self) -> bool:
        """Whether nobody has noticed its end yet; paramiko's own answer lags behind the first who noticed."""
        return super().is_active() and not self.packetizer.failed

    def open_channel(self, *args: Any, **options: Any) -> Channel:
        """Open a channel; TimeoutError without an answer, ChannelRefused where the host says no."""
        try:
            channel = super().open_channel(*args, **options)
        except SSHException:
            refusal = self.packetizer.refusal()
            if refusal is not None:
                raise refusal from None
            if self.is_active():
                raise TimeoutError from None
            raise
        channel.transport = cast(Transport, ChannelGuard(self))
        return channel

    def auth_publickey(self, username: str, key: PKey, event: threading.Event | None = None) -> list[str]:
        """Log in by a key; AuthenticationException only where the host said no, not where it said nothing."""
        self.packetizer.login_refused = False
        try:
            return super().auth_publickey(username, key, event)
        except AuthenticationException:
            if self.packetizer.login_refused:
                raise
            if self.packetizer.farewell:
                raise SSHException(self.packetizer.farewell) from None
            raise (TimeoutError() if self.is_active() else EOFError("closed by the host during the login")) from None


class ChannelGuard:
    """What a channel sends through, in place of its transport: nothing follows its end (RFC 4254, 5.3).

    paramiko looks whether a channel is open before it sends, not while it does; OpenSSH ends the whole connection over
    data after the end: behind a jump host, the connections to all other hosts.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._sending = threading.Lock()
        self._no_data = False
        self._closed = False

    # The name by which paramiko's channels send.
    def _send_user_message(self, message: Message) -> None:
        kind = message.asbytes()[0]
        with self._sending:
            if self._closed or (self._no_data and kind in _DATA):
                return
            self._no_data = self._no_data or kind in (_EOF, _CLOSE)
            self._closed = kind == _CLOSE
            try:
                self._transport._send_user_message(message)  # type: ignore[attr-defined]  # absent from the stub
            except (EOFError, SSHException) as error:
                # Room is made by a reader: what has been read is good, and the next read tells that no more comes.
                if kind not in (_ADJUST, _EOF, _CLOSE):
                    raise OSError(errno.ENOTCONN, str(error) or "the connection was lost") from None

    def __getattr__(self, name: str) -> Any:  # whatever a transport has
        return getattr(self._transport, name)

    def request(self, channel: Channel, kind: str, words: str, *, answer: bool) -> None:
        """Send a request about a channel (RFC 4254, 6.5 to 6.9)."""
        message = Message()
        message.add_byte(bytes([_REQUEST]))
        message.add_int(channel.remote_chanid)
        message.add_string(kind)
        message.add_boolean(answer)
        message.add_string(words)
        self._send_user_message(message)


def guard_of(channel: Channel) -> ChannelGuard:
    """Return what a channel of our transports sends through."""
    return cast(ChannelGuard, channel.transport)


def begin(channel: Channel, kind: str, words: str, timeout: float | None) -> None:
    """Begin a command (`exec`) or a subsystem (RFC 4254, 6.5) within so many seconds; paramiko would wait for ever.

    Raises:
        TimeoutError: no answer in time.
        OSError, SSHException, EOFError: the host said no, or the connection was lost.
    """
    channel.event.clear()
    channel.event_ready = False
    if not channel.closed:  # only now: what closes it from here on sets the event
        guard_of(channel).request(channel, kind, words, answer=True)
        if not channel.event.wait(timeout):
            raise TimeoutError
    if not channel.event_ready:
        failure = channel.get_transport().get_exception()
        raise failure if failure and str(failure) else SSHException("closed by the host")


def terminate(channel: Channel) -> None:
    """End a channel's command, which closing the channel leaves running; OpenSSH does so for all accounts but root."""
    with suppress(SSHException, EOFError, OSError):  # it may be dead already
        if not channel.closed:
            guard_of(channel).request(channel, "signal", "TERM", answer=False)


def transport_factory(key_types: Sequence[str]) -> Callable[..., Transport]:
    """Return what makes a transport that asks for these types of host keys first: those that are recorded."""
    wanted = [name for kind in key_types for name in _SECOND_NAMES.get(kind, (kind,))]

    def build(sock: "socket.socket | Channel", **options: Any) -> Transport:  # paramiko's own, handed through
        transport = SharedTransport(sock, **options)
        offered = transport.get_security_options()
        offered.key_types = _preferring(wanted, offered.key_types)
        offered.ciphers = _preferring(_FIRST, offered.ciphers)
        return transport

    return build


def _preferring(wanted: Sequence[str], offered: Sequence[str]) -> list[str]:
    known = [name for name in wanted if name in offered]
    return [*known, *(name for name in offered if name not in known)]
