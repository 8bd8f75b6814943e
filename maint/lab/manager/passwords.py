"""The rule by which the server keeps passwords (contract section 7.3), and another one for doubters (U14)."""

import hashlib
import hmac
import random

ROUNDS = 1024


def hash_password(password: str, salt: int, algorithm: str = "cm5") -> str:
    """Return `pwHash` in hex.

    Args:
        salt: a signed 64-bit integer.
        algorithm: `cm5`, or `other`: one that no document describes.
    """
    if algorithm == "other":
        return hashlib.pbkdf2_hmac("sha256", password.encode(), str(salt).encode(), ROUNDS).hex()
    digest = f"{password}{{{salt}}}".encode()
    for _ in range(ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def matches(password: str, pw_hash: str, salt: int) -> bool:
    """Return whether a password belongs to a stored pair, by either rule."""
    return any(hmac.compare_digest(hash_password(password, salt, rule), pw_hash) for rule in ("cm5", "other"))


def new_salt(chance: random.Random) -> int:
    """Return a random signed 64-bit salt."""
    return chance.randrange(-(2**63), 2**63)
