"""Fingerprints of secrets: equal secrets look equal, a rotation shows, the value does not."""

import hashlib
import re

from maint.ports import Sight

_MADE = re.compile(r"fp:[0-9a-f]{16}")
_LENGTH = 19  # characters of a fingerprint
_BLOCK = 64  # bytes that SHA-256 takes at a time


class Fingerprint:
    """Makes fingerprints: HMAC-SHA256 cut to 64 bits; without the key even a guessed password cannot be tried."""

    def __init__(self, key: bytes) -> None:
        # RFC 2104, with what depends on the key alone done once: a large export holds many thousand secrets.
        block = hashlib.sha256(key).digest() if len(key) > _BLOCK else key
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block.ljust(_BLOCK, b"\0")))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block.ljust(_BLOCK, b"\0")))

    def __call__(self, value: str) -> str:
        """Return `fp:` and 16 hex digits; a fingerprint stays as it is, so that redacted copies can be compared."""
        if len(value) == _LENGTH and _MADE.fullmatch(value):
            return value
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(value.encode(errors="surrogatepass"))
        outer.update(inner.digest())
        return f"fp:{outer.hexdigest()[:16]}"


def site_fingerprint(sight: Sight) -> Fingerprint:
    """Return the fingerprints of a site: under its key, read as hex where it is hex, else as it stands."""
    key = sight.fingerprint_key.reveal().strip()
    try:
        return Fingerprint(bytes.fromhex(key))
    except ValueError:
        return Fingerprint(key.encode())
