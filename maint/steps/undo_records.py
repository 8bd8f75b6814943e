"""Records of what runs have sealed, one for each run; those by which a run can be undone are kept for thirty days."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from maint import files
from maint.errors import WorkFailed
from maint.ports import Undo

KEPT_FOR = timedelta(days=30)


class Kept(Protocol):
    """A record: until when it is kept, and the names of all that is sealed."""

    @property
    def until(self) -> datetime: ...

    @property
    def names(self) -> Iterable[str]: ...


T = TypeVar("T")
R = TypeVar("R", bound=Kept)


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
            return files.load(path, self._kind)
        except files.Damaged as error:
            words = f"{path} is damaged: {self._unknown.format(run=run)}"
            raise WorkFailed(words, detail=[str(error)], hint=self._hint.format(run=run)) from None

    def write(self, state: Path, run: str, record: T) -> None:
        """Keep a record, on disk before this returns."""
        files.replace(self.path(state, run), msgspec.json.encode(record))


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
        """Drop what was kept for its time."""
        for run, record in self.all(state):
            if record.until < now:
                for name in record.names:
                    undo.drop(name)
                files.remove(self.path(state, run))
