"""Make and read keytabs: the bytes that MIT Kerberos writes (contract on the jobs API, section 12)."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

AES128, AES256, RC4 = 17, 18, 23
HEAD = b"\x05\x02"
_OLD_HEAD = b"\x05\x01"  # in the byte order of the machine that wrote it; nobody has written one for decades
_PRINCIPAL = 1


class NoKeytab(ValueError):
    """The bytes do not begin as a keytab does."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One key.

    Attributes:
        principal: `NAME[/NAME…]@REALM`.
        version: of the key.
        kind: its encryption type.
        stamp: when it was written, seconds since 1970.
    """

    principal: str
    version: int
    kind: int
    key: bytes
    stamp: int


def make(principal: str, key: bytes, stamp: int, version: int = 1) -> bytes:
    """Return a keytab with one key.

    Args:
        key: 32 bytes, for AES-256.
        stamp: when it was made, seconds since 1970.
    """
    return written([Entry(principal, version, AES256, key, stamp)])


def written(entries: Sequence[Entry]) -> bytes:
    """Return a keytab with these keys."""
    return HEAD + b"".join(_record(entry) for entry in entries)


def _record(entry: Entry) -> bytes:
    name, _, realm = entry.principal.rpartition("@")
    components = name.split("/")
    record = struct.pack(">H", len(components)) + _counted(realm.encode())
    record += b"".join(_counted(part.encode()) for part in components)
    record += struct.pack(">IIBH", _PRINCIPAL, entry.stamp, entry.version & 0xFF, entry.kind) + _counted(entry.key)
    record += struct.pack(">I", entry.version)
    return struct.pack(">i", len(record)) + record


def _counted(content: bytes) -> bytes:
    return struct.pack(">H", len(content)) + content


def read(content: bytes) -> list[Entry]:
    """Return the keys of a keytab; like MIT's tools, it ends without a word where a record is cut off.

    Raises:
        NoKeytab: it is none.
    """
    if content[:2] not in (HEAD, _OLD_HEAD):
        raise NoKeytab
    return list(_entries(content)) if content.startswith(HEAD) else []


def _entries(content: bytes) -> Iterator[Entry]:
    place = 2
    while place + 4 <= len(content):
        (size,) = struct.unpack_from(">i", content, place)
        record, place = content[place + 4 : place + 4 + abs(size)], place + 4 + abs(size)
        if size == 0 or (size > 0 and len(record) < size):
            return
        if size > 0:  # what is negative was deleted
            try:
                yield _parsed(record)
            except struct.error:
                return


def _parsed(record: bytes) -> Entry:
    (count,) = struct.unpack_from(">H", record)
    place, words = 2, []
    for _ in range(count + 1):
        word, place = _word(record, place)
        words.append(word.decode("utf-8", "replace"))
    _, stamp, version, kind = struct.unpack_from(">IIBH", record, place)
    key, place = _word(record, place + 11)
    if len(record) - place >= 4:
        version = struct.unpack_from(">I", record, place)[0] or version
    return Entry(f"{'/'.join(words[1:])}@{words[0]}", version, kind, key, stamp)


def _word(record: bytes, place: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">H", record, place)
    (word,) = struct.unpack_from(f"{size}s", record, place + 2)
    return word, place + 2 + size
