"""Colours: on a terminal that can, unless somebody wants none; elsewhere only where somebody wants them."""

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from maint.cli.screen import Screen
from maint.errors import Refused
from tests.steps.operator import environment

FAILS = [sys.executable, "-m", "maint", "config", "show", "--config", "/nowhere.yaml"]


def on_terminal(**env: str) -> bytes:
    """Return what a command that fails shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    subprocess.run(FAILS, stdin=theirs, stdout=theirs, stderr=theirs, env=env, check=False)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # nobody writes any more
        pass
    os.close(ours)
    return shown


PLAIN = {key: value for key, value in environment().items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}


@pytest.mark.parametrize(("given", "colored"), [({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)])
def test_a_terminal_is_shown_colours_unless_somebody_wants_none(given: dict[str, str], colored: bool) -> None:
    shown = on_terminal(**{**PLAIN, "TERM": "xterm", **given})
    assert (b"error" in shown, b"\x1b[" in shown) == (True, colored)


def test_a_pipe_gets_colours_only_where_they_are_wanted() -> None:
    for given, colored in (({}, False), ({"FORCE_COLOR": "1"}, True)):
        ran = subprocess.run(FAILS, env={**PLAIN, "TERM": "xterm", **given}, capture_output=True, check=False)
        assert (b"error" in ran.stderr, b"\x1b[" in ran.stderr) == (True, colored), given


@pytest.mark.parametrize(
    ("given", "terminal", "colored"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"MAINT_COLOR": "never"}, True, False),
        ({"NO_COLOR": "1", "MAINT_COLOR": "always"}, True, True),
        ({}, False, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
    ],
)
def test_each_variable_counts_for_what_it_says(
    given: dict[str, str], terminal: bool, colored: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for name in ("NO_COLOR", "FORCE_COLOR", "MAINT_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **given}.items():
        monkeypatch.setenv(name, value)
    Screen().error(Refused("no"))
    assert ("\x1b[" in capsys.readouterr().err) == colored
