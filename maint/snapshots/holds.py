"""Hold snapshots against pruning and release them, in signed records beside them: the store alone tells."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from maint.model.json import Json
from maint.ports import Site
from maint.snapshots.ids import show_time
from maint.snapshots.records import Record, write_record

HOLD = "hold"
RELEASE = "release"


class Hold(msgspec.Struct, frozen=True):
    """Why a snapshot must stay, since when, on whose word, and until when (None: until it is released)."""

    reason: str
    at: datetime
    by: str = ""
    until: datetime | None = None

    def stands(self, now: datetime) -> bool:
        """Whether it has not run out."""
        return self.until is None or now < self.until

    @property
    def words(self) -> str:
        """The hold in one line."""
        end = f" until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else ""
        return f"held{f' by {self.by}' if self.by else ''}{end}: {self.reason}"

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as it also stands in records."""
        return {
            "reason": self.reason,
            "at": show_time(self.at),
            "by": self.by,
            "until": show_time(self.until) if self.until else None,
        }


def end_of(day: date) -> datetime:
    """Return the moment at which a hold "until this day" runs out: the day itself still counts, UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def hold(site: Site, snapshot_id: str, reason: str, until: datetime | None, by: str) -> str:
    """Keep a snapshot from being pruned; return the name of the record.

    Args:
        site: the site; its lock is the caller's affair.
        snapshot_id: the whole id.
        reason: why, in the operator's words.
        until: when it runs out, None for never.
        by: who says so.
    """
    now = site.clock.now()
    facts = Hold(reason, now, by, until).to_json()
    return write_record(site, Record(HOLD, snapshot_id, site.settings.name, now, facts))


def release(site: Site, snapshot_id: str, reason: str, by: str) -> str:
    """End all holds of a snapshot; return the name of the record. See `hold` for the arguments."""
    now = site.clock.now()
    return write_record(site, Record(RELEASE, snapshot_id, site.settings.name, now, {"reason": reason, "by": by}))


def held(records: Iterable[Record]) -> Mapping[str, tuple[Hold, ...]]:
    """Return the holds of each snapshot that nobody has released, those that have run out among them.

    Args:
        records: all records, in order of time.
    """
    found: dict[str, tuple[Hold, ...]] = {}
    for record in records:
        if record.kind == HOLD:
            found[record.snapshot] = (*found.get(record.snapshot, ()), _read(record))
        elif record.kind == RELEASE:
            found.pop(record.snapshot, None)
    return found


def _read(record: Record) -> Hold:
    """Return the hold in a record; an end that cannot be read counts as none, since a hold errs towards keeping."""
    reason, by, until = (record.facts.get(name) for name in ("reason", "by", "until"))
    return Hold(str(reason or "no reason given"), record.at, str(by or ""), _moment(until))


def _moment(text: Json) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else None
