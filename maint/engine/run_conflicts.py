"""Refuse what must wait while another run of the site, such as a restore, has stopped half-way."""

from pathlib import Path

from maint.engine.journal import RunState, history, unreadable
from maint.errors import Refused
from maint.model.plan import Plan
from maint.steps.registry import STEPS


def refuse_conflicting(plan: Plan, state: Path, own: str = "") -> None:
    """Refuse a plan that would get in the way of an unfinished run other than its own.

    Only the newest run that holds such a step counts: one that ended well, or was refused, stands for those before it.
    """
    kinds = frozenset[str]().union(*(STEPS[action.kind].never_amid(action) for action in plan.actions))
    if not kinds:
        return
    if rotten := unreadable(state):
        raise Refused(
            f"{plan.source} has to wait: the journal of a run is damaged in its first line",
            detail=["what that run may still need must not go", *map(str, rotten)],
            hint="look at the server; where that run is over, move the file away",
        )
    past = _newest(state, kinds, own)
    if past is not None and past.resumable:
        raise Refused(
            f"{plan.source} has to wait: run {past.id} ({past.plan.source}) is {past.state}",
            detail=["what it may still need must not go"],
            hint=f"`maint playbook resume {past.id}` ends it, and so does a newer run of {past.plan.source} that ends"
            f" well; `maint playbook dismiss {past.id} --reason WORDS` gives it up",
        )


def _newest(state: Path, kinds: frozenset[str], own: str) -> RunState | None:
    found = [past for past in history(state) if past.id != own and kinds & {one.kind for one in past.plan.actions}]
    return found[-1] if found else None
