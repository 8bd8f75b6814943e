"""The journal of a run: JSON lines, each on disk before what it announces is done, each with a check value.

What a kill leaves, an unterminated last line, is dropped. Any other line that is not as it was written, or not where,
refuses resume: what stood there may be an act that was begun.
"""

import errno
import json
import os
import secrets
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

import maint
from maint.config.paths import actor
from maint.engine import last_command
from maint.engine.lock import make_state_folder
from maint.errors import IMMUTABLE, WRITABLE, Invalid, Refused, WorkFailed
from maint.files import create, explaining, is_file, read_file, remove, write_all, writing
from maint.model.formatting import show_count, show_time
from maint.model.json import Json
from maint.model.plan import Effect, Outcome, Plan, RanHook, Result
from maint.snapshots.manifest import stamp, time_of

RUNS = "runs"
FORMAT = 2  # of the journal and of the actions in it; 1 is that of version 0.1.0, which wrote none
_ROOM = 64 * 1024  # bytes kept back on the disk of the state folder, for the lines that end a run when it is full
# What a branch did elsewhere, or did not do, says nothing of it once the operator answers one of these.
BEGINS_ANEW = frozenset({"base_url", "skip", "initialised"})


class ActionRecord(msgspec.Struct):
    """What is known of one action of a run."""

    begun: bool = False  # whether its intent was written
    result: Result | None = None  # how it ended, None while it has not
    notes: dict[str, Json] = msgspec.field(default_factory=dict)  # what it wrote down on the way, last value per key
    at: str = ""  # when it ended last, "" while it has not
    began: str = ""  # when it began last

    @property
    def settled(self) -> bool:
        """Whether it ended well."""
        return self.result is not None and self.result.outcome not in (Outcome.FAILED, Outcome.WAITING)

    @property
    def failed(self) -> bool:
        """Whether it failed; waiting for a person is not a failure."""
        return self.result is not None and self.result.outcome is Outcome.FAILED

    @property
    def cut(self) -> bool:
        """Whether it was begun, and a kill left no end of it."""
        return self.begun and self.result is None


RUN_STATES = ("done", "partly", "failed", "interrupted", "refused", "unfinished", "dismissed", "damaged")


class Attempt(msgspec.Struct):
    """One process that worked on a run."""

    began: str
    actor: str  # as `user@host`
    ended: str = ""  # "" where it was killed
    state: str = ""
    version: str = ""  # of maint; "" in older journals, but for the first
    heard: str = ""  # its last line, where it was killed or is at work


class RunState(msgspec.Struct):
    """A run as its journal says."""

    id: str
    plan: Plan
    started: str
    options: Mapping[str, Json]
    format: int = FORMAT  # of the journal and its actions
    version: str = ""  # of maint that began it
    actor: str = ""  # who began it, as `user@host`
    records: dict[int, ActionRecord] = msgspec.field(default_factory=dict)
    # done, failed, interrupted, refused, unfinished (waits for a person) or dismissed; None: it was killed
    ended: str | None = None
    detail: str = ""
    at: str = ""
    to_do: list[str] = msgspec.field(default_factory=list)  # what a person must do before it goes on
    needs: list[str] = msgspec.field(default_factory=list)  # the keys that `resume --set` may answer then
    # what the operator answered on resume, by branch
    answers: dict[str, dict[str, Json]] = msgspec.field(default_factory=dict)
    attempts: list[Attempt] = msgspec.field(default_factory=list)  # the first too
    hooks: list[RanHook] = msgspec.field(default_factory=list)
    idle: float = 0.0  # seconds between its attempts
    last: str = ""  # when its last line with a time was written
    damage: str = ""  # what is wrong with its journal; empty where nothing is

    @property
    def state(self) -> str:
        """One of `RUN_STATES`; `partly` is done, but something was left out."""
        if self.damage and self.ended != "dismissed":
            return "damaged"
        if self.ended == "done" and any(record.result and record.result.partly for record in self.records.values()):
            return "partly"
        return self.ended or "unfinished"

    @property
    def over(self) -> bool:
        """Whether it came to its end, whatever it left out."""
        return self.state in ("done", "partly")

    @property
    def resumable(self) -> bool:
        """Whether it stopped before its last step, which a refused run has not; one whose journal is damaged counts."""
        return self.state in ("failed", "interrupted", "unfinished", "damaged")

    def record(self, index: int) -> ActionRecord:
        """Return what is known of an action."""
        return self.records.setdefault(index, ActionRecord())

    def registered(self) -> dict[str, Json]:
        """Return what its steps have registered so far, by name."""
        settled = {one.register: self.record(i) for i, one in enumerate(self.plan.actions) if self.record(i).settled}
        return {name: record.result.value for name, record in settled.items() if name and record.result is not None}

    def lane(self, name: str) -> list[int]:
        """Return the places of a branch's actions; empty where the plan has no such branch."""
        return [index for index, action in enumerate(self.plan.actions) if action.lane == name != ""]

    def apply_answers(self, lane: str, values: Mapping[str, Json]) -> None:
        """Take in what the operator answers for a branch; where that makes it another one, it begins anew."""
        before = self.answers.setdefault(lane, {})
        if any(key in BEGINS_ANEW and before.get(key) != value for key, value in values.items()):
            for index in self.lane(lane):
                self.records.pop(index, None)
        before.update(values)


class Journal:
    """Appends to one run's file; every line is on disk before the method returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.stem
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise _disk(path, error) from error
        self._torn = False
        self._counted = (0, 0)  # bytes, and how many lines they are

    def write(self, what: str, **fields: Json) -> None:
        """Append one line, by the room kept back where the disk is full; WorkFailed: do not do what it announces."""
        value = {"what": what, **fields}
        try:
            self._append(value)
        except OSError as error:
            if not _room(self.path).exists():
                raise _disk(self.path, error) from error
            try:
                remove(_room(self.path))
                self._append(value)
            except OSError as second:
                raise _disk(self.path, second) from second

    def _append(self, value: Mapping[str, Json]) -> None:
        # What was written of a line that failed is taken back: a later line must not be glued to it.
        if self._torn:
            raise OSError(5, "an earlier line was written in part and could not be taken back")
        size, (known, lines) = os.fstat(self._handle).st_size, self._counted
        # Of what is there: a signal may have struck between a line and what would remember it.
        lines += os.pread(self._handle, size - known, known).count(b"\n")
        self._counted = (size, lines)
        try:
            write_all(self._handle, _line({**value, "line": lines + 1, "of": self.id}))
            os.fsync(self._handle)
        except OSError:
            try:
                os.ftruncate(self._handle, size)
            except OSError:
                self._torn = True
            raise

    def close(self) -> None:
        """Let go of the file, and of the room that was kept back for it."""
        os.close(self._handle)
        with suppress(OSError):
            remove(_room(self.path))


class NullJournal:
    """The journal of a plan that only reads and takes no lock: there is nothing to take up again."""

    id = ""

    def write(self, what: str, **fields: Json) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""


_RESUME = "`maint playbook resume`"
_OWNER = "run it as the account that owns that folder, and all that is in it"


_MENDS = {
    errno.EACCES: "become the account that owns the state folder",
    errno.EPERM: f"become the account that owns the state folder; as that one, see {IMMUTABLE}",
    errno.ENOSPC: "make room on the disk of the state folder, or inodes where `df -i` shows none",
    errno.EDQUOT: "make room on the disk of the state folder",
    errno.EROFS: f"look at the disk of the state folder: {WRITABLE}",
}


def _disk(path: Path, error: OSError) -> WorkFailed:
    begun = is_file(path) and path.stat().st_size > 0  # else there is no run yet
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    mend = _MENDS.get(error.errno or 0, "make room on the disk of the state folder, or look at it (`dmesg`)")
    return WorkFailed(
        f"the journal {path} cannot be written: {error.strerror}",
        detail=[
            "nothing is done that was not written down first",
            *(["1 MB and two inodes free are enough for a journal"] if full else []),
        ],
        hint=f"{mend}, then {_RESUME if begun else 'run it again'}",
    )


def _room(path: Path) -> Path:
    return path.with_suffix(".room")


def _line(value: Mapping[str, Json]) -> bytes:
    text = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    return text[:-1] + f', "sum": "{_sum(text)}"}}\n'.encode()


def _sum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def start(state: Path, plan: Plan, now: datetime, options: Mapping[str, Json]) -> Journal:
    """Open the journal of a new run, its plan on the first line; room for its last lines is kept back on the disk."""
    make_state_folder(state / RUNS)
    path = state / RUNS / f"{stamp(_after(state, now))}-{secrets.token_hex(2)}.jsonl"
    try:
        if plan.effect > Effect.READ:
            create(_room(path), bytes(_ROOM))
        create(path, b"")
    except OSError as error:
        with suppress(OSError):
            remove(_room(path))
        raise _disk(path, error) from error
    journal = Journal(path)
    try:
        journal.write(
            "run",
            id=path.stem,
            format=FORMAT,
            version=maint.__version__,
            actor=actor(),
            time=show_time(now),
            plan=plan.to_json(),
            digest=plan.digest,
            options=dict(options),
        )
    except WorkFailed:  # nothing has begun
        journal.close()
        with suppress(OSError):
            remove(path)
        raise
    last_command.forget(state)
    return journal


def _after(state: Path, now: datetime) -> datetime:
    """Return a time for the id of a new run, behind all that are there: the clock may have been ahead for a while."""
    for path in reversed(journals(state)):
        with suppress(ValueError):  # somebody else's file
            return max(now, time_of(path.stem) + timedelta(milliseconds=1))
    return now


def reopen(state: Path, past: RunState, now: datetime, options: Mapping[str, Json]) -> Journal:
    """Open the journal of a run that stopped, to go on with it; a line cut short by a crash is taken away first."""
    refuse_unreadable(past)
    path = state / RUNS / f"{past.id}.jsonl"
    text = read_file(path)
    try:
        if not text.endswith(b"\n"):
            os.truncate(path, text.rfind(b"\n") + 1)
    except OSError as error:
        raise _disk(path, error) from error
    with suppress(OSError):  # without it, a full disk stops the run before its next act
        create(_room(path), bytes(_ROOM))
    journal = Journal(path)
    more = {"version": maint.__version__, "actor": actor()}
    journal.write("resumed", time=show_time(now), **more, options={**options, "pid": os.getpid()})
    last_command.forget(state)
    return journal


def refuse_unreadable(past: RunState) -> None:
    """Refuse to take up a run whose journal is damaged, or of a version whose actions this one does not know."""
    known = [f"its journal says that {_progress(past)}"]
    way = f"look at the server, then `maint playbook dismiss {past.id} --reason WORDS`, and begin anew"
    if past.damage:
        raise Refused(f"the journal of run {past.id} is damaged: {past.damage}", detail=known, hint=way)
    if past.format != FORMAT:
        begun_by = f"maint {past.version}" if past.version else "maint 0.1.0"
        raise Refused(
            f"run {past.id} was begun by {begun_by}, whose runs this version cannot take up", detail=known, hint=way
        )


def _progress(past: RunState) -> str:
    begun = [index for index, record in sorted(past.records.items()) if record.begun]
    if not begun:
        return "nothing of it was begun"
    done, last = sum(past.record(index).settled for index in begun), past.plan.actions[begun[-1]]
    return f"{done} of {show_count(len(past.plan.actions), 'action')} ended well; the last one begun: {last.name}"


def dismiss(state: Path, past: RunState, now: datetime, reason: str) -> None:
    """Write down that nobody is going to take a run up; the journal stays as it is."""
    path = state / RUNS / f"{past.id}.dismissed"
    content = {"time": show_time(now), "actor": actor(), "reason": reason}
    with writing(path, _OWNER):
        create(path, json.dumps(content, ensure_ascii=False).encode() + b"\n")


def read(path: Path) -> RunState:
    """Read a run back; a damaged line ends it and is named in `damage`, Invalid where it is the first."""
    first, *lines = read_file(path).split(b"\n")
    try:
        if not lines:  # its first line was cut, be it by no more than its end: nothing has begun
            raise ValueError
        head = _checked(first, path.stem)
        past = _begun(head)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Invalid(
            f"{path} is not the journal of a run, or its first line is damaged",
            hint="`maint playbook history` lists the runs; move the file away where it is not wanted",
        ) from None
    for number, line in enumerate(lines[:-1], 2):  # what follows the last line's end was not written whole
        try:
            value = _checked(line, path.stem, past.format)
            if value.get("line", number) != number:  # older versions wrote no number
                raise ValueError
            _take(past, value)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            past.damage = f"line {number} of {path} is not as it was written"
            break
    _take_heard(past)
    _take_dismissal(past, path.with_suffix(".dismissed"))
    return past


def later_version(path: Path) -> str:
    """Return the version that began a run in a format later than is known here, "" for any other journal."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        head = json.loads(read_file(path).partition(b"\n")[0])
        if isinstance(head, dict) and isinstance(head.get("format"), int) and head["format"] > FORMAT:
            return str(head.get("version") or "of a later format")
    return ""


def _begun(head: Mapping[str, Json]) -> RunState:
    plan, options = head["plan"], head["options"]
    if head["what"] != "run" or not isinstance(plan, Mapping) or not isinstance(options, Mapping):
        raise ValueError
    return RunState(
        str(head["id"]),
        Plan.from_json(plan),
        str(head["time"]),
        options,
        format=int(str(head.get("format", 1))),
        version=str(head.get("version", "")),
        actor=str(head.get("actor", "")),
        last=str(head["time"]),
        attempts=[_attempt(head)],
    )


def _attempt(line: Mapping[str, Json]) -> Attempt:
    return Attempt(str(line["time"]), str(line.get("actor", "")), version=str(line.get("version", "")))


def _checked(line: bytes, run: str, format_: int | None = None) -> dict[str, Json]:
    # Raises ValueError where the line is not as it was written.
    text, mark, rest = line.rpartition(b', "sum": "')
    whole = text + b"}" if mark else line
    if mark and rest != f'{_sum(whole)}"}}'.encode():
        raise ValueError
    value = json.loads(whole)
    if not isinstance(value, dict) or (format_ is None and value.get("id") != run):
        raise ValueError
    if value.get("of", run) != run:  # older versions did not write it; a disk may give back another file's block
        raise ValueError
    if not mark and (value.get("format", 1) if format_ is None else format_) != 1:
        raise ValueError
    if "time" in value and datetime.fromisoformat(str(value["time"])).tzinfo is None:
        raise ValueError
    return value


def _take(past: RunState, line: Mapping[str, Json]) -> None:
    what, index = line["what"], line.get("index")
    if what == "resumed":
        past.ended, past.at = None, ""
        _take_heard(past)
        past.attempts.append(_attempt(line))
        past.idle += _between(past.last, str(line["time"]))
    elif what in ("answers", "told"):  # `told` in the journals of version 0.1.0
        values = line["values"]
        if not isinstance(values, Mapping):
            raise ValueError
        past.apply_answers(str(line["lane"]), values)
    elif what == "ended":
        past.ended, past.detail, past.at = str(line["state"]), str(line.get("detail", "")), str(line.get("time", ""))
        past.attempts[-1].ended, past.attempts[-1].state = past.at, past.state
        past.to_do, past.needs = ([str(item) for item in _listed(line, key)] for key in ("to_do", "needs"))
        for key in past.needs:  # what is asked anew was not answered by what was said before
            past.answers.get("", {}).pop(key, None)
    elif what == "hook":
        words = " ".join(str(word) for word in _listed(line, "command"))
        past.hooks.append(RanHook(str(line["hook"]), words, str(line["problem"]), str(line["time"])))
    elif isinstance(index, int):
        _take_action(past, index, line)
    past.last = str(line.get("time") or past.last)


def _take_heard(past: RunState) -> None:
    last = past.attempts[-1]
    last.heard = "" if last.state else past.last


def _take_action(past: RunState, index: int, line: Mapping[str, Json]) -> None:
    if not 0 <= index < len(past.plan.actions):
        raise ValueError
    record = past.record(index)
    if line["what"] == "intent":
        notes = {} if line.get("anew") is True else record.notes
        began = str(line.get("time", ""))
        past.records[index] = msgspec.structs.replace(record, begun=True, result=None, began=began, notes=notes)
    elif line["what"] == "note":
        if line["key"] == "until" and datetime.fromisoformat(str(line["value"])).tzinfo is None:
            raise ValueError
        record.notes[str(line["key"])] = line["value"]
    elif line["what"] == "outcome":
        record.result = Result(Outcome(str(line["outcome"])), str(line["detail"]), line["value"], bool(line["partly"]))
        record.at = str(line.get("time", ""))


def _take_dismissal(past: RunState, path: Path) -> None:
    if not path.exists() or past.ended == "done":
        return
    past.ended = "dismissed"
    with suppress(ValueError, KeyError, TypeError, OSError, RecursionError):  # that it is there says enough
        said = json.loads(read_file(path))
        if datetime.fromisoformat(said["time"]).tzinfo is not None:
            past.at = str(said["time"])
        past.detail = f"dismissed by {said['actor']}: {said['reason']}"


def _listed(line: Mapping[str, Json], key: str) -> Sequence[Json]:
    value = line.get(key)
    return value if isinstance(value, list) else ()


def _between(first: str, then: str) -> float:
    return (datetime.fromisoformat(then) - datetime.fromisoformat(first)).total_seconds()


def journals(state: Path) -> list[Path]:
    """Return the files of all journals, oldest first."""
    with owned(state / RUNS), suppress(FileNotFoundError):
        return sorted(
            path for path in (state / RUNS).iterdir() if path.suffix == ".jsonl"
        )  # `glob` finds none in a closed one
    return []


def owned(folder: Path) -> AbstractContextManager[None]:
    """Say what to do where a folder of ours cannot be read."""
    return explaining(f"{folder} cannot be read", _OWNER)
