"""Ed25519 keys of the lab, made once and kept."""

import os
from pathlib import Path

from paramiko import Ed25519Key

from maint.lab.pki import new_ssh_key


def ed25519_key(path: Path) -> Ed25519Key:
    """Return the key in a file, making file (0600) and key where there is none."""
    if not path.exists():
        write_private(path, new_ssh_key())
    return Ed25519Key.from_private_key_file(str(path))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    staging = path.with_name(f".{path.name}.new")
    staging.unlink(missing_ok=True)
    number = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as out:
        out.write(content)
    staging.replace(path)
