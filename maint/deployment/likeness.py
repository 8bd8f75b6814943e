"""Prove in one pass that a redacted copy is its document but for fingerprints, without taking the copy apart.

What is equal is compared as bytes; where the copy has a fingerprint, both must hold one scalar of the same key. A line
begins outside of any text, since no text of JSON holds a line feed: so what stands at its begin is a key.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from maint.deployment.reader import BLOCK
from maint.deployment.redacted_copy import IDENTITY
from maint.deployment.sensitive import SECRET_FIELDS
from maint.errors import WorkFailed

_MARK = b"fp:"
_WHOLE = rb'"fp:[0-9a-f]{16}"'
_TEXT = rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_MEMBER = re.compile(rb' *"([^"\\\x00-\x1f]*)" : ((%b)|%b)' % (_WHOLE, _TEXT))
_SCALAR = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[-+.0-9eE]+|true|false')  # of a document that is judged beside
_FIXED = frozenset(key.encode() for key in (*IDENTITY, "sensitive"))
_SECRETS = frozenset(key.encode() for key in (*SECRET_FIELDS, "value"))


class Likeness:
    """Passes the blocks of a document on, and holds its copy against them; both in the style of `JsonWriter`.

    Attributes:
        holds: whether nothing was found that differs; False says only that it cannot be told in this way.
        hidden: how many secrets' whole values are fingerprints in the copy alone.
    """

    def __init__(self, document: Iterator[bytes], copy: Iterable[bytes]) -> None:
        self._document, self._copy = document, copy
        self._held, self._at = b"", 0  # of the document: what is not compared yet, and from where on
        self.holds = True
        self.hidden = 0

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the document's blocks to the one who judges it; only when they have ended, the answer stands."""
        with closing(self._lines()) as copy:
            for lines in copy:
                at = 0
                while self.holds and at < len(lines):
                    if block := next(self._document, b""):
                        self._held, self._at = self._held[self._at :] + block, 0
                        yield block
                    at = self._compared(lines, at, ended=not block)
                if not self.holds:
                    break
        self.holds = self.holds and not self._held[self._at :].strip()
        for block in self._document:
            self.holds = self.holds and not block.strip()
            yield block

    def _lines(self) -> Generator[bytes, None, None]:
        """Yield the copy in whole lines; one that cannot be read is not told here."""
        rest = b""
        try:
            for block in self._copy:
                end = block.rfind(b"\n") + 1
                if end:
                    yield rest + block[:end]
                    rest = b""
                rest += block[end:]
        except (OSError, WorkFailed):
            self.holds = False
        yield rest

    def _compared(self, lines: bytes, begin: int, *, ended: bool) -> int:
        """Compare whole lines of the copy from a place on; return up to where the document at hand allowed it."""
        held, at = self._held, self._at
        while self.holds and begin < len(lines) and (ended or len(held) - at > len(lines) - begin + BLOCK):
            mark = lines.find(_MARK, begin)
            line = len(lines) if mark < 0 else lines.rfind(b"\n", begin, mark) + 1 or begin
            ours = _MEMBER.match(lines, line)
            start, end = ours.span(2) if ours else (line, line)
            self.holds = held.startswith(lines[begin:start], at)
            at += start - begin
            begin = end
            if mark < 0:
                continue
            theirs = _SCALAR.match(held, at)
            if not (self.holds and ours and theirs and end > mark):
                self.holds = False
                break
            at = theirs.end()
            key, shown, whole = ours.groups()
            if key in _FIXED:
                self.holds = False
            elif shown == theirs[0]:
                continue
            elif whole:
                self.hidden += key in _SECRETS
            else:  # a part of it is secret
                self.holds = theirs[0].startswith(b'"') and _is_text(shown)
        self._at = at
        return begin


def _is_text(quoted: bytes) -> bool:
    try:
        quoted.decode()
    except UnicodeDecodeError:
        return False
    return True
