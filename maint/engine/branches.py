"""Several things that one run brings about side by side: what fails in one lane does not hold up the others."""

from collections.abc import Collection, Mapping, Sequence

from maint.errors import MaintError, Unfinished
from maint.model.events import Outcome, Result
from maint.model.plan import Action, Phase, Plan


def held_up(action: Action, held: Mapping[str, MaintError]) -> bool:
    """Whether an action must wait: its lane has failed, or it stands for all of them and one has."""
    return action.lane in held if action.lane else bool(held)


def left_out(action: Action, before: Action | None) -> Result:
    """Return the result of an action whose lane the operator gave up; the lane's first action says so for all."""
    first = action.phase is Phase.MAIN and (before is None or before.lane != action.lane)
    words = f"{action.lane} is left out of this run, as was said"
    hint = "what is left out can come back by itself" if first else ""
    return Result(Outcome.SKIPPED, words, partly=first, hint=hint)


def entered(plan: Plan, action: Action, begun: Collection[int]) -> bool:
    """Return whether what an action follows up was begun, in whichever attempt; always so outside of includes."""
    mains = [
        index for index, one in enumerate(plan.actions) if one.phase is Phase.MAIN and one.within == action.within != ""
    ]
    return not mains or any(index in begun for index in mains)


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
