"""The programs that a site has run around its runs: before, after, and where one failed; each stands in the journal."""

from collections.abc import Iterator

import msgspec

from maint.config.notices import Hooks
from maint.engine.journal import Journal, NullJournal, RunState
from maint.errors import Interrupted, PartlyDone, Refused, Unfinished, WorkFailed, exit_of
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.plan import Plan
from maint.model.secret import scrub
from maint.ports import Site


def before(site: Site, journal: Journal | NullJournal, plan: Plan, past: RunState | None) -> Iterator[str]:
    """Run what comes before a run; Refused, which is its end, where one of them fails: what it waited for stands."""
    try:
        for words in _run(site, journal, plan, "before_run", "begun", 0):
            if words:
                raise Refused(f"`before_run` of the site says no: {words}", hint="the program says why; then try again")
            yield ""
    except (Refused, Interrupted) as error:
        state = "interrupted" if isinstance(error, Interrupted) else "failed" if past else "refused"
        waits: dict[str, Json] = {"needs": list(past.needs), "to_do": list(past.to_do)} if past else {}
        journal.write("ended", state=state, time=show_time(site.clock.now()), detail=error.message, **waits)
        said = {key: value for key, value in past.answers.get("", {}).items() if key in past.needs} if past else {}
        if said:  # to what it still asks
            journal.write("answers", lane="", values=said, time=show_time(site.clock.now()))
        raise


def after(
    site: Site, journal: Journal | NullJournal, plan: Plan, failure: BaseException | None, *, partly: bool
) -> Iterator[str]:
    """Run what comes after a run, `on_failure` first where it did not end with 0; yields what went wrong with them."""
    exit_code = exit_of(failure) or (PartlyDone.exit_code if partly else 0)
    state = "failed" if failure else "partly" if partly else "done"
    waiting = isinstance(failure, Unfinished)
    for hook in (*(("on_failure",) if exit_code else ()), "after_run"):
        try:
            problems = _run(site, journal, plan, hook, state, exit_code, waiting=waiting)
            yield from (f"`{hook}`: {words}" for words in problems if words)
        except Interrupted:
            yield f"`{hook}`: interrupted"
            return


def _run(
    site: Site, journal: Journal | NullJournal, plan: Plan, hook: str, state: str, code: int, *, waiting: bool = False
) -> Iterator[str]:
    """Run the programs of a hook, and yield for each what went wrong, "" where nothing did."""
    hooks = site.settings.hooks or Hooks()
    said: dict[str, Json] = {"schema": "maint/1", "hook": hook, "site": plan.site, "playbook": plan.source}
    said |= {"run": journal.id, "state": state, "exit": code, "waiting": waiting}
    given = msgspec.json.encode(said)
    for command in getattr(hooks, hook):
        problem = ""
        try:
            site.programs.run(command, given, hooks.timeout)
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
