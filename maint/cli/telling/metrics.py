"""The figures of a site, as Prometheus reads them."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

import maint
from maint.cli.composition import ConfiguredSite
from maint.cli.screen import Screen
from maint.cli.telling import outcomes
from maint.cli.telling.outcomes import Outcome
from maint.engine import journal, takeovers
from maint.engine.lease import newest as newest_row
from maint.engine.lock import is_held
from maint.errors import DeadlinePassed, MaintError
from maint.files import replace
from maint.model.snapshot import Purpose
from maint.ports import Store
from maint.snapshots.catalogue import Entry, entries
from maint.snapshots.open_windows import announced
from maint.snapshots.prune import candidate, newest_good
from maint.snapshots.records import drills, last_good
from maint.snapshots.replicate import with_store
from maint.steps.manager.window_record import remembered

STATES = journal.RUN_STATES
# What only a store can tell.
_OF_STORES = (
    "maint_last_verified_backup_", "maint_last_drill_", "maint_snapshots", "maint_oldest_snapshot_",
    "maint_stored_bytes", "maint_redaction_window_open", "maint_lease_", "maint_copy_",
)  # fmt: skip
_AT_WORK = "maint_at_work_since_timestamp_seconds"


class CopyFigures(msgspec.Struct, frozen=True):
    """The figures of one further store."""

    name: str  # its address, as a label takes it
    reached: bool
    last_verified: float | None = None  # seconds since 1970, None: never, or it is not known
    snapshots: int = 0


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
    verbs: Sequence[Outcome]  # how each ended last
    told: Sequence[tuple[str, bool]]  # each notice, and whether it failed
    copies: Sequence[CopyFigures]
    newest_bytes: int | None  # of the newest restorable snapshot
    version: str
    oldest: float | None  # when the oldest snapshot was taken
    stored_bytes: int  # of all snapshots, what they share counted once
    states: dict[str, int]  # how many runs are kept in each state
    last_drill_seconds: float | None  # from opening the snapshot to the configuration read back
    lease: tuple[bool | None, float] | None  # whether it is held (None: not known), and when it was taken over last


def publish(site: ConfiguredSite, screen: Screen, *, stores: bool = True) -> None:
    """Write the metrics file where one is configured; without `stores` what it tells of them stays."""
    path = site.settings.metrics
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # the collector is another user, whatever our umask says
        text = metrics_text(gathered(site, stores=stores)) + _at_work(site.settings.name, _at_work_in(path))
        if not stores:
            before = _families(path.read_text(encoding="utf-8", errors="replace")) if path.exists() else {}
            now = {name: lines for name, lines in _families(text).items() if not name.startswith(_OF_STORES)}
            kept = {name: lines for name, lines in before.items() if name.startswith(_OF_STORES)}
            text = "".join((now | kept).values())
        replace(path, text.encode(), mode=0o644)  # nothing in it is secret
    except DeadlinePassed:
        raise
    except (OSError, MaintError) as error:
        screen.warn(f"the metrics {path} are not written: {error}")


def _families(text: str) -> dict[str, str]:
    """Return the lines of each metric by its name."""
    found = text.split("# HELP ")[1:]
    return {one.split(maxsplit=1)[0]: f"# HELP {one}" for one in found}


def begin_work(site: ConfiguredSite, *, alone: bool) -> float:
    """Say in the metrics file since when something is at work, unless something else is; return what was said, else 0.

    Args:
        alone: whether the site's lock is held for it.
    """
    with suppress(MaintError):
        if not alone and is_held(site.state):
            return 0.0
    since = round(site.clock.now().timestamp(), 3)
    _say_at_work(site, since)
    return since


def end_work(site: ConfiguredSite, since: float) -> None:
    """Say that what said this is at work no more, unless something else has begun meanwhile."""
    path = site.settings.metrics
    if path is not None and since and _at_work_in(path) == since:
        _say_at_work(site, 0)


def _say_at_work(site: ConfiguredSite, since: float) -> None:
    path = site.settings.metrics
    if path is None:
        return
    with suppress(OSError):  # who writes the whole of it warns
        before = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        text = "\n".join([*(line for line in before if _AT_WORK not in line), _at_work(site.settings.name, since)])
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode(), mode=0o644, durable=False)


def _at_work_in(path: Path) -> float:
    """Return since when something is at work, as the file says; 0: nothing is, or it does not say."""
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(f"{_AT_WORK}{{"):
                return float(line.rpartition(" ")[2])
    return 0.0


def _at_work(site: str, since: float) -> str:
    told = {"HELP": "When what is at work on the site began; 0: nothing is.", "TYPE": "gauge"}
    heads = [f"# {kind} {_AT_WORK} {words}" for kind, words in told.items()]
    return "\n".join([*heads, f'{_AT_WORK}{{site="{site}"}} {since:.3f}'.removesuffix(".000"), ""])


def gathered(site: ConfiguredSite, *, stores: bool = True) -> Figures:
    """Return the figures of a site, from its journals and, unless they are not to be asked, its stores."""
    now, known = site.clock.now(), entries(site) if stores else []
    newest, drill = newest_good(known, now), last_good(drills(site)) if stores else None
    runs = journal.history(site.state)
    latest = {past.plan.source: past for past in runs}
    ends = outcomes.kept(site.state)
    return Figures(
        site=site.settings.name,
        written=now.timestamp(),
        last_verified=newest.taken_at.timestamp() if newest else None,
        last_drill=_seconds(drill.at if drill else None),
        snapshots=_counts(known),
        runs=[(_label(name), past.state, _ended(past)) for name, past in sorted(latest.items())],
        unfinished=sum(past.state == "unfinished" for past in runs),
        window=remembered(site.state) is not None or (stores and bool(announced(site).open)),
        verbs=[msgspec.structs.replace(one, verb=_label(one.verb)) for one in ends if outcomes.is_verb(one.verb)],
        told=[(one.name, _failed(ends, one.name)) for one in site.settings.notify],
        copies=[_copy(site, copy, now) for copy in site.copies] if site.settings.backup and stores else [],
        newest_bytes=sum(part.bytes for part in newest.parts) if newest else None,
        lease=_lease(site) if stores else None,
        version=maint.__version__,
        oldest=min((one.snapshot.taken_at.timestamp() for one in known if one.snapshot), default=None),
        stored_bytes=_stored(known),
        states=Counter(past.state for past in runs),
        last_drill_seconds=drill.rto_seconds if drill else None,
    )


def _stored(known: Sequence[Entry]) -> int:
    there = [one.snapshot for one in known if one.snapshot is not None]
    objects = {one.place: one.bytes for snapshot in there for one in snapshot.objects}
    return sum(part.bytes for snapshot in there for part in snapshot.parts) + sum(objects.values())


def _lease(site: ConfiguredSite) -> tuple[bool | None, float] | None:
    if site.shared is None:
        return None
    over = takeovers.last(site.state)
    try:
        row = newest_row(site.shared, site.settings.name)
        held = row is not None and bool(row.claim.token)
    except DeadlinePassed:
        raise
    except (OSError, MaintError):  # the rest of the figures is not lost with it
        held = None
    return held, over.at.timestamp() if over else 0.0


def _failed(ends: Sequence[Outcome], notice: str) -> bool:
    return any(one.exit for one in ends if one.verb == outcomes.NOTICE + notice)


def _label(text: str) -> str:
    """Return a text as the value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _copy(site: ConfiguredSite, copy: Store, now: datetime) -> CopyFigures:
    name = _label(copy.location)
    try:
        known = entries(with_store(site, copy))
    except DeadlinePassed:
        raise
    except (OSError, MaintError):
        return CopyFigures(name, reached=False)
    newest = newest_good(known, now)
    return CopyFigures(name, True, newest.taken_at.timestamp() if newest else None, len(known))


def last_drill(site: ConfiguredSite) -> datetime | None:
    """Return when a drill last proved a restore, None where none has."""
    drill = last_good(drills(site))
    return drill.at if drill else None


def metrics_text(figures: Figures) -> str:
    """Return figures as Prometheus reads them."""
    from maint.render import from_file  # few configs ask for metrics

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
