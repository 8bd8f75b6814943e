"""What the report of a run says: how each action went, how the parts of a platform came back, what is left to do."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import named_in
from maint.cli.screen import Screen
from maint.engine.journal import ActionRecord, RunState
from maint.errors import NotKept
from maint.model.formatting import show_count, show_duration
from maint.model.json import Json
from maint.model.plan import Action, Event, Outcome, Phase, Result
from maint.model.secret import scrub
from maint.report.run import Back, ReportedAction, ReportedAttempt, RunReport
from maint.report.site_facts import AT_WORK

_KERBEROS = "where services use Kerberos, that makes their credentials, with the KDC's account in `manager.kdc`"
_LEFT = {
    "disaster-recovery": (
        "agents, monitors and clusters do not run yet: `maint manager start --cluster NAME`",
        _KERBEROS,
        "parcels may have to be distributed and activated again",
        "monitoring history, audit and command history are not part of a configuration backup",
    ),
    "restore-cluster": (
        "the clusters do not run yet: `maint manager start --cluster NAME`",
        _KERBEROS,
        "parcels may have to be distributed and activated again",
    ),
    "restore-deployment": (
        "restart the manager server so that its listeners follow the settings: `maint manager tls-switch`",
        "then bring the platform up: `maint manager start --cluster NAME`",
        _KERBEROS,
    ),
}


_COUNTED = {
    "not_comparable": "Not comparable: the server hides these values",
    "added_keys": "Keys that only the server has",
}


def report_of(past: RunState, at_work: str = "", named: Callable[[str], str] = str) -> RunReport:
    """Return the report that a journal tells.

    Args:
        at_work: the run that goes on now, if one does.
        named: makes the commands in words say of which config they are, where that is not the usual one.
    """
    lines = [_line(past, index, action) for index, action in enumerate(past.plan.actions)]
    left = (*_LEFT.get(past.plan.source, ()), *left_of_lanes(past)) if past.over else ()
    goes_on = past.id == at_work
    if past.resumable and not goes_on:
        left = (*past.to_do, f"{command_to_resume(past.id, past.needs)} goes on where it stopped")
    unended = [*("killed" for _ in past.attempts[1:]), AT_WORK if goes_on else "killed"]
    return RunReport(
        past.id,
        past.plan,
        past.started,
        past.at,
        past.state,
        past.detail,
        lines,
        [named_in(named(one), past.plan.site) for one in left],  # it is read where nothing else says of which site
        _lists(past),
        waived=str(past.options.get("no_safety_net") or ""),
        version=past.version,
        attempts=[
            ReportedAttempt(one.began, one.actor, one.ended, one.state or otherwise, one.version, one.heard)
            for one, otherwise in zip(past.attempts, unended, strict=True)
        ],
        hooks=past.hooks,
        back=back_of(past),
    )


def action_json(action: Action, ended: Event | Result) -> Json:
    """Return how an action ended, as commands print it."""
    head = {"name": action.name, "kind": action.kind, "target": action.target}
    outcome = ended.outcome.value if ended.outcome else None
    return {**head, "outcome": outcome, "partly": ended.partly, "detail": ended.detail, "value": ended.value}


def command_to_resume(run: str, needs: Sequence[str]) -> str:
    """Return the command that takes a run up, with what it must be told."""
    return f"`maint playbook resume {run}{''.join(f' --set {key}=…' for key in needs)}`"


def _lists(past: RunState) -> dict[str, list[str]]:
    """Return what comparisons counted, one by one."""
    found: dict[str, list[str]] = {}
    for index, action in enumerate(past.plan.actions):
        result = past.record(index).result
        if action.kind == "deployment.compare" and result is not None and isinstance(result.value, Mapping):
            for key, heading in _COUNTED.items():
                items = result.value.get(key)
                if isinstance(items, list) and items:
                    found[heading] = [str(item) for item in items]
    return found


def _line(past: RunState, index: int, action: Action) -> ReportedAction:
    record = past.record(index)
    outcome, detail = "not begun", ""
    if record.result is not None:
        outcome, detail = record.result.outcome.value, record.result.detail
    elif record.begun:
        outcome = "begun"
    partly = record.result is not None and record.result.partly
    return ReportedAction(
        action.name, action.target, action.effect.name, outcome, detail, partly, record.at, record.began
    )


def folder(state: Path) -> Path:
    """Return where a site's reports lie."""
    return state / "reports"


def output_of(site: ConfiguredSite, past: RunState) -> str:
    """Return what the one-off run of a past run printed, once: it is kept no longer; empty where it has none."""
    printed = ""
    for record in past.records.values():
        name = record.notes.get("log")
        if isinstance(name, str):
            with suppress(NotKept):  # an earlier attempt has shown it
                printed += scrub(site.undo.fetch(name).decode(errors="replace"))
            site.undo.drop(name)
    return printed


def show_output(site: ConfiguredSite, screen: Screen, past: RunState) -> None:
    """Print what the one-off run of a past run printed; in JSON and YAML it stands in what tells of the run."""
    if screen.output == "table" and (printed := output_of(site, past)):
        screen.raw(printed)


_TELLING = ("deployment.compare", "vc.find", "vc.recover", "vc.smoke")  # kinds whose words stand for their part

_GIVEN_UP = "left out"
_PLACES = ("base_url", "auth_url", "connect_to", "ca")


def back_of(past: RunState) -> Sequence[Back]:
    """Return how the manager and each virtual cluster came back; nothing of a run that brings no such parts back."""
    lanes = list(dict.fromkeys(action.lane for action in past.plan.actions if action.phase is Phase.MAIN))
    if not any(lanes):
        return ()
    parts = [_part(past, lane) for lane in lanes]
    done = all(part.after or part.state == _GIVEN_UP for part in parts)
    idle = f"for {show_duration(past.idle)} of it the run was not at work" if past.idle >= 1 else ""
    return [*parts, Back("all", "back" if done else "not yet", _after(past, past.last) if done else "", idle)]


def _part(past: RunState, lane: str) -> Back:
    """Return how one part came back: the manager is what belongs to no lane."""
    places = [
        index for index, action in enumerate(past.plan.actions) if action.lane == lane and action.phase is Phase.MAIN
    ]
    records = [past.record(index) for index in places]
    name = f"virtual cluster {lane}" if lane else "manager"
    told = [
        record.result.detail
        for index, record in zip(places, records, strict=True)
        if record.result is not None
        and past.plan.actions[index].kind in _TELLING
        and record.result.outcome is not Outcome.SKIPPED
    ]
    if past.answers.get(lane, {}).get("skip") is True:
        return Back(name, _GIVEN_UP, "", "as was said")
    state = _state(records)
    ended = max((record.at for record in records if record.at), default="")
    return Back(name, state, _after(past, ended) if state in ("back", "partly back") else "", "; ".join(told))


def _state(records: Sequence[ActionRecord]) -> str:
    if all(record.settled for record in records):
        partly = any(record.result is not None and record.result.partly for record in records)
        return "partly back" if partly else "back"
    stopped = next(record for record in records if not record.settled)
    if stopped.result is not None:
        return stopped.result.outcome.value
    return "under way" if any(record.begun for record in records) else "not begun"


def _after(past: RunState, ended: str) -> str:
    return show_duration((datetime.fromisoformat(ended) - datetime.fromisoformat(past.started)).total_seconds())


def left_of_lanes(past: RunState) -> Iterator[str]:
    """Yield what is left to do for virtual clusters that are back: the config, and schedules that rest."""
    for lane in dict.fromkeys(action.lane for action in past.plan.actions if action.lane):
        if past.answers.get(lane, {}).get("skip") is True:
            yield f"{lane} is not back: `maint playbook run recover-virtual-clusters --set virtual_clusters={lane}`"
            continue
        values = {**past.answers.get(lane, {}), **_made(past, lane)}
        if any(key in values for key in _PLACES):
            shown = ", ".join(f"{key}: {values[key]}" for key in _PLACES if key in values)
            yield f"only this run knows how to reach {lane} now: put it into the config before anything else ({shown})"
    for index, action in enumerate(past.plan.actions):
        result = past.record(index).result
        awake = _awake(result.value if result is not None else None)
        if action.kind == "vc.recover" and awake:
            # Named, since the note of them lies in the store that was read: a copy, or one that took none.
            order = shlex.quote(",".join(awake))
            yield (
                f"{show_count(len(awake), 'schedule')} of {action.lane} paused; once all is well: "
                f"`maint playbook run resume-schedules --set vc={action.lane} --set order={order}`"
            )


def _made(past: RunState, lane: str) -> Mapping[str, Json]:
    """Return where the certificate is that was made for a virtual cluster; nothing where none was."""
    results = [past.record(index).result for index in past.lane(lane)]
    values = [result.value for result in results if result is not None and isinstance(result.value, Mapping)]
    return next(({"ca": value["ca"]} for value in values if value.get("ca")), {})


def _awake(value: Json) -> list[str]:
    names = value.get("awake") if isinstance(value, Mapping) else None
    return [str(name) for name in names] if isinstance(names, list | tuple) else []
