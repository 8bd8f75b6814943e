"""Print JSON the way the server's library does, byte for byte (contract section 2.3)."""

import re
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import Any

from maint.lab.document import ExactFloat

_BLOCK = 1 << 16
_LOWER_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-f]{4})")


def quote(text: str) -> str:
    """Return a string in quotes; control characters get upper-case hex digits."""
    quoted = encode_basestring(text)
    if "\\u" in quoted:
        return _LOWER_ESCAPE.sub(lambda found: f"{found[1]}\\u{found[2].upper()}", quoted)
    return quoted


def dumps(value: Any) -> str:  # Any: whatever JSON can spell
    """Return the text: two blanks a level, blanks on both sides of the colon, no line feed at the end."""
    parts: list[str] = []
    _write(value, "", parts.append)
    return "".join(parts)


def blocks(value: Any) -> Iterator[bytes]:  # Any: whatever JSON can spell
    """Yield the text as UTF-8 in blocks of about 64 KB."""
    data = dumps(value).encode()
    for start in range(0, len(data), _BLOCK):
        yield data[start : start + _BLOCK]


def _write(value: Any, indent: str, out: Callable[[str], None]) -> None:  # Any: whatever JSON can spell
    if isinstance(value, str):
        out(quote(value))
    elif isinstance(value, dict):
        _write_object(value, indent, out)
    elif isinstance(value, list | tuple):
        _write_list(value, indent, out)
    elif isinstance(value, bool) or value is None:
        out({True: "true", False: "false", None: "null"}[value])
    else:
        out(value.text if isinstance(value, ExactFloat) else repr(value))


def _write_object(value: dict[str, Any], indent: str, out: Callable[[str], None]) -> None:
    inner, lead = indent + "  ", "{\n"
    for name, member in value.items():
        if member is None:
            continue  # absent = null
        out(f"{lead}{inner}{quote(name)} : ")
        _write(member, inner, out)
        lead = ",\n"
    out("{ }" if lead == "{\n" else f"\n{indent}}}")


def _write_list(value: list[Any] | tuple[Any, ...], indent: str, out: Callable[[str], None]) -> None:
    if not value:
        out("[ ]")
        return
    lead = "[ "
    for member in value:
        out(lead)
        _write(member, indent, out)
        lead = ", "
    out(" ]")
