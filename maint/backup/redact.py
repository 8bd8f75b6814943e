"""Write the copy for reading, sharing and comparing: the same document, every secret replaced by its fingerprint.

Printed in the manager's own style (contract section 2.3), as a stream: what is held is one config item at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from json.encoder import encode_basestring

from maint.backup.known import Known
from maint.backup.marks import SECRET_FIELDS, readable, sensitive
from maint.backup.read import Event, Events, Scalar

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
    """Reads a document from blocks and gives out its redacted copy.

    Args:
        blocks: the document.
        known: its secrets, from a first pass: they are replaced in free text too.
        fingerprint: what to write in place of a secret.
    """

    def __init__(self, blocks: Iterator[bytes], known: Known, fingerprint: Callable[[str], str]) -> None:
        self._blocks = blocks
        self._events = Events(_Writer(known, fingerprint, self._ready))
        self._out = bytearray()
        self._ended = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, b'' at the end.

        Raises:
            WorkFailed: the document is not JSON, or not complete.
        """
        while len(self._out) < size and not self._ended:
            block = next(self._blocks, b"")
            if block:
                self._events.feed(block)
            else:
                self._events.close()
                self._ended = True
        piece = bytes(self._out[:size])
        del self._out[:size]
        return piece

    def _ready(self, text: str) -> None:
        self._out += text.encode(errors="replace")


class _Frame:
    """An object or list that is being written; scalars of an object wait until it is known what they are."""

    __slots__ = ("fields", "is_map", "pending", "started")

    def __init__(self, is_map: bool) -> None:
        self.is_map = is_map
        self.started = False
        self.pending: list[tuple[str, Scalar]] = []
        self.fields: dict[str, Scalar] = {}


class _Writer:
    def __init__(self, known: Known, fingerprint: Callable[[str], str], write: Callable[[str], None]) -> None:
        self._known, self._fingerprint, self._write = known, fingerprint, write
        self._frames: list[_Frame] = []
        self._key = ""
        self._depth = 0
        self._out: list[str] = []
        self._free = lru_cache(maxsize=_REMEMBERED)(self._scrub)

    def __call__(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        for event, value in events:
            if event == "map_key":
                self._key = str(value)
            elif event in ("start_map", "start_array"):
                self._open(event == "start_map")
            elif event in ("end_map", "end_array"):
                self._close()
            else:
                self._scalar(value)
        self._write("".join(self._out))
        self._out.clear()

    def _open(self, is_map: bool) -> None:
        if self._frames:
            frame = self._frames[-1]
            self._flush(frame, whole=False)
            self._separate(frame, self._key)
        self._frames.append(_Frame(is_map))
        self._depth += is_map
        self._out.append("{" if is_map else "[")

    def _close(self) -> None:
        frame = self._frames.pop()
        self._flush(frame, whole=True)
        self._depth -= frame.is_map
        if frame.is_map:
            self._out.append("\n" + "  " * self._depth + "}" if frame.started else " }")
        else:
            self._out.append(" ]")

    def _scalar(self, value: Scalar) -> None:
        frame = self._frames[-1]
        if frame.is_map:
            frame.pending.append((self._key, value))
            if self._key in ("name", "sensitive"):
                frame.fields[self._key] = value
        else:
            self._separate(frame, "")
            self._out.append(self._spell(value if not isinstance(value, str) else self._free(value)))

    def _flush(self, frame: _Frame, *, whole: bool) -> None:
        """Write the waiting scalars; while an object is not `whole`, its flag may still come, so values are secret."""
        for key, value in frame.pending:
            self._separate(frame, key)
            self._out.append(self._spell(self._shown(frame, key, value, whole)))
        frame.pending.clear()

    def _shown(self, frame: _Frame, key: str, value: Scalar, whole: bool) -> Scalar:
        if self._secret(frame, key, whole):
            return self._fingerprint(str(value)) if readable(value) else value
        if isinstance(value, str) and key not in IDENTITY:
            return self._free(value)
        return value

    @staticmethod
    def _secret(frame: _Frame, key: str, whole: bool) -> bool:
        if key in SECRET_FIELDS:
            return True
        if key != "value":
            return False
        flag = frame.fields.get("sensitive")
        return sensitive(frame.fields.get("name"), flag) or not (whole or isinstance(flag, bool))

    def _separate(self, frame: _Frame, key: str) -> None:
        if frame.is_map:
            start = ",\n" if frame.started else "\n"
            self._out.append(f"{start}{'  ' * self._depth}{encode_basestring(key)} : ")
        else:
            self._out.append(", " if frame.started else " ")
        frame.started = True

    def _scrub(self, text: str) -> str:
        """Replace the known secrets inside a text."""
        pieces, at = [], 0
        for start, end in self._known.found(text):
            pieces += [text[at:start], self._fingerprint(text[start:end])]
            at = end
        return "".join(pieces) + text[at:] if pieces else text

    @staticmethod
    def _spell(value: Scalar) -> str:
        if isinstance(value, str):
            return encode_basestring(value)
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)
