"""A run waits for a person's word; who said it, when and why is kept."""

import os
import re
import threading
import time
from pathlib import Path

import pytest

from maint.config.paths import playbooks
from maint.engine import journal as journals
from maint.engine import past_runs
from maint.engine.load import Library, load
from maint.errors import Invalid, Refused, TimedOut, Unfinished
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.steps import flow as approval
from tests.engine.conftest import Bench, bench, site, steps
from tests.steps.conftest import FAST
from tests.steps.operator import SITE, Operator

__all__ = ["bench", "site", "steps"]
HEAD = "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: a}}\n"
ASK = "  - {name: Ask, do: approve, with: {question: 'go on?', within: %s}, register: word}\n"
BEHIND = "  - {name: B, do: try.change, with: {target: b}}\n"
BOOK = HEAD + ASK % "1h" + BEHIND


class Somebody:
    """A person at the terminal who types what they were given."""

    name = "ann@desk"

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.asked = ""

    def ask(self, question: str) -> None:
        self.asked = question

    def reply(self, wait: float) -> str | None:
        return self.lines.pop(0) if self.lines else None


class Gone(Somebody):
    """A person whose terminal is gone."""

    def reply(self, wait: float) -> str | None:
        return ""


def taken_up(bench: Bench) -> journals.RunState:
    return past_runs.history(bench.site.state)[-1]


def test_a_yes_on_the_terminal_lets_the_run_go_on_and_is_kept(bench: Bench) -> None:
    bench.site.person = person = Somebody(None, "y agreed by phone\n")
    bench.run(BOOK)
    assert bench.did == ["a", "b"]
    value = taken_up(bench).record(1).result
    assert value is not None and isinstance(value.value, dict)
    assert (value.value["by"], value.value["note"]) == ("ann@desk", "agreed by phone")
    assert "go on?" in person.asked


@pytest.mark.parametrize("line", ["n\n", "no way\n", "perhaps\n"])
def test_anything_else_is_a_no(bench: Bench, line: str) -> None:
    bench.site.person = Somebody(line)
    assert isinstance(bench.fails(BOOK), Refused)
    assert bench.did == ["a"]
    bench.site.person = Somebody("y\n")  # whoever resumes is asked again
    past = taken_up(bench)
    bench.run(past.plan, past=past)
    assert bench.did == ["a", "b"]


@pytest.mark.parametrize("person", [None, Gone()])
def test_without_a_terminal_the_run_stops_and_goes_on_once_somebody_said_yes(
    bench: Bench, person: Somebody | None
) -> None:
    bench.site.person = person
    error = bench.fails(BOOK)
    past = taken_up(bench)
    assert isinstance(error, Unfinished)
    assert past.state == "unfinished"
    assert any(f"maint playbook approve {past.id}" in line for line in past.to_do)
    assert isinstance(bench.fails(past.plan, past=past), Unfinished)  # nobody has answered yet
    past = taken_up(bench)
    token = str(past.record(1).notes["token"])
    yes = approval.Approval(True, "bob@host", bench.site.clock.now().isoformat(), "fine")
    approval.answer(bench.site.state, past.id, token, yes)
    bench.run(past.plan, past=past)
    assert bench.did == ["a", "b"]
    assert any(event.detail.startswith("approved by bob@host") for event in bench.events)


def test_an_answer_from_another_terminal_counts_while_this_one_waits(bench: Bench) -> None:
    bench.site.person = person = Somebody()

    def elsewhere() -> None:
        while not person.asked:
            pass
        past = taken_up(bench)
        yes = approval.Approval(True, "bob@host", bench.site.clock.now().isoformat())
        approval.answer(bench.site.state, past.id, str(past.record(1).notes["token"]), yes)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    bench.run(BOOK)
    thread.join()
    assert bench.did == ["a", "b"]


def test_nobody_answering_in_time_fails_and_names_the_question(bench: Bench) -> None:
    bench.site.person = Somebody()
    error = bench.fails(HEAD + ASK % "10ms" + BEHIND)
    assert isinstance(error, TimedOut)
    assert "go on?" in error.message
    assert bench.did == ["a"]


OPEN = "  - {name: O, do: window.open}\n"
CLOSE = "  - {name: C, do: window.close}\n"
START = "name: x\nsummary: X.\nsteps:\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (START + OPEN + ASK % "1h" + CLOSE, 5),
        (START + OPEN + ASK % "1h" + "finally:\n" + CLOSE, 5),
        (START + "  - {name: E, playbook: export-unredacted}\n" + ASK % "1h", 5),
        (START + OPEN + "finally:\n" + ASK % "1h" + CLOSE, 6),
    ],
)
def test_a_playbook_that_would_ask_amid_an_open_window_is_refused_when_it_is_read(text: str, line: int) -> None:
    with pytest.raises(Invalid, match=f"book.yaml:{line}:.*nobody is asked while the redaction window"):
        load(text, "book.yaml", Library(playbooks()))


def test_before_the_window_and_after_it_somebody_may_be_asked() -> None:
    load(START + ASK % "1h" + OPEN + CLOSE + ASK % "1h", "book.yaml", Library(playbooks()))


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator at a lab that is down: asking needs no manager."""
    lab = Lab(tmp_path_factory.mktemp("lab") / "lab", Options(switches=FAST))
    with lab:
        pass
    return Operator(lab)


@pytest.fixture
def book(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(START + ASK % "1h" + "  - {name: Sure, do: assert, with: {that: word.note == 'agreed'}}\n")
    return str(path)


def waiting(operator: Operator, book: str) -> str:
    said = operator("playbook", "run", book)
    assert said.code == 1, said.err
    run = str(operator.run_of(said)["id"])
    assert f"maint playbook approve {run}" in said.err
    assert f"maint playbook resume {run}" in said.err
    return run


def test_a_run_under_a_timer_is_approved_from_a_terminal_and_taken_up(operator: Operator, book: str) -> None:
    run = waiting(operator, book)
    assert operator("playbook", "approve", run, "--note", "agreed", "--dry-run").code == 0
    assert operator("playbook", "approve", run, "--note", "agreed").code == 0
    again = operator("playbook", "approve", run)
    assert (again.code, "was approved by" in again.err) == (5, True)
    said = operator("playbook", "resume", run)
    assert said.code == 0, said.err
    lines = [line for line in operator.journal() if line["what"] == "outcome" and line["value"]]
    assert lines[0]["value"]["note"] == "agreed"
    assert lines[0]["value"]["by"].endswith(f"@{os.uname().nodename}")
    late = operator("playbook", "approve", run)
    assert (late.code, "waits for nobody's word" in late.err) == (5, True)


def test_without_a_run_those_that_wait_are_named_and_none_is_answered(operator: Operator, book: str) -> None:
    assert operator("playbook", "run", book).code == 1
    run = operator("playbook", "history", "-o", "json").json["runs"][-1]
    for words in (("approve",), ("dismiss", "--reason", "not wanted")):
        said = operator("playbook", *words)
        assert said.code == 2
        assert f"  {run['id']}  {run['playbook']}, unfinished\n" in said.err
    said = operator("playbook", "undo")
    assert (said.code, "there is none for which this could be done" in said.err) == (2, True)
    assert operator("playbook", "history", "-o", "json").json["runs"][-1]["state"] == "unfinished"


def test_a_run_that_was_killed_as_it_began_to_ask_is_listed_and_asks_when_it_is_taken_up(
    operator: Operator, book: str
) -> None:
    run = waiting(operator, book)
    path = operator.state / "runs" / f"{run}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    last = next(place for place, line in enumerate(lines) if '"token"' in line)
    path.write_text("".join(lines[: last + 1]))
    said = operator("playbook", "history")
    assert (said.code, run in said.out) == (0, True), said.err
    early = operator("playbook", "approve", run)
    assert (early.code, "waits for nobody's word" in early.err) == (5, True)
    assert operator("playbook", "resume", run).code == 1
    assert operator("playbook", "approve", run, "--note", "agreed").code == 0
    assert operator("playbook", "resume", run).code == 0


def test_of_several_sites_the_commands_that_answer_and_go_on_say_of_which(operator: Operator, book: str) -> None:
    path = Path(operator.config)
    alone = path.read_text()
    path.write_text(f"{alone.rstrip()}\n  other: {{manager: {{host: cm2, password: prompt}}}}\n")
    try:
        said = operator("playbook", "run", book, "--site", SITE)
        (run,) = re.findall(rf"`maint playbook approve (\S+) --note WORDS --site {SITE}` says yes", said.err)
        said = operator("playbook", "approve", run, "--note", "agreed", "--site", SITE)
        assert f"`maint playbook resume {run} --site {SITE}` goes on" in said.err
    finally:
        path.write_text(alone)
    assert operator("playbook", "resume", run).code == 0


def test_a_rejection_fails_the_run_and_yes_answers_nothing(operator: Operator, book: str) -> None:
    run = waiting(operator, book)
    assert operator("playbook", "approve", run, "--reject", "--note", "not tonight").code == 0
    said = operator("playbook", "resume", run, "--yes")
    assert (said.code, "not tonight" in said.err) == (5, True)
    said = operator("playbook", "resume", run, "--yes")
    assert (said.code, "waits for a person" in said.err) == (1, True)
    assert operator("playbook", "dismiss", run, "--reason", "tried").code == 0
    assert operator("playbook", "approve", run).code == 5
    assert operator("playbook", "approve", "2001").code == 2


def test_a_limit_that_no_calendar_has_is_refused_by_the_plan(bench: Bench) -> None:
    with pytest.raises(Invalid, match="at most 366d"):
        bench.plan(HEAD + ASK % "9999d")


@pytest.mark.parametrize("content", [b"{", b'{"yes": true, "by": "\xff"}'])
def test_an_answer_that_cannot_be_read_is_told_with_how_to_answer_anew(
    operator: Operator, book: str, content: bytes
) -> None:
    run = waiting(operator, book)
    assert operator("playbook", "approve", run, "--note", "agreed").code == 0
    (written,) = (operator.state / "runs").glob(f"{run}.approval-*")
    written.write_bytes(content)
    for words in (("playbook", "resume", run), ("playbook", "approve", run)):
        said = operator(*words)
        assert (said.code, "remove it, answer anew" in said.err) == (5, True), said.err
    written.unlink()
    assert operator("playbook", "approve", run, "--note", "agreed").code == 0
    assert operator("playbook", "resume", run).code == 0


@pytest.mark.parametrize("at", ["soon", "2026-11-22T10:00:00", ""])
def test_an_answer_that_does_not_say_when_is_damaged_and_told_with_a_way_out(bench: Bench, at: str) -> None:
    bench.site.person = None
    bench.fails(BOOK)
    past = taken_up(bench)
    token = str(past.record(1).notes["token"])
    approval.answer(bench.site.state, past.id, token, approval.Approval(True, "bob@host", at))
    refused = bench.fails(past.plan, past=past)
    assert isinstance(refused, Refused) and "remove it" in str(refused.hint)


def test_a_question_whose_time_is_over_is_not_answered(operator: Operator, tmp_path: Path) -> None:
    path = tmp_path / "brief.yaml"
    path.write_text(START + ASK % "10ms")
    run = waiting(operator, str(path))
    time.sleep(0.02)  # a quick machine answers within the 10 ms
    said = operator("playbook", "approve", run)
    assert (said.code, "too old to be answered" in said.err) == (5, True), said.err
    past = past_runs.find(operator.state, run)
    no = approval.Approval(False, "bob@host", past.started)
    approval.answer(operator.state, run, str(past.record(0).notes["token"]), no)
    for words in ((), ("--dry-run",)):
        said = operator("playbook", "approve", run, *words)
        assert (said.code, "was rejected by bob@host" in said.err) == (5, True), said.err
    assert operator("playbook", "dismiss", run, "--reason", "tried").code == 0


def test_an_answer_that_was_not_kept_is_not_called_given(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/r.approval-t").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match="is there, and is not an answer"):
        approval.answer(tmp_path, "r", "t", approval.Approval(True, "bob@host", "2026-11-23T10:00:00.000Z"))
