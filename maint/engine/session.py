"""One run from lock to last event: closes a window left open, then carries the plan out or takes it up again."""

import os
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint.config.notices import Hooks
from maint.config.paths import actor
from maint.engine import journal as journals
from maint.engine import lease, past_runs
from maint.engine.journal import Journal, NullJournal, RunState
from maint.engine.lease import Lease
from maint.engine.lock import manager_lock, run_at_work, site_lock, works_on
from maint.engine.plan import refuse_conflicting
from maint.engine.run import Runner, ended_as
from maint.engine.shared_runs import SharedRuns, shared_runs, taken
from maint.errors import (
    DeadlinePassed,
    Failure,
    Interrupted,
    Locked,
    MaintError,
    PartlyDone,
    Refused,
    Unfinished,
    WorkFailed,
    exit_of,
)
from maint.files import sweep
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.plan import Action, Event, Phase, Plan, Trouble
from maint.model.secret import scrub
from maint.ports import Site
from maint.snapshots.holds import begin_restore, end_restore
from maint.snapshots.in_progress import owner
from maint.snapshots.open_windows import Window, left_open, remembered
from maint.steps.manager.window import CloseWindow, close
from maint.steps.registry import STEPS, source_of

TIDYING = 30.0  # seconds at the least for what tidies up behind a run, however few the operator gave


def hooks_before(site: Site, journal: Journal | NullJournal, plan: Plan) -> Iterator[str]:
    """Run what comes before a run; Refused where one of them fails."""
    for words in _run(site, journal, plan, "before_run", "begun", 0):
        if words:
            raise Refused(f"`before_run` of the site says no: {words}", hint="the program says why; then try again")
        yield ""


@contextmanager
def _ended_if_stopped(site: Site, journal: Journal | NullJournal, past: RunState | None) -> Iterator[None]:
    """Write down that the run ends where something keeps it from its first step; what it waited for stands."""
    try:
        yield
    except MaintError as error:
        state = ended_as(error, untouched=past is None)
        waits: dict[str, Json] = {"needs": list(past.needs), "to_do": list(past.to_do)} if past else {}
        with suppress(WorkFailed):  # a disk that takes nothing may be why
            journal.write("ended", state=state, time=show_time(site.clock.now()), detail=error.message, **waits)
            said = {key: value for key, value in past.answers.get("", {}).items() if key in past.needs} if past else {}
            if said:  # to what it still asks
                journal.write("answers", lane="", values=said, time=show_time(site.clock.now()))
        raise


def hooks_after(
    site: Site,
    journal: Journal | NullJournal,
    plan: Plan,
    failure: BaseException | None,
    *,
    partly: bool,
    within: float | None = None,
) -> Iterator[str]:
    """Run what comes after a run, `on_failure` first where it did not end with 0; yields what went wrong with them.

    Args:
        within: seconds for all programs of each; an `on_failure` that hangs takes none of those of `after_run`.
    """
    exit_code = exit_of(failure) or (PartlyDone.exit_code if partly else 0)
    state = "failed" if failure else "partly" if partly else "done"
    waiting = isinstance(failure, Unfinished)
    for hook in (*(("on_failure",) if exit_code else ()), "after_run"):
        try:
            problems = _run(site, journal, plan, hook, state, exit_code, waiting=waiting, within=within)
            yield from (f"`{hook}`: {words}" for words in problems if words)
        except Interrupted:
            yield f"`{hook}`: interrupted"
            return


def _run(
    site: Site,
    journal: Journal | NullJournal,
    plan: Plan,
    hook: str,
    state: str,
    code: int,
    *,
    waiting: bool = False,
    within: float | None = None,
) -> Iterator[str]:
    """Run the programs of a hook, and yield for each what went wrong, "" where nothing did."""
    hooks, begun = site.settings.hooks or Hooks(), site.clock.monotonic()
    said: dict[str, Json] = {"schema": "maint/1", "hook": hook, "site": plan.site, "playbook": plan.source}
    said |= {"run": journal.id, "state": state, "exit": code, "waiting": waiting}
    given = msgspec.json.encode(said)
    for command in getattr(hooks, hook):
        problem = ""
        left = hooks.timeout if within is None else min(hooks.timeout, within - (site.clock.monotonic() - begun))
        try:
            if left <= 0:
                raise WorkFailed(f"{command[0]} was not begun: those before it took all the time", hint="see why")
            site.programs.run(command, given, left)
        except WorkFailed as failure:
            problem = scrub(failure.in_a_line)
        time = show_time(site.clock.now())
        try:
            journal.write("hook", hook=hook, command=list(command), problem=problem, time=time)
        except WorkFailed as unwritten:
            if hook == "before_run":
                raise
            problem = "; ".join(filter(None, (problem, unwritten.message)))  # why the run failed is said all the same
        yield problem


_DEAD = 3600.0  # seconds after which nobody writes on a file of ours any more


class RunSession:
    """Carries out one plan on one site.

    Args:
        plan: what to do; for a run taken up again, the plan of its journal.
        options: what the operator said that changes how it is done (`insecure`, `no_safety_net`), for the journal.
        past: the run to take up again.
        limit: seconds for its main steps, None for no limit.
        limit_of: the operator's limit of which those seconds are left.
        answers: what the operator answers now, by branch of the run that is taken up.
    """

    def __init__(
        self,
        site: Site,
        plan: Plan,
        options: Mapping[str, Json],
        past: RunState | None = None,
        limit: float | None = None,
        limit_of: float | None = None,
        answers: Mapping[str, Mapping[str, Json]] | None = None,
    ) -> None:
        self._answers = answers or {}
        self._site = site
        self.plan = plan
        self._options = options
        self._past = past
        self._ends, self._limit_of = limit and site.clock.monotonic() + limit, limit_of
        self._lease: Lease | None = None
        self._shared: SharedRuns | None = None
        self.run_id = past.id if past else ""

    def events(self) -> Generator[Event | str, None, None]:
        """Yield events, and words that belong to no action.

        Raises:
            Locked: another run works on the site.
            Refused: it has to wait until an unfinished run has ended.
            PartlyDone: it ended, and something was left out.
        """
        if not self.plan.locks:
            yield from self._run(stored=False)
            return
        doing = f"playbook {self.plan.source}" + (f", taking up run {self._past.id}" if self._past else "")
        site, clock = self._site, self._site.clock
        with site_lock(site.state, self.plan.site, doing, clock), manager_lock(site.settings, doing, clock):
            sweep(self._site.state, self._site.clock.now().timestamp() - _DEAD)
            yield from self._leased(doing)

    def _refuse_overtaken(self) -> None:
        if self._past is not None:  # it may have been taken up by another process before the lock was ours
            now = past_runs.find(self._site.state, self._past.id)
            if self._shared is not None or now.state == "dismissed":
                _refuse_ended(self._past, now)
            self._past = _as_known(self._past, now)
        else:
            _refuse_begun(self._site.state, str(self._options.get("run_key") or ""))
        refuse_conflicting(self.plan, self._site.state, self.run_id)

    def _leased(self, doing: str) -> Generator[Event | str, None, None]:
        """Go on as the only one of all machines, where they share their state."""
        if self._site.shared is not None:
            owned = owner(self._site)
            self._lease = Lease(self._site.shared, self.plan.site, self._site.clock, owned, doing)
            self._shared = shared_runs(self._site)
        try:
            with self._site.clock.limit(*self._limit()):
                if self._lease is not None:
                    yield from taken(self._site, self._lease)
                if self._shared is not None:
                    yield from self._shared.sync(str(self._options.get("run_key") or ""))
                self._refuse_overtaken()
            if self._shared is not None:
                self._shared.follow(self._past)
            yield from self._close_window()
            yield from self._run(stored=True)
        except DeadlinePassed as passed:
            passed.detail = passed.detail or (passed.during(doing),)
            raise
        finally:
            problem = self._lease.give_back() if self._lease else ""
        if problem:
            yield Trouble(problem)

    def _close_window(self, *, own: bool = False) -> Generator[str, None, None]:
        """Close a window that was left open; that of the run which is taken up only where that is meant (`own`)."""
        try:
            window = remembered(self._site.state)
        except Refused:
            if any(one.kind == CloseWindow.kind and one.arguments.get("others") for one in self.plan.actions):
                return  # it closes by what the hosts show
            raise
        if window is None or (window.run == self.run_id) is not own:
            return
        yield f"closing the redaction window that run {window.run} left open"
        with self._acting("closing the redaction window"):
            yield from close(self._site, window)

    def _acting(self, act: str) -> AbstractContextManager[None]:
        return self._lease.acting(act) if self._lease else nullcontext()

    def _limit(self) -> tuple[float | None, float | None]:
        """Return the seconds that are left, and those that the operator gave."""
        left = self._ends and max(self._ends - self._site.clock.monotonic(), 0.001)
        return left, self._limit_of

    def _run(self, *, stored: bool) -> Iterator[Event | str]:
        with closing(self._journal(stored=stored)) as journal:
            self.run_id = journal.id
            self._shared = self._shared if journal.id else None
            told = partial(self._tell, journal.id)
            needed = self._needed() if stored else ()
            yield from self._begun(journal, needed, stored=stored)
            plan = tidied_in_time(self.plan, self._limit_of)
            runner = Runner(plan, self._site, journal, self._past, *self._limit(), lease=self._lease, told=told)
            failure: BaseException | None = None
            try:
                yield from runner.events()
            except (Exception, KeyboardInterrupt) as error:
                failure = error
            finally:
                over = bool(needed) and not past_runs.find(self._site.state, journal.id).resumable
                problems = [let_go(self._site, journal.id)] if over else []
                if self._shared and self._lease:
                    waits = isinstance(failure, Unfinished)
                    problems.append(self._tell_end(journal.id, self._shared, self._lease, waits=waits))
            yield from map(Trouble, filter(None, problems))
            if stored:
                partly, within = bool(runner.partly), tidying(self._limit_of)
                after = hooks_after(self._site, journal, self.plan, failure, partly=partly, within=within)
                yield from map(Trouble, after)
            if failure is not None:
                raise failure
        if runner.partly:
            raise PartlyDone(
                "done, but not all that was asked for",
                detail=[result.detail for result in runner.partly],
                hint="; ".join(result.hint for result in runner.partly if result.hint) or "see what is left above",
            )

    def _begun(
        self, journal: Journal | NullJournal, needed: Collection[str], *, stored: bool
    ) -> Generator[str, None, None]:
        """Prepare the run; where that stops it, close the window of an earlier attempt: no final step will."""
        try:
            with _ended_if_stopped(self._site, journal, self._past):
                yield from self._prepare(journal, needed, stored=stored)
        except MaintError as stop:
            try:
                yield from self._close_window(own=True)
            except Failure as more:
                stop.beside("closing the redaction window", more)
            raise

    def _prepare(
        self, journal: Journal | NullJournal, needed: Collection[str], *, stored: bool
    ) -> Generator[str, None, None]:
        """Do what comes between a run's first line and its first step."""
        if stored:
            works_on(self._site.state, journal.id)
        if self._lease is not None:
            self._lease.works_on(journal.id)
            _tell_of_takeover(journal, self._site)
        if needed or (stored and self._site.settings.hooks):
            with self._acting("preparing the run"), self._site.clock.limit(*self._limit()):
                yield from filter(None, hooks_before(self._site, journal, self.plan))
                yield from _hold(self._site, needed, journal.id)

    def _tell(self, run: str) -> None:
        """Let other machines know what stands in the journal; one that lost its lease has no say."""
        if self._shared is not None and self._lease is not None and self._lease.holds:
            self._shared.push(run)

    @staticmethod
    def _tell_end(run: str, shared: SharedRuns, lease: Lease, *, waits: bool) -> str:
        """Let other machines know how the run ended; return why that failed, "" where it did not."""
        try:
            with lease.acting(f"telling how run {run} ended") if shared.told or waits else nullcontext():
                shared.ended(run, waits=waits)
        except Failure as failure:
            if lease.is_lost:  # it has no say any more
                return ""
            if waits:
                return f"other machines may not know that run {run} waits: {failure.message}"
            return f"other machines take run {run} for unfinished until this one works on the site: {failure.message}"
        return ""

    def _needed(self) -> Collection[str]:
        """Return the snapshots that must stay until the run has ended, on whichever machine somebody prunes."""
        return set(filter(None, map(source_of, self.plan.actions)))

    def _journal(self, *, stored: bool) -> Journal | NullJournal:
        now = self._site.clock.now()
        if not stored:
            return NullJournal()
        if self._past is not None:
            journal = journals.reopen(self._site.state, self._past, now, self._options)
            for lane, values in self._answers.items():
                journal.write("answers", lane=lane, values=dict(values), time=show_time(now))
                self._past.apply_answers(lane, values)
            return journal
        try:
            return journals.start(self._site.state, self.plan, now, {**self._options, "pid": os.getpid()})
        except WorkFailed:
            if any(action.kind != CloseWindow.kind for action in self.plan.actions):
                raise
            return NullJournal()  # a disk that takes nothing keeps no window open


def _tell_of_takeover(journal: Journal | NullJournal, site: Site) -> None:
    one = lease.last_takeover(site.state)  # by this run, or by what looked for it
    if one is not None and not one.journaled:
        journal.write("lease", time=show_time(one.at), taken_over=one.holder, number=one.number)
        lease.mark_takeover(site.state, one, journaled=True)


def _hold(site: Site, snapshots: Collection[str], run: str) -> Iterator[str]:
    try:
        for snapshot in sorted(snapshots):
            begin_restore(site, snapshot, run, actor())
    except (WorkFailed, DeadlinePassed) as failure:  # a store that takes nothing keeps nobody from what is in it
        yield f"{', '.join(snapshots)} could not be held against pruning by other machines: {failure.message}"


def let_go(site: Site, run: str, elsewhere: Collection[str] = ()) -> str:
    """Tell all machines that a restore has ended (see `end_restore`); return why that failed, "" where it did not."""
    try:
        with site.clock.limit(TIDYING):
            end_restore(site, run, actor(), elsewhere)
    except (WorkFailed, DeadlinePassed) as failure:
        return f"what run {run} needed is still held: {failure.message}; `maint backup release` frees it"
    return ""


def _refuse_begun(state: Path, key: str) -> None:
    """Refuse to begin what another process has begun under the same key since this one looked."""
    past = past_runs.of_key(state, key) if key else None
    if past is not None and past.state not in ("refused", "dismissed"):
        raise Locked(f"another process began run {past.id} under this key: it is {past.state}", hint="type it again")


def _refuse_ended(before: RunState, now: RunState) -> None:
    # What was learnt of it only now may have done what this attempt is for.
    if not now.resumable:
        raise Refused(f"run {now.id} is {now.state} by now", hint="`maint playbook history` says what became of it")
    if len(now.attempts) != len(before.attempts):
        raise Refused(f"run {now.id} was taken up by another machine meanwhile", hint="look at it, and resume it again")


def _as_known(before: RunState, now: RunState) -> RunState:
    # Somebody may have set meanwhile where its virtual clusters are.
    if now.answers != before.answers:
        raise Refused(f"run {now.id} was answered by another process", hint="look at it, and resume it again")
    return now


def abandoned_window(site: Site) -> Window | None:
    """Return a redaction window whose owner is gone, None where there is none or its run still works."""
    window = remembered(site.state)
    return None if window is None or window.run == run_at_work(site.state) else left_open(site)


def tidying(limit: float | None) -> float | None:
    """Return the seconds for what tidies up behind a run: the operator's once more, or `TIDYING` where that is more."""
    return None if limit is None else max(limit, TIDYING)


def tidied_in_time(plan: Plan, limit: float | None) -> Plan:
    """Return a plan whose tidying up takes no longer than `tidying` says.

    Only what a later run does by itself: steps that put something back have the time that is theirs.
    """
    most = tidying(limit)
    if most is None:
        return plan

    def bounded(action: Action) -> Action:
        tidies = action.phase is Phase.FINALLY and STEPS[action.kind].tidies
        return replace(action, timeout=min(action.timeout or most, most)) if tidies else action

    return replace(plan, actions=tuple(bounded(action) for action in plan.actions))
