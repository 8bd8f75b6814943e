"""Compress with zstd and encrypt with age, as streams that stock `zstd` and `age` read and write."""

import io
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Protocol, cast

import zstandard

from maint.errors import Invalid, NoKeyFits, WorkFailed
from maint.files import as_file
from maint.model.secret import Secret

_MASK = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
try:
    import pyrage  # which panics where a signal raises while it is read in: such a one waits that long
finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, _MASK)

_AHEAD = 1 << 20  # bytes


class Broken(Exception):
    """The other side has no more use for this stream."""


class Pipe:
    """A stream of bytes from one writing thread to one reading thread; a writer far ahead waits."""

    def __init__(self) -> None:
        self._blocks: deque[bytes] = deque()
        self._waiting = 0
        self._ended = False
        self._reason: BaseException | None = None
        self._changed = threading.Condition()
        self._rest = memoryview(b"")  # the reader's own: what is left of the block that it took last

    def write(self, block: bytes) -> int:
        """Hand a block on, waiting for room; raises what the reader broke off with."""
        with self._changed:
            while self._waiting >= _AHEAD and not self._reason:
                self._changed.wait()
            if self._reason:
                raise self._reason
            if block:
                self._blocks.append(block)
                self._waiting += len(block)
                self._changed.notify_all()
        return len(block)

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, b'' at the end; raises what the writer broke off with."""
        if not self._rest:
            whole = self._take()
            if len(whole) <= size:
                return whole
            self._rest = memoryview(whole)
        block = bytes(self._rest[:size])
        self._rest = self._rest[size:]
        return block

    def _take(self) -> bytes:
        with self._changed:
            while not (self._blocks or self._ended or self._reason):
                self._changed.wait()
            if self._reason:
                raise self._reason
            if not self._blocks:
                return b""
            block = self._blocks.popleft()
            self._waiting -= len(block)
            self._changed.notify_all()
            return block

    def end(self) -> None:
        """Say, as the writer, that all has been written."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def break_off(self, reason: BaseException) -> None:
        """Say, as either side, that this side is gone: the other one finds the reason raised."""
        with self._changed:
            self._reason = self._reason or reason
            self._blocks.clear()
            self._changed.notify_all()


@contextmanager
def in_a_thread(work: Callable[[], None], pipe: Pipe) -> Iterator[None]:
    """Run work in a thread beside the block; the thread has ended when the block is left, however it is left.

    Whichever side fails breaks the pipe off, so that the other one ends too. A failure of the work is raised
    unchanged: in the block as soon as it uses the pipe, else when the block is left.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # a thread's failure belongs to the code that started it
            failures.append(failure)
            pipe.break_off(failure)

    thread = threading.Thread(target=run, name="maint-pipe", daemon=True)
    thread.start()
    try:
        yield
        thread.join()
    except BaseException:
        pipe.break_off(Broken())
        thread.join()
        raise
    for failure in failures:
        if not isinstance(failure, Broken):
            raise failure


_BLOCK = 256 * 1024
_ANOTHER = "take another copy of it; `maint backup verify` tells which snapshots and copies are whole"
_LEVEL = 3
_MAX_WINDOW = 128 << 20  # what stock zstd accepts without being asked
_RLE = 1  # the one block type whose content is a single byte, whatever size it states

Read = Callable[[int], bytes]


class _Identity(Protocol):
    def to_public(self) -> object: ...


class AgeSeal:
    """`ports.Seal` with X25519 keys; files are one zstd frame inside one binary age file."""

    def new_identity(self) -> tuple[Secret, str]:
        identity = pyrage.x25519.Identity.generate()
        return Secret(str(identity)), str(identity.to_public())

    def recipient_of(self, identity: Secret) -> str:
        """Return the recipient of a private key, of the first where a file has several; Invalid for anything else."""
        return str(_parse_identities(identity)[0].to_public())

    def encrypt(self, source: Read, target: BinaryIO, recipients: Sequence[str]) -> None:
        """Pull from `source` until b'', encrypt and write; Invalid for missing or malformed recipients.

        pyrage is called in a thread beside: in the main one it takes what a signal raises for a failed read, or loses
        it.
        """
        keys, plain = _parse_recipients(recipients), Pipe()
        with in_a_thread(lambda: _encrypt(plain.read, target, keys), plain):
            while block := source(_BLOCK):
                plain.write(block)
            plain.end()

    @contextmanager
    def decrypt(self, source: BinaryIO, identities: Sequence[Secret]) -> Iterator[BinaryIO]:
        """Give the decrypted stream of what `encrypt` wrote; see `unwrap`."""
        keys = _parse_all(identities)
        pipe = Pipe()
        with in_a_thread(lambda: _decrypt(source.read, pipe, keys), pipe):
            try:
                yield as_file(pipe.read, _BLOCK)
            finally:
                pipe.break_off(Broken())

    def wrap(self, source: Read, target: BinaryIO, recipients: Sequence[str]) -> None:
        """Pull from `source` until b'', compress, encrypt and write to `target`; Invalid as `encrypt`.

        `source` is called in the calling thread; whatever `source` or `target` raise comes out unchanged.
        """
        keys = _parse_recipients(recipients)
        plain, packed = Pipe(), Pipe()

        def pack() -> None:
            _compress(plain.read, packed.write)
            packed.end()

        with in_a_thread(lambda: _encrypt(packed.read, target, keys), packed), in_a_thread(pack, plain):
            while block := source(_BLOCK):
                plain.write(block)
            plain.end()

    @contextmanager
    def unwrap(self, source: BinaryIO, identities: Sequence[Secret]) -> Iterator[BinaryIO]:
        """Give the decrypted, decompressed stream; it may be left before its end.

        b'' is only read after the end has been proven: of the age file, of the zstd frame, and that nothing follows.

        Raises:
            WorkFailed: at a read or when the block is left: no key fits, or it is damaged.
            Invalid: no private keys, or a malformed one.
        """
        keys = _parse_all(identities)
        packed, plain = Pipe(), Pipe()

        with (
            in_a_thread(lambda: _decrypt(source.read, packed, keys), packed),
            in_a_thread(lambda: _decompress(packed.read, plain), plain),
            _read_from(plain, packed) as stream,
        ):
            yield stream

    def compress(self, source: Read, target: BinaryIO) -> None:
        """Pull from `source` until b'', compress in a thread beside, and write to `target`."""
        plain = Pipe()
        with in_a_thread(lambda: _compress(plain.read, target.write), plain):
            while block := source(_BLOCK):
                plain.write(block)
            plain.end()

    @contextmanager
    def decompress(self, source: BinaryIO) -> Iterator[BinaryIO]:
        """Give the decompressed stream, which may be left early; WorkFailed, at a read or the end: it is damaged."""
        plain = Pipe()
        with in_a_thread(lambda: _decompress(source.read, plain), plain), _read_from(plain) as stream:
            yield stream


def _parse_all(identities: Sequence[Secret]) -> list[_Identity]:
    keys = [key for identity in identities for key in _parse_identities(identity)]
    if not keys:
        raise Invalid("no private key to decrypt with", hint="set backup.identity, or give --identity")
    return keys


def _parse_recipients(recipients: Sequence[str]) -> list[object]:
    if not recipients:
        raise Invalid("no recipients to encrypt for", hint="set backup.recipients; age-keygen makes a key pair")
    return [_parse_recipient(recipient) for recipient in recipients]


def _parse_recipient(recipient: str) -> object:
    try:
        return pyrage.x25519.Recipient.from_str(recipient.strip())
    except pyrage.RecipientError as error:
        raise Invalid(
            f"{recipient!r} is not an age recipient", detail=[str(error)], hint="it looks like age1…"
        ) from None


def _parse_identities(identity: Secret) -> list[_Identity]:
    # age-keygen writes comments above the key.
    lines = [line.strip() for line in identity.reveal().splitlines()]
    try:
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except pyrage.IdentityError as error:
        raise Invalid(
            "this is not an age private key",
            detail=[str(error)],
            hint="it looks like AGE-SECRET-KEY-1…, as age-keygen writes it",
        ) from None
    if not found:
        raise Invalid("this holds no age private key", hint="age-keygen makes one")
    return found


class _Calls:
    """What pyrage calls for bytes; it hides what a caller raises, so that is kept here."""

    def __init__(self, read: Read, write: Callable[[bytes], int | None]) -> None:
        self._read = read
        self._write = write
        self.failure: BaseException | None = None

    def read(self, size: int) -> bytes:
        try:
            return self._read(size)
        except BaseException as failure:
            self.failure = failure
            raise

    def write(self, block: bytes) -> int:
        try:
            written = self._write(block)
        except BaseException as failure:
            self.failure = failure
            raise
        return len(block) if written is None else written

    def insist(self) -> None:
        """Raise what a call raised although pyrage says that all is well: it hands on its last bytes as it goes."""
        if self.failure is not None:
            raise self.failure


def _encrypt(read: Read, target: BinaryIO, recipients: Sequence[object]) -> None:
    # age asks for 8 KiB at a time; the source is never asked for less than a block.
    calls = _Calls(as_file(read, _BLOCK).read, target.write)
    try:
        pyrage.encrypt_io(calls, calls, recipients)
    except Exception as error:
        raise calls.failure or WorkFailed(
            "cannot encrypt",
            detail=[str(error)],
            hint="each of backup.recipients is a public key of age (age1…) or of ssh: `age-keygen -y` prints one",
        ) from None
    calls.insist()


def _decrypt(read: Read, pipe: Pipe, identities: Sequence[_Identity]) -> None:
    # age hands on 8 KiB at a time; the other thread is not woken for less than a block.
    gathered = bytearray()

    def write(block: bytes) -> int:
        gathered.extend(block)
        if len(gathered) >= _BLOCK:
            pipe.write(bytes(gathered))
            gathered.clear()
        return len(block)

    calls = _Calls(as_file(read, _BLOCK).read, write)
    try:
        pyrage.decrypt_io(calls, calls, identities)
    except Exception as error:
        raise calls.failure or _undecryptable(error) from None
    calls.insist()
    pipe.write(bytes(gathered))
    pipe.end()


def _undecryptable(error: Exception) -> WorkFailed:
    if "No matching keys" in str(error):
        return NoKeyFits("none of the private keys at hand opens it", hint="give a recipient's identity")
    return WorkFailed("it cannot be decrypted: damaged, cut short, or no age file", detail=[str(error)], hint=_ANOTHER)


def _compress(read: Read, write: Callable[[bytes], int | None]) -> None:
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    while block := read(_BLOCK):
        if packed := compressor.compress(block):
            write(packed)
    write(compressor.flush())


def _decompress(read: Read, pipe: Pipe) -> None:
    try:
        for block in _frame(as_file(read, _BLOCK)):
            pipe.write(block)
    except zstandard.ZstdError as error:
        raise WorkFailed(
            "it cannot be decompressed: damaged, or no zstd file", detail=[str(error)], hint=_ANOTHER
        ) from None
    pipe.end()


@contextmanager
def _read_from(pipe: Pipe, *behind: Pipe) -> Iterator[BinaryIO]:
    # When the file is left, the writer into its pipe ends, and those into the pipes behind it.
    stream = as_file(pipe.read, _BLOCK)
    try:
        yield cast(BinaryIO, stream)
        # A caller that has read all the bytes but not yet the end still learns whether that end is true.
        stream.read(1)
    finally:
        for one in (pipe, *behind):
            one.break_off(Broken())


def _frame(source: io.BufferedReader) -> Iterator[bytes]:
    """Yield the content of a zstd frame block by block, at most 128 KiB each (RFC 8878, 3.1.1).

    The decompressor would give back 200 MB for 20 kB of input; its streaming reader takes a cut frame for an ended one.
    """
    head = _exactly(source, 5)
    head += _exactly(source, zstandard.frame_header_size(head) - len(head))
    frame = zstandard.get_frame_parameters(head)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
    yield decompressor.decompress(head)
    last = False
    while not last:
        header = _exactly(source, 3)
        word = int.from_bytes(header, "little")
        last, kind, size = bool(word & 1), word >> 1 & 3, word >> 3
        tail = 4 if last and frame.has_checksum else 0
        yield decompressor.decompress(header + _exactly(source, (1 if kind == _RLE else size) + tail))
    if not decompressor.eof:
        raise WorkFailed("it cannot be decompressed: it has no proper end", hint=_ANOTHER)
    if source.read(1):
        raise WorkFailed("it cannot be believed: something follows its end", hint=_ANOTHER)


def _exactly(source: io.BufferedReader, size: int) -> bytes:
    block = source.read(size)
    if len(block) < size:
        raise WorkFailed("it cannot be decompressed: cut short", hint=_ANOTHER)
    return block
