"""Colours: on a terminal that can, unless somebody wants none; elsewhere only where somebody wants them."""

import os
import pty
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("given", "colored"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"MAINT_COLOR": "never"}, False),
        ({"NO_COLOR": "1", "MAINT_COLOR": "always"}, True),
    ],
)
def test_a_terminal_is_shown_colours_unless_somebody_wants_none(given: dict[str, str], colored: bool) -> None:
    plain = {key: value for key, value in environment().items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    shown = on_terminal(**{**plain, "TERM": "xterm", **given})
    assert (b"error" in shown, b"\x1b[" in shown) == (True, colored)


@pytest.mark.parametrize(
    ("given", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "0"}, False)]
)
def test_a_pipe_gets_colours_only_where_they_are_wanted(given: dict[str, str], colored: bool) -> None:
    plain = {key: value for key, value in environment().items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    ran = subprocess.run(FAILS, env={**plain, **given}, capture_output=True, check=False)
    assert (b"error" in ran.stderr, b"\x1b[" in ran.stderr) == (True, colored)
