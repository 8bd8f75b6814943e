"""Fingerprints of secrets: equal secrets look equal, a rotation shows, the value does not.

HMAC-SHA256 under a key of the site's own, cut to 64 bits: without the key even a guessed password cannot be tried.
"""

import hashlib
import hmac
import re

from maint.ports import Sight

_MADE = re.compile(r"fp:[0-9a-f]{16}")


class Fingerprint:
    """Makes fingerprints under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, value: str) -> str:
        """Return `fp:` and 16 hex digits; a fingerprint stays what it is, so that redacted copies can be compared."""
        if _MADE.fullmatch(value):
            return value
        return f"fp:{hmac.digest(self._key, value.encode(errors='surrogatepass'), hashlib.sha256).hex()[:16]}"


def site_fingerprint(sight: Sight) -> Fingerprint:
    """Return the fingerprints of a site: under its key, read as hex where it is hex, else as it stands."""
    key = sight.fingerprint_key.reveal().strip()
    try:
        return Fingerprint(bytes.fromhex(key))
    except ValueError:
        return Fingerprint(key.encode())
