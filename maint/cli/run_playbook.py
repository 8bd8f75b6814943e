"""Carry out a playbook for a command: plan it, show it, ask, run it, report it."""

import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from inspect import GEN_CLOSED, getgeneratorstate

from msgspec.structs import replace

from maint.cli import run_key
from maint.cli.after_run import Ending, after_run, planned, tell_start, tell_takeover
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import limit_of, limited, opened
from maint.cli.options import Flags
from maint.cli.resume_values import Said, by_lane, checked
from maint.cli.run_report import command_to_resume, report_of, show_output
from maint.cli.screen import Screen, confirm, plan_text
from maint.cli.telling import outcomes
from maint.config.notices import HOOKS
from maint.config.resources import playbooks
from maint.engine import journal
from maint.engine.load import Library
from maint.engine.lock import site_lock
from maint.engine.plan import make_plan
from maint.engine.session import RunSession, let_go
from maint.engine.shared_runs import only_one
from maint.errors import Interrupted, Locked, MaintError, PartlyDone, Refused, Unfinished
from maint.model.events import Event, Happening
from maint.model.json import Json
from maint.model.plan import Effect, Plan, Playbook
from maint.steps.snapshots.retention import RESTORING


@cache
def library() -> Library:
    """Return the playbooks shipped with the product."""
    return Library(playbooks())


Beside = Callable[[ConfiguredSite, Plan], tuple[Mapping[str, Json], str]]


def carry_out(
    flags: Flags, name: str, given: Mapping[str, Json], *, expect: str | None = None, beside: Beside | None = None
) -> int:
    """Plan a shipped playbook and carry it out.

    Args:
        flags: the common flags.
        name: the playbook.
        given: its parameters.
        expect: the digest that the plan must have, None for any.
        beside: returns what is shown beside the plan, as data and as text.

    Returns:
        The exit code.
    """
    return run_playbook(flags, library().load(name), given, expect=expect, beside=beside)


def run_playbook(
    flags: Flags,
    playbook: Playbook,
    given: Mapping[str, Json],
    *,
    expect: str | None = None,
    beside: Beside | None = None,
    only: Sequence[str] = (),
) -> int:
    """Plan a playbook, show the plan, ask, and carry it out; with `--dry-run` only show it."""
    with opened(flags) as (site, screen):
        site.works_on(kinds_of(playbook))

        def make() -> Plan:
            with planned(site, screen, playbook.name, dry_run=flags.dry_run):
                plan = make_plan(playbook, given, site, library(), flags.no_safety_net, only)
                _refuse_stale(plan, expect)
            return plan

        agreed = prepared(flags, site, screen, make, beside, text=playbook.text)
        return follow(site, screen, *agreed) if agreed else 0


def _refuse_stale(plan: Plan, expected: str | None) -> None:
    """Refuse a plan that is not the one the operator has seen.

    Raises:
        Refused: server, snapshot or playbook changed since.
    """
    if expected is not None and not plan.digest.startswith(expected):
        shown = 12 if plan.digest[:12] != expected[:12] else len(plan.digest)
        raise Refused(
            "the plan is stale: server, snapshot or playbook changed since it was made",
            detail=[f"it had {expected[:shown]}, now it would be {plan.digest[:shown]}"],
            hint="make the plan again, read it, and run that one",
        )


def kinds_of(playbook: Playbook) -> set[str]:
    """Return the kinds of step that a playbook has, included ones too."""
    included = [kinds_of(library().load(step.include)) for step in playbook.steps if step.include]
    return {step.do for step in playbook.steps if step.do}.union(*included)


def prepared(
    flags: Flags,
    site: ConfiguredSite,
    screen: Screen,
    make: Callable[[], Plan],
    beside: Beside | None = None,
    *,
    text: str = "",
) -> tuple[RunSession, Plan] | None:
    """Make a plan, show it and ask, or take up the run that the command began under its key (`--run-key`).

    Returns:
        What `follow` carries out; None where it was only to be shown, or is done already.
    """
    key = run_key.asked(flags, text)
    if key:
        _learn(flags, site, screen, flags.run_key)
    if past := run_key.earlier(site, key):
        return _again(flags, site, screen, past)
    limit, begun = limit_of(flags), site.clock.monotonic()
    with limited(flags, site, "making the plan"):
        plan = make()
        more, words = beside(site, plan) if beside else ({}, "")
        if clear := site.in_clear():
            more, words = {**more, "in_clear": clear}, "\n\n".join(filter(None, [clear, words]))
    if around := _around(site, plan):
        more, words = {**more, "hooks": around}, "\n\n".join(filter(None, [words, _hook_lines(around)]))
    if flags.no_safety_net:
        screen.warn(f"NO SAFETY NET: the backup guards are lifted: {flags.no_safety_net}")
    if not _agreed(flags, screen, plan, more, words):
        return None
    left = None if limit is None else max(limit - (site.clock.monotonic() - begun), 0.001)
    return RunSession(site, plan, {**_options(site, flags), **key}, limit=left, limit_of=limit), plan


def _again(
    flags: Flags, site: ConfiguredSite, screen: Screen, past: journal.RunState
) -> tuple[RunSession, Plan] | None:
    """Return the run of a command's key to be taken up; None where it is done already, or only shown."""
    if not past.resumable:
        run_key.done_already(screen, past)
        return None
    session = _taken_up(flags, site, screen, past, {})
    return (session, past.plan) if session else None


def _options(site: ConfiguredSite, flags: Flags) -> dict[str, Json]:
    """Return what the journal keeps of how a run was asked for."""
    return {"insecure": site.settings.manager.insecure, "no_safety_net": flags.no_safety_net}


def _agreed(flags: Flags, screen: Screen, plan: Plan, more: Mapping[str, Json], beside: str) -> bool:
    """Show a plan and ask where it changes something; False where it was only to be shown."""
    text = f"{plan_text(plan)}\n\n{beside}" if beside else plan_text(plan)
    if flags.dry_run:
        shown: dict[str, Json] = {"plan": _told(plan), "digest": plan.digest, "fingerprint": plan.fingerprint}
        screen.emit({**shown, **more}, text)
        return False
    if plan.effect > Effect.READ:
        screen.say(text)
        confirm(plan, screen, yes=flags.yes, name=flags.confirm)
    return True


def _around(site: ConfiguredSite, plan: Plan) -> dict[str, list[str]]:
    """Return the programs that would run around a plan, by hook; empty where there are none."""
    hooks = site.settings.hooks
    if hooks is None or not plan.locks:
        return {}
    found = {name: [shlex.join(words) for words in getattr(hooks, name)] for name in HOOKS}
    return {name: lines for name, lines in found.items() if lines}


def _hook_lines(around: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"{name} of the site would run: {line}" for name, lines in around.items() for line in lines)


def _told(plan: Plan) -> dict[str, Json]:
    """Return a plan as JSON, with the lines that are for readers alone."""
    actions: list[Json] = [
        {**action.to_json(), **({"shown": list(action.shown)} if action.shown else {})} for action in plan.actions
    ]
    return {**plan.to_json(), "actions": actions}


def resume(flags: Flags, run: str | None, given: Mapping[str, str] | None = None) -> int:
    """Take up a run that stopped before its end; what was confirmed then is not asked again.

    Args:
        flags: the common flags; with `dry_run` what is left is shown, and nothing is done.
        run: its id or the beginning of it; None: the one that changed the site and that nobody finished.
        given: what the operator answers now, such as where a virtual cluster is.

    Returns:
        The exit code.

    Raises:
        Refused: several runs stopped and none is named, or its journal cannot be trusted.
    """
    with opened(replace(flags, vendor=True), warn_of_window=False) as (site, screen):
        said = by_lane(given or {})
        _learn(flags, site, screen)
        past = journal.find(site.state, run) if run else _only_one(site, said)
        if past is None or not past.resumable:
            return _nothing(site, screen, past, said)
        session = _taken_up(flags, site, screen, past, said)
        if session is None:
            return 0
        try:
            return follow(site, screen, session, past.plan)
        finally:
            show_output(site, screen, journal.find(site.state, past.id))


def _learn(flags: Flags, site: ConfiguredSite, screen: Screen, key: str = "") -> None:
    """Learn of runs that other machines began, or did under a key; a dry run knows those that are known here."""
    if site.settings.shared_state_key is None or flags.dry_run:
        return
    doing = "learning of runs"
    with site_lock(site.state, site.settings.name, doing, site.clock), only_one(site, doing, screen.say, key):
        pass
    tell_takeover(site, screen)


def _taken_up(
    flags: Flags, site: ConfiguredSite, screen: Screen, past: journal.RunState, said: Said
) -> RunSession | None:
    """Return the session that goes on with a run; None with `--dry-run`, where what is left is shown."""
    journal.refuse_unreadable(past)
    site.works_on({action.kind for action in past.plan.actions}, resumed=True)
    with limited(flags, site, "looking whether the run can be taken up"):
        answers = checked(site, past, said)
    if flags.dry_run:
        _show_left(screen, past)
        return None
    screen.say(f"taking up run {past.id}: {past.plan.source}, begun {past.started}")
    return RunSession(site, past.plan, _options(site, flags), past, limit_of(flags), answers=answers)


def _show_left(screen: Screen, past: journal.RunState) -> None:
    """Show what resuming a run would still do."""
    left = journal.left(past)
    rows = [f"  {action.effect.name:7} {action.summary} [{state}]" for action, state in left]
    shown: list[Json] = [{**action.to_json(), "state": state} for action, state in left]
    what = f"run {past.id} ({past.plan.source}, begun {past.started}) is {past.state}; left to do:"
    screen.emit({"run": past.id, "playbook": past.plan.source, "left": shown}, "\n".join([what, *rows]))


def _only_one(site: ConfiguredSite, said: Mapping[str, object]) -> journal.RunState | None:
    """Return the run that is meant where none is named; what the operator answers is for one that has branches.

    Raises:
        Refused: several runs may be meant, or a journal that nobody can read may be.
    """
    found = journal.unfinished(site.state)
    found = [past for past in found if not said or any(action.lane for action in past.plan.actions)] or found
    if len(found) > 1:
        raise Refused(
            f"{len(found)} runs of this site stopped before their end, and none is named",
            detail=[f"{one.id}  {one.plan.source}, begun {one.started}, {one.state}" for one in found],
            hint=f"`maint playbook resume {found[0].id}` takes up the newest;"
            " `maint playbook dismiss RUN --reason WORDS` gives one up",
        )
    if not found and (rotten := journal.unreadable(site.state)):
        raise Refused(
            "the journal of a run is damaged in its first line: what that run did is not known",
            detail=[str(path) for path in rotten],
            hint="look at the server; then move the file away, and begin anew",
        )
    return found[0] if found else None


def _nothing(
    site: ConfiguredSite, screen: Screen, past: journal.RunState | None, said: Mapping[str, Mapping[str, str]]
) -> int:
    """Say that there is nothing to take up: success where the run, or the site's last one, has done its work.

    Raises:
        Refused: it has not, or the operator answered something that no run asked for.
    """
    words = f"run {past.id} is {past.state}" if past else "no run of this site stopped before its end"
    if said:
        raise Refused(
            f"{words}: nothing to take up",
            detail=["`--set` was for no run"],
            hint="`maint playbook history` lists the runs",
        )
    runs = [one for one in journal.history(site.state) if one.plan.locks]
    last = past or (runs[-1] if runs else None)
    if last is None or last.state != "done":
        raise Refused(
            f"{words}: nothing to take up, and nothing was done",
            detail=[f"the last run, {last.id} ({last.plan.source}), is {last.state}"] if last else [],
            hint="where a command was killed before its run began, type that command again",
        )
    screen.say(f"{words}: nothing to take up")
    return 0


def dismiss(flags: Flags, run: str, reason: str) -> int:
    """Give up a run that stopped: it is not taken up any more, and nothing waits for it.

    Raises:
        Refused: it has ended, so that there is nothing to give up, or it still works.
    """
    with opened(flags) as (site, screen):
        _learn(flags, site, screen)
        past = journal.find(site.state, run)
        if not past.resumable:
            raise Refused(f"run {past.id} is {past.state}", hint="only a run that stopped before its end is dismissed")
        if flags.dry_run:
            screen.say(f"run {past.id} ({past.plan.source}) would be dismissed")
            return 0
        doing = f"dismissing run {past.id}"
        with (
            site_lock(site.state, site.settings.name, doing, site.clock),
            only_one(site, doing, screen.say) as shared,
        ):
            journal.dismiss(site.state, past, site.clock.now(), reason)
            if shared is not None:
                shared.follow(past)
                shared.end(past.id)
            outcomes.forget_run(site.state, past.id)
            if RESTORING & {action.kind for action in past.plan.actions} and (problem := let_go(site, past.id)):
                screen.warn(problem)
        screen.say(f"run {past.id} ({past.plan.source}) is dismissed; what it left half done is yours to look after")
    return 0


def follow(site: ConfiguredSite, screen: Screen, session: RunSession, plan: Plan) -> int:
    """Show a session's events, write its report, and return the exit code."""
    failure: Exception | None = None
    results: list[Event] = []
    begun, verb, seen = site.clock.now(), outcomes.verb_of(plan.source), False

    def show(event: Event | str) -> None:
        nonlocal seen
        if plan.locks and not seen:  # the lock is taken, and nothing is done yet
            seen = True
            tell_start(site, screen, verb)
        if isinstance(event, str):
            screen.say(event)
            return
        results.extend([event] if event.what is Happening.FINISHED else [])
        screen.event(plan, event)

    try:
        _watch(session.events(), show)
    except MaintError as error:
        failure = _with_way_on(error, plan, session, site)
    except Exception as bug:
        failure = bug
    where: Mapping[str, str] = {}
    if plan.locks and not isinstance(failure, Locked):
        where = after_run(site, screen, Ending(verb, begun, session.run_id, failure))
    _show(screen, plan, session, results, where, failure)
    _tell_left(site, screen, session, plan)
    if failure is not None:
        raise failure
    return 0


def _watch(events: Generator[Event | str, None, None], show: Callable[[Event | str], None]) -> None:
    """Show each event; a signal or a limit that strikes while showing is the run's own, so that it puts things back."""
    struck: BaseException | None = None
    while True:
        try:
            event = next(events) if struck is None else events.throw(struck)
            struck = None
            try:
                show(event)
            except OSError:  # nobody reads any more, such as after a lost connection: what was begun is still ended
                show = _unseen
        except StopIteration:
            return
        except (MaintError, KeyboardInterrupt) as error:
            if getgeneratorstate(events) == GEN_CLOSED:
                raise
            struck = error


def _unseen(event: Event | str) -> None:
    """Show nothing."""


def _show(
    screen: Screen,
    plan: Plan,
    session: RunSession,
    results: list[Event],
    where: Mapping[str, str],
    failure: Exception | None,
) -> None:
    actions: list[Json] = [
        {
            "name": plan.actions[event.index].name,
            "kind": plan.actions[event.index].kind,
            "target": plan.actions[event.index].target,
            "outcome": event.outcome.value if event.outcome else None,
            "detail": event.detail,
            "value": event.value,
        }
        for event in results
    ]
    if screen.output != "table":
        screen.emit({"run": session.run_id, "playbook": plan.source, "actions": actions, "report": dict(where)}, "")
    elif where:
        screen.say(f"report: {where['md']} and {where['html']}")
    if failure is None and plan.locks:
        screen.say(f"done: run {session.run_id}")


def _tell_left(site: ConfiguredSite, screen: Screen, session: RunSession, plan: Plan) -> None:
    """Say what remains to be done by the operator, where the run has come to its end."""
    if not plan.locks or not session.run_id:
        return
    past = journal.find(site.state, session.run_id)
    for line in report_of(past).left if past.state == "done" else ():
        screen.say(f"left to do: {line}")


def _with_way_on(error: MaintError, plan: Plan, session: RunSession, site: ConfiguredSite) -> MaintError:
    """Return the failure with the command that takes the run up again."""
    if not plan.locks or not session.run_id or isinstance(error, PartlyDone):
        return error
    if isinstance(error, Refused) and not journal.find(site.state, session.run_id).resumable:
        return error
    if isinstance(error, Unfinished):
        error.hint = f"then {command_to_resume(session.run_id, error.needs)}"
        return error
    command = f"{command_to_resume(session.run_id, error.needs)} goes on where it stopped"
    if isinstance(error, Interrupted) or not error.hint:
        error.hint = command
    elif "playbook resume" not in error.hint:
        error.hint = f"{error.hint}; {command}"
    return error
