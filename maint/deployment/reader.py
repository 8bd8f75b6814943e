"""Read a deployment document block by block, and give it out as plain data, never much of it at once."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from maint.errors import WorkFailed
from maint.model.formatting import show_count

Object: TypeAlias = dict[str, Any]  # a JSON object of which only parts are known (M7.2)
# An object as it stands in the document: a key may stand twice, and the last counts.
Pairs: TypeAlias = tuple[tuple[str, Any], ...]
BLOCK = 256 * 1024  # bytes
DEEPEST = 64  # objects and lists inside each other; an export has a dozen
ITEM = "[]"
EXPORT_AGAIN = "take the export again; a file must be the answer to GET /cm/deployment as the manager sent it"
_CUT = 12  # characters; what seems broken this near to the end may only be cut: `\ud83d\ude00`, `-Infinity`, `1e+`
_PROBLEMS = (ValueError, ArithmeticError, RecursionError)
_blanks = re.compile(r"[ \t\n\r]*").match


class Misshapen(WorkFailed):
    """A document is JSON, but not a deployment."""


class Number(Decimal):
    """A number with a point or an exponent, which keeps its digits (M7.3)."""

    text: str

    def __new__(cls, text: str) -> "Number":
        """Read it."""
        number = super().__new__(cls, text)
        number.text = text
        return number


CONTAINERS: frozenset[object] = frozenset({dict, list, tuple})  # the types of objects, `Pairs` too, and of lists


class Target(Protocol):
    """Takes a document: most of it as whole values, and what is too long for that member by member."""

    def value(self, key: str, value: object) -> None:
        """Take a member of what was begun; the key is empty in lists."""

    def begin(self, key: str, bracket: str) -> None:
        """Take the beginning of an object (`{`) or list (`[`), whose members follow."""

    def end(self) -> None:
        """Take the end of what was begun last."""


class _Frame:
    __slots__ = ("close", "empty", "path")

    def __init__(self, path: tuple[str, ...], close: str) -> None:
        self.path = path
        self.close = close  # the bracket that ends it
        self.empty = True


# The decoder of the standard library does the work, a value at a time. A value that does not end within the text at
# hand is taken apart, and so is every other one at its place: the next cluster is as long as the last.
class Reader:
    """A push parser: blocks of bytes go in, plain data comes out; errors name bytes, and nothing of the content."""

    window = 128 * 1024  # characters; a value that fits into them is given out whole

    def __init__(self, target: Target, window: int = 0, *, pairs: bool = True) -> None:
        self._target = target
        self.window = window or self.window
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decode = json.JSONDecoder(
            object_pairs_hook=tuple if pairs else None, parse_float=Number, parse_constant=_refuse
        ).raw_decode
        self._pieces: list[str] = []
        self._arrived = 0  # characters in the pieces
        self._text, self._at = "", 0
        self._passed = 0  # bytes before the text
        self._fed = 0  # bytes
        self._needed = self.window  # characters without which nothing is tried
        self._frames = [_Frame((), "")]  # the first holds the document itself
        self._apart: set[tuple[str, ...]] = set()  # the places of what is taken apart

    def feed(self, block: bytes) -> None:
        """Take the next block; `WorkFailed` where what came so far is not JSON, or not taken by the target."""
        try:
            piece = self._utf8.decode(block)
        except UnicodeDecodeError as problem:
            carried = len(problem.object) - len(block)
            where = f": broken UTF-8 near byte {self._fed - carried + problem.start}"
            raise _not_json(where, "it was damaged on its way: ask again") from None
        self._fed += len(block)
        self._pieces.append(piece)
        self._arrived += len(piece)
        if self._arrived + len(self._text) - self._at >= self._needed:
            self._advance(final=False)

    def close(self) -> None:
        """Say that no more blocks follow; `WorkFailed` where the document is not complete."""
        self._advance(final=True)
        if self._frames[0].empty or len(self._frames) > 1 or self._utf8.getstate()[0]:
            raise self._cut()

    def _advance(self, *, final: bool) -> None:
        self._passed = self._byte(self._at)
        self._text, self._at = "".join((self._text[self._at :], *self._pieces)), 0
        self._pieces.clear()
        self._arrived = 0
        while (final or len(self._text) - self._at >= self._needed) and self._step(final):
            pass

    def _step(self, final: bool) -> bool:
        """Take a value, or the beginning or the end of a long one; False where the text does not reach that far."""
        text, frame = self._text, self._frames[-1]
        at = _blanks(text, self._at).end()  # type: ignore[union-attr]  # fits everywhere
        if at == len(text):
            self._at = at
            return False
        if len(self._frames) == 1 and not frame.empty:
            raise WorkFailed(
                f"something follows the end of the JSON document near byte {self._byte(at)}", hint=EXPORT_AGAIN
            )
        if text[at] == frame.close:
            self._leave(at + 1)
            return True
        if not frame.empty:
            if text[at] != ",":
                raise self._broken(at)
            at = _blanks(text, at + 1).end()  # type: ignore[union-attr]
        key = ""
        if frame.close == "}":
            if text[at : at + 1] not in ('"', ""):
                raise self._broken(at)
            found = self._scalar(at, final)
            if found is None:
                return False
            key, at = str(found[0]), _blanks(text, found[1]).end()  # type: ignore[union-attr]
            if text[at : at + 1] not in (":", ""):
                raise self._broken(at)
            at = _blanks(text, at + 1).end()  # type: ignore[union-attr]
        return self._value(frame, key, at, final)

    def _value(self, frame: _Frame, key: str, at: int, final: bool) -> bool:
        bracket = self._text[at : at + 1]
        if bracket not in ("{", "["):
            found = self._scalar(at, final)
            if found is None:
                return False
        else:
            path = (*frame.path, key or ITEM) if len(self._frames) > 1 else ()
            whole = None if path in self._apart else self._whole(at)
            if whole is None:
                self._enter(frame, path, key, bracket, at + 1, final)
                return True
            found = whole
        self._refuse_outermost(bracket)
        value, end = found
        frame.empty = False
        self._tell(lambda: self._target.value(key, value), at, end)
        self._at, self._needed = end, self.window
        return True

    def _refuse_outermost(self, bracket: str) -> None:
        if len(self._frames) == 1 and bracket != "{":
            raise misshapen("its outermost value is not an object")

    def _whole(self, at: int) -> tuple[object, int] | None:
        try:
            return self._decode(self._text, at)
        except _PROBLEMS:
            return None

    def _scalar(self, at: int, final: bool) -> tuple[object, int] | None:
        """Return a text, a number or a word and where it ends; None where more of it has to come."""
        text = self._text
        if at < len(text):
            try:
                value, end = self._decode(text, at)
                if final or end + _CUT < len(text) or text[at] == '"':
                    return value, end
            except _PROBLEMS as problem:
                where = getattr(problem, "pos", at)
                unended = text[at] == '"' and (where == at or '"' not in text[where:])
                if final or not (unended or where + _CUT >= len(text)):
                    raise self._broken(where, problem, unended=unended) from None
        if final:
            raise self._cut()
        self._needed = 2 * (len(text) - self._at) + _CUT
        return None

    def _enter(self, frame: _Frame, path: tuple[str, ...], key: str, bracket: str, at: int, final: bool) -> None:
        self._refuse_outermost(bracket)
        if len(self._frames) > DEEPEST:
            raise too_deep()
        if final and path not in self._apart:  # all of it is there, so it is broken: only where is to be found yet
            self._target = Nobody()
        self._apart.add(path)
        frame.empty = False
        self._tell(lambda: self._target.begin(key, bracket), self._at, at)
        self._frames.append(_Frame(path, "}" if bracket == "{" else "]"))
        self._at, self._needed = at, self.window

    def _leave(self, end: int) -> None:
        self._frames.pop()
        self._tell(self._target.end, self._at, end)
        self._at = end

    def _tell(self, act: Callable[[], None], begin: int, end: int) -> None:
        try:
            act()
        except Misshapen as failure:
            within = f"between byte {self._byte(begin)} and byte {self._byte(end)}"
            raise Misshapen(f"{failure.message}, {within}", hint=failure.hint) from None

    def _byte(self, at: int) -> int:
        return self._passed + (at if self._text.isascii() else len(self._text[:at].encode()))

    def _broken(self, at: int, problem: Exception | None = None, *, unended: bool = False) -> WorkFailed:
        if unended or at >= len(self._text):
            return self._cut()
        where = f"near byte {self._byte(at)}"
        if isinstance(problem, ArithmeticError) or "integer string conversion" in str(problem):
            return WorkFailed(
                f"a number in the deployment document is too large to be read, {where}",
                hint="no manager writes such a number: ask it again, and look at what stands between it and here",
            )
        return _not_json(f" {where}")

    def _cut(self) -> WorkFailed:
        if len(self._frames) == 1:
            return _not_json(f": nothing readable in {show_count(self._fed, 'byte')}")
        return WorkFailed(
            f"the deployment document ends at byte {self._fed}, before it is complete",
            hint="the connection was cut, or the file was: take it again",
        )


class Nobody:
    """A target that nothing reaches."""

    def value(self, _: str, value: Any, /) -> None:
        """Take nothing."""

    def begin(self, key: str, bracket: str) -> None:
        """Take nothing."""

    def end(self) -> None:
        """Take nothing."""


_NO_EXPORT = "an error page of a proxy, or a server that is still starting, looks like this: ask it again later"


def _not_json(where: str, hint: str = _NO_EXPORT) -> WorkFailed:
    return WorkFailed(f"the deployment document is not JSON{where}", hint=hint)


def read_into(target: Target, blocks: Iterable[bytes], *, pairs: bool = True) -> None:
    """Give a whole document to a target, objects as `Pairs` or as `Object`; `WorkFailed` if it is not a JSON object."""
    reader = Reader(target, pairs=pairs)
    for block in blocks:
        reader.feed(block)
    reader.close()


def blocks(read: Callable[[int], bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Yield what `read` returns until b''."""
    while block := read(size):
        yield block


def misshapen(why: str) -> Misshapen:
    """Return the error for JSON that is not a deployment."""
    return Misshapen(f"the document is JSON, but no deployment: {why}", hint=EXPORT_AGAIN)


def too_deep() -> Misshapen:
    """Return the error for a document in which too many objects and lists are inside each other."""
    return misshapen(f"nested deeper than {DEEPEST} times")


def _refuse(constant: str) -> None:
    raise ValueError(constant)
