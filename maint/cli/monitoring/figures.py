"""The figures of a site: what its journals and stores tell in numbers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

import maint
from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import outcomes
from maint.cli.monitoring.outcomes import Outcome
from maint.cli.schedule.files import playbooks
from maint.config.schema import BackupSettings
from maint.engine import journal, takeovers
from maint.engine.lease import newest as newest_row
from maint.errors import MaintError, Stopped
from maint.model.notice import verb_of
from maint.model.snapshot import Purpose
from maint.ports import Store
from maint.snapshots.catalogue import Entry, entries, stored_bytes
from maint.snapshots.open_windows import announced
from maint.snapshots.prune import damage, newest_good
from maint.snapshots.records import drills, last_good
from maint.snapshots.replicate import with_store
from maint.steps.manager.window_record import RECORD


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
    verbs: Sequence[Outcome]  # how each ended last
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
        except Stopped:
            raise
        except (OSError, MaintError):  # the copies are asked all the same
            reached = False
    newest = newest_good(known, now)
    runs = journal.history(site.state)
    latest = {past.plan.source: past for past in runs}
    ends = outcomes.kept(site.state)
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
        window=_window(site, stores=stores, reached=reached),
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


def _window(site: ConfiguredSite, *, stores: bool, reached: bool | None) -> bool | None:
    if (site.state / RECORD).exists() or (stores and announced(site).open):  # the record may also be damaged
        return True
    return None if reached is False or not stores else False


def _added(known: Sequence[Entry]) -> int | None:
    """Return the bytes that the newest snapshot added to what was there; None without one."""
    there = sorted((one for one in known if one.snapshot is not None), key=lambda one: one.id)
    return stored_bytes(there) - stored_bytes(there[:-1]) if there else None


def _lease(site: ConfiguredSite) -> tuple[bool | None, float] | None:
    if site.shared is None:
        return None
    over = takeovers.last(site.state)
    try:
        row = newest_row(site.shared, site.settings.name)
        held = row is not None and bool(row.claim.token)
    except Stopped:
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
    except Stopped:
        raise
    except (OSError, MaintError):
        return CopyFigures(name, reached=False)
    newest = newest_good(known, now)
    return CopyFigures(name, True, newest.taken_at.timestamp() if newest else None, len(known), stored_bytes(known))


def last_drill(site: ConfiguredSite) -> datetime | None:
    """Return when a drill last proved a restore, None where none has."""
    drill = last_good(drills(site))
    return drill.at if drill else None


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
