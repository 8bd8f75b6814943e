"""Write the copy for reading, sharing and comparing: the same document, every secret replaced by its fingerprint."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from maint.deployment.document import JsonWriter, encoded, spell_key, spell_plain, spell_text
from maint.deployment.reader import CONTAINERS, DEEPEST, Pairs, Reader, too_deep
from maint.deployment.secrets import SECRET_FIELDS, SecretIndex, readable, sensitive
from maint.deployment.secrets_in_text import veiled

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
    # An object that is taken member by member; its scalars wait until it is known what they are.

    __slots__ = ("flag", "name", "pending")

    def __init__(self) -> None:
        self.pending: list[tuple[str, object]] = []
        self.name: object = None
        self.flag: object = None


class _Hidden:
    # An object or list in a secret's place; one fingerprint stands for all of it.

    def __init__(self, depth: int) -> None:
        self._content = sha256()
        self._depth = self._outside = depth  # objects and lists that are open

    def begin(self, key: str, bracket: str) -> None:
        if self._depth >= DEEPEST:
            raise too_deep()
        self._depth += 1
        self._content.update(encoded(f"{spell_key(key)}{bracket}"))

    def end(self) -> bool:
        """Return whether that was all of it."""
        self._depth -= 1
        self._content.update(b"]")
        return self._depth == self._outside

    def value(self, key: str, value: Any) -> None:  # Any: a scalar, a list, or the pairs of an object
        if value.__class__ in CONTAINERS:
            is_list = value.__class__ is list
            self.begin(key, "[" if is_list else "{")
            for name, inner in [("", one) for one in value] if is_list else value:
                self.value(name, inner)
            self.end()
        else:
            text = spell_text(value) if isinstance(value, str) else spell_plain(value)
            self._content.update(encoded(f"{spell_key(key)}{text},"))

    def digest(self) -> str:
        return self._content.hexdigest()


class _Redactor:
    def __init__(self, secrets: SecretIndex, fingerprint: Callable[[str], str]) -> None:
        self._fingerprint = fingerprint
        self._pieces: list[str] = []
        self._writer = JsonWriter(self._pieces.append)
        self._frames: list[_Frame | None] = []  # None for a list
        self._hidden: _Hidden | None = None
        self._slot = ""  # the key of what is hidden, spelled
        self._spelled_key = lru_cache(maxsize=_REMEMBERED)(spell_key)
        self._identity = lru_cache(maxsize=_REMEMBERED)(spell_text)
        self._free = lru_cache(maxsize=_REMEMBERED)(
            lambda text: spell_text(secrets.masked(veiled(text, fingerprint), fingerprint))
        )

    def taken(self) -> str:
        """Return what was written since the last call."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def begin(self, key: str, bracket: str) -> None:
        if self._hidden:
            self._hidden.begin(key, bracket)
            return
        spelled = self._key(key)
        if self._hides(key):
            self._hidden, self._slot = _Hidden(len(self._frames)), spelled
            self._hidden.begin(key, bracket)
        else:
            self._frames.append(_Frame() if bracket == "{" else None)
            self._writer.begin(bracket, spelled)

    def end(self) -> None:
        if self._hidden:
            if self._hidden.end():
                self._writer.members([self._slot + spell_text(self._fingerprint(self._hidden.digest()))])
                self._hidden = None
            return
        frame = self._frames.pop()
        if frame:
            self._flush(frame, whole=True)
        self._writer.end()

    def value(self, key: str, value: object) -> None:
        frame = self._frame
        if self._hidden:
            self._hidden.value(key, value)
        elif frame and value.__class__ not in CONTAINERS:
            frame.pending.append((key, value))
        else:
            spelled, depth = self._key(key), len(self._frames)
            hides = self._hides(key)
            text = self._secret(key, value, depth) if hides else self._text(value, self._writer.indent, depth)
            self._writer.members([spelled + text])

    @property
    def _frame(self) -> _Frame | None:
        return self._frames[-1] if self._frames else None

    def _key(self, key: str) -> str:
        frame = self._frame
        if frame is None:
            return ""
        self._flush(frame, whole=False)
        return self._spelled_key(key)

    def _hides(self, key: str) -> bool:
        frame = self._frame
        return frame is not None and (key in SECRET_FIELDS or (key == "value" and frame.flag is not False))

    def _flush(self, frame: _Frame, *, whole: bool) -> None:
        for key, value in frame.pending:
            if key == "name":
                frame.name = value
            elif key == "sensitive":
                frame.flag = value
        # While an object is not whole, its flag may still come.
        secret = sensitive(frame.name, frame.flag) if whole else frame.flag is not False
        self._writer.members(self._texts(frame.pending, secret, "", 0))
        frame.pending.clear()

    def _text(self, value: Any, indent: str, depth: int) -> str:  # Any: a scalar, a list, or the pairs of an object
        # `depth`: the objects and lists around it.
        if value.__class__ not in CONTAINERS:
            return self._free(value) if isinstance(value, str) else spell_plain(value)
        if depth >= DEEPEST:
            raise too_deep()
        if value.__class__ is list:
            members = ", ".join([self._text(inner, indent, depth + 1) for inner in value])
            return f"[ {members} ]" if value else "[ ]"
        inside = f"{indent}  "
        members = f",{inside}".join(self._texts(value, _holds_secret(value), inside, depth + 1))
        return f"{{{inside}{members}{indent}}}" if value else "{ }"

    def _texts(self, pairs: Iterable[tuple[str, Any]], secret: bool, indent: str, depth: int) -> list[str]:
        # Runs for every member of a document, so kept flat for speed.
        texts = []
        for key, value in pairs:
            if key in SECRET_FIELDS or (secret and key == "value"):
                text = self._secret(key, value, depth)
            elif value.__class__ is str:
                text = self._identity(value) if key in IDENTITY else self._free(value)
            elif value.__class__ in CONTAINERS:
                text = self._text(value, indent, depth)
            else:
                text = spell_plain(value)
            texts.append(self._spelled_key(key) + text)
        return texts

    def _secret(self, key: str, value: object, depth: int) -> str:
        if value.__class__ in CONTAINERS:
            hidden = _Hidden(depth)
            hidden.value(key, value)
            value = hidden.digest()
        return spell_text(self._fingerprint(str(value))) if readable(value) else self._text(value, "", depth)


def _holds_secret(pairs: Pairs) -> bool:
    """Return whether the `value` of an object is secret; a flag behind a list or an object comes too late to clear it.

    So it does in an object that is too long to be taken whole.
    """
    fields = dict(pairs)
    if "value" not in fields:
        return False
    if len(fields) < len(pairs):  # a key stands twice, and readers differ in which value they take
        return True
    if not CONTAINERS.isdisjoint(map(type, fields.values())):
        at = list(fields).index("value")
        end = next((place for place in range(at, len(pairs)) if type(pairs[place][1]) in CONTAINERS), None)
        if end is not None:
            return dict(pairs[:end]).get("sensitive") is not False
        fields = {key: value for key, value in pairs if type(value) not in CONTAINERS}
    return sensitive(fields.get("name"), fields.get("sensitive"))
