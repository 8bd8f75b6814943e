"""Make files and folders that outlive a power cut: only new ones, whole or not at all, for their owner alone."""

import errno
import fcntl
import os
import secrets
import stat
from pathlib import Path

from maint.errors import Invalid

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each 0700 and on disk; one that is there stays as it is."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    sync_folder(folder.parent)


def write_all(handle: int, content: bytes | memoryview) -> None:
    """Write every byte, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def publish(folder: int, staging: str, name: str) -> None:
    """Give a finished file its name in the same folder, and put that on disk.

    Args:
        folder: descriptor of the folder.
        staging: name that the file has now.
        name: name that it gets.

    Raises:
        FileExistsError: the name is taken; the file keeps its staging name.
    """
    try:
        os.link(staging, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(staging, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _rename_new(folder, staging, name)
    os.fsync(folder)


def _rename_new(folder: int, staging: str, name: str) -> None:
    # Where the file system knows no hard links, the folder's own lock stands between looking and renaming.
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        if name in os.listdir(folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        os.rename(staging, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def create_once(path: Path, content: bytes) -> bool:
    """Make a file (0600) with this content, folders included.

    Returns:
        Whether this call made it; False when there was one already, which stays as it is.
    """
    make_folder(path.parent)
    staging = f".new-{secrets.token_hex(8)}"
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _write_new(folder, staging, content)
        publish(folder, staging, path.name)
    except FileExistsError:
        os.unlink(staging, dir_fd=folder)
        return False
    except BaseException:
        _forget(folder, staging)
        raise
    finally:
        os.close(folder)
    return True


def _write_new(folder: int, name: str, content: bytes) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        write_all(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def _forget(folder: int, name: str) -> None:
    # Best effort on the way out of a failure: the failure itself is what must be told.
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return


def read_private(path: Path) -> bytes | None:
    """Return a file that only its owner can read, or None where there is none.

    Raises:
        Invalid: others can read it, or it is no plain file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(f"cannot read {path}", detail=[error.strerror or str(error)]) from None
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise Invalid(f"{path} is no plain file")
        if mode & 0o077:
            raise Invalid(f"{path} can be read by others (mode {mode & 0o777:04o})", hint=f"chmod 600 {path}")
        return file.read()
