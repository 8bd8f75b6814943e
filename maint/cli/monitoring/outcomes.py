"""How each verb of a site ended last, kept in the state folder: what came back, and what was told, is judged by it."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from maint.errors import PartlyDone
from maint.files import keep_record, kept_record, locked, make_folder, remove, replace
from maint.model.notice import Kind

SCHEDULED = ("backup create", "backup prune", "backup verify", "backup drill")
FRESHNESS = "backup age"  # not a verb: whether the newest verified restorable backup is older than it may be
NOTICE = "notice "  # not a verb either, before the name of a notice: whether it arrived
_FOLDER = "outcomes"
_ENDS = "ends.json"
RESULTS = ("done", "partly", "failed")
_RESULT = {0: 0, PartlyDone.exit_code: 1}
_AGAIN = 86_400.0  # seconds after which something stale is told again


class Outcome(msgspec.Struct, frozen=True):
    """How a verb ended last."""

    verb: str
    exit: int
    at: float  # when it ended, seconds since 1970
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


def keep(state: Path, outcome: Outcome) -> None:
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


def last(state: Path, verb: str) -> Outcome | None:
    """Return how a verb ended last, None where that is not known."""
    return kept_record(_place(state, verb), Outcome)


def kept(state: Path) -> Sequence[Outcome]:
    """Return how each verb ended last, by name."""
    found = [kept_record(path, Outcome) for path in sorted((state / _FOLDER).glob("*.json"))]
    return [one for one in found if one is not None]


def forget_run(state: Path, run: str) -> None:
    """Forget the outcome of a run that was given up: nothing is to be raised about it any more."""
    for one in kept(state):
        if one.run == run:
            remove(_place(state, one.verb))


def ended(before: Outcome | None, now: Outcome) -> Sequence[Kind]:
    """Return what an end may be told as, the most telling first."""
    if now.exit:
        return (Kind.FAILURE,)
    return (Kind.RECOVERED, Kind.SUCCESS) if before is not None and before.exit else (Kind.SUCCESS,)


def aged(before: Outcome | None, now: Outcome) -> Sequence[Kind]:
    """Return what the age of the newest backup is to be told as: going stale, still stale a day later, fresh again."""
    if not now.exit:
        return (Kind.RECOVERED,) if before is not None and before.exit else ()
    return (Kind.STALE,) if before is None or not before.exit or now.at - before.at >= _AGAIN else ()
