"""Prove in one pass that a redacted copy is its document but for fingerprints, without taking the copy apart.

What is equal is compared as bytes; where the copy has a fingerprint, both must hold one scalar of the same key. A line
begins outside of any text, since no text of JSON holds a line feed: so what stands at its begin is a key. Whatever the
rules call a secret must be hidden wherever it stands in the copy; what is spelled in another way proves nothing.
"""

import json
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from maint.deployment.judge import Verdict
from maint.deployment.reader import BLOCK
from maint.deployment.redacted_copy import IDENTITY
from maint.deployment.sensitive import SECRET_FIELDS, readable, secret_name
from maint.errors import WorkFailed

_MARK = b"fp:"
_WHOLE = rb'"fp:[0-9a-f]{16}"'
_TEXT = rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_MEMBER = re.compile(rb' *"([^"\\\x00-\x1f]*)" : ((%b)|%b)' % (_WHOLE, _TEXT))
_SCALAR = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[-+.0-9eE]+|true|false')  # of a document that is judged beside
_FIXED = frozenset(key.encode() for key in (*IDENTITY, "sensitive"))
_SECRETS = frozenset(key.encode() for key in (*SECRET_FIELDS, "value"))

_AN_OBJECT = b"{\n"
_HIDDEN = rb'"(?:fp:[0-9a-f]{16}|REDACTED)?"'
_FIELDS = [(b'"%b"' % key, re.compile(rb'"%b" : (?:%b|null)' % (key, _HIDDEN))) for key in _SECRETS - {b"value"}]
_FLAGGED = re.compile(rb'"value" : (?:%b|null),\n *"sensitive" : true\n *\}' % _HIDDEN)
_NAME = re.compile(rb'"name" : "([^"]*)"')
_NAMED = re.compile(rb'\{\n *"name" : "[^"]*",\n *"value" : (?:%b|null)\n *\}' % _HIDDEN)
_ESCAPED = re.compile(rb"\\u00[2-7]")  # a letter, which may be one of a key's; we never write it so


class Likeness:
    """Passes the blocks of a document on, and holds its copy against them; both in the style of `JsonWriter`.

    Attributes:
        holds: whether nothing was found that differs; False says only that it cannot be told in this way.
    """

    def __init__(self, document: Iterator[bytes], copy: Iterable[bytes]) -> None:
        self._document, self._copy = document, copy
        self._held, self._at = b"", 0  # of the document: what is not compared yet, and from where on
        self._by_names = True  # whether no setting's name was left out
        self.holds = True

    def proves(self, verdict: Verdict) -> bool:
        """Return whether the copy is the document without a secret, by the verdict on the document."""
        # Of keys that stand twice in an object only the last was judged.
        twice = any(found.rule == "duplicates" and not found.passed for found in verdict.judgement.findings)
        return self.holds and not twice and (self._by_names or not verdict.summary.named_secrets)

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the document's blocks to the one who judges it; only when they have ended, the answer stands."""
        with closing(self._lines()) as copy:
            begun = b""
            for lines in copy:
                self.holds = self.holds and self._hides(begun + lines)
                begun = _AN_OBJECT if lines.endswith(_AN_OBJECT) else b""
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
        """Yield the copy in whole lines, small objects whole; one that cannot be read is not told here."""
        rest = b""
        try:
            for block in self._copy:
                rest += block
                if (begin := rest.rfind(_AN_OBJECT)) >= 0:
                    end = begin + len(_AN_OBJECT)
                else:
                    end = rest.rfind(b"\n") + 1 if len(rest) > 4 * BLOCK else 0
                if end:
                    yield rest[:end]
                    rest = rest[end:]
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
            theirs = _SCALAR.match(held, at) if self.holds else None
            if not (ours and theirs and end > mark):
                self.holds = False
                break
            at = theirs.end()
            key, shown, whole = ours.groups()
            if key in _FIXED:
                self.holds = False
            elif shown == theirs[0]:
                continue
            elif whole and key in _SECRETS:
                self.holds = _is_readable(theirs[0])
            else:  # it, or a part of it, is a secret that stands elsewhere
                self.holds = theirs[0].startswith(b'"') and _is_text(shown)
        self._at = at
        return begin

    def _hides(self, lines: bytes) -> bool:
        """Return whether every secret in whole lines of the copy is hidden, as far as that is told without a parser."""
        if flags := lines.count(b'"sensitive"'):
            self._by_names = False
            if flags != lines.count(b'"sensitive" : false') + len(_FLAGGED.findall(lines)):
                return False
        for key, hidden in _FIELDS:
            keys = lines.count(key)
            if keys and keys != lines.count(b" : " + key) + len(hidden.findall(lines)):
                return False
        if _ESCAPED.search(lines):
            return False
        return bool(flags) or b'"value"' not in lines or _names_hide(lines)


def _names_hide(lines: bytes) -> bool:
    names = lines.count(b'"name"') - lines.count(b' : "name"')
    for found in _NAME.finditer(lines):
        names -= 1
        if b"\\" in found[1] or not _is_text(found[1]):
            return False
        if secret_name(found[1].decode()):
            begin = lines.rfind(_AN_OBJECT, 0, found.start())
            item = _NAMED.match(lines, max(begin, 0))
            if begin < 0 or not item or item.end() < found.end():
                return False
    return names == 0


def _is_readable(scalar: bytes) -> bool:
    if scalar[1:2].isalnum() and scalar[1] not in b"frR" and b"\\" not in scalar:
        return True
    try:
        return readable(json.loads(scalar))
    except ValueError:
        return False


def _is_text(quoted: bytes) -> bool:
    try:
        quoted.decode()
    except UnicodeDecodeError:
        return False
    return True
