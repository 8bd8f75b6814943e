"""Sign and verify as `ssh-keygen -Y` does (SSHSIG, Ed25519), in one spelling only; make and read the keys."""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from maint.errors import Invalid, WorkFailed
from maint.files import create, read_file, read_private, replace
from maint.model.secret import Secret

NAMESPACE = "maint-manifest"
ONLY_COPY = "put the old file back; only where there is no copy, remove it to have a new one made: `maint help files`"
_ANEW = "put the old one back: by it older snapshots are believed; ssh-keygen -t ed25519 -N '' -f FILE makes one"
_MAGIC = b"SSHSIG"
_BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
_END = b"-----END SSH SIGNATURE-----\n"
_LINE = 70  # what ssh-keygen breaks the base64 text at
_SIGNATURE_BYTES = 64
_KEY_BEGIN, _KEY_END = b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"-----END OPENSSH PRIVATE KEY-----\n"
ALGORITHM = b"ssh-ed25519"
KEY_BYTES = 32
_BLOCK = 8  # bytes that the secret part is padded to
_TWICE = 4  # bytes of a number that stands there twice


class SshSigner:
    """`ports.Sign` with this site's own Ed25519 key, always trusted, and further public keys, `ssh-ed25519 AAAA…`.

    Args:
        key: its own, or what makes it once something is to be signed: who only reads leaves no key behind.
        public: file that its public half is kept in for people, as soon as something is signed.
    """

    def __init__(
        self,
        key: Ed25519PrivateKey | Callable[[], Ed25519PrivateKey],
        trusted: Sequence[str] = (),
        public: Path | None = None,
    ) -> None:
        self._key = key
        self._public = public
        self._trusted = {_parse_public(line) for line in trusted}
        if isinstance(key, Ed25519PrivateKey):
            self._trusted.add(key.public_key().public_bytes_raw())

    def _own(self) -> Ed25519PrivateKey:
        if not isinstance(self._key, Ed25519PrivateKey):
            self._key = self._key()
            self._trusted.add(self._key.public_key().public_bytes_raw())
        return self._key

    @property
    def public_key(self) -> str:
        return _show_public(self._own().public_key().public_bytes_raw())

    def sign(self, content: bytes) -> bytes:
        own = self._own()
        if self._public:
            with suppress(OSError):  # a backup is worth more than a copy of what its signature names anyway
                _publish(self.public_key, self._public)
        return _armor(own.public_key().public_bytes_raw(), own.sign(_to_be_signed(content)))

    def verify(self, content: bytes, signature: bytes) -> str:
        """Return the trusted public key that signed; WorkFailed: not canonical, not trusted, or other content's."""
        public, raw = _dissect(signature)
        if public not in self._trusted:
            raise WorkFailed(
                "the signature is by a key that is not trusted",
                detail=[_show_public(public)],
                hint="if you know this key, add it to backup.trusted_keys",
            )
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(raw, _to_be_signed(content))
        except InvalidSignature:
            raise WorkFailed(
                "the signature does not fit the content",
                detail=["what was signed has been changed since, or the signature belongs to something else"],
                hint="it is not used: take another snapshot or copy, and find out who changed this one",
            ) from None
        return _show_public(public)


def load_or_make_signer(key: Secret | None, folder: Path, trusted: Sequence[str]) -> SshSigner:
    """Return the site's signer.

    Args:
        key: private key in OpenSSH's format; None for `signing` (0600) in the folder, made once something is signed.
        trusted: further public keys whose signatures are believed.
    """
    if key is not None:
        return SshSigner(_parse_private(key.reveal().encode(), "the configured signing key", _ANEW), trusted)
    path = folder / "signing"
    kept = read_private(path)
    own = partial(_make_private, path) if kept is None else _parse_private(kept, str(path))
    return SshSigner(own, trusted, folder / "signing.pub")


def _make_private(path: Path) -> Ed25519PrivateKey:
    return _parse_private(make_key(path, _fresh_private()), str(path))


def _publish(own: str, path: Path) -> None:
    """Keep the public key for people; that of a private key which was lost stays, under a name of its own."""
    there = read_file(path) if path.exists() else b""  # what is no file is left alone
    if own.encode() in there:
        return
    if there:
        with suppress(FileExistsError):
            path.with_name(f"signing-before-{hashlib.sha256(there).hexdigest()[:8]}.pub").hardlink_to(path)
    replace(path, f"{own} {NAMESPACE}\n".encode())


def _fresh_private() -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def _parse_private(content: bytes, what: str, hint: str = ONLY_COPY) -> Ed25519PrivateKey:
    content = content.rstrip() + b"\n"  # a reference drops the final newline, which the format wants back
    found = seed_of(content)
    key = _plain_private(*found) if found else _any_private(content)
    if key is None:
        raise Invalid(
            f"{what} is not a usable private key",
            detail=["expected: OpenSSH's own format, without a passphrase"],
            hint=hint,
        )
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid(f"{what} is not an Ed25519 key", hint=hint)
    return key


def _plain_private(seed: bytes, public: bytes) -> Ed25519PrivateKey | None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key if key.public_key().public_bytes_raw() == public else None


def _any_private(content: bytes) -> object | None:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        return load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # whose words may quote the key
        return None


def _parse_public(line: str) -> bytes:
    words = line.split()
    try:
        if words[:1] == [ALGORITHM.decode()] and len(words) > 1:
            blob = base64.b64decode(words[1], validate=True)
            raw = blob[-KEY_BYTES:]
            if blob == public_blob(raw):
                return raw
    except binascii.Error:
        pass  # falls through to the one message that fits every malformed key
    raise Invalid(f"{line!r} is not an Ed25519 public key", hint="write it as in a .pub file: ssh-ed25519 AAAA…")


def _show_public(raw: bytes) -> str:
    return f"{ALGORITHM.decode()} {base64.b64encode(public_blob(raw)).decode()}"


def _to_be_signed(content: bytes) -> bytes:
    fields = (NAMESPACE.encode(), b"", b"sha512", hashlib.sha512(content).digest())
    return _MAGIC + b"".join(map(ssh_string, fields))


def _frame(public: bytes, signature: bytes) -> bytes:
    fields = (public_blob(public), NAMESPACE.encode(), b"", b"sha512", ssh_string(ALGORITHM) + ssh_string(signature))
    return _MAGIC + (1).to_bytes(4, "big") + b"".join(map(ssh_string, fields))


def _armor(public: bytes, signature: bytes) -> bytes:
    text = base64.b64encode(_frame(public, signature))
    lines = (text[start : start + _LINE] + b"\n" for start in range(0, len(text), _LINE))
    return _BEGIN + b"".join(lines) + _END


def _dissect(armored: bytes) -> tuple[bytes, bytes]:
    # All fields have a fixed length, so a valid frame is known by its key and signature: build the only
    # spelling that these two have, and accept nothing else.
    try:
        frame = base64.b64decode(armored.removeprefix(_BEGIN).removesuffix(_END))
    except (binascii.Error, ValueError):
        frame = b""
    start = len(_MAGIC) + 4 + 4 + len(public_blob(b""))
    public, signature = frame[start : start + KEY_BYTES], frame[-_SIGNATURE_BYTES:]
    if armored != _armor(public, signature):
        raise WorkFailed(
            "the signature is not in the form that ssh-keygen -Y sign writes",
            detail=[f"expected: an Ed25519 signature in the namespace {NAMESPACE}, hash sha512, byte for byte"],
            hint="it is not used: take another snapshot or copy, and find out who wrote this one",
        )
    return public, signature


def seed_of(content: bytes) -> tuple[bytes, bytes] | None:
    """Return the seed of a private key and its public key, 32 bytes each; None where it is not plainly one."""
    if not (content.startswith(_KEY_BEGIN) and content.endswith(_KEY_END)):
        return None
    try:
        frame = base64.b64decode(
            content.removeprefix(_KEY_BEGIN).removesuffix(_KEY_END).replace(b"\n", b""), validate=True
        )
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
        raise Invalid(f"{path} does not hold a key of {KEY_BYTES} bytes in hex", hint=ONLY_COPY)
    return Secret(text)


def make_key(path: Path, content: bytes) -> bytes:
    """Keep a fresh key; return it, or that of who was faster."""
    if create(path, content):
        return content
    winner = read_private(path)
    if not winner:
        raise Invalid(f"{path} is empty", hint=ONLY_COPY)
    return winner
