"""Write the parts of a snapshot and read them back, counted and hashed on both sides of their packing."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, cast

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
