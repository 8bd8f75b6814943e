"""Words on stderr for programs: JSON lines, priorities for systemd, a line a minute at most of what only counts."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from maint.cli.app import app
from maint.cli.screen import Screen
from maint.errors import WorkFailed
from maint.model.plan import Action, Effect, Event, Happening, Outcome, Plan
from tests.steps.operator import maint

ACTION = Action(name="Take it", kind="snapshot.take", target="prod", effect=Effect.CHANGE, summary="take it")
PLAN = Plan("export", "prod", {}, (ACTION,), True)


def event(what: Happening, detail: str, outcome: Outcome | None = None) -> Event:
    return Event(datetime(2026, 1, 2, tzinfo=UTC), 0, what, detail, outcome)


def test_words_events_and_failures_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("json", log_format="json")
    screen.say("taking up run x")
    screen.event(PLAN, event(Happening.PROGRESSED, "4.0 MB sent"))
    screen.event(PLAN, event(Happening.FINISHED, "stored", Outcome.DONE))
    screen.warn("mind\nthis")
    screen.error(WorkFailed("it failed", detail=["why"], hint="mend it"))
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one["message"]) for one in said] == [
        ("info", "taking up run x"),
        ("info", "4.0 MB sent"),
        ("info", "stored"),
        ("warning", "mind\nthis"),
        ("error", "it failed"),
    ]
    assert said[2] | {"time": ""} == {
        "schema": "maint/1", "time": "", "level": "info", "message": "stored", "event": "finished", "step": 1,
        "steps": 1, "name": "Take it", "kind": "snapshot.take", "target": "prod", "outcome": "done", "partly": False,
    }  # fmt: skip
    assert said[2]["time"] == "2026-01-02T00:00:00.000Z"
    assert said[4]["error"] == {"message": "it failed", "detail": ["why"], "hint": "mend it", "exit": 1}


def test_another_format_is_wrong_usage() -> None:
    assert maint("version", "--log-format", "xml").code == 2


def test_under_systemd_each_line_has_its_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    facts = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{facts.st_dev}:{facts.st_ino}")
    screen = Screen(color="never")
    screen.say("one\ntwo")
    screen.say("no", failed=True)
    screen.warn("mind this")
    screen.error(WorkFailed("it failed", hint="mend it"))
    screen.event(PLAN, event(Happening.FINISHED, "gone", Outcome.FAILED))
    assert capfd.readouterr().err.splitlines() == [
        "<6>one", "<6>two", "<3>no", "<4>warning: mind this", "<3>error: it failed", "<3>hint: mend it",
        "<3>✗ [1/1] Take it: gone",
    ]  # fmt: skip
    for words in ("--nope", "No such option: --nope"), ("--site", "Option '--site' requires an argument."):
        with pytest.raises(SystemExit, match="2"):
            app(["backup", "list", words[0]])
        first, *more = capfd.readouterr().err.splitlines()
        assert first.startswith(f"<3>error: {words[1]}") and {line[:3] for line in more} == {"<3>"}
    programs = Screen(color="never", output="json")
    programs.warn("mind this")
    programs.error(WorkFailed("it failed", hint="mend it"))
    assert [line[:4] for line in capfd.readouterr().err.splitlines()] == ["<4>{", "<3>{"]
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")  # the journal of whoever started the shell, not of this stream
    Screen().say("plain")
    assert capfd.readouterr().err == "plain\n"


def test_what_only_counts_is_written_once_a_minute_and_what_is_new_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    screen = Screen()
    for words in (
        "4.1 MB of 9.0 MB",
        "5.2 MB of 9.0 MB",
        "2m 5s left",
        "59s left",
        "lost ecs-1",
        "lost ecs-2",
        "lost 10.0.0.1",
    ):
        screen.event(PLAN, event(Happening.PROGRESSED, words))
    screen.event(PLAN, event(Happening.PROGRESSED, "lost 10.0.0.2"))
    now[0] += 61
    screen.event(PLAN, event(Happening.PROGRESSED, "7.0 MB of 9.0 MB"))
    said = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "4.1 MB of 9.0 MB",
        "2m 5s left",
        "lost ecs-1",
        "lost ecs-2",
        "lost 10.0.0.1",
        "lost 10.0.0.2",
        "7.0 MB of 9.0 MB",
    ]


@pytest.mark.parametrize(("words", "environ"), [(["--color", "junk"], {}), ([], {"MAINT_COLOR": "junk"})])
def test_a_colour_that_is_no_choice_is_wrong_usage_with_the_choices(
    words: list[str], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        app(["playbook", "list", *words])
    assert ended.value.code == 2
    assert "one of auto, always, never" in capsys.readouterr().err
