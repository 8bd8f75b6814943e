"""When a site can be back, to which state and from which snapshot: in a sentence that claims no more than is known."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from maint.model.formatting import show_count, show_duration
from maint.report.moment import Moment, moment
from maint.report.site_facts import AUDIT_ONLY, BY_NAME, DAMAGED, NO_BACKUP, OTHER, RESTORABLE, Shot, SiteFacts
from maint.report.troubles import FAIL, OK, SEEN_BY_ALL, WARN, known_from

_RESTORING, _MENDED = "A restore is unfinished", "once that is mended"
_HEADS = ("No way back", "Not known", "Not now", "Not certain", "Not proven", _RESTORING, "")  # the worst first


class Said(msgspec.Struct, frozen=True):
    """A short sentence: what it is about, such as "Not proven", and the one reason."""

    state: str
    head: str
    words: str


class Answer(msgspec.Struct, frozen=True):
    """What somebody who has lost a manager asks first."""

    state: str  # the worst of what it says
    way: str  # of the way back alone
    doubts: Sequence[Said]  # why it may not be so, or why there is no way back
    after: str  # what must come first, such as "once it has ended"; empty: nothing
    took: str  # by the last good drill, such as "5m 29s"; empty: not known
    drilled: Moment  # when that was
    drill_late: bool  # it is over its limit
    of: str  # the snapshot that it was of, beside this one
    snapshot: str  # empty: there is none
    verified: bool
    at: Moment  # the state that it brings back
    late: bool  # it is over its limit
    warnings: Sequence[Said]  # what stands in the way, or is newer

    @property
    def rank(self) -> tuple[int, int, int]:
        """How bad it is, the worst first: its state, what is doubted, and how much fails."""
        head = min((_HEADS.index(one.head) for one in self.doubts), default=len(_HEADS))
        failing = self.late + sum(one.state == FAIL for one in [*self.doubts, *self.warnings])
        return (FAIL, WARN, OK).index(self.state), head, -failing

    @property
    def usable(self) -> bool:
        """Whether commands about it are of use, now or after what must come first."""
        return self.after != _MENDED

    @property
    def short(self) -> str:
        """When one can be back, in a few words."""
        heads = [one.head for one in self.doubts]
        if self.snapshot and not self.after:
            return f"in about {self.took}" if self.took else "Time not known"
        return "Resume first" if _RESTORING in heads else heads[0]

    @property
    def caveat(self) -> Said | None:
        """The one thing to know beside that."""
        stale = [Said(state, "Too old", words) for late, state, words in
                 ((self.late, FAIL, "the backup"), (self.drill_late, WARN, "the drill")) if late]  # fmt: skip
        return next(iter([*self.doubts, *stale[:1], *self.warnings]), None)


def answer(site: SiteFacts, now: datetime) -> Answer:
    """Return when and from what a site can be back, as far as is known."""
    unverified = (one for one in reversed(site.shots) if _sound(one))
    named = (one for one in reversed(site.shots) if one.note == BY_NAME)
    shot, drill = site.newest or next(unverified, None) or next(named, None), site.drilled
    doubts, warnings = [*_doubts(site, now)], [*_warnings(site, now)]
    heads = {one.head for one in doubts}
    after = "once it has ended" if _RESTORING in heads else ""
    if "Not now" in heads:
        after = (
            "once one answers" if _unread(site, now) and not site.unusable and site.problem != NO_BACKUP else _MENDED
        )
    drill_late = drill is not None and now - drill.at > timedelta(seconds=site.drill_limit)
    late = shot is not None and now - shot.taken_at > timedelta(seconds=site.backup_limit)
    aged = {FAIL} if late else {WARN} if drill_late else set[str]()
    of = drill.snapshot if drill and shot else ""
    return Answer(
        _worst({one.state for one in [*doubts, *warnings]} | aged),
        _worst({one.state for one in doubts} | aged),
        doubts,
        after if shot else "",
        show_duration(drill.seconds) if drill and drill.seconds is not None else "",
        moment(drill.at if drill else None, now),
        drill_late,
        ""
        if not shot
        else "this snapshot"
        if of == shot.id
        else f"{'an earlier' if of < shot.id else 'another'} snapshot",
        shot.id if shot else "",
        shot is not None and shot.good,
        moment(shot.taken_at if shot else None, now),
        late,
        warnings,
    )


def _worst(states: Collection[str]) -> str:
    return next((one for one in (FAIL, WARN) if one in states), OK)


def _doubts(site: SiteFacts, now: datetime) -> Iterator[Said]:
    for run in site.restores[:1]:
        of = f", of snapshot {run.snapshot}" if run.snapshot else ""
        yield Said(FAIL, _RESTORING, f"resume it first; begun {moment(run.started, now).words}{of}")
    if site.unusable:
        yield Said(FAIL, "Not now", "its config cannot be used")
    if site.problem == NO_BACKUP:
        yield Said(FAIL, "No way back" if site.read is None else "Not now", NO_BACKUP)
        if site.read is None:
            return
    elif site.unknown:
        yield Said(FAIL, "Not known", "no store was ever read")
        return
    elif away := _unread(site, now):
        yield Said(FAIL, "Not now", f"no store could be read; last read {away}")
    if site.ahead:
        yield Said(WARN if site.newest else FAIL, "Not certain", "a backup or drill is dated in the future")
    if not site.newest and not any(map(_sound, site.shots)):
        yield _none(site)
    elif not any(one.good for one in site.shots):
        yield Said(FAIL, "Not proven", "no backup is verified")
    elif site.drills and not site.drills[-1].passed:
        yield Said(FAIL, "Not proven", f"the last drill failed {moment(site.drills[-1].at, now).words}")
    elif not site.drills:
        yield Said(WARN, "Not proven", "no drill is known")


def _sound(one: Shot) -> bool:
    return one.kind == RESTORABLE and one.meant


def _none(site: SiteFacts) -> Said:
    """Return what is said where no backup is seen that is restorable: there may be one where nobody could look."""
    kinds = Counter(one.kind if one.kind != OTHER else one.note.partition(":")[0] or OTHER for one in site.shots)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    words = f"{show_count(len(site.shots), 'snapshot')}, none restorable: {told}" if told else "there is no snapshot"
    if any(one.note == BY_NAME for one in site.shots):
        return Said(FAIL, "Not proven", "no backup, but a safety copy")
    if further := [one.location for one in site.copies if not one.barren and (one.snapshots or one.problem)]:
        return Said(FAIL, "Not certain", f"{words}; look into {further[0]}")
    if site.problem and site.problem != NO_BACKUP:
        return Said(FAIL, "Not certain", f"{words} in {site.store}, and not all could be read")
    return Said(FAIL, "No way back", words)


def _unread(site: SiteFacts, now: datetime) -> str:
    """Return how long ago a store was read, where none could be read when the site was seen."""
    return moment(site.read, now).words if site.problem and site.read and site.read != site.seen else ""


def _warnings(site: SiteFacts, now: datetime) -> Iterator[Said]:
    if site.windows:
        yield Said(FAIL, "The redaction window is open", SEEN_BY_ALL)
    if site.problem not in ("", NO_BACKUP) and not site.unknown and not _unread(site, now):
        yield Said(FAIL, "Not all can be seen", known_from(site, now))
    newer = site.newer
    if told := ", ".join(f"{newer[kind]} {kind}" for kind in (DAMAGED, AUDIT_ONLY) if newer.get(kind)):
        yield Said(WARN, "Newer ones cannot be restored", told)
    if site.newest and newer.get(RESTORABLE):
        yield Said("skip", "Newer, not yet verified", str(newer[RESTORABLE]))
    known = site.shots[-1].taken_at if site.shots else None
    if beyond := [one.location for one in site.copies if known and one.newest and known < one.newest <= site.seen]:
        yield Said(WARN, "A copy holds newer", f"look into {beyond[0]}")
