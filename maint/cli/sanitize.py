"""Make text from servers harmless for a terminal: what could move the cursor or hide a line is spelled out.

A name or a message with escape sequences in it could otherwise show another plan than the one that is confirmed.
"""

# Control characters but for tab and line end, what turns the direction of writing, and halves of characters.
_CONTROL = {*range(0x20), *range(0x7F, 0xA0)} - {0x09, 0x0A}
_TURNING = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SPELLED = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROL | _TURNING}
_HALVES = {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_ALL = _SPELLED | _HALVES
_IN_JSON = {code: f"\\u{code:04x}" for code in (_CONTROL | _TURNING) if code >= 0x7F} | _HALVES


def printable(text: str) -> str:
    """Return a text as a terminal may be shown it."""
    return text if text.isascii() and text.isprintable() else text.translate(_ALL)


def printable_json(text: str) -> str:
    """Return JSON whose strings say the same, and which a terminal may be shown."""
    return text if text.isascii() else text.translate(_IN_JSON)
