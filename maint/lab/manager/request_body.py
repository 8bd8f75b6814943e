"""Take in a request's body: to disk, and only when it arrives whole."""

from pathlib import Path
from typing import BinaryIO, Protocol

_BLOCK = 1 << 16


class Source(Protocol):
    """A connection that is read."""

    def read(self, size: int = -1, /) -> bytes:
        """Return so many bytes, fewer at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return a line with its end."""


class BodyCut(Exception):
    """The sender went away before its body was whole."""


def spool(source: Source, target: Path, length: int | None) -> Path:
    """Write a body to a file and return the file.

    Args:
        length: its bytes; None where it comes in chunks.

    Raises:
        BodyCut: it ended early, or its chunks make no sense.
    """
    with target.open("wb") as stream:
        if length is None:
            _chunks(source, stream)
        else:
            _copy(source, stream, length)
    return target


def _chunks(source: Source, stream: BinaryIO) -> None:
    while size := _size(source):
        _copy(source, stream, size)
        if source.readline(8).strip():
            raise BodyCut("a chunk did not end where it should")
    while source.readline(_BLOCK).strip():
        pass  # trailers


def _size(source: Source) -> int:
    line = source.readline(1024)
    try:
        return int(line.split(b";")[0].strip(), 16)
    except ValueError as error:
        raise BodyCut("the body ended within its chunks") from error


def _copy(source: Source, stream: BinaryIO, length: int) -> None:
    while length:
        try:
            piece = source.read(min(length, _BLOCK))
        except OSError as error:
            raise BodyCut("the connection was lost within the body") from error
        if not piece:
            raise BodyCut("the connection ended within the body")
        stream.write(piece)
        length -= len(piece)
