"""What servers say cannot move the cursor, hide a line, or break the output."""

import json

import pytest

from maint.cli.screen import Screen, printable, table
from maint.errors import WorkFailed
from maint.model import secret

EVIL = "ba\u200bse\x1b[1A\x1b[2K\r\x9b2J\u202etxt.\ud800"


def test_what_can_be_shown_stays_and_everything_else_is_spelled_out() -> None:
    assert printable("Größe\t1\nzwei ✓") == "Größe\t1\nzwei ✓"
    assert printable(EVIL) == "ba\\u200bse\\x1b[1A\\x1b[2K\\x0d\\x9b2J\\u202etxt.\\ud800"


def test_a_value_with_a_line_end_or_a_tab_makes_no_row_of_its_own_in_a_table() -> None:
    shown = table(["NAME", "SCHEDULE"], [["etl", "0 0 * * *\nforged\t@daily"], ["next", "none"]])
    assert shown.splitlines() == ["NAME  SCHEDULE", "etl   0 0 * * *\\nforged\\t@daily", "next  none"]


@pytest.mark.parametrize("output", ["table", "json"])
def test_no_door_lets_a_control_character_through(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(output, verbose=True, color="always")
    screen.emit({"name": EVIL}, EVIL)
    screen.say(EVIL)
    screen.warn(EVIL)
    screen.progress(EVIL)
    screen.error(WorkFailed(EVIL, detail=[EVIL], hint=EVIL))
    told = capsys.readouterr()
    for ours in ("\x1b[31m", "\x1b[33m", "\x1b[0m"):
        told = type(told)(told.out, told.err.replace(ours, ""))
    assert not {"\x1b", "\r", "\x9b", "\u202e", "\u200b", "\ud800"} & set(told.out + told.err)
    if output == "json":
        assert json.loads(told.out)["name"] == EVIL


def test_a_failure_is_shown_without_the_secrets_that_somebody_quotes_in_it(monkeypatch, capsys):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know("sesame-canary")
    for output in ("table", "json"):
        said = ("said: sesame-canary", "one: sesame-canary", "look at sesame-canary")
        Screen(output).error(WorkFailed(said[0], detail=[said[1]], hint=said[2]))
    shown = capsys.readouterr().err
    assert ("sesame" in shown, shown.count("•••")) == (False, 6)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_log_cannot_drive_a_terminal_and_reaches_a_program_as_it_is(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    Screen("table").raw("one\x1b]0;title\x07two\n")
    assert capsys.readouterr().out == ("one\\x1b]0;title\\x07two\n" if terminal else "one\x1b]0;title\x07two\n")
