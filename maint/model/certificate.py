"""A certificate read without its key: when it ends, which names it is for, its fingerprint (RFC 5280, section 4.1).

The standard library tells that only of a server that was connected to and believed.
"""

import base64
import hashlib
import re
from datetime import UTC, datetime

_UTC_TIME, _NAME_OF_DNS, _VERSION = 0x17, 0x82, 0xA0  # tags
_ALTERNATIVES = bytes.fromhex("0603551d11")  # the identifier of subjectAltName, 2.5.29.17
_CRITICAL = b"\x01\x01\xff"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_PEM = re.compile(r"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[^-]+-----END \1-----")  # as OpenSSL reads them


def first_of(chain: bytes) -> bytes:
    """Return the first certificate of a chain (PEM) as DER; ValueError where there is none."""
    text = chain.decode("ascii", "replace")
    if _BEGIN not in text or _END not in text:
        raise ValueError("no certificate in PEM form")
    return base64.decodebytes(text.partition(_BEGIN)[2].partition(_END)[0].encode("ascii"))


def all_of(content: bytes) -> list[str]:
    """Return the certificates of a PEM file as they stand there, without comments, keys and what else is in it."""
    return [found[0] for found in _PEM.finditer(content.decode("ascii", "replace"))]


def pem(der: bytes) -> str:
    """Return a certificate (DER) as PEM."""
    import ssl  # who only checks playbooks writes none

    return ssl.DER_cert_to_PEM_cert(der)


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate (DER) in hex."""
    return hashlib.sha256(der).hexdigest()


def end_of(der: bytes) -> datetime:
    """Return when a certificate (DER) ends; ValueError where it cannot be read."""
    parts = _fields(der)
    times = _parts(parts[3][1]) if len(parts) > 3 else []
    if len(times) != 2:
        raise ValueError("a certificate without its times")
    tag, text = times[1]
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text.decode("ascii", "replace"), form).replace(tzinfo=UTC)


def is_self_signed(der: bytes) -> bool:
    """Whether a certificate (DER) names itself as its issuer; ValueError where it cannot be read."""
    parts = _fields(der)
    return len(parts) > 4 and parts[2] == parts[4]


def covers(der: bytes, host: str) -> bool:
    """Whether a certificate (DER) is for a host; `*` stands for one label."""
    return any(name == host or name == f"*.{host.partition('.')[2]}" for name in names_of(der))


def names_of(der: bytes) -> list[str]:
    """Return the DNS names of a certificate (DER), but not its subject, as all clients of today; ValueError."""
    place = der.find(_ALTERNATIVES)
    if place < 0:
        return []
    rest = der[place + len(_ALTERNATIVES) :].removeprefix(_CRITICAL)
    listed = _inside(_inside(rest)[0])[0]
    return [content.decode("ascii", "replace").lower() for tag, content in _parts(listed) if tag == _NAME_OF_DNS]


def _fields(der: bytes) -> list[tuple[int, bytes]]:
    # Serial number, algorithm, issuer, validity, subject; before them the version, which version 1 leaves out.
    parts = _parts(_inside(_inside(der)[0])[0])
    return parts[1:] if parts and parts[0][0] == _VERSION else parts


def _parts(der: bytes) -> list[tuple[int, bytes]]:
    """Return the elements in a row, tag and content."""
    found = []
    while der:
        tag = der[0]
        content, der = _inside(der)
        found.append((tag, content))
    return found


def _inside(der: bytes) -> tuple[bytes, bytes]:
    length, start = der[1] if len(der) > 1 else 1, 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[2 : 2 + count], "big"), 2 + count
    if len(der) < start + length:
        raise ValueError("a certificate breaks off")
    return der[start : start + length], der[start + length :]
