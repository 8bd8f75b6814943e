"""Write the parts of a snapshot, and open them: no byte is given out before all were held against the manifest."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BytesIO
from typing import BinaryIO, cast

from maint import files
from maint.deployment.document import Document, parse
from maint.deployment.reader import BLOCK
from maint.errors import NotAsStored, NotWritten, Refused, StoreFailed, WorkFailed
from maint.model.formatting import show_count
from maint.model.secret import Secret
from maint.model.snapshot import STORED_NAME, Part, Snapshot, StoredFile
from maint.ports import Sight, Store, StoreSight
from maint.snapshots.manifest import damaged

DEPLOYMENT = "deployment.json.zst.age"
REDACTED_COPY = "deployment.redacted.json.zst"
LICENSE = "license.txt.age"
TRUSTSTORE = "truststore-password.age"
MANAGER_FILES = "manager-files.tar.zst.age"
DATABASE = "database.sql.zst.age"
RECIPE = "RESTORE.txt"

IN_MEMORY = 1 << 20  # bytes of a stored file that needs no file to be proven
UNREAD = "could not be read: "  # how a flaw begins that the store told of, which says nothing of the bytes
_NAMES_END = 1_000_000  # names in a folder of a store; one that lists more never ends

Read = Callable[[int], bytes]
Pack = Callable[[Read, BinaryIO], None]


def metered(sight: Sight, what: str, read: Read, of: int | None = None) -> Read:
    """Return a source that lets who watches know what it gives out, of so many bytes in all."""

    def counted(size: int) -> bytes:
        block = read(size)
        sight.moved(what, len(block), of)
        return block

    return counted


def of_stored(verb: str, one: Part | StoredFile) -> tuple[str, int | None]:
    """Return what is watched of a stored file, and its bytes; those of virtual clusters are watched together."""
    return (f"{verb} {one.name}", one.bytes) if isinstance(one, Part) else (f"{verb} files of virtual clusters", None)


class Tally:
    """Counts and hashes what passes through; `read` or `write` is handed to what moves the bytes."""

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


def write_part(store: Store, folder: str, name: str, source: Read, pack: Pack) -> Part:
    """Write one part into `<site>/<id>` and commit it; nothing is left when it fails.

    Args:
        pack: moves the content, compressed or encrypted, into a file.
    """
    content = Tally(source)
    with store.create(f"{folder}/{name}") as file:
        stored = Tally(file)
        pack(content.read, cast(BinaryIO, stored))
    return Part(
        name=name, bytes=stored.bytes, sha256=stored.sha256, content_bytes=content.bytes, content_sha256=content.sha256
    )


def plain(source: Read, target: BinaryIO) -> None:
    """Pack nothing: the file is its content."""
    while block := source(BLOCK):
        target.write(block)


def from_bytes(content: bytes) -> Read:
    """Return a source that gives out these bytes."""
    return BytesIO(content).read


def drain(read: Read) -> None:
    """Read to the end."""
    while read(BLOCK):
        pass


def listing(sight: Sight, prefix: str) -> Iterator[str]:
    """Yield the names in a folder of the store; WorkFailed where the list does not end."""
    return names_in(sight.store, prefix)


def names_in(store: StoreSight, prefix: str) -> Iterator[str]:
    """Yield the names in a folder of any store that a store would take; WorkFailed where the list does not end."""
    for number, name in enumerate(store.names(prefix)):
        if number >= _NAMES_END:
            raise WorkFailed(
                f"{store.location} lists more than {_NAMES_END} files in {prefix}",
                detail=["a list that does not end comes from a store that is broken, or lies"],
                hint="look at the store itself, or use a copy: `--store`",
            )
        if re.fullmatch(STORED_NAME, name):  # others are somebody else's, or a lie
            yield name


def read_signed(sight: Sight, name: str, signature: str, largest: int) -> bytes:
    """Return a signed file, read once; WorkFailed unless it and its signature by a trusted key are small enough."""
    content, signed = read_pair(sight, name, signature, largest)
    sight.sign.verify(content, signed)
    return content


def read_pair(sight: Sight, name: str, signature: str, largest: int) -> tuple[bytes, bytes]:
    """Return a file and its signature, unproven; WorkFailed unless both are small enough."""
    return _read_small(sight, name, largest), _read_small(sight, signature, largest)


def _read_small(sight: Sight, name: str, largest: int) -> bytes:
    try:
        with sight.store.open(name) as file:
            content = b"".join(bounded(file.read, largest + 1))
    except FileNotFoundError:
        raise damaged(f"{name.rpartition('/')[2]} is missing") from None
    if len(content) > largest:
        raise damaged(f"{name.rpartition('/')[2]} is too large to be one of ours")
    return content


def bounded(read: Read, most: int) -> Iterator[bytes]:
    """Yield what a stream gives, up to so many bytes."""
    while most > 0 and (block := read(min(BLOCK, most))):
        yield block
        most -= len(block)


def flaw(sight: Sight, name: str, expected: Part | StoredFile, target: BinaryIO | None = None) -> str:
    """Read a stored file to its end; return why it is not what the manifest names, "" where it is.

    Args:
        target: takes the bytes too; they are not to be used where the answer is not "".

    Raises:
        NotWritten: the target does not take them.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with sight.store.open(name) as file:
            what, of = of_stored("reading", expected)
            read = metered(sight, what, file.read, of)
            for block in bounded(read, expected.bytes + 1):
                digest.update(block)
                size += len(block)
                if target is not None:
                    with _spooling(sight):
                        target.write(block)
    except NotWritten:  # which is ours, and says nothing of the bytes
        raise
    except FileNotFoundError:
        return "is missing"
    except StoreFailed as problem:
        return f"{UNREAD}{problem.in_a_line}"
    except (OSError, WorkFailed) as problem:
        return f"cannot be read: {problem}"
    if size != expected.bytes:
        found = "more" if size > expected.bytes else str(size)
        return f"is not what was stored: {show_count(expected.bytes, 'byte')} expected, {found} found"
    return "" if digest.hexdigest() == expected.sha256 else "is not what was stored: other bytes"


@contextmanager
def open_stored(sight: Sight, name: str, expected: Part | StoredFile) -> Iterator[BinaryIO]:
    """Open a stored file once proven (else NotAsStored, StoreFailed: unread): the only way to use bytes of a store."""
    private = BytesIO() if expected.bytes <= IN_MEMORY else _spool(sight)
    try:
        if problem := flaw(sight, name, expected, private):
            raise (StoreFailed if problem.startswith(UNREAD) else NotAsStored)(
                f"{name} in {sight.store.location} {problem}",
                hint="nothing of it was used; `maint backup verify` looks at all of the snapshot, "
                "`--store` takes it from a copy",
            )
        with _spooling(sight):
            private.seek(0)  # which writes what is left
        yield private
    finally:
        with suppress(OSError):  # what a full disk did not take is tried once more
            private.close()


def _spool(sight: Sight) -> BinaryIO:
    with _spooling(sight):
        return files.spool(sight.settings.state)


@contextmanager
def _spooling(sight: Sight) -> Iterator[None]:
    """Turn an OSError of the block into NotWritten: a part is proven in a private file of ours before it is used."""
    try:
        yield
    except OSError as error:
        raise NotWritten(f"the private file in {sight.settings.state}", error) from error


class _Content(Tally):
    """The content of a part; it is held against the manifest too, at its end."""

    def __init__(self, stream: BinaryIO, part: Part) -> None:
        super().__init__(stream)
        self._part = part

    def read(self, size: int = -1, /) -> bytes:
        most = self._part.content_bytes - self.bytes + 1  # what packs well may hold any amount
        block = super().read(most if size < 0 else min(size, most))
        ended = size < 0 or (size > 0 and not block) or self.bytes > self._part.content_bytes
        if ended and (self.bytes, self.sha256) != (self._part.content_bytes, self._part.content_sha256):
            raise WorkFailed(
                f"the content of {self._part.name} is not what was captured",
                hint="`maint backup verify` tells more, `maint backup list` shows others",
            )
        return block


@contextmanager
def open_part(
    sight: Sight, snapshot: Snapshot, name: str, identities: Sequence[Secret] | None = None
) -> Iterator[BinaryIO]:
    """Open a part of a snapshot as a stream of its content, unpacked as its name says.

    Args:
        identities: private keys; None for those at hand.

    Raises:
        KeyError: the snapshot has no such part.
        Refused: no private key is at hand, and it is encrypted.
        NoKeyFits: none of the keys opens it.
        WorkFailed: it is not what was stored, or cannot be opened.
    """
    part = snapshot.part(name)
    with (
        open_stored(sight, f"{snapshot.site}/{snapshot.id}/{name}", part) as file,
        _unpacked(sight, name, file, identities) as stream,
    ):
        yield cast(BinaryIO, _Content(stream, part))


def _unpacked(
    sight: Sight, name: str, file: BinaryIO, identities: Sequence[Secret] | None
) -> AbstractContextManager[BinaryIO]:
    seal = sight.seal
    if name.endswith(".age"):
        keys = _identities(sight) if identities is None else identities
        return seal.unwrap(file, keys) if name.endswith(".zst.age") else seal.decrypt(file, keys)
    return seal.decompress(file) if name.endswith(".zst") else nullcontext(file)


def read_part(sight: Sight, snapshot: Snapshot, name: str) -> bytes:
    """Return the whole content of a part; raises like `open_part`."""
    with open_part(sight, snapshot, name) as stream:
        return stream.read()


def insist_on_deployment(snapshot: Snapshot) -> None:
    """Raise Refused where a snapshot holds virtual clusters alone."""
    if not snapshot.has(DEPLOYMENT):
        raise Refused(
            f"snapshot {snapshot.id} holds virtual clusters alone: there is no configuration in it",
            hint=f"`maint backup list` shows the others; `maint backup show {snapshot.id}` tells what it holds",
        )


def read_deployment(sight: Sight, snapshot: Snapshot) -> Document:
    """Return the raw deployment of a snapshot as plain data; raises like `open_part` and `insist_on_deployment`, and
    where it is not one.
    """
    insist_on_deployment(snapshot)
    return parse(read_part(sight, snapshot, DEPLOYMENT))


def object_name(site: str, object_id: str) -> str:
    """Return where a file of virtual clusters lies in the store; its id is `StoredFile.place`."""
    return f"{site}/objects/{object_id}.age"


@contextmanager
def open_object(sight: Sight, stored: StoredFile) -> Iterator[BinaryIO]:
    """Open a file of virtual clusters that a manifest lists; raises as `open_part` does."""
    keys = _identities(sight)
    with (
        open_stored(sight, object_name(sight.settings.name, stored.place), stored) as file,
        sight.seal.decrypt(file, keys) as stream,
    ):
        yield stream


def _identities(sight: Sight) -> Sequence[Secret]:
    if identities := sight.identities():
        return identities
    raise Refused(
        "this machine has no private key to open snapshots with",
        hint="set backup.identity, or restore where the key is",
    )


def keeps_file(snapshot: Snapshot, path: str) -> bool:
    """Tell whether a snapshot keeps a file of the manager's host, or something below a folder."""
    return any(one == path or one.startswith(f"{path}/") for one in snapshot.manager_files)
