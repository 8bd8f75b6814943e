"""kill -9 before and after any request, command on a host and write of a file of each command that acts, at random
instants too, and of what resumes it: the end is that of an undisturbed run, nothing is sent twice, nothing is left.

The calls of an undisturbed run are counted, and a child of this process dies at the n-th, or after a time. With
MAINT_CAMPAIGN set, 40 runs of each command are killed, or MAINT_CAMPAIGN_TRIES; MAINT_CAMPAIGN_SEED chooses others.
"""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.forks import KILLED, carried_out
from tests.campaigns.grounds import Template, confirmed, contents, ground_in
from tests.campaigns.size import FULL, SEED, tries
from tests.cli.test_dry_run import PLANS, TELLS
from tests.steps.operator import Operator, Said

# What writes without a run that could be taken up: it is carried out again.
WRITING = (
    "site report", "playbook schedule", "playbook report", "backup list", "backup verify", "backup prune",
    "backup heal", "backup rekey", "backup files", "schedule install", "host check", "config init",
    "vc resource download",
)  # fmt: skip
LINES = [
    line.replace("@KEPT@/license.txt", "@LAB@/license.txt")
    for line in [*PLANS, *(line for line in TELLS if line.startswith(WRITING))]
    if line.split()[1] != "plan" and "ACTIVE" not in line
]
TRIES = tries(1, 40)  # of each command, or of a few
CASES = LINES if FULL else random.Random(SEED).sample([line for line in LINES if not line.startswith(WRITING)], 1)
ENDED = {"done", "partly", "refused", "dismissed"}
# What a manager is to be told once; whether a restart or a refresh took place, nobody can ask it afterwards.
ONCE = re.compile(r"^PUT /api/v\d+/cm/deployment|/commands/(?!restart|refresh)")
ID = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]+")
NUMBER = re.compile(r"[0-9a-f]{6,}|\d{3,}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+")
LEFT = re.compile(r"/window\.json$|/begun/|/\.new-|/\.staging-")  # of a writer, a backup or a window that has not ended
UNKNOWN = re.compile(r"/root/proc/|/kept/.*\.new-")  # an old file is replaced by one that has a name for a moment


def without_times(value: Any) -> Any:
    """Return a value of JSON without what differs between any two runs."""
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in ("id", "alias")}
    if isinstance(value, list):
        return [without_times(one) for one in value]
    return ID.sub("ID", MOMENT.sub("MOMENT", value)) if isinstance(value, str) else value


def a_night_later(operator: Operator) -> None:
    """Let the timer take its backup, which clears away what killed writers have left an hour ago."""
    then = time.time() - 7200
    for path in contents(str(operator.lab.folder / "state"), *map(str, operator.lab.folder.glob("backups"))):
        if LEFT.search(path):
            os.utime(path, (then, then))
    said = operator("backup", "create", "--yes")
    assert said.code in (0, 7), said.err


def found(operator: Operator) -> dict[str, Any]:
    """Return what is there: in the manager, on the hosts, in the virtual cluster, in stores and state.

    Not what was sealed for undoing something: what a kill left of that has no name, and goes after its 30 days.
    """
    lab = operator.lab
    with lab.world.lock:
        there: dict[str, Any] = {"manager": json.dumps([lab.world.deployment, lab.world.license], default=str)}
        there["serves"] = [lab.world.tls, lab.world.redaction]
    root = str(lab.folder)
    there |= {
        NUMBER.sub("#", path.removeprefix(root)): held
        for path, held in contents(f"{root}/hosts", f"{root}/kept").items()
        if not UNKNOWN.search(path)
    }
    for what in ("job", "resource"):
        listed = operator("vc", what, "list", "-o", "json")
        there[what] = without_times(listed.json) if listed.code == 0 else listed.code
    names = [path.removeprefix(root) for path in contents(f"{root}/state", *map(str, lab.folder.glob("backups")))]
    there["left"] = sorted(name for name in names if LEFT.search(name))
    there["snapshots"] = sorted(ID.sub("ID", name) for name in names if name.endswith("/manifest.json"))
    return there


class Place:
    """Where a command is carried out again and again, each time in a lab of its own."""

    def __init__(self, template: Template, folder: Path, line: str) -> None:
        self.template, self.folder, self.line, self.number = template, folder, line, 0

    @contextmanager
    def ready(self) -> Iterator[tuple[Operator, list[str]]]:
        """Yield a lab, and the words of the command in it."""
        self.number += 1
        (self.folder / f"{self.number}").mkdir()
        with ground_in(self.template, self.folder / f"{self.number}/lab") as ground:
            line = ground.spelled(self.line, ground.operator.lab.folder / "kept")
            ground.operator.forget_requests()
            yield ground.operator, [*line.split(), "--yes", "--confirm", confirmed(self.line)]

    def undisturbed(self) -> tuple[int, tuple[int, float], dict[str, Any]]:
        """Return how the command ends, how many calls and seconds that takes, and what is there afterwards."""
        with self.ready() as (operator, words):
            begun = time.monotonic()
            said, calls = carried_out(operator, words, None, self.folder / "answer")
            took = time.monotonic() - begun
            a_night_later(operator)
            return said.code, (calls, took), found(operator)

    def killed(self, chance: random.Random, calls: int, took: float) -> tuple[list[float], Said, dict[str, Any]]:
        """Return where the command and what took it up were killed, what the last one said, and what is there."""
        with self.ready() as (operator, words):
            known, struck = {one["id"] for one in runs(operator)}, list[float]()
            kills, again = chance.choice((1, 1, 2, 5)), words
            while True:
                at = chance.choice((chance.randint(1, calls), chance.uniform(0, took))) if len(struck) < kills else None
                said, _ = carried_out(operator, again, at, self.folder / "answer")
                if said.code != KILLED:
                    break
                struck.append(at or 0)
                fresh = [one for one in runs(operator) if one["id"] not in known]
                if ended := [one["state"] for one in fresh if one["state"] in ("done", "partly")]:
                    said = Said(0 if ended[-1] == "done" else 7, "", "it was killed once it had ended")
                    break
                left = [one["id"] for one in fresh if one["state"] not in ENDED]
                again = ["playbook", "resume", left[-1], *words[-3:]] if left else words
            told = [line for line in operator.done if ONCE.search(line)]
            assert len(told) == len({*told}) or not struck, (self.line, struck, told)
            a_night_later(operator)
            return struck, said, found(operator)


def runs(operator: Operator) -> Any:
    return operator("playbook", "history", "-o", "json").json["runs"]


@pytest.mark.timeout(600 if not FULL else 0)
@pytest.mark.parametrize("line", CASES)
def test_a_command_killed_at_any_call_ends_once_it_is_taken_up_as_if_undisturbed(
    line: str, template: Template, tmp_path: Path
) -> None:
    place, chance = Place(template, tmp_path, line), random.Random(f"{SEED} {line}")
    code, span, wanted = place.undisturbed()
    _, _, other = place.undisturbed()
    same = {key for key in wanted if wanted[key] == other.get(key)}  # the rest holds times, keys, numbers
    for _ in range(TRIES):
        struck, said, there = place.killed(chance, *span)
        told = (line, span, struck, said)
        assert said.code == code or (struck and "is there already" in said.err), told  # the file of the first attempt
        assert there.keys() == wanted.keys(), (told, there.keys() ^ wanted.keys())
        differs = {key: (there[key], wanted[key]) for key in same if there[key] != wanted[key]}
        assert differs == {}, told
