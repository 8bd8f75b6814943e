"""Make keytabs: the bytes that MIT Kerberos writes (contract on the jobs API, section 12)."""

import struct

_AES256 = 18
_PRINCIPAL = 1


def make(principal: str, key: bytes, stamp: int, version: int = 1) -> bytes:
    """Return a keytab with one key.

    Args:
        key: 32 bytes, for AES-256.
        stamp: when it was made, seconds since 1970.
    """
    name, _, realm = principal.partition("@")
    components = name.split("/")
    record = struct.pack(">H", len(components)) + _counted(realm.encode())
    record += b"".join(_counted(part.encode()) for part in components)
    record += struct.pack(">IIBH", _PRINCIPAL, stamp, version & 0xFF, _AES256) + _counted(key)
    record += struct.pack(">I", version)
    return b"\x05\x02" + struct.pack(">i", len(record)) + record


def _counted(content: bytes) -> bytes:
    return struct.pack(">H", len(content)) + content
