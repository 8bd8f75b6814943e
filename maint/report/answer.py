"""When a site can be back, to which state and from which snapshot: in a sentence that claims no more than is known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from maint.model.formatting import show_count, show_duration
from maint.report.moment import Moment, moment
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, KINDS, RESTORABLE, SiteFacts
from maint.report.troubles import FAIL, OK, WARN, known_from

_HEADS = ("No way back", "Not known", "Not now", "Not certain", "Not proven", "")  # the worst first


class Said(msgspec.Struct, frozen=True):
    """A short sentence: what it is about, such as "Not proven", and the one reason."""

    state: str
    head: str
    words: str


class Answer(msgspec.Struct, frozen=True):
    """What somebody who has lost a manager asks first."""

    state: str  # of the sentence
    doubts: Sequence[Said]  # why it may not be so, or why there is no way back
    took: str  # by the last good drill, such as "5m 29s"; empty: not known
    drilled: Moment  # when that was
    drill_late: bool  # it is over its limit
    snapshot: str  # empty: there is none
    verified: bool
    at: Moment  # the state that it brings back
    late: bool  # it is over its limit
    warnings: Sequence[Said]  # what stands in the way, or is newer

    @property
    def rank(self) -> int:
        """How bad it is, 0 the worst."""
        return min((_HEADS.index(one.head) for one in self.doubts), default=len(_HEADS))


def answer(site: SiteFacts, now: datetime) -> Answer:
    """Return when and from what a site can be back, as far as is known."""
    unverified = (one for one in reversed(site.shots) if one.kind == RESTORABLE and one.meant)
    shot, drill = site.newest or next(unverified, None), site.drilled
    doubts, warnings = [*_doubts(site, now)], [*_warnings(site, now)]
    drill_late = drill is not None and now - drill.at > timedelta(seconds=site.drill_limit)
    late = shot is not None and now - shot.taken_at > timedelta(seconds=site.backup_limit)
    return Answer(
        doubts[0].state if doubts else WARN if late or drill_late or warnings else OK,
        doubts,
        show_duration(drill.seconds) if drill and drill.seconds is not None else "",
        moment(drill.at if drill else None, now),
        drill_late,
        shot.id if shot else "",
        shot is not None and shot.good,
        moment(shot.taken_at if shot else None, now),
        late,
        warnings,
    )


def _doubts(site: SiteFacts, now: datetime) -> Iterator[Said]:
    if site.unusable:
        yield Said(FAIL, "Not now", "its config cannot be used")
    if site.unknown:
        yield Said(FAIL, "Not known", "no store was ever read")
        return
    if away := _unread(site, now):
        yield Said(FAIL, "Not certain", f"no store could be read; last read {away}")
    sound = [one for one in site.shots if one.kind == RESTORABLE and one.meant]
    if not site.shots:
        yield Said(FAIL, "No way back", "there is no snapshot")
    elif not site.newest and not sound:
        kinds = Counter(one.kind for one in site.shots)
        told = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
        yield Said(FAIL, "No way back", f"{show_count(len(site.shots), 'snapshot')}, none restorable: {told}")
    elif not site.newest:
        yield Said(FAIL, "Not proven", "no backup is verified")
    elif site.drills and not site.drills[-1].passed:
        yield Said(FAIL, "Not proven", "the last drill failed")
    elif not site.drills:
        yield Said(WARN, "Not proven", "no drill is known" if site.problem else "no restore was ever rehearsed")


def _unread(site: SiteFacts, now: datetime) -> str:
    """Return how long ago a store was read, where none could be read when the site was seen."""
    return moment(site.read, now).words if site.problem and site.read and site.read < site.seen else ""


def _warnings(site: SiteFacts, now: datetime) -> Iterator[Said]:
    if site.windows:
        yield Said(FAIL, "The redaction window is open", "")
    if site.problem and not site.unknown and not _unread(site, now):
        yield Said(FAIL, "Not all can be seen", known_from(site, now))
    newest = site.newest
    newer = Counter(one.kind for one in site.shots if newest and one.taken_at > newest.taken_at and one.meant)
    if told := ", ".join(f"{newer[kind]} {kind}" for kind in (DAMAGED, AUDIT_ONLY) if newer[kind]):
        yield Said(WARN, "Newer, but no way back", told)
    if site.restores:
        yield Said(FAIL, "A restore is unfinished", "resume it first")
