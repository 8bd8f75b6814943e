"""Gather what the catalogue page tells of a site: from its stores, its journals, and what was kept of host checks."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.engine import journal
from maint.errors import DeadlinePassed, MaintError
from maint.files import keep_record, kept_record, make_folder
from maint.model.formatting import parse_duration
from maint.model.json import Json
from maint.model.snapshot import Purpose, Snapshot
from maint.ports import Store
from maint.report.site_facts import (
    AUDIT_ONLY,
    DAMAGED,
    OTHER,
    RESTORABLE,
    Change,
    Copy,
    Day,
    Drill,
    HostChecks,
    HostResult,
    Run,
    Shot,
    SiteFacts,
)
from maint.snapshots.catalogue import Entry, entries, folders
from maint.snapshots.diff import differences, of_snapshot, place
from maint.snapshots.manifest import MANIFEST, time_of
from maint.snapshots.open_windows import announced
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY
from maint.snapshots.prune import candidate, candidates, doubt, good
from maint.snapshots.records import drills
from maint.snapshots.replicate import with_store
from maint.snapshots.retention_policy import Candidate, decide
from maint.steps.manager.window_record import remembered

KEPT = "page.json"  # what a page last told of a site
_CHECKS = "checks.json"  # what the last check of all hosts said
DRILL_AGE = "35d"  # how old the last good drill may be
_AHEAD = 14  # backups to come that retention is worked out for
_RUNS = 20
_DAY = timedelta(days=1)


def gather(site: ConfiguredSite) -> SiteFacts:
    """Return what is known of a site now; a store that cannot be read is told, and everything else all the same."""
    now, settings = site.clock.now(), site.settings
    limit = settings.backup.max_age if settings.backup else 0.0
    base = SiteFacts(
        settings.name, settings.manager.host, now, settings.labels, backup_limit=limit,
        drill_limit=parse_duration(DRILL_AGE), runs=_runs(site.state),
        checks=kept_record(site.state / _CHECKS, HostChecks),
        store=str(settings.backup.store) if settings.backup else "",
    )  # fmt: skip
    try:
        known = entries(site)
        goes, policy = _going(site, known, now)
        return msgspec.structs.replace(
            base, shots=[_shot(one, goes, now) for one in known], policy=policy, copies=[*_copies(site, known)],
            drills=[Drill(d.at, d.snapshot, d.passed, d.rto_seconds, d.reason) for d in drills(site)],
            days=days_of(site, known), windows=_windows(site),
        )  # fmt: skip
    except DeadlinePassed:
        raise
    except MaintError as error:
        return msgspec.structs.replace(base, problem=error.message)


def keep_checks(state: Path, at: datetime, answer: Mapping[str, Json]) -> None:
    """Keep what a check of all hosts said, as its JSON has it; OSError where that fails."""
    results = msgspec.convert(answer["findings"], list[HostResult])
    hosts = msgspec.convert(answer["hosts"], list[dict[str, str | bool | None]])
    whole = HostChecks(at, results, {str(one["name"]): str(one["reason"] or "") for one in hosts})
    keep_record(state / _CHECKS, whole)


def _shot(one: Entry, goes: Mapping[str, datetime], now: datetime) -> Shot:
    snapshot, damage = one.snapshot, candidate(one).damage
    kind = DAMAGED if snapshot is None or damage else RESTORABLE if one.offered else AUDIT_ONLY
    if snapshot is not None and not damage and snapshot.purpose.value != "backup":
        kind = OTHER
    verified = f"{one.verified.result.value}, level {one.verified.level}" if one.verified else ""
    return Shot(
        one.id, time_of(one.id), kind, sum(part.bytes for part in snapshot.parts) if snapshot else 0, good(one),
        verified, "; ".join(hold.words for hold in one.holds if hold.stands(now)), goes.get(one.id),
        one.problem or damage or (candidate(one).kind if kind != RESTORABLE else ""),
    )  # fmt: skip


def _going(site: ConfiguredSite, known: Sequence[Entry], now: datetime) -> tuple[dict[str, datetime], str]:
    """Return when retention takes which snapshot if backups go on as they do, and why it takes nothing."""
    backup = site.settings.backup
    if backup is None or not known:
        return {}, ""
    there, goes = candidates(site, known), dict[str, datetime]()
    holds = {one.id: one.holds for one in known}
    pace = _pace([one.taken_at for one in there])
    try:
        for step in range(_AHEAD):
            at = now + step * pace
            coming = [Candidate(f"~{number:03}", now + number * pace) for number in range(1, step + 1)]
            decided = decide([*there, *coming], backup.keep, at, minimum=backup.minimum, holds=holds)
            for gone in decided.removed:
                goes.setdefault(gone, at)
    except DeadlinePassed:
        raise
    except MaintError as error:
        return {}, error.message
    return {one: at for one, at in goes.items() if not one.startswith("~")}, doubt(known, now) or ""


def _pace(times: Sequence[datetime]) -> timedelta:
    gaps = [(then - before).total_seconds() for before, then in itertools.pairwise(times)]
    return timedelta(seconds=max(60.0, median(gaps[-30:]))) if gaps else _DAY


def _copies(site: ConfiguredSite, known: Sequence[Entry]) -> Iterator[Copy]:
    wanted = {one.id for one in known if one.snapshot is not None}
    for store in site.copies:
        try:
            yield _copy(site, store, wanted)
        except DeadlinePassed:
            raise
        except MaintError as error:
            yield Copy(store.location, problem=error.message)


def _copy(site: ConfiguredSite, store: Store, wanted: set[str]) -> Copy:
    there = {one for one, names in folders(with_store(site, store)).items() if MANIFEST in names}
    return Copy(store.location, len(there), len(wanted - there), time_of(max(there)) if there else None)


def _windows(site: ConfiguredSite) -> Sequence[str]:
    window = remembered(site.state)
    if window is not None:
        return [f"open since {window.opened_at}, by run {window.run}"]
    return [one.words for one in announced(site).open]


def _runs(state: Path) -> Sequence[Run]:
    whole = journal.history(state)
    first = whole[-_RUNS].id if len(whole) > _RUNS else ""
    chosen = {past.id: past for past in whole if past.resumable or past.id >= first}
    return [
        Run(
            past.id,
            past.plan.source,
            past.state,
            datetime.fromisoformat(past.started),
            past.actor,
            past.resumable,
            datetime.fromisoformat(past.at) if past.at else None,
        )
        for past in sorted(chosen.values(), key=lambda past: past.started, reverse=True)
    ]


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
    except DeadlinePassed:
        raise
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
