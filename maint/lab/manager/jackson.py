"""Print JSON the way the server's library does, byte for byte (contract section 2.3)."""

import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from maint.lab.manager.document import ExactFloat

_LOWER_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-f]{4})")


def quote(text: str) -> str:
    """Return a string in quotes; control characters get upper-case hex digits."""
    quoted = encode_basestring(text)
    if "\\u" in quoted:
        return _LOWER_ESCAPE.sub(lambda found: f"{found[1]}\\u{found[2].upper()}", quoted)
    return quoted


_name = lru_cache(maxsize=1024)(quote)  # a document repeats few of them very often


def dumps(value: Any) -> str:  # Any: whatever JSON can spell
    """Return the text: two blanks a level, blanks on both sides of the colon, no line feed at the end."""
    parts: list[str] = []
    _write(value, "", parts.append)
    return "".join(parts)


def without_nulls(value: Any) -> Any:  # Any: whatever JSON can spell, and the same back
    """Return a value without the members that are null: absent = null."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list | tuple) else value


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
        if type(member) is str:  # which most are
            out(f"{lead}{inner}{_name(name)} : {quote(member)}")
        else:
            out(f"{lead}{inner}{_name(name)} : ")
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
