"""Write the parts of a snapshot and read them back, counted and hashed on both sides of their packing."""

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import BytesIO
from typing import BinaryIO, cast

import msgspec

from maint.deployment.document import Document, parse
from maint.deployment.json_events import BLOCK
from maint.errors import Refused, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Part, Snapshot
from maint.ports import Sight, Store, StoreSight

DEPLOYMENT = "deployment.json.zst.age"
REDACTED_COPY = "deployment.redacted.json.zst"
LICENSE = "license.txt.age"
TRUSTSTORE = "truststore-password.age"
MANAGER_FILES = "manager-files.tar.zst.age"
RECIPE = "RESTORE.txt"

Read = Callable[[int], bytes]
Pack = Callable[[Read, BinaryIO], None]


class Tally:
    """Counts and hashes what passes through; `read` or `write` is handed to whoever moves the bytes."""

    def __init__(self, stream: Read | BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        """Take bytes out."""
        block = self._stream(size) if callable(self._stream) else self._stream.read(size)
        self._count(block)
        return block

    def write(self, block: bytes, /) -> int:
        """Put bytes in."""
        assert not callable(self._stream)  # made for writing
        self._stream.write(block)
        self._count(block)
        return len(block)

    @property
    def sha256(self) -> str:
        """The digest of all that passed, in hex."""
        return self._hash.hexdigest()

    def _count(self, block: bytes) -> None:
        self._hash.update(block)
        self.bytes += len(block)


def write_part(store: Store, folder: str, name: str, source: Read, pack: Pack, *, restorable: bool = False) -> Part:
    """Write one part and commit it.

    Args:
        store: where to.
        folder: the snapshot's folder, `<site>/<id>`.
        name: the part's name.
        source: its content.
        pack: moves the content, compressed or encrypted, into a file.
        restorable: whether something can be rebuilt from this part alone.

    Raises:
        WorkFailed: whatever `source` or the store say; nothing is left then.
    """
    content = Tally(source)
    with store.create(f"{folder}/{name}") as file:
        stored = Tally(file)
        pack(content.read, cast(BinaryIO, stored))
    return Part(
        name=name,
        bytes=stored.bytes,
        sha256=stored.sha256,
        content_bytes=content.bytes,
        content_sha256=content.sha256,
        restorable=restorable,
    )


def plain(source: Read, target: BinaryIO) -> None:
    """Pack nothing: the file is its content."""
    while block := source(BLOCK):
        target.write(block)


def from_bytes(content: bytes) -> Read:
    """Return a source that gives out these bytes."""
    return BytesIO(content).read


def drained(read: Read) -> Tally:
    """Read to the end and return the tally."""
    tally = Tally(read)
    while tally.read(BLOCK):
        pass
    return tally


@contextmanager
def open_deployment(sight: Sight, snapshot: Snapshot) -> Iterator[BinaryIO]:
    """Open the raw deployment of a snapshot as a stream of the bytes that the manager sent.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: it cannot be opened, or is damaged.
    """
    with open_part(sight, snapshot, DEPLOYMENT) as stream:
        yield stream


def read_deployment(sight: Sight, snapshot: Snapshot) -> Document:
    """Return the raw deployment of a snapshot as plain data, checked against the manifest.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: it is damaged, not what was stored, or not a deployment.
    """
    with open_deployment(sight, snapshot) as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != snapshot.part(DEPLOYMENT).content_sha256:
        words = f"the deployment of snapshot {snapshot.id} is not what was stored"
        raise WorkFailed(words, hint="choose another: `maint backup list`")
    return parse(content)


@contextmanager
def open_part(sight: Sight, snapshot: Snapshot, name: str) -> Iterator[BinaryIO]:
    """Open a compressed and encrypted part as a stream of its content; raises like `open_deployment`."""
    path = f"{snapshot.site}/{snapshot.id}/{name}"
    with _opened(sight, path) as file, sight.seal.unwrap(file, _identities(sight)) as stream:
        yield stream


def read_part(sight: Sight, snapshot: Snapshot, name: str) -> bytes:
    """Return a small encrypted part, such as the licence, checked against the manifest.

    Raises:
        KeyError: the snapshot has no such part.
        Refused: no private key is at hand.
        WorkFailed: it cannot be opened, or is not what was stored.
    """
    part, path = snapshot.part(name), f"{snapshot.site}/{snapshot.id}/{name}"
    with _opened(sight, path) as file, sight.seal.decrypt(file, _identities(sight)) as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != part.content_sha256:
        raise WorkFailed(f"{name} is not what was stored")
    return content


@contextmanager
def _opened(sight: Sight, path: str) -> Iterator[BinaryIO]:
    try:
        with sight.store.open(path) as file:
            yield file
    except FileNotFoundError:
        raise WorkFailed(f"{path} is missing in {sight.store.location}") from None


def _identities(sight: Sight) -> Sequence[Secret]:
    if identities := sight.identities():
        return identities
    raise Refused(
        "this machine has no private key to open snapshots with",
        hint="set backup.identity, or restore where the key is",
    )


@contextmanager
def stored(store: StoreSight, name: str) -> Iterator[tuple[BinaryIO, Tally]]:
    """Open a stored file; the tally knows of every byte when the block has ended well."""
    with store.open(name) as file:
        tally = Tally(file)
        yield cast(BinaryIO, tally), tally
        while tally.read(BLOCK):
            pass


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


def kept(snapshot: Snapshot, path: str) -> bool:
    """Tell whether a snapshot keeps a file of the manager's host, or something below a folder."""
    return any(one == path or one.startswith(f"{path}/") for one in snapshot.manager_files)
