"""Files sealed in pieces, and given out again to be uploaded."""

import hashlib
import io
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from maint import files
from maint.errors import WorkFailed
from maint.model.virtual_cluster import File
from maint.ports import Undo
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content

CHUNK = 16 * 1024 * 1024  # bytes of a file that are sealed, and held in memory, at once


class KeptFile(msgspec.Struct, frozen=True):
    """A file in pieces."""

    path: str
    size: int
    chunks: Sequence[str]


def seal_file(undo: Undo, file: File, answer: Answer) -> KeptFile:
    """Seal a file as it arrives; nothing of it stays where it is not what its signature says, or is cut.

    Raises:
        Cut: it was cut on its way.
        WorkFailed: it is something else, so that it could not be put back as it was.
    """
    chunks, size, digest = list[str](), 0, hashlib.sha1(usedforsecurity=False)
    try:
        while block := _filled(answer):
            size += len(block)
            digest.update(block)
            chunks.append(undo.keep(block))
        if file.signature and digest.hexdigest() != file.signature:
            raise WorkFailed(
                f"{file.path} is not what its signature says, and could not be put back as it was",
                detail=[f"signature {file.signature}, received {digest.hexdigest()}"],
                hint="nothing was deleted; was it replaced meanwhile? Try again",
            )
    except BaseException:
        for name in chunks:
            undo.drop(name)
        raise
    return KeptFile(file.path, size, tuple(chunks))


def _filled(answer: Answer) -> bytes:
    parts, left = [], CHUNK
    while left and (block := answer.read(min(left, 256 * 1024))):
        parts.append(block)
        left -= len(block)
    return b"".join(parts)


def content(undo: Undo, file: KeptFile) -> Content:
    """Return a sealed file as something to upload."""

    def opened() -> BinaryIO:
        names, left = iter(file.chunks), io.BytesIO()

        def read(size: int) -> bytes:
            nonlocal left
            while not (block := left.read(size)) and (name := next(names, "")):
                left = io.BytesIO(undo.fetch(name))
            return block

        return files.as_file(read, 1024 * 1024)

    return Content(opened, file.size)
