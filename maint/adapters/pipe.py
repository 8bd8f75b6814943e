"""Join threads by bounded streams of bytes in which the end of one side ends the other."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_AHEAD = 1 << 20  # bytes


class Broken(Exception):
    """The other side has no more use for this stream."""


class Pipe:
    """A stream of bytes from one writing thread to one reading thread; a writer far ahead waits."""

    def __init__(self) -> None:
        self._blocks: deque[bytes] = deque()
        self._waiting = 0
        self._ended = False
        self._reason: BaseException | None = None
        self._changed = threading.Condition()
        self._rest = memoryview(b"")  # the reader's own: what is left of the block that it took last

    def write(self, block: bytes) -> int:
        """Hand a block on, waiting for room; raises what the reader broke off with."""
        with self._changed:
            while self._waiting >= _AHEAD and not self._reason:
                self._changed.wait()
            if self._reason:
                raise self._reason
            if block:
                self._blocks.append(block)
                self._waiting += len(block)
                self._changed.notify_all()
        return len(block)

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, b'' at the end; raises what the writer broke off with."""
        if not self._rest:
            whole = self._take()
            if len(whole) <= size:
                return whole
            self._rest = memoryview(whole)
        block = bytes(self._rest[:size])
        self._rest = self._rest[size:]
        return block

    def _take(self) -> bytes:
        with self._changed:
            while not (self._blocks or self._ended or self._reason):
                self._changed.wait()
            if self._reason:
                raise self._reason
            if not self._blocks:
                return b""
            block = self._blocks.popleft()
            self._waiting -= len(block)
            self._changed.notify_all()
            return block

    def end(self) -> None:
        """Say, as the writer, that all has been written."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def break_off(self, reason: BaseException) -> None:
        """Say, as either side, that this side is gone: the other one finds the reason raised."""
        with self._changed:
            self._reason = self._reason or reason
            self._blocks.clear()
            self._changed.notify_all()


@contextmanager
def beside(work: Callable[[], None], pipe: Pipe) -> Iterator[None]:
    """Run work in a thread beside the block; the thread has ended when the block is left, however it is left.

    Whichever side fails breaks the pipe off, so that the other one ends too. A failure of the work is raised
    unchanged: in the block as soon as it uses the pipe, else when the block is left.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # a thread's failure belongs to the code that started it
            failures.append(failure)
            pipe.break_off(failure)

    thread = threading.Thread(target=run, name="maint-pipe", daemon=True)
    thread.start()
    try:
        yield
        thread.join()
    except BaseException:
        pipe.break_off(Broken())
        thread.join()
        raise
    for failure in failures:
        if not isinstance(failure, Broken):
            raise failure
