"""Gather what the catalogue page tells of a site: from its stores, its journals, and what was kept of host checks."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import outcomes
from maint.config.schema import BackupSettings
from maint.engine import past_runs
from maint.engine.journal import later_version
from maint.engine.lock import run_at_work
from maint.errors import Failure, Refused
from maint.files import keep_record, kept_record, make_folder
from maint.model.formatting import parse_duration, show_count, tell_times
from maint.model.json import Json
from maint.model.secret import scrub
from maint.model.snapshot import Purpose, Snapshot
from maint.ports import Site, Store
from maint.report.pages import MARKS
from maint.report.site_facts import (
    AT_WORK,
    AUDIT_ONLY,
    BY_NAME,
    DAMAGED,
    NO_BACKUP,
    OTHER,
    RESTORABLE,
    Change,
    Copy,
    Day,
    HostChecks,
    HostResult,
    PageFacts,
    ReportedDrill,
    ReportedRun,
    Shot,
    VerbEnd,
)
from maint.snapshots.catalogue import Entry, entries
from maint.snapshots.diff import differences, of_snapshot, place
from maint.snapshots.holds import words_of
from maint.snapshots.manifest import time_of
from maint.snapshots.open_windows import announced_here, beside, left_open, remembered
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY
from maint.snapshots.prune import candidate, candidates, doubt, good, newest_good, stored_bytes
from maint.snapshots.records import drills
from maint.snapshots.replicate import every_store, suspect, with_store
from maint.snapshots.retention_policy import Candidate, decide

KEPT = "page.json"  # what a page last told of a site
CHECKS = "checks.json"  # what the last check of all hosts said
DRILL_AGE = "35d"  # how old the last good drill may be
_AHEAD = 14  # backups to come that retention is worked out for
_RUNS = 20
_DAY = timedelta(days=1)
_YEAR = 366 * 86400.0  # seconds; a clock that was far off must not lead beyond the calendar


def gather(site: ConfiguredSite, unasked: str = "") -> PageFacts:
    """Return what is known now: of the first store, else of a copy that answers, else of the stores as last seen.

    Where the first holds no way back, it is looked for in the copies, in their order.

    Args:
        unasked: why no store is asked; empty: they are.

    Raises:
        DeadlinePassed: a store did not answer within the limit around this.
    """
    facts, before = _here(site, ask=not unasked), last_facts(site.state)
    facts = msgspec.structs.replace(facts, changed=before.changed if before else ())
    stores = every_store(site) if site.settings.backup is not None else []
    problems = [unasked] * len(stores) if unasked else []
    read: list[tuple[Site, Sequence[Entry]]] = []
    for store in stores[len(problems) :]:
        with _noting(problems):
            read.append((store, entries(store)))
            if _worth(read[-1][1], facts.seen) == _BEST:
                break
    if read:  # one that is empty may be a disk that is not mounted
        store, known = max(read, key=lambda one: _worth(one[1], facts.seen))  # of equals the first
        worse = read[: [one for one, _ in read].index(store)]
        told = (f"{one.store.location} holds {'no verified backup' if found else 'nothing'}" for one, found in worse)
        facts = _told(facts, store, known, site.copies, [*problems, *told])
        barren = {
            one.store.location for one, found in read if not any(entry.restorable or entry.unread for entry in found)
        }
        copies = [msgspec.structs.replace(one, barren=one.location in barren) for one in facts.copies]
        return msgspec.structs.replace(facts, copies=copies)
    before, problems = before or facts, problems or [NO_BACKUP]
    old = {one.location: one for one in before.copies}
    copies = [old.get(one.store.location, Copy(one.store.location)) for one in stores[1:]]
    return msgspec.structs.replace(
        facts, problem=problems[0], store=before.store, read=before.read, shots=before.shots, stored=before.stored,
        policy=before.policy,
        drills=before.drills, days=before.days,
        copies=[msgspec.structs.replace(one, problem=why) for one, why in zip(copies, problems[1:], strict=True)],
    )  # fmt: skip


_BEST = 3


def _worth(known: Sequence[Entry], now: datetime) -> int:
    """Return what a store is worth for a restore: a good one, one at all, anything, or nothing."""
    if newest_good(known, now) is not None:
        return _BEST
    return 2 if any(one.offered for one in known) else min(len(known), 1)


def last_facts(state: Path) -> PageFacts | None:
    """Return what a site's page told last, with the last check of its hosts; None where there is none."""
    facts = kept_record(state / KEPT, PageFacts)
    return msgspec.structs.replace(facts, checks=kept_record(state / CHECKS, HostChecks)) if facts else None


def _here(site: ConfiguredSite, *, ask: bool) -> PageFacts:
    """Return what no store has to be read for, but for windows, of which they are asked where `ask`."""
    settings, backup = site.settings, site.settings.backup
    ended = [one for one in outcomes.last_outcomes(site.state) if one.verb in outcomes.SCHEDULED]
    windows, doubts = _windows(site, ask=ask)
    return PageFacts(
        settings.name, settings.manager.host, site.clock.now(), settings.labels,
        config=settings.config, first=backup.store if backup else "", backup_limit=backup.max_age if backup else 0.0,
        drill_limit=parse_duration(DRILL_AGE), keep=_kept(backup) if backup else "",
        windows=windows, doubts=doubts, runs=_runs(site.state),
        lost=[str(path) for path in past_runs.unreadable(site.state) if not later_version(path)],
        later=["; ".join(past_runs.told(path)) for path in past_runs.unreadable(site.state) if later_version(path)],
        checks=kept_record(site.state / CHECKS, HostChecks),
        ended=[VerbEnd(one.verb, one.exit, datetime.fromtimestamp(one.at, UTC), one.words, one.run) for one in ended],
    )  # fmt: skip


def _kept(backup: BackupSettings) -> str:
    if backup.keep is None:
        return ""
    counts = [f"{count} {kind}" for kind, count in backup.keep.model_dump().items() if count]
    return f"{', '.join(counts)}; at least {show_count(backup.minimum, 'good one')}"


def _told(
    facts: PageFacts, store: Site, known: Sequence[Entry], copies: Sequence[Store], problems: list[str]
) -> PageFacts:
    """Return what a store tells, each part by itself."""
    now, further = facts.seen, [one for one in copies if one.location != store.store.location]
    goes, policy = _going(store, known, now)
    told, days = list[ReportedDrill](), list[Day]()
    problems = [*problems, *(f"{one.id} {one.problem}" for one in [one for one in known if one.unread][:1])]
    with _noting(problems):
        told = [ReportedDrill(one.at, one.snapshot, one.passed, one.rto_seconds, one.reason) for one in drills(store)]
    with _noting(problems):
        days = [*days_of(store, known)]
    return msgspec.structs.replace(
        facts, store=store.store.location, read=now, stored=stored_bytes(known),
        shots=[_shot(one, goes, now) for one in known], policy=policy,
        drills=told, days=days, changed=_changed(facts, days, known),
        copies=[*_copies(store, further, known)], problem="; ".join(problems),
    )  # fmt: skip


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except Failure as error:
        problems.append(scrub(error.in_a_line))


def keep_checks(state: Path, at: datetime, answer: Mapping[str, Json]) -> None:
    """Keep what a check of all hosts said, as its JSON has it; OSError where that fails."""
    results = msgspec.convert(answer["findings"], list[HostResult])
    hosts = msgspec.convert(answer["hosts"], list[dict[str, str | bool | None]])
    whole = HostChecks(at, results, {str(one["name"]): str(one["reason"] or "") for one in hosts})
    keep_record(state / CHECKS, whole)


def _shot(one: Entry, goes: Mapping[str, datetime], now: datetime) -> Shot:
    snapshot, seen = one.snapshot, candidate(one, ())
    meant = snapshot is None or (snapshot.purpose is Purpose.BACKUP and snapshot.has(DEPLOYMENT))
    sound = RESTORABLE if one.offered else AUDIT_ONLY if meant else OTHER
    kind = OTHER if one.unread else DAMAGED if seen.damage else sound
    verified = one.verified.words if one.verified else ""
    named = BY_NAME if one.restorable and seen.kind == "safety copy" else seen.kind
    return Shot(
        one.id, time_of(one.id), kind, sum(part.bytes for part in snapshot.parts) if snapshot else 0, good(one),
        verified, "; ".join(words_of(one.holds, now)), goes.get(one.id),
        one.problem or seen.damage or (named if kind != RESTORABLE else ""), meant,
        "drill" if one.rejected else "verify",
    )  # fmt: skip


def _going(site: Site, known: Sequence[Entry], now: datetime) -> tuple[dict[str, datetime], str]:
    """Return when retention takes which snapshot if backups go on as they do, and why it takes nothing."""
    backup = site.settings.backup
    if backup is None or not known:
        return {}, ""
    there, goes = candidates(site, known), dict[str, datetime]()
    holds = {one.id: one.holds for one in known}
    pace = _pace([one.taken_at for one in there])
    like = max((one for one in there if one.good), key=lambda one: one.taken_at, default=Candidate("", now))
    try:
        for step in range(_AHEAD):
            at = now + step * pace
            times = [(f"~{number:03}", now + number * pace) for number in range(1, step + 1)]
            coming = [msgspec.structs.replace(like, id=id_, taken_at=then) for id_, then in times]
            decided = decide([*there, *coming], backup.keep, at, minimum=backup.minimum, holds=holds)
            for gone in decided.removed:
                goes.setdefault(gone, at)
    except Failure as error:
        return {}, error.message
    return {one: at for one, at in goes.items() if not one.startswith("~")}, doubt(known, now) or ""


def _pace(times: Sequence[datetime]) -> timedelta:
    gaps = [(then - before).total_seconds() for before, then in itertools.pairwise(times)]
    return timedelta(seconds=min(max(60.0, median(gaps[-30:])), _YEAR)) if gaps else _DAY


def _copies(site: Site, further: Sequence[Store], known: Sequence[Entry]) -> Iterator[Copy]:
    for store in further:
        problems = list[str]()
        with _noting(problems):
            yield _copy(site, store, known)
        if problems:
            yield Copy(store.location, problem=problems[0])


def _copy(site: Site, store: Store, known: Sequence[Entry]) -> Copy:
    wanted = {one.id for one in known if one.snapshot is not None or one.unread}
    found = entries(with_store(site, store))
    there = {one.id for one in found}
    return Copy(
        store.location,
        len(there),
        len(wanted - there),
        time_of(max(there)) if there else None,
        bytes=stored_bytes(found),
        doubtful=sum(map(suspect, found)),
    )


def _windows(site: ConfiguredSite, *, ask: bool) -> tuple[Sequence[str], Sequence[str]]:
    """Return the redaction windows that are open, and why others may be."""
    try:
        window = left_open(site) if ask else remembered(site.state)
    except Refused as damaged:
        return [damaged.message], []
    if window is not None:
        return [f"since {tell_times(window.opened_at)}, by run {window.run}"], []
    near = beside(site)
    found, doubts = [tell_times(one.words) for one in near.open], list(near.doubts)
    for store in every_store(site) if ask and site.settings.backup is not None else ():
        with _noting([]):  # of stores that are away, what follows tells
            told = announced_here(store)
            found += [tell_times(one.words) for one in told.open]
            doubts += told.doubts
    return list(dict.fromkeys(found)), doubts


def _runs(state: Path) -> Sequence[ReportedRun]:
    at_work, whole = run_at_work(state), past_runs.history(state)
    unfinished = {past.id for past in past_runs.unfinished(state)} - {at_work}
    first = whole[-_RUNS].id if len(whole) > _RUNS else ""
    chosen = {past.id: past for past in whole if past.id in {*unfinished, at_work} or past.id >= first}
    return [
        ReportedRun(
            past.id,
            past.plan.source,
            AT_WORK if past.id == at_work else past.state,
            datetime.fromisoformat(past.started),
            past.actor,
            past.id in unfinished,
            datetime.fromisoformat(past.at) if past.at and past.id != at_work else None,
            str(past.plan.parameters.get("snapshot") or ""),
        )
        for past in sorted(chosen.values(), key=lambda past: past.started, reverse=True)
    ]


DAYS = 14
_LONGEST = 2000  # characters of a value on a page
_MOST = 500  # changes of a day on a page


def days_of(site: Site, known: Sequence[Entry]) -> Sequence[Day]:
    """Return how the last snapshot of each of the last days differs from that of the day before, the oldest first."""
    last: dict[str, Snapshot] = {}
    for one in known:
        snapshot = one.snapshot
        if snapshot is not None and snapshot.purpose is Purpose.BACKUP and snapshot.has(DEPLOYMENT):
            last[f"{snapshot.taken_at:%Y-%m-%d}"] = snapshot
    chosen = [*last.values()][-DAYS - 1 :]
    return [_day(site, before, after) for before, after in itertools.pairwise(chosen)]


def _changed(facts: PageFacts, days: Sequence[Day], known: Sequence[Entry]) -> Sequence[tuple[datetime, int]]:
    """Return how many changes each day had, also of days that were told earlier, as far back as snapshots go."""
    since = min((one.snapshot.taken_at for one in known if one.snapshot is not None), default=datetime.now(UTC))
    told = [*facts.changed, *((one.at, one.count) for one in days if not one.problem)]
    counts = {at.date(): (at, count) for at, count in told if at >= since}
    return [counts[day] for day in sorted(counts)][-MARKS:]


def _day(site: Site, before: Snapshot, after: Snapshot) -> Day:
    path = site.state / "changes" / f"{before.id}-{after.id}.json"
    if (known := kept_record(path, Day)) is not None:
        return known
    try:
        found = _compared(site, before, after)
    except Failure as error:
        return Day(before.id, after.id, after.taken_at, problem=_text(error.message))
    with suppress(OSError):  # it is worked out again
        if site.state.is_dir():
            make_folder(path.parent)
        keep_record(path, found)
    return found


def _compared(site: Site, before: Snapshot, after: Snapshot) -> Day:
    if not (before.has(REDACTED_COPY) and after.has(REDACTED_COPY)):
        return Day(before.id, after.id, after.taken_at, problem="one of them has no redacted copy")
    sides = [of_snapshot(site, one, redacted=True) for one in (before, after)]
    found = differences(site, *sides).differences
    named = [(tuple(map(_text, one.steps)), one) for one in found[:_MOST]]
    changes = [Change(*place(steps), _short(one.before), _short(one.after)) for steps, one in named]
    return Day(before.id, after.id, after.taken_at, changes, more=len(found) - len(changes))


def _short(value: str | None) -> str | None:
    if value is None:
        return None
    return _text(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")


def _text(value: str) -> str:
    """Return a text of an export as a file may hold it: half a surrogate pair is spelled out."""
    return value.encode("utf-8", "backslashreplace").decode()
