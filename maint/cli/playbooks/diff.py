"""`maint playbook diff`: what differs between two saved plans."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.options import Flags, argument, option
from maint.errors import Differences, Invalid
from maint.files import Damaged, decoded, read_file
from maint.model.formatting import show_count, show_duration
from maint.model.json import Json, spelled
from maint.model.plan import Action, Plan

_HINT = "save one with `maint playbook plan NAME -o json > FILE`"


@command()
def diff(
    flags: Flags,
    before: Annotated[str, argument("A plan that `maint playbook plan NAME -o json` printed.")],
    after: Annotated[str, argument("Another one.")],
    exit_code: Annotated[bool, option("--exit-code", "End with 8 where they differ.")] = False,
) -> None:
    """Show which actions two saved plans do not share, and what differs in those that they do."""
    (first, one), (second, other) = _read(before), _read(after)
    found = list(_differences(first, second))
    if not found and one != other:  # a secret within a text: printed plans show none
        found = [_changed("plan", "digest", one, other)]
    lines = list(_lines(found)) or [_line(one) for one in found]
    same = f"both plans of {second.source} would do the same"
    flags.screen().emit({"differences": list(found)}, "\n".join(lines) or same)
    if found and exit_code:
        raise Differences(
            f"{show_count(len(lines), 'difference')} between the plans",
            hint="look at what is listed, and save a new plan where they should be the same",
        )


def _lines(found: Sequence[Mapping[str, Json]]) -> Iterator[str]:
    """Yield what people read of differences: each said once, and nothing that only a run needs."""
    summaries = {one["action"]: (str(one["before"]), str(one["after"])) for one in found if one["key"] == "summary"}
    told = set[Json]()
    for one in found:
        action, before, after = one["action"], one["before"], one["after"]
        if one["key"] == "arguments" and isinstance(before, Mapping) and isinstance(after, Mapping):
            for name in {**before, **after}:
                pair = (before.get(name), after.get(name))
                if pair[0] != pair[1] and not _tell(summaries.get(action, ("", "")), *pair):
                    told.add(action)
                    yield _line(_changed(str(action), name, *pair))
        elif one["key"] == "facts" and isinstance(before, Mapping) and isinstance(after, Mapping):
            names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            if action not in told:
                yield f"~ {action}: what was found when it was planned ({', '.join(names)})"
        elif one["key"] != "scope":
            told.add(action)
            yield _line(one)


def _tell(summaries: tuple[str, str], before: Json, after: Json) -> bool:
    """Whether the words of an action tell a change: the old value stands in the old ones alone, the new in the new."""
    old, new = summaries
    return _stands(before, old) and _stands(after, new) and not (_stands(before, new) or _stands(after, old))


def _stands(value: Json, summary: str) -> bool:
    """Whether a value, or each of several, stands in the words of an action as a word of its own."""
    if isinstance(value, list):
        return bool(value) and all(_stands(one, summary) for one in value)
    words = [value] if isinstance(value, str) and value else []
    if isinstance(value, int | float) and not isinstance(value, bool):
        words = [str(value), show_duration(value)]
    return any(re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", summary) for word in words)


def _line(one: Mapping[str, Json]) -> str:
    changed = f": {one['key']} {_shown(one['before'])} → {_shown(one['after'])}" if one["key"] else ""
    return f"{one['sign']} {one['action']}{changed}"


def _shown(value: Json) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(map(str, value)) or "none"
    return '""' if value == "" else spelled(value)


def _read(name: str) -> tuple[Plan, str]:
    """Return a saved plan and its digest."""
    try:
        document = decoded(read_file(Path(name)), dict[str, object])
        plan = document.get("plan", document)
        if not isinstance(plan, Mapping):
            raise TypeError
        actions = [{key: value for key, value in one.items() if key != "shown"} for one in plan["actions"]]
        found = Plan.from_json({**plan, "actions": actions})
        return found, str(document.get("digest", found.digest))
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}", hint=_HINT) from None
    except (Damaged, KeyError, TypeError, ValueError, AttributeError):
        raise Invalid(f"{name} is not a saved plan", hint=_HINT) from None


def _differences(before: Plan, after: Plan) -> Iterator[Mapping[str, Json]]:
    """Yield actions that only one plan has (`-`, `+`), and the keys in which shared ones differ (`~`)."""
    heads: dict[str, tuple[Json, Json]] = {"playbook": (before.source, after.source), "site": (before.site, after.site)}
    heads["limit"] = (list(before.limit), list(after.limit))
    for name in {**before.parameters, **after.parameters}:
        heads[f"parameter {name}"] = (before.parameters.get(name), after.parameters.get(name))
    yield from (_changed("plan", key, old, new) for key, (old, new) in heads.items() if old != new)
    left, right = _named(before.actions), _named(after.actions)
    for key in [*left, *(key for key in right if key not in left)]:
        if key not in right:
            yield _one("-", left[key])
        elif key not in left:
            yield _one("+", right[key])
        else:
            yield from _in_both(key, left[key], right[key])
    shared = [key for key in left if key in right]
    if shared != [key for key in right if key in left]:
        yield _changed("plan", "order of actions", " → ".join(shared), " → ".join(key for key in right if key in left))


def _named(actions: Sequence[Action]) -> dict[str, Action]:
    """Return actions by kind and target, numbered where several have the same."""
    found: dict[str, Action] = {}
    for action in actions:
        name, number = f"{action.kind} {action.target}", 1
        while (key := name if number == 1 else f"{name} ({number})") in found:
            number += 1
        found[key] = action
    return found


def _in_both(name: str, before: Action, after: Action) -> Iterator[Mapping[str, Json]]:
    old, new = before.to_json(), after.to_json()
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield _changed(name, key, old.get(key), new.get(key))


def _one(sign: str, action: Action) -> Mapping[str, Json]:
    words = f"{action.effect.name} {action.name}: {action.summary}"
    return {"sign": sign, "action": words, "key": "", "before": None, "after": None}


def _changed(action: str, key: str, before: Json, after: Json) -> Mapping[str, Json]:
    return {"sign": "~", "action": action, "key": key, "before": before, "after": after}
