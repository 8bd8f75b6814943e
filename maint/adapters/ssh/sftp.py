"""Files on a host over SFTP: paramiko's client, with new files private and synced, and no failed write passed over."""

import errno
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast

from fabric import Connection
from paramiko import Channel, Message, SFTPAttributes, SFTPClient, SFTPError, SFTPFile

from maint.adapters.ssh.connections import BROKEN as _LOST
from maint.adapters.ssh.connections import KeptConnection, alive
from maint.adapters.ssh.transport import begin
from maint.errors import CannotReach

BROKEN = (*_LOST, SFTPError, UnicodeDecodeError)  # what a failing request raises; names there may not be UTF-8
Facts = SFTPAttributes
# draft-ietf-secsh-filexfer-02
_OPEN, _EXTENDED, _STATUS, _NAMES, _FACTS = 3, 200, 101, 104, 105
_SIZES = {1: 8, 2: 8, 4: 4, 8: 8}  # flags of a file's facts, and the bytes of what they announce
_LONGER = 1 << 31  # the flag for further facts, a pair of texts each
_LONGEST = 1 << 20  # bytes of an answer; OpenSSH's own client believes 256 KiB
MOST = 1_000_000  # files in a folder, or in all
_NEW = struct.pack(">III", 2 | 8 | 32, 4, 0o600)  # for writing, created here and by nobody else; its mode
_MISSING, _DENIED, _UNSUPPORTED = 2, 3, 8
_NUMBERS = {_MISSING: errno.ENOENT, _DENIED: errno.EACCES}
_BLOCK = 32 * 1024  # bytes; what every server takes in one message
READ_AT_ONCE = 255 * 1024  # bytes; the most that OpenSSH gives in one answer, of which others give less


class Session:
    """One SFTP channel, for one user at a time; its time-out bounds each wait, SFTPError where it speaks no SFTP."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._answers = _Answers(channel)
        self.client = SFTPClient(cast(Channel, self._answers))

    def facts(self, path: str, *, follow: bool = False) -> Facts | None:
        """Return what a file is, None where there is none; of a link itself, unless it is to be followed."""
        try:
            return self.client.stat(path) if follow else self.client.lstat(path)
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> Sequence[Facts]:
        """Return what is in a folder; nothing where there is none."""
        try:
            self._answers.names = 0
            return self.client.listdir_attr(folder)
        except FileNotFoundError:
            return []

    def remove(self, path: str) -> None:
        """Remove a file; no complaint where there is none."""
        with suppress(FileNotFoundError):
            self.client.remove(path)

    def open(self, path: str) -> SFTPFile:
        """Open a file to be read, by large requests, one at a time."""
        file = self.client.open(path, "r")
        file.MAX_REQUEST_SIZE = READ_AT_ONCE
        return file

    def link(self, path: str, name: str) -> None:
        """Give a file a further name, which must not exist, by a hard link; OSError where that cannot be."""
        self.request(_EXTENDED, *(_string(text.encode()) for text in ("hardlink@openssh.com", path, name)))

    def request(self, kind: int, *fields: bytes) -> bytes:
        """Send a request that paramiko has no words for, while no other is under way, and return its answer.

        Raises:
            OSError: what the server said; Unsupported where it does not know the request.
        """
        content = b"".join(fields)
        self._answers.asked += 1
        self.channel.sendall(struct.pack(">IBI", len(content) + 5, kind, 0) + content)
        answer = Message(self._answers.whole()[4:])
        answered, _ = answer.get_byte()[0], answer.get_int()
        if answered != _STATUS:
            return answer.get_string()
        code, words = answer.get_int(), answer.get_text()
        if code == _UNSUPPORTED:
            raise Unsupported(words)
        if code:
            raise OSError(_NUMBERS[code], words) if code in _NUMBERS else OSError(words)
        return b""


class _Answers:
    """The channel of a session as paramiko's client uses it: an answer is handed out once its counts are true.

    paramiko believes any length, fills what a count announces and the answer lacks with nothing, and waits for ever
    for the right one among answers that nobody asked for.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting = b""
        self._until = 0.0  # when the answer under way must be whole, on the monotonic clock
        self.asked = 0  # requests, at least, to which no answer has come
        self.names = 0  # that have come of a folder
        self.get_name = channel.get_name
        self.close = channel.close

    def send(self, content: bytes) -> int:
        """Send a request, or some of it; return how many bytes."""
        self.asked += 1
        return self._channel.send(content)

    def recv_ready(self) -> bool:
        """Return whether bytes of an answer are there."""
        return bool(self._waiting) or self._channel.recv_ready()

    def recv(self, size: int) -> bytes:
        """Return at most so many bytes of the answer under way."""
        self._waiting = self._waiting or self.whole()
        block, self._waiting = self._waiting[:size], self._waiting[size:]
        return block

    def whole(self) -> bytes:
        """Return the next answer with its length; SFTPError where it cannot be one, TimeoutError: not in time."""
        self._until = time.monotonic() + (self._channel.gettimeout() or 0)
        head = self._read(4)
        self.asked -= 1
        if not 0 < (length := int.from_bytes(head, "big")) <= _LONGEST or self.asked < 0:
            raise SFTPError(f"the server sent what is not an answer, of {length} bytes")
        answer = self._read(length)
        if answer[0] in (_NAMES, _FACTS):
            self._prove(answer)
        return head + answer

    def _prove(self, answer: bytes) -> None:
        at, names = 5, 1
        if answer[0] == _NAMES:
            names, at = _number(answer, at)
            self.names += names
        if self.names > MOST:
            raise SFTPError(f"the server lists more than {MOST} files in a folder")
        for _ in range(names):
            if answer[0] == _NAMES:
                at = _behind_text(answer, _behind_text(answer, at))
            flags, at = _number(answer, at)
            at += sum(size for flag, size in _SIZES.items() if flags & flag)
            pairs, at = _number(answer, at) if flags & _LONGER else (0, at)
            for _ in range(pairs):
                at = _behind_text(answer, _behind_text(answer, at))

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            block = self._channel.recv(size - len(found))
            if not block:
                raise EOFError("the connection was lost")
            found += block
            if len(found) < size and time.monotonic() > self._until:
                raise TimeoutError
        return bytes(found)


def _number(answer: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    if at + 4 > len(answer):
        raise SFTPError("the server announced more than it sent")
    return int.from_bytes(answer[at : at + 4], "big"), at + 4


def _behind_text(answer: bytes, at: int) -> int:
    length, at = _number(answer, at)
    return at + length


class Unsupported(OSError):
    """The server does not know a request."""


class Upload:
    """A new file being written, for its owner alone; it must not exist, and the channel has no other user meanwhile."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = path
        self._handle = session.request(_OPEN, _string(path.encode()), _NEW)
        self._file = SFTPFile(session.client, self._handle, "w")
        self._file.set_pipelined(True)
        self._waiting = bytearray()
        self._size = 0

    def write(self, block: bytes | bytearray | memoryview, /) -> int:
        """Write a block; a later call may report its failure, at the latest `finish`."""
        self._waiting += block
        self._size += len(block)
        if len(self._waiting) > _BLOCK:  # one byte at least stays for `finish`
            whole = (len(self._waiting) - 1) // _BLOCK * _BLOCK
            self._file.write(bytes(self._waiting[:whole]))
            del self._waiting[:whole]
        return len(block)

    def finish(self) -> None:
        """Wait for all answers, put the file on disk where the server offers it, close it, and look at its size."""
        self._file.set_pipelined(False)  # what is written so waits for the answers to all that went before
        self._file.write(bytes(self._waiting))
        with suppress(Unsupported):
            self._session.request(_EXTENDED, _string(b"fsync@openssh.com"), _string(self._handle))
        self._file.close()  # tells no failure
        if self._session.client.lstat(self._path).st_size != self._size:
            raise OSError("the file is not whole there")


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


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
        except BaseException as failure:
            with suppress(*BROKEN):  # it may be dead already
                session.channel.close()
            if _silent(failure) or not alive(connection):
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
        connection, channel, _ = self._kept.session()
        try:
            channel.settimeout(self._timeout)
            begin(channel, "subsystem", "sftp", self._timeout)
            return connection, Session(channel)
        except BROKEN as error:
            if self._kept.gave_up(connection, error):
                raise
            raise CannotReach(
                f"{self._kept.address}: it serves this account no SFTP",
                detail=[str(error)] if str(error) else [],
                hint="look at `Subsystem sftp`, ForceCommand and ChrootDirectory in sshd_config there, and at its log",
            ) from None


def _silent(failure: BaseException | None) -> bool:
    # An answer was waited for in vain, whatever that became on its way here.
    return failure is not None and (isinstance(failure, TimeoutError) or _silent(failure.__context__))
