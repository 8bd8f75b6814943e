"""What changed from day to day, by redacted copies alone; a comparison is made once, and kept."""

import itertools
from collections.abc import Sequence
from contextlib import suppress

from maint.cli.composition import ConfiguredSite
from maint.errors import MaintError
from maint.files import keep_record, kept_record, make_folder
from maint.model.snapshot import Purpose, Snapshot
from maint.report.site_facts import Change, Day
from maint.snapshots.catalogue import Entry
from maint.snapshots.diff import differences, of_snapshot, place
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY

DAYS = 14
_LONGEST = 2000  # characters of a value on a page
_MOST = 500  # changes of a day on a page


def days_of(site: ConfiguredSite, known: Sequence[Entry]) -> Sequence[Day]:
    """Return how the last snapshot of each of the last days differs from that of the day before, the oldest first."""
    last: dict[str, Snapshot] = {}
    for one in known:
        snapshot = one.snapshot
        if snapshot is not None and snapshot.purpose is Purpose.BACKUP and snapshot.has(DEPLOYMENT):
            last[f"{snapshot.taken_at:%Y-%m-%d}"] = snapshot
    chosen = [*last.values()][-DAYS - 1 :]
    return [_day(site, before, after) for before, after in itertools.pairwise(chosen)]


def _day(site: ConfiguredSite, before: Snapshot, after: Snapshot) -> Day:
    path = site.state / "changes" / f"{before.id}-{after.id}.json"
    if (known := kept_record(path, Day)) is not None:
        return known
    try:
        found = _compared(site, before, after)
    except MaintError as error:
        return Day(before.id, after.id, after.taken_at, problem=error.message)
    with suppress(OSError):  # it is worked out again
        if site.state.is_dir():
            make_folder(path.parent)
        keep_record(path, found)
    return found


def _compared(site: ConfiguredSite, before: Snapshot, after: Snapshot) -> Day:
    if not (before.has(REDACTED_COPY) and after.has(REDACTED_COPY)):
        return Day(before.id, after.id, after.taken_at, problem="one of them has no redacted copy")
    sides = [of_snapshot(site, one, redacted=True) for one in (before, after)]
    found = differences(site, *sides).differences
    changes = [Change(*place(one.steps), _short(one.before), _short(one.after)) for one in found[:_MOST]]
    return Day(before.id, after.id, after.taken_at, changes)


def _short(value: str | None) -> str | None:
    return value if value is None or len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
