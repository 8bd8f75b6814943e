"""Read a deployment document as a stream of JSON events, pushed block by block, in constant memory.

The C parser is used where it is installed, the pure Python one elsewhere. Integers stay exact (`pwSalt` does not
fit a double, contract section 7.3). What a parser says about an error may quote the document, which is full of
secrets; so our errors carry byte positions and nothing of its words.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

import ijson
from ijson import utils

from maint.deployment.fast_lists import Condenser
from maint.deployment.parse_error_offset import offset_in
from maint.errors import WorkFailed

Scalar: TypeAlias = str | int | Decimal | bool | None
Event: TypeAlias = tuple[str, Scalar]
BLOCK = 256 * 1024
_STEP = 4096  # bytes that are parsed at once, so that whatever is wrong with them is not far away
# The pure parser lets errors of `json` and of decoding through, both let those of numbers beyond all bounds.
_PROBLEMS = (ijson.JSONError, ValueError, ArithmeticError)


class Misshapen(WorkFailed):
    """A document is JSON, but no deployment."""


def _fastest() -> object:
    try:
        return ijson.get_backend("yajl2_c")
    except ImportError:
        return ijson.get_backend("python")


class Events:
    """A push parser: blocks of bytes go in, batches of events go out to `target`.

    Args:
        target: receives each batch; it must not keep the list, which is emptied afterwards.
        backend: an ijson backend; the fastest installed one when not given.
        condenser: takes long lists out before the parser sees them; the target knows what stands in for them.
    """

    def __init__(
        self,
        target: Callable[[Sequence[Event]], None],
        backend: object | None = None,
        condenser: Condenser | None = None,
    ) -> None:
        self._batch: list[Event] = utils.sendable_list()
        self._parser = (backend or _fastest()).basic_parse_coro(self._batch)  # type: ignore[attr-defined]  # untyped
        self._target = target
        self._condenser = condenser
        self._position = 0
        self._seen = False

    def feed(self, block: bytes) -> None:
        """Parse the next block.

        Raises:
            WorkFailed: it is not JSON, or the target does not take it; the message tells near which byte.
        """
        start, self._position = self._position, self._position + len(block)
        if self._condenser is None:
            self._parse(block, lambda at: start + at)
        else:
            self._parse(self._condenser.feed(block), self._condenser.origin)

    def _parse(self, block: bytes, origin: Callable[[int], int]) -> None:
        """Parse a block; `origin` tells which byte of the document stands at a place in it."""
        for at in range(0, len(block), _STEP):  # nothing, which the parser would take for the end, is not given to it
            step = block[at : at + _STEP]
            try:
                self._parser.send(step)
            except _PROBLEMS as problem:
                place = offset_in(step, problem)
                where = f"near byte {origin(at + place)}" if place is not None else _between(origin, at, len(step))
                raise _broken(problem, where) from None
            try:
                self._hand_over()
            except Misshapen as failure:
                raise Misshapen(f"{failure.message}, {_between(origin, at, len(step))}") from None

    def close(self) -> None:
        """Say that no more blocks follow.

        Raises:
            WorkFailed: the document is not complete.
        """
        if self._condenser is not None:
            self._parse(self._condenser.end(), self._condenser.origin)
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


def events(blocks: Iterator[bytes], target: Callable[[Sequence[Event]], None]) -> None:
    """Parse all blocks; raises `WorkFailed` like `Events`."""
    parser = Events(target)
    for block in blocks:
        parser.feed(block)
    parser.close()


def blocks(read: Callable[[int], bytes], size: int = BLOCK) -> Iterator[bytes]:
    """Yield what `read` returns until b''."""
    while block := read(size):
        yield block


def _trailing(problem: Exception) -> bool:
    words = str(problem)
    return "trailing garbage" in words or "Additional data" in words


def _between(origin: Callable[[int], int], at: int, length: int) -> str:
    return f"between byte {origin(at)} and byte {origin(at + length)}"


def _broken(problem: Exception, where: str) -> WorkFailed:
    if _trailing(problem):
        return WorkFailed(f"something follows the end of the JSON document {where}")
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
