"""How the parts of a platform came back in one run, and after how long: what a recovery is measured by."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from maint.engine.journal import Record, RunState
from maint.model.events import Outcome
from maint.model.formatting import show_count, show_duration
from maint.model.json import Json
from maint.model.plan import Phase
from maint.report.run import Back

_TELLING = ("deployment.compare", "vc.find", "vc.recover", "vc.smoke")  # kinds whose words stand for their part

_GIVEN_UP = "left out"
_SHOWN = 5
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
    records = [past.records.get(index, Record()) for index in places]
    name = f"virtual cluster {lane}" if lane else "manager"
    told = [
        record.result.detail
        for index, record in zip(places, records, strict=True)
        if record.result is not None and past.plan.actions[index].kind in _TELLING and _counts(record)
    ]
    if past.answers.get(lane, {}).get("skip") is True:
        return Back(name, _GIVEN_UP, "", "as was said")
    state = _state(records)
    ended = max((record.at for record in records if record.at), default="")
    return Back(name, state, _after(past, ended) if state in ("back", "partly back") else "", "; ".join(told))


def _counts(record: Record) -> bool:
    return record.result is not None and record.result.outcome is not Outcome.SKIPPED


def _state(records: Sequence[Record]) -> str:
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
        result = past.records.get(index, Record()).result
        awake = _awake(result.value if result is not None else None)
        if action.kind == "vc.recover" and awake:
            shown = f"{', '.join(awake[:_SHOWN])}{' …' if len(awake) > _SHOWN else ''}"
            yield (
                f"{show_count(len(awake), 'schedule')} of {action.lane} paused ({shown}); "
                f"once all is well: `maint playbook run resume-schedules --set vc={action.lane}`"
            )


def _made(past: RunState, lane: str) -> Mapping[str, Json]:
    """Return where the certificate is that was made for a virtual cluster; nothing where none was."""
    results = [past.records.get(index, Record()).result for index in past.lane(lane)]
    values = [result.value for result in results if result is not None and isinstance(result.value, Mapping)]
    return next(({"ca": value["ca"]} for value in values if value.get("ca")), {})


def _awake(value: Json) -> list[str]:
    names = value.get("awake") if isinstance(value, Mapping) else None
    return [str(name) for name in names] if isinstance(names, list | tuple) else []
