"""Which runs of a site there are: all of them, one by its id or key, and those that stopped before their end."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from maint.engine.journal import RUNS, RunState, journals, later_version, owned, read
from maint.errors import Invalid, Refused, UsageError
from maint.files import read_file
from maint.model.plan import Effect, Plan
from maint.steps.registry import source_of


def history(state: Path) -> list[RunState]:
    """Return all runs of a site, oldest first; a file that is not a journal is left out."""
    return [past for _, past in _readable(state)]


def _readable(state: Path) -> Iterator[tuple[Path, RunState]]:
    for path in journals(state):
        with suppress(Invalid, OSError):  # a run killed before its first line was whole: it had done nothing
            yield path, read(path)


def unreadable(state: Path) -> list[Path]:
    """Return the files among the journals that cannot be read as such, though they have a whole first line."""
    others = sorted({*journals(state)} - {path for path, _ in _readable(state)})
    with owned(state / RUNS):
        return [path for path in others if not path.is_file() or b"\n" in read_file(path)]


def unfinished(state: Path) -> list[RunState]:
    """Return the runs that changed the site and stopped before their end, newest first.

    Left out are those whose work a later run has done, and one-off commands: they are typed again, not taken up.
    """
    return [past for past in _stopped(state) if not past.plan.one_off]


def killed_commands(state: Path) -> list[RunState]:
    """Return the one-off commands that were killed, newest first: they are taken up by their id alone."""
    return [past for past in _stopped(state) if past.plan.one_off and past.state == "unfinished"]


def _stopped(state: Path) -> Iterator[RunState]:
    ended: list[RunState] = []
    for past in reversed(history(state)):
        if past.over:
            ended.append(past)
        elif past.resumable and past.plan.locks and not any(_stands_for(later, past) for later in ended):
            yield past


def follows(later: RunState, past: RunState) -> bool:
    """Whether a run was begun after the last attempt of an older one, which may have been taken up since all the same.

    Without a second attempt the ids tell: no clock that went back in between changes their order.
    """
    began = [datetime.fromisoformat(one) for one in (past.attempts[-1].began, later.started)]
    return len(past.attempts) == 1 or began[0] < began[1]


def _stands_for(later: RunState, past: RunState) -> bool:
    """Whether a run that ended well restored all that an older one restores, else was to change all that it changes.

    What a restore that was stopped has brought to rest is in no plan that is made after it.
    """
    if later.plan.source != past.plan.source or not follows(later, past):
        return False
    if brought := restored(past.plan):
        return restored(later.plan) >= brought
    targets = [{one.target for one in run.plan.actions if one.effect > Effect.READ} for run in (later, past)]
    return targets[0] >= targets[1]


def restored(plan: Plan) -> set[tuple[str, str]]:
    """Return what a plan restores from a snapshot, by kind and target."""
    return {(action.kind, action.target) for action in plan.actions if source_of(action)}


def of_key(state: Path, key: str) -> RunState | None:
    """Return the newest run that a command with this `--run-key` began, if any; Refused: a later one may be its."""
    found = next((past for past in reversed(history(state)) if past.options.get("run_key") == key), None)
    refuse_rotten(path for path in unreadable(state) if found is None or path.stem > found.id)
    return found


def refuse_rotten(paths: Iterable[Path]) -> None:
    """Refuse to go on where a journal is `unreadable`: what its run did is not known."""
    for path in paths:
        words, way = told(path)
        raise Refused(words, hint=way if later_version(path) else f"{way}, and begin anew")


def told(path: Path) -> tuple[str, str]:
    """Return why a journal is `unreadable`, and what to do; one of a later version is whole, and stays."""
    if version := later_version(path):
        return (
            f"the journal {path} is of maint {version}: this version cannot read what that run did",
            "end that run with that version, or dismiss it there; the file stays where it is",
        )
    return (
        f"the journal {path} is damaged in its first line: what that run did is not known",
        "look at the server; then move the file away",
    )


def find(state: Path, run: str, fits: Callable[[RunState], bool] = lambda _: True) -> RunState:
    """Return a run by its id or the beginning of it.

    Args:
        fits: whether it is of the runs that are told where none is named.

    Raises:
        UsageError: none is named, none is like that, or several.
        Refused: nothing is known of it.
    """
    if not run:
        fitting = [f"{past.id}  {past.plan.source}, {past.state}" for past in history(state) if fits(past)]
        words, hint = "there is none for which this could be done", "`maint playbook history` lists the runs"
        if fitting:
            hint = f"give a run's id or its beginning; {hint}"
        raise UsageError("no run is named", detail=fitting[-5:] or [words], hint=hint)
    matching = [past for past in history(state) if past.id.startswith(run)]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        refuse_rotten(path for path in unreadable(state) if path.name.startswith(run))
    problem = "no run" if not matching else f"{len(matching)} runs"
    raise UsageError(
        f"{problem} of this site begin{'s' if len(matching) < 2 else ''} with {run!r}",
        detail=[f"{past.id} ({past.plan.source})" for past in (matching or history(state))[-5:]],
        hint="`maint playbook history` lists the runs",
    )
