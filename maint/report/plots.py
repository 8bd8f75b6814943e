"""Plots as SVG, drawn by Vega-Lite without a network; an optional extra, without which there are none."""

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec

from maint.model.json import Json
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, KINDS, OTHER, RESTORABLE, SiteFacts

# Labels are what takes long to draw: each is measured.
MARKS = 400  # of a plot, the newest
LACKING = "there are no plots: `pip install 'maint[page]'` brings what draws them"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name that the library knows; nothing is fetched
_WIDTH = 330
# Colours come from the page, so that they follow its theme.
_TEXT, _LINE = "currentColor", "var(--line)"
_COLOURS = {RESTORABLE: "var(--pass)", AUDIT_ONLY: "var(--warn)", DAMAGED: "var(--fail)", OTHER: "var(--skip)"}
_SHAPES = {RESTORABLE: "circle", AUDIT_ONLY: "triangle-up", DAMAGED: "cross", OTHER: "square"}
_AXIS: Json = {
    "labelColor": _TEXT, "titleColor": _TEXT, "domainColor": _LINE, "tickColor": _LINE, "gridColor": _LINE,
    "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
}  # fmt: skip
_TIME: Json = {"field": "at", "type": "temporal", "title": None, "axis": {"tickCount": 3, "labelOverlap": True}}


def available() -> bool:
    """Tell whether plots can be drawn here."""
    return find_spec("vl_convert") is not None


def plots(site: SiteFacts) -> dict[str, str]:
    """Return the plots of a site as SVG, by what they show; those without anything to show are left out."""
    drawn = {
        "timeline": _timeline(site),
        "rto": _line([(one.at, one.seconds) for one in site.drills if one.seconds is not None], "seconds"),
        "rpo": _line(_gaps(site), "hours"),
        "size": _bars([(one.taken_at, one.size / 1e6) for one in site.shots], "MB"),
        "changes": _bars([(one.at, len(one.changes)) for one in site.days if not one.problem], "changes"),
    }
    return {name: _svg(spec) for name, spec in drawn.items() if spec is not None}


def _gaps(site: SiteFacts) -> list[tuple[datetime, float]]:
    good = [one.taken_at for one in site.shots if one.good]
    return [(then, (then - before).total_seconds() / 3600) for before, then in itertools.pairwise(good)]


def _timeline(site: SiteFacts) -> Mapping[str, Json] | None:
    values: list[Json] = [
        {"at": one.taken_at.isoformat(), "kind": one.kind, "held": bool(one.held)} for one in site.shots[-MARKS // 2 :]
    ]
    if not values:
        return None
    scale: Json = {"domain": list(KINDS), "range": [_COLOURS[kind] for kind in KINDS]}
    shapes: Json = {"domain": list(KINDS), "range": [_SHAPES[kind] for kind in KINDS]}
    row: Json = {"field": "kind", "type": "nominal", "title": None, "sort": list(KINDS)}
    shown: Json = {
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
        "encoding": {
            "x": _TIME, "y": row, "color": {"field": "kind", "scale": scale, "legend": None},
            "shape": {"field": "kind", "scale": shapes, "legend": None},
        },
    }  # fmt: skip
    ring: Json = {
        "transform": [{"filter": "datum.held"}],
        "mark": {"type": "point", "size": 130, "stroke": _TEXT, "strokeWidth": 1.5},
        "encoding": {"x": _TIME, "y": row},
    }
    return {"height": 90, "data": {"values": values}, "layer": [shown, ring]}


def _line(points: Sequence[tuple[datetime, float | None]], title: str) -> Mapping[str, Json] | None:
    mark: Json = {"type": "line", "stroke": "var(--mark)", "strokeWidth": 2, "point": {"fill": "var(--mark)"}}
    return _series(points, title, mark)


def _bars(points: Sequence[tuple[datetime, float | None]], title: str) -> Mapping[str, Json] | None:
    spread = (points[-1][0] - points[0][0]).days + 1 if points else 1
    width = max(1, min(14, _WIDTH // max(spread, len(points)) - 1))
    return _series(points, title, {"type": "bar", "fill": "var(--mark)", "width": width})


def _series(points: Sequence[tuple[datetime, float | None]], title: str, mark: Json) -> Mapping[str, Json] | None:
    if not points:
        return None
    values: list[Json] = [{"at": at.isoformat(), "value": value} for at, value in points[-MARKS:]]
    height: Json = {"field": "value", "type": "quantitative", "title": title, "axis": {"tickCount": 3}}
    return {"height": 110, "data": {"values": values}, "mark": mark, "encoding": {"x": _TIME, "y": height}}


def _svg(spec: Mapping[str, Json]) -> str:
    from vl_convert import vegalite_to_svg  # an optional extra, of which a page without plots has no need

    config: Json = {"axis": _AXIS, "view": {"stroke": None}, "font": "sans-serif", "aria": False}
    whole: dict[str, Json] = {"$schema": _SCHEMA, "width": _WIDTH, "background": None, "config": config, **spec}
    svg: str = vegalite_to_svg(whole)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
