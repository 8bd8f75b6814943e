"""Undo records: sealed files in pieces, and a record for each run, by which it can be undone for thirty days."""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

import msgspec

from maint import files
from maint.errors import WorkFailed
from maint.model.json import Moment
from maint.model.virtual_cluster import File
from maint.ports import Undo
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content

KEPT_FOR = timedelta(days=30)
_DOUBTED = timedelta(days=7)  # for so long a later reading of the clock may show that an earlier one was ahead
_JUDGED = ".judged"  # in a folder of records: the reading by which they are judged next


class SealedRecord(Protocol):
    """A record: until when it is kept, and the names of all that is sealed."""

    @property
    def until(self) -> datetime: ...

    @property
    def names(self) -> Iterable[str]: ...


T = TypeVar("T")
R = TypeVar("R", bound=SealedRecord)


class _Of(msgspec.Struct, frozen=True):
    run: str = ""  # whose record it is; older versions did not write it


class RunRecords(Generic[T]):
    """The records of one kind, in a folder of the state folder; `unknown` and `hint` say what a damaged one means."""

    def __init__(self, folder: str, kind: type[T], unknown: str, hint: str) -> None:
        self._folder, self._kind, self._unknown, self._hint = folder, kind, unknown, hint

    def path(self, state: Path, run: str) -> Path:
        """Return where a run's record lies."""
        return state / self._folder / f"{run}.json"

    def read(self, state: Path, run: str) -> T | None:
        """Return a run's record, None where it has none; WorkFailed where it is damaged."""
        path = self.path(state, run)
        try:
            of = files.load(path, _Of)
            if of is not None and of.run not in ("", run):  # as where a disk gave back another file's block
                raise files.Damaged(f"it is that of run {of.run}")
            return files.load(path, self._kind)
        except files.Damaged as error:
            words = f"{path} is damaged: {self._unknown.format(run=run)}"
            raise WorkFailed(words, detail=[str(error)], hint=self._hint.format(run=run)) from None

    def write(self, state: Path, run: str, record: T) -> None:
        """Keep a record, on disk before this returns."""
        files.replace(self.path(state, run), msgspec.json.encode({**msgspec.to_builtins(record), "run": run}))


class _Reading(msgspec.Struct, frozen=True):
    at: Moment  # of the clock


class UndoRecords(RunRecords[R]):
    """Records by which runs can be undone for a time."""

    def all(self, state: Path, *, damaged: bool = False) -> Iterator[tuple[str, R]]:
        """Yield runs with their records; a damaged one is passed over, which its own undo tells, or fails."""
        for path in sorted((state / self._folder).glob("*.json")):
            try:
                record = self.read(state, path.stem)
            except WorkFailed:
                if damaged:
                    raise
                continue
            if record is not None:
                yield path.stem, record

    def write(self, state: Path, run: str, record: R) -> None:
        """Keep a record, on disk before this returns; one that names nothing goes."""
        if any(True for _ in record.names):
            super().write(state, run, record)
        else:
            files.remove(self.path(state, run))

    def way_back(self, state: Path, run: str, command: str) -> str:
        """Return in words how what a run changed comes back; empty where nothing is kept."""
        record = self.read(state, run)
        return f"; `maint {command} {run}` brings it back until {record.until:%Y-%m-%d}" if record else ""

    def expire(self, state: Path, undo: Undo, now: datetime) -> None:
        """Drop what was kept for its time by a reading of the clock that none has contradicted for a week since; and
        what nothing names for as long.
        """
        judged = self._judged(state, now)
        if judged is None:
            return
        for run, record in self.all(state):
            if record.until < judged:
                for name in record.names:
                    undo.drop(name)
                files.remove(self.path(state, run))
        _drop_nameless(state, undo, judged - KEPT_FOR)

    def _judged(self, state: Path, now: datetime) -> datetime | None:
        """Return a reading of the clock that has stood for long enough, None where there is none yet."""
        path = state / self._folder / _JUDGED
        before = files.kept_record(path, _Reading)
        if before is not None and timedelta() <= now - before.at < _DOUBTED:
            return None
        files.keep_record(path, _Reading(now))
        return before.at if before is not None and before.at <= now else None


def _drop_nameless(state: Path, undo: Undo, before: datetime) -> None:
    """Drop what was sealed before a moment and no record of any kind names: its run was killed in between."""
    old = set(undo.sealed_before(before.timestamp()))
    with suppress(OSError, files.Damaged):  # what cannot be read may name it
        for path in state.rglob("*.json") if old else ():
            content = files.read_file(path)
            files.decoded(content, object)
            old.difference_update(name.decode() for name in re.findall(rb"[0-9a-f]{32}", content))
        for name in old:
            undo.drop(name)


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


def prove_kept(undo: Undo, files_: Iterable[KeptFile]) -> None:
    """Read sealed files to their ends, before anything goes for them; raises as `Undo.fetch` does."""
    for name in (name for file in files_ for name in file.chunks):
        undo.fetch(name)


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
