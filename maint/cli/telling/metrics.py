"""The figures of a site, as Prometheus reads them."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.screen import Screen
from maint.engine import journal
from maint.errors import MaintError
from maint.files import replace
from maint.model.snapshot import Purpose
from maint.render import from_file
from maint.snapshots.catalogue import Entry, entries
from maint.snapshots.open_windows import announced
from maint.snapshots.prune import candidate, newest_good
from maint.snapshots.records import drills, last_good
from maint.steps.manager.window import remembered

STATES = ("done", "failed", "interrupted", "refused", "unfinished")


class Figures(msgspec.Struct, frozen=True):
    """The figures of one site, times in seconds since 1970 (None: never)."""

    site: str
    written: float
    last_verified: float | None
    last_drill: float | None
    snapshots: dict[str, int]
    runs: list[tuple[str, str, float]]
    unfinished: int
    window: bool


def publish(site: ConfiguredSite, screen: Screen) -> None:
    """Write the metrics file where one is configured."""
    path = site.settings.metrics
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # the collector is another user, whatever our umask says
        replace(path, metrics_text(gathered(site)).encode(), mode=0o644)  # nothing in it is secret
    except (OSError, MaintError) as error:
        screen.warn(f"the metrics {path} are not written: {error}")


def gathered(site: ConfiguredSite) -> Figures:
    """Return the figures of a site, from its store and its journals."""
    now, known = site.clock.now(), entries(site)
    newest = newest_good(known, now)
    runs = journal.history(site.state)
    latest = {past.plan.source: past for past in runs}
    return Figures(
        site=site.settings.name,
        written=now.timestamp(),
        last_verified=newest.taken_at.timestamp() if newest else None,
        last_drill=_seconds(last_drill(site)),
        snapshots=_counts(known),
        runs=[(name, past.state, _ended(past)) for name, past in sorted(latest.items())],
        unfinished=sum(past.state == "unfinished" for past in runs),
        window=remembered(site.state) is not None or bool(announced(site).open),
    )


def last_drill(site: ConfiguredSite) -> datetime | None:
    """Return when a drill last proved a restore, None where none has."""
    drill = last_good(drills(site))
    return drill.at if drill else None


def metrics_text(figures: Figures) -> str:
    """Return figures as Prometheus reads them."""
    return from_file("metrics.prom.j2", {"figures": figures, "states": STATES})


def _counts(known: Sequence[Entry]) -> dict[str, int]:
    found = dict.fromkeys(("restorable", "audit_only", "safety", "damaged"), 0)
    for one in known:
        if one.snapshot is None or candidate(one).damage is not None:
            kind = "damaged"
        elif one.snapshot.purpose is Purpose.SAFETY:
            kind = "safety"
        else:
            kind = "restorable" if one.snapshot.restorable else "audit_only"
        found[kind] += 1
    return found


def _ended(past: journal.RunState) -> float:
    return datetime.fromisoformat(past.at or past.started).timestamp()


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time else None
