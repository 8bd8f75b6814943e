"""When a site can be back, to which state and from which snapshot; what is wrong, and the command that mends it."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from maint.errors import CannotReach, PartlyDone
from maint.model.formatting import show_count, show_duration
from maint.model.manager import CLOSE_COMMAND
from maint.report.site_facts import (
    AUDIT_ONLY,
    BY_NAME,
    DAMAGED,
    NO_BACKUP,
    OTHER,
    RESTORABLE,
    ROTTEN,
    PageFacts,
    ReportedRun,
    Shot,
)

FAIL, WARN, OK = "fail", "warn", "pass"
SEEN_BY_ALL = "everyone who may read the API sees passwords; the way back is no worse for it"
_ENDED = {2: "wrong options", 3: "wrong config", 4: "not reached", 5: "refused", 6: "locked"}


class Trouble(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    state: str
    words: str
    command: str

    @property
    def head(self) -> str:
        """What it is, without why."""
        return self.words.partition(": ")[0]


def troubles(site: PageFacts, now: datetime) -> Sequence[Trouble]:
    """Return what is wrong with a site, failures before warnings."""
    return sorted(_found(site, now), key=lambda one: one.state != FAIL)


def state_of(found: Sequence[Trouble]) -> str:
    """Return the worst state."""
    return found[0].state if found else OK


def _found(site: PageFacts, now: datetime) -> Iterator[Trouble]:
    here = site.here
    if site.unusable:
        words = f"its config cannot be used: {site.unusable}; {known_from(site, now)}"
        yield Trouble(FAIL, words, f"maint config validate {site.config}".strip())
    yield from (unfinished(run, site) for run in site.restores)
    if site.problem:
        yield Trouble(FAIL, f"not all can be seen: {site.problem}; {known_from(site, now)}", f"maint doctor {here}")
    for window in site.windows:
        yield Trouble(FAIL, f"the redaction window is open: {window}; {SEEN_BY_ALL}", f"{CLOSE_COMMAND} {here}")
    yield from (Trouble(WARN, one, f"{CLOSE_COMMAND} {here}") for one in site.doubts)
    yield from (unfinished(run, site) for run in site.runs if run.resumable and run not in site.restores)
    yield from (Trouble(FAIL, words, f"maint doctor {here}") for words in site.later)
    for path in site.lost:
        words = f"the journal {path} is damaged in its first line: what that run did is not known"
        yield Trouble(FAIL, f"{words}; look at the server, then move the file away", f"maint doctor {here}")
    for one in site.ended:
        if one.exit and not any(run.id == one.run and run.resumable for run in site.runs):
            how = "was partly done" if one.exit == PartlyDone.exit_code else _how(one.exit)
            words = f"the last {one.verb}, {moment(one.at, now).words}, {how}: {one.words}"
            command = f"maint {'doctor' if one.exit == CannotReach.exit_code else one.verb}"
            if command == _BACKUP or (not site.shots and not site.unknown and one.exit != CannotReach.exit_code):
                command = _backup(site)  # also where there is nothing yet that could be verified or rehearsed
            yield Trouble(WARN if one.exit == PartlyDone.exit_code else FAIL, words, f"{command} {here}")
    if not site.unknown:
        yield from _of_backups(site, now, here)
    for copy in site.copies:
        if copy.problem:
            yield Trouble(FAIL, f"the copy {copy.location} cannot be seen: {copy.problem}", f"maint doctor {here}")
        elif copy.missing:
            words = f"the copy {copy.location} lacks {show_count(copy.missing, 'snapshot')}; a backup brings them"
            yield Trouble(WARN, words, f"{_backup(site)} {here}")
        if copy.doubtful and not copy.problem:
            words = f"of the copy {copy.location} {show_count(copy.doubtful, 'snapshot')} not proven to be sound"
            yield Trouble(WARN, words, f"maint doctor {here}")
    yield from _of_hosts(site, here)


def _how(code: int) -> str:
    return f"ended with {code}" + (f" ({_ENDED[code]})" if code in _ENDED else "")


def unfinished(run: ReportedRun, site: PageFacts) -> Trouble:
    """Return what is wrong with a run that is not finished, and the command that deals with it."""
    words = f"run {run.id} ({run.playbook}) {'has' if run.state == 'failed' else 'is'} {run.state}"
    if any(run.id in one for one in site.windows):
        words += "; close its window first"
    if run.state == ROTTEN:
        words += ": what it did is not all known; look at the server, then give it up"
        return Trouble(FAIL, words, f"maint playbook dismiss {run.id} --reason WORDS {site.here}")
    words += "".join(f": {one.words}" for one in site.ended if one.run == run.id and one.words)
    return Trouble(FAIL, words, f"maint playbook resume {run.id} {site.here}")


def known_from(site: PageFacts, now: datetime) -> str:
    """Return where and when what is told of backups was read, for a site of which not all can be seen."""
    if site.read is None:
        return "nothing is known of its backups"
    return f"what is told was read in {site.store}" + (
        f", {moment(site.read, now).words}" if site.read != site.seen else ""
    )


_BACKUP, _OPENING = "maint backup create", "--open-window takes one with its passwords, and restarts the manager twice"


def _backup(site: PageFacts) -> str:
    """Return what takes a backup that can be restored."""
    redacted = not site.unknown and (site.newer.get(AUDIT_ONLY) or _last_sound(site) is None)
    return f"{_BACKUP} --open-window" if redacted else _BACKUP


def _of_backups(site: PageFacts, now: datetime, here: str) -> Iterator[Trouble]:
    newest, drill, last = site.newest, site.drilled, _last_sound(site)
    if newest is None and last is not None and not last.good:
        command = f"maint backup verify {last.id} {here} {site.elsewhere}".strip()
        yield Trouble(FAIL, "no restorable backup is verified", command)
    elif newest is None:
        yield Trouble(FAIL, f"there is no verified restorable backup; {_OPENING}", f"{_backup(site)} {here}")
    elif (now - newest.taken_at).total_seconds() > site.backup_limit:
        age = moment(newest.taken_at, now).words.removesuffix(" ago")
        words = f"the last verified backup is {age} old; the limit is {show_duration(site.backup_limit)}"
        yield Trouble(FAIL, words, f"{_backup(site)} {here}")
    for shot in site.shots:
        if shot.kind == DAMAGED:
            words = f"snapshot {shot.id} cannot be believed: {shot.note}"
            # What takes no --store would ask a store that is away.
            look = "show" if site.elsewhere and shot.proof == "drill" else shot.proof
            yield Trouble(WARN, words, f"maint backup {look} {shot.id} {here} {site.elsewhere}".strip())
    if site.newer.get(AUDIT_ONLY):
        newer = show_count(site.newer[AUDIT_ONLY], "newer snapshot")
        words = f"{newer} cannot be restored ({AUDIT_ONLY}: to read and compare); {_OPENING}"
        yield Trouble(WARN, words, f"{_backup(site)} {here}")
    if site.ahead:
        yield Trouble(
            WARN, "a backup or drill is dated in the future: a clock is wrong, or was", f"maint doctor {here}"
        )
    if not site.drills and any(one.kind == RESTORABLE for one in site.shots):
        yield Trouble(WARN, "no drill is known", f"maint backup drill {here}")
    elif drill and (now - drill.at).total_seconds() > site.drill_limit:
        words = f"the last good drill is {moment(drill.at, now).words}; the limit is {show_duration(site.drill_limit)}"
        yield Trouble(WARN, words, f"maint backup drill {here}")
    if site.drills and not site.drills[-1].passed:
        yield Trouble(FAIL, f"the last drill failed: {site.drills[-1].reason}", f"maint backup drill {here}")


def _of_hosts(site: PageFacts, here: str) -> Iterator[Trouble]:
    if site.checks is None:
        return
    silent = [name for name, why in site.checks.hosts.items() if why]
    failed = {one.check for one in site.checks.results if one.state == FAIL}
    heard = [one for one in site.checks.results if not one.hosts or {*one.hosts} - {*silent}]
    unclear = {one.check for one in heard if one.state == "error"}
    if silent:
        yield Trouble(FAIL, f"{show_count(len(silent), 'host')} did not answer", f"maint host check {here}")
    if failed:
        yield Trouble(FAIL, f"{show_count(len(failed), 'check')} of hosts failed", f"maint host check {here}")
    if unclear:
        yield Trouble(WARN, f"{show_count(len(unclear), 'check')} of hosts could not tell", f"maint host check {here}")


_DAY, _HOUR, _MINUTE = 86_400.0, 3_600.0, 60.0  # seconds


class Moment(msgspec.Struct, frozen=True):
    """A time in the reader's words, with the exact one beside; a template writes it as HTML."""

    words: str
    exact: str = ""
    iso: str = ""

    def __html__(self) -> str:
        """Return it as HTML; all of it is ours."""
        day, _, rest = self.exact.partition(" ")
        known = f'<time datetime="{self.iso}">{self.words}</time> <small><span>{day}</span> {rest}</small>'
        return known if self.iso else self.words


def moment(at: datetime | None, now: datetime, *, whole_days: bool = False) -> Moment:
    """Return how long ago a time was, as exactly as people say it; beyond a day `whole_days` may do."""
    if at is None:
        return Moment("never")
    away = (now - at).total_seconds()
    for unit, beyond in (_DAY, _DAY if whole_days else 4 * _DAY), (_HOUR, _DAY), (_MINUTE, _MINUTE):
        if abs(away) > beyond:
            away = int(away / unit) * unit
            break
    words = "now" if abs(away) < 1 else f"{show_duration(away)} ago" if away > 0 else f"in {show_duration(-away)}"
    return Moment(words, f"{at.isoformat(' ', 'minutes')[:16]} UTC", at.isoformat())


_RESTORING, _MENDED = "A restore is unfinished", "once that is mended"
# The worst first. A backup is verified, a restore is proven by a drill.
_HEADS = ("No way back", "Not known", "Not now", "Not certain", "Not verified", "Not proven", _RESTORING, "")


class Sentence(msgspec.Struct, frozen=True):
    """A short sentence: what it is about, such as "Not proven", and the one reason."""

    state: str
    head: str
    words: str


class RecoveryAnswer(msgspec.Struct, frozen=True):
    """What somebody who has lost a manager asks first."""

    state: str  # the worst of what it says
    way: str  # of the way back alone
    doubts: Sequence[Sentence]  # why it may not be so, or why there is no way back
    after: str  # what must come first, such as "for another restore after it"; empty: nothing
    took: str  # by the last good drill, such as "5m 29s"; empty: not known
    drilled: Moment  # when that was
    drill_late: bool  # it is over its limit
    of: str  # the snapshot that it was of, beside this one
    other: str  # that one's id; empty: this one
    snapshot: str  # empty: there is none
    verified: bool
    at: Moment  # the state that it brings back
    late: bool  # it is over its limit
    warnings: Sequence[Sentence]  # what stands in the way, or is newer

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
            return self._time
        first = [one.words for one in self.doubts if one.head == _RESTORING]
        return heads[0] if not first else "Resume first" if first[0].startswith("resume") else "Look first"

    @property
    def then(self) -> str:
        """When one can be back after what must come first, in a few words; empty: nothing must."""
        return f"{self.after}: {self._time[0].lower()}{self._time[1:]}" if self.after else ""

    @property
    def _time(self) -> str:
        return f"in about {self.took}" if self.took else "Time not known"

    @property
    def caveat(self) -> Sentence | None:
        """The one thing to know beside that."""
        stale = [Sentence(state, "Too old", words) for late, state, words in
                 ((self.late, FAIL, "the backup"), (self.drill_late, WARN, "the drill")) if late]  # fmt: skip
        return next(iter([*self.doubts, *stale[:1], *self.warnings]), None)


def answer(site: PageFacts, now: datetime) -> RecoveryAnswer:
    """Return when and from what a site can be back, as far as is known."""
    named = (one for one in reversed(site.shots) if one.note == BY_NAME)
    shot, drill = site.newest or _last_sound(site) or next(named, None), site.drilled
    doubts, warnings = [*_doubts(site, now)], [*_warnings(site, now)]
    heads = {one.head for one in doubts}
    after = "for another restore after it" if _RESTORING in heads else ""
    if "Not now" in heads:
        after = (
            "once one answers" if _unread(site, now) and not site.unusable and site.problem != NO_BACKUP else _MENDED
        )
    drill_late = drill is not None and now - drill.at > timedelta(seconds=site.drill_limit)
    late = shot is not None and now - shot.taken_at > timedelta(seconds=site.backup_limit)
    aged = {FAIL} if late else {WARN} if drill_late else set[str]()
    of = drill.snapshot if drill and shot else ""
    return RecoveryAnswer(
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
        of if shot and of != shot.id else "",
        shot.id if shot else "",
        shot is not None and shot.good,
        moment(shot.taken_at if shot else None, now),
        late,
        warnings,
    )


def _worst(states: Collection[str]) -> str:
    return next((one for one in (FAIL, WARN) if one in states), OK)


def _doubts(site: PageFacts, now: datetime) -> Iterator[Sentence]:
    for run in site.restores[:1]:
        of = f", of snapshot {run.snapshot}" if run.snapshot else ""
        first = "resume it first" if run.state != ROTTEN else "its journal is damaged, so look at the server first"
        yield Sentence(FAIL, _RESTORING, f"{first}; begun {moment(run.started, now).words}{of}")
    if site.unusable:
        yield Sentence(FAIL, "Not now", "its config cannot be used")
    if site.problem == NO_BACKUP:
        yield Sentence(FAIL, "No way back" if site.read is None else "Not now", NO_BACKUP)
        if site.read is None:
            return
    elif site.unknown:
        yield Sentence(FAIL, "Not known", "no store was ever read")
        return
    elif away := _unread(site, now):
        yield Sentence(FAIL, "Not now", f"no store could be read; last read {away}")
    if site.ahead:
        yield Sentence(WARN if site.newest else FAIL, "Not certain", "a backup or drill is dated in the future")
    if not site.newest and _last_sound(site) is None:
        yield _none(site)
    elif not any(one.good for one in site.shots):
        yield Sentence(FAIL, "Not verified", "no backup is, yet")
    elif site.drills and not site.drills[-1].passed:
        yield Sentence(FAIL, "Not proven", f"the last drill failed {moment(site.drills[-1].at, now).words}")
    elif not site.drills:
        yield Sentence(WARN, "Not proven", "no drill is known")


def _sound(one: Shot) -> bool:
    return one.kind == RESTORABLE and one.meant


def _last_sound(site: PageFacts) -> Shot | None:
    return next((one for one in reversed(site.shots) if _sound(one)), None)


def _none(site: PageFacts) -> Sentence:
    """Return what is said where no backup is seen that is restorable: there may be one where nobody could look."""
    kinds = Counter(one.kind if one.kind != OTHER else one.note.partition(":")[0] or OTHER for one in site.shots)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    words = f"{show_count(len(site.shots), 'snapshot')}, none restorable: {told}" if told else "there is no snapshot"
    if any(one.note == BY_NAME for one in site.shots):
        return Sentence(FAIL, "Not certain", "no backup, but a safety copy")
    if further := [one.location for one in site.copies if not one.barren and (one.snapshots or one.problem)]:
        return Sentence(FAIL, "Not certain", f"{words}; look into {further[0]}")
    if site.problem and site.problem != NO_BACKUP:
        return Sentence(FAIL, "Not certain", f"{words} in {site.store}, and not all could be read")
    return Sentence(FAIL, "No way back", words)


def _unread(site: PageFacts, now: datetime) -> str:
    """Return how long ago a store was read, where none could be read when the site was seen."""
    return moment(site.read, now).words if site.problem and site.read and site.read != site.seen else ""


def _warnings(site: PageFacts, now: datetime) -> Iterator[Sentence]:
    if site.windows:
        yield Sentence(FAIL, "The redaction window is open", SEEN_BY_ALL)
    if site.problem not in ("", NO_BACKUP) and not site.unknown and not _unread(site, now):
        yield Sentence(FAIL, "Not all can be seen", known_from(site, now))
    newer = site.newer
    if told := ", ".join(f"{newer[kind]} {kind}" for kind in (DAMAGED, AUDIT_ONLY) if newer.get(kind)):
        yield Sentence(WARN, "Newer ones cannot be restored", told)
    if site.newest and newer.get(RESTORABLE):
        yield Sentence("skip", "Newer, not yet verified", str(newer[RESTORABLE]))
    known = site.shots[-1].taken_at if site.shots else None
    if beyond := [one.location for one in site.copies if known and one.newest and known < one.newest <= site.seen]:
        yield Sentence(WARN, "A copy holds newer", f"look into {beyond[0]}")
