"""A deployment as plain data, to be compared or edited; and JSON as the manager spells it (M2.3)."""

from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias

from maint.deployment.reader import DEEPEST, Nobody, Number, Object, Reader, too_deep

Document: TypeAlias = Object
_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
)


class JsonWriter:
    """Writes JSON in the manager's style: two blanks a level, a blank on both sides of a colon."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._lead = ""  # what stands before the next member of the innermost object or list
        self._between = ""  # what stands before every further one
        self._end = ""
        self.indent = "\n"  # what begins a line inside the innermost object
        self._outer: list[tuple[str, str, str]] = []

    def begin(self, bracket: str, key: str = "") -> None:
        """Begin an object (`{`) or list (`[`) after its spelled key; `Misshapen` where the nesting is too deep."""
        if len(self._outer) >= DEEPEST:
            raise too_deep()
        self._write(f"{self._lead}{key}{bracket}")
        self._outer.append((self._between, self._end, self.indent))
        if bracket == "{":
            self._end = f"{self.indent}}}"
            self._lead = self.indent = f"{self.indent}  "
            self._between = f",{self.indent}"
        else:
            self._lead, self._between, self._end = " ", ", ", " ]"

    def members(self, texts: Sequence[str]) -> None:
        """Write values that are spelled already; inside an object with their keys before them."""
        if texts:
            self._write(self._lead + self._between.join(texts))
            self._lead = self._between

    def end(self) -> None:
        """End the innermost object or list."""
        empty = self._lead is not self._between
        self._write(f" {self._end[-1]}" if empty else self._end)
        self._between, self._end, self.indent = self._outer.pop()
        self._lead = self._between


def parse(content: bytes) -> Document:
    """Read a document, the last of repeated keys; `WorkFailed` names a byte of what is not one, and no content."""
    whole = _Whole()
    reader = Reader(whole, window=len(content) + 1, pairs=False)
    reader.feed(content)
    reader.close()
    return whole.document


class _Whole(Nobody):
    # A target for which nothing is too long: it is given one value, and that is an object.
    document: Document

    def value(self, _: str, value: Any, /) -> None:
        self.document = value


def spell(document: Document) -> bytes:
    """Return a document in the manager's style."""
    pieces: list[str] = []
    _spell_into(JsonWriter(pieces.append), document, "")
    return encoded("".join(pieces))


def encoded(text: str) -> bytes:
    """Return JSON text as bytes; half a surrogate pair becomes an escape again."""
    return text.encode(errors="backslashreplace")


def spell_text(text: str) -> str:
    """Return a text in quotes."""
    spelled = encode_basestring(text)
    return f'"{text.translate(_ESCAPES)}"' if "\\u00" in spelled else spelled  # control characters, which are few


def spell_key(key: str) -> str:
    """Return a key of an object, with its colon."""
    return f"{spell_text(key)} : "


def spell_plain(value: object) -> str:
    """Return a value that is neither text nor object nor list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return value.text
    return "null" if value is None else str(value)


def items_of(holder: object) -> list[Document]:
    """Return the objects of a list, or of an object with `items`; empty where there is none."""
    if isinstance(holder, dict):
        holder = holder.get("items")
    return [one for one in holder if isinstance(one, dict)] if isinstance(holder, list) else []


def services_of(document: Document) -> Iterator[Document]:
    """Yield every service: of the clusters, and the management service."""
    for cluster in items_of(document.get("clusters")):
        yield from items_of(cluster.get("services"))
    management = document.get("managementService")
    if isinstance(management, dict):
        yield management


def text_of(holder: object, key: str) -> str:
    """Return a text of an object, empty where there is none."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else ""


def _spell_into(writer: JsonWriter, value: object, key: str) -> None:
    if isinstance(value, dict):
        writer.begin("{", key)
        for name, child in value.items():
            _spell_into(writer, child, spell_key(name))
        writer.end()
    elif isinstance(value, list):
        writer.begin("[", key)
        for child in value:
            _spell_into(writer, child, "")
        writer.end()
    else:
        writer.members([f"{key}{spell_text(value) if isinstance(value, str) else spell_plain(value)}"])
