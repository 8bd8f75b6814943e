"""Say near which byte of a piece of JSON a parser stumbled, and nothing of what stands there."""

from ast import literal_eval

_ARROW = 40  # columns before the character at which the C parser points
_MARGIN = 10  # columns that it always leaves blank
_BEFORE = _ARROW - _MARGIN  # bytes of the document that it shows before that character


def offset_in(piece: bytes, problem: Exception) -> int | None:
    """Return how much of `piece` a parser had taken when it complained; None where its words do not tell for certain.

    The C parser tells no number, but shows the bytes around the place and points at one of them.

    Args:
        piece: the bytes that it was given last.
        problem: what it raised.
    """
    words = str(problem)
    shown = literal_eval(words) if words.startswith(("b'", 'b"')) else words.encode()  # bytes that were no UTF-8
    lines = shown.split(b"\n")
    if len(lines) < 3 or lines[2].rfind(b"^") != _ARROW:
        return None
    padded = b" " * _BEFORE + piece.replace(b"\r", b" ").replace(b"\n", b" ")
    excerpt = lines[1][_MARGIN:]
    found = padded.find(excerpt)
    return found if found >= 0 and padded.find(excerpt, found + 1) < 0 else None
