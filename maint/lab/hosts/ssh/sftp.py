"""SFTP over the tree of a lab host."""

import errno
import os
from collections.abc import Callable
from typing import IO, TypeVar

from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface
from paramiko.server import ServerInterface
from paramiko.sftp import SFTP_OK

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.tree import Entry, Tree, failure

_Result = TypeVar("_Result")


class TreeHandle(SFTPHandle):
    """An open file."""

    def __init__(self, file: IO[bytes], tree: Tree, path: str, flags: int) -> None:
        super().__init__(flags)
        self._file, self._tree, self._path = file, tree, path

    def close(self) -> None:
        super().close()
        self._file.close()

    def read(self, offset: int, length: int) -> bytes | int:
        return _answered(lambda: os.pread(self._file.fileno(), length, offset))

    def write(self, offset: int, data: bytes) -> int:  # type: ignore[override]  # paramiko hands over bytes
        if self._tree.is_full:
            return SFTPServer.convert_errno(errno.ENOSPC)
        return _done(lambda: os.pwrite(self._file.fileno(), data, offset))

    def stat(self) -> SFTPAttributes | int:
        return _answered(lambda: _attributes(self._tree.entry(self._path)))

    def chattr(self, attr: SFTPAttributes) -> int:
        return _done(lambda: _change(self._tree, self._path, attr))


class TreeSftp(SFTPServerInterface):
    """The SFTP subsystem of one machine."""

    def __init__(self, server: ServerInterface, machine: Machine) -> None:
        super().__init__(server)
        self._tree = machine.files

    def list_folder(self, path: str) -> list[SFTPAttributes] | int:
        return _answered(lambda: [self._listed(path, name) for name in self._tree.names(path)])

    def _listed(self, path: str, name: str) -> SFTPAttributes:
        attributes = _attributes(self._tree.entry(f"{path.rstrip('/')}/{name}", follow=False))
        attributes.filename = name
        return attributes

    def stat(self, path: str) -> SFTPAttributes | int:
        return _answered(lambda: _attributes(self._tree.entry(path)))

    def lstat(self, path: str) -> SFTPAttributes | int:
        return _answered(lambda: _attributes(self._tree.entry(path, follow=False)))

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle | int:
        return _answered(lambda: self._opened(path, flags, attr))

    def _opened(self, path: str, flags: int, attr: SFTPAttributes) -> SFTPHandle:
        mode = 0o644 if attr.st_mode is None else attr.st_mode & 0o7777
        # Offsets come with each write; O_APPEND would ignore them.
        return TreeHandle(self._tree.open(path, flags & ~os.O_APPEND, mode), self._tree, path, flags)

    def remove(self, path: str) -> int:
        return _done(lambda: self._tree.remove(path))

    def rename(self, oldpath: str, newpath: str) -> int:
        """Rename; the new name must be free."""
        if self._tree.exists(newpath, follow=False):
            return SFTPServer.convert_errno(errno.EEXIST)
        return self.posix_rename(oldpath, newpath)

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return _done(lambda: self._tree.rename(oldpath, newpath))

    def mkdir(self, path: str, attr: SFTPAttributes) -> int:
        return _done(lambda: self._tree.make_folder(path, 0o755 if attr.st_mode is None else attr.st_mode & 0o7777))

    def rmdir(self, path: str) -> int:
        return _done(lambda: self._tree.remove_folder(path))

    def chattr(self, path: str, attr: SFTPAttributes) -> int:
        return _done(lambda: _change(self._tree, path, attr))

    def readlink(self, path: str) -> str | int:
        return _answered(lambda: self._tree.link_text(path))

    def symlink(self, target_path: str, path: str) -> int:
        return _done(lambda: self._tree.link(target_path, path))


def _change(tree: Tree, path: str, attr: SFTPAttributes) -> None:
    if attr.st_mode is not None:
        tree.own(path, attr.st_mode & 0o7777)
    if attr.st_mtime is not None:
        tree.touch(path, attr.st_mtime)
    if attr.st_size is not None:
        with tree.open(path, os.O_RDWR) as file:
            file.truncate(attr.st_size)
    if attr.st_uid is not None:
        raise failure(errno.EPERM, path)  # numbers of users are not kept; `chown` over a command is there


def _attributes(entry: Entry) -> SFTPAttributes:
    attributes = SFTPAttributes()
    attributes.st_size = entry.size
    attributes.st_mode = entry.kind | entry.mode
    attributes.st_uid = attributes.st_gid = 0 if entry.user == "root" else 1000
    attributes.st_atime = attributes.st_mtime = int(entry.mtime)
    return attributes


def _answered(work: Callable[[], _Result]) -> _Result | int:
    try:
        return work()
    except OSError as error:
        return SFTPServer.convert_errno(error.errno or errno.EIO)


def _done(work: Callable[[], object]) -> int:
    try:
        work()
    except OSError as error:
        return SFTPServer.convert_errno(error.errno or errno.EIO)
    return SFTP_OK
