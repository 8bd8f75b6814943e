"""Write the copy for reading, sharing and comparing: the same document, every secret replaced by its fingerprint."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from maint.deployment.document import JsonWriter, encoded, spell_key, spell_plain, spell_text
from maint.deployment.json_events import Event, EventParser, Scalar
from maint.deployment.secret_index import SecretIndex
from maint.deployment.sensitive import SECRET_FIELDS, readable, sensitive

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
        self._parser = EventParser(_Redactor(secrets, fingerprint, self._ready))
        self._ended = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, b'' at the end; raises `WorkFailed` where the document is not whole JSON."""
        while len(self._out) < size and not self._ended:
            block = next(self._blocks, b"")
            if block:
                self._parser.feed(block)
            else:
                self._parser.close()
                self._ended = True
        piece = bytes(self._out[:size])
        del self._out[:size]
        return piece

    def _ready(self, text: str) -> None:
        self._out += encoded(text)


class _Frame:
    # An object that is being written; its scalars wait until it is known what they are.

    __slots__ = ("flag", "name", "pending")

    def __init__(self) -> None:
        self.pending: list[tuple[str, Scalar]] = []
        self.name: Scalar = None
        self.flag: Scalar = None


class _Redactor:
    def __init__(self, secrets: SecretIndex, fingerprint: Callable[[str], str], write: Callable[[str], None]) -> None:
        self._fingerprint, self._write = fingerprint, write
        self._pieces: list[str] = []
        self._writer = JsonWriter(self._pieces.append)
        self._frames: list[_Frame | None] = []  # None for a list
        self._key = ""
        self._spelled_key = lru_cache(maxsize=_REMEMBERED)(spell_key)
        self._identity = lru_cache(maxsize=_REMEMBERED)(spell_text)
        self._free = lru_cache(maxsize=_REMEMBERED)(lambda text: spell_text(secrets.masked(text, fingerprint)))

    def __call__(self, events: Sequence[Event]) -> None:
        frame = self._frames[-1] if self._frames else None
        for event, value in events:
            if event == "map_key":
                self._key = value  # type: ignore[assignment]  # a key is text
            elif event == "start_map" or event == "start_array":
                key = ""
                if frame is not None:
                    self._flush(frame, whole=False)
                    key = self._spelled_key(self._key)
                frame = _Frame() if event == "start_map" else None
                self._frames.append(frame)
                self._writer.begin("{" if frame else "[", key)
            elif event == "end_map" or event == "end_array":
                if frame is not None:
                    self._flush(frame, whole=True)
                self._writer.end()
                self._frames.pop()
                frame = self._frames[-1] if self._frames else None
            elif frame is not None:
                frame.pending.append((self._key, value))
            else:
                self._writer.member(self._spell(value))
        self._write("".join(self._pieces))
        self._pieces.clear()

    def _flush(self, frame: _Frame, *, whole: bool) -> None:
        # While an object is not `whole`, its flag may still come, so values are secret.
        for key, value in frame.pending:
            if key == "name":
                frame.name = value
            elif key == "sensitive":
                frame.flag = value
        for key, value in frame.pending:
            self._writer.member(self._spelled_key(key) + self._shown(frame, key, value, whole))
        frame.pending.clear()

    def _shown(self, frame: _Frame, key: str, value: Scalar, whole: bool) -> str:
        if key in SECRET_FIELDS or (key == "value" and self._secret(frame, whole)):
            return spell_text(self._fingerprint(str(value))) if readable(value) else self._spell(value)
        if key in IDENTITY and isinstance(value, str):
            return self._identity(value)
        return self._spell(value)

    @staticmethod
    def _secret(frame: _Frame, whole: bool) -> bool:
        return sensitive(frame.name, frame.flag) or not (whole or isinstance(frame.flag, bool))

    def _spell(self, value: Scalar) -> str:
        return self._free(value) if isinstance(value, str) else spell_plain(value)
