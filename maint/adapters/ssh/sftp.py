"""Files on a host over SFTP: many requests under way at once, and the answer to every one of them looked at.

paramiko's own file objects are not used: pipelined, they do not tell every write that failed.
"""

import errno
import io
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from maint.adapters.ssh.channel_guard import request
from maint.adapters.ssh.connection import Line
from maint.adapters.ssh.paramiko_import import Message, SFTPAttributes, SFTPClient, SFTPError, SSHException, Transport
from maint.adapters.ssh.paramiko_import import sftp as protocol

BROKEN = (OSError, EOFError, SSHException, SFTPError)  # what a failing server or connection raises
Facts = SFTPAttributes
_VERSION = 3
_FSYNC = b"fsync@openssh.com"
_BLOCK = 32 * 1024  # what every server takes in one message
_UNDER_WAY = 64  # requests; with blocks of this size they fill the channel's window


class Session(SFTPClient):
    """One SFTP channel, for one user at a time; knows what the server offers beyond the standard."""

    offered: frozenset[bytes] = frozenset()
    silent = False  # whether an answer was waited for in vain

    def _send_version(self) -> int:
        message = Message()
        message.add_int(_VERSION)
        self._send_packet(protocol.CMD_INIT, message)
        kind, content = self._read_packet()
        if kind != protocol.CMD_VERSION or len(content) < 4:
            raise SSHException("it does not speak SFTP")
        self.offered = frozenset(_pairs(content[4:]))
        return int(struct.unpack(">I", content[:4])[0])

    # Both are the names by which paramiko sends and reads everything.
    def _send_packet(self, kind: int, packet: Message) -> None:
        with self._noticing():
            super()._send_packet(kind, packet)  # type: ignore[misc]  # absent from the stub

    def _read_packet(self) -> tuple[int, bytes]:
        with self._noticing():
            read: tuple[int, bytes] = super()._read_packet()  # type: ignore[misc]  # absent from the stub
        return read

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self.silent = True
            raise

    def ask(self, kind: int, *fields: object) -> Message:
        """Send one request and return its answer; OSError says what the server said."""
        return self._request(kind, *fields)[1]  # type: ignore[attr-defined, no-any-return]  # absent from the stub

    def send(self, owner: "_Pipeline", kind: int, *fields: object) -> int:
        """Send one request whose answer goes to its owner; return its number."""
        return self._async_request(owner, kind, *fields)  # type: ignore[attr-defined, no-any-return]  # absent from the stub

    def receive(self) -> None:
        """Wait for one answer and hand it to its owner."""
        self._read_response()  # type: ignore[attr-defined]  # absent from the stub

    def judge(self, message: Message) -> None:
        """Raise OSError, or EOFError at the end of a file, where a status is no success."""
        self._convert_status(message)  # type: ignore[attr-defined]  # absent from the stub


def _pairs(content: bytes) -> Iterator[bytes]:
    message = Message(content)
    while message.get_remainder():
        yield message.get_string()
        message.get_string()


class _Pipeline:
    """Requests about one open file, in order."""

    def __init__(self, session: Session, path: str, flags: int, mode: int) -> None:
        self._session = session
        attributes = SFTPAttributes()
        if flags & protocol.SFTP_FLAG_CREATE:
            attributes.st_mode = mode
        answer = session.ask(protocol.CMD_OPEN, path.encode(), flags, attributes)
        self._handle = answer.get_binary()
        self._answers: dict[int, tuple[int, Message]] = {}

    # The name by which paramiko hands over what is no answer to its own requests.
    def _async_response(self, kind: int, message: Message, number: int) -> None:
        self._answers[number] = (kind, message)

    def _send(self, kind: int, *fields: object) -> int:
        return self._session.send(self, kind, self._handle, *fields)

    def _answer(self, number: int) -> tuple[int, Message]:
        while number not in self._answers:
            self._session.receive()
        return self._answers.pop(number)

    def _end(self) -> None:
        self._session.ask(protocol.CMD_CLOSE, self._handle)


class Upload(_Pipeline):
    """A new file being written, for its owner alone.

    Args:
        session: the channel; nobody else may use it meanwhile.
        path: the file, which must not exist.

    Raises:
        OSError: the server said no.
    """

    def __init__(self, session: Session, path: str) -> None:
        super().__init__(
            session, path, protocol.SFTP_FLAG_WRITE | protocol.SFTP_FLAG_CREATE | protocol.SFTP_FLAG_EXCL, 0o600
        )
        self._waiting = bytearray()
        self._sent: deque[int] = deque()
        self._offset = 0

    def write(self, block: bytes | bytearray | memoryview, /) -> int:
        """Write a block; a failure may be told by a later call, at the latest by `finish`."""
        self._waiting += block
        whole = len(self._waiting) - len(self._waiting) % _BLOCK
        if whole:
            self._push(bytes(self._waiting[:whole]))
            del self._waiting[:whole]
        return len(block)

    def finish(self) -> None:
        """Wait for all answers, put the file on disk where the server offers it, and close it."""
        self._push(bytes(self._waiting))
        while self._sent:
            self._settle()
        if _FSYNC in self._session.offered:
            self._session.ask(protocol.CMD_EXTENDED, _FSYNC, self._handle)
        self._end()

    def _push(self, content: bytes) -> None:
        for start in range(0, len(content), _BLOCK):
            block = content[start : start + _BLOCK]
            self._sent.append(self._send(protocol.CMD_WRITE, protocol.int64(self._offset), block))
            self._offset += len(block)
            if len(self._sent) > _UNDER_WAY:
                self._settle()

    def _settle(self) -> None:
        kind, message = self._answer(self._sent.popleft())
        if kind != protocol.CMD_STATUS:
            raise SFTPError("a write was answered with something else")
        self._session.judge(message)


class Download(_Pipeline, io.RawIOBase):
    """A file being read from its beginning, as a raw stream.

    Args:
        session: the channel; nobody else may use it meanwhile.
        path: the file.
        size: its bytes.
    """

    def __init__(self, session: Session, path: str, size: int) -> None:
        super().__init__(session, path, protocol.SFTP_FLAG_READ, 0)
        self._size = size
        self._asked = 0
        self._sent: deque[tuple[int, int, int]] = deque()  # number, offset, bytes
        self._block = memoryview(b"")

    def readable(self) -> bool:
        """Yes."""
        return True

    # "override": the type of its argument, Buffer, has a name only from Python 3.12 on.
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read what is at hand, at least one byte but at the end."""
        if not self._block:
            self._block = memoryview(self._next())
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def finish(self) -> None:
        """Close it; answers still under way are waited for, so that the channel can be used again."""
        while self._sent:
            self._answer(self._sent.popleft()[0])
        self._end()

    def _next(self) -> bytes:
        while self._asked < self._size and len(self._sent) < _UNDER_WAY:
            self._request_block(self._asked, min(_BLOCK, self._size - self._asked))
            self._asked += self._sent[-1][2]
        if not self._sent:
            return b""
        number, offset, wanted = self._sent.popleft()
        kind, message = self._answer(number)
        if kind != protocol.CMD_DATA:
            self._session.judge(message)
            raise SFTPError("a read was answered with something else")
        content = message.get_binary()
        if len(content) < wanted:
            # Allowed to the server; what is missing comes next.
            self._request_block(offset + len(content), wanted - len(content))
            self._sent.rotate(1)
        return content

    def _request_block(self, offset: int, size: int) -> None:
        self._sent.append((self._send(protocol.CMD_READ, protocol.int64(offset), size), offset, size))


class Sessions:
    """SFTP channels over one connection: each has one user at a time, and is used again.

    Args:
        line: the way to the host.
        timeout: seconds without any answer after which the server counts as gone.
    """

    def __init__(self, line: Line, timeout: float) -> None:
        self._line = line
        self._timeout = timeout
        self._free: list[tuple[Transport, Session]] = []
        self._lock = threading.Lock()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a channel; after a failure it is thrown away, since answers may still be under way on it.

        Raises:
            CannotReach: no connection.
            OSError, EOFError, SSHException: what SFTP and SSH say.
        """
        transport, session = self._borrowed()
        try:
            yield session
        except BaseException:
            with suppress(OSError, EOFError, SSHException):  # it may be dead already
                session.close()
            if session.silent or not transport.is_active():
                self._line.drop(transport)  # it is told once: whoever comes next gets a new one
            raise
        with self._lock:
            self._free.append((transport, session))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._free.clear()
        self._line.drop()

    def _borrowed(self) -> tuple[Transport, Session]:
        transport = self._line.transport()
        with self._lock:
            while self._free:
                of, session = self._free.pop()
                channel = session.get_channel()
                if of is transport and channel is not None and not channel.closed:
                    return transport, session
        return self._opened()

    def _opened(self) -> tuple[Transport, Session]:
        transport, channel, reused = self._line.open_channel()
        try:
            channel.settimeout(self._timeout)
            request(channel, "subsystem", "sftp", self._timeout)
            return transport, Session(channel)
        except BROKEN as error:
            if not self._line.gave_up(transport, error) or not reused:
                raise
        # Nothing has begun: a connection that turns out dead is replaced.
        return self._opened()


def is_missing(error: OSError) -> bool:
    """Tell whether the server said that there is no such file."""
    return error.errno == errno.ENOENT
