"""The journal of a run: JSON lines, each on disk before what it announces is done."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from maint.engine.lock import make_folder
from maint.errors import Invalid, WorkFailed
from maint.model.events import Outcome, Result
from maint.model.json import Json
from maint.model.plan import Plan

RUNS = "runs"


@dataclass(slots=True)
class Record:
    """What is known of one action of a run.

    Attributes:
        begun: whether its intent was written.
        result: how it ended, None while it has not.
        notes: what it wrote down on the way, last value per key.
    """

    begun: bool = False
    result: Result | None = None
    notes: dict[str, Json] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether it ended well."""
        return self.result is not None and self.result.outcome is not Outcome.FAILED


@dataclass(slots=True)
class Past:
    """A run as its journal tells it."""

    id: str
    plan: Plan
    started: str
    options: Mapping[str, Json]
    records: dict[int, Record] = field(default_factory=dict)
    ended: str | None = None  # done, failed, interrupted, refused; None: it was killed
    detail: str = ""
    at: str = ""

    @property
    def state(self) -> str:
        """done, failed, interrupted, refused or unfinished."""
        return self.ended or "unfinished"

    @property
    def resumable(self) -> bool:
        """Whether it stopped before its last step; a refused run is none."""
        return self.state in ("failed", "interrupted", "unfinished")

    def record(self, index: int) -> Record:
        """Return what is known of an action."""
        return self.records.setdefault(index, Record())


class Journal:
    """Appends to one run's file; every line is on disk before the method returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.stem
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, what: str, **fields: Json) -> None:
        """Append one line.

        Raises:
            WorkFailed: the disk did not take it; what it announces must not be done.
        """
        line = json.dumps({"what": what, **fields}, ensure_ascii=False) + "\n"
        try:
            written = os.write(self._handle, line.encode())
            os.fsync(self._handle)
        except OSError as error:
            raise _disk(self.path, error) from error
        if written != len(line.encode()):
            raise WorkFailed(f"the journal {self.path} took only part of a line", hint="make room on its disk")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


class Unwritten:
    """The journal of a plan that only reads and takes no lock: there is nothing to take up again."""

    id = ""

    def write(self, what: str, **fields: Json) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""


def _disk(path: Path, error: OSError) -> WorkFailed:
    return WorkFailed(
        f"the journal {path} cannot be written: {error.strerror}",
        detail=["nothing is done that was not written down first"],
        hint="make room on the disk of the state folder, then `maint playbook resume`",
    )


def start(state: Path, plan: Plan, now: datetime, options: Mapping[str, Json]) -> Journal:
    """Open the journal of a new run, its plan on the first line."""
    folder = state / RUNS
    make_folder(folder)
    path = folder / f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{secrets.token_hex(2)}.jsonl"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        parent = os.open(folder, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)
    except OSError as error:
        raise _disk(path, error) from error
    journal = Journal(path)
    journal.write(
        "run", id=path.stem, time=now.isoformat(), plan=plan.to_json(), digest=plan.digest, options=dict(options)
    )
    return journal


def reopen(state: Path, past: Past, now: datetime, options: Mapping[str, Json]) -> Journal:
    """Open the journal of a run that stopped, to go on with it; a line cut short by a crash is taken away first."""
    path = state / RUNS / f"{past.id}.jsonl"
    text = path.read_bytes()
    if not text.endswith(b"\n"):
        whole = text.rfind(b"\n") + 1
        os.truncate(path, whole)
    journal = Journal(path)
    journal.write("resumed", time=now.isoformat(), options={**options, "pid": os.getpid()})
    return journal


def read(path: Path) -> Past:
    """Read a run back.

    Raises:
        Invalid: the file is no journal.
    """
    lines = list(_lines(path))
    if not lines or lines[0].get("what") != "run":
        raise Invalid(f"{path} is no journal of a run", hint="`maint playbook history` lists the runs")
    head = lines[0]
    plan, options = head["plan"], head["options"]
    assert isinstance(plan, Mapping) and isinstance(options, Mapping)
    past = Past(str(head["id"]), Plan.from_json(plan), str(head["time"]), options)
    for line in lines[1:]:
        _take(past, line)
    return past


def _lines(path: Path) -> Iterator[dict[str, Json]]:
    for line in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            return  # the last line of a run that was killed while writing it: what it announced was not done
        if not isinstance(value, dict):
            return
        yield value


def _take(past: Past, line: Mapping[str, Json]) -> None:
    what, index = line["what"], line.get("index")
    if what == "resumed":
        past.ended = None
    elif what == "ended":
        past.ended, past.detail, past.at = str(line["state"]), str(line.get("detail", "")), str(line.get("time", ""))
    elif isinstance(index, int):
        record = past.record(index)
        if what == "intent":
            past.records[index] = replace(record, begun=True, result=None)
        elif what == "note":
            record.notes[str(line["key"])] = line["value"]
        elif what == "outcome":
            record.result = Result(
                Outcome(str(line["outcome"])), str(line["detail"]), line["value"], bool(line["partly"])
            )


def history(state: Path) -> list[Past]:
    """Return all runs of a site, oldest first; a file that is no journal is left out."""
    found = []
    for path in sorted((state / RUNS).glob("*.jsonl")):
        try:
            found.append(read(path))
        except Invalid:
            continue  # a run killed before its first line was whole: it had done nothing
    return found


def unfinished(state: Path) -> Past | None:
    """Return the newest run that stopped before its end, None where there is none."""
    return next((past for past in reversed(history(state)) if past.resumable), None)


def find(state: Path, run: str | None) -> Past:
    """Return a run by id or its beginning; without one, the newest that stopped before its end.

    Raises:
        Invalid: there is no such run, or several.
    """
    if run is None:
        past = unfinished(state)
        if past is None:
            raise Invalid("no run of this site stopped before its end", hint="`maint playbook history` lists the runs")
        return past
    matching = [past for past in history(state) if past.id.startswith(run)]
    if len(matching) != 1:
        problem = "no run" if not matching else f"{len(matching)} runs"
        raise Invalid(f"{problem} of this site begins with {run!r}", hint="`maint playbook history` lists the runs")
    return matching[0]
