"""The metrics file of a site, as Prometheus reads it: its figures, and the state while a command is at work."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import RLock

import msgspec

import maint
from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import outcomes
from maint.cli.monitoring.outcomes import VerbOutcome
from maint.cli.schedule.units import playbooks
from maint.cli.screen import Screen
from maint.config.schema import BackupSettings
from maint.engine import journal, lease, past_runs
from maint.engine.lease import newest as newest_row
from maint.errors import Failure, Refused
from maint.files import make_folder, read_file, replace
from maint.model.notice import verb_of
from maint.model.snapshot import Purpose
from maint.ports import Store
from maint.snapshots.catalogue import Entry, entries
from maint.snapshots.open_windows import RECORD, announced, beside, left_open, remembered
from maint.snapshots.prune import damage, newest_good, stored_bytes
from maint.snapshots.records import drills, last_good
from maint.snapshots.replicate import with_store


class CopyFigures(msgspec.Struct, frozen=True):
    """The figures of one further store."""

    name: str  # its address, as a label takes it
    reached: bool
    last_verified: float | None = None  # seconds since 1970, None: never, or it is not known
    snapshots: int = 0
    bytes: int = 0  # that they take


class Figures(msgspec.Struct, frozen=True):
    """The figures of one site, times in seconds since 1970 (None: never)."""

    site: str
    written: float
    max_age: float  # seconds that the newest backup may be old
    reached: bool | None  # whether the first store could be read; None: it was not asked, or there is none
    last_verified: float | None
    last_drill: float | None
    snapshots: dict[str, int]
    runs: list[tuple[str, str, float]]
    unfinished: int
    window: bool | None  # None: not known
    window_known: bool  # whether every store could tell of windows, and each record of one be verified
    verbs: Sequence[VerbOutcome]  # how each ended last
    told: Sequence[tuple[str, bool]]  # each notice, and whether it failed
    copies: Sequence[CopyFigures]
    newest_bytes: int | None  # of the newest restorable snapshot
    version: str
    oldest: float | None  # when the oldest snapshot was taken
    stored_bytes: int  # of all snapshots, what they share counted once
    added_bytes: int | None  # by the newest snapshot
    items: Mapping[str, int]  # what the newest restorable snapshot holds, by kind
    scheduled: Collection[str]  # the verbs of playbooks that run by themselves on this machine
    ends: Mapping[str, Mapping[str, int]]  # how often each verb ended how
    states: dict[str, int]  # how many runs are kept in each state
    last_drill_seconds: float | None  # from opening the snapshot to the configuration read back
    lease: tuple[bool | None, float] | None  # whether it is held (None: not known), and when it was taken over last


def gathered(site: ConfiguredSite, *, stores: bool = True) -> Figures:
    """Return the figures of a site, from its journals and, unless they are not to be asked, its stores."""
    now, known = site.clock.now(), list[Entry]()
    drill, reached = None, None
    if stores and site.settings.backup:
        try:
            known, drill, reached = [*entries(site)], last_good(drills(site)), True
        except (OSError, Failure):  # the copies are asked all the same
            reached = False
    newest = newest_good(known, now)
    window, window_known = _window(site, stores=stores, reached=reached)
    runs = past_runs.history(site.state)
    latest = {past.plan.source: past for past in runs}
    ends = outcomes.last_outcomes(site.state)
    return Figures(
        site=site.settings.name,
        written=now.timestamp(),
        max_age=(site.settings.backup or BackupSettings.model_construct()).max_age,
        reached=reached,
        last_verified=newest.taken_at.timestamp() if newest else None,
        last_drill=_seconds(drill.at if drill else None),
        snapshots=_counts(known),
        runs=[(_label(name), past.state, _ended(past)) for name, past in sorted(latest.items())],
        unfinished=sum(past.state == "unfinished" for past in runs),
        window=window,
        window_known=window_known,
        verbs=[msgspec.structs.replace(one, verb=_label(one.verb)) for one in ends if outcomes.is_verb(one.verb)],
        told=[(one.name, _failed(ends, one.name)) for one in site.settings.notify],
        copies=[_copy(site, copy, now) for copy in site.copies] if site.settings.backup and stores else [],
        newest_bytes=sum(part.bytes for part in newest.parts) if newest else None,
        lease=_lease(site) if stores else None,
        version=maint.__version__,
        oldest=min((one.snapshot.taken_at.timestamp() for one in known if one.snapshot), default=None),
        stored_bytes=stored_bytes(known),
        added_bytes=_added(known),
        items=dict(newest.judgement.counts) if newest else {},
        scheduled=_scheduled(site),
        ends={_label(verb): counts for verb, counts in outcomes.ends(site.state).items()},
        states=Counter(past.state for past in runs),
        last_drill_seconds=drill.rto_seconds if drill else None,
    )


def _scheduled(site: ConfiguredSite) -> Collection[str]:
    books = [*playbooks(site.settings, user=False, folder=None), *playbooks(site.settings, user=True, folder=None)]
    return {_label(verb_of(name)) for name in books}


def _window(site: ConfiguredSite, *, stores: bool, reached: bool | None) -> tuple[bool | None, bool]:
    """Return whether a window is known to be open (None: not known), and whether none can be without being known."""
    if _left_open(site, stores=stores):
        return True, True
    told = announced(site) if stores else beside(site)
    unread = reached is False or not stores
    return (True if told.open else None if unread else False), bool(told.open) or not (unread or told.doubts)


def _left_open(site: ConfiguredSite, *, stores: bool = True) -> bool:
    """Whether a window that this machine opened may be open: `stores` tell of one that another machine closed."""
    try:
        return (left_open(site) if stores else remembered(site.state)) is not None
    except Refused:  # its record is damaged
        return True


def _added(known: Sequence[Entry]) -> int | None:
    """Return the bytes that the newest snapshot added to what was there; None without one."""
    there = sorted((one for one in known if one.snapshot is not None), key=lambda one: one.id)
    return stored_bytes(there) - stored_bytes(there[:-1]) if there else None


def _lease(site: ConfiguredSite) -> tuple[bool | None, float] | None:
    if site.shared is None:
        return None
    over = lease.last_takeover(site.state)
    try:
        row = newest_row(site.shared, site.settings.name)
        held = row is not None and bool(row.claim.token)
    except (OSError, Failure):  # the rest of the figures is not lost with it
        held = None
    return held, over.at.timestamp() if over else 0.0


def _failed(ends: Sequence[VerbOutcome], notice: str) -> bool:
    return any(one.exit for one in ends if one.verb == outcomes.NOTICE + notice)


def _label(text: str) -> str:
    """Return a text as the value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _copy(site: ConfiguredSite, copy: Store, now: datetime) -> CopyFigures:
    name = _label(copy.location)
    try:
        known = entries(with_store(site, copy))
    except (OSError, Failure):
        return CopyFigures(name, reached=False)
    newest = newest_good(known, now)
    return CopyFigures(name, True, newest.taken_at.timestamp() if newest else None, len(known), stored_bytes(known))


def _counts(known: Sequence[Entry]) -> dict[str, int]:
    found = dict.fromkeys(("restorable", "audit_only", "safety", "damaged"), 0)
    for one in known:
        if one.unread:
            continue
        if one.snapshot is None or damage(one) is not None:
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


STATES = journal.RUN_STATES
# What only the first store can tell, and what only some store can.
_OF_FIRST = (
    "maint_last_verified_backup_", "maint_last_drill_", "maint_snapshots", "maint_oldest_snapshot_",
    "maint_stored_bytes", "maint_last_backup_",
)  # fmt: skip
_OF_STORES = (*_OF_FIRST, "maint_store_reached", "maint_lease_", "maint_copy_", "maint_redaction_window_known")
_AT_WORK, _MOVED = "maint_at_work_since_timestamp_seconds", "maint_at_work_moved_bytes"
_WINDOW, _LEASE = "maint_redaction_window_open", "maint_lease_held"
_IDLE = {_AT_WORK: 0.0, _MOVED: 0.0}
_MINUTE = 60.0  # seconds between two writings of what was moved
# What is said while something is at work, too: nobody writes it any more once that is killed.
_NOW = {
    _AT_WORK: "When what is at work on the site began; 0: nothing is.",
    _MOVED: "Bytes that it has read or written so far, as of the last minute; 0: nothing is at work.",
    _WINDOW: "Whether the manager shows secrets to everyone who may read its API.",
    _LEASE: "Whether some machine holds the lease of the shared state.",
}


def publish(site: ConfiguredSite, screen: Screen, unasked: str = "") -> None:
    """Write the metrics file where one is configured; what it tells of stores that are away, or `unasked`, stays."""
    path = site.settings.metrics
    if path is None:
        return
    try:
        make_folder(path.parent, 0o755)  # the collector is another user
        figures, before = gathered(site, stores=not unasked), _families(path)
        if f'{{site="{site.settings.name}"' not in before.get("maint_info", f'{{site="{site.settings.name}"'):
            before = {}
            screen.warn(f"the metrics {path} were those of another site: give each site a file of its own")
        stays = (*_IDLE, *(() if figures.reached else _OF_FIRST), *(_OF_STORES if unasked else ()))
        stays += (_WINDOW,) if figures.window is None else ()
        now = _split(metrics_text(figures)) | _said(site, _told_now(figures))
        now = {name: lines for name, lines in now.items() if not name.startswith(stays)}
        kept = {name: lines for name, lines in before.items() if name.startswith(stays)}
        text = "".join((now | _said(site, _IDLE) | kept).values())
        replace(path, text.encode(), mode=0o644)  # nothing in it is secret
    except (OSError, Failure) as error:
        screen.warn(f"the metrics {path} are not written: {error}")


def _told_now(figures: Figures) -> Mapping[str, float]:
    held = figures.lease[0] if figures.lease else None
    return {name: value for name, value in ((_WINDOW, figures.window), (_LEASE, held)) if value is not None}


def _families(path: Path) -> dict[str, str]:
    """Return the lines of each metric in a file by its name."""
    return _split(read_file(path).decode("utf-8", "replace")) if path.exists() else {}


def _split(text: str) -> dict[str, str]:
    found = [one for one in text.split("# HELP ")[1:] if one.strip() and one.endswith("\n")]  # one cut off is left out
    return {one.split(maxsplit=1)[0]: f"# HELP {one}" for one in found}


def _said(site: ConfiguredSite, values: Mapping[str, float]) -> dict[str, str]:
    """Return the lines of metrics of `_NOW` by their names."""
    return {
        name: f"# HELP {name} {_NOW[name]}\n# TYPE {name} gauge\n"
        f'{name}{{site="{site.settings.name}"}} {value:.3f}\n'.replace(".000\n", "\n")
        for name, value in values.items()
    }


class AtWork:
    """Says in the metrics file what is so while something is at work under the site's lock; `look` at each event."""

    def __init__(self, site: ConfiguredSite) -> None:
        self._site, self._watched = site, site.watched
        self._mutex, self._bytes, self._told = RLock(), 0, site.clock.monotonic()
        site.watched = self._moved
        self._since = round(site.clock.now().timestamp(), 3)
        self._over = b"" if _left_open(site) else self._record()
        self._window = self._is_open()
        leased = {_LEASE: 1.0} if site.shared is not None else {}
        self._say({**_IDLE, _AT_WORK: self._since, **leased, **({_WINDOW: 1.0} if self._window else {})})

    def look(self) -> None:
        """Say where a redaction window was opened or closed."""
        if self._is_open() is not self._window:
            self._window = not self._window
            self._say({_WINDOW: float(self._window)})

    def end(self) -> int:
        """Say that it is at work no more, unless something else has begun meanwhile; return the bytes it moved."""
        path, self._site.watched = self._site.settings.metrics, self._watched
        with suppress(OSError):
            if (
                path is not None
                and _families(path).get(_AT_WORK) == _said(self._site, {_AT_WORK: self._since})[_AT_WORK]
            ):
                self._say({**_IDLE, **({_LEASE: 0.0} if self._site.shared is not None else {})})
        return self._bytes

    def _moved(self, what: str, count: int, of: int | None) -> None:
        """Count bytes for who watches, and say them each minute; from any thread."""
        self._watched(what, count, of)
        with self._mutex:
            self._bytes += count
            if (now := self._site.clock.monotonic()) - self._told >= _MINUTE:
                self._told = now
                self._say({_MOVED: self._bytes})

    def _is_open(self) -> bool:
        return self._record() not in (b"", self._over)

    def _record(self) -> bytes:
        with suppress(FileNotFoundError):
            return read_file(self._site.state / RECORD)
        return b""

    def _say(self, values: Mapping[str, float]) -> None:
        path = self._site.settings.metrics
        if path is None:
            return
        with suppress(OSError), self._mutex:  # who writes the whole of it warns
            make_folder(path.parent, 0o755)
            text = "".join((_families(path) | _said(self._site, values)).values())
            replace(path, text.encode(), mode=0o644, durable=False)


def metrics_text(figures: Figures) -> str:
    """Return figures as Prometheus reads them."""
    from maint.render import from_file  # few configs ask for metrics

    return from_file("metrics.prom.j2", {"figures": figures, "states": STATES})
