"""What the answer of one site comes to, in a few words: for the summary of many."""

from collections import Counter
from collections.abc import Callable, Mapping

from maint.cli.boundary import EXIT_CODES
from maint.cli.estate.processes import Ended
from maint.model.formatting import show_count, show_duration
from maint.model.json import Json

Answer = Mapping[str, Json]
_STATES = ("fail", "error", "warn", "skip", "pass", "ok")  # the worst first
_MOST = 240  # characters of why a site failed


def in_words(one: Ended) -> str:
    """Return how a site ended: its failure and why, else what its answer holds, else what its exit code means."""
    if one.error is not None:
        detail = one.error.get("detail")
        words = "; ".join(map(str, detail)) if isinstance(detail, list) else ""
        words = ": ".join(filter(None, (str(one.error.get("message")), words)))
        return words if len(words) <= _MOST else f"{words[: _MOST - 1]}…"
    answer = one.result if isinstance(one.result, Mapping) else {}
    return next((words(answer) for key, words in _SAYS.items() if key in answer), meaning(one.exit))


def meaning(code: int) -> str:
    """Return what an exit code means, in short."""
    return EXIT_CODES[code].meaning.partition(":")[0] if code in EXIT_CODES else "ended by a signal"


def _items(answer: Answer, key: str) -> list[Answer]:
    value = answer.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _inside(answer: Answer, key: str) -> Answer:
    value = answer.get(key)
    return value if isinstance(value, Mapping) else {}


def _time(seconds: Json) -> str:
    return show_duration(seconds) if isinstance(seconds, int | float) else "?"


def _verification(answer: Answer) -> str:
    found = _inside(answer, "verification")
    return f"{found.get('snapshot')}: {found.get('result')}, level {found.get('depth')}"


def _drill(answer: Answer) -> str:
    found = _inside(answer, "drill")
    return f"{found.get('snapshot')}: {found.get('result')}, back in {_time(found.get('rto_seconds'))}"


def _actions(answer: Answer) -> str:
    told = [str(one["detail"]).splitlines()[0] for one in _items(answer, "actions") if one.get("detail")]
    return told[-1] if told else f"run {answer.get('run')}"


def _states(key: str) -> Callable[[Answer], str]:
    def count(answer: Answer) -> str:
        counts = Counter(str(one.get("state")).lower() for one in _items(answer, key))
        return ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state]) or "nothing was looked at"

    return count


def _snapshots(answer: Answer) -> str:
    found = _items(answer, "snapshots")
    if "plan" in answer:
        return f"{show_count(sum(one.get('keep') is False for one in found), 'snapshot')} would go"
    newest = answer.get("last_verified")
    ago = f"{_time(newest.get('age'))} ago" if isinstance(newest, Mapping) else "never"
    return f"{show_count(len(found), 'snapshot')}, last verified {ago}"


# A key of an answer → how such an answer is told.
_SAYS: dict[str, Callable[[Answer], str]] = {
    "verification": _verification,
    "drill": _drill,
    "actions": _actions,
    "checks": _states("checks"),
    "findings": _states("findings"),
    "snapshots": _snapshots,
    "release": lambda answer: f"{answer['release']}, redaction window {answer.get('redaction_window')}",
    "differences": lambda answer: show_count(len(_items(answer, "differences")), "difference"),
    "same": lambda answer: "nothing differs" if answer["same"] else "there are differences",
    "plan": lambda answer: f"plan {str(answer.get('digest'))[:12]}",
}
