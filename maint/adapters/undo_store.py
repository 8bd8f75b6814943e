"""The undo store: what is needed to undo a change, encrypted in the state folder, each file marked with its name."""

import hmac
import io
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from maint.adapters.sign import ONLY_COPY
from maint.errors import Invalid, NoKeyFits, NotKept, WorkFailed
from maint.files import LARGEST, create, read_private, refuse_filling, remove
from maint.model.secret import Secret
from maint.ports import Seal

T = TypeVar("T")
_SMALL = 1024 * 1024  # bytes that are sealed on a disk that is nearly full, too: what puts things back needs them
_LARGEST = LARGEST + 1024 * 1024  # bytes of what is kept: sealing adds to what cannot be compressed
_FROM_A_COPY = "bring the state folder's `undo` back from a copy; without one, put back by hand what was there"
_THAT_KEY = "put the key back from where a copy of it is kept; without it these copies are lost"
_NAME = re.compile(r"[0-9a-f]{32}")
_UNMARKED = b"age-encryption.org/"  # how a file of an older version begins, which wrote no mark before it


class SealedUndo:
    """`ports.Undo` in `<state>/undo/`, encrypted with the key `<state>/keys/undo`."""

    def __init__(self, state: Path, seal: Seal) -> None:
        self._folder = state / "undo"
        self._key = state / "keys" / "undo"
        self._seal = seal

    def keep(self, content: bytes, name: str = "") -> str:
        """Seal content on disk and return its name; a given one is 32 hexadecimal digits and free, else KeyError.

        Raises:
            WorkFailed: it is more than a definition or a setting, and would fill the disk.
        """
        sealed = io.BytesIO()
        identity = self._load_or_make_identity()
        recipient = self._of_the_key(lambda: self._seal.recipient_of(identity))
        self._seal.wrap(io.BytesIO(content).read, sealed, [recipient])
        if sealed.tell() > _SMALL:
            refuse_filling(self._folder, sealed.tell())
        name = name or secrets.token_hex(16)
        if not create(self._path(name), _marks(name, sealed.getvalue(), identity)[0] + sealed.getvalue()):
            raise KeyError(name)
        return name

    def fetch(self, name: str) -> bytes:
        """Return the content; NotKept: no such name; WorkFailed: damaged, or kept under another name; Invalid: no key,
        or others can read it.
        """
        sealed = read_private(self._path(name), _LARGEST) if _NAME.fullmatch(name) else None
        if sealed is None:
            raise NotKept(
                f"what was kept to take this back is gone: {self._folder / name}",
                hint=_FROM_A_COPY,
            )
        identity = self._load_identity()
        if identity is None:
            raise Invalid(
                f"{self._key} is gone, and {self._path(name)} cannot be opened without it",
                hint=_THAT_KEY,
            )
        return self._of_the_key(lambda: self._opened(name, sealed, identity))

    def _opened(self, name: str, kept: bytes, identity: Secret) -> bytes:
        mark, sealed = (b"", kept) if kept.startswith(_UNMARKED) else (kept[:32], kept[32:])
        try:
            with self._seal.unwrap(io.BytesIO(sealed), [identity]) as stream:
                content = stream.read()
        except NoKeyFits:
            words = f"{self._path(name)} was sealed for another key than that in {self._key}"
            raise NoKeyFits(words, hint=_THAT_KEY) from None
        except WorkFailed as failure:
            words = f"{self._path(name)} cannot be opened"
            raise WorkFailed(words, detail=[failure.in_a_line], hint=_FROM_A_COPY) from None
        if mark and not any(hmac.compare_digest(mark, one) for one in _marks(name, sealed, identity)):
            raise WorkFailed(f"{self._path(name)} is not what was kept under that name", hint=_FROM_A_COPY)
        return content

    def _of_the_key(self, use: Callable[[], T]) -> T:
        try:
            return use()
        except Invalid as failure:
            words = f"{self._key} holds no usable private key"
            raise Invalid(words, detail=[failure.in_a_line], hint=ONLY_COPY) from None

    def drop(self, name: str) -> None:
        """Forget it; no complaint where there is none."""
        with suppress(KeyError):  # a name that is none of ours was never kept
            remove(self._path(name))

    def sealed_before(self, moment: float) -> Sequence[str]:
        with suppress(FileNotFoundError):  # one may just go
            return [one.name for one in self._folder.glob("*") if one.stat().st_mtime < moment]
        return []

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise KeyError(name)
        return self._folder / name

    def _load_identity(self) -> Secret | None:
        content = read_private(self._key)
        return None if content is None else Secret(content.decode("ascii", "replace").strip())

    def _load_or_make_identity(self) -> Secret:
        found = self._load_identity()
        if found is None:
            fresh, _ = self._seal.new_identity()
            if create(self._key, fresh.reveal().encode() + b"\n"):
                return fresh
            found = self._load_identity()
        if found is None:
            raise Invalid(f"{self._key} came and went", hint="is something cleaning the state folder?")
        return found


def _marks(name: str, sealed: bytes, identity: Secret) -> list[bytes]:
    """Return, for each private key, what tells that a file lies under the name that it was given; only who has the key
    can make it.
    """
    lines = [line.strip().encode() for line in identity.reveal().splitlines()]
    keys = [line for line in lines if line and not line.startswith(b"#")]
    return [hmac.digest(key, name.encode() + b"\0" + sealed, "sha256") for key in keys]
