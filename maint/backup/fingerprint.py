"""Fingerprints of secrets: equal secrets look equal, a rotation shows, the value does not.

HMAC-SHA256 under a key of the site's own, cut to 64 bits: without the key even a guessed password cannot be tried.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from pathlib import Path

from maint.errors import Invalid

KEY_FILE = "fingerprint.key"
_KEY_BYTES = 32
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


def read_key(state: Path) -> bytes | None:
    """Return the site's fingerprint key, None where none was made yet.

    Raises:
        Invalid: others can read it, or it is damaged.
    """
    path = state / KEY_FILE
    try:
        mode, key = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        return None
    if mode & 0o077:
        raise Invalid(f"{path} can be read by others", hint=f"chmod 600 {path}")
    if len(key) != _KEY_BYTES:
        raise Invalid(f"{path} is damaged: {len(key)} bytes", hint="remove it; new copies get new fingerprints")
    return key


def make_key(state: Path, chance: Callable[[int], bytes]) -> bytes:
    """Return the site's fingerprint key, made once.

    Args:
        state: the site's state folder.
        chance: returns so many random bytes.
    """
    if (key := read_key(state)) is not None:
        return key
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    staged = state / f"{KEY_FILE}.{chance(8).hex()}"
    with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(chance(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(staged, state / KEY_FILE)
    except FileExistsError:
        pass  # another run was quicker, and its key is the site's
    finally:
        staged.unlink()
    return read_key(state) or make_key(state, chance)
