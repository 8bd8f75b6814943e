"""Kept in the state folder: how each command of a site ended last, and a summary of its backups."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec

from maint.errors import PartlyDone
from maint.files import keep_record, kept_record, locked, make_folder, remove, replace
from maint.model.json import Json, as_json
from maint.model.notice import Kind
from maint.snapshots.catalogue import Entry
from maint.snapshots.prune import damage, newest_good, stored_bytes
from maint.snapshots.records import Drill

SCHEDULED = ("backup create", "backup prune", "backup verify", "backup drill")
FRESHNESS = "backup age"  # not a verb: whether the newest verified restorable backup is older than it may be
NOTICE = "notice "  # not a verb either, before the name of a notice: whether it arrived
_FOLDER = "outcomes"
_ENDS = "ends.json"
RESULTS = ("done", "partly", "failed")
_RESULT = {0: 0, PartlyDone.exit_code: 1}
_AGAIN = 86_400.0  # seconds after which something stale is told again
_BEYOND = 253_402_300_800.0  # seconds since 1970 from which on there are no more dates
SUMMARY = "summary.json"  # in a site's state folder


class VerbOutcome(msgspec.Struct, frozen=True):
    """How a verb ended last."""

    verb: str
    exit: int
    at: Annotated[float, msgspec.Meta(ge=0, lt=_BEYOND)]  # when it ended, seconds since 1970
    seconds: float = 0.0  # how long it took
    run: str = ""  # empty for what keeps no journal
    words: str = ""  # why, where the exit code is not 0
    moved: int = 0  # bytes that it read or wrote
    store: str = ""  # that the command alone named, where it failed for no other; "": it speaks of the site's own


def is_verb(name: str) -> bool:
    """Whether an outcome is a verb's own, and not how old the newest backup is or whether a notice arrived."""
    return name != FRESHNESS and not name.startswith(NOTICE)


def _place(state: Path, verb: str) -> Path:
    return state / _FOLDER / f"{quote(verb, safe='')}.json"


def keep(state: Path, outcome: VerbOutcome) -> None:
    """Keep how a verb ended, in place of how it ended before; raises OSError."""
    make_folder(state / _FOLDER)
    replace(_place(state, outcome.verb), msgspec.json.encode(outcome) + b"\n")
    if is_verb(outcome.verb):
        with locked(state / _FOLDER):  # two verbs may end at the same time
            counts = ends(state)
            of_verb, result = counts.setdefault(outcome.verb, {}), RESULTS[_RESULT.get(outcome.exit, 2)]
            counts[outcome.verb] = {**dict.fromkeys(RESULTS, 0), **of_verb, result: of_verb.get(result, 0) + 1}
            keep_record(state / _ENDS, counts)


def ends(state: Path) -> dict[str, dict[str, int]]:
    """Return how often each verb ended with each of `RESULTS`, since this state folder began to count."""
    return kept_record(state / _ENDS, dict[str, dict[str, int]]) or {}


def last(state: Path, verb: str) -> VerbOutcome | None:
    """Return how a verb ended last, None where that is not known."""
    return kept_record(_place(state, verb), VerbOutcome)


def last_outcomes(state: Path) -> Sequence[VerbOutcome]:
    """Return how each verb ended last, by name."""
    found = [kept_record(path, VerbOutcome) for path in sorted((state / _FOLDER).glob("*.json"))]
    return [one for one in found if one is not None]


def forget_run(state: Path, run: str) -> None:
    """Forget the outcome of a run that was given up: nothing is to be raised about it any more."""
    for one in last_outcomes(state):
        if one.run == run:
            remove(_place(state, one.verb))


def ended(before: VerbOutcome | None, now: VerbOutcome) -> Sequence[Kind]:
    """Return what an end may be told as, the most telling first."""
    if now.exit:
        return (Kind.FAILURE,)
    return (Kind.RECOVERED, Kind.SUCCESS) if before is not None and before.exit else (Kind.SUCCESS,)


def aged(before: VerbOutcome | None, now: VerbOutcome) -> Sequence[Kind]:
    """Return what the age of the newest backup is to be told as: going stale, still stale a day later, fresh again."""
    if not now.exit:
        return (Kind.RECOVERED,) if before is not None and before.exit else ()
    return (Kind.STALE,) if before is None or not before.exit or now.at - before.at >= _AGAIN else ()


class Summary(msgspec.Struct, frozen=True):
    """What was seen of a site's backups, and when; times as in all JSON, None where there is none."""

    seen: datetime
    snapshots: int
    restorable: int
    damaged: int
    bytes: int
    last_verified: datetime | None
    last_drill: datetime | None

    def to_json(self, now: datetime) -> dict[str, Json]:
        """Return it as JSON, with its age in seconds."""
        return {**as_json(self), "age": round((now - self.seen).total_seconds(), 3)}


def summary_of(known: Sequence[Entry], drill: Drill | None, now: datetime) -> Summary:
    """Return the summary of snapshots; `drill`: the last that passed."""
    newest = newest_good(known, now)
    return Summary(
        seen=now,
        snapshots=len(known),
        restorable=sum(one.offered for one in known),
        damaged=sum(damage(one) is not None for one in known),
        bytes=stored_bytes(known),
        last_verified=newest.taken_at if newest else None,
        last_drill=drill.at if drill else None,
    )
