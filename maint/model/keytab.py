"""Keytabs of MIT Kerberos: parsed without any library, and judged (J12)."""

import struct
from collections.abc import Iterator, Sequence

import msgspec

_MAGIC, _NATIVE, _BIG = 5, 1, 2  # first byte; second byte: version 1 in the writer's byte order, version 2 big-endian
USABLE = {17: "aes128-cts", 18: "aes256-cts", 19: "aes128-sha2", 20: "aes256-sha2"}
_OTHERS = {
    1: "des-cbc-crc", 2: "des-cbc-md4", 3: "des-cbc-md5", 16: "des3-cbc-sha1", 23: "arcfour (RC4)",
    24: "arcfour-exp (RC4)", 25: "camellia128", 26: "camellia256",
}  # fmt: skip
_SIZES = {1: 8, 2: 8, 3: 8, 16: 24, 17: 16, 18: 32, 19: 16, 20: 32, 23: 16, 24: 16, 25: 16, 26: 32}


class BadKeytab(ValueError):
    """No keytab, or one that breaks off."""


class Key(msgspec.Struct, frozen=True):
    """One key of a keytab."""

    principal: str  # `name/instance@REALM`
    version: int  # the key version, which the KDC counts up
    enctype: int  # number of the encryption type
    stamp: int  # when it was written, seconds since 1970
    content: bytes

    def __repr__(self) -> str:
        return f"Key({self.principal!r}, {self.version}, {self.kind!r})"  # never the key itself

    @property
    def usable(self) -> bool:
        """Whether systems of today, Java's among them, accept a ticket under it."""
        return self.enctype in USABLE

    @property
    def kind(self) -> str:
        """The encryption type in words."""
        return USABLE.get(self.enctype) or _OTHERS.get(self.enctype) or f"type {self.enctype}"


def parse(content: bytes) -> Sequence[Key]:
    """Return the keys of a keytab, in its order, without the gaps of deleted keys; else BadKeytab."""
    if len(content) < 2 or content[0] != _MAGIC or content[1] not in (_NATIVE, _BIG):
        raise BadKeytab("it does not begin as a keytab does (05 02)")
    if content[1] == _BIG:
        return list(_keys(content, ">"))
    problems = []
    for order in ("<", ">"):  # the writer's own: only one of both makes sense of it
        try:
            return list(_keys(content, order))
        except BadKeytab as error:
            problems.append(error)
    raise problems[0]


def _keys(content: bytes, order: str) -> Iterator[Key]:
    place = 2
    while place < len(content):
        (length,) = _Reader(content, place, len(content), order).numbers("i")
        place += 4
        if length == 0:  # what MIT's library takes for the end
            return
        end = place + abs(length)
        if end > len(content):
            raise BadKeytab(f"it breaks off: a key of {abs(length)} bytes at {place} has only {len(content) - place}")
        if length > 0:
            yield _key(_Reader(content, place, end, order), first=content[1] == _NATIVE)
        place = end


def _key(reader: "_Reader", *, first: bool) -> Key:
    (count,) = reader.numbers("H")
    count -= 1 if first else 0  # version 1 counts the realm too
    if not 0 < count < 64:
        raise BadKeytab(f"a principal of {count} components")
    realm = reader.counted()
    names = [reader.counted() for _ in range(count)]
    if not first:
        reader.numbers("I")  # the name's type
    stamp, short, enctype = (*reader.numbers("I"), *reader.numbers("B"), *reader.numbers("H"))
    key = reader.counted()
    version = reader.numbers("I")[0] if reader.left >= 4 else 0
    if len(key) != _SIZES.get(enctype, len(key)) or not key:
        raise BadKeytab(f"a key of type {enctype} has {len(key)} bytes")
    return Key(_spelled(names, realm), version or short, enctype, stamp, key)


def _spelled(names: Sequence[bytes], realm: bytes) -> str:
    parts = [name.decode("utf-8", "replace") for name in names]
    return "/".join(parts) + "@" + realm.decode("utf-8", "replace")


class _Reader:
    """Reads one record from left to right."""

    def __init__(self, content: bytes, place: int, end: int, order: str) -> None:
        self._content, self._place, self._end, self._order = content, place, end, order

    @property
    def left(self) -> int:
        """How many bytes are still to come."""
        return self._end - self._place

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return numbers as `struct` spells them."""
        return struct.unpack(self._order + form, self._take(struct.calcsize(self._order + form)))

    def counted(self) -> bytes:
        """Return bytes that their number stands before."""
        return self._take(self.numbers("H")[0])

    def _take(self, count: int) -> bytes:
        if count > self.left:
            raise BadKeytab(f"it breaks off in the middle of a key, at byte {self._place}")
        self._place += count
        return self._content[self._place - count : self._place]


def newest_usable(keys: Sequence[Key], principal: str) -> Key:
    """Return a usable key of a principal's newest key version; BadKeytab tells what there is instead."""
    own = [key for key in keys if key.principal == principal]
    if not own:
        held = sorted({key.principal for key in keys})
        others = ", ".join(held[:5]) + (" and more" if len(held) > 5 else "")
        raise BadKeytab(f"it holds no key of {principal}" + (f", but of {others}" if held else " nor of anybody"))
    newest = max(key.version for key in own)
    latest = [key for key in own if key.version == newest]
    for key in latest:
        if key.usable:
            return key
    kinds = ", ".join(sorted({key.kind for key in latest}))
    wanted = ", ".join(USABLE.values())
    raise BadKeytab(f"its newest keys of {principal} (version {newest}) are only {kinds}; usable are {wanted}")
