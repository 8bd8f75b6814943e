"""Read a deployment document as a stream of JSON events, pushed block by block, in constant memory."""

from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

import ijson
from ijson import utils

from maint.errors import WorkFailed

Scalar: TypeAlias = str | int | Decimal | bool | None
Event: TypeAlias = tuple[str, Scalar]
BLOCK = 256 * 1024  # bytes
_STEP = 4096  # bytes that are parsed at once: an error is said to be within them
_ARROW = 40  # columns before the character at which the C parser points
_MARGIN = 10  # columns that it always leaves blank
_BEFORE = _ARROW - _MARGIN  # bytes of the document that it shows before that character
# A parser's own error may quote the document, which is full of secrets: ours name bytes only.
# The pure parser lets errors of `json` and of decoding through, both let those of numbers beyond all bounds; the C
# parser meets Python's limit of digits inside a call, which Python then reports as a SystemError.
_PROBLEMS = (ijson.JSONError, ValueError, ArithmeticError, SystemError)


class Misshapen(WorkFailed):
    """A document is JSON, but not a deployment."""


def _fastest() -> object:
    try:
        return ijson.get_backend("yajl2_c")
    except ImportError:
        return ijson.get_backend("python")


class EventParser:
    """A push parser: blocks of bytes go in, batches of events go out to `target`, which must not keep the list."""

    def __init__(self, target: Callable[[Sequence[Event]], None], backend: object | None = None) -> None:
        self._batch: list[Event] = utils.sendable_list()
        self._parser = (backend or _fastest()).basic_parse_coro(self._batch)  # type: ignore[attr-defined]  # untyped
        self._target = target
        self._position = 0
        self._seen = False

    def feed(self, block: bytes) -> None:
        """Parse the next block; `WorkFailed` names the byte of what is not JSON or not taken by the target."""
        for at in range(0, len(block), _STEP):
            step = block[at : at + _STEP]
            start, self._position = self._position, self._position + len(step)
            within = f"between byte {start} and byte {self._position}"
            try:
                self._parser.send(step)
            except _PROBLEMS as problem:
                offset = _offset_in(step, problem)
                raise _broken(problem, within if offset is None else f"near byte {start + offset}") from None
            try:
                self._hand_over()
            except Misshapen as failure:
                raise Misshapen(f"{failure.message}, {within}") from None

    def close(self) -> None:
        """Say that no more blocks follow; raises `WorkFailed` where the document is not complete."""
        try:
            self._parser.close()
        except _PROBLEMS as problem:
            raise _cut(problem, self._position, self._seen) from None
        self._hand_over()

    def _hand_over(self) -> None:
        if self._batch:
            self._seen = True
            self._target(self._batch)
            self._batch.clear()


def blocks(read: Callable[[int], bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Yield what `read` returns until b''."""
    while block := read(size):
        yield block


def _offset_in(piece: bytes, problem: Exception) -> int | None:
    # The C parser names no number, but shows the bytes around the place and points at one of them.
    words = str(problem)
    shown = literal_eval(words) if words.startswith(("b'", 'b"')) else words.encode()  # bytes that were not UTF-8
    lines = shown.split(b"\n")
    if len(lines) < 3 or lines[2].rfind(b"^") != _ARROW:
        return None
    padded = b" " * _BEFORE + piece.replace(b"\r", b" ").replace(b"\n", b" ")
    excerpt = lines[1][_MARGIN:]
    found = padded.find(excerpt)
    return found if found >= 0 and padded.find(excerpt, found + 1) < 0 else None


def _trailing(problem: Exception) -> bool:
    words = str(problem)
    return "trailing garbage" in words or "Additional data" in words


def _broken(problem: Exception, where: str) -> WorkFailed:
    if _trailing(problem):
        return WorkFailed(f"something follows the end of the JSON document {where}")
    if isinstance(problem, UnicodeDecodeError):
        return WorkFailed(
            f"the deployment document is not JSON: broken UTF-8, or half a surrogate pair, {where}",
            hint="it was damaged on its way, or somebody wrote such a text: ask again, and look for it in the manager",
        )
    if isinstance(problem, ArithmeticError | SystemError) or "integer string conversion" in str(problem):
        return WorkFailed(
            f"a number in the deployment document is too large to be read, {where}",
            hint="no manager writes such a number: ask it again, and look at what stands between it and here",
        )
    return WorkFailed(
        f"the deployment document is not JSON {where}",
        hint="an error page of a proxy, or a server that is still starting, looks like this: ask it again later",
    )


def _cut(problem: Exception, position: int, seen: bool) -> WorkFailed:
    if _trailing(problem):
        return WorkFailed(f"something follows the end of the JSON document before byte {position}")
    if not seen:
        return WorkFailed(f"the deployment document is not JSON: nothing readable in {position} bytes")
    return WorkFailed(
        f"the deployment document ends at byte {position}, before it is complete",
        hint="the connection was cut, or the file was: take it again",
    )
