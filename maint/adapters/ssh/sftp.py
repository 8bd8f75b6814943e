"""Files on a host over SFTP 3, pipelined, each answer looked at, memory bounded: paramiko's own client does neither."""

import errno
import io
import struct
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

import msgspec
from fabric import Connection
from paramiko import Channel, Message
from paramiko.ssh_exception import SSHException

from maint.adapters.ssh.connections import BROKEN as BROKEN
from maint.adapters.ssh.connections import KeptConnection, alive
from maint.adapters.ssh.transport import begin

# draft-ietf-secsh-filexfer-02
_INIT, _VERSION, _OPEN, _CLOSE, _READ, _WRITE, _LSTAT = 1, 2, 3, 4, 5, 6, 7
_OPENDIR, _READDIR, _REMOVE, _MKDIR, _STAT, _RENAME, _EXTENDED = 11, 12, 13, 14, 17, 18, 200
_STATUS, _HANDLE, _CONTENT, _NAME, _ATTRIBUTES = 101, 102, 103, 104, 105
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES = 1, 2, 4, 8
_FOR_READING, _FOR_WRITING, _NEW = 1, 2, 8 | 32  # create, exclusively
_END, _MISSING, _DENIED = 1, 2, 3
_FSYNC = b"fsync@openssh.com"
_BLOCK = 32 * 1024  # what every server takes in one message
_LARGEST = 1024 * 1024  # bytes of an answer
_UNDER_WAY = 64  # requests; with blocks of this size they fill the channel's window


class Facts(msgspec.Struct, frozen=True):
    """What a server tells of a file: its name without folders, type and mode, bytes, and seconds since 1970."""

    name: str
    mode: int
    size: int
    modified: int


class Session:
    """One SFTP channel, for one user at a time; its time-out bounds each wait, SSHException where it speaks no SFTP."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.silent = False  # whether an answer was waited for in vain
        self._number = 0
        self._received = bytearray()
        self._answers: dict[int, tuple[int, Message]] = {}
        self._send_packet(_INIT, _int(3))
        kind, message = self._packet()
        if kind != _VERSION or message.get_int() < 3:
            raise SSHException("it does not speak SFTP")
        self.offered: set[bytes] = set()
        while message.get_remainder():
            self.offered.add(message.get_string())
            message.get_string()

    def facts(self, path: str, *, follow: bool = False) -> Facts | None:
        """Return what a file is, None where there is none; of a link itself, unless it is to be followed."""
        try:
            message = self.answer(self.send(_STAT if follow else _LSTAT, _text(path)), _ATTRIBUTES)
        except FileNotFoundError:
            return None
        return _facts(path.rpartition("/")[2], message)

    def list(self, folder: str) -> Sequence[Facts]:
        """Return what is in a folder; nothing where there is none."""
        try:
            handle = self.answer(self.send(_OPENDIR, _text(folder)), _HANDLE).get_string()
        except FileNotFoundError:
            return []
        found: list[Facts] = []
        with suppress(EOFError):
            while True:
                message = self.answer(self.send(_READDIR, _string(handle)), _NAME)
                for _ in range(message.get_int()):
                    name = message.get_string().decode("utf-8", "surrogateescape")
                    message.get_string()
                    found.append(_facts(name, message))
        self.close_handle(handle)
        return [one for one in found if one.name not in (".", "..")]

    def make_folder(self, path: str) -> None:
        """Make a folder for its owner alone."""
        self.answer(self.send(_MKDIR, _text(path), _int(_HAS_MODE), _int(0o700)))

    def remove(self, path: str) -> None:
        """Remove a file; no complaint where there is none."""
        with suppress(FileNotFoundError):
            self.answer(self.send(_REMOVE, _text(path)))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, which must not be taken."""
        self.answer(self.send(_RENAME, _text(old), _text(new)))

    def open(self, path: str, flags: int) -> bytes:
        """Open a file and return its handle; a new one is for its owner alone."""
        return self.answer(
            self.send(_OPEN, _text(path), _int(flags), _int(_HAS_MODE), _int(0o600)), _HANDLE
        ).get_string()

    def close_handle(self, handle: bytes) -> None:
        """Close a file or a folder."""
        self.answer(self.send(_CLOSE, _string(handle)))

    def sync(self, handle: bytes) -> None:
        """Put a file on disk, where the server offers it."""
        if _FSYNC in self.offered:
            self.answer(self.send(_EXTENDED, _string(_FSYNC), _string(handle)))

    def send(self, kind: int, *fields: bytes) -> int:
        """Send a request and return its number."""
        self._number += 1
        self._send_packet(kind, _int(self._number), *fields)
        return self._number

    def answer(self, number: int, expected: int = _STATUS) -> Message:
        """Return the answer to a request.

        Raises:
            OSError: what the server said; FileNotFoundError where there is no such file.
            EOFError: the end of a file or a folder.
            SSHException: it answered something else.
        """
        while number not in self._answers:
            kind, message = self._packet()
            self._answers[message.get_int()] = (kind, message)
        kind, message = self._answers.pop(number)
        if kind == _STATUS:
            code = message.get_int()
            if code:
                _refuse(code, message.get_text())
        if kind != expected:
            raise SSHException("a request was answered with something else")
        return message

    def _send_packet(self, kind: int, *fields: bytes) -> None:
        content = b"".join(fields)
        with self._noticing():
            self.channel.sendall(struct.pack(">IB", len(content) + 1, kind) + content)

    def _packet(self) -> tuple[int, Message]:
        size = struct.unpack(">I", self._read(4))[0]
        if not 5 <= size <= _LARGEST:
            raise SSHException("it does not speak SFTP")
        content = self._read(size)
        return content[0], Message(content[1:])

    def _read(self, size: int) -> bytes:
        while len(self._received) < size:
            with self._noticing():
                block = self.channel.recv(2 * _BLOCK)
            if not block:
                raise EOFError("the connection was lost")
            self._received += block
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self.silent = True
            raise


def _int(number: int) -> bytes:
    return struct.pack(">I", number)


def _string(content: bytes) -> bytes:
    return _int(len(content)) + content


def _text(text: str) -> bytes:
    return _string(text.encode("utf-8", "surrogateescape"))


def _facts(name: str, message: Message) -> Facts:
    flags = message.get_int()
    size = message.get_int64() if flags & _HAS_SIZE else 0
    if flags & _HAS_OWNER:
        message.get_bytes(8)
    mode = message.get_int() if flags & _HAS_MODE else 0
    _, modified = (message.get_int(), message.get_int()) if flags & _HAS_TIMES else (0, 0)
    for _ in range(2 * message.get_int() if flags >> 31 else 0):
        message.get_string()
    return Facts(name, mode, size, modified)


def _refuse(code: int, words: str) -> NoReturn:
    if code == _END:
        raise EOFError(words)
    number = {_MISSING: errno.ENOENT, _DENIED: errno.EACCES}.get(code)
    raise OSError(words) if number is None else OSError(number, words)


class Upload:
    """A new file being written, for its owner alone; it must not exist, and the channel has no other user meanwhile."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._handle = session.open(path, _FOR_WRITING | _NEW)
        self._waiting = bytearray()
        self._sent: deque[int] = deque()
        self._offset = 0

    def write(self, block: bytes | bytearray | memoryview, /) -> int:
        """Write a block; a later call may report its failure, at the latest by `finish`."""
        self._waiting += block
        whole = len(self._waiting) - len(self._waiting) % _BLOCK
        self._push(bytes(self._waiting[:whole]))
        del self._waiting[:whole]
        return len(block)

    def finish(self) -> None:
        """Wait for all answers, put the file on disk where the server offers it, and close it."""
        self._push(bytes(self._waiting))
        while self._sent:
            self._session.answer(self._sent.popleft())
        self._session.sync(self._handle)
        self._session.close_handle(self._handle)

    def _push(self, content: bytes) -> None:
        for start in range(0, len(content), _BLOCK):
            block = content[start : start + _BLOCK]
            place = struct.pack(">Q", self._offset)
            self._sent.append(self._session.send(_WRITE, _string(self._handle), place, _string(block)))
            self._offset += len(block)
            if len(self._sent) > _UNDER_WAY:
                self._session.answer(self._sent.popleft())


class Download(io.RawIOBase):
    """A file of so many bytes being read from its beginning; the channel has no other user meanwhile."""

    def __init__(self, session: Session, path: str, size: int) -> None:
        self._session = session
        self._handle = session.open(path, _FOR_READING)
        self._size = size
        self._asked = 0
        self._sent: deque[tuple[int, int, int]] = deque()  # number, offset, bytes
        self._block = memoryview(b"")

    def readable(self) -> bool:
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
            self._session.answer(self._sent.popleft()[0], _CONTENT)
        self._session.close_handle(self._handle)

    def _next(self) -> bytes:
        while self._asked < self._size and len(self._sent) < _UNDER_WAY:
            self._ask(self._asked, min(_BLOCK, self._size - self._asked))
            self._asked += self._sent[-1][2]
        if not self._sent:
            return b""
        number, offset, wanted = self._sent.popleft()
        content = self._session.answer(number, _CONTENT).get_string()
        if len(content) < wanted:
            # Allowed to the server; what is missing comes next.
            self._ask(offset + len(content), wanted - len(content))
            self._sent.rotate(1)
        return content

    def _ask(self, offset: int, size: int) -> None:
        number = self._session.send(_READ, _string(self._handle), struct.pack(">QI", offset, size))
        self._sent.append((number, offset, size))


class Sessions:
    """SFTP channels over one connection, each used again; the server counts as gone after `timeout` silent seconds."""

    def __init__(self, kept: KeptConnection, timeout: float) -> None:
        self._kept = kept
        self._timeout = timeout
        self._free: list[tuple[Connection, Session]] = []
        self._lock = threading.Lock()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Lend a channel; after a failure it is thrown away, since answers may still be under way on it."""
        connection, session = self._borrowed()
        try:
            yield session
        except BaseException:
            with suppress(*BROKEN):  # it may be dead already
                session.channel.close()
            if session.silent or not alive(connection):
                self._kept.drop(connection)  # this is reported once: the next user gets a new one
            raise
        with self._lock:
            self._free.append((connection, session))

    def close(self) -> None:
        with self._lock:
            self._free.clear()
        self._kept.drop()

    def _borrowed(self) -> tuple[Connection, Session]:
        connection, _ = self._kept.live()
        with self._lock:
            while self._free:
                of, session = self._free.pop()
                if of is connection and not session.channel.closed:
                    return connection, session
        return self._opened()

    def _opened(self) -> tuple[Connection, Session]:
        connection, channel, reused = self._kept.session()
        try:
            channel.settimeout(self._timeout)
            begin(channel, "subsystem", "sftp", self._timeout)
            return connection, Session(channel)
        except BROKEN as error:
            if not self._kept.gave_up(connection, error) or not reused:
                raise
        # Nothing has begun: a connection that turns out dead is replaced.
        return self._opened()
