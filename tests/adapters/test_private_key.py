"""Private keys that ssh-keygen writes are read as the library reads them, and nothing else is."""

import base64
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from maint.adapters.sign import load_or_make_signer, seed_of
from maint.errors import Invalid
from maint.model.secret import Secret


def written(key: Ed25519PrivateKey, passphrase: bytes = b"") -> bytes:
    cipher = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, cipher)


def flipped(content: bytes) -> Iterator[bytes]:
    """Yield a key file with each bit of its frame turned round."""
    first, *lines, last = content.splitlines()
    frame = base64.b64decode(b"".join(lines))
    for place in range(len(frame) * 8):
        other = bytearray(frame)
        other[place // 8] ^= 1 << place % 8
        yield b"\n".join([first, base64.b64encode(bytes(other)), last, b""])


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="the tool ssh-keygen is not installed")
@pytest.mark.parametrize("size", range(9))
def test_a_key_of_ssh_keygen_is_read_whatever_the_length_of_its_comment(size: int, tmp_path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "c" * size, "-f", str(tmp_path / "key")]
    subprocess.run(words, check=True)
    content = (tmp_path / "key").read_bytes()
    key = load_ssh_private_key(content, None)
    assert isinstance(key, Ed25519PrivateKey)
    assert seed_of(content) == (key.private_bytes_raw(), key.public_key().public_bytes_raw())


def test_a_key_with_any_bit_turned_round_is_none(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    assert seed_of(written(key)) == (key.private_bytes_raw(), public)
    read = [(content, found) for content in flipped(written(key)) if (found := seed_of(content))]
    assert len(read) == 256  # those of the seed itself, which the public key tells
    for content, (seed, told) in read:
        assert Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw() != told == public
        with pytest.raises(Invalid, match="not a usable private key"):
            load_or_make_signer(Secret(content.decode()), tmp_path, [])


def test_what_is_locked_cut_or_something_else_is_left_to_the_library() -> None:
    content = written(Ed25519PrivateKey.generate())
    for other in (b"", content[:-1], content[:80] + content[90:], written(Ed25519PrivateKey.generate(), b"word")):
        assert seed_of(other) is None
