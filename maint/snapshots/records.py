"""What happened to a snapshot after it was taken: signed files `<site>/records/<time>-<kind>-<id>.json`, only added."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import msgspec

from maint import files
from maint.errors import PartlyDone, StoreFailed, WorkFailed
from maint.model.formatting import show_count, show_time
from maint.model.json import Json, Moment, as_json
from maint.model.snapshot import RuleResult, Snapshot, Trust
from maint.ports import Sight, Site
from maint.retry import briefly
from maint.snapshots.manifest import MANIFEST, UNTRUSTED, is_id, stamp
from maint.snapshots.parts import listing, read_pair, read_signed

FORMAT = "maint-record/1"
LARGEST = 1024 * 1024
_TRIES = 1000  # milliseconds in a row that other records may have taken
FEW = 3  # records that a store may fail to give before it is away as a whole: each may take until its limit


class After(msgspec.Struct, frozen=True):
    """The record that the same machine had written before."""

    store: str  # where it lies
    name: str


class Record(msgspec.Struct, frozen=True):
    """One entry: what kind of happening, to which snapshot, when, what it says, and after which one it was written."""

    kind: str
    snapshot: str
    site: str
    at: Moment
    facts: Mapping[str, Any]  # Any: whatever JSON holds
    after: After | None = None


class _Read(Record, frozen=True, kw_only=True):
    format: Literal["maint-record/1"]


def unkept(failure: WorkFailed) -> PartlyDone:
    """Return what is told where something was found and shown, and the store takes no record of it."""
    words = f"what was found is not kept: {failure.message}"
    return PartlyDone(words, detail=failure.detail, hint=failure.hint or "once the store takes it, run it again")


def write_record(site: Site, kind: str, snapshot_id: str, facts: Mapping[str, Json], at: datetime | None = None) -> str:
    """Sign and store what happened (`at`: now); return its name. Where its millisecond is taken, it takes the next.

    Raises:
        StoreFailed: it was not stored, as where all that was is gone, or the store says of each name that it is taken.
    """
    if kind != MISSED:
        insist_there(site)
    at, head = at or site.clock.now(), {"format": FORMAT, "kind": kind, "snapshot": snapshot_id}
    here, last = site.store.location, _last(site)
    after = {"after": {"store": here, "name": last[here]}} if here in last else {}
    at = max([at, *(one + timedelta(milliseconds=1) for one in _later(site, snapshot_id, at))])
    for _ in range(_TRIES):
        content = {**head, "site": site.settings.name, "at": show_time(at), "facts": dict(facts), **after}
        raw = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
        name = place_of(site.settings.name, at, kind, snapshot_id)
        try:
            for path, written in ((f"{name}.sig", site.sign.sign(raw)), (name, raw)):
                with site.store.create(path) as file:
                    file.write(written)
        except FileExistsError:  # another machine, or this one a moment ago
            at += timedelta(milliseconds=1)
            continue
        with suppress(WorkFailed, OSError):  # it stands, and what cannot be remembered here is told by nobody
            files.keep_record(_last_path(site), {**last, here: name})
        return name
    raise StoreFailed(
        f"{site.store.location} says of {_TRIES} names of records that they are taken, up to {name}",
        hint="look what lies there: a store that says so of a new name cannot be relied on",
    )


def _last(sight: Sight) -> Mapping[str, str]:
    """Return which record this machine wrote last, by store."""
    return files.kept_record(_last_path(sight), dict[str, str]) or {}


def _last_path(sight: Sight) -> Path:
    return sight.settings.state / "recorded.json"


def _unlisted(sight: Sight, found: Iterable[Record]) -> Iterator[str]:
    """Yield the names of records that were written into this store, as later ones or this machine say, and are not
    among those found.
    """
    here, there = sight.store.location, set[str]()
    told = {_last(sight).get(here, "")}
    for one in found:
        there.add(place_of(one.site, one.at, one.kind, one.snapshot))
        told |= {one.after.name} if one.after is not None and one.after.store == here else set()
    yield from sorted(name for name in told - there if name.startswith(f"{sight.settings.name}/records/"))


def lost(sight: Sight) -> Sequence[str]:
    """Return the names of records that the store has lost, those apart of which `backup list --rebuild` has told."""
    past, doubtful, _ = read_all(sight)
    told = {name for one in past if one.kind == MISSED for name in one.facts["names"]}
    return [one for one in doubtful if one not in told and sight.store.size(one) is None]


def insist_there(sight: Sight) -> None:
    """Raise StoreFailed where this machine has stored for the site and nothing is left: its disk may not be mounted."""
    site = sight.settings.name
    if any(listing(sight, f"{site}/records")) or not _last(sight).get(sight.store.location):
        return
    if not any(listing(sight, site)):
        raise StoreFailed(
            f"{sight.store.location} holds nothing of {site} any more, though this machine stored there",
            detail=hidden(sight) or ["is its disk mounted?"],
            hint=f"{'bring that back' if hidden(sight) else 'mount it'}, or"
            f" `maint backup list --rebuild --store {quote(sight.store.location)}` where all of it is lost"
            + a_copy(sight),
        )


def hidden(sight: Sight) -> list[str]:
    """Return, of a bucket that shows no snapshot, that what was removed from it may still be there; else nothing."""
    is_bucket = sight.store.location.startswith("s3://")
    words = "where some were removed: a bucket with versioning only hides them (`maint help stores` brings them back)"
    return [words] if is_bucket else []


def a_copy(sight: Sight) -> str:
    """Return, for the end of a hint, where else the site's snapshots are; empty where they are nowhere else."""
    copies = sight.settings.backup.copies if sight.settings.backup else ()
    others = [one for one in copies if one != sight.store.location]
    return f"; `maint backup list --store {quote(others[0])}` looks into a copy" if others else ""


def instead(sight: Sight) -> Sequence[str]:
    """Return what a store without a snapshot of the site holds instead, a line each: of other sites, or misnamed."""
    site, whole = sight.settings.name, set[tuple[str, str]]()
    with briefly(sight.clock), suppress(WorkFailed):  # of a store that lists for hours, what it told at first
        for name in listing(sight, ""):
            one, folder, last = (*name.split("/"), "", "")[:3]
            whole |= {(one, folder)} if last.lower() == MANIFEST else set()
    others = sorted({one for one, folder in whole if one != site and is_id(folder)})
    misnamed = sorted(f"{one}/{folder}" for one, folder in whole if one == site and not is_id(folder))
    lines = [f"it holds snapshots of {', '.join(others)}: a site is found under the name that it had"] if others else []
    if misnamed:
        lines += [
            f"{misnamed[-1]} holds a manifest, and is no name of a snapshot: was it renamed, or its case changed?"
        ]
    return lines


def _later(sight: Sight, snapshot_id: str, at: datetime) -> Iterator[datetime]:
    """Yield the times of signed records about a snapshot that a clock which was ahead has put behind this moment.

    Their order decides: a hold, or a failure, must not stand before the release, or the success, that it came after.
    """
    names = [name for name in _names(sight) if named(name)[1] == snapshot_id and name.rpartition("/")[2] >= stamp(at)]
    yield from (one.at for one in map(partial(_read, sight), names) if one is not None)


def read_records(sight: Sight) -> Iterator[Record]:
    """Yield all records of the site that are signed by a trusted key, in order of time; others count for nothing.

    Raises:
        StoreFailed: one could not be read.
    """
    yield from (one for _, one in _each(sight) if one is not None)


def read_kinds(sight: Sight, *kinds: str, of: str = "") -> tuple[list[Record], list[str]]:
    """Return the records of some kinds (none named: of all), and the names of those that cannot be verified.

    Args:
        of: the id of the snapshot that they are about; the others are not read. Empty: of all.
    """
    records, doubtful = list[Record](), list[str]()
    for name, record in _each(sight, kinds, of):
        records += [record] if record is not None else []
        doubtful += [name] if record is None else []
    return records, doubtful


def read_all(sight: Sight, *kinds: str) -> tuple[list[Record], list[str], Mapping[str, StoreFailed]]:
    """Return what `read_kinds` does, and, of each snapshot of which the store did not give a record, why.

    Where all are asked for, those too that the store does not list; one that it has lost counts as not to be verified.

    Raises:
        StoreFailed: it did not give several of them, so it is away as a whole.
    """
    records, doubtful, unread, failed = list[Record](), list[str](), dict[str, StoreFailed](), 0
    for name in _names(sight, kinds):
        try:
            record = _read(sight, name)
        except StoreFailed as failure:
            if (failed := failed + 1) > FEW:
                raise
            unread[named(name)[1]] = failure
            record = None
        records += [record] if record is not None else []
        doubtful += [name] if record is None else []
    while more := [] if kinds else [one for one in _unlisted(sight, records) if one not in doubtful]:
        for name in more:
            record = _read(sight, name) if sight.store.size(name) is not None else None
            records += [record] if record is not None else []  # which may name another that is not listed
            doubtful += [name] if record is None else []
    return sorted(records, key=lambda one: one.at), doubtful, unread


def read_of(sight: Sight, snapshot_id: str, kind: str) -> Iterator[Record]:
    """Yield the records of one kind about one snapshot as `read_records` does; the others are not read."""
    yield from (one for _, one in _each(sight, [kind], snapshot_id) if one is not None)


def _each(sight: Sight, kinds: Sequence[str] = (), of: str = "") -> Iterator[tuple[str, Record | None]]:
    yield from ((name, _read(sight, name)) for name in _names(sight, kinds, of))


def _names(sight: Sight, kinds: Sequence[str] = (), of: str = "") -> Iterator[str]:
    for name in listing(sight, f"{sight.settings.name}/records"):
        kind, id_ = named(name)
        if is_record(name) and (not kinds or kind in kinds) and of in ("", id_):
            yield name


def place_of(site: str, at: datetime, kind: str, snapshot_id: str) -> str:
    """Return the name of a record in the store."""
    return f"{site}/records/{stamp(at)}-{kind}-{snapshot_id}.json"


def is_record(name: str) -> bool:
    """Tell by its name whether a file is a record; others are somebody else's, such as a "conflicted copy"."""
    return name.endswith(".json") and is_id(named(name)[1])


def named(name: str) -> tuple[str, str]:
    """Return the kind and the id that the name of a record tells, whatever stands in it."""
    _, kind, id_ = (*name.rpartition("/")[2].removesuffix(".json").split("-", 2), "", "")[:3]
    return kind, id_


def _read(sight: Sight, name: str) -> Record | None:
    try:
        read = msgspec.json.decode(read_signed(sight, name, f"{name}.sig", LARGEST), type=_Read)
        place = place_of(sight.settings.name, read.at, read.kind, read.snapshot)
    except StoreFailed:  # which says nothing of the record: without it a hold or a failure would be none
        raise
    except (WorkFailed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, ValueError):
        return None
    if name != place or read.site != sight.settings.name:
        return None
    return read


def read_to_copy(sight: Sight, name: str) -> tuple[bytes, bytes]:
    """Return a record and its signature, read once; one signed by a key that is not trusted here may be sound.

    Raises:
        StoreFailed: it could not be read.
        WorkFailed: it is damaged.
    """
    content, signature = read_pair(sight, name, f"{name}.sig", LARGEST)
    try:
        sight.sign.verify(content, signature)
    except WorkFailed as failure:
        if not failure.message.endswith(UNTRUSTED):
            raise
    return content, signature


LOST = "is lost: see `maint backup list --rebuild`"
MISSED = "missed"  # that the store has lost records, which somebody has seen
PRUNE = "prune"
THAW = "thaw"  # that a snapshot is well which holds so much less than those before, or that no key has opened yet
DRILL = "drill"
REKEY = "rekey"  # that a snapshot is another one, encrypted anew
PASSED, FAILED = "passed", "failed"


class Drill(msgspec.Struct, frozen=True):
    """One drill as its record tells it."""

    snapshot: str
    at: datetime
    passed: bool
    reason: str  # why not, or what was found
    rto_seconds: float | None  # from opening the snapshot to the configuration read back

    def to_json(self, now: datetime) -> dict[str, Json]:
        """Return it as JSON, its age in seconds."""
        said = {name: value for name, value in as_json(self).items() if name != "passed"}
        age = round((now - self.at).total_seconds(), 3)
        return {**said, "age": age, "result": PASSED if self.passed else FAILED}


def drills_in(past: Iterable[Record]) -> Sequence[Drill]:
    """Return the drills among records, in their order."""
    return [_drill(record) for record in past if record.kind == DRILL]


def latest_drills(past: Collection[Record], snapshots: Iterable[Snapshot]) -> Mapping[str, Drill]:
    """Return the latest drill of each, by id; else that of the one encrypted anew into it, which has its contents.

    Of one in between that is gone, its record says what it was made of; a kill may have kept that from being written.
    """
    drilled, among = {one.snapshot: one for one in drills_in(past)}, list(snapshots)
    origin = {one.snapshot: str(one.facts.get("from")) for one in past if one.kind == REKEY}
    origin |= {one.id: one.rekeyed_from["snapshot"] for one in among if "snapshot" in one.rekeyed_from}
    found = dict[str, Drill]()
    for one in among:
        source = one.id
        for _ in origin:
            if source in drilled or source not in origin:
                break
            source = origin[source]
        found |= {one.id: drilled[source]} if source in drilled else {}
    return found


def drills(sight: Sight) -> Sequence[Drill]:
    """Return all drills of the site whose records are signed by a trusted key, in order of time.

    Raises:
        StoreFailed: some cannot be read, or all that was is gone.
    """
    found = drills_in(read_all(sight, DRILL)[0])
    if not found:
        insist_there(sight)
    return found


def last_good(found: Sequence[Drill]) -> Drill | None:
    """Return the newest drill that passed, None where none did."""
    return next((one for one in reversed(found) if one.passed), None)


def _drill(record: Record) -> Drill:
    seconds = record.facts.get("rto_seconds")
    return Drill(
        record.snapshot,
        record.at,
        record.facts.get("result") == PASSED,
        str(record.facts.get("reason") or ""),
        float(seconds) if isinstance(seconds, int | float) and abs(seconds) < 1e9 else None,
    )


# The rules of levels 1 and 2: all others judge what the document says.
BYTES = frozenset({"manifest", "parts", "part", "content", "counts"})
PART = "part"  # the rule of a finding on the bytes of one file; neither well nor wrong where it could not be read
KEY = "key"  # the rule of a finding that no private key at hand opens the snapshot
TIME = "time"  # the rule of a finding that it comes from the future
LOGIN = "login"  # the rule of a finding on what the configured account and its password open
STRAY = "lies there and is no part of it: take it away"  # how the doubt about such a file ends
DEPTHS = {
    1: "stored bytes against the signed manifest",
    2: "decrypted, decompressed, parsed, counted",
    3: "rules of a restore",
}


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification."""

    snapshot: str
    level: int  # asked for
    depth: int  # reached with everything well
    parts_checked: int
    parts: int
    at: datetime
    on_capture: bool = False  # levels 2 and 3 rest on the judgement made when it was taken, in the signed manifest
    findings: Sequence[RuleResult] = ()  # one per rule
    # why virtual clusters are not taken for the truth although nothing is wrong with the bytes; files that are no parts
    doubts: Sequence[str] = ()
    files_read: datetime | None = None  # since when every file of its virtual clusters is known to have been read

    @property
    def result(self) -> Trust:
        """Failed when anything is wrong; verified when all was seen; not verified when something could not be seen."""
        if self.failures:
            return Trust.FAILED
        return Trust.VERIFIED if self.proven and not self.doubts else Trust.NOT_VERIFIED

    @property
    def proven(self) -> bool:
        """Whether all was seen as deep as asked, whatever is doubted of virtual clusters: it speaks of the manager."""
        return not self.failures and self.depth >= self.level

    @property
    def failures(self) -> Sequence[RuleResult]:
        """What is wrong."""
        return [finding for finding in self.findings if finding.passed is False]

    @property
    def broken_bytes(self) -> Sequence[RuleResult]:
        """What is wrong with the bytes themselves, whatever they say."""
        return [finding for finding in self.failures if finding.rule in BYTES]

    @property
    def unread(self) -> Sequence[str]:
        """What the store did not give, in words, which says nothing of it."""
        return [finding.words for finding in self.findings if finding.rule == PART and finding.passed is None]

    @property
    def locked(self) -> bool:
        """Whether no private key at hand opens it."""
        return any(finding.rule == KEY for finding in self.findings)

    @property
    def misdated(self) -> bool:
        """Whether nothing is wrong but that it comes from the future: one of two clocks is, and it may be ours."""
        return bool(self.failures) and all(finding.rule == TIME for finding in self.failures)

    @property
    def shut_out(self) -> bool:
        """Whether nothing is wrong but that the configured account does not get in: either is of another day."""
        return bool(self.failures) and all(finding.rule == LOGIN for finding in self.failures)

    @property
    def unknown_signer(self) -> bool:
        """Whether its manifest is signed by a key that is not trusted here: it may be, tomorrow or elsewhere."""
        return any(finding.words.endswith(UNTRUSTED) for finding in self.failures)

    @property
    def way_on(self) -> str:
        """What to do where it is not proven; a key that does not fit says nothing of the snapshot."""
        if self.unknown_signer:
            return "if you know who took it, name that machine's `keys/signing.pub` in `backup.trusted_keys`, and again"
        if self.misdated:
            return "look whether this machine's clock is right, then again"
        if self.shut_out:
            return "give `manager.username` and `manager.password` as they were when it was taken, then again"
        if self.unread:
            return "look whether the store answers, then again"
        if self.locked:
            return "bring the private key of one of those (`backup.identity` in the config)"
        return "choose a sound one from `maint backup list`"

    @property
    def words(self) -> str:
        """The result in one line; always with depth and parts."""
        how = ", contents as judged when it was taken" if self.on_capture and self.depth > 1 else ""
        parts = f"{self.parts_checked} of {show_count(self.parts, 'part')}"
        line = f"{self.result}: level {self.depth} of {self.level}, {parts}{how}"
        untold = [*self.unread, *(finding.words for finding in self.findings if finding.rule == KEY)]
        return "; ".join([line, *(finding.words for finding in self.failures), *untold, *self.doubts])

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as it also stands in records."""
        return {**as_json(self), "result": self.result.value}


class Taken(msgspec.Struct, frozen=True):
    """A snapshot that is stored, and what the read-back proved."""

    snapshot: Snapshot
    verification: Verification


def told_of(sight: Sight) -> tuple[set[str], set[str]]:
    """Return the ids of which the names of records tell that they were there, and that they were removed."""
    told = [named(name) for name in listing(sight, f"{sight.settings.name}/records")]
    there = {one for kind, one in told if kind == "verify" and is_id(one)}
    return there, {one for kind, one in told if kind == PRUNE}
