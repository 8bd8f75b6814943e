"""What paramiko's transports lack: a socket that notices death, and packets that many threads may send and wait for."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from paramiko import Channel, Message, Transport
from paramiko.packet import Packetizer
from paramiko.ssh_exception import ChannelException, SSHException

# RFC 4250, 4.1.2
_DISCONNECT, _AUTH_FAILURE, _OPEN, _OPENED, _OPEN_FAILURE = 1, 51, 90, 91, 92
_ADJUST, _DATA, _EOF, _CLOSE, _REQUEST, _LAST = 93, (94, 95), 96, 97, 98, 100
_DEAD_AFTER = 60  # seconds without a sign of life until a connection is given up
_LONGEST = 1 << 20  # bytes of a packet; OpenSSH sends at most 256 KiB
_GREETING = 8192  # bytes of one of the lines that a host begins with; RFC 4253 allows 255
_LOOK_UP = 1.0  # seconds between looks at whether a connection has been closed here; paramiko's own are ten a second
_DATA_HEAD = 12  # bytes of such a packet that are not content, at most
# Encryption and integrity in one call of OpenSSL; with the others paramiko compares checksums in Python, byte by byte.
# The others stay on offer, so the site's own policy decides as before.
_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_SECOND_NAMES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # one key, several ways to sign with it


def connect_socket(host: str, port: int, timeout: float, opening: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connected socket that sends at once and notices a dead peer; OSError of the last address tried.

    Args:
        timeout: seconds for each address.
        opening: called with each socket before it connects; shutting it down ends the attempt.
    """
    failure = OSError("its name has no address")
    # Plain names as bytes: for text, Python loads all of Unicode's tables first.
    for *kind, _, place in socket.getaddrinfo(host.encode() if host.isascii() else host, port, 0, socket.SOCK_STREAM):
        sock = socket.socket(*kind)
        sock.settimeout(timeout)
        try:
            opening(sock)
            sock.connect(place)
        except OSError as error:
            failure = error
            sock.close()
            continue
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, _DEAD_AFTER // 2),
            (socket.TCP_KEEPINTVL, _DEAD_AFTER // 6),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, _DEAD_AFTER * 1000),
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        return sock
    raise failure


class _Packets(Packetizer):
    """Packets that go by are looked at: what is late for a channel is not sent, what paramiko forgets is noted."""

    def __init__(self, sock: "socket.socket | Channel") -> None:
        super().__init__(sock)  # type: ignore[arg-type]  # the stub does not know of channels in place of sockets
        self._sock = sock
        self._sending = threading.Lock()
        self._ended: dict[int, int] = {}  # the host's numbers of channels, and the last kind of packet sent there
        self._room = (
            0  # bytes that the host may still send on all channels together, which paramiko does not hold it to
        )
        self._opening = threading.local()  # .number: of the channel that this thread opens
        self._refusals: dict[int, ChannelException] = {}
        self.failed = False  # not closed yet: what the host has said before may still be there to be read
        self.login_refused = False  # whether that was the host's last word on it

    def start_handshake(self, timeout: float) -> None:
        """Do nothing: its timer's thread would keep the program from ending; `timeout` of `connect` holds."""

    def readline(self, timeout: float) -> str:
        """Return a line of the host's greeting; paramiko would read one that never ends, for ever."""
        line, until = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            if len(line) > _GREETING or time.monotonic() > until or self.closed:
                raise EOFError("its greeting does not end")
            with suppress(TimeoutError):
                byte = self._sock.recv(1)
                if not byte:
                    raise EOFError("closed by the host")
                line += byte
        return line.rstrip(b"\r\n").decode("utf-8", "replace")

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read so many bytes; SSHException where no packet is so long."""
        if n > _LONGEST:
            raise SSHException(f"the host announced a packet of {n} bytes")
        return super().read_all(n, check_rekey)

    def close(self) -> None:
        """Close it, and wake the thread that waits for packets."""
        with suppress(OSError):  # it was never connected, or is closed
            self._sock.shutdown(socket.SHUT_RDWR)
        super().close()

    def refusal(self) -> ChannelException | None:
        """Return, once, why the channel that this thread opened was refused."""
        return self._refusals.pop(getattr(self._opening, "number", -1), None)

    def send_message(self, data: Message) -> None:
        """Send a packet, unless it follows its channel's end (RFC 4254, 5.3)."""
        content = data.asbytes()
        kind, number = content[0], int.from_bytes(content[1:5], "big")
        if kind == _OPEN:  # a refusal will come under the number that follows the channel's type
            self._opening.number = int.from_bytes(content[5 + number : 9 + number], "big")
            self._let_in(int.from_bytes(content[9 + number : 13 + number], "big"))
        elif kind == _ADJUST:
            self._let_in(int.from_bytes(content[5:9], "big"))
        if not _ADJUST <= kind <= _LAST:
            super().send_message(data)
            return
        with self._sending:
            ended = self._ended.get(number)
            if ended == _CLOSE or (ended == _EOF and kind in _DATA):
                return
            if kind in (_EOF, _CLOSE):
                self._ended[number] = kind
            try:
                super().send_message(data)
            except EOFError:
                # Room is made by a reader: what has been read is good, and the next read tells that no more comes.
                if kind not in (_ADJUST, _EOF, _CLOSE):
                    raise

    def read_message(self) -> tuple[int, Message]:
        """Return the next packet, noting what paramiko forgets or mixes up."""
        try:
            kind, message = super().read_message()
        except (EOFError, OSError, SSHException):
            self.failed = True
            raise
        if kind in _DATA:
            self._let_in(-len(message.asbytes()) + _DATA_HEAD)
        fields = Message(message.asbytes()) if kind in (_DISCONNECT, _OPENED, _OPEN_FAILURE) else message
        if kind == _OPENED:
            fields.get_int()
            self._ended.pop(fields.get_int(), None)
        elif kind == _OPEN_FAILURE:
            number, reason, words = fields.get_int(), fields.get_int(), fields.get_text()
            self._refusals[number] = ChannelException(reason, words)
        elif kind == _DISCONNECT:
            fields.get_int()
            self.failed = True
            raise SSHException(f"closed by the host: {fields.get_text()}")
        else:
            self.login_refused = kind == _AUTH_FAILURE
        return kind, message

    def _let_in(self, size: int) -> None:
        with self._sending:
            self._room += size
        if self._room < 0:
            self.failed = True
            raise SSHException("the host sent more than it was given room for")

    def write_all(self, out: bytes) -> None:  # type: ignore[override]  # what it is really given
        """Write all of it; EOFError where the peer is gone, or takes nothing, which paramiko would try for ever."""
        until = time.monotonic() + _DEAD_AFTER
        while out:
            try:
                sent = self._sock.send(out)
            except (TimeoutError, BlockingIOError):
                if not self.closed and time.monotonic() < until:
                    continue
                self.close()  # wakes the thread that reads from it
                sent = 0
            except (OSError, EOFError, SSHException):
                sent = 0
            if not sent:
                self.failed = True
                raise EOFError("the connection was lost")
            out, until = out[sent:], time.monotonic() + _DEAD_AFTER


class SharedTransport(Transport):
    """A transport that many threads use; see the table in README.md for what each change prevents."""

    packetizer: _Packets

    def is_active(self) -> bool:
        """Whether nobody has noticed its end yet; paramiko's own answer lags behind the first who noticed."""
        return super().is_active() and not self.packetizer.failed

    def open_channel(self, *args: Any, **options: Any) -> Channel:
        """Open a channel; TimeoutError without an answer, ChannelException where the host says no."""
        try:
            return super().open_channel(*args, **options)
        except SSHException as error:
            silence = TimeoutError() if self.is_active() else error
            raise (self.packetizer.refusal() or silence) from None

    def request(self, channel: Channel, kind: str, words: str, *, answer: bool) -> None:
        """Send a request about a channel (RFC 4254, 6.5 to 6.9), and wait for no answer."""
        message = Message()
        message.add_byte(bytes([_REQUEST]))
        message.add_int(channel.remote_chanid)
        message.add_string(kind)
        message.add_boolean(answer)
        message.add_string(words)
        self.clear_to_send.wait(_DEAD_AFTER)  # not while keys are exchanged anew
        with self.clear_to_send_lock:
            self.packetizer.send_message(message)


def begin(channel: Channel, kind: str, words: str, timeout: float | None) -> None:
    """Begin a command (`exec`) or a subsystem (RFC 4254, 6.5) within so many seconds; paramiko would wait for ever.

    Raises:
        TimeoutError: no answer in time.
        OSError, SSHException, EOFError: the host said no, or the connection was lost.
    """
    channel.event.clear()
    channel.event_ready = False
    transport = cast(SharedTransport, channel.get_transport())
    if not channel.closed:  # only now: what closes it from here on sets the event
        transport.request(channel, kind, words, answer=True)
        if not channel.event.wait(timeout):
            raise TimeoutError
    if not channel.event_ready:
        failure = transport.get_exception()
        raise failure if failure and str(failure) else SSHException("closed by the host")


def end(channel: Channel) -> None:
    """Close a channel; first its command is ended, if it runs: OpenSSH does so for all accounts but root."""
    with suppress(SSHException, EOFError, OSError):  # it may be dead already
        if not channel.closed and not channel.eof_received:
            cast(SharedTransport, channel.get_transport()).request(channel, "signal", "TERM", answer=False)
        channel.close()


def transport_factory(key_types: Sequence[str]) -> Callable[..., Transport]:
    """Return what makes a transport that asks for these types of host keys first: those that are recorded."""
    wanted = [name for kind in key_types for name in _SECOND_NAMES.get(kind, (kind,))]

    def build(sock: "socket.socket | Channel", **options: Any) -> Transport:  # paramiko's own, handed through
        transport = SharedTransport(sock, packetizer_class=_Packets, **options)
        sock.settimeout(_LOOK_UP)
        offered = transport.get_security_options()
        offered.key_types = _preferring(wanted, offered.key_types)
        offered.ciphers = _preferring(_FIRST, offered.ciphers)
        return transport

    return build


def _preferring(wanted: Sequence[str], offered: Sequence[str]) -> list[str]:
    return sorted(offered, key=lambda name: wanted.index(name) if name in wanted else len(wanted))
