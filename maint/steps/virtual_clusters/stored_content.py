"""A stored file of a virtual cluster as a plain file to be read, which what uploads asks for."""

import io
from contextlib import ExitStack
from typing import BinaryIO, cast

from maint.model.snapshot import StoredFile
from maint.ports import Site
from maint.snapshots.parts import open_object


def open_content(site: Site, stored: StoredFile) -> BinaryIO:
    """Open a stored file; closing it closes all that it needs."""
    return cast(BinaryIO, io.BufferedReader(_Stored(site, stored), 256 * 1024))


class _Stored(io.RawIOBase):
    """A stored file's own bytes."""

    def __init__(self, site: Site, stored: StoredFile) -> None:
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(open_object(site, stored))

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]  # typeshed asks for any buffer
        """Fill a buffer."""
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        """Close the store's file too."""
        self._stack.close()
        super().close()
