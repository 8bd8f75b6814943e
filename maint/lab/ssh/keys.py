"""Ed25519 keys of the lab, made once and kept."""

import base64
import os
import textwrap
from pathlib import Path

from nacl.signing import SigningKey
from paramiko import Ed25519Key
from paramiko.message import Message

_KIND = b"ssh-ed25519"
_BLOCK = 8


def ed25519_key(path: Path) -> Ed25519Key:
    """Return the key in a file, making file (0600) and key where there is none."""
    if not path.exists():
        write_private(path, _openssh(SigningKey.generate()))
    return Ed25519Key.from_private_key_file(str(path))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    staging = path.with_name(f".{path.name}.new")
    staging.unlink(missing_ok=True)
    number = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as out:
        out.write(content)
    staging.replace(path)


def _openssh(key: SigningKey) -> bytes:
    """Return a key without a passphrase in OpenSSH's own format, which paramiko reads but does not write."""
    public = bytes(key.verify_key)
    both = _packed(_KIND, public)
    check = os.urandom(4)
    inner = check + check + _packed(_KIND, public, bytes(key) + public, b"lab")
    inner += bytes(range(1, 1 + -len(inner) % _BLOCK))
    blob = b"openssh-key-v1\0" + _packed(b"none", b"none", b"") + (1).to_bytes(4, "big") + _packed(both, inner)
    lines = textwrap.wrap(base64.b64encode(blob).decode(), 70)
    text = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])
    return text.encode()


def _packed(*texts: bytes) -> bytes:
    message = Message()
    for text in texts:
        message.add_string(text)
    return message.asbytes()
