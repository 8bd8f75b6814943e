"""What Prometheus is told: a file for its textfile collector after each run, and alert rules over it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.screen import Screen
from maint.engine import journal
from maint.errors import MaintError, UsageError
from maint.model.formatting import parse_duration, show_duration
from maint.model.snapshot import Purpose
from maint.snapshots.catalogue import Entry, entries
from maint.snapshots.records import drills, last_good

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
    """Write the metrics file where one is configured; what keeps it from being written is told, and stops nothing."""
    path = site.settings.metrics
    if path is None:
        return
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        text = metrics_text(gathered(site))
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as file:
            file.write(text)
        staged.chmod(0o644)  # the collector is another user, whatever our umask says; nothing in it is secret
        staged.rename(path)
    except (OSError, MaintError) as error:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        screen.warn(f"the metrics {path} are not written: {error}")


def gathered(site: ConfiguredSite) -> Figures:
    """Return the figures of a site, from its store and its journals."""
    from maint.snapshots.prune import newest_good  # which few of those who come by here need
    from maint.steps.manager.window import remembered

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
        window=remembered(site.state) is not None,
    )


def last_drill(site: ConfiguredSite) -> datetime | None:
    """Return when a drill last proved a restore, None where none has."""
    drill = last_good(drills(site))
    return drill.at if drill else None


def metrics_text(figures: Figures) -> str:
    """Return figures as Prometheus reads them."""
    from maint.render import from_file

    return from_file("metrics.prom.j2", {"figures": figures, "states": STATES})


def alert_rules(max_age: str, drill_age: str) -> str:
    """Return alert rules for Prometheus.

    Raises:
        UsageError: an age is no duration.
    """
    ages = {"max_age": _age("--max-age", max_age), "drill_age": _age("--drill-age", drill_age)}
    shown = {f"{name}_words": show_duration(seconds) for name, seconds in ages.items()}
    from maint.render import from_file

    return from_file("alerts.yml.j2", {**ages, **shown})


def _counts(known: Sequence[Entry]) -> dict[str, int]:
    from maint.snapshots.prune import candidate

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


def _age(flag: str, text: str) -> int:
    try:
        return round(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
