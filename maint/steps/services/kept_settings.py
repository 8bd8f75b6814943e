"""The settings that a run has changed, with their old values sealed, so that they can be put back."""

import json
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint.errors import NotKept, WorkFailed
from maint.model.json import Moment
from maint.model.manager import Place
from maint.ports import Site, Undo
from maint.steps.undo_records import KEPT_FOR, UndoRecords


class KeptSetting(msgspec.Struct, frozen=True):
    """One setting that was changed."""

    place: Place
    name: str
    sealed: str  # name of the sealed old value
    before: str  # the old value as it may be shown
    after: str  # the new one as it may be shown
    print: str  # stands for the new value, so that it is told whether somebody has changed it since
    secret: bool  # whether the value is one
    was: str = ""  # stands for the old value; "" in records of older versions


class _Kept(msgspec.Struct, frozen=True):
    until: Moment
    settings: Sequence[KeptSetting] = ()

    @property
    def names(self) -> Sequence[str]:
        return [one.sealed for one in self.settings]


_RECORDS = UndoRecords(
    "setting-undo",
    _Kept,
    "which settings run {run} changed is not known",
    "move the file away; a snapshot may hold the old values: `maint restore config`",
)


def expire(state: Path, undo: Undo, now: datetime) -> None:
    """Drop the old values that were kept for their time."""
    _RECORDS.expire(state, undo, now)


def kept_settings(state: Path, run: str) -> Sequence[KeptSetting]:
    """Return what a run has changed, in its order; WorkFailed where the record is damaged."""
    found = _RECORDS.read(state, run)
    return found.settings if found else ()


def promised(state: Path) -> dict[str, str]:
    """Return the runs whose settings can be put back still, each with the day until which that was said."""
    return {run: f"{record.until:%Y-%m-%d}" for run, record in _RECORDS.all(state)}


def changed_since(state: Path, place: Place, name: str, moment: datetime) -> str:
    """Return the newest run that changed a setting and was at it after a moment, "" where none is known."""
    return next((run for run, at, _ in _changes(state, place, name) if at >= moment), "")


def overwritten_by(state: Path, run: str, one: KeptSetting, own: Container[str]) -> str:
    """Return the newest run that left a setting with another value than those that a run itself saw, "" for none."""
    last = next(_changes(state, one.place, one.name), None)
    return last[0] if last is not None and last[0] != run and last[2].print not in own else ""


def _changes(state: Path, place: Place, name: str) -> Iterator[tuple[str, datetime, KeptSetting]]:
    """Yield who changed a setting, when it was last at one, and how it left this one; the newest first."""
    found = []
    for run, record in _RECORDS.all(state, damaged=True):
        mine = [one for one in record.settings if (one.place, one.name) == (place, name)]
        if mine:
            found.append((record.until - KEPT_FOR, run, mine[-1]))
    yield from ((run, at, one) for at, run, one in sorted(found, key=lambda each: each[:2], reverse=True))


def put_back_by(state: Path, run: str) -> str:
    """Return in words how a run's changes are put back, "" where it has kept nothing."""
    return _RECORDS.way_back(state, run, "playbook undo")


def keep(site: Site, run: str, one: KeptSetting, value: str | None) -> None:
    """Seal an old value and write it down, on disk before this returns; doing it again changes nothing."""
    expire(site.state, site.undo, site.clock.now())
    before = kept_settings(site.state, run)
    if any(each.sealed == one.sealed for each in before):
        return
    with suppress(KeyError):  # an earlier attempt sealed it, and was killed before it wrote that down
        site.undo.keep(json.dumps({"value": value}).encode(), one.sealed)
    until = site.clock.now() + KEPT_FOR
    _RECORDS.write(site.state, run, _Kept(until, (*before, one)))


def old_value(undo: Undo, sealed: str) -> str | None:
    """Return a sealed value, None for one that was not set; WorkFailed where it is gone or damaged."""
    try:
        value = json.loads(undo.fetch(sealed))["value"]
    except (NotKept, ValueError, KeyError, TypeError, RecursionError) as failure:
        became = "is not kept any more" if isinstance(failure, NotKept) else "is kept, but damaged"
        raise WorkFailed(f"the old value {became}", hint="take it from a snapshot: `maint restore config`") from None
    return value if isinstance(value, str) else None


def spans(settings: Sequence[KeptSetting]) -> Iterator[KeptSetting]:
    """Yield each setting once, the last changed first: with its oldest value and its newest print."""
    newest: dict[tuple[Place, str], KeptSetting] = {}
    for one in settings:
        first = newest.get((one.place, one.name), one)
        newest[one.place, one.name] = replace(first, after=one.after, print=one.print)
    yield from reversed(newest.values())
