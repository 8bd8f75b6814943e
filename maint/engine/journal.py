"""The journal of a run: JSON lines, each on disk before what it announces is done."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from maint.engine.lock import make_folder
from maint.errors import Invalid, WorkFailed
from maint.model.events import Outcome, Result
from maint.model.json import Json
from maint.model.plan import Effect, Plan

RUNS = "runs"
# What a lane did elsewhere, or did not do, says nothing of it once it is told one of these.
BEGINS_ANEW = frozenset({"base_url", "skip", "initialised"})


@dataclass(slots=True)
class Record:
    """What is known of one action of a run.

    Attributes:
        begun: whether its intent was written.
        result: how it ended, None while it has not.
        notes: what it wrote down on the way, last value per key.
        at: when it ended last, "" while it has not.
    """

    begun: bool = False
    result: Result | None = None
    notes: dict[str, Json] = field(default_factory=dict)
    at: str = ""

    @property
    def settled(self) -> bool:
        """Whether it ended well."""
        return self.result is not None and self.result.outcome not in (Outcome.FAILED, Outcome.WAITING)

    @property
    def failed(self) -> bool:
        """Whether it failed; waiting for a person is no failure."""
        return self.result is not None and self.result.outcome is Outcome.FAILED


@dataclass(slots=True)
class Past:
    """A run as its journal tells it."""

    id: str
    plan: Plan
    started: str
    options: Mapping[str, Json]
    records: dict[int, Record] = field(default_factory=dict)
    ended: str | None = None  # done, failed, interrupted, refused, unfinished (waits for a person); None: it was killed
    detail: str = ""
    at: str = ""
    to_do: list[str] = field(default_factory=list)  # what a person must do before it goes on
    needs: list[str] = field(default_factory=list)  # what it must be told then
    told: dict[str, dict[str, Json]] = field(default_factory=dict)  # what was said on resume, by lane
    idle: float = 0.0  # seconds between its lives
    last: str = ""  # when its last line with a time was written

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

    def lane(self, name: str) -> list[int]:
        """Return the places of a lane's actions; empty where the plan has no such lane."""
        return [index for index, action in enumerate(self.plan.actions) if action.lane == name != ""]

    def hear(self, lane: str, values: Mapping[str, Json]) -> None:
        """Take in what the operator says of a lane; where that makes it another one, it begins anew."""
        before = self.told.setdefault(lane, {})
        if any(key in BEGINS_ANEW and before.get(key) != value for key, value in values.items()):
            for index in self.lane(lane):
                self.records.pop(index, None)
        before.update(values)


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
    past = Past(str(head["id"]), Plan.from_json(plan), str(head["time"]), options, last=str(head["time"]))
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
        past.idle += _between(past.last, str(line["time"]))
    elif what == "told":
        values = line["values"]
        assert isinstance(values, Mapping)
        past.hear(str(line["lane"]), values)
    elif what == "ended":
        past.ended, past.detail, past.at = str(line["state"]), str(line.get("detail", "")), str(line.get("time", ""))
        past.to_do, past.needs = ([str(item) for item in _listed(line, key)] for key in ("to_do", "needs"))
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
            record.at = str(line.get("time", ""))
    past.last = str(line.get("time") or past.last)


def _listed(line: Mapping[str, Json], key: str) -> Sequence[Json]:
    value = line.get(key)
    return value if isinstance(value, list) else ()


def _between(first: str, then: str) -> float:
    return (datetime.fromisoformat(then) - datetime.fromisoformat(first)).total_seconds()


def history(state: Path) -> list[Past]:
    """Return all runs of a site, oldest first; a file that is no journal is left out."""
    found = []
    for path in sorted((state / RUNS).glob("*.jsonl")):
        try:
            found.append(read(path))
        except Invalid:
            continue  # a run killed before its first line was whole: it had done nothing
    return found


def unfinished(state: Path) -> list[Past]:
    """Return the runs that stopped before their end, newest first, unless a later one has done their work."""
    found: list[Past] = []
    ended: list[Past] = []
    for past in reversed(history(state)):
        if past.state == "done":
            ended.append(past)
        elif past.resumable and not any(_stands_for(later, past) for later in ended):
            found.append(past)
    return found


def _stands_for(later: Past, past: Past) -> bool:
    """Whether a run that ended well was to change all that an older one was to change."""
    targets = [{one.target for one in run.plan.actions if one.effect > Effect.READ} for run in (later, past)]
    return later.plan.source == past.plan.source and targets[0] >= targets[1]


def find(state: Path, run: str | None) -> Past:
    """Return a run by id or its beginning; without one, the newest that stopped before its end.

    Raises:
        Invalid: there is no such run, or several.
    """
    if run is None:
        stopped = unfinished(state)
        if not stopped:
            raise Invalid("no run of this site stopped before its end", hint="`maint playbook history` lists the runs")
        return stopped[0]
    matching = [past for past in history(state) if past.id.startswith(run)]
    if len(matching) != 1:
        problem = "no run" if not matching else f"{len(matching)} runs"
        raise Invalid(f"{problem} of this site begins with {run!r}", hint="`maint playbook history` lists the runs")
    return matching[0]
