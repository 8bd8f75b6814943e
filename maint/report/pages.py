"""The catalogue pages: a file for the estate, for each site, for each day's changes; no script, no network."""

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import groupby
from pathlib import Path

import maint
from maint import files
from maint.model.formatting import show_count, show_duration, show_size
from maint.render import from_file
from maint.report import site_facts
from maint.report.plots import LACKING, Plot
from maint.report.recovery import (
    FAIL,
    OK,
    WARN,
    Moment,
    RecoveryAnswer,
    Trouble,
    answer,
    moment,
    state_of,
    troubles,
    unfinished,
)

MODE = 0o640  # nothing in it is secret, and not everybody's business
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "error": "?", "skip": "\u2013"}
_ROWS = 200  # of a table; older rows are counted
_HEAD = 400  # bytes of a page within which it says what it was written of
_SITE = re.compile(rb'<meta name="maint-site" content="([^"]*)">')
# Times that a line would break; the space comes first, for which alone a page is searched quickly.
_BROKEN = re.compile(r" (?:(?<=\d[smhd] )(?=ago\b|\d+[smhd]\b)|(?<=:\d\d )(?=UTC))")
_FOLDER = 0o750  # a reader of a page may also enter its folder
_COLUMNS = 8  # of a matrix, so that it fits a phone
Values = Mapping[str, object]
_UNKNOWN = Moment("not known")


def write_site(folder: Path, site: site_facts.PageFacts, drawn: Mapping[str, Plot], now: datetime) -> Path:
    """Write the page of a site, with its plots, and of each day; return the site's page. Raises OSError.

    Pages of its earlier days go.
    """
    files.make_folder(folder, _FOLDER)
    days = {f"{site.name}-{day.page}" for day in site.days}
    _remove(folder, (f"{site.name}-", "-changes.html"), days, lambda one: one == site.name)
    for day in site.days:
        _write_day(folder / f"{site.name}-{day.page}", site, day, now)
    path = folder / f"{site.name}.html"
    _write(path, "page-site.html.j2", _site(site, drawn, now))
    return path


def write_estate(folder: Path, sites: Iterable[tuple[str, site_facts.PageFacts | None]], now: datetime) -> Path:
    """Write the page of all sites, by name; one without facts is named as such. Return it. Raises OSError.

    Pages of other sites, which the config has no more, go.
    """
    files.make_folder(folder, _FOLDER)
    names = set[str]()
    rows: list[dict[str, object]] = []
    unseen: list[str] = []
    config = ""
    for name, facts in sites:  # one at a time: those of a hundred are large
        names.add(name)
        config = facts.config if facts else config
        if facts is None:
            unseen.append(name)
        else:
            rows.append({**_row(facts, now), "page": (folder / f"{name}.html").exists()})
    rows.sort(key=_badness)
    counts = Counter(str(row["worst"]) for row in rows)
    parts = [(FAIL, "failing"), (WARN, "with warnings"), (OK, "well")]
    summary = [{"state": state, "words": f"{show_count(counts[state], 'site')} {words}"} for state, words in parts]
    values = {
        "rows": rows,
        "unseen": unseen,
        "config": config,
        "summary": [one for one in summary if counts[str(one["state"])]],
    }
    path = folder / "index.html"
    _write(path, "page-estate.html.j2", {**_frame(now), **values})
    _remove(folder, ("", ".html"), {f"{name}.html" for name in names}, lambda one: one not in names)
    return path


def _remove(folder: Path, ends: tuple[str, str], stay: Collection[str], gone: Callable[[str], bool]) -> None:
    """Remove pages of ours of sites that are `gone`, of those whose names have these ends, but for some by name."""
    for name in [one.name for one in os.scandir(folder)]:
        if name.startswith(ends[0]) and name.endswith(ends[1]) and name not in stay:
            path = folder / name
            if (found := _SITE.search(_head(path))) and gone(found[1].decode()):
                files.remove(path)


def tells_no_use(page: Path) -> bool:
    """Whether a page was written while the config of its site could not be used."""
    return b'<meta name="maint-config" content="unusable">' in _head(page)


def _head(path: Path) -> bytes:
    with suppress(OSError), files.opened(path) as file:
        return file.read(_HEAD)
    return b""


def _write_day(path: Path, site: site_facts.PageFacts, day: site_facts.Day, now: datetime) -> None:
    """Write the page of a day, unless it stands there and would say the same."""
    at = moment(day.at, now, whole_days=True)
    said = f"{maint.__version__} {site.name} {at.words} {day.before} {day.count} {day.problem} {site.config}"
    mark = f"<!-- {sha256(said.encode()).hexdigest()} -->"
    if mark.encode() in _head(path):
        return
    _write(path, "page-changes.html.j2", {**_day(site, day, now), "at": at, "mark": mark})


def _write(path: Path, template: str, values: Values) -> None:
    _refuse_strange(path)
    text = from_file(template, dict(values), html=True)
    if template != "page-changes.html.j2":  # whose values stand as they are
        text = _BROKEN.sub("\u00a0", text)
    files.replace(path, text.encode("utf-8", "replace"), mode=MODE, durable=False)


def _refuse_strange(path: Path) -> None:
    """Refuse to write over a page that somebody else has made; one that a power cut left empty is ours as well."""
    with suppress(FileNotFoundError), files.opened(path) as file:
        content = file.read()
        if content and b" by maint " not in content:
            raise FileExistsError(errno.EEXIST, f"{path.name} there is no page of maint's", str(path))


def _frame(now: datetime) -> dict[str, object]:
    return {"written": moment(now, now), "version": maint.__version__, "signs": SIGNS}


def _badness(row: Values) -> tuple[int, tuple[int, int, int]]:
    told = row["answer"]
    assert isinstance(told, RecoveryAnswer)  # as `_row` has it
    return (FAIL, WARN, OK).index(str(row["worst"])), told.rank


def _row(site: site_facts.PageFacts, now: datetime) -> dict[str, object]:
    found, told = troubles(site, now), answer(site, now)
    return {
        "name": site.name, "here": site.here, "manager": site.manager,
        "labels": [f"{key}={value}" for key, value in site.labels.items()],
        "worst": min(state_of(found), told.state, key=(FAIL, WARN, OK).index),
        "troubles": found, "todos": _by_command(found), "seen": moment(site.seen, now),
        "answer": told, "store": site.store,
    }  # fmt: skip


def _by_command(found: Sequence[Trouble]) -> Sequence[Values]:
    """Return what is to be done, each command once, the worst first."""
    commands = dict.fromkeys(one.command for one in found)
    alike = [[one for one in found if one.command == command] for command in commands]
    return [{"state": state_of(some), "troubles": some, "command": some[0].command} for some in alike]


def _site(site: site_facts.PageFacts, drawn: Mapping[str, Plot], now: datetime) -> dict[str, object]:
    newest, drill = site.newest, site.drilled
    there = {one.id for one in site.shots}
    loud = [one for one in site.shots if one.kind == site_facts.DAMAGED or one.held or one.goes]
    return {
        **_frame(now), **_row(site, now), "unknown": site.unknown, "elsewhere": site.elsewhere,
        "unusable": bool(site.unusable),
        "resume": unfinished(site.restores[0], site).command if site.restores else "",
        "drill": _drill(drill, now) if drill else None,
        "gone": bool(drill and there and not site.elsewhere and drill.snapshot not in there),
        "verification": newest.verified if newest else "",
        "due": moment(newest.taken_at + timedelta(seconds=site.backup_limit), now) if newest else None,
        "stored": show_size(site.stored) if site.stored is not None else "", "keep": site.keep,
        "oldest": moment(site.shots[0].taken_at, now) if site.shots else None,
        "limits": {"backup": show_duration(site.backup_limit), "drill": show_duration(site.drill_limit)},
        "drawn": dict(drawn), "lacking": "" if drawn or not site.shots else LACKING,
        "loud": [_shot(one, now) for one in reversed(loud[-_ROWS:])],
        "shots": [_shot(one, now) for one in reversed(site.shots[-_ROWS:])],
        "older": max(0, len(site.shots) - _ROWS), "policy": site.policy,
        "copies": [_copy(one, now) for one in site.copies], "drills": [_drill(one, now) for one in site.drills[::-1]],
        "runs": [_run(one, now) for one in site.runs], "windows": list(site.windows),
        "days": [_link(site, one, now) for one in site.days[::-1]],
        "gaps": _gaps(site, now), "matrix": _matrix(site.checks), "checked": _checked(site.checks, now),
    }  # fmt: skip


def _shot(one: site_facts.Shot, now: datetime) -> Values:
    state = {"restorable": OK, "audit-only": WARN, "damaged": FAIL}.get(one.kind, "skip")
    return {
        "id": one.id, "at": moment(one.taken_at, now), "kind": one.kind, "state": state, "size": show_size(one.size),
        "verified": one.verified or "never verified", "held": one.held, "note": one.note,
        "goes": moment(one.goes, now) if one.goes else None,
    }  # fmt: skip


def _copy(one: site_facts.Copy, now: datetime) -> Values:
    state = FAIL if one.problem else WARN if one.missing or one.doubtful else OK
    lacks = [f"lacks {show_count(one.missing, 'snapshot')}"] if one.missing else []
    lacks += [f"{show_count(one.doubtful, 'snapshot')} not proven to be sound"] if one.doubtful else []
    behind = one.problem or ", ".join(lacks) or "holds all"
    return {
        "location": one.location, "state": state, "behind": behind, "snapshots": one.snapshots,
        "size": show_size(one.bytes) if one.bytes is not None else "",
        "newest": _UNKNOWN if one.problem and not one.newest else moment(one.newest, now),
    }  # fmt: skip


def _drill(one: site_facts.ReportedDrill, now: datetime) -> Values:
    took = show_duration(one.seconds) if one.seconds is not None else "not known"
    state = OK if one.passed else FAIL
    return {"at": moment(one.at, now), "snapshot": one.snapshot, "state": state, "took": took, "reason": one.reason}


def _run(one: site_facts.ReportedRun, now: datetime) -> Values:
    state = FAIL if one.resumable else OK if one.state in ("done", site_facts.AT_WORK) else WARN
    words = "partly done" if one.state == "partly" else one.state
    return {
        "id": one.id, "playbook": one.playbook, "state": state, "words": words, "at": moment(one.started, now),
        "by": one.by, "resumable": one.resumable,
        "took": show_duration((one.ended - one.started).total_seconds()) if one.ended else "",
    }  # fmt: skip


def _gaps(site: site_facts.PageFacts, now: datetime) -> Sequence[Values]:
    good = [one.taken_at for one in site.shots if one.good]
    pairs = list(zip(good, [*good[1:], now], strict=False))[-_ROWS:]
    return [
        {"at": moment(at, now), "gap": show_duration((then - at).total_seconds()),
         "state": OK if (then - at).total_seconds() <= site.backup_limit else WARN}
        for at, then in reversed(pairs)
    ]  # fmt: skip


def _link(site: site_facts.PageFacts, day: site_facts.Day, now: datetime) -> Values:
    words = day.problem or (show_count(day.count, "change") if day.changes else "nothing changed")
    state = WARN if day.problem else "skip" if day.changes else OK
    return {"page": f"{site.name}-{day.page}", "at": moment(day.at, now), "words": words, "state": state}


def _day(site: site_facts.PageFacts, day: site_facts.Day, now: datetime) -> dict[str, object]:
    """Return a day's changes: cluster → service → role group → property."""
    ordered = sorted(day.changes, key=lambda one: (one.cluster, one.service, one.group, one.property))
    groups: list[Values] = [
        {"place": [part for part in place if part] or ["the manager itself"], "changes": [*found]}
        for place, found in groupby(ordered, key=lambda one: (one.cluster, one.service, one.group))
    ]
    return {
        **_frame(now), "name": site.name, "here": site.here, "before": day.before, "after": day.after,
        "groups": groups, "count": show_count(day.count, "change"), "problem": day.problem,
        "more": day.more,
    }  # fmt: skip


def _checked(checks: site_facts.HostChecks | None, now: datetime) -> Values | None:
    if checks is None:
        return None
    counts = Counter(one.state for one in checks.results)
    silent = [{"name": name, "why": why} for name, why in checks.hosts.items() if why]
    rest = [
        {"check": one.check, "state": one.state, "hosts": ", ".join(one.hosts) or "site", "observed": one.observed,
         "remedy": one.remedy}
        for one in sorted(checks.results, key=lambda one: list(_LOUD).index(one.state) if one.state in _LOUD else 9)
        if one.state in _LOUD
    ]  # fmt: skip
    return {
        "at": moment(checks.at, now),
        "silent": silent,
        "loud": rest,
        "counts": {state: counts[state] for state in (*_LOUD, "skip", OK) if counts[state]},
    }


_LOUD = ("fail", "error", "warn")


def _matrix(checks: site_facts.HostChecks | None) -> Sequence[Values]:
    """Return hosts by checks, of what does not pass, in tables of few columns: hosts that are well are left out."""
    if checks is None:
        return ()
    cells = {(host, one.check): one.state for one in checks.results for host in one.hosts or ("site",)}
    loud = list(dict.fromkeys(check for (_, check), state in cells.items() if state in _LOUD))
    tables = []
    for start in range(0, len(loud), _COLUMNS):
        columns = loud[start : start + _COLUMNS]
        hosts = list(
            dict.fromkeys(host for (host, check), state in cells.items() if check in columns and state in _LOUD)
        )
        rows = [{"host": host, "cells": [cells.get((host, check), "") for check in columns]} for host in hosts]
        tables.append({"columns": columns, "rows": rows})
    return tables
