"""Plots as SVG without words, drawn by Vega without a network; an optional extra, without which there are none."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec

import msgspec

from maint.model.formatting import show_duration, show_size
from maint.model.json import Json
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
