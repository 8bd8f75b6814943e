"""Private files written whole and folders made private: the only place that does either; raises OSError."""

import errno
import fcntl
import io
import os
import secrets
import select
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec

from maint.errors import Invalid, MaintError, NotWritten, WorkFailed, mend_of, shortage
from maint.publishing import publish, sync_entries
from maint.retry import delays, looks

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STAGING = ".new-"  # begins the names of files that are still written
LARGEST = 64 << 20  # bytes of a file that is read at once
TRIED = 1 << 16  # bytes that are written where it is tried whether any can be
SILENCE = 60.0  # seconds to wait at most for more of what somebody pipes to us
SPARE = 32 << 20  # bytes of the state folder's disk that are left to journals and to what puts things back
Kind = TypeVar("Kind")
_patience = [SILENCE]  # as long as this command waits
_HELD = 60.0  # seconds to wait for a folder that somebody holds


def sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk; NotWritten where the disk takes nothing."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _naming(folder):
            sync_entries(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Make a folder and its missing parents, each private and on disk; an existing one is left as it is.

    Args:
        mode: of each that is made, whatever the umask takes from it.

    Raises:
        OSError: it cannot be made, or what is there is no folder.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():  # a file, or a link to nothing
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        return
    if (got := stat.S_IMODE(folder.stat().st_mode)) & mode != mode:
        with suppress(OSError):  # a file system may have one mode for all
            folder.chmod(got | mode)
    sync_folder(folder.parent)


def existing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that is there."""
    while not path.exists():
        path = path.parent
    return path


def visible(path: Path) -> bool:
    """Whether something is there, as far as we may look."""
    try:
        return path.exists()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether a file is there, as far as we may look; a name that is too long names none."""
    try:
        return path.is_file()
    except OSError:
        return False


@contextmanager
def unmade(folder: Path) -> Iterator[None]:
    """Remove what the block makes of a folder and of its missing parents, as far as they are empty at the end."""
    missing = [one for one in (folder, *folder.parents) if not visible(one)]
    try:
        yield
    finally:
        for one in missing:
            with suppress(OSError):
                one.rmdir()


class _Tried(Exception):
    """All that was to be tried has been."""


def try_writing(path: Path) -> None:
    """Write beside the place of a file, in its folder, and take both away again; NotWritten: it cannot be written."""
    with unmade(path.parent), suppress(_Tried), written(path) as file:
        with _naming(path), suppress(FileNotFoundError):
            file.write(bytes(TRIED))
            file.flush()
            os.fsync(file.fileno())
            path.lstat()  # its name may be one that the file system does not take
        raise _Tried


def refuse_filling(folder: Path, size: int) -> None:
    """Raise WorkFailed where so many more bytes would leave less than `SPARE` free on a folder's disk."""
    try:
        free = shutil.disk_usage(existing(folder)).free
    except OSError:  # what cannot be looked into is reported by the writer
        return
    if free < size + SPARE:
        raise WorkFailed(
            f"what is to be kept would fill the disk of {folder}",
            detail=[f"{size} bytes are to be kept, and of {free} free ones {SPARE} stay for journals"],
            hint="make room there, or let `state` in the config lie on a larger disk, then again",
        )


def write_all(handle: int, content: bytes | memoryview) -> None:
    """Write every byte, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def written(
    path: Path, *, mode: int = 0o600, replace: bool = True, durable: bool = True, owner: tuple[int, int] | None = None
) -> Iterator[BinaryIO]:
    """Open a file to write; when the block ends well it is on disk under its name, else nothing of it is left.

    Args:
        path: its folder is made, private, when it is missing.
        mode: of the file, whatever the umask.
        replace: put it in the place of an existing file, which is FileExistsError otherwise.
        durable: it outlives a power cut; what can be made again need not, and is written much faster.
        owner: user and group that it gets, by number; None: who writes it.

    Raises:
        NotWritten: an OSError, too.
    """
    staging = f"{STAGING}{secrets.token_hex(8)}"
    with _naming(path):
        if replace:
            _refuse_special(path)
        make_folder(path.parent)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _naming(path):
            handle = _unnamed(folder)
            there, named = False, handle is None
            if handle is None:
                handle = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        with io.BufferedWriter(_Written(path, handle)) as file:
            yield file
            with _naming(path):
                file.flush()
                if owner:
                    os.fchown(handle, *owner)
                os.fchmod(handle, mode)
                if durable:
                    os.fsync(handle)
                if not named:
                    there = _named(handle, folder, path.name)
                    if not there and not replace:
                        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
                    if not there:
                        _named(handle, folder, staging)
        with _naming(path):
            if there or replace:
                if not there:
                    os.rename(staging, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                if durable:
                    sync_entries(folder)
            else:
                publish(folder, staging, path.name)
    except BaseException:
        with suppress(OSError):  # the failure itself is what must be reported
            os.unlink(staging, dir_fd=folder)
        raise
    finally:
        os.close(folder)


def _unnamed(folder: int) -> int | None:
    # A file in a folder that a kill leaves nothing of, since it has no name; None where there can be none.
    try:
        Path("/proc/self/fd").stat()  # by which it is named
        return os.open(".", os.O_WRONLY | os.O_TMPFILE, 0o600, dir_fd=folder)
    except OSError:
        return None


def _named(handle: int, folder: int, name: str) -> bool:
    with suppress(FileExistsError):
        os.link(f"/proc/self/fd/{handle}", name, dst_dir_fd=folder)
        return True
    return False


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into NotWritten; that a file is there already stays as it is."""
    try:
        yield
    except (MaintError, FileExistsError):
        raise
    except OSError as error:
        raise NotWritten(path, error) from error


def _refuse_special(path: Path) -> None:
    """Raise OSError where a device, a pipe or a socket is there: root would put a file into the place of /dev/null."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        stream = path.is_symlink() and str(path.readlink()).startswith("/proc/")  # /dev/stdout, wherever that leads now
        if stream or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and stays one", str(path))


class _Written(io.FileIO):
    """A file that names its path where it takes no bytes: what is read beside it may fail the same way."""

    def __init__(self, path: Path, handle: int) -> None:
        super().__init__(handle, "wb")
        self._path = path

    def write(self, block: "ReadableBuffer") -> int:
        with _naming(self._path):
            return os.write(self.fileno(), block)


def replace(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a file so that a reader sees the old content or the new, and it outlives a power cut where `durable`."""
    with written(path, mode=mode, durable=durable) as file:
        file.write(content)


def create(path: Path, content: bytes, *, mode: int = 0o600) -> bool:
    """Write a file that is not there yet; False when there was one already, which stays as it is."""
    try:
        with written(path, mode=mode, replace=False) as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder of this machine while the block runs; a missing one is not held.

    Raises:
        NotWritten: somebody else has held it for a minute, or its file system has no locks.
    """
    if not folder.exists():
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _naming(folder):
            if not any(_taken(handle) for _ in looks(time, _HELD, delays(0.01, 1.0))):
                raise TimeoutError(errno.ETIMEDOUT, f"another process has held {folder} for a minute")
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@contextmanager
def explaining(problem: str, hint: str, kind: type[MaintError] = Invalid) -> Iterator[None]:
    """Turn an OSError in the block into a failure of a kind, with what the system says of it."""
    try:
        yield
    except OSError as error:
        words = f"{problem}: {error.strerror or error}"
        raise shortage(error) or kind(words, hint=mend_of(error) or hint) from error


def writing(path: Path, hint: str = "name another file") -> AbstractContextManager[None]:
    """Turn an OSError in the block into WorkFailed: the file cannot be written."""
    return explaining(f"{path} cannot be written", hint, WorkFailed)


def reading(path: Path | str) -> AbstractContextManager[None]:
    """Turn an OSError in the block into Invalid: the file cannot be read."""
    return explaining(f"{path} cannot be read", "correct its path, or make it readable for the user who runs maint")


def keep_record(path: Path, value: object, *, durable: bool = True) -> None:
    """Write a record as JSON where its folder is there; see `replace`."""
    if path.parent.is_dir():
        replace(path, msgspec.json.encode(value), durable=durable)


def kept_record(path: Path, kind: type[Kind]) -> Kind | None:
    """Return a record that was kept, None where there is none that can be read."""
    with suppress(Damaged):
        return load(path, kind)
    return None


def remove(path: Path) -> None:
    """Delete a file, on disk; one that is missing is not an error. NotWritten where the disk takes nothing."""
    try:
        path.unlink()
        sync_folder(path.parent)
    except FileNotFoundError:
        return
    except MaintError:
        raise
    except OSError as error:
        raise NotWritten(path, error) from error


def sweep(folder: Path, before: float) -> None:
    """Delete what writers that were killed before a moment (seconds since 1970) left anywhere below a folder."""
    with suppress(OSError):  # a folder may go while it is walked
        for staged in folder.rglob(f"{STAGING}*"):
            with suppress(OSError):
                if staged.stat().st_mtime < before:
                    staged.unlink()


def _at_most(file: io.BufferedReader, size: int) -> bytes:
    """Read so many bytes, or all there are, without room for all of them at once; OSError: a pipe gives nothing."""
    blocks = list[bytes]()
    while size and (block := _soon(file).read1(min(size, 1 << 20))):
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def wait_for_pipes(limit: float) -> None:
    """Wait so many seconds, and never longer than a minute, for more of what somebody pipes to this process."""
    _patience[:] = [min(limit, SILENCE)]


def _soon(file: io.BufferedReader) -> io.BufferedReader:
    waiting, patience = select.poll(), _patience[0]
    waiting.register(file, select.POLLIN)
    if not waiting.poll(patience * 1000):
        raise OSError(errno.ETIMEDOUT, f"nothing came through it for {patience:.0f} s", file.name)
    return file


def read_file(path: Path, most: int = LARGEST) -> bytes:
    """Return a file's bytes; OSError where `opened` says so, or it has more than one of its kind can have."""
    with opened(path) as file:
        content = _at_most(file, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def opened(path: Path) -> io.BufferedReader:
    """Open a file to be read; OSError where it cannot be, or is none: nobody may ever write to a named pipe.

    A pipe that was handed over is read, too: `<(…)`, /dev/stdin.
    """
    wait_not = os.O_NONBLOCK | os.O_NOCTTY
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | wait_not))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not os.path.realpath(path).startswith("/proc/"):
        file.close()
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and a file is wanted", str(path))
    os.set_blocking(file.fileno(), True)
    return file


def spool(folder: Path) -> BinaryIO:
    """Open a private file without a name, to write and read back; it is gone when it is closed, or the process ends."""
    make_folder(folder)
    return tempfile.TemporaryFile(dir=folder, prefix=STAGING)  # the caller closes it


class Damaged(Exception):
    """What a file of ours holds cannot be read back; the words say why."""


def load(path: Path, kind: type[Kind]) -> Kind | None:
    """Return what a JSON file of ours holds, None where there is none; Damaged where it cannot be read as that."""
    try:
        content = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(error.strerror or str(error)) from None
    return decoded(content, kind)


def decoded(content: bytes, kind: type[Kind]) -> Kind:
    """Return what JSON of ours says; Damaged where it is not one, or of another form."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # what is not UTF-8, or nested too deep, too
        raise Damaged(str(error)) from None


def read_private(path: Path, largest: int = LARGEST) -> bytes | None:
    """Return a file, or None where there is none; Invalid where others can read it, it is not a plain file, or it has
    more than `largest` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would be waited for
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(
            f"cannot read {path}", detail=[error.strerror or str(error)], hint="correct its path, or its permissions"
        ) from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise Invalid(f"{path} is not a plain file", hint="correct its path, or move it away")
        if mode & 0o077:
            raise Invalid(
                f"{path} can be read by others (mode {mode & 0o777:04o})", hint=f"chmod 600 {shlex.quote(str(path))}"
            )
        with open(handle, "rb", closefd=False) as file:
            content = _at_most(file, largest + 1)
        if len(content) > largest:
            raise Invalid(f"{path} has more than {largest} bytes", hint="is it the right file?")
        return content
    finally:
        os.close(handle)


def as_file(
    read: Callable[[int], bytes], buffer: int = 256 * 1024, close: Callable[[], object] = lambda: None
) -> io.BufferedReader:
    """Return what gives at most so many bytes when asked as a file, which asks for `buffer` bytes at once."""
    return io.BufferedReader(_AsFile(read, close), buffer)


class _AsFile(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object]) -> None:
        self._pull, self._close = read, close

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # its Buffer is named from Python 3.12 on
        block = self._pull(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._close()
        super().close()


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file in one step, without waiting for the disk: a lab survives a kill, not a loss of power."""
    path.parent.mkdir(parents=True, exist_ok=True)  # in a host's tree, where folders are open to all
    replace(path, content, mode=mode, durable=False)
