"""Holds: why a snapshot must stay, on a person's word or while a restore needs it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from maint.model.formatting import parse_time, show_count, tell_time
from maint.model.json import Json, as_json
from maint.ports import Site
from maint.snapshots.manifest import time_of
from maint.snapshots.records import Record, named, read_records, write_record

HOLD = "hold"
RELEASE = "release"
RESTORE = "restore"  # begun or ended; what a restore that has not ended needs is held
BEGUN, ENDED = "begun", "ended"


class Hold(msgspec.Struct, frozen=True):
    """Why a snapshot must stay, since when, on whose word, and until when (None: until it is released)."""

    reason: str
    at: datetime
    by: str = ""
    until: datetime | None = None
    run: str = ""  # the unfinished restore that needs it, "unknown" where its record does not say; "": a person's word
    doubted: str = ""  # the name of its record, where that cannot be verified

    def stands(self, now: datetime) -> bool:
        """Whether it has not run out."""
        return self.until is None or now < self.until

    @property
    def words(self) -> str:
        """The hold in one line."""
        end = f" until {tell_time(self.until)}" if self.until else ""
        return f"held{f' by {self.by}' if self.by else ''}{end}: {self.reason}"

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as it also stands in records."""
        return {name: value for name, value in as_json(self).items() if name not in ("run", "doubted")}


def words_of(holds: Iterable[Hold], now: datetime) -> list[str]:
    """Return in words the holds that stand; of several that cannot be verified one line tells."""
    found = [hold for hold in holds if hold.stands(now)]
    doubted = [hold for hold in found if hold.doubted]
    if len(doubted) > 1:
        many = f"{show_count(len(doubted), 'record')} of holds or restores, such as {doubted[-1].doubted}"
        told = Hold(f"{many}, cannot be verified, or are gone: what they may need stays", doubted[-1].at)
        found = [*(hold for hold in found if not hold.doubted), told]
    return [hold.words for hold in found]


def end_of(day: date) -> datetime:
    """Return the moment at which a hold "until this day" runs out: the day itself still counts, UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def add_hold(site: Site, snapshot_id: str, reason: str, until: datetime | None, by: str) -> str:
    """Keep a snapshot from being pruned (`until` None: for ever), under the lock; return the name of the record."""
    now = site.clock.now()
    facts = Hold(reason, now, by, until).to_json()
    return write_record(site, HOLD, snapshot_id, facts, now)


def begin_restore(site: Site, snapshot_id: str, run: str, by: str) -> None:
    """Keep what a restore needs, from any machine that shares the store, until it has ended; under the lock.

    Args:
        run: the restore's run; one that is noted already, by an earlier attempt, is not noted again.
        by: user and machine, for people.
    """
    if run not in {one.run for one in standing_holds(read_records(site)).get(snapshot_id, ())}:
        _write_restore(site, snapshot_id, BEGUN, run, by)


def end_restore(site: Site, run: str, by: str, elsewhere: Collection[str] = ()) -> None:
    """Let go of what a restore needed; nothing is written where it held nothing, or a release has freed it.

    Args:
        elsewhere: what copies may hold for it; what the first store tells frees it there.
    """
    here = {one for one, holds in standing_holds(read_records(site)).items() if run in {hold.run for hold in holds}}
    for snapshot_id in sorted(here.union(elsewhere)):
        _write_restore(site, snapshot_id, ENDED, run, by)


def _write_restore(site: Site, snapshot_id: str, state: str, run: str, by: str) -> None:
    reason = f"restore {run} has begun, and may have to be resumed"
    facts = {"state": state, "run": run, "by": by, "reason": reason}
    write_record(site, RESTORE, snapshot_id, facts)


def release_holds(site: Site, snapshot_id: str, reason: str, by: str) -> str:
    """End all holds of a snapshot; return the name of the record. See `add_hold` for the arguments."""
    return write_record(site, RELEASE, snapshot_id, {"reason": reason, "by": by})


def standing_holds(records: Iterable[Record], doubtful: Iterable[str] = ()) -> Mapping[str, tuple[Hold, ...]]:
    """Return each snapshot's holds that nobody released, expired ones included.

    Args:
        records: in order of time.
        doubtful: names of records that cannot be verified; what may be a hold, or a restore that has begun, holds until
            a release; nothing frees.
    """
    past, found = list(records), dict[str, tuple[Hold, ...]]()
    over = {str(one.facts.get("run")) for one in past if one.kind == RESTORE and one.facts.get("state") == ENDED}
    unread = [_doubted(name) for name in doubtful if named(name)[0] in (HOLD, RESTORE)]
    for record in sorted([*(one for one in unread if one is not None), *past], key=lambda one: one.at):
        if record.kind == HOLD or (record.kind == RESTORE and str(record.facts.get("run")) not in over):
            found[record.snapshot] = (*found.get(record.snapshot, ()), _hold_of(record))
        elif record.kind == RELEASE:
            found.pop(record.snapshot, None)
    return found


def _doubted(name: str) -> Record | None:
    (kind, snapshot), file = named(name), name.rpartition("/")[2]
    try:
        at = time_of(file)
    except ValueError:
        return None
    words = f"a record of a {kind}, {file}, cannot be verified, or is gone: what it may need stays"
    return Record(kind, snapshot, "", at, {"reason": words, "doubted": file})


def _hold_of(record: Record) -> Hold:
    """Return the hold in a record; an end that cannot be read counts as none, since a hold errs towards keeping."""
    reason, by, until, run = (record.facts.get(name) for name in ("reason", "by", "until", "run"))
    whose, doubted = str(run or "unknown") if record.kind == RESTORE else "", str(record.facts.get("doubted") or "")
    return Hold(str(reason or "no reason given"), record.at, str(by or ""), parse_time(until), whose, doubted)
