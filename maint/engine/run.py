"""Carry a plan out: intent on disk, then the act, then its outcome on disk; everything else follows from that."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial

from msgspec.structs import replace

from maint.engine.history import done_again, entered, mending, put_back_cut_off, spared, with_effects
from maint.engine.hosts import LOST, LostHosts, without_lost_hosts
from maint.engine.journal import ActionRecord, Journal, NullJournal, RunState
from maint.engine.lease import Lease, LeaseLost
from maint.engine.parameters import render
from maint.errors import (
    CannotReach,
    DeadlinePassed,
    Failure,
    Interrupted,
    Invalid,
    MaintError,
    Refused,
    Stopped,
    StoreFailed,
    Unfinished,
    UnknownName,
    UsageError,
    WorkFailed,
    shortage,
)
from maint.model.formatting import show_duration, show_time
from maint.model.json import Json
from maint.model.plan import Action, Effect, Event, Happening, Outcome, Phase, Plan, Result
from maint.model.secret import scrub
from maint.ports import Clock, Site
from maint.render import holds
from maint.retry import delays
from maint.steps.manager.window import CloseWindow
from maint.steps.registry import STEPS
from maint.steps.step import skipped

Attempt = Callable[[], Generator[str, None, Result]]
_SHOWN = 300  # characters of what was last seen


def repeated(
    action: Action, clock: Clock, values: Mapping[str, Json], attempt: Attempt
) -> Generator[str, None, Result]:
    """Carry out an action as often as it says; `until` may ask for `values` and its `result`."""
    if action.until is None:
        return (yield from _tried(action, clock, attempt, action.timeout))
    seen, began = "nothing", clock.monotonic()
    retry = action.retry
    try:
        with clock.limit(action.timeout):
            pauses = delays(retry.pause, retry.longest, factor=retry.backoff)
            while True:
                result = yield from _tried(action, clock, attempt, None)
                with _as_planned():
                    enough = holds(action.until, {**values, "result": result.value})
                if enough:
                    return result
                seen = (str(result.value) if result.value is not None else result.detail)[:_SHOWN]
                pause = next(pauses)
                yield f"not yet `{action.until}`, looking again in {show_duration(pause)}"
                clock.sleep(pause)
    except DeadlinePassed as error:
        waited = show_duration(clock.monotonic() - began)
        error.detail = (f"waited {waited} until `{action.until}`: {action.summary}", f"last seen: {seen}")
        raise


def _tried(action: Action, clock: Clock, attempt: Attempt, limit: float | None) -> Generator[str, None, Result]:
    attempts = action.retry.attempts if action.effect is Effect.READ else 1
    pauses = delays(action.retry.pause, action.retry.longest, factor=action.retry.backoff)
    number = 0
    while True:
        number += 1
        try:
            with clock.limit(limit):
                return (yield from attempt())
        except Stopped as error:
            if isinstance(error, DeadlinePassed):
                error.detail = error.detail or _waited_for(action, error)
            raise
        except MaintError as error:
            if number == attempts:
                raise
            yield f"try {number} of {attempts}: {error.message}"
            clock.sleep(next(pauses))


def _waited_for(action: Action, passed: DeadlinePassed) -> tuple[str, ...]:
    words = passed.during(action.summary)
    more = () if action.effect is Effect.READ else ("what was sent before that goes on without maint",)
    return (words, *more)


def held_up(action: Action, held: Mapping[str, MaintError]) -> bool:
    """Whether an action must wait: its lane has failed, or it stands for all of them and one has."""
    return action.lane in held if action.lane else bool(held)


def left_out(action: Action, before: Action | None) -> Result:
    """Return the result of an action whose lane the operator gave up; the lane's first action says so for all."""
    first = action.phase is Phase.MAIN and (before is None or before.lane != action.lane)
    words = f"{action.lane} is left out of this run, as was said"
    hint = "what is left out can come back by itself" if first else ""
    return Result(Outcome.SKIPPED, words, partly=first, hint=hint)


def together(errors: Sequence[MaintError]) -> MaintError:
    """Return the one failure that stands for those of all lanes: a real one before one that waits for a person."""
    if len(errors) == 1:
        return errors[0]
    waiting = [error for error in errors if isinstance(error, Unfinished)]
    failed = [error for error in errors if not isinstance(error, Unfinished)]
    if not failed:
        return Unfinished(
            "; ".join(error.message for error in waiting),
            needs=[key for error in waiting for key in error.needs],
            detail=list(dict.fromkeys(line for error in waiting for line in error.detail)),
            hint="do what is listed, then take the run up again with `maint playbook resume`",
        )
    first, more = failed[0], [*failed[1:], *waiting]
    first.detail = (*first.detail, *(f"also: {error.message}" for error in more))
    first.needs = tuple(key for error in errors for key in error.needs)
    return first


def ended_as(failure: BaseException | None, *, untouched: bool) -> str:
    """Return the state in which an attempt ends; `untouched`: neither it nor an earlier one has changed anything."""
    if failure is None:
        return "done"
    if isinstance(failure, Interrupted | KeyboardInterrupt):
        return "interrupted"
    if isinstance(failure, Refused) and untouched:
        return "refused"
    return "unfinished" if isinstance(failure, Unfinished) else "failed"


def _nobody() -> None:
    """Tell nobody: no other machine works on the site."""


class StepContext:
    """One action under way (ports.Work)."""

    def __init__(
        self,
        journal: Journal | NullJournal,
        index: int,
        action: Action,
        *,
        resumed: bool,
        notes: Mapping[str, Json],
        answers: Mapping[str, Json] | None = None,
        told: Callable[[], None] = _nobody,
        lease: Lease | None = None,
    ) -> None:
        self.answers = answers or {}
        self._told = told
        self._lease = lease
        self._journal = journal
        self._index = index
        self._notes = dict(notes)
        self.run = journal.id
        self.resumed = resumed
        self.timeout = action.timeout

    def note(self, key: str, value: Json) -> None:
        """Write down, on disk before this returns; never a secret."""
        self._journal.write("note", index=self._index, key=key, value=value)
        self._notes[key] = value
        with suppress(StoreFailed):  # what was done is done; the next act is not begun unless it is told
            self._told()

    def noted(self, key: str) -> Json:
        """Return what was last written down under a key."""
        return self._notes.get(key)

    def heir(self) -> str | None:
        """Return the run of the machine that may have taken the lease, "" for none; None: no other can be at work."""
        return None if self._lease is None or self._lease.holds else self._lease.heir()


class Runner:
    """One attempt of a run: the first, or one that takes up where earlier ones (`past`) stopped.

    Args:
        limit: seconds for the steps themselves; those that put things back and clean up have their own limits.
        limit_of: the operator's limit of which those seconds are left.
        lease: what must be ours before each act, None where no other machine works on the site.
        told: lets other machines know what stands in the journal, before each act; StoreFailed where it cannot.
    """

    def __init__(
        self,
        plan: Plan,
        site: Site,
        journal: Journal | NullJournal,
        past: RunState | None = None,
        limit: float | None = None,
        limit_of: float | None = None,
        lease: Lease | None = None,
        told: Callable[[], None] = _nobody,
    ) -> None:
        self._limit = (limit, limit_of)
        self._lease, self._told = lease, told
        self._site, self._journal, self._past = site, journal, past
        self._values, self._works = past.registered() if past else {}, dict[int, StepContext]()
        self._fresh: set[int] = set()  # begun in this attempt: what they note counts
        self._failed: set[int] = set()  # in this attempt, or what it has to put back first
        self._again = done_again(past) if past is not None else frozenset()
        self._plan = with_effects(plan, self._again)
        self._before = {index for index, _ in enumerate(plan.actions) if past is not None and past.record(index).begun}
        self._changed = past is not None and any(
            index in self._before and action.effect > Effect.READ for index, action in enumerate(plan.actions)
        )
        self._altered = False  # whether this attempt has done something that changes
        noted = past.records if past else dict[int, ActionRecord]()
        self._lost = LostHosts([record.notes.get(LOST) for i, record in noted.items() if i not in self._again])
        self._unwritten: Failure | None = None  # why lines about final steps are not kept, or not told
        self.partly: list[Result] = []

    def events(self) -> Iterator[Event]:
        """Carry out the plan and yield what happens; a failure is raised once the steps that follow it have run."""
        failure: BaseException | None = None
        try:
            with self._site.clock.limit(*self._limit):
                yield from self._main()
        except (Exception, KeyboardInterrupt) as error:  # a bug too: what was opened is closed
            failure = error
        if failure is not None and not isinstance(failure, KeyboardInterrupt | Unfinished):
            failure = yield from self._after(Phase.ON_FAILURE, failure)
        failure = yield from self._after(Phase.FINALLY, failure)
        failure = failure or self._unwritten
        try:
            self._end(failure)
        except WorkFailed as error:
            failure = failure or error
        if failure is not None:
            raise self._shown(failure)

    def _main(self) -> Iterator[Event]:
        self._failed |= put_back_cut_off(self._past) if self._past is not None else frozenset()
        if self._failed:
            words = "the run had failed, and was stopped while it put things back"
            raise Failure(words, hint="resume it again to go on")
        open_ = [(i, one) for i, one in self._in(Phase.MAIN) if self._past is None or not self._past.record(i).settled]
        held: dict[str, MaintError] = {}
        for index, action in self._in(Phase.MAIN):
            if held_up(action, held):
                continue
            needed = any(place > index and action.lane in ("", one.lane) for place, one in open_)
            try:
                if not self._settled(index, action, needed=needed):
                    yield from self._carry_out(index, action)
            except LeaseLost:
                raise
            except Failure as error:
                if not action.lane:
                    raise
                held[action.lane] = error
        if held:
            raise together(list(held.values()))

    def _in(self, phase: Phase) -> Iterator[tuple[int, Action]]:
        return ((index, action) for index, action in enumerate(self._plan.actions) if action.phase is phase)

    def _settled(self, index: int, action: Action, *, needed: bool) -> bool:
        """Whether an earlier attempt did this, and it still holds where anything that is still to come needs it."""
        if self._past is None:
            return False
        record = self._past.record(index)
        if not record.settled or record.result is None or index in self._again:
            return False
        if needed and record.result.outcome is not Outcome.SKIPPED and not self._holds(index, action):
            return False
        self._remember(action, record.result)
        return True

    def _holds(self, index: int, action: Action) -> bool:
        return STEPS[action.kind].holds(action, self._site, self._work(index, action))

    def _remember(self, action: Action, result: Result) -> None:
        if action.register is not None:
            self._values[action.register] = result.value
        self.partly += [result] if result.partly else []

    def _after(self, phase: Phase, failure: BaseException | None) -> Generator[Event, None, BaseException | None]:
        """Carry out all steps of a later phase, each whatever became of the one before; the first failure stands.

        Those of an included playbook follow only where one of its own steps was begun; once they are done, not again.
        Nothing is put back in a lane that has not failed where others have.
        A signal does not keep a final step from being done: it is begun once more, and only a second signal stops it.
        """
        well = spared(self._plan, self._failed) if phase is Phase.ON_FAILURE else frozenset()
        for index, action in self._in(phase):
            record = self._past.record(index) if self._past is not None else ActionRecord()
            over = record.settled
            if not record.cut and not mending(self._plan, action, self._failed):
                continue
            if not entered(self._plan, action, (self._fresh if over else self._before | self._fresh) - well):
                continue
            for again in (phase is Phase.FINALLY, False):
                try:
                    yield from self._carry_out(index, action)
                    break
                except (Exception, KeyboardInterrupt) as more:
                    failure = failure.beside(action.name, more) if isinstance(failure, MaintError) else failure or more
                    if not again or not isinstance(more, Interrupted | KeyboardInterrupt):
                        break
        return failure

    def _carry_out(self, index: int, action: Action) -> Iterator[Event]:
        try:
            with self._under_lease(action):
                yield from self._act(index, action)
        except LeaseLost:
            if action.kind != CloseWindow.kind or action.arguments.get("others"):
                raise
            yield from self._act(index, action)  # a window that this machine opened; it looks whether it still is

    def _under_lease(self, action: Action) -> AbstractContextManager[None]:
        """Make sure that no other machine works on the site, before an act is even written down as begun.

        Reading needs no lease, but where it stores what it read.
        """
        if self._lease is None or (action.effect is Effect.READ and not STEPS[action.kind].stores):
            return nullcontext()
        return self._lease.acting(action.summary)

    def _act(self, index: int, action: Action) -> Iterator[Event]:
        work = self._work(index, action)
        anew = {"anew": True} if index in self._again - self._fresh else {}
        yield from self._write(index, action, "intent", **anew)
        if action.effect > Effect.READ:
            yield from self._all_the_same(index, action, self._told)
        self._fresh.add(index)
        self._changed = self._changed or action.effect > Effect.READ
        yield self._event(index, Happening.STARTED, action.summary)
        try:
            result = yield from self._result(index, action, work)
        except BaseException as error:
            outcome = Outcome.WAITING if isinstance(error, Unfinished) else Outcome.FAILED
            if outcome is Outcome.FAILED:
                self._failed.add(index)
            yield from self._outcome(index, action, Result(outcome, _words(error)))
            yield self._event(index, Happening.FINISHED, _words(error), outcome)
            if isinstance(error, Exception | KeyboardInterrupt | GeneratorExit):
                raise
            raise RuntimeError("a library has panicked") from error  # a bug: what was opened is closed
        result = replace(result, detail=scrub(result.detail))
        self._altered |= result.outcome is Outcome.DONE and action.effect > Effect.READ
        yield from self._outcome(index, action, result)
        self._remember(action, result)
        shown = (result.detail, result.outcome, result.value, result.partly)
        yield Event(self._site.clock.now(), index, Happening.FINISHED, *shown)

    def _work(self, index: int, action: Action) -> StepContext:
        record = ActionRecord() if self._past is None or index in self._again else self._past.record(index)
        if index in self._works:
            self._works[index].resumed = True
        else:
            self._works[index] = StepContext(
                self._journal,
                index,
                action,
                resumed=record.begun,
                notes=record.notes,
                answers=self._answers(action),
                told=self._told if action.effect > Effect.READ or STEPS[action.kind].stores else _nobody,
                lease=self._lease,
            )
        return self._works[index]

    def _answers(self, action: Action) -> Mapping[str, Json]:
        return self._past.answers.get(action.lane, {}) if self._past is not None else {}

    def _result(self, index: int, action: Action, work: StepContext) -> Generator[Event, None, Result]:
        if self._answers(action).get("skip") is True:
            return left_out(action, self._plan.actions[index - 1] if index else None)
        values = {**self._values, **action.scope}  # as in the plan: what a step is given hides what was registered
        with _as_planned():
            if action.when is not None and not holds(action.when, values):
                return skipped("not needed: its condition does not hold")
            filled = {key: _worked_out(action, key, values) for key in action.late}
        if filled:
            action = replace(action, arguments={**action.arguments, **filled})
        return (yield from self._on_hosts(index, action, work, values))

    def _on_hosts(
        self, index: int, action: Action, work: StepContext, values: Mapping[str, Json]
    ) -> Generator[Event, None, Result]:
        """Carry an action out without the hosts that were lost, and again without those that it loses.

        What puts things back is done on all hosts: one that was lost may be the very one that needs it.
        """
        main, before = action.phase is Phase.MAIN, work.noted(LOST)
        lost: dict[str, Json] = {**before} if isinstance(before, Mapping) else {}
        while True:
            left = self._lost.without(action) if main else action
            if isinstance(left, Result):
                return without_lost_hosts(replace(left, detail=""), lost) if lost else left
            attempt = partial(STEPS[action.kind].apply, left, self._site, work)
            try:
                for_each = repeated(left, self._site.clock, values, attempt)
                result = yield from self._telling(index, for_each)
                return without_lost_hosts(result, lost) if lost else result
            except MaintError as error:
                more = self._lost.lose(left, error) if main else None
                if more is None:
                    raise
                lost |= more
                work.note(LOST, lost)
                yield self._event(index, Happening.PROGRESSED, f"goes on without {', '.join(more)}: {error.message}")

    def _telling(self, index: int, progress: Generator[str, None, Result]) -> Generator[Event, None, Result]:
        while True:
            try:
                words = next(progress)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            yield self._event(index, Happening.PROGRESSED, scrub(words))

    def _outcome(self, index: int, action: Action, result: Result) -> Iterator[Event]:
        yield from self._write(
            index,
            action,
            "outcome",
            outcome=result.outcome.value,
            detail=result.detail,
            value=result.value,
            partly=result.partly,
        )

    def _write(self, index: int, action: Action, what: str, **fields: Json) -> Iterator[Event]:
        write = partial(self._journal.write, what, index=index, time=self._now(), **fields)
        yield from self._all_the_same(index, action, write)

    def _all_the_same(self, index: int, action: Action, tell: Callable[[], None]) -> Iterator[Event]:
        try:  # what puts things back is done even where our disk is full; a window closes whatever others can know
            tell()
        except Failure as error:
            away = isinstance(error, StoreFailed)
            if action.kind != CloseWindow.kind and (away or action.phase is not Phase.FINALLY):
                raise
            if not away:
                self._unwritten = self._unwritten or error
                yield self._event(index, Happening.PROGRESSED, f"{error.message}; this step is done all the same")

    def _shown(self, failure: BaseException) -> BaseException:
        # Once something was changed, no way in, a name that is gone, and a setting gone wrong, is a stop in the middle.
        kinds = [CannotReach, UnknownName] * self._changed + [UsageError, Invalid] * self._altered
        if isinstance(failure, MaintError) and isinstance(failure, tuple(kinds)):
            shown = WorkFailed(failure.message, detail=failure.detail, hint=failure.hint)
            shown.needs = failure.needs
            return shown
        return failure

    def _end(self, failure: BaseException | None) -> None:
        state = ended_as(failure, untouched=not self._changed and self._past is None)
        more: dict[str, Json] = {"to_do": list(failure.detail)} if isinstance(failure, Unfinished) else {}
        if isinstance(failure, MaintError) and failure.needs:
            more["needs"] = list(failure.needs)
        detail = _words(failure) if failure else ""
        self._journal.write("ended", state=state, time=self._now(), detail=detail, **more)

    def _event(self, index: int, what: Happening, detail: str, outcome: Outcome | None = None) -> Event:
        return Event(self._site.clock.now(), index, what, detail, outcome)

    def _now(self) -> str:
        return show_time(self._site.clock.now())


@contextmanager
def _as_planned() -> Iterator[None]:
    """Say of an expression that cannot be worked out that the run's plan keeps it."""
    try:
        yield
    except Invalid as error:
        error.hint = error.hint or (
            "correct the playbook, and run it anew: this run keeps its plan, so `maint playbook resume` meets the same "
            "mistake; `maint playbook dismiss RUN --reason WORDS` gives it up"
        )
        raise


def _worked_out(action: Action, key: str, values: Mapping[str, Json]) -> Json:
    value = action.arguments[key]
    return holds(str(value), values) if key in STEPS[action.kind].expressions else render(value, values)


def _words(error: BaseException) -> str:
    if not isinstance(error, MaintError):
        error = shortage(error) or error
    if isinstance(error, MaintError):
        return scrub(error.message if isinstance(error, Unfinished) else error.in_a_line)
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"a bug in maint: {type(error).__name__}"
