"""What servers say cannot move the cursor, hide a line, or break the output."""

import html
import json
import shlex
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


SPELLINGS: dict[str, Callable[[str], str]] = {
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "HTML": html.escape,
    "HTML with numbers": lambda text: "".join(
        one if one.isascii() and one.isalnum() else f"&#{ord(one)};" for one in text
    ),
    "a page that quotes a page": lambda text: html.escape(html.escape(text)),
    "an address": lambda text: quote(text, safe=""),
    "a path": quote,
    "a form": quote_plus,
    "an address in small letters": lambda text: quote(text.lower(), safe="").lower(),
    "an address in an address": lambda text: quote(quote(text, safe=""), safe=""),
    "a shell": shlex.quote,
    "a shell that traces": lambda text: "'" + text.replace("'", "'\\''") + "'",
    "Python": repr,
    "Python's bytes": lambda text: repr(text.encode()),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 of a line": lambda text: b64encode(f"{text}\n".encode()).decode(),
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
@given(special=st.text("&<>\"'\\/+%$ äß€😀=n#;x", min_size=1, max_size=6))
def test_a_secret_is_hidden_however_somebody_spells_it(spell, special):
    known = set(secret._KNOWN)
    said = f"sesam{special}canary"
    try:
        secret._KNOWN.clear()
        secret.know(said)
        shown = secret.scrub(f"50% of [{spell(said)}] & more: C:\\new")
    finally:
        secret._KNOWN.clear()
        secret._KNOWN.update(known)
    assert "•••" in shown and not {"sesam", "canary"} & {*shown.replace("[", " ").replace("]", " ").split()}
    assert shown.startswith("50% of [") and shown.endswith("] & more: C:\\new")


def test_what_only_looks_like_an_escape_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know("sesame-canary")
    words = "100%, C:\\temp\\new, a+b, &amp; %zz \\x4 &#99999999; \\ud83d it's"
    assert secret.scrub(words) == words
    assert secret.scrub(f"{words} sesame%2Dcanary {words}") == f"{words} ••• {words}"


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("said", ["canary\\", '"canary', '"canäry\\', '\\canary"', "canary\\\\"])
def test_what_is_json_is_json_still_where_a_secret_is_hidden_in_it(said, narrow, monkeypatch):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know(said)
    shown = secret.scrub(json.dumps({"password": said, "next": 1}, ensure_ascii=narrow))
    assert json.loads(shown) == {"password": "•••", "next": 1}


def test_a_secret_in_a_long_line_full_of_escapes_is_hidden_in_a_few_times_the_room_of_that_line(monkeypatch):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know("sesame&canary")
    line = json.dumps(['a "word" or more,\n'] * 4_000 + ["sesame%26canary"])
    tracemalloc.start()
    try:
        shown, most = secret.scrub(line), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown == line.replace("sesame%26canary", "•••")
    assert most < 40 * len(line)  # it was 157


@pytest.mark.parametrize("terminal", [True, False])
def test_a_log_cannot_drive_a_terminal_and_reaches_a_program_as_it_is(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    Screen("table").raw("one\x1b]0;title\x07two\n")
    assert capsys.readouterr().out == ("one\\x1b]0;title\\x07two\n" if terminal else "one\x1b]0;title\x07two\n")
