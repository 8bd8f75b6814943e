"""A deployment as plain data, for a restore that has to edit it: read exactly, spelled as the server spells it.

Numbers keep their digits (`pwSalt` does not fit a double, contract section 7.3), keys their order, and what is not
edited comes out byte for byte as it went in. It is held in memory only, and whole.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from maint.errors import WorkFailed
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots.parts import DEPLOYMENT, open_part

Doc: TypeAlias = dict[str, Any]  # a JSON object of which only parts are known (contract section 7.2)


class _Exact(float):
    """A number with a fraction or an exponent, and its digits as they stood in the document."""

    text: str

    def __new__(cls, text: str) -> "_Exact":
        number = super().__new__(cls, text)
        number.text = text
        return number


def document_of(sight: Sight, snapshot: Snapshot) -> Doc:
    """Return a snapshot's deployment as plain data.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: the part is damaged, or no deployment.
    """
    with open_part(sight, snapshot, DEPLOYMENT) as stream:
        return parse(stream.read())


def parse(content: bytes) -> Doc:
    """Read a document; raises `WorkFailed` where it is none, without its words."""
    try:
        value = json.loads(content, parse_float=_Exact)
    except ValueError as problem:
        raise WorkFailed(f"the deployment document is not JSON{_place(problem)}") from None
    if not isinstance(value, dict):
        raise WorkFailed("the document is JSON, but no deployment: its outermost value is no object")
    return value


def _place(problem: ValueError) -> str:
    if isinstance(problem, UnicodeDecodeError):
        return f" at byte {problem.start}"
    if isinstance(problem, json.JSONDecodeError):
        return f" at byte {len(problem.doc[: problem.pos].encode(errors='surrogatepass'))}"
    return ""


def spell(document: Doc) -> bytes:
    """Return the document in the server's style: two blanks a level, a blank on both sides of the colon."""
    pieces: list[str] = []
    _spell(document, "", pieces.append)
    return "".join(pieces).encode(errors="backslashreplace")  # a lone surrogate is an escape again


def items_of(holder: object) -> list[Doc]:
    """Return the objects of a list, or of an object with `items`; empty where there is none."""
    if isinstance(holder, dict):
        holder = holder.get("items")
    return [one for one in holder if isinstance(one, dict)] if isinstance(holder, list) else []


def services_of(document: Doc) -> Iterator[Doc]:
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


def _spell(value: object, indent: str, write: Callable[[str], None]) -> None:
    if isinstance(value, str):
        write(_quoted(value))
    elif isinstance(value, dict):
        lead = "{"
        for key, member in value.items():
            write(f"{lead}\n{indent}  {_quoted(key)} : ")
            _spell(member, f"{indent}  ", write)
            lead = ","
        write(f"\n{indent}}}" if value else "{ }")
    elif isinstance(value, list):
        lead = "["
        for member in value:
            write(f"{lead} ")
            _spell(member, indent, write)
            lead = ","
        write(" ]" if value else "[ ]")
    else:
        write(_plain(value))


def _plain(value: object) -> str:
    """Spell what is neither text nor holds anything."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _Exact):
        return value.text
    return "null" if value is None else str(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
)
