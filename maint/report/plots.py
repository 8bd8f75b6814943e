"""Plots as SVG, drawn by Vega-Lite without a network; an optional extra, without which there are none."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from maint.model.json import Json
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, KINDS, OTHER, RESTORABLE, SiteFacts

MARKS = 400  # of a plot, the newest
LACKING = "there are no plots: `pip install 'maint[page]'` brings what draws them"
Vega = Mapping[str, Any]  # what Vega-Lite makes of it
Points = Sequence[tuple[datetime, float]]
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name that the library knows; nothing is fetched
_WIDTH = 330
_FEW = 40  # a line of more shows no points
# Colours come from the page, so that they follow its theme, and so does the size of text: each word that has a size is
# measured, which took three quarters of the time. So no place depends on how long a word is.
_TEXT, _LINE = "currentColor", "var(--line)"
_COLOURS = {RESTORABLE: "var(--pass)", AUDIT_ONLY: "var(--warn)", DAMAGED: "var(--fail)", OTHER: "var(--skip)"}
_SHAPES = {RESTORABLE: "circle", AUDIT_ONLY: "triangle-up", DAMAGED: "cross", OTHER: "square"}
_CONFIG: Json = {
    "axis": {
        "labelColor": _TEXT, "domainColor": _LINE, "tickColor": _LINE, "gridColor": _LINE, "tickCount": 3,
        "labelFontSize": 0, "labelLimit": 0, "labelOverlap": False, "title": None,
    },
    "axisX": {"labelPadding": 11, "grid": False, "labelFlush": False},
    "axisY": {"labelOffset": 4, "labelPadding": 6, "domain": False, "ticks": False},
    "view": {"stroke": None}, "font": "sans-serif", "aria": False,
}  # fmt: skip
_TIME: Json = {"field": "at", "type": "temporal", "scale": {"type": "utc", "padding": 10}}


def available() -> bool:
    """Tell whether plots can be drawn here."""
    return find_spec("vl_convert") is not None


def plots(site: SiteFacts) -> dict[str, str]:
    """Return the plots of a site as SVG, by what they show; those without anything to show are left out."""
    shots: list[Json] = [
        {"at": one.taken_at.isoformat(), "kind": one.kind, "held": bool(one.held)} for one in site.shots[-MARKS // 2 :]
    ]
    sizes = [(one.taken_at, one.size / 1e6) for one in site.shots[-MARKS:]]
    changes = [(one.at, len(one.changes)) for one in site.days[-MARKS:] if not one.problem]
    drills = [(one.at, one.seconds) for one in site.drills[-MARKS:] if one.seconds is not None]
    gaps = _gaps(site)[-MARKS:]
    drawn: Mapping[str, tuple[Callable[[], Vega], list[Json]]] = {
        "timeline": (_timeline, shots),
        "rto": (partial(_line, points=len(drills) <= _FEW), _rows(drills)),
        "rpo": (partial(_line, points=len(gaps) <= _FEW), _rows(gaps)),
        "size": (partial(_bars, _wide(sizes)), _rows(sizes)),
        "changes": (partial(_bars, _wide(changes)), _rows(changes)),
    }
    return {name: _svg(kind(), rows) for name, (kind, rows) in drawn.items() if rows}


def _gaps(site: SiteFacts) -> Points:
    good = [one.taken_at for one in site.shots if one.good]
    return [(then, (then - before).total_seconds() / 3600) for before, then in itertools.pairwise(good)]


def _rows(points: Points) -> list[Json]:
    return [{"at": at.isoformat(), "value": value} for at, value in points]


def _wide(points: Points) -> int:
    """Return how wide bars may be that do not touch."""
    spread = (points[-1][0] - points[0][0]).days + 1 if points else 1
    return max(1, min(14, _WIDTH // max(spread, len(points)) - 1))


def _held(value: Json, other: Json) -> Json:
    return {"condition": {"test": "datum.held", "value": value}, "value": other}


@cache
def _timeline() -> Vega:
    scale: Json = {"domain": list(KINDS), "range": [_COLOURS[kind] for kind in KINDS]}
    shapes: Json = {"domain": list(KINDS), "range": [_SHAPES[kind] for kind in KINDS]}
    row: Json = {"field": "kind", "type": "nominal", "sort": list(KINDS)}
    shown: dict[str, Json] = {
        "height": 90, "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
        "encoding": {
            "x": _TIME, "y": row, "color": {"field": "kind", "scale": scale, "legend": None},
            "shape": {"field": "kind", "scale": shapes, "legend": None}, "stroke": _held(_TEXT, None),
            "size": _held(110, 45),
        },
    }  # fmt: skip
    return _compiled(shown, left=70)


@cache
def _line(*, points: bool) -> Vega:
    point: Json = {"fill": "var(--mark)"} if points else False
    return _series({"type": "line", "stroke": "var(--mark)", "strokeWidth": 2, "point": point})


@cache
def _bars(width: int) -> Vega:
    return _series({"type": "bar", "fill": "var(--mark)", "width": width})


def _series(mark: Json) -> Vega:
    height: Json = {"field": "value", "type": "quantitative", "stack": False}
    return _compiled({"height": 110, "mark": mark, "encoding": {"x": _TIME, "y": height}}, left=45)


def _compiled(spec: Mapping[str, Json], left: int) -> Vega:
    """Return a kind of plot as Vega without its rows, for all plots of that kind."""
    from vl_convert import vegalite_to_vega  # an optional extra, of which a page without plots has no need

    frame: dict[str, Json] = {
        "width": _WIDTH, "background": None, "autosize": "none", "data": {"name": "rows"}, "config": _CONFIG,
        "padding": {"left": left, "right": 20, "top": 8, "bottom": 22},
    }  # fmt: skip
    vega: Vega = vegalite_to_vega({"$schema": _SCHEMA, **frame, **spec})
    return vega


def _svg(kind: Vega, rows: Sequence[Json]) -> str:
    from vl_convert import vega_to_svg

    data = [{**one, "values": rows} if one["name"] == "rows" else one for one in kind["data"]]
    svg: str = vega_to_svg({**kind, "data": data})
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
