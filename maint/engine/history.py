"""Which runs of a site are shown, what is left of one, and which are old enough to be forgotten."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint.engine.journal import RUNS, ActionRecord, RunState
from maint.engine.parameters import in_condition
from maint.engine.past_runs import history
from maint.files import remove
from maint.model.plan import Action, Effect, Outcome, Phase, Plan
from maint.snapshots.open_windows import remembered
from maint.steps.hosts import undo
from maint.steps.registry import STEPS
from maint.steps.services.change_setting import promised
from maint.steps.undo_records import KEPT_FOR

REPORTS = "reports"
_LAST = ".jsonl.dismissed"  # ends of names, in the order in which they go


class Old(msgspec.Struct, frozen=True):
    """Old runs, oldest first; those `kept` can be undone: their ids, each with what puts it back."""

    runs: Sequence[RunState]
    kept: Mapping[str, str]


class Wanted(msgspec.Struct, frozen=True):
    """Which runs are asked for; what is left out is not a condition."""

    playbook: str = ""
    states: Sequence[str] = ()
    since: datetime | None = None
    user: str = ""  # of the one who began it or took it up, with or without `@host`

    def fits(self, past: RunState) -> bool:
        """Whether a run is one of them."""
        people = [attempt.actor for attempt in past.attempts]
        conditions: Sequence[Callable[[], bool]] = (
            lambda: not self.playbook or past.plan.source == self.playbook,
            lambda: not self.states or past.state in self.states,
            lambda: self.since is None or datetime.fromisoformat(past.started) >= self.since,
            lambda: not self.user or any(self.user in (actor, *_names(actor)) for actor in people),
        )
        return all(condition() for condition in conditions)


def _names(actor: str) -> list[str]:
    """Return the accounts in `root (ann)@host`: the one that ran it, and the one that became it."""
    return actor.partition("@")[0].replace("(", " ").replace(")", " ").split()


def actions_left(past: RunState) -> list[tuple[Action, str]]:
    """Return what resuming a run would still do, each with `not begun`, `begun`, `interrupted` or how it ended.

    `looks again` stands for what had ended well, final steps among it: they follow every attempt.
    """
    actions = list(enumerate(past.plan.actions))
    anew = done_again(past)
    main = {i for i, one in actions if one.phase is Phase.MAIN and (i in anew or not past.record(i).settled)}
    found = []
    for index, action in actions:
        settled = past.record(index).settled
        again = index in main or (action.phase is Phase.FINALLY and entered(past.plan, action, main))
        waits = action.phase is Phase.ON_FAILURE or (action.mends and not past.record(index).cut)  # for a failure
        if not waits and (not settled or again):
            found.append((action, "looks again" if settled else _stands(past, past.record(index))))
    return found


def entered(plan: Plan, action: Action, begun: Collection[int]) -> bool:
    """Return whether what an action follows up was begun, in whichever attempt; always so outside of includes.

    One that is included by a final step has no steps of its own turn: the playbook around it is followed up.
    """
    followed = action.within
    while followed:
        mains = [i for i, one in enumerate(plan.actions) if one.phase is Phase.MAIN and one.inside(followed)]
        if mains:
            return any(index in begun for index in mains)
        followed = followed.rpartition("/")[0]
    return True


def spared(plan: Plan, failed: Collection[int]) -> frozenset[int]:
    """Return the steps that are not put back: those of lanes that went well or wait, where only other lanes failed."""
    actions = list(enumerate(plan.actions))
    lanes = {one.lane for index, one in actions if index in failed and (one.phase is Phase.MAIN or one.lane)}
    if not lanes or "" in lanes:
        return frozenset()
    return frozenset(index for index, one in actions if one.lane not in ("", *lanes))


def mending(plan: Plan, action: Action, failed: Collection[int]) -> bool:
    """Return whether an action may follow: where it mends an included playbook, one of that one's steps has failed."""
    return not action.mends or any(plan.actions[index].inside(action.mends) for index in failed)


def put_back_cut_off(past: RunState) -> frozenset[int]:
    """Return what had failed, and what was cut off, where an attempt was killed among the steps that follow a failure.

    Those steps are finished first. Empty: it was not.
    """
    actions = list(enumerate(past.plan.actions))
    failed = {index for index, one in actions if one.phase is Phase.MAIN and past.record(index).failed}
    cleaning = {index: past.record(index) for index, one in actions if one.phase is Phase.ON_FAILURE}
    if not failed or not any(record.begun for record in cleaning.values()):
        return frozenset()
    cut = {index for index, record in cleaning.items() if record.cut}  # whatever was refused since
    if cut or (past.ended is None and not all(record.settled for record in cleaning.values())):
        return frozenset(failed | cut)
    return frozenset()


def done_again(past: RunState) -> frozenset[int]:
    """Return the actions that ended well, and are done again all the same when the run is taken up; each looks first.

    Nothing that they noted counts any more, such as the id of a command that was over before they are done again.
    """
    later = {index for index, one in enumerate(past.plan.actions) if one.phase is not Phase.MAIN}
    return _judged_and_failed(past) | _put_back(past) | {index for index in later if past.record(index).settled}


def with_effects(plan: Plan, again: Collection[int]) -> Plan:
    """Return a plan in which steps that are done again may act, also where it saw nothing to do."""
    actions = enumerate(plan.actions)
    anew = (replace(one, effect=_may(one)) if i in again and one.phase is Phase.MAIN else one for i, one in actions)
    return replace(plan, actions=tuple(anew))


def _may(action: Action) -> Effect:
    """Return what a step does when it is done again; what would destroy something, which nobody was asked, it looks."""
    return Effect.CHANGE if STEPS[action.kind].worst(action.arguments) is Effect.CHANGE else action.effect


def _put_back(past: RunState) -> frozenset[int]:
    """Return the actions whose work later steps may have undone: they changed the same, by another act.

    What final steps undo, as they do at the end of every attempt, is done again only where more is still to come.
    """
    actions = list(enumerate(past.plan.actions))
    last = max((i for i, one in actions if one.phase is Phase.MAIN and not past.record(i).settled), default=-1)
    later = [
        one
        for index, one in actions
        if one.phase is not Phase.MAIN and _outcome(past, index) is Outcome.DONE and one.effect > Effect.READ
    ]

    def undone(index: int, action: Action) -> bool:
        what = (action.kind, action.arguments)
        others = [one for one in later if one.target == action.target and (one.kind, one.arguments) != what]
        return any(one.phase is Phase.ON_FAILURE or index < last for one in others)

    return frozenset(
        index
        for index, one in actions
        if one.phase is Phase.MAIN and _may(one) > Effect.READ and undone(index, one)
        if past.record(index).settled and _outcome(past, index) is not Outcome.SKIPPED and not STEPS[one.kind].blind
    )


def _outcome(past: RunState, index: int) -> Outcome | None:
    result = past.record(index).result
    return None if result is None else result.outcome


def _judged_and_failed(past: RunState) -> frozenset[int]:
    """Return the actions that looked, and what they registered made an expression such as an `assert`'s fail.

    They look again when the run is taken up: an operator who mended what they found could not go on otherwise.
    """
    asked = set[str]()
    for index, action in enumerate(past.plan.actions):
        if past.record(index).failed:
            for key in STEPS[action.kind].expressions & action.arguments.keys():
                asked |= in_condition(str(action.arguments[key]))
    return frozenset(
        index
        for index, one in enumerate(past.plan.actions)
        if one.register in asked and past.record(index).settled and _only_looks(one)
    )


def _only_looks(action: Action) -> bool:
    step = STEPS[action.kind]
    return step.worst(action.arguments) is Effect.READ and not step.stores


def _stands(past: RunState, record: ActionRecord) -> str:
    if record.result is None:
        return "begun" if record.begun else "not begun"
    stopped = past.ended == "interrupted" and record.failed and record.result.detail == past.detail
    return "interrupted" if stopped else record.result.outcome.value


def prunable(state: Path, now: datetime, *, last: int, age: float) -> Old:
    """Return the runs that may be forgotten: neither among the newest, nor young, nor still needed.

    Needed is a run that may be taken up, that opened a window that is still open, and one of which something is kept
    to be put back.

    Args:
        last: how many of the newest stay.
        age: seconds; what began later stays. What a run can undo is kept for 30 days, so younger ones always stay.
    """
    runs = history(state)
    window = remembered(state)
    undoable = {one.run: f"what it replaced on {one.host} is kept" for one in undo.records(state)}
    for run, day in promised(state).items():
        undoable[run] = f"`maint playbook undo {run}` puts its settings back until {day}"
    limit = now - max(timedelta(seconds=age), KEPT_FOR)
    old = [
        past
        for past in runs[: max(len(runs) - last, 0)]
        if not past.resumable and not (window and window.run == past.id) and datetime.fromisoformat(past.last) < limit
    ]
    kept = {past.id: undoable[past.id] for past in old if past.id in undoable}
    return Old([past for past in old if past.id not in kept], kept)


def forget(state: Path, runs: Sequence[RunState]) -> None:
    """Delete what lies on disk of runs, the journal last but for its dismissal.

    So a kill leaves no report without a journal, and brings back no run that was given up.
    """
    for past in runs:
        for folder in (REPORTS, RUNS):
            for path in sorted((state / folder).glob(f"{past.id}.*"), key=lambda path: _LAST.find(path.suffix)):
                remove(path)
