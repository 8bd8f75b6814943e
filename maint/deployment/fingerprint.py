"""Fingerprints of secrets: equal secrets look equal, a rotation shows, the value does not."""

import hashlib
import hmac
import re

from maint.ports import Sight

_MADE = r"fp:[0-9a-f]{16}"
_LENGTH = 19  # characters of a fingerprint


class Fingerprint:
    """Makes fingerprints: HMAC-SHA256 cut to 64 bits; without the key even a guessed password cannot be tried."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)  # what depends on the key alone is done once

    def __call__(self, value: str) -> str:
        """Return `fp:` and 16 hex digits; a fingerprint stays as it is, so that redacted copies can be compared."""
        if len(value) == _LENGTH and re.fullmatch(_MADE, value):
            return value
        made = self._keyed.copy()
        made.update(value.encode(errors="surrogatepass"))
        return f"fp:{made.hexdigest()[:16]}"


def site_fingerprint(sight: Sight) -> Fingerprint:
    """Return the fingerprints of a site: under its key, read as hex where it is hex, else as it stands."""
    key = sight.fingerprint_key.reveal().strip()
    try:
        return Fingerprint(bytes.fromhex(key))
    except ValueError:
        return Fingerprint(key.encode())
