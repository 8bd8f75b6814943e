"""Names for files that are whole: given once, and on disk, whatever the file system cannot do."""

import errno
import fcntl
import os
from contextlib import suppress

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class NoHardLinks(Exception):
    """A file system has no hard links, by which alone of two machines one gets a name."""


def publish(folder: int, staging: str, name: str, *, alone: bool = False) -> None:
    """Give a finished file its name in the same folder (a descriptor), on disk; FileExistsError changes nothing.

    Args:
        alone: whether writers on other machines count, so that nothing but a hard link will do.

    Raises:
        NoHardLinks: `alone`, and the file system has none.
    """
    try:
        os.link(staging, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        if not _is_linked(folder, staging, name):
            raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if alone:
            raise NoHardLinks from None
        _rename_new(folder, staging, name)
    with suppress(FileNotFoundError):  # renamed
        os.unlink(staging, dir_fd=folder)
    sync_entries(folder)


def _is_linked(folder: int, staging: str, name: str) -> bool:
    # NFS may link, lose the answer, and say when it is asked again that the name is taken.
    with suppress(FileNotFoundError):  # whose it was has removed it
        mine, there = (os.stat(one, dir_fd=folder, follow_symlinks=False) for one in (staging, name))
        return os.path.samestat(mine, there)
    return False


def _rename_new(folder: int, staging: str, name: str) -> None:
    # Where the file system knows no hard links, the folder's own lock stands between looking and renaming.
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        if name in os.listdir(folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        os.rename(staging, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def sync_entries(folder: int) -> None:
    """Put the entries of an open folder on disk, where its file system offers that (CIFS does not before Linux 5.8)."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
