"""`maint playbook approve`: answer what a run asks, from any terminal of the machine."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.config.actor import actor
from maint.engine import journal
from maint.engine.journal import Record, RunState
from maint.engine.lock import is_held
from maint.errors import Refused
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.plan import Action
from maint.steps.flow import Approval, answer, refuse_answered
from maint.steps.registry import STEPS


@command()
def approve(
    flags: Flags,
    run_id: Annotated[str, argument("A run's id or its beginning.")],
    note: Annotated[str, option("--note", "Why, for journal and report.")] = "",
    reject: Annotated[bool, option("--reject", "Say no: the step fails.")] = False,
) -> int:
    """Answer the question that a run waits for; who, when and why stands in its journal."""
    with opened(flags) as (site, screen):
        past = journal.find(site.state, run_id)
        action, record = _question(past)
        question, token, now = str(action.arguments["question"]), str(record.notes["token"]), site.clock.now()
        refuse_answered(site.state, past.id, token)
        if now > datetime.fromisoformat(str(record.notes["until"])):
            hint = f"`maint playbook resume {past.id}` asks again"
            raise Refused(f"the question of run {past.id} is too old to be answered", detail=[question], hint=hint)
        said = "rejected" if reject else "approved"
        if flags.dry_run:
            screen.say(f"would be {said}: {question}")
            return 0
        answer(site.state, past.id, token, Approval(not reject, actor(), show_time(now), note))
        screen.say(f"{said}: {question}")
        if not is_held(site.state):
            screen.say(f"`maint playbook resume {past.id}` {'ends with that' if reject else 'goes on'}")
        data: dict[str, Json] = {
            "run": past.id,
            "question": question,
            "approved": not reject,
            "by": actor(),
            "note": note,
        }
        screen.emit({"approval": {**data, "at": show_time(now)}}, "")
        return 0


def _question(past: RunState) -> tuple[Action, Record]:
    """Return the step of a run that waits for a person, and what is known of it."""
    if past.ended not in ("dismissed", "done"):
        for action, record in open_questions(past):
            return action, record
    hint = "it is asked when its turn comes; `maint playbook history` lists the runs"
    raise Refused(f"run {past.id} ({past.plan.source}, {past.state}) waits for nobody's word", hint=hint)


def open_questions(past: RunState) -> Iterator[tuple[Action, Record]]:
    """Yield the steps of a run that wait for a person's word, each with what is known of it."""
    for index, action in enumerate(past.plan.actions):
        record = past.records.get(index, Record())
        token = record.notes.get("token")
        open_ = token and not record.settled and record.notes.get("over") != token
        if open_ and action.kind in STEPS and STEPS[action.kind].asks:
            yield action, record
