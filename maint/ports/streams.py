"""What is read piece by piece, wherever it comes from."""

import io
from collections.abc import Callable
from typing import Protocol

from maint.errors import CannotReach


class Cut(CannotReach):
    """A body ended before its end; from its start it may come whole."""


class Answer(Protocol):
    """A response body under way; `read` returns b'' at its true end and raises `Cut` when it was cut."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes."""


class AsFile(io.RawIOBase):
    """What gives at most so many bytes when asked, as a plain file; leaving it calls `close`."""

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object] = lambda: None) -> None:
        self._pull, self._close = read, close

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # its Buffer is named from Python 3.12 on
        block = self._pull(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._close()
        super().close()
