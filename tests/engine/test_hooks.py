"""Programs of a site around its runs: real ones, and what the journal keeps of them."""

import json
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from maint.cli.boundary import guarded
from maint.cli.screen import Screen
from maint.config.notices import HOOKS, Hooks
from maint.engine import journal, past_runs, session
from maint.engine.session import RunSession
from maint.errors import DeadlinePassed, Interrupted, Refused, WorkFailed
from tests.engine.conftest import Bench, bench, site, steps

__all__ = ["bench", "site", "steps"]
BOOK = """\
name: x
summary: X.
steps:
  - {name: A, do: try.change, with: {target: a%s}}
"""
FAILING = ", fail: work"


def hooked(bench: Bench, folder: Path, **more: Any) -> Path:
    """Give the site a program before, after and on failure; return the file in which each writes what it was given."""
    seen = folder / "seen"
    writing = dict.fromkeys(HOOKS, (("/bin/sh", "-c", f"cat >> {seen}; echo >> {seen}"),))
    bench.site.settings = bench.site.settings.model_copy(update={"hooks": Hooks(**{**writing, **more})})
    return seen


def told(seen: Path) -> list[tuple[str, str, int]]:
    """Return what the programs were given: hook, state, exit code."""
    lines = [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []
    return [(line["hook"], line["state"], line["exit"]) for line in lines]


def kept(bench: Bench) -> list[tuple[str, str]]:
    """Return what the newest journal says of hooks: which, and what went wrong."""
    path = sorted((bench.site.state / "runs").glob("*.jsonl"))[-1]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["hook"], line["problem"]) for line in lines if line["what"] == "hook"]


def test_programs_run_before_and_after_and_stand_in_the_journal(bench: Bench, tmp_path: Path) -> None:
    seen = hooked(bench, tmp_path)
    bench.run(BOOK % "")
    assert told(seen) == [("before_run", "begun", 0), ("after_run", "done", 0)]
    assert kept(bench) == [("before_run", ""), ("after_run", "")]
    assert past_runs.history(bench.site.state)[-1].state == "done"


def test_a_failure_has_its_own_programs_first(bench: Bench, tmp_path: Path) -> None:
    seen = hooked(bench, tmp_path)
    assert bench.fails(BOOK % FAILING).message == "it failed: work"
    assert told(seen)[1:] == [("on_failure", "failed", 1), ("after_run", "failed", 1)]
    assert past_runs.history(bench.site.state)[-1].state == "failed"


def test_a_run_that_only_waits_for_a_person_is_told_from_one_that_failed(bench: Bench, tmp_path: Path) -> None:
    seen = hooked(bench, tmp_path)
    bench.fails(BOOK % FAILING)
    bench.fails(f"{BOOK % ''}  - {{name: B, do: approve, with: {{question: Go}}}}\n")
    ends = [json.loads(line) for line in seen.read_text().splitlines() if '"after_run"' in line]
    assert [(one["state"], one["exit"], one["waiting"]) for one in ends] == [("failed", 1, False), ("failed", 1, True)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("/bin/sh", "-c", "echo 'not on Fridays' >&2; exit 3"), "ended with status 3; not on Fridays"),
        (("/bin/sleep", "30"), "did not end within"),
        (("/nowhere/at-all",), "cannot be started"),
    ],
)
def test_a_program_before_that_fails_refuses_the_run_with_its_words(
    bench: Bench, tmp_path: Path, command: tuple[str, ...], words: str
) -> None:
    seen = hooked(bench, tmp_path, before_run=(command,), timeout=0.3)
    refused = bench.fails(BOOK % "")
    assert isinstance(refused, Refused)
    assert words in refused.message
    assert bench.did == []
    assert past_runs.history(bench.site.state)[-1].state == "refused"
    assert told(seen) == []


def test_a_private_key_that_a_program_prints_is_told_nowhere(bench: Bench, tmp_path: Path) -> None:
    key = "AGE-SECRET-KEY-10LWUNA4KAVFL4V985X8F6DEZXVX37XKAVL8QVMG5JFJMFYV5JPVSXUU9PR"
    hooked(bench, tmp_path, after_run=(("/bin/sh", "-c", f"printf AGE-SECRET-KEY-1 >&2; echo {key[16:]} >&2; exit 1"),))
    bench.run(BOOK % "")
    (_, (_, problem)) = kept(bench)
    assert "•••" in problem and key[16:] not in problem


def test_a_program_before_counts_for_the_limit_of_the_command(bench: Bench, tmp_path: Path) -> None:
    hooked(bench, tmp_path, before_run=(("/bin/sleep", "30"),))
    failed = bench.fails(BOOK % "", limit=0.3, limit_of=0.3)
    assert isinstance(failed, DeadlinePassed), failed
    assert bench.did == []
    assert past_runs.history(bench.site.state)[-1].state == "failed"  # as where it passes during a step


def test_programs_after_get_the_limit_of_the_command_once_more_and_no_longer(bench, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(session, "TIDYING", 0.5)
    hanging = ("/bin/sleep", "5")
    hooked(bench, tmp_path, on_failure=(hanging, ("/bin/true",)), after_run=(hanging,), timeout=10.0)
    begun = time.monotonic()
    bench.fails(BOOK % FAILING, limit=9, limit_of=0.4)
    assert time.monotonic() - begun < 4
    assert [hook for hook, problem in kept(bench) if "did not end within" in problem] == ["on_failure", "after_run"]
    assert ("on_failure", "/bin/true was not begun: those before it took all the time") in kept(bench)


def test_a_run_that_is_taken_up_and_refused_can_still_be_taken_up(bench: Bench, tmp_path: Path) -> None:
    bench.fails(BOOK % f"{FAILING}, count: 1")
    past = past_runs.history(bench.site.state)[-1]
    hooked(bench, tmp_path, before_run=(("/bin/false",),))
    assert bench.fails(past.plan, past=past).exit_code == 5
    past = past_runs.history(bench.site.state)[-1]
    assert past.resumable
    hooked(bench, tmp_path)
    bench.run(past.plan, past=past)
    assert past_runs.history(bench.site.state)[-1].state == "done"


def test_trouble_with_a_program_after_fails_nothing(bench: Bench, tmp_path: Path) -> None:
    hooked(bench, tmp_path, after_run=(("/bin/false",),))
    bench.run(BOOK % "")
    assert kept(bench)[-1] == ("after_run", "/bin/false ended with status 1")


def test_what_only_reads_and_takes_no_lock_runs_none(bench: Bench, tmp_path: Path) -> None:
    seen = hooked(bench, tmp_path)
    bench.run("name: x\nsummary: X.\nsteps:\n  - {name: A, do: pause, with: {duration: 10ms}}\n")
    assert told(seen) == []


def test_a_disk_that_is_full_hides_no_failure(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = hooked(bench, tmp_path)
    write = journal.Journal.write

    def full(one: journal.Journal, what: str, **fields: Any) -> None:
        if what == "hook" and fields["hook"] != "before_run":
            raise WorkFailed("the journal cannot be written", hint="make room")
        write(one, what, **fields)

    monkeypatch.setattr(journal.Journal, "write", full)
    assert bench.fails(BOOK % FAILING).message == "it failed: work"
    assert told(seen)[1:] == [("on_failure", "failed", 1), ("after_run", "failed", 1)]


def test_a_run_whose_first_program_cannot_be_noted_does_nothing(bench, tmp_path, monkeypatch) -> None:
    hooked(bench, tmp_path)
    write = journal.Journal.write

    def full(one: journal.Journal, what: str, **fields: Any) -> None:
        if what == "hook":
            raise WorkFailed("the journal cannot be written", hint="make room")
        write(one, what, **fields)

    monkeypatch.setattr(journal.Journal, "write", full)
    assert bench.fails(BOOK % "").message == "the journal cannot be written"
    assert bench.did == []


def test_a_signal_while_a_program_runs_after_the_run_ends_that_program_alone(bench, tmp_path, monkeypatch) -> None:
    hooked(bench, tmp_path, after_run=(("/bin/sh", "-c", "kill -TERM $PPID; sleep 30"), ("/bin/sh", "-c", "exit 3")))
    told = []

    def work() -> int:
        told.extend(RunSession(bench.site, bench.plan(BOOK % ""), {}).events())
        return 0

    assert guarded(lambda: Screen(quiet=True), work) in (0, 143)
    assert told[-1] == "`after_run`: interrupted"
    assert past_runs.history(bench.site.state)[-1].state == "done"


def test_a_signal_right_behind_the_first_line_of_a_run_ends_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def struck(*_: object) -> None:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(session, "works_on", struck)
    assert bench.fails(BOOK % "").exit_code == 143
    past = past_runs.history(bench.site.state)[-1]
    assert (past.state, past.resumable, bench.did) == ("interrupted", True, [])


def test_a_run_that_waits_for_an_answer_still_does_when_a_program_says_no(bench: Bench, tmp_path: Path) -> None:
    bench.fails(BOOK % f"{FAILING}, count: 1")
    past, now = past_runs.history(bench.site.state)[-1], bench.site.clock.now()
    with closing(journal.reopen(bench.site.state, past, now, {})) as run:
        asked = {"needs": ["applied"], "to_do": ["look at the server"]}
        run.write("ended", state="unfinished", time=now.isoformat(), detail="", **asked)
    past = past_runs.history(bench.site.state)[-1]
    hooked(bench, tmp_path, before_run=(("/bin/false",),))
    bench.fails(past.plan, past=past)
    past = past_runs.history(bench.site.state)[-1]
    assert (past.resumable, past.needs, past.to_do) == (True, ["applied"], ["look at the server"])


def test_what_was_answered_is_not_lost_when_a_program_says_no(bench: Bench, tmp_path: Path) -> None:
    bench.fails(BOOK % f"{FAILING}, count: 1")
    past, now = past_runs.history(bench.site.state)[-1], bench.site.clock.now()
    with closing(journal.reopen(bench.site.state, past, now, {})) as run:
        run.write("ended", state="failed", time=now.isoformat(), detail="", needs=["applied"])
    past = past_runs.history(bench.site.state)[-1]
    hooked(bench, tmp_path, before_run=(("/bin/false",),))
    session = RunSession(bench.site, past.plan, {}, past, answers={"": {"applied": True}})
    with pytest.raises(Refused):
        list(session.events())
    past = past_runs.history(bench.site.state)[-1]
    assert (past.needs, past.answers) == (["applied"], {"": {"applied": True}})


def test_what_a_kill_cut_off_among_the_steps_for_a_failure_is_finished_first_though_a_hook_said_no_in_between(
    bench: Bench, tmp_path: Path
) -> None:
    text = BOOK % FAILING + "on_failure:\n  - {name: O, do: try.change, with: {target: mended}}\n"
    bench.fails(text)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    before, intent, after = path.read_bytes().partition(b'{"what": "intent", "index": 1')
    path.write_bytes(before + intent + after.partition(b"\n")[0] + b"\n")
    hooked(bench, tmp_path, before_run=(("/bin/false",),))
    past = past_runs.find(bench.site.state, path.stem)
    assert isinstance(bench.fails(past.plan, past=past), Refused)
    hooked(bench, tmp_path)
    past = past_runs.find(bench.site.state, path.stem)
    assert "while it put things back" in bench.fails(past.plan, past=past).message
    assert bench.did == ["a", "mended", "mended"]
