"""An SFTP server without OpenSSH's extensions but one, `posix-rename`: paramiko's, over a folder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface
from paramiko.sftp import SFTP_OK

from maint.lab.hosts.ssh_server import Connection


def answered(work: Callable[[], Any]) -> Any:
    """Return what work returns, OK for nothing, else the number of its failure."""
    try:
        found = work()
    except OSError as error:
        return SFTPServer.convert_errno(error.errno or 0)
    return SFTP_OK if found is None else found


class Handle(SFTPHandle):
    """An open file."""

    def __init__(self, number: int, flags: int) -> None:
        super().__init__(flags)
        self.number = number

    def close(self) -> None:
        os.close(self.number)

    def read(self, offset: int, length: int) -> Any:
        return answered(lambda: os.pread(self.number, length, offset))

    def write(self, offset: int, data: bytes) -> Any:  # type: ignore[override]  # paramiko hands over bytes
        return answered(lambda: os.pwrite(self.number, data, offset) and None)

    def stat(self) -> Any:
        return answered(lambda: SFTPAttributes.from_stat(os.fstat(self.number)))


class FolderSftp(SFTPServerInterface):
    """The subsystem over one folder."""

    def __init__(self, server: Any, folder: Path) -> None:
        super().__init__(server)
        self.folder = folder

    def _real(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def list_folder(self, path: str) -> Any:
        return answered(lambda: [SFTPAttributes.from_stat(p.lstat(), p.name) for p in self._real(path).iterdir()])

    def stat(self, path: str) -> Any:
        return answered(lambda: SFTPAttributes.from_stat(self._real(path).stat()))

    def lstat(self, path: str) -> Any:
        return answered(lambda: SFTPAttributes.from_stat(self._real(path).lstat()))

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> Any:
        mode = 0o644 if attr.st_mode is None else attr.st_mode
        return answered(lambda: Handle(os.open(self._real(path), flags & ~os.O_APPEND, mode), flags))

    def remove(self, path: str) -> Any:
        return answered(self._real(path).unlink)

    def rename(self, oldpath: str, newpath: str) -> Any:
        return answered(lambda: os.link(self._real(oldpath), self._real(newpath)) or self.remove(oldpath))

    def posix_rename(self, oldpath: str, newpath: str) -> Any:
        return answered(lambda: self._real(oldpath).rename(self._real(newpath)) and None)

    def mkdir(self, path: str, attr: SFTPAttributes) -> Any:
        return answered(lambda: self._real(path).mkdir(0o755 if attr.st_mode is None else attr.st_mode))

    def rmdir(self, path: str) -> Any:
        return answered(self._real(path).rmdir)

    def chattr(self, path: str, attr: SFTPAttributes) -> Any:
        return answered(lambda: SFTPServer.set_file_attr(str(self._real(path)), attr))


def serving(folder: Path) -> type[Connection]:
    """Return connections of a lab host that offer the folder over SFTP as well."""
    folder.mkdir()

    class WithSftp(Connection):
        def __init__(self, client: object) -> None:
            super().__init__(client)
            self.set_subsystem_handler("sftp", SFTPServer, FolderSftp, folder)

    return WithSftp
