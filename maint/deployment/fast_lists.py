"""Take the long lists of elements out of a document's bytes, so that a parser sees a short document instead.

Works on the server's own style (contract section 2.3), where an element of a list ends on a line of its own, as far
indented as the line on which the list began. A document in another style passes through unchanged.

Why the short document is JSON exactly when the long one is: what is taken out has been decoded, so it is a run of
whole elements; and what stands in for it is a text of one word. Where a list goes on, that is an element. Inside a
text, its first quote would end that text, and the letters after it would be an error.
"""

import re
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from maint.deployment.records import KINDS, Decoded, Unsplit, decode

Take: TypeAlias = Callable[[bytes, bytes], Decoded | Sequence[Unsplit] | None]
LONGEST = 1 << 20  # bytes of a list that are waited for; a longer one is taken in parts, or left to the parser
_LINE = 160  # bytes; longer than the line on which a list begins


@cache
def _begin(kinds: Sequence[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb'\n( *)"(%s)" : \[ \{\n' % b"|".join(kinds))


@dataclass(frozen=True, slots=True)
class Run:
    """Elements that follow each other in a list, and the bytes that they were."""

    elements: Decoded | Sequence[Unsplit]
    content: bytes


class Condenser:
    """Takes blocks of a document and gives out blocks of a shorter one.

    Attributes:
        stand_in: the text that stands in the short document where elements were; nobody can guess it.
        taken: these runs of elements, in order; whoever meets the stand-in takes them from the left.

    Args:
        take: what makes elements of a list, None where it cannot (see `elements.py`).
        kinds: the names of the lists that are taken.
    """

    def __init__(self, take: Take | None = None, kinds: tuple[bytes, ...] = KINDS) -> None:
        self._decode = take or decode
        self._begin = _begin(kinds)
        self.stand_in = f"maint{secrets.token_hex(16)}"
        self.taken: deque[Run] = deque()
        self._mark = b'"%s"' % self.stand_in.encode()
        self._rest = b""
        self._passed = 0  # bytes of the document before what is held back
        self._out: list[bytes] = []  # what was given out last, and
        self._meet = [(0, 0)]  # how many pieces of it stood before which byte of the document
        self._kind = b""
        self._close: bytes | None = None  # the end of an element's last line, inside a list
        self._at = 0

    @property
    def waiting(self) -> int:
        """How many bytes are held back until more is known."""
        return len(self._rest)

    def feed(self, block: bytes) -> bytes:
        """Take a block; return what of the short document is certain by now."""
        content = self._rest + block if self._rest else block
        out: list[bytes] = []
        self._at = 0
        self._out, self._meet = out, [(0, self._passed)]
        while self._inside(content, out) if self._close else self._outside(content, out):
            pass
        self._rest = content[self._at :]
        self._passed += self._at
        return b"".join(out)

    def end(self) -> bytes:
        """Say that the document has ended; return the rest of the short one."""
        rest, self._rest, self._close = self._rest, b"", None
        self._out, self._meet = [rest], [(0, self._passed)]
        return rest

    def origin(self, at: int) -> int:
        """Return which byte of the document stands, or would, at a place in what was given out last.

        Args:
            at: how many bytes of that are before it.
        """
        origin = at
        for before, long in self._meet:
            short = sum(map(len, self._out[:before]))
            if short > at:
                break
            origin = long + at - short
        return origin

    def _outside(self, content: bytes, out: list[bytes]) -> bool:
        """Look for the beginning of a list; False where there is none in sight."""
        found = self._begin.search(content, self._at)
        if found is None:
            keep = content.rfind(b"\n", max(self._at, len(content) - _LINE))
            stop = len(content) if keep < 0 else keep
            out.append(content[self._at : stop])
            self._at = stop
            return False
        begin = found.end() - 2
        out.append(content[self._at : begin])
        self._at, self._kind, self._close = begin, found[2], b"\n" + found[1] + b"}"
        return True

    def _inside(self, content: bytes, out: list[bytes]) -> bool:
        """Take what is whole of a list; False where more must be seen first."""
        assert self._close
        end = self._list_end(content)
        last = end >= 0
        if not last:
            if len(content) - self._at <= LONGEST:
                return False
            end = content.rfind(self._close + b", {\n", self._at)
            if end < 0:
                self._leave(content, out)
                return True
        end += len(self._close)
        run = content[self._at : end]
        elements = self._decode(self._kind, b"[%b]" % run)
        if elements is None:
            self._leave(content, out)
            return True
        self.taken.append(Run(elements, run))
        out.append(self._mark)
        self._at = end
        self._meet.append((len(out), self._passed + end))
        if last:
            self._close = None
            return True
        out.append(b", ")
        self._at += 2
        return False

    def _list_end(self, content: bytes) -> int:
        """Return where the last element's last line begins, -1 where it is not in sight.

        Brackets are few, and one byte is looked for several times as fast as many.
        """
        assert self._close
        close, at = self._close + b" ]", self._at
        while (at := content.find(b"]", at) + 1) > 0:
            if content.endswith(close, self._at, at):
                return at - len(close)
        return -1

    def _leave(self, content: bytes, out: list[bytes]) -> None:
        """Leave a list to the parser; lists inside its elements may still be taken."""
        out.append(content[self._at : self._at + 1])
        self._at, self._close = self._at + 1, None
