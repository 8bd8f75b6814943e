"""What follows every run, drill, verification and pruning: its report, the notices, the metrics of the site."""

import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

import maint
from maint.cli.boundary import insist
from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import metrics, outcomes
from maint.cli.monitoring.outcomes import VerbOutcome
from maint.cli.open_site import named_in
from maint.cli.run_report import folder, report_of
from maint.cli.screen import Screen
from maint.config.paths import actor
from maint.engine import lease, past_runs
from maint.engine.history import forget, prunable
from maint.engine.shared_runs import unless_held
from maint.errors import (
    DeadlinePassed,
    Failure,
    Interrupted,
    Invalid,
    Locked,
    MaintError,
    Mistyped,
    PartlyDone,
    Stopped,
    Unfinished,
    UsageError,
    exit_of,
)
from maint.files import keep_record
from maint.model.formatting import show_count, show_duration, show_ends
from maint.model.notice import Kind, Notice, Told, verb_of
from maint.model.secret import scrub
from maint.report.run import write
from maint.snapshots.catalogue import entries
from maint.snapshots.in_progress import newest_seen
from maint.snapshots.prune import newest_good
from maint.snapshots.records import drills, last_good
from maint.steps.services.change_setting import expire

BRIEFLY = 5.0  # seconds for stores to answer after a failure, which may have come of a silent one
_AT_ONCE = 1.0  # the same where somebody wants an end of it
_LINES = 10  # of a failure's details that a notice shows
_LONGEST = 400  # characters of why something ended badly that are kept


class Ending(msgspec.Struct, frozen=True):
    """How something ended: what, begun when, its run (empty: no journal), why it failed, start told, bytes moved."""

    verb: str
    begun: datetime
    run: str = ""
    failure: Exception | None = None
    started: bool = False
    moved: int = 0

    @property
    def exit(self) -> int:
        """The exit code."""
        return exit_of(self.failure)


def after_run(site: ConfiguredSite, screen: Screen, ending: Ending) -> Mapping[str, str]:
    """Do what follows whatever worked on a site, and return the files of a run's report, by kind; stops nothing.

    Raises:
        Interrupted: a signal came while this was done after something that worked.
    """
    files: Mapping[str, str] = {}
    try:
        if ending.run:
            files = _report(site, screen, ending.run)
            _forget(site, screen)
        tell_takeover(site, screen)
        unasked = ""
        if not _called_off(ending.failure):
            unasked = _tell_end(site, screen, ending)
        elif ending.started:
            mistyped = isinstance(ending.failure, Mistyped)
            how = "is not done: a password was mistyped" if mistyped else "was stopped"
            words = f"{ending.verb} {how} at a terminal"
            tell(site, screen, [_notice(site, Kind.STOPPED, ending.verb, words, run=ending.run, exit=ending.exit)])
        partly = isinstance(ending.failure, PartlyDone)
        refresh(site, screen, None if partly else _patience(ending.failure), unasked)
        if site.settings.backup and not isinstance(ending.failure, Invalid):
            with _warned(screen, "what the store may hide is not found out (`maint doctor`)"):
                newest_seen(site)
    except Interrupted:
        if ending.failure is None:  # else that is what is still told
            raise
    return files


def refresh(site: ConfiguredSite, screen: Screen, within: float | None, unasked: str = "") -> None:
    """Write anew what tells of a site: metrics, the figures of `site list`, pages; it stops nothing.

    Args:
        within: seconds that stores have for each, since one of them may be silent; None for no limit.
        unasked: why no store is asked, where one was silent already; none is once one was here.
    """
    if site.configured is not site:  # another store is named where the first is silent
        within = within or BRIEFLY
    site = site.configured
    said = site.settings
    for wanted, what, telling in (
        (said.metrics, f"the metrics {said.metrics}", partial(metrics.publish, site, screen)),
        (said.backup, "the figures of `maint site list`", partial(_summarize, site)),
        (said.report_folder, f"the pages in {said.report_folder}", partial(_pages, site, screen)),
    ):
        if wanted is None:
            continue
        if not unasked:
            try:
                with site.clock.limit(within):
                    telling("")
                continue
            except DeadlinePassed as passed:
                if within is None:  # it was not ours
                    raise
                unasked = passed.message
        screen.warn(f"{what} tell nothing new of the store: {unasked}")
        telling(unasked)


def _patience(failure: Exception | None) -> float | None:
    """Return for how long stores are asked after that: one that is silent may be why it failed."""
    if failure is None:
        return None
    return _AT_ONCE if isinstance(failure, Interrupted) else BRIEFLY


def _report(site: ConfiguredSite, screen: Screen, run: str) -> Mapping[str, str]:
    files: Mapping[str, Path] = {}
    with _warned(screen, f"the report of run {run} is not written"):
        files = write(report_of(past_runs.find(site.state, run), named=site.named), folder(site.state))
    return {kind: str(path) for kind, path in files.items()}


@contextmanager
def _warned(screen: Screen, words: str) -> Iterator[None]:
    """Warn of what fails in the block, with these words before why; it stops nothing."""
    try:
        yield
    except (OSError, Failure) as error:
        screen.warn(f"{words}: {error}")


def _summarize(site: ConfiguredSite, unasked: str) -> None:
    """Keep for `maint site list` what is seen of the store; where that fails, the age of what is kept tells so."""
    if not unasked:
        try:
            known = entries(site)
            seen = outcomes.summary_of(known, last_good(drills(site)), site.clock.now())
            keep_record(site.state / outcomes.SUMMARY, seen)
        except (OSError, Failure):
            return


def _pages(site: ConfiguredSite, screen: Screen, unasked: str) -> None:
    """Write the catalogue pages."""
    from maint.cli.site.page_files import write_pages  # few configs ask for pages

    with _warned(screen, f"the pages in {site.settings.report_folder} are not written"):
        write_pages(site, unasked)


def _forget(site: ConfiguredSite, screen: Screen) -> None:
    """Forget old runs where the config says how many stay."""
    kept = site.settings.history
    if kept is None:
        return
    with _warned(screen, "old runs are not forgotten"):
        old = prunable(site.state, site.clock.now(), last=kept.last, age=kept.age)
        expire(site.state, site.undo, site.clock.now())
        forget(site.state, old.runs)
        if old.runs:
            stay = f"; {show_count(len(old.kept), 'run')} that can be undone stay" if old.kept else ""
            screen.say(f"{show_count(len(old.runs), 'old run')} forgotten, as `history` in the config says{stay}")


def _called_off(failure: Exception | None) -> bool:
    """Whether somebody at a terminal stopped it, or mistyped a password, who needs not be told; but a ping waits for an
    end of each start.
    """
    stopped = isinstance(failure, Interrupted) and failure.signal_number == signal.SIGINT
    return stopped or isinstance(failure, Mistyped)


@contextmanager
def followed(site: ConfiguredSite, screen: Screen, verb: str) -> Iterator[Callable[[], None]]:
    """Have what keeps no journal followed by all that follows a run; it calls what it gets once it has the lock."""
    begun, at_work = site.clock.now(), list[metrics.AtWork]()

    def begin() -> None:
        if not at_work:
            at_work.append(metrics.AtWork(site))
            tell_start(site, screen, verb)
            insist()

    failure: Exception | None = None
    try:
        yield begin
    except Exception as error:
        failure = error
    moved = sum(one.end() for one in at_work)
    if not isinstance(failure, Locked):
        after_run(site, screen, Ending(verb, begun, failure=failure, started=bool(at_work), moved=moved))
    if failure is not None:
        raise failure


@contextmanager
def planned(site: ConfiguredSite, screen: Screen, playbook: str, *, dry_run: bool) -> Iterator[None]:
    """Have it told when a run fails before it could begin, unless somebody at a terminal sees that anyway."""
    begun = site.clock.now()
    try:
        with nullcontext() if dry_run else unless_held(site):
            yield
    except Exception as error:
        if not (dry_run or site.person is not None or isinstance(error, Locked | UsageError)):
            after_run(site, screen, Ending(verb_of(playbook), begun, failure=error))
        raise


def tell_start(site: ConfiguredSite, screen: Screen, verb: str) -> None:
    """Tell those who wait for the end that something begins; its lock is held."""
    tell(site, screen, [_notice(site, Kind.START, verb, f"{verb} begins")])


def tell_left(site: ConfiguredSite, screen: Screen, run: str) -> None:
    """Say what remains to be done by the operator, where a run has come to its end; `run`: "" without a journal."""
    past = past_runs.find(site.state, run) if run else None
    for line in report_of(past, named=site.named).left if past and past.over else ():
        screen.say(f"left to do: {line}")


def tell_takeover(site: ConfiguredSite, screen: Screen) -> None:
    """Tell that a lease was taken over, once: a machine that died at work cannot tell it."""
    one = lease.last_takeover(site.state)
    if one is None or one.told:
        return
    hint = "look what became of that machine; `maint playbook history` lists its run where it has to be taken up"
    more = {"run": one.run, "exit": MaintError.exit_code, "hint": named_in(hint, site.settings.name)}
    told = tell(site, screen, [_notice(site, Kind.FAILURE, verb_of(one.playbook), one.words, **more)])
    if _reached(told):
        lease.mark_takeover(site.state, one, told=True)


def _reached(told: Sequence[Told]) -> bool:
    """Whether somebody was told, or nobody is to be; what has reached nobody is told again by what ends next."""
    return not told or any(not one.problem for one in told)


def _tell_end(site: ConfiguredSite, screen: Screen, ending: Ending) -> str:
    """Tell how something ended, and of the age of the newest backup; return what `tell_age` does."""
    now, failure = site.clock.now(), ending.failure
    seconds = (now - ending.begun).total_seconds()
    words = scrub(failure.message if isinstance(failure, MaintError) else type(failure).__name__) if failure else ""
    why = show_ends(scrub(failure.in_a_line if isinstance(failure, MaintError) else words), _LONGEST)
    before, store = outcomes.last(site.state, ending.verb), _alone(site)
    if ending.exit and before is not None and before.exit and before.store != store:
        store = ""  # two stores have failed now, and a success with one of them mends no other
    outcome = VerbOutcome(ending.verb, ending.exit, now.timestamp(), seconds, ending.run, why, ending.moved, store)
    if _is_of_another(before, outcome):
        kinds: Sequence[Kind] = (Kind.SUCCESS,)
    else:
        kinds = outcomes.ended(before, outcome)
        _keep(site, screen, outcome)
    more = {"run": ending.run, "exit": ending.exit, "seconds": seconds}
    if isinstance(failure, MaintError):
        hint = named_in(scrub(failure.way_on or ""), site.settings.name)  # its reader has nothing else to go by
        more |= {"detail": [scrub(line) for line in failure.detail[:_LINES]], "hint": hint}
    how = words if words.startswith(_how(failure)) else f"{_how(failure)}: {words}"
    said = {Kind.RECOVERED: "works again", Kind.SUCCESS: "is done", Kind.FAILURE: how}
    tell(site, screen, [_notice(site, kind, ending.verb, f"{ending.verb} {said[kind]}", **more) for kind in kinds])
    return tell_age(site, screen, _patience(failure))


def _is_of_another(before: VerbOutcome | None, now: VerbOutcome) -> bool:
    """Whether something ended well with a store of that command alone, which mends no failure but its own."""
    if not now.store or now.verb not in outcomes.SCHEDULED or now.exit or before is None or not before.exit:
        return False
    return before.store != now.store and (not now.run or before.run != now.run)


def _alone(site: ConfiguredSite) -> str:
    """Return the store that the command alone names, "" where it works on the site's own."""
    return site.settings.backup.store if site.configured is not site and site.settings.backup else ""


def _how(failure: Exception | None) -> str:
    if isinstance(failure, Unfinished):
        return "waits for a person"
    return "is partly done" if isinstance(failure, PartlyDone) else "failed"


def tell_age(site: ConfiguredSite, screen: Screen, within: float | None) -> str:
    """Tell where the newest verified restorable backup has become older than it may be, once a day, and its end.

    Returns:
        Why stores need not be asked again; empty: they were not silent for the seconds that they had.
    """
    if site.configured is not site:  # see `refresh`
        within = within or BRIEFLY
    site = site.configured
    backup, verb = site.settings.backup, outcomes.SCHEDULED[0]
    if backup is None or not any(one.ways(Kind.STALE, verb) for one in site.settings.notify):
        return ""
    now, before = site.clock.now(), outcomes.last(site.state, outcomes.FRESHNESS)
    try:
        with site.clock.limit(within):
            newest = newest_good(entries(site), now)
    except (OSError, MaintError) as error:
        silent = within is not None and isinstance(error, DeadlinePassed)
        if isinstance(error, Stopped) and not silent:  # it was not ours
            raise
        screen.warn(f"how old the newest backup is cannot be told: {error}")
        return error.message if isinstance(error, DeadlinePassed) else ""
    age = (now - newest.taken_at).total_seconds() if newest else None
    fresh = age is not None and age <= backup.max_age
    outcome = VerbOutcome(outcomes.FRESHNESS, 0 if fresh else 1, now.timestamp())
    kinds = outcomes.aged(before, outcome)
    if not kinds:
        return ""
    words = "there is no verified restorable backup"
    if newest and age is not None:
        words = f"the newest verified restorable backup, {newest.id}, is {show_duration(age)} old"
        words = f"fresh again: {words}" if fresh else f"{words}, more than {show_duration(backup.max_age)}"
    hint = "" if fresh else named_in("`maint doctor` tells what stands in the way", site.settings.name)
    told = tell(site, screen, [_notice(site, kind, verb, words, exit=outcome.exit, hint=hint) for kind in kinds])
    if _reached(told):
        _keep(site, screen, outcome)
    return ""


def tell(
    site: ConfiguredSite, screen: Screen, notices: Sequence[Notice], names: Collection[str] | None = None
) -> Sequence[Told]:
    """Tell those who are configured (`names`: only some of them); trouble is warned of and kept, and stops nothing."""
    if not site.settings.notify or not notices:
        return ()
    try:
        told = site.notices.tell(notices, names)
    except Failure as error:
        screen.warn(f"nobody could be told: {error.message}")
        return ()
    problems = dict[str, str]()
    for one in told:
        problems[one.name] = problems.get(one.name) or one.problem
        if one.problem:
            screen.warn(f"notice {one.name} was not told: {one.problem}")
    for name, problem in problems.items():
        at = site.clock.now().timestamp()
        _keep(site, screen, VerbOutcome(outcomes.NOTICE + name, 1 if problem else 0, at, words=problem))
    return told


def trial_notice(site: ConfiguredSite) -> Notice:
    """Return a notice that says nothing but that it arrives."""
    return _notice(site, Kind.TEST, "notify test", "this is a test; nothing has happened")


def _notice(site: ConfiguredSite, kind: Kind, verb: str, words: str, **more: object) -> Notice:
    given = {"at": site.clock.now().isoformat(timespec="seconds"), "by": actor(), "version": maint.__version__, **more}
    return msgspec.convert(
        {"kind": kind.value, "site": site.settings.name, "verb": verb, "words": words, **given}, Notice
    )


def _keep(site: ConfiguredSite, screen: Screen, outcome: VerbOutcome) -> None:
    try:
        outcomes.keep(site.state, outcome)
    except OSError as error:
        screen.warn(f"how {outcome.verb} ended is not kept: {error.strerror}")
