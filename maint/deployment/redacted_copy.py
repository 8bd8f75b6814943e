"""Write the copy for reading, sharing and comparing: the same document, every secret replaced by its fingerprint."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from maint.deployment.document import JsonWriter, encoded, spell_key, spell_plain, spell_text
from maint.deployment.reader import CONTAINERS, DEEPEST, Reader, too_deep
from maint.deployment.secrets import SECRET_FIELDS, SecretIndex, readable, sensitive

# Fields by which things are found: kept as they are, because a document without them could not be read or compared.
IDENTITY = frozenset(
    {
        "name",
        "type",
        "roleType",
        "hostId",
        "hostname",
        "clusterName",
        "serviceName",
        "roleConfigGroupName",
        "peerName",
        "timestamp",
    }
)
_REMEMBERED = 8192  # texts; a document repeats few of them very often


class RedactedCopy:
    """Gives out the redacted copy of a document; `secrets`, from a first pass, are replaced in free text too."""

    def __init__(self, blocks: Iterator[bytes], secrets: SecretIndex, fingerprint: Callable[[str], str]) -> None:
        self._blocks = blocks
        self._out = bytearray()
        self._redactor = _Redactor(secrets, fingerprint)
        self._reader = Reader(self._redactor)
        self._ended = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, b'' at the end; raises `WorkFailed` where the document is not whole JSON."""
        while len(self._out) < size and not self._ended:
            block = next(self._blocks, b"")
            if block:
                self._reader.feed(block)
            else:
                self._reader.close()
                self._ended = True
            self._out += encoded(self._redactor.taken())
        piece = bytes(self._out[:size])
        del self._out[:size]
        return piece


class _Frame:
    # An object that is being written; its scalars wait until it is known what they are.

    __slots__ = ("flag", "name", "pending")

    def __init__(self) -> None:
        self.pending: list[tuple[str, object]] = []
        self.name: object = None
        self.flag: object = None


class _Redactor:
    def __init__(self, secrets: SecretIndex, fingerprint: Callable[[str], str]) -> None:
        self._fingerprint = fingerprint
        self._pieces: list[str] = []
        self._writer = JsonWriter(self._pieces.append)
        self._frames: list[_Frame | None] = [None]  # None for a list, and for what is around the document
        self._inside = 0  # how many objects and lists are open in a secret's place; one fingerprint stands for them
        self._content = sha256()
        self._slot = ""  # the key of these, spelled
        self._spelled_key = lru_cache(maxsize=_REMEMBERED)(spell_key)
        self._identity = lru_cache(maxsize=_REMEMBERED)(spell_text)
        self._free = lru_cache(maxsize=_REMEMBERED)(lambda text: spell_text(secrets.masked(text, fingerprint)))

    def taken(self) -> str:
        """Return what was written since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def begin(self, key: str, bracket: str) -> None:
        spelled = self._key(key)
        if self._inside or self._hides(key):
            self._begin_inside(spelled, f"{spell_key(key)}{bracket}")
            return
        self._frames.append(_Frame() if bracket == "{" else None)
        self._writer.begin(bracket, spelled)

    def _hides(self, key: str) -> bool:
        frame = self._frames[-1]
        if frame is None or self._inside:
            return bool(self._inside)
        return key in SECRET_FIELDS or (key == "value" and self._secret(frame.name, frame.flag, whole=False))

    def _begin_inside(self, spelled: str, text: str) -> None:
        if not self._inside:
            self._content, self._slot = sha256(), spelled
        self._inside += 1
        if len(self._frames) + self._inside > DEEPEST:
            raise too_deep()
        self._content.update(encoded(text))

    def _key(self, key: str) -> str:
        frame = self._frames[-1]
        if frame is None or self._inside:
            return ""
        self._flush(frame, whole=False)
        return self._spelled_key(key)

    def end(self) -> None:
        if self._inside:
            self._inside -= 1
            self._content.update(b"]")
            if not self._inside:
                self._writer.members([self._slot + spell_text(self._fingerprint(self._content.hexdigest()))])
            return
        frame = self._frames.pop()
        if frame is not None:
            self._flush(frame, whole=True)
        self._writer.end()

    def value(self, key: str, value: object) -> None:
        frame = self._frames[-1]
        if value.__class__ in CONTAINERS:
            self._container(key, value)
        elif self._inside:
            text = spell_text(value) if isinstance(value, str) else spell_plain(value)
            self._content.update(encoded(f"{spell_key(key)}{text},"))
        elif frame is not None:
            frame.pending.append((key, value))
        else:
            self._writer.members([self._spell(value)])

    def _container(self, key: str, value: Any) -> None:  # Any: the pairs of an object, or a list
        if value.__class__ is list:
            self.begin(key, "[")
            for inner in value:
                self.value("", inner)
            self.end()
        elif not self._hides(key) and CONTAINERS.isdisjoint([inner.__class__ for _, inner in value]):
            key, fields = self._key(key), dict(value)
            self._writer.flat(self._texts(value, fields.get("name"), fields.get("sensitive"), whole=True), key)
        else:
            self.begin(key, "{")
            for name, inner in value:
                self.value(name, inner)
            self.end()

    def _flush(self, frame: _Frame, *, whole: bool) -> None:
        for key, value in frame.pending:
            if key == "name":
                frame.name = value
            elif key == "sensitive":
                frame.flag = value
        self._writer.members(self._texts(frame.pending, frame.name, frame.flag, whole=whole))
        frame.pending.clear()

    def _texts(self, pairs: Iterable[tuple[str, object]], name: object, flag: object, *, whole: bool) -> list[str]:
        # While an object is not `whole`, its flag may still come, so values are secret.
        texts = []
        for key, value in pairs:
            if key in SECRET_FIELDS or (key == "value" and self._secret(name, flag, whole=whole)):
                shown = spell_text(self._fingerprint(str(value))) if readable(value) else self._spell(value)
            elif value.__class__ is str:
                shown = self._identity(value) if key in IDENTITY else self._free(value)
            else:
                shown = spell_plain(value)
            texts.append(self._spelled_key(key) + shown)
        return texts

    @staticmethod
    def _secret(name: object, flag: object, *, whole: bool) -> bool:
        return sensitive(name, flag) or not (whole or isinstance(flag, bool))

    def _spell(self, value: object) -> str:
        return self._free(value) if isinstance(value, str) else spell_plain(value)
