"""The rule by which a manager stores passwords (contract section 7.3); proved on CM 5, assumed on CM 7."""

import hashlib
import hmac

from maint.model.secret import Secret

ROUNDS = 1024


def password_hash(password: str, salt: int) -> str:
    """Return `pwHash` in hex for a password and its signed decimal `pwSalt`."""
    digest = hashlib.sha256(f"{password}{{{salt}}}".encode()).digest()
    for _ in range(ROUNDS - 1):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def opens(password: Secret, pw_hash: object, salt: object) -> bool | None:
    """Tell whether a password fits a stored hash; None where hash or salt are not of the known form."""
    if not isinstance(pw_hash, str) or len(pw_hash) != 64 or not isinstance(salt, int) or isinstance(salt, bool):
        return None
    return hmac.compare_digest(password_hash(password.reveal(), salt), pw_hash.lower())
