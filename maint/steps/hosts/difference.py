"""What a file on a host would become, line by line; values that may be secret are never shown."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from maint.model.formatting import show_count
from maint.model.secret import scrub

COMPARED = 128 * 1024  # bytes of a file that is compared line by line
_LINES = 2000
_SHOWN = 40  # lines of one difference
_CONTEXT = 1
_SECRET = r"(?i)pass(word|wd|phrase|code)?|secret|token|credential|_pw\b|(private|api|access|secret).?key"
_IN_URL = r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
_VALUE = r"(?i)\s*<value>"
_HIDDEN = "(hidden)"


def difference(old: bytes | None, new: bytes) -> Sequence[str]:
    """Return the lines that a file loses (`-`) and gets (`+`), or a word about why they are not shown.

    Args:
        old: what is there, None where nothing is.
    """
    if old is None:
        return [f"a new file of {show_count(len(new.splitlines()), 'line')}"]
    texts = [_text(content) for content in (old, new)]
    if any(text is None for text in texts):
        return ["not shown: too large, not text, or a private key"]
    before, after = ([] if text is None else text.splitlines() for text in texts)
    lines = list(_lines(before, after))
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"… and {show_count(more, 'more line')}"] if more > 0 else [])] or [
        "only the end of its last line"
    ]


def _text(content: bytes) -> str | None:
    if len(content) > COMPARED or content.count(b"\n") > _LINES or b"PRIVATE KEY" in content or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    shown = [list(masked(before)), list(masked(after))]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield f"@@ line {group[0][1] + 1} @@"
        for tag, old_first, old_end, new_first, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in shown[0][old_first:old_end])
                continue
            yield from (f"-{line}" for line in shown[0][old_first:old_end])
            yield from (f"+{line}" for line in shown[1][new_first:new_end])


def masked(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines without what may be secret: all that follows a name such as `password`, the value below it too."""
    named = False
    for line in lines:
        found = re.search(_SECRET, line)
        if named and (re.match(_VALUE, line) or not line.strip()):
            yield line[: len(line) - len(line.lstrip())] + _HIDDEN if line.strip() else line
            named = named and not line.strip()
            continue
        named = found is not None
        shown = line if found is None else f"{line[: found.end()]} {_HIDDEN}"
        yield scrub(re.sub(_IN_URL, _HIDDEN, shown))
