"""What is wrong with a site, the worst first, each with the command that goes about it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from maint.errors import CannotReach, PartlyDone
from maint.model.formatting import show_count, show_duration
from maint.model.manager import CLOSE_COMMAND
from maint.report.moment import moment
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, RESTORABLE, Run, SiteFacts

FAIL, WARN, OK = "fail", "warn", "pass"
SEEN_BY_ALL = "everyone who may read the API sees passwords; the way back is no worse for it"
_ENDED = {2: "wrong options", 3: "wrong config", 4: "not reached", 5: "refused", 6: "locked"}


class Trouble(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    state: str
    words: str
    command: str


def troubles(site: SiteFacts, now: datetime) -> Sequence[Trouble]:
    """Return what is wrong with a site, failures before warnings."""
    return sorted(_found(site, now), key=lambda one: one.state != FAIL)


def state_of(found: Sequence[Trouble]) -> str:
    """Return the worst state."""
    return found[0].state if found else OK


def _found(site: SiteFacts, now: datetime) -> Iterator[Trouble]:
    here = site.here
    if site.unusable:
        words = f"its config cannot be used: {site.unusable}; {known_from(site, now)}"
        yield Trouble(FAIL, words, f"maint config validate {site.config}".strip())
    yield from (unfinished(run, site) for run in site.restores)
    if site.problem:
        yield Trouble(FAIL, f"not all can be seen: {site.problem}; {known_from(site, now)}", f"maint doctor {here}")
    for window in site.windows:
        yield Trouble(FAIL, f"the redaction window is open: {window}; {SEEN_BY_ALL}", f"{CLOSE_COMMAND} {here}")
    yield from (unfinished(run, site) for run in site.runs if run.resumable and run not in site.restores)
    for one in site.ended:
        if one.exit and not any(run.id == one.run and run.resumable for run in site.runs):
            how = "was partly done" if one.exit == PartlyDone.exit_code else _how(one.exit)
            words = f"the last {one.verb}, {moment(one.at, now).words}, {how}: {one.words}"
            command = "doctor" if one.exit == CannotReach.exit_code else one.verb
            yield Trouble(WARN if one.exit == PartlyDone.exit_code else FAIL, words, f"maint {command} {here}")
    if not site.unknown:
        yield from _of_backups(site, now, here)
    for copy in site.copies:
        if copy.problem:
            yield Trouble(FAIL, f"the copy {copy.location} cannot be seen: {copy.problem}", f"maint doctor {here}")
        elif copy.missing:
            words = f"the copy {copy.location} lacks {show_count(copy.missing, 'snapshot')}; a backup brings them"
            yield Trouble(WARN, words, f"maint backup create {here}")
    yield from _of_hosts(site, here)


def _how(code: int) -> str:
    return f"ended with {code}" + (f" ({_ENDED[code]})" if code in _ENDED else "")


def unfinished(run: Run, site: SiteFacts) -> Trouble:
    """Return what is told of a run that is to be taken up."""
    words = f"run {run.id} ({run.playbook}) {'has' if run.state == 'failed' else 'is'} {run.state}"
    if any(run.id in one for one in site.windows):
        words += "; close its window first"
    return Trouble(FAIL, words, f"maint playbook resume {run.id} {site.here}")


def known_from(site: SiteFacts, now: datetime) -> str:
    """Return where and when what is told of backups was read, for a site of which not all can be seen."""
    if site.read is None:
        return "nothing is known of its backups"
    return f"what is told was read in {site.store}" + (
        f", {moment(site.read, now).words}" if site.read != site.seen else ""
    )


_OPENING = "--open-window takes one with its passwords, and restarts the manager twice"


def _of_backups(site: SiteFacts, now: datetime, here: str) -> Iterator[Trouble]:
    newest, drill = site.newest, site.drilled
    if newest is None:
        yield Trouble(
            FAIL, f"there is no verified restorable backup; {_OPENING}", f"maint backup create --open-window {here}"
        )
    elif (now - newest.taken_at).total_seconds() > site.backup_limit:
        age = moment(newest.taken_at, now).words.removesuffix(" ago")
        words = f"the last verified backup is {age} old; the limit is {show_duration(site.backup_limit)}"
        yield Trouble(FAIL, words, f"maint backup create {here}")
    for shot in site.shots:
        if shot.kind == DAMAGED:
            words = f"snapshot {shot.id} cannot be believed: {shot.note}"
            yield Trouble(WARN, words, f"maint backup verify {shot.id} {here}")
    if site.newer.get(AUDIT_ONLY):
        newer = show_count(site.newer[AUDIT_ONLY], "newer snapshot")
        words = f"{newer} cannot be restored ({AUDIT_ONLY}: to read and compare); {_OPENING}"
        yield Trouble(WARN, words, f"maint backup create --open-window {here}")
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


def _of_hosts(site: SiteFacts, here: str) -> Iterator[Trouble]:
    if site.checks is None:
        return
    silent = [name for name, why in site.checks.hosts.items() if why]
    failed = {one.check for one in site.checks.results if one.state == FAIL}
    if silent:
        yield Trouble(FAIL, f"{show_count(len(silent), 'host')} did not answer", f"maint host check {here}")
    if failed:
        yield Trouble(FAIL, f"{show_count(len(failed), 'check')} of hosts failed", f"maint host check {here}")
