"""Write the copy for reading, sharing and comparing: the same document, every secret replaced by its fingerprint.

Printed in the manager's own style (contract section 2.3), as a stream: what is held is one config item at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from maint.deployment.fast_lists import Condenser
from maint.deployment.json_events import Event, Events, Scalar
from maint.deployment.json_writer import ElementSpeller, Speller
from maint.deployment.secret_index import Known
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
_REMEMBERED = 8192  # keys; a document repeats few of them very often


class RedactedCopy:
    """Reads a document from blocks and gives out its redacted copy.

    Args:
        blocks: the document.
        known: its secrets, from a first pass: they are replaced in free text too.
        fingerprint: what to write in place of a secret.
    """

    def __init__(self, blocks: Iterator[bytes], known: Known, fingerprint: Callable[[str], str]) -> None:
        self._blocks = blocks
        condenser = Condenser()
        writer = _Writer(Speller(known, fingerprint), self._ready, condenser)
        self._events = Events(writer, condenser=condenser)
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

    __slots__ = ("flag", "is_map", "name", "pending", "started")

    def __init__(self, is_map: bool) -> None:
        self.is_map = is_map
        self.started = False
        self.pending: list[tuple[str, Scalar]] = []
        self.name: Scalar = None
        self.flag: Scalar = None


class _Writer:
    def __init__(self, speller: Speller, write: Callable[[str], None], condenser: Condenser) -> None:
        self._speller, self._write, self._condenser = speller, write, condenser
        self._elements = ElementSpeller(speller)
        self._frames: list[_Frame] = []
        self._key = ""
        self._indent = ""  # a line break and the blanks before a field of the innermost object
        self._out: list[str] = []
        self._field = lru_cache(maxsize=_REMEMBERED)(self._spelled_key)

    def __call__(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        key = self._key
        frame = self._frames[-1] if self._frames else _Frame(is_map=False)
        for event, value in events:
            if event == "map_key":
                key = value  # type: ignore[assignment]  # a key is text
            elif event == "start_map" or event == "start_array":
                frame = self._open(frame, key, event == "start_map")
            elif event == "end_map" or event == "end_array":
                frame = self._close(frame)
            elif frame.is_map:
                frame.pending.append((key, value))
            else:
                shown = self._taken() if value == self._condenser.stand_in else self._spell(value)
                self._out.append(f"{', ' if frame.started else ' '}{shown}")
                frame.started = True
        self._key = key
        self._write("".join(self._out))
        self._out.clear()

    def _taken(self) -> str:
        """Spell the elements that were taken out of the list that is being written."""
        return self._elements.spell(self._condenser.taken.popleft(), (self._indent or "\n") + "  ")

    def _open(self, frame: _Frame, key: str, is_map: bool) -> _Frame:
        """Begin an object or list inside another; `frame` is a stand-in where there is no other."""
        if self._frames:
            if frame.pending:
                self._flush(frame, whole=False)
            comma = "," if frame.started else ""
            self._out.append(f"{comma}{self._indent}{self._field(key)}" if frame.is_map else f"{comma} ")
            frame.started = True
        self._out.append("{" if is_map else "[")
        if is_map:
            self._indent = f"{self._indent}  " if self._indent else "\n  "
        self._frames.append(_Frame(is_map))
        return self._frames[-1]

    def _close(self, frame: _Frame) -> _Frame:
        if frame.pending:
            self._flush(frame, whole=True)
        self._frames.pop()
        if frame.is_map:
            self._indent = self._indent[:-2]
            self._out.append(f"{self._indent}}}" if frame.started else " }")
        else:
            self._out.append(" ]")
        return self._frames[-1] if self._frames else frame

    def _flush(self, frame: _Frame, *, whole: bool) -> None:
        """Write the waiting scalars; while an object is not `whole`, its flag may still come, so values are secret."""
        for key, value in frame.pending:
            if key == "name":
                frame.name = value
            elif key == "sensitive":
                frame.flag = value
        for key, value in frame.pending:
            comma = "," if frame.started else ""
            frame.started = True
            self._out.append(f"{comma}{self._indent}{self._field(key)}{self._shown(frame, key, value, whole)}")
        frame.pending.clear()

    def _shown(self, frame: _Frame, key: str, value: Scalar, whole: bool) -> str:
        if key in SECRET_FIELDS or (key == "value" and self._secret(frame, whole)):
            return self._speller.secret(str(value)) if readable(value) else self._spell(value)
        if key in IDENTITY and isinstance(value, str):
            return self._speller.name(value)
        return self._spell(value)

    @staticmethod
    def _secret(frame: _Frame, whole: bool) -> bool:
        return sensitive(frame.name, frame.flag) or not (whole or isinstance(frame.flag, bool))

    def _spell(self, value: Scalar) -> str:
        """Spell a value as JSON, known secrets inside a text replaced."""
        if isinstance(value, str):
            return self._speller.free(value)
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def _spelled_key(self, key: str) -> str:
        return f"{self._speller.name(key)} : "
