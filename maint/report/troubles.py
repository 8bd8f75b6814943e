"""What is wrong with a site, the worst first, each with the command that goes about it."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from maint.errors import PartlyDone
from maint.model.formatting import show_count, show_duration
from maint.model.manager import CLOSE_COMMAND
from maint.report.site_facts import AUDIT_ONLY, DAMAGED, Run, SiteFacts

FAIL, WARN, OK = "fail", "warn", "pass"


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
    yield from (_unfinished(run, here) for run in site.restores)
    if site.problem:
        yield Trouble(FAIL, f"not all can be seen: {site.problem}; {known_from(site, now)}", f"maint doctor {here}")
    for window in site.windows:
        yield Trouble(FAIL, f"the redaction window is open: {window}", f"{CLOSE_COMMAND} {here}")
    yield from (_unfinished(run, here) for run in site.runs if run.resumable and run not in site.restores)
    for one in site.ended:
        if one.exit and not any(run.id == one.run and run.resumable for run in site.runs):
            how = "was partly done" if one.exit == PartlyDone.exit_code else f"ended with {one.exit}"
            words = f"the last {one.verb}, {show_duration((now - one.at).total_seconds())} ago, {how}: {one.words}"
            yield Trouble(WARN if one.exit == PartlyDone.exit_code else FAIL, words, f"maint {one.verb} {here}")
    if not site.unknown:
        yield from _of_backups(site, now, here)
    for copy in site.copies:
        if copy.problem:
            yield Trouble(FAIL, f"the copy {copy.location} cannot be seen: {copy.problem}", f"maint doctor {here}")
        elif copy.missing:
            words = f"the copy {copy.location} lacks {show_count(copy.missing, 'snapshot')}; a backup brings them"
            yield Trouble(WARN, words, f"maint backup create {here}")
    yield from _of_hosts(site, here)


def _unfinished(run: Run, here: str) -> Trouble:
    words = f"run {run.id} ({run.playbook}) {'has' if run.state == 'failed' else 'is'} {run.state}"
    return Trouble(FAIL, words, f"maint playbook resume {run.id} {here}")


def known_from(site: SiteFacts, now: datetime) -> str:
    """Return where and when what is told of backups was read, for a site of which not all can be seen."""
    if site.read is None:
        return "nothing is known of its backups"
    age = (now - site.read).total_seconds()
    return f"what is told was read in {site.store}" + (f", {show_duration(age)} ago" if site.read != site.seen else "")


def _of_backups(site: SiteFacts, now: datetime, here: str) -> Iterator[Trouble]:
    newest, drill = site.newest, site.drilled
    if newest is None:
        yield Trouble(FAIL, "there is no verified restorable backup", f"maint backup create --open-window {here}")
    elif (age := (now - newest.taken_at).total_seconds()) > site.backup_limit:
        words = f"the last verified backup is {show_duration(age)} old; the limit is {show_duration(site.backup_limit)}"
        yield Trouble(FAIL, words, f"maint backup create {here}")
    for shot in site.shots:
        if shot.kind == DAMAGED:
            words = f"snapshot {shot.id} cannot be believed: {shot.note}"
            yield Trouble(WARN, words, f"maint backup verify {shot.id} {here}")
    if site.newer.get(AUDIT_ONLY):
        words = f"what is newer is no way back: {site.newer[AUDIT_ONLY]} {AUDIT_ONLY}"
        yield Trouble(WARN, words, f"maint backup create --open-window {here}")
    if site.ahead:
        yield Trouble(
            WARN, "a backup or drill is dated in the future: a clock is wrong, or was", f"maint doctor {here}"
        )
    if not site.drills:
        yield Trouble(WARN, "no drill is known", f"maint backup drill {here}")
    elif drill and (age := (now - drill.at).total_seconds()) > site.drill_limit:
        words = f"the last good drill is {show_duration(age)} ago; the limit is {show_duration(site.drill_limit)}"
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
