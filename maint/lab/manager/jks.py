"""Java keystores of type JKS: written, read and checked without Java."""

import hashlib
import hmac
import struct
from collections.abc import Sequence

import msgspec

_MAGIC, _VERSION = 0xFEEDFEED, 2
_KEY, _TRUSTED = 1, 2
_WHITENER = b"Mighty Aphrodite"
# AlgorithmIdentifier of the key protection: SEQUENCE { OID 1.3.6.1.4.1.42.2.17.1.1, NULL }
_ALGORITHM = bytes.fromhex("300e060a2b060104012a021101010500")


class BadKeystore(ValueError):
    """Not a JKS file, or a changed one, or the password is wrong."""


class Entry(msgspec.Struct, frozen=True):
    """One entry of a keystore."""

    alias: str  # in small letters
    created: int  # milliseconds since 1970
    chain: tuple[bytes, ...]  # DER; one for a trusted certificate
    protected_key: bytes = b""  # encrypted; b"" for a trusted certificate


def write(entries: Sequence[Entry], password: str) -> bytes:
    """Return a keystore."""
    data = struct.pack(">III", _MAGIC, _VERSION, len(entries)) + b"".join(_entry(entry) for entry in entries)
    return data + _digest(data, password)


def read(content: bytes, password: str) -> list[Entry]:
    """Return the entries of a keystore; `BadKeystore` where it is damaged or the password is wrong."""
    if len(content) < 32 or struct.unpack(">II", content[:8]) != (_MAGIC, _VERSION):
        raise BadKeystore("Invalid keystore format")
    data, digest = content[:-20], content[-20:]
    if not hmac.compare_digest(_digest(data, password), digest):
        raise BadKeystore("Keystore was tampered with, or password was incorrect")
    reader = _Reader(data, 8)
    return [reader.entry() for _ in range(reader.number(">I"))]


def protect(key: bytes, password: str, salt: bytes) -> bytes:
    """Return a PKCS#8 key (DER) under a password; the salt has 20 bytes."""
    secret = password.encode("utf-16-be")
    body = salt + _mask(key, secret, salt) + hashlib.sha1(secret + key).digest()
    return _der(0x30, _ALGORITHM + _der(0x04, body))


def unprotect(protected: bytes, password: str) -> bytes:
    """Return the PKCS#8 key (DER); `BadKeystore` where the password is wrong."""
    secret = password.encode("utf-16-be")
    body = protected[protected.index(_ALGORITHM) + len(_ALGORITHM) :]
    body = body[2 + (body[1] & 0x7F if body[1] & 0x80 else 0) :]
    salt, masked, check = body[:20], body[20:-20], body[-20:]
    key = _mask(masked, secret, salt)
    if hashlib.sha1(secret + key).digest() != check:
        raise BadKeystore("Cannot recover key")
    return key


def _mask(data: bytes, secret: bytes, salt: bytes) -> bytes:
    stream, block = b"", salt
    while len(stream) < len(data):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    return bytes(left ^ right for left, right in zip(data, stream, strict=False))


def _digest(data: bytes, password: str) -> bytes:
    return hashlib.sha1(password.encode("utf-16-be") + _WHITENER + data).digest()


def _entry(entry: Entry) -> bytes:
    head = struct.pack(">I", _KEY if entry.protected_key else _TRUSTED) + _text(entry.alias.lower())
    head += struct.pack(">q", entry.created)
    certificates = b"".join(_text("X.509") + _block(certificate) for certificate in entry.chain)
    if entry.protected_key:
        return head + _block(entry.protected_key) + struct.pack(">I", len(entry.chain)) + certificates
    return head + certificates


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _block(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _der(tag: int, data: bytes) -> bytes:
    if len(data) < 0x80:
        return bytes([tag, len(data)]) + data
    size = len(data).to_bytes((len(data).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + data


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def take(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self) -> str:
        return self.take(self.number(">H")).decode()

    def certificate(self) -> bytes:
        self.text()
        return self.take(self.number(">I"))

    def entry(self) -> Entry:
        tag, alias, created = self.number(">I"), self.text(), self.number(">q")
        if tag == _TRUSTED:
            return Entry(alias, created, (self.certificate(),))
        key = self.take(self.number(">I"))
        return Entry(alias, created, tuple(self.certificate() for _ in range(self.number(">I"))), key)
