"""`maint playbook history`, who ran what, when, and how it ended; `maint playbook approve`, what a run waits for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec

from maint import __version__
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import Flags, NamedRun, number, option, seconds_of
from maint.cli.run_playbook import learn
from maint.cli.screen import Screen, ask_change, table
from maint.config.paths import actor
from maint.engine import past_runs
from maint.engine.history import Wanted, forget, prunable
from maint.engine.journal import RUN_STATES, ActionRecord, RunState
from maint.engine.lease import refuse_elsewhere
from maint.engine.lock import is_held, site_lock
from maint.engine.shared_runs import shared_runs
from maint.errors import Locked, Refused, UsageError
from maint.model.formatting import meant, parse_duration, show_count, show_duration, show_some, show_time, tell_time
from maint.model.json import Json
from maint.model.plan import Action
from maint.steps.flow import Approval, answer, answered, refuse_answered
from maint.steps.registry import STEPS
from maint.steps.services.change_setting import expire
from maint.steps.undo_records import KEPT_FOR


@command()
def approve(
    flags: Flags,
    run_id: NamedRun = "",
    note: Annotated[str, option("--note", "Why, for journal and report.")] = "",
    reject: Annotated[bool, option("--reject", "Say no: the step fails.")] = False,
) -> int:
    """Answer the question that a run waits for; who, when and why stands in its journal."""
    with opened(flags) as (site, screen):
        here = is_held(site.state)  # it may be a run that waits on this machine
        if not (flags.dry_run or here):
            refuse_elsewhere(site, run_id)
            with suppress(Locked):  # what is known here will do
                learn(flags, site, screen)
        past = past_runs.find(site.state, run_id, lambda one: any(_waiting(one)))
        action, record = _question(past)
        question, token, now = str(action.arguments["question"]), str(record.notes["token"]), site.clock.now()
        refuse_answered(site.state, past.id, token)
        if now > datetime.fromisoformat(str(record.notes["until"])):
            hint = f"`maint playbook resume {past.id}` asks again"
            raise Refused(f"the question of run {past.id} is too old to be answered", detail=[question], hint=hint)
        said = "rejected" if reject else "approved"
        if flags.dry_run:
            told: dict[str, Json] = {"run": past.id, "question": question, "approved": not reject}
            screen.emit({"approval": told}, f"would be {said}: {question}")
            return 0
        word = Approval(not reject, actor(), show_time(now), note)
        shared = None if here else shared_runs(site)
        if shared is None or not shared.say(past.id, f"approval-{token}", msgspec.json.encode(word) + b"\n"):
            answer(site.state, past.id, token, word)
        elif answered(site.state, past.id, token) != word:
            refuse_answered(site.state, past.id, token)
        screen.say(f"{said}: {question}")
        if not is_held(site.state):
            then = "ends with that" if reject else "goes on"
            screen.say(f"`maint playbook resume {past.id}` {then}")
        data: dict[str, Json] = {
            "run": past.id,
            "question": question,
            "approved": not reject,
            "by": actor(),
            "note": note,
        }
        screen.emit({"approval": {**data, "at": show_time(now)}}, "")
        return 0


def _question(past: RunState) -> tuple[Action, ActionRecord]:
    """Return the step of a run that waits for a person, and what is known of it."""
    for question in _waiting(past):
        return question
    hint = "it is asked when its turn comes; `maint playbook history` lists the runs"
    raise Refused(f"run {past.id} ({past.plan.source}, {past.state}) waits for nobody's word", hint=hint)


def _waiting(past: RunState) -> Iterator[tuple[Action, ActionRecord]]:
    return iter(()) if past.ended in ("dismissed", "done") else open_questions(past)


def open_questions(past: RunState) -> Iterator[tuple[Action, ActionRecord]]:
    """Yield the steps of a run that wait for a person's word, each with what is known of it."""
    for index, action in enumerate(past.plan.actions):
        record = past.records.get(index, ActionRecord())
        token = record.notes.get("token")
        asked = token and "until" in record.notes  # not where it was killed as it began to ask
        open_ = asked and not record.settled and record.notes.get("over") != token
        if open_ and action.kind in STEPS and STEPS[action.kind].asks:
            yield action, record


_LAST, _AGE = 100, 90 * 86400.0  # runs and seconds that stay where neither flags nor config say otherwise


@command()
def history(
    flags: Flags,
    playbook: Annotated[str, option("--playbook", "Only runs of this playbook.")] = "",
    outcome: Annotated[list[str] | None, option("--outcome", "Only runs in this state; repeatable.")] = None,
    since: Annotated[str, option("--since", "Only runs begun since: 7d, 12h, or 2026-01-02.")] = "",
    user: Annotated[str, option("--user", "Only runs that somebody began or took up: NAME or NAME@HOST.")] = "",
    prune: Annotated[bool, option("--prune", "Forget old runs instead: neither among the newest nor young.")] = False,
    keep: Annotated[int | None, number("--keep", "With --prune: how many of the newest stay; 100.")] = None,
    age: Annotated[str, option("--age", "With --prune: how young a run must be to stay; 90d, at least 30d.")] = "",
) -> int:
    """List the runs of the site: who, from which host, with which version, how often stopped and taken up."""
    for state in outcome or ():
        if state not in RUN_STATES:
            raise UsageError(f"there is no outcome {state!r}", hint=f"there are {', '.join(RUN_STATES)}")
    with opened(flags) as (site, screen):
        if prune:
            return _prune(flags, site, screen, keep, age)
        if keep is not None or age:
            raise UsageError("--keep and --age belong to --prune", hint="`maint playbook history --prune --dry-run`")
        wanted = Wanted(playbook, outcome or (), _since(since, site.clock.now()) if since else None, user)
        runs = past_runs.history(site.state)
        found = [past for past in runs if wanted.fits(past)]
        _show(site, screen, found)
        if not found:
            screen.say(_instead(runs, playbook))
        return 0


def _instead(runs: Sequence[RunState], playbook: str) -> str:
    """Return what is said where no run is found: what there is."""
    if not runs:
        return "this site has no runs yet"
    known = sorted({past.plan.source for past in runs})
    if playbook and playbook not in known:
        words = f"there are runs of {show_some(known, 12)}"
        return f"no run of {playbook!r} is kept; {meant(playbook, known, words)}"
    people = sorted({attempt.actor for past in runs for attempt in past.attempts})
    states = ", ".join(sorted({past.state for past in runs}))
    last = tell_time(datetime.fromisoformat(runs[-1].started))
    words = f"by {show_some(people, 12)}; {states}; the last begun {last}"
    return f"no run fits; there are runs of {show_some(known, 12)}, {words}"


def _since(text: str, now: datetime) -> datetime:
    try:
        return now - timedelta(seconds=parse_duration(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text!r} is not a time", hint="such as 7d, 12h, or 2026-01-02") from None


def _show(site: ConfiguredSite, screen: Screen, runs: Sequence[RunState]) -> None:
    rows = [
        [past.id, past.plan.source, past.state, past.actor, _took(past), _told(past, site.state, site.clock.now())]
        for past in runs
    ]
    heads = ["RUN", "PLAYBOOK", "STATE", "WHO", "TOOK", "NOTE"]
    screen.emit({"runs": [_json(past) for past in runs]}, table(heads, rows))


def _took(past: RunState) -> str:
    """Return how long a run went on, from its beginning, which its id tells, to its end."""
    if not past.at:
        return ""
    return show_duration((datetime.fromisoformat(past.at) - datetime.fromisoformat(past.started)).total_seconds())


def _told(past: RunState, state: Path, now: datetime) -> str:
    again = len(past.attempts) - 1
    words = [f"taken up {show_count(again, 'time')}"] if again else []
    words += [past.detail] if past.state == "dismissed" else []
    words += list(_waits(state, past, now)) if past.state == "unfinished" else []
    words += [f"by version {past.version or '0.1.0'}"] if past.version != __version__ else []
    return "; ".join(words)


def _waits(state: Path, past: RunState, now: datetime) -> Iterator[str]:
    """Yield what a run waits for, and who has answered since; nothing of one that was killed."""
    questions = list(open_questions(past))
    if not questions and past.detail:
        yield past.detail
    for _, record in questions:
        until = datetime.fromisoformat(str(record.notes["until"]))
        yield f"{'waits' if now <= until else 'waited'} for a person until {tell_time(until)}"
        with suppress(Refused):  # a damaged answer is reported on resume
            if said := answered(state, past.id, str(record.notes["token"])):
                yield f"{'approved' if said.yes else 'rejected'} by {said.by}"


def _json(past: RunState) -> Json:
    attempts: list[Json] = [
        {"began": one.began, "by": one.actor, "ended": one.ended or None, "state": one.state or None}
        for one in past.attempts
    ]
    return {
        "id": past.id,
        "playbook": past.plan.source,
        "state": past.state,
        "started": past.started,
        "finished": past.at or None,
        "by": past.actor,
        "version": past.version,
        "effect": past.plan.effect.name,
        "detail": past.detail,
        "attempts": attempts,
    }


def _prune(flags: Flags, site: ConfiguredSite, screen: Screen, keep: int | None, age: str) -> int:
    configured = site.settings.history
    last = keep if keep is not None else configured.last if configured else _LAST
    seconds = seconds_of("--age", age) if age else configured.age if configured else _AGE
    old = prunable(site.state, site.clock.now(), last=last, age=seconds)
    stays = max(seconds, KEPT_FOR.total_seconds())  # what a run can undo is kept for as long
    rule = f"the newest {last} stay, and what is younger than {show_duration(stays)}"
    ids = [past.id for past in old.runs]
    lines = "\n".join(f"{past.id}  {past.plan.source}, {past.state}" for past in old.runs)
    for run, words in old.kept.items():
        screen.say(f"run {run} stays: {words}")
    if flags.dry_run or not old.runs:
        screen.emit({"forgotten": [], "would_forget": list(ids), "kept": dict(old.kept)}, lines)
        told = f"{show_count(len(ids), 'run')} would be forgotten" if ids else "there is no run to forget"
        screen.say(f"{told}: {rule}")
        return 0
    screen.say(lines)
    ask_change(screen, f"forget {show_count(len(ids), 'run')}, with journal and report? {rule}", yes=flags.yes)
    with site_lock(site.state, site.settings.name, "forgetting old runs", site.clock):
        expire(site.state, site.undo, site.clock.now())
        forget(site.state, old.runs)
    screen.emit({"forgotten": list(ids), "would_forget": [], "kept": dict(old.kept)}, "")
    screen.say(f"{show_count(len(ids), 'run')} forgotten: {rule}")
    return 0
