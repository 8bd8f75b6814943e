"""Read the tar of the manager's own files as a stream: what is in it, and what each file holds."""

import tarfile
from collections.abc import Iterator
from enum import StrEnum
from typing import BinaryIO, cast

import msgspec

from maint.snapshots.manifest import damaged
from maint.snapshots.parts import Read, drain

_LARGEST_FILE = 64 * 1024 * 1024  # bytes; those of a manager are thousands of times smaller
_LONGEST_NAME = 64 * 1024  # bytes that a header may say a name or its attributes have
_EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_NOT_OURS = "the manager's files are not an archive of ours"


class MemberKind(StrEnum):
    """What a member of the archive is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class Member(msgspec.Struct, frozen=True):
    """One member: where it lay on the host, and whose it was."""

    path: str  # absolute
    kind: MemberKind
    mode: int
    user: str  # "" where the archive has none
    group: str
    uid: int
    gid: int
    target: str = ""  # of a link


def members(read: Read) -> Iterator[tuple[Member, bytes]]:
    """Yield each member with its content, in order; WorkFailed where it is not a tar, is cut, or holds other things."""
    stream = _Headers(read)
    try:
        with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:
            for found in archive:
                yield _member(found), _content(archive, found)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as problem:
        raise damaged(f"the manager's files are not a whole tar archive: {problem}") from None
    drain(read)  # what follows the end mark


def paths(read: Read) -> tuple[str, ...]:
    """Return the paths of all files and links in an archive; raises like `members`."""
    return tuple(member.path for member, _ in members(read) if member.kind is not MemberKind.FOLDER)


class _Headers:
    """Looks at the headers of a tar before `tarfile` does, which takes into memory whatever a name's header states."""

    def __init__(self, read: Read) -> None:
        self._pull = read
        self._header = bytearray()
        self._skip = 0  # bytes before the next header

    def read(self, size: int, /) -> bytes:
        block = self._pull(size)
        rest = memoryview(block)
        while rest:
            if self._skip:
                passed = min(self._skip, len(rest))
                self._skip -= passed
            else:
                passed = min(tarfile.BLOCKSIZE - len(self._header), len(rest))
                self._header += rest[:passed]
                if len(self._header) == tarfile.BLOCKSIZE:
                    self._judge(bytes(self._header))
                    self._header.clear()
            rest = rest[passed:]
        return block

    def _judge(self, header: bytes) -> None:
        try:
            found = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError:  # the end mark, or damage, which `tarfile` names
            return
        if found.type == tarfile.GNUTYPE_SPARSE or found.size < 0:
            raise damaged(f"{_NOT_OURS}: a member is stored with holes")
        if found.type in _EXTENDED and found.size > _LONGEST_NAME:
            raise damaged(f"{_NOT_OURS}: a name has {found.size} bytes")
        if found.size > _LARGEST_FILE:
            raise damaged(f"{_NOT_OURS}: {found.name} has {found.size} bytes")
        if found.isreg() or found.type in _EXTENDED or found.type not in tarfile.SUPPORTED_TYPES:
            self._skip = -(-found.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _member(found: tarfile.TarInfo) -> Member:
    if {"size", "GNU.sparse.major", "GNU.sparse.size"} & found.pax_headers.keys():  # says another size than its header
        raise damaged(f"{_NOT_OURS}: {found.name} has two sizes")
    if ".." in found.name.split("/"):
        raise damaged(f"{_NOT_OURS}: a path leads out of it")
    kind, target = MemberKind.FILE, ""
    if found.isdir():
        kind = MemberKind.FOLDER
    elif found.issym():
        kind, target = MemberKind.LINK, found.linkname
    elif found.islnk():  # a second name of a file: a link to the first one holds the same
        kind, target = MemberKind.LINK, "/" + found.linkname.lstrip("/")
    elif not found.isfile():
        raise damaged(f"{_NOT_OURS}: {found.name} is not a file, folder or link")
    path = "/" + found.name.strip("/").removeprefix("./")
    return Member(path, kind, found.mode & 0o7777, found.uname, found.gname, found.uid, found.gid, target)


def _content(archive: tarfile.TarFile, found: tarfile.TarInfo) -> bytes:
    if not found.isfile():
        return b""
    stream = archive.extractfile(found)
    return stream.read() if stream else b""
