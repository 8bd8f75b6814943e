"""Kerberos of the lab: keytabs as MIT writes them (J12), and the realm, which knows whether a keytab gets a ticket."""

import json
import secrets
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint.files import write_whole

AES128, AES256, RC4 = 17, 18, 23
HEAD = b"\x05\x02"
_OLD_HEAD = b"\x05\x01"  # in the byte order of the machine that wrote it; nobody has written one for decades
_PRINCIPAL = 1
_BYTES = {AES256: 32, AES128: 16}


class NoKeytab(ValueError):
    """The bytes do not begin as a keytab does."""


class Entry(msgspec.Struct, frozen=True):
    """One key of a principal (`NAME[/NAME…]@REALM`), of an encryption type, written at a time (seconds since 1970)."""

    principal: str
    version: int
    kind: int
    key: bytes
    stamp: int


def new_keytab(principal: str) -> bytes:
    """Return a keytab with one random key."""
    return keytab_of([Entry(principal, 1, AES256, secrets.token_bytes(_BYTES[AES256]), int(time.time()))])


def keytab_of(entries: Sequence[Entry]) -> bytes:
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


def read_keytab(content: bytes) -> list[Entry]:
    """Return the keys of a keytab (else NoKeytab); like MIT's tools, it ends silently where a record is cut off."""
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


_NEW = 2  # the version of a principal's first keys: one set when it was made, one when its keytab was written
_UNKNOWN = "Client '{}' not found in Kerberos database"
_NO_KIND = "Pre-authentication failed: No key table entry found for {}"
_WRONG = "Preauthentication failed"


class Realm:
    """The database of the realm's key distribution centre, in one file; made with the first principal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def keytab(self, principal: str) -> bytes:
        """Return a keytab with the keys that a principal has now; one that there is not yet is made."""
        with self._lock:
            known = self._known()
            if principal not in known:
                keys = {str(kind): secrets.token_hex(size) for kind, size in _BYTES.items()}
                known[principal] = {"version": _NEW, "keys": keys}
                write_whole(self._path, json.dumps(known, indent=1).encode(), 0o600)
            return keytab_of(_present(principal, known))

    def login(self, principal: str, keytab: bytes | None) -> str:
        """Return why a keytab (None: any) gets a principal no ticket, in MIT kinit's words; "" where it gets one."""
        with self._lock:
            known = self._known()
        if principal not in known:
            return _UNKNOWN.format(principal)
        own = [entry for entry in read_keytab(keytab or HEAD) if entry.principal == principal]
        for present in _present(principal, known):
            offered = [entry for entry in own if entry.kind == present.kind]
            if offered:  # of each kind the newest is tried, and no other
                newest = max(offered, key=lambda entry: entry.version)
                return "" if newest.key == present.key else _WRONG
        return "" if keytab is None else _NO_KIND.format(principal)

    def _known(self) -> dict[str, dict[str, object]]:
        if not self._path.exists():
            return {}
        known: dict[str, dict[str, object]] = json.loads(self._path.read_bytes())
        return known


def _present(principal: str, known: dict[str, dict[str, object]]) -> list[Entry]:
    entry = known[principal]
    keys = entry["keys"]
    if not isinstance(keys, dict):
        raise TypeError("the realm's file is damaged")
    version, now = int(str(entry["version"])), int(time.time())
    return [Entry(principal, version, int(kind), bytes.fromhex(key), now) for kind, key in keys.items()]


def with_wrong_principal(keytab: bytes) -> bytes:
    """Return a keytab of a principal that the realm does not have, as one that was made for another host."""
    entries = read_keytab(keytab)
    names = [entry.principal.partition("@") for entry in entries]
    strangers = [f"{name.partition('/')[0]}/elsewhere.invalid@{realm}" for name, _, realm in names]
    return keytab_of([replace(e, principal=other) for e, other in zip(entries, strangers, strict=True)])


def with_rc4_alone(keytab: bytes) -> bytes:
    """Return a keytab with an RC4 key alone, as an old script makes it."""
    first = read_keytab(keytab)[0]
    return keytab_of([replace(first, kind=RC4, key=secrets.token_bytes(16))])


def with_old_keys(keytab: bytes) -> bytes:
    """Return the keytab as it was before somebody made new keys."""
    entries = read_keytab(keytab)
    return keytab_of([replace(e, version=e.version - 1, key=secrets.token_bytes(len(e.key))) for e in entries])


def cut_off(keytab: bytes) -> bytes:
    """Return a keytab that ends in the middle of its first key."""
    return keytab[: 2 + (len(keytab_of(read_keytab(keytab)[:1])) - 2) // 2]
