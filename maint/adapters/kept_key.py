"""Keep a key in a file of the owner's, made when there is none."""

import secrets
from pathlib import Path

from maint.adapters.private_key import KEY_BYTES
from maint.errors import Invalid
from maint.files import create, read_private
from maint.model.secret import Secret


def load_or_make_key(folder: Path, name: str) -> Secret:
    """Return a secret of 32 random bytes in hex, kept in a file (0600) that is made when there is none."""
    path = folder / name
    content = read_private(path) or make_key(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
    text = content.decode("ascii", "replace").strip()
    if len(text) != 2 * KEY_BYTES or not set(text) <= set("0123456789abcdef"):
        raise Invalid(f"{path} does not hold a key of {KEY_BYTES} bytes in hex", hint="put the old file back")
    return Secret(text)


def make_key(path: Path, content: bytes) -> bytes:
    """Keep a fresh key; return it, or that of who was faster."""
    if create(path, content):
        return content
    winner = read_private(path)
    if not winner:
        raise Invalid(f"{path} is empty", hint="put the old file back, or remove it to have a new one made")
    return winner
