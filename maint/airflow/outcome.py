"""What becomes of an Airflow task by the exit code of its command, and the words that say why."""

import json
from collections.abc import Iterable
from enum import Enum


class Outcome(Enum):
    """What becomes of a task."""

    DONE = "success"
    NEVER = "failed, and tried no more: another try would end the same way"
    PARTLY = "failed with what is left, and tried no more: what could be done is done"
    HELD = "waiting: another run holds the site; that takes no try"
    AGAIN = "tried again while tries are left; the next one goes on with the same run"


# Whatever is not named here is tried again: a code of the shell's, or a child that was killed (below zero).
_BY_EXIT = {
    0: Outcome.DONE,
    2: Outcome.NEVER,  # wrong usage
    3: Outcome.NEVER,  # config or playbook invalid
    5: Outcome.NEVER,  # refused
    6: Outcome.HELD,
    7: Outcome.PARTLY,
    8: Outcome.PARTLY,  # --exit-code: there are differences
    70: Outcome.NEVER,  # a bug in maint
    127: Outcome.NEVER,  # there is no such program
}


def outcome_of(code: int) -> Outcome:
    """Return what becomes of a task whose command ended with a code; below zero: by that signal."""
    return _BY_EXIT.get(code, Outcome.AGAIN)


def reason(code: int, lines: Iterable[str], result: object = None) -> str:
    """Return why a command failed: its error object, else what a check found broken, else its last line."""
    why = last = ""
    for line in lines:
        last = line.strip() or last
        try:
            error = json.loads(line)["error"]
            told = [error["message"], *error["detail"], *([f"hint: {error['hint']}"] if error["hint"] else [])]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        why = "; ".join(map(str, told))
    how = f"exit {code}" if code >= 0 else f"signal {-code}"
    return f"maint: {why or _broken(result) or last or 'it said nothing'} ({how})"


def _broken(result: object) -> str:
    found = result.get("findings") if isinstance(result, dict) else None
    try:
        failed = [one for one in found or () if one["state"] == "fail"]
        return "; ".join(f"{one['check']} ({', '.join(one['hosts']) or 'site'}): {one['observed']}" for one in failed)
    except (KeyError, TypeError):
        return ""


def told(line: str) -> tuple[str, bool]:
    """Return a line of standard error as the log has it, and whether it warns."""
    try:
        found = json.loads(line)
        if "warning" in found:
            return str(found["warning"]), True
        return str(found["error"]["message"]), True
    except (ValueError, KeyError, TypeError, RecursionError):
        return line.rstrip(), False
