"""Keys in files of the owner's: made when there is none; Ed25519 ones as `ssh-keygen -N ''` writes them are read."""

import base64
import binascii
import secrets
from pathlib import Path

from maint.errors import Invalid
from maint.files import create, read_private
from maint.model.secret import Secret

_BEGIN, _END = b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"-----END OPENSSH PRIVATE KEY-----\n"
ALGORITHM = b"ssh-ed25519"
KEY_BYTES = 32
_BLOCK = 8  # bytes that the secret part is padded to
_TWICE = 4  # bytes of a number that stands there twice


def seed_of(content: bytes) -> tuple[bytes, bytes] | None:
    """Return the seed of a private key and its public key, 32 bytes each; None where it is not plainly one."""
    if not (content.startswith(_BEGIN) and content.endswith(_END)):
        return None
    try:
        frame = base64.b64decode(content.removeprefix(_BEGIN).removesuffix(_END).replace(b"\n", b""), validate=True)
    except binascii.Error:
        return None
    public = frame[len(_head(b"")) :][:KEY_BYTES]
    head = _head(public)
    secret = frame[len(head) + 4 :]
    if frame != head + ssh_string(secret) or secret[:_TWICE] != secret[_TWICE : 2 * _TWICE]:
        return None
    return _of_secret(secret[2 * _TWICE :], public)


def _head(public: bytes) -> bytes:
    none = ssh_string(b"none")
    return (
        b"openssh-key-v1\0" + none + none + ssh_string(b"") + (1).to_bytes(4, "big") + ssh_string(public_blob(public))
    )


def public_blob(public: bytes) -> bytes:
    """Return a public key (32 bytes) in SSH's own form."""
    return ssh_string(ALGORITHM) + ssh_string(public)


def _of_secret(secret: bytes, public: bytes) -> tuple[bytes, bytes] | None:
    seed = secret[len(public_blob(public)) + 4 :][:KEY_BYTES]
    start = public_blob(public) + ssh_string(seed + public)
    size = int.from_bytes(secret[len(start) : len(start) + 4], "big")
    comment = secret[len(start) + 4 :][:size]
    known = start + ssh_string(comment)
    padding = bytes(range(1, -(len(known) + 2 * _TWICE) % _BLOCK + 1))
    return (seed, public) if secret == known + padding else None


def ssh_string(content: bytes) -> bytes:
    """Return content with its length before it (RFC 4251, 5)."""
    return len(content).to_bytes(4, "big") + content


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
