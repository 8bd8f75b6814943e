"""Carry out a playbook for a command: plan it, show it, ask, run it, report it."""

import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from inspect import GEN_CLOSED, getgeneratorstate

from msgspec.structs import replace

from maint.cli.after_run import BRIEFLY, Ending, after_run, planned, refresh, tell_left, tell_start, tell_takeover
from maint.cli.boundary import insist, undisturbed
from maint.cli.composition import ConfiguredSite
from maint.cli.monitoring import metrics, outcomes
from maint.cli.open_site import limited, limits_of, name_cluster, opened, proxies, warn_of_windows
from maint.cli.options import Flags
from maint.cli.resume_values import (
    CLUSTERS,
    HOSTS,
    MANAGER,
    Said,
    addresses_of,
    as_found_now,
    before_tls,
    by_lane,
    checked,
    done_already,
    earlier_run,
    from_its_store,
    hosts_of,
    keyed,
    manager_of,
    store_of,
)
from maint.cli.run_report import action_json, command_to_resume, output_of, show_output
from maint.cli.screen import Screen, confirm, plan_text
from maint.cli.width import columns, folded
from maint.config.notices import HOOKS
from maint.deployment.secrets_in_text import shown
from maint.engine import journal, last_command, past_runs
from maint.engine.history import actions_left
from maint.engine.load import library
from maint.engine.plan import AdhocStep, make_plan, plan_of
from maint.engine.read_step import is_file
from maint.engine.session import RunSession, let_go
from maint.engine.shared_runs import at_work, unless_held
from maint.errors import Interrupted, Locked, MaintError, PartlyDone, Refused, Unfinished, shortage
from maint.model.formatting import tell_times
from maint.model.json import Json
from maint.model.manager import CLOSE_COMMAND
from maint.model.notice import verb_of
from maint.model.plan import Effect, Event, Happening, Phase, Plan, Playbook, Trouble
from maint.snapshots.open_windows import remembered
from maint.steps.registry import source_of

Make = Callable[[ConfiguredSite, Screen], Plan]
Beside = Callable[[ConfiguredSite, Plan], tuple[Mapping[str, Json], str]]
_RESUME = "`maint playbook resume`"  # as steps say it, which do not know whether their run can be taken up
ReadAfter = Callable[[ConfiguredSite, Screen, journal.RunState], None]


def carry_out(
    flags: Flags, name: str, given: Mapping[str, Json], *, expect: str | None = None, beside: Beside | None = None
) -> int:
    """Plan a shipped playbook and carry it out; see `run_playbook`."""
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
    """Plan a playbook, show the plan, ask, and carry it out; with `--dry-run` only show it.

    Args:
        expect: the digest that the plan must have, None for any.
        only: hosts and groups of hosts that the plan is limited to.
    """

    def make(site: ConfiguredSite, screen: Screen) -> Plan:
        name_cluster(site, screen, [str(given.get("vc", ""))])
        site.works_on(kinds_of(playbook))
        with planned(site, screen, playbook.name, dry_run=flags.dry_run):
            plan = make_plan(playbook, given, site, library(), flags.no_safety_net, only)
            _refuse_stale(plan, expect)
        return plan

    return run_plan(flags, make, beside, text=_whole_text(playbook))


def _whole_text(playbook: Playbook) -> str:
    """Return a playbook's text with those of the operator's own ones that it includes."""
    inner = [library().load(one.include) for one in playbook.steps if one.include and is_file(one.include)]
    return "\n".join([playbook.text, *map(_whole_text, inner)])


def run_plan(
    flags: Flags, make: Make, beside: Beside | None = None, *, text: str = "", after: ReadAfter | None = None
) -> int:
    """Make a plan, show it, ask, and carry it out; or go on with the run that the command began under its key.

    Args:
        beside: returns what is shown beside the plan, as data and as text.
        text: of the playbook, so that one that was edited is another command under the same key.
        after: receives how the run went, whatever became of it.
    """
    with opened(flags, limited_here=False) as (site, screen):
        session = _prepared(flags, site, screen, make, beside, text)
        if session is None:
            return 0
        try:
            return _follow(site, screen, session)
        finally:
            if after and session.run_id:
                after(site, screen, past_runs.find(site.state, session.run_id))


def run_steps(
    flags: Flags,
    source: str,
    lines: Callable[[ConfiguredSite, Screen], Sequence[AdhocStep]],
    after: ReadAfter | None = None,
) -> int:
    """Plan steps that a command (`source`) names itself, outside a playbook, and carry them out; see `run_plan`."""
    return run_plan(flags, lambda site, screen: plan_of(source, lines(site, screen), site), after=after)


def run_step(flags: Flags, source: str, name: str, kind: str, arguments: Mapping[str, Json]) -> int:
    """Do the same with one step."""
    return run_steps(flags, source, lambda *_: [AdhocStep(name, kind, arguments)])


def _refuse_stale(plan: Plan, expected: str | None) -> None:
    """Refuse a plan that is not the one the operator has seen."""
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


def _prepared(
    flags: Flags, site: ConfiguredSite, screen: Screen, make: Make, beside: Beside | None, text: str
) -> RunSession | None:
    """Return what is to be carried out; None where it was only to be shown, or is done already."""
    if not flags.dry_run:
        last_command.note(site.state, flags.command, site.clock.now())
    key = keyed(flags, text)
    if key:
        learn(flags, site, screen, flags.run_key)
    if past := earlier_run(site, key):
        last_command.forget(site.state)
        if past.resumable:
            return _taken_up(flags, site, screen, past, {})
        done_already(screen, past)
        return None
    with limited(flags, site, "making the plan"), nullcontext() if flags.dry_run else unless_held(site):
        plan = make(site, screen)
        name_cluster(site, screen, addresses_of(site, plan))
        if not plan.locks:
            last_command.forget(site.state)
        more, words = beside(site, plan) if beside else ({}, "")
        if clear := site.in_clear():
            more, words = {**more, "in_clear": clear}, "\n\n".join(filter(None, [clear, words]))
    if through := list(proxies(site.settings)):
        more, words = {**more, "proxies": through}, "\n\n".join(filter(None, [words, "\n".join(through)]))
    if around := _around(site, plan):
        more, words = {**more, "hooks": around}, "\n\n".join(filter(None, [words, _hook_lines(around)]))
    if flags.no_safety_net:
        screen.warn(f"NO SAFETY NET: the backup guards are lifted: {flags.no_safety_net}")
    if not _agreed(flags, screen, plan, more, words):
        return None
    options = {**_options(site, flags), CLUSTERS: addresses_of(site, plan), HOSTS: hosts_of(site, plan), **key}
    return RunSession(site, plan, options, None, *limits_of(flags, site))


def _options(site: ConfiguredSite, flags: Flags) -> dict[str, Json]:
    """Return what the journal keeps of how a run was asked for."""
    manager = site.settings.manager
    return {
        "insecure": manager.insecure,
        "no_safety_net": flags.no_safety_net,
        MANAGER: manager_of(site),
        **store_of(flags),
    }


def _agreed(flags: Flags, screen: Screen, plan: Plan, more: Mapping[str, Json], beside: str) -> bool:
    """Show a plan and ask where it changes something; False where it was only to be shown, or has nothing to do."""
    text = f"{plan_text(plan)}\n\n{folded(beside, columns())}" if beside else plan_text(plan)
    if flags.dry_run:
        screen.emit({**plan_json(plan), **more}, text)
        return False
    if plan.effect > Effect.READ:
        screen.say(text)
        if plan.idle and not (flags.yes or flags.confirm):
            screen.emit({**plan_json(plan), **more}, "")
            screen.say("nothing is to be done, and nothing was done")
            return False
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


def plan_json(plan: Plan) -> dict[str, Json]:
    """Return a plan as commands print it: with the lines that are for readers alone, without secrets within texts."""
    actions: list[Json] = [
        {**action.to_json(), **({"shown": list(action.shown)} if action.shown else {})} for action in plan.actions
    ]
    limit: dict[str, Json] = {"limit": list(plan.limit)} if plan.limit else {}
    whole: Json = {**plan.to_json(), **limit, "actions": actions}
    return {"plan": shown(whole), "digest": plan.digest, "fingerprint": plan.fingerprint}


def resume(flags: Flags, run: str | None, given: Mapping[str, str] | None = None) -> int:
    """Take up a run, else the one that nobody finished; what was confirmed then is not asked again. Else Refused."""
    with (
        opened(replace(flags, vendor=True), warn_of_window=False, limited_here=False) as (site, screen),
        ExitStack() as idle,
    ):
        idle.callback(lambda: warn_of_windows(site, lambda words: screen.warn(site.named(words))))
        said = by_lane(given or {})
        learn(flags, site, screen)
        past = past_runs.find(site.state, run) if run else _only_one(site, said)
        if past is None or not past.resumable:
            return _nothing(site, screen, past, said)
        if (there := from_its_store(flags, past)) is not None:
            idle.pop_all()
            return resume(there, past.id, given)
        session = _taken_up(flags, site, screen, past, said)
        if session is None:
            return 0
        idle.pop_all()  # it closes them
        try:
            return _follow(site, screen, session)
        finally:
            show_output(site, screen, past_runs.find(site.state, past.id))


def learn(flags: Flags, site: ConfiguredSite, screen: Screen, key: str = "") -> None:
    """Learn of runs that other machines began, or did under a key; a dry run knows those that are known here."""
    if site.settings.shared_state_key is None or flags.dry_run:
        return
    doing = "learning of runs"
    with limited(flags, site, doing), at_work(site, doing, screen.say, key):
        pass
    tell_takeover(site, screen)


def _taken_up(
    flags: Flags, site: ConfiguredSite, screen: Screen, past: journal.RunState, said: Said
) -> RunSession | None:
    """Return the session that goes on with a run; None with `--dry-run`, where what is left is shown."""
    journal.refuse_unreadable(past)
    name_cluster(site, screen, addresses_of(site, past.plan))
    kinds, sent = before_tls(past)
    site.works_on(kinds, sent=sent)
    doing = "looking whether the run can be taken up"
    with limited(flags, site, doing), nullcontext() if flags.dry_run else unless_held(site):
        answers = checked(site, past, said)
    if flags.dry_run:
        _show_left(site, screen, past)
        return None
    screen.say(f"taking up run {past.id}: {past.plan.source}, begun {tell_times(past.started)}")
    return RunSession(site, past.plan, _options(site, flags), past, *limits_of(flags, site), answers=answers)


def _show_left(site: ConfiguredSite, screen: Screen, past: journal.RunState) -> None:
    """Show what resuming a run would still do."""
    remaining = [(as_found_now(site, action), state) for action, state in actions_left(past)]
    rows = [f"  {action.effect.name:7} {action.summary} [{state}]" for action, state in remaining]
    left = shown([{**action.to_json(), "state": state} for action, state in remaining])
    what = f"run {past.id} ({past.plan.source}, begun {tell_times(past.started)}) is {past.state}; left to do:"
    screen.emit({"run": past.id, "playbook": past.plan.source, "left": left}, "\n".join([what, *rows]))


def _only_one(site: ConfiguredSite, said: Mapping[str, object]) -> journal.RunState | None:
    """Return the run that is meant where none is named; what the operator answers is for one that has branches."""
    found = past_runs.unfinished(site.state)
    found = [past for past in found if not said or any(action.lane for action in past.plan.actions)] or found
    if len(found) > 1:
        raise Refused(
            f"{len(found)} runs of this site stopped before their end, and none is named",
            detail=[f"{one.id}  {one.plan.source}, begun {tell_times(one.started)}, {one.state}" for one in found],
            hint=f"`maint playbook resume {found[0].id}` takes up the newest;"
            " `maint playbook dismiss RUN --reason WORDS` gives one up",
        )
    if not found:
        past_runs.refuse_rotten(past_runs.unreadable(site.state))
    return found[0] if found else None


def _nothing(
    site: ConfiguredSite, screen: Screen, past: journal.RunState | None, said: Mapping[str, Mapping[str, str]]
) -> int:
    """Say that there is nothing to take up: success where the run, or the site's last one, has done its work."""
    runs = [one for one in past_runs.history(site.state) if one.plan.locks]
    last, given = past or (runs[-1] if runs else None), None if past else last_command.last(site.state)
    killed = [] if past else [one for one in past_runs.killed_commands(site.state) if last is None or one.id != last.id]
    for one in killed:
        screen.warn(f"{one.id} ({one.plan.source}) was killed: {command_to_resume(one.id, one.needs)} takes it up")
    other = "other " if killed else ""
    words = f"run {past.id} is {past.state}" if past else f"no {other}run of this site stopped before its end"
    if said:
        raise Refused(
            f"{words}: nothing to take up",
            detail=["`--set` was for no run"],
            hint="`maint playbook history` lists the runs",
        )
    if last is None or not last.over or given:
        gone = last is not None and last.state == "dismissed" and not given
        seen = [f"the last run, {last.id} ({last.plan.source}), is {last.state}"] if last and not past else []
        seen += [last.detail] if last and gone else []
        if given:
            which = f"`maint {given.command}`, given {tell_times(given.at)}," if given.command else "a later command"
            seen.append(f"{which} ended before its run began")
        raise Refused(
            f"{words}: nothing to take up, and nothing was done",
            detail=seen,
            hint=f"{command_to_resume(last.id, last.needs)} takes it up"
            if last is not None and last.resumable
            else "begin anew what is still wanted of it"
            if gone
            else "where a command was killed before its run began, type that command again",
        )
    screen.emit({"run": last.id, "playbook": last.plan.source, "left": []}, "")
    screen.say(f"{words}: nothing to take up")
    return 0


def dismiss(flags: Flags, run: str, reason: str) -> int:
    """Give up a run that stopped, so that nothing waits for it; Refused: it has ended, or still works."""
    with opened(flags) as (site, screen):
        learn(flags, site, screen)
        past = past_runs.find(site.state, run, lambda one: one.resumable)
        if not past.resumable:
            raise Refused(f"run {past.id} is {past.state}", hint="only a run that stopped before its end is dismissed")
        if flags.dry_run:
            screen.emit({"run": past.id}, f"run {past.id} ({past.plan.source}) would be dismissed")
            return 0
        doing = f"dismissing run {past.id}"
        with at_work(site, doing, screen.say) as shared:
            journal.dismiss(site.state, past, site.clock.now(), reason)
            if shared is not None:
                shared.follow(past)
                shared.end(past.id)
            outcomes.forget_run(site.state, past.id)
            needed = set(filter(None, map(source_of, past.plan.actions)))
            # It may have been restored from a copy, which this command does not know.
            if needed and (problem := let_go(site, past.id, needed if site.copies else ())):
                screen.warn(problem)
        refresh(site, screen, BRIEFLY)
        screen.emit({"run": past.id}, "")
        screen.say(f"run {past.id} ({past.plan.source}) is dismissed; what it left half done is yours to look after")
    return 0


def _follow(site: ConfiguredSite, screen: Screen, session: RunSession) -> int:
    """Show a session's events, write its report, and return the exit code."""
    plan = session.plan
    failure: Exception | None = None
    results: list[Event] = []
    begun, verb, at_work = site.clock.now(), verb_of(plan.source), list[metrics.AtWork]()

    def show(event: Event | str) -> None:
        if plan.locks and not at_work:  # the lock is taken, and nothing is done yet
            at_work.append(metrics.AtWork(site))
            tell_start(site, screen, verb)
        for one in at_work:
            one.look()
        if isinstance(event, str):
            (screen.warn if isinstance(event, Trouble) else screen.say)(event)
            return
        results.extend([event] if event.what is Happening.FINISHED else [])
        screen.event(plan, event)
        if event.what is Happening.STARTED and plan.actions[event.index].phase is Phase.MAIN:
            insist()

    try:
        _watch(session.events(), show)
    except Exception as error:
        foreseen = error if isinstance(error, MaintError) else shortage(error)
        with undisturbed():
            failure = _with_way_on(foreseen, session, site) if foreseen else error
    try:
        moved = sum(one.end() for one in at_work)
        where: Mapping[str, str] = {}
        if plan.locks and not isinstance(failure, Locked):
            where = after_run(site, screen, Ending(verb, begun, session.run_id, failure, bool(at_work), moved))
        if not isinstance(failure, Locked):  # which never began
            _show(site, screen, session, results, where)
        if failure is None and plan.locks:
            screen.say(f"done: run {session.run_id}")
        tell_left(site, screen, session.run_id if session.plan.locks else "")
    except Interrupted:
        if failure is None:  # else that is what is still told
            raise
    if failure is not None:
        raise failure
    return 0


def _watch(events: Generator[Event | str, None, None], show: Callable[[Event | str], None]) -> None:
    """Show each event; a signal, limit or bug that strikes meanwhile is the run's own, so that it puts things back."""
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
        except Exception as error:
            if getgeneratorstate(events) == GEN_CLOSED:
                raise
            struck, show = error, _unseen  # else it would strike what puts things back, too


def _unseen(event: Event | str) -> None:
    """Show nothing."""


def _show(
    site: ConfiguredSite, screen: Screen, session: RunSession, results: Sequence[Event], where: Mapping[str, str]
) -> None:
    plan = session.plan
    if screen.output != "table":
        actions = [action_json(plan.actions[event.index], event) for event in results]
        told: dict[str, Json] = {"run": session.run_id, "playbook": plan.source, "actions": actions}
        told["report"] = dict(where)
        kept = plan.locks and session.run_id  # else there is no journal
        if kept and (printed := output_of(site, past_runs.find(site.state, session.run_id))):
            told["output"] = printed
        screen.emit(told, "")
    elif where:
        screen.say(f"report, with HTML beside it: {where['md']}")


def _with_way_on(error: MaintError, session: RunSession, site: ConfiguredSite) -> MaintError:
    """Return the failure with the command that takes the very run up again, where there is one to take up."""
    run = session.run_id if session.plan.locks and not isinstance(error, PartlyDone) else ""
    if not run or (isinstance(error, Refused) and not past_runs.find(site.state, run).resumable):
        error.hint = (error.hint or "").replace(_RESUME, "the same command") or None
        return error
    command = command_to_resume(run, error.needs)
    if isinstance(error, Unfinished):
        error.hint = f"then {command}"
    elif isinstance(error, Interrupted) or not error.hint:
        error.hint = f"{command} goes on where it stopped"
    elif _RESUME in error.hint:
        error.hint = error.hint.replace(_RESUME, command)
    elif "playbook resume" not in error.hint:
        error.hint = f"{error.hint}; {command} goes on where it stopped"
    return _with_window(error, run, site)


def _with_window(error: MaintError, run: str, site: ConfiguredSite) -> MaintError:
    """Add to a failure that the run has left its redaction window open, such as where its closing was stopped too."""
    with suppress(Refused):  # its record is damaged: doctor tells
        window = remembered(site.state)
        if window is not None and window.run == run:
            words = "the redaction window is still open: everyone who may read the API sees passwords"
            error.detail = (*error.detail, words)
            error.hint = f"{error.hint}; `{CLOSE_COMMAND}` closes it alone"
    return error
