"""The catalogue pages: of the estate, each site, each day's changes, with plots as SVG; no script, no network."""

import errno
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import msgspec

import maint
from maint import files
from maint.model.formatting import show_count, show_duration, show_size
from maint.model.json import Json
from maint.render import from_file
from maint.report import site_facts
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
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, KINDS, OTHER, RESTORABLE, PageFacts

MARKS = 400  # of a plot, the newest
LACKING = "there are no plots: `pip install 'maint[page]'` brings what draws them"
_SCHEMA = "https://vega.github.io/schema/vega/v6.json"  # a name that the library knows; nothing is fetched
_WIDTH, _HEIGHT, _EDGE = 330, 100, 8
_FEW = 40  # a line of more shows no points
Points = Sequence[tuple[datetime, float]]
Looks = Mapping[str, Json]
# Colours come from the page, so that they follow its theme.
_FILL: Looks = {"fill": {"value": "var(--mark)"}}
_STROKE: Looks = {"stroke": {"value": "var(--mark)"}, "strokeWidth": {"value": 2}}
_KINDS: Mapping[str, Looks] = {
    RESTORABLE: {"fill": "var(--pass)", "shape": "circle"},
    AUDIT_ONLY: {"fill": "var(--warn)", "shape": "triangle-up"},
    DAMAGED: {"fill": "var(--fail)", "shape": "cross"},
    OTHER: {"fill": "var(--skip)", "shape": "square"},
}
_PIECE = re.compile(r'<g class="mark-\w+ role-mark ([a-z]+)_[^>]*>(.*?)</g>', re.DOTALL)
_FRAME = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="none" aria-hidden="true" focusable="false">'


class Plot(msgspec.Struct, frozen=True):
    """A plot, and the words for the page to write at its edges: the library would measure them, at twice the time."""

    svg: str
    rows: Sequence[str]  # from the top down: what was seen, or the greatest value and nothing
    ends: Sequence[str]  # the first time and the last


class _Shown(msgspec.Struct, frozen=True):
    """What a plot shows: values from 0 to `top`, the marks of Vega that stand for them, and more of each value."""

    points: Points
    top: float
    rows: Sequence[str]
    marks: Mapping[str, Looks]
    more: Sequence[Looks] = ()
    until: datetime | None = None  # where it ends, if not with the last point


def available() -> bool:
    """Tell whether plots can be drawn here."""
    return find_spec("vl_convert") is not None


def plots(site: PageFacts) -> dict[str, Plot]:
    """Return the plots of a site, by what they show; those without anything to show are left out."""
    good = [*(one.taken_at for one in site.shots if one.good), *([site.seen] if site.late else [])]
    shown = {
        "timeline": _timeline(site),
        "rto": _drills(site),
        "rpo": _line([(then, (then - at).total_seconds()) for at, then in itertools.pairwise(good)], show_duration),
        "size": _line([(one.taken_at, one.size) for one in site.shots], lambda size: show_size(int(size))),
        "changes": _counts(site.changed or [(one.at, one.count) for one in site.days if not one.problem]),
    }
    return _drawn({name: one for name, one in shown.items() if one.points})


def _timeline(site: PageFacts) -> _Shown:
    shots = site.shots[-MARKS:]
    rows = [kind for kind in KINDS if any(one.kind == kind for one in shots)]
    looks: Looks = {key: {"field": key} for key in ("fill", "shape", "size", "stroke")}
    plain: Looks = {"size": 45, "stroke": None}
    held: Looks = {"size": 110, "stroke": "currentColor"}
    more = [{**_KINDS[one.kind], **(held if one.held else plain)} for one in shots]
    points = [(one.taken_at, len(rows) - rows.index(one.kind) - 0.5) for one in shots]
    return _Shown(points, len(rows), rows, {"symbol": looks}, more, site.seen if site.late else None)


def _line(points: Points, words: Callable[[float], str]) -> _Shown:
    points = points[-MARKS:]
    top = max((value for _, value in points), default=0) or 1
    marks = {"line": _STROKE, **({"symbol": {**_FILL, "size": {"value": 30}}} if len(points) <= _FEW else {})}
    return _Shown(points, top, [words(top), "0"], marks)


def _drills(site: PageFacts) -> _Shown:
    """Return a line of the drills that passed, and a cross where one failed, at the foot where it has no time."""
    drills = [one for one in site.drills if one.seconds is not None or not one.passed][-MARKS:]
    shown = _line([(one.at, one.seconds or 0) for one in drills], show_duration)
    if all(one.passed for one in drills):
        return shown
    good: Looks = {"fill": "var(--mark)", "shape": "circle", "passed": True}
    line: Looks = {**_STROKE, "defined": {"field": "passed"}}
    symbol: Looks = {"fill": {"field": "fill"}, "shape": {"field": "shape"}, "size": {"value": 45}}
    more = [good if one.passed else {**_KINDS[DAMAGED], "passed": False} for one in drills]
    return msgspec.structs.replace(shown, marks={"line": line, "symbol": symbol}, more=more)


def _counts(points: Points) -> _Shown:
    """Return bars, a line where they are so many that each would be a stroke and take its time to draw."""
    if len(points) > _FEW:
        return _line(points, lambda count: f"{count:.0f}")
    top = max((value for _, value in points), default=0) or 1
    spread = (points[-1][0] - points[0][0]).days + 1 if points else 1
    width = max(1, min(14, _WIDTH // spread - 1))  # so that they do not touch
    looks: Looks = {**_FILL, "width": {"value": width}, "y2": {"value": _HEIGHT}}
    return _Shown(points, top, [f"{top:.0f}", "0"], {"rect": looks})


def _drawn(shown: Mapping[str, _Shown]) -> dict[str, Plot]:
    """Return plots that were drawn at once, one over the other, and taken apart by their names: half the work."""
    if not shown:
        return {}
    from vl_convert import vega_to_svg  # an optional extra, of which a page without plots has no need

    parts = [_vega(name, one) for name, one in shown.items()]
    whole = {key: [each for part in parts for each in part[key]] for key in ("data", "scales", "marks")}
    frame = {"width": _WIDTH, "height": _HEIGHT, "padding": 0, "autosize": "none", "config": {"aria": False}}
    pieces = dict.fromkeys(shown, "")
    for name, piece in _PIECE.findall(vega_to_svg({"$schema": _SCHEMA, **frame, **whole})):
        pieces[name] += piece
    return {
        name: Plot(f"{_FRAME}{pieces[name]}</svg>", one.rows, [f"{at:%Y-%m-%d %H:%M}" for at in _span(one)])
        for name, one in shown.items()
    }


def _span(one: _Shown) -> tuple[datetime, datetime]:
    return one.points[0][0], one.until or one.points[-1][0]


def _vega(name: str, one: _Shown) -> Mapping[str, list[Json]]:
    more = one.more or [{}] * len(one.points)
    values: list[Json] = [{"x": at.timestamp(), "y": y, **rest} for (at, y), rest in zip(one.points, more, strict=True)]
    spans = {"x": ([at.timestamp() for at in _span(one)], [_EDGE, _WIDTH - _EDGE]), "y": ([0, one.top], [_HEIGHT, 0])}
    places = {axis: {"scale": name + axis, "field": axis} for axis in spans}
    return {
        "data": [{"name": name, "values": values}],
        "scales": [
            {"name": name + axis, "type": "linear", "zero": False, "domain": domain, "range": ends}
            for axis, (domain, ends) in spans.items()
        ],
        "marks": [
            {"name": f"{name}_{kind}", "type": kind, "from": {"data": name}, "encode": {"enter": {
                "xc" if kind == "rect" else "x": places["x"], "y": places["y"], **looks,
            }}}
            for kind, looks in one.marks.items()
        ],
    }  # fmt: skip


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
    path = folder / site_facts.page_of(site.name)
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
            rows.append({**_row(facts, now), "there": (folder / site_facts.page_of(name)).exists()})
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
    _remove(folder, ("", ".html"), {*map(site_facts.page_of, names)}, lambda one: one not in names)
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
        "name": site.name, "page": site_facts.page_of(site.name), "here": site.here, "manager": site.manager,
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
        **_frame(now), "name": site.name, "page": site_facts.page_of(site.name), "here": site.here,
        "before": day.before, "after": day.after,
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
