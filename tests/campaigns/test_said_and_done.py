"""What a plan says of each step is what its run does: every shipped playbook, in every state of the lab."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from maint.model.plan import Phase
from tests.campaigns.grounds import Template, confirmed, contents, ground_in
from tests.campaigns.size import FULL, SEED, tries
from tests.cli.test_dry_run import ECS, PLANS, Ground
from tests.steps.operator import Operator, Said

BOOKS = [
    line.removeprefix("playbook run ").replace("@KEPT@/license.txt", "@LAB@/license.txt")
    for line in PLANS
    if line.startswith("playbook run ")
]
NOTHING = ("nothing to do", "it is so already", "nothing to delete", "is on already")
# What leaves no trace by itself: it looks, waits, or gives back what others hold.
TRACELESS = {"window.close", "tls.switch", "cluster.start", "vc.find"}
SLACK = 0.05  # seconds by which what a busy machine notes down may lie beside its step
OWN = ("/state/lab/runs/", "/state/lab/reports/", "/state/lab/begun/")  # in which every run writes


def as_it_is(_operator: Operator, _line: str) -> None:
    """Nothing more happens."""


def done_already(operator: Operator, line: str) -> None:
    run(operator, line)


def half_done(operator: Operator, line: str) -> None:
    with operator.fork(
        "playbook", "run", *line.split(), "--yes", "--confirm", confirmed(f"playbook run {line}")
    ) as begun:
        before = {*(operator.state / "runs").glob("*.jsonl")}
        while begun.poll() is None:
            fresh = {*(operator.state / "runs").glob("*.jsonl")} - before
            if fresh and b'"outcome"' in next(iter(fresh)).read_bytes():
                begun.kill()
                break
        begun.communicate()


def gone_already(operator: Operator, _line: str) -> None:
    deployment = operator.lab.world.deployment
    with operator.lab.world.lock:
        deployment["clusters"] = [one for one in deployment["clusters"] if one["name"] not in ("base", ECS)]
        deployment["hostTemplates"] = {"items": []}
    for job in ("orders-ingest", "pi-estimate"):
        operator("vc", "job", "delete", "--name", job, "--yes", "--no-safety-net", "it goes")


def changed_by_others(operator: Operator, _line: str) -> None:
    setting = "setting set dfs_replication 7 --service hdfs"
    for words in (setting, "vc job create --name spare --application-file local:/a"):
        operator(*words.split(), "--yes")


def at_work_already(operator: Operator, _line: str) -> None:
    operator.lab.break_("", "command-never-ends")
    operator("cluster", "start", ECS, "--yes", "--timeout", "1s")


def broken(target: str, fault: str) -> Callable[[Operator, str], None]:
    """Return what sets a fault."""
    return lambda operator, _: operator.lab.break_(target, fault)


def unredacted(operator: Operator, _line: str) -> None:
    operator.lab.world.redaction = False


def lost(operator: Operator, _line: str) -> None:
    operator.lab.lose_database()


def hosts_down(operator: Operator, _line: str) -> None:
    for name in operator.lab.machines:
        operator.lab.break_(name, "unreachable")


STATES = {
    "as it is": as_it_is, "done already": done_already, "half done": half_done, "gone already": gone_already,
    "changed by others": changed_by_others, "at work already": at_work_already, "unredacted": unredacted, "lost": lost,
    "forbidden": broken("manager", "unauthorised"), "forbidden jobs": broken("virtual-cluster", "vc-forbidden"),
    "hosts down": hosts_down, "commands fail": broken("commands", "command-fails-in-child"),
}  # fmt: skip
EVERY = [(book, state) for book in BOOKS for state in STATES]
CASES = EVERY if FULL else random.Random(SEED).sample(EVERY, tries(6, len(EVERY)))


@pytest.fixture
def ground(template: Template, tmp_path: Path) -> Iterator[Ground]:
    with ground_in(template, tmp_path / "lab") as ground:
        yield ground


def run(operator: Operator, line: str) -> Said:
    """Carry a playbook out, whatever it asks."""
    return operator(
        "playbook", "run", *line.split(), "--yes", "--confirm", confirmed(f"playbook run {line}"), "--timeout", "20s"
    )


@pytest.mark.parametrize(("book", "state"), CASES, ids=[f"{book.split()[0]}-{state}" for book, state in CASES])
def test_a_run_does_what_its_plan_says_and_nothing_else(ground: Ground, tmp_path: Path, book: str, state: str) -> None:
    operator, line = ground.operator, ground.spelled(book, tmp_path)
    STATES[state](operator, line)
    runs = {*(operator.state / "runs").glob("*.jsonl")}
    operator.forget_requests()
    planned = operator("playbook", "plan", *line.split(), "--timeout", "20s", "-o", "json")
    assert operator.sent == []
    before = contents(operator.lab.folder)
    said = run(operator, line)
    told = (line, state, said)
    assert "bug in maint" not in said.err + planned.err, told
    begun = {*(operator.state / "runs").glob("*.jsonl")} - runs
    if not begun:  # refused, or nothing to do
        assert operator.done == [], told
        assert said.code in (0, 1, 2, 4, 5), told
        assert said.code or not planned.code, told
        return
    assert planned.code == 0, (told, planned)
    follow(operator, planned.json["plan"]["actions"], begun.pop(), said, before)


def follow(operator: Operator, actions: list[Any], journal: Path, said: Said, before: dict[str, bytes]) -> None:
    """Hold each step of a run that has ended against what its plan said."""
    lines = [json.loads(one) for one in journal.read_text().splitlines()]
    intents = {one["index"]: moment(one) for one in lines if one["what"] == "intent"}
    outcomes = {one["index"]: one for one in lines if one["what"] == "outcome"}
    ended = next(one["state"] for one in reversed(lines) if one["what"] == "ended")
    after = contents(operator.lab.folder)
    touched = [
        Path(path).stat().st_mtime for path, found in after.items() if before.get(path) != found and not own(path)
    ]
    vanished = any(path not in after and not own(path) for path in before)
    sent = [
        (moment(one), f"{one['method']} {one['path']}")
        for one in operator.asked
        if one["method"] in ("PUT", "POST", "DELETE") and 200 <= one["status"] < 300
    ]
    spans = {
        index: (began, moment(outcomes[index]) if index in outcomes else float("inf"))
        for index, began in intents.items()
    }
    for at, words in sent:  # each request belongs to a step that was to change something
        by = [actions[index] for index, (first, last) in spans.items() if first - SLACK <= at <= last + SLACK]
        assert any(one["effect"] != "READ" and not idle(one) for one in by), (words, by, said)
    for index, (first, last) in spans.items():
        action = actions[index]
        if action["effect"] == "READ" or idle(action) or outcomes.get(index, {}).get("outcome") != "done":
            continue
        traces = [words for at, words in sent if first - SLACK <= at <= last + SLACK]
        traces += [f"a file at {at}" for at in touched if first - SLACK <= at <= last + SLACK]
        assert traces or vanished or action["kind"] in TRACELESS, (action, outcomes[index], said)
    partly = any(one.get("partly") for one in outcomes.values())
    assert (said.code == 0) == (ended == "done" and not partly), (ended, said)
    if ended == "done":
        passed_over = [
            one for index, one in enumerate(actions) if index not in outcomes and one["phase"] == Phase.MAIN.value
        ]
        assert [one for one in passed_over if one["effect"] != "READ" and not idle(one)] == [], said


def idle(action: Any) -> bool:
    """Return whether a plan says that there is nothing to do."""
    return any(words in action["summary"] for words in NOTHING)


def own(path: str) -> bool:
    return any(one in path for one in OWN)


def moment(line: Any) -> float:
    return datetime.fromisoformat(line["time"]).astimezone(UTC).timestamp()
