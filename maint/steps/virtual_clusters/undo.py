"""Files sealed in pieces, and the record of what a recreation keeps of the old job and how far it is."""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from maint import files
from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.virtual_cluster import File, Object
from maint.ports import Undo
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content
from maint.steps.undo_records import RunRecords

CHUNK = 16 * 1024 * 1024  # bytes of a file that are sealed, and held in memory, at once


class KeptFile(msgspec.Struct, frozen=True):
    """A file in pieces."""

    path: str
    size: int
    chunks: Sequence[str]


class Kept(msgspec.Struct, frozen=True):
    """What a run keeps."""

    generation: int  # how often the run has begun anew
    put_back: bool  # whether all is as it was before
    old: str  # name of the sealed definitions; empty once they were put back
    files: Sequence[KeptFile]  # the files of the old resource
    vc: str = ""  # the virtual cluster
    made: Mapping[str, str] = {}  # what the run made: `RESOURCE/` → nothing, `RESOURCE/PATH` → signature

    @property
    def names(self) -> Iterator[str]:
        """The names of all that is sealed."""
        yield from (self.old,) if self.old else ()
        for file in self.files:
            yield from file.chunks


_RECORDS = RunRecords(
    "recreate",
    Kept,
    "what run {run} kept of the job and the resource is not known",
    "look at the virtual cluster, then `maint playbook dismiss {run} --reason WORDS`, and begin anew",
)
read, write = _RECORDS.read, _RECORDS.write


def mark_put_back(state: Path, run: str, kept: Kept) -> None:
    """Write down that all is as it was before."""
    write(state, run, replace(kept, put_back=True, old="", files=(), made={}))


def note_made(state: Path, run: str, resource: str, path: str = "", signature: str = "") -> None:
    """Write down that a run which recreates something made a resource, or a file in it."""
    kept = read(state, run)
    if kept is not None and not kept.put_back:
        write(state, run, replace(kept, made={**kept.made, f"{resource}/{path}": signature}))


def generation(state: Path, run: str) -> int:
    """Return how often a run has begun anew; 0 where it keeps nothing."""
    kept = read(state, run)
    return kept.generation if kept else 0


def forget(state: Path, run: str, undo: Undo) -> None:
    """Drop the record of a recreation and the sealed definitions; the files were handed over."""
    kept = read(state, run)
    if kept is None:
        return
    files.remove(_RECORDS.path(state, run))
    if kept.old:
        undo.drop(kept.old)


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


def seal_old(undo: Undo, job: Object, resource: Object | None) -> str:
    """Seal both definitions."""
    return undo.keep(json.dumps({"job": dict(job), "resource": dict(resource) if resource else None}).encode())


def old(undo: Undo, kept: Kept) -> tuple[Object, Object | None]:
    """Return the old job and the old resource."""
    found: Mapping[str, Json] = json.loads(undo.fetch(kept.old))
    job, resource = found["job"], found["resource"]
    assert isinstance(job, Mapping)
    return job, resource if isinstance(resource, Mapping) else None


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
