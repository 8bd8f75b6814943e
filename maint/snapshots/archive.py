"""Read the tar of the manager's own files as a stream: what is in it, and what each file holds."""

import tarfile
from collections.abc import Iterator
from enum import StrEnum
from typing import BinaryIO, cast

import msgspec

from maint.deployment.json_events import BLOCK
from maint.errors import WorkFailed
from maint.snapshots.parts import Read, Tally

LARGEST = 64 * 1024 * 1024  # bytes of one file; those of a manager are thousands of times smaller


class Kind(StrEnum):
    """What a member of the archive is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class Member(msgspec.Struct, frozen=True):
    """One member: where it lay on the host, and whose it was.

    Attributes:
        path: absolute.
        mode: permissions.
        user, group: names, "" where the archive has none; `uid` and `gid` beside them.
        target: what a link points to.
    """

    path: str
    kind: Kind
    mode: int
    user: str
    group: str
    uid: int
    gid: int
    target: str = ""


def members(read: Read) -> Iterator[tuple[Member, bytes]]:
    """Yield each member with its content, in the order of the archive; all of the stream is read.

    Raises:
        WorkFailed: it is no tar, is cut, or holds what does not belong there.
    """
    tally = Tally(read)
    try:
        with tarfile.open(fileobj=cast(BinaryIO, tally), mode="r|") as archive:
            for found in archive:
                yield _member(found), _content(archive, found)
    except (tarfile.TarError, EOFError) as problem:
        raise WorkFailed(f"the manager's files are no whole tar archive: {problem}") from None
    while tally.read(BLOCK):  # what follows the end mark
        pass


def paths(read: Read) -> tuple[str, ...]:
    """Return the paths of all files and links in an archive; raises like `members`."""
    return tuple(member.path for member, _ in members(read) if member.kind is not Kind.FOLDER)


def _member(found: tarfile.TarInfo) -> Member:
    if ".." in found.name.split("/"):
        raise WorkFailed("the manager's files are no archive of ours: a path leads out of it")
    kind, target = Kind.FILE, ""
    if found.isdir():
        kind = Kind.FOLDER
    elif found.issym():
        kind, target = Kind.LINK, found.linkname
    elif found.islnk():  # a second name of a file: a link to the first one holds the same
        kind, target = Kind.LINK, "/" + found.linkname.lstrip("/")
    elif not found.isfile():
        raise WorkFailed(f"the manager's files are no archive of ours: {found.name} is no file, folder or link")
    path = "/" + found.name.strip("/").removeprefix("./")
    return Member(path, kind, found.mode & 0o7777, found.uname, found.gname, found.uid, found.gid, target)


def _content(archive: tarfile.TarFile, found: tarfile.TarInfo) -> bytes:
    if not found.isfile():
        return b""
    if found.size > LARGEST:
        raise WorkFailed(f"the manager's files are no archive of ours: {found.name} has {found.size} bytes")
    stream = archive.extractfile(found)
    return stream.read() if stream else b""
