"""Keep snapshots in a local folder, each file written once, whole or not at all."""

import errno
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import BinaryIO, cast

from maint.adapters.stores.stored_files import (
    STAGING,
    Writer,
    is_staging,
    is_trial,
    no_hard_links,
    reader,
    split_name,
    split_prefix,
)
from maint.errors import IMMUTABLE, WRITABLE, StoreFailed
from maint.files import make_folder, write_all
from maint.publishing import NoHardLinks, publish, sync_entries

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_TRIES = 100  # to enter a folder that others remove again
_KEPT = 1  # levels of folders that stay, though empty: a site's own
_HINTS = {
    errno.ENOSPC: "make room there, or inodes where `df -i` shows none, then run it again",
    errno.EDQUOT: "raise the quota or make room, then run it again",
    errno.EROFS: WRITABLE,
    errno.EACCES: "look at who owns the folder, and who runs maint",
    errno.EPERM: f"look at who owns the folder, and who runs maint, {IMMUTABLE}",
    errno.EIO: "look at the disk (dmesg, smartctl) before trusting anything on it",
    errno.ENAMETOOLONG: "that file system takes no names of such a length: put the store on another one",
    errno.ENOENT: "stores and shared_state are folders that can be made: look at the path, and at what is mounted",
    errno.ENOTDIR: "a file is where a folder must be: look at the path",
    errno.ELOOP: "symbolic links inside a store are not followed; put real files there",
}


class LocalStore:
    """`ports.Store` in a folder, made at the first write: folders 0700, files 0600, no symbolic link is followed.

    Args:
        shared: whether of two machines exactly one may create a file; StoreFailed where the file system cannot do that.
    """

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self._root = root
        self._shared = shared

    @property
    def location(self) -> str:
        return str(self._root)

    def names(self, prefix: str = "") -> Iterator[str]:
        found = (name for name, _ in self._walk(split_prefix(prefix), staging=False))
        yield from sorted(found)

    def size(self, name: str) -> int | None:
        found = self._facts(name)
        return found.st_size if found else None

    def written(self, name: str) -> datetime | None:
        """Return when a file was written, by the clock of the folder's machine; None where nothing tells."""
        found = self._facts(name)
        with suppress(ValueError, OverflowError, OSError):  # beyond the calendar
            return datetime.fromtimestamp(found.st_mtime, UTC) if found else None
        return None

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        *folders, last = split_name(name)
        with self._failing(f"cannot open {name}", FileNotFoundError), self._folder(folders) as folder:
            handle = _open_file(folder, last)
        failing = partial(self._failing, f"cannot read {name}")
        with io.FileIO(handle, "rb") as raw, reader(raw.read, failing, io.DEFAULT_BUFFER_SIZE) as file:
            yield file

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Write a new file, committed when the block ends well, else gone; FileExistsError where there is one."""
        *folders, last = split_name(name)
        words = f"cannot write {name}"
        with ExitStack() as stack:
            with self._failing(words, FileExistsError):
                folder, staging, handle = self._staged(stack, folders, last)
            try:
                with io.FileIO(handle, "wb"):
                    yield cast(BinaryIO, Writer(partial(write_all, handle), partial(self._failing, words)))
                    with self._failing(words, FileExistsError):
                        os.fsync(handle)
                        _commit(folder, staging, last, handle, alone=self._shared)
            except NoHardLinks:
                _forget(folder, staging)
                raise no_hard_links(self.location) from None
            except BaseException:
                _forget(folder, staging)
                raise

    def _staged(self, stack: ExitStack, folders: Sequence[str], last: str) -> tuple[int, str, int]:
        make_folder(self._root)
        left = _TRIES
        while True:
            try:
                folder = stack.enter_context(self._folder(folders, make=True))
                _refuse_taken(folder, last)
                return folder, *_stage(folder)
            except FileNotFoundError:  # another machine may remove a folder again as long as it is empty
                left -= 1
                if not left:
                    raise

    def remove(self, name: str) -> None:
        """Remove a file, and its folder if that is empty now; no complaint where there is none."""
        *folders, last = split_name(name)
        try:
            with self._failing(f"cannot remove {name}", FileNotFoundError), self._folder(folders) as folder:
                os.unlink(last, dir_fd=folder)
                sync_entries(folder)
        except FileNotFoundError:
            return
        for depth in range(len(folders), _KEPT, -1):
            if not self._drop(folders[:depth]):
                return

    def sweep(self, prefix: str = "") -> int:
        """Remove what dead writers left half-written; a live writer holds a lock on its file. Return how many."""
        swept = 0
        for name, folder in self._walk(split_prefix(prefix), staging=True):
            with self._failing(f"cannot remove {name}"):
                swept += _sweep_one(folder, name.rpartition("/")[2])
        self._tidy(split_prefix(prefix))
        return swept

    def _facts(self, name: str) -> os.stat_result | None:
        *folders, last = split_name(name)
        try:
            with self._failing(f"cannot look at {name}", FileNotFoundError), self._folder(folders) as folder:
                found = os.stat(last, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def _tidy(self, folders: Sequence[str]) -> None:
        # A killed writer may have left empty folders below this one.
        with suppress(OSError), self._folder(folders) as start:
            for inner, _, files, _ in os.fwalk(".", dir_fd=start, topdown=False):
                parts = [*folders, *Path(inner).parts]
                if not files and len(parts) > max(_KEPT, len(folders)):
                    self._drop(parts)

    def _drop(self, folders: Sequence[str]) -> bool:
        # An empty folder that stays does no harm, so nothing is said.
        try:
            with self._folder(folders[:-1]) as parent:
                os.rmdir(folders[-1], dir_fd=parent)
                sync_entries(parent)
        except OSError:
            return False
        return True

    @contextmanager
    def _failing(self, what: str, *promised: type[OSError]) -> Iterator[None]:
        # What the port promises comes out as it is; whatever else the disk says becomes a failure with words.
        try:
            yield
        except promised:
            raise
        except OSError as error:
            mounted = f"look at what is mounted there, and at its server: `findmnt -T {quote(str(self._root))}`"
            hint = _HINTS.get(error.errno or 0, mounted)
            raise StoreFailed(f"{what} in {self._root}", detail=[error.strerror or str(error)], hint=hint) from None

    @contextmanager
    def _folder(self, folders: Sequence[str], *, make: bool = False) -> Iterator[int]:
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in folders:
                inner = _enter(handle, part, make=make)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def _walk(self, folders: Sequence[str], *, staging: bool) -> Iterator[tuple[str, int]]:
        # Yields names, and the descriptor of the folder that each is in; both hold until the next one.
        try:
            with self._failing("cannot list", FileNotFoundError), self._folder(folders) as start:
                for inner, _, files, handle in os.fwalk(".", dir_fd=start, onerror=_raise):
                    where = "/".join([*folders, *Path(inner).parts])
                    for file in files:
                        name = f"{where}/{file}" if where else file
                        dead = is_staging(name) or is_trial(name)
                        if dead if staging else file[0] != "." and _is_file(handle, file):
                            yield name, handle
        except FileNotFoundError:
            return


def _raise(error: OSError) -> None:
    # A folder that vanished while we walked holds nothing; one that cannot be read must not pass for empty.
    if not isinstance(error, FileNotFoundError):
        raise OSError(error.errno, f"{error.strerror}: {error.filename}")


def _is_file(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _open_file(folder: int, name: str) -> int:
    # Without waiting for the other end, should it be a named pipe that somebody put there.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise FileNotFoundError(errno.ENOENT, "no plain file", name)


def _enter(folder: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            sync_entries(folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if not make and _is_file(folder, name):
            # Nothing can lie below a file.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
        raise


def _refuse_taken(folder: int, name: str) -> None:
    # Only spares the writer its work; what decides is the commit.
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _stage(folder: int) -> tuple[str, int]:
    while True:
        name = f"{STAGING}{secrets.token_hex(8)}"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # no later sweep would dare to remove what it cannot lock
            _forget(folder, name)
            os.close(handle)
            raise
        # A sweep may have come between making and locking.
        if os.fstat(handle).st_nlink:
            return name, handle
        os.close(handle)


def _sweep_one(folder: int, name: str) -> bool:
    try:
        # To be written, too: NFS locks no other file exclusively.
        handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=folder)
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(handle)
    return True


def _forget(folder: int, name: str) -> None:
    # Best effort on the way out of a failure: the failure itself must be reported, and a sweep comes later.
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _commit(folder: int, staging: str, name: str, handle: int, *, alone: bool) -> None:
    try:
        publish(folder, staging, name, alone=alone)
    except FileExistsError:
        raise
    except BaseException:
        # The name may stand already, but nothing proves that it will outlive a power cut.
        if _is_same(folder, name, handle):
            _forget(folder, name)
        raise


def _is_same(folder: int, name: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False
