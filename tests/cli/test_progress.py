"""Progress: on a real terminal a bar with bytes, rate and time left, and steps of all; elsewhere a line a minute."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from maint.cli.screen import Screen
from maint.model.plan import Action, Effect, Event, Happening, Outcome, Plan
from tests.steps.operator import environment

ACTIONS = tuple(
    Action(name=name, kind="snapshot.take", target="prod", effect=Effect.CHANGE, summary=name)
    for name in ("Take it", "Copy it")
)
PLAN = Plan("export", "prod", {}, ACTIONS, True)

# A run as the screen sees it, by a clock that goes at will.
RUN = """
import time
from maint.cli.screen import Screen
from maint.model.plan import Happening, Outcome
from tests.cli.test_progress import PLAN, event
now = [0.0]
time.monotonic = lambda: now[0]
screen = Screen(color=COLOR)
screen.event(PLAN, event(0, Happening.STARTED, "take it"))
screen.event(PLAN, event(0, Happening.FINISHED, "taken", Outcome.DONE))
screen.event(PLAN, event(1, Happening.STARTED, "copy it"))
for _ in range(4):
    screen.moved("copying the deployment", 1_000_000, 8_000_000)
    now[0] += 1.0
screen.moved("copying the deployment", 1_000_000, 8_000_000)
screen.moved("fetching", 5_000, None)
now[0] += 1.0
screen.moved("fetching", 5_000, None)
screen.event(PLAN, event(1, Happening.FINISHED, "copied", Outcome.DONE))
"""


def event(index: int, what: Happening, detail: str, outcome: Outcome | None = None) -> Event:
    return Event(datetime(2026, 1, 2, tzinfo=UTC), index, what, detail, outcome)


# Each program in a process of its own, forked from one that has imported what they need; each ends with a byte 0.
EACH = """
import os, sys, termios
import tests.cli.test_progress
for columns, program in {programs!r}:
    termios.tcsetwinsize(2, (24, columns))
    if not (child := os.fork()):
        exec(program)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    os.write(2, bytes(1))
"""


def on_a_terminal(*programs: tuple[int, str]) -> list[list[str]]:
    """Run programs whose stderr is a terminal of so many columns; return all that stood in the last line of each."""
    ours, theirs = pty.openpty()
    environ = {key: value for key, value in environment().items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    words = [sys.executable, "-c", EACH.format(programs=programs)]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        told = b""
        with suppress(OSError):  # how Linux says that nobody is at the other end any more
            while block := os.read(ours, 4096):
                told += block
        os.close(ours)
    assert process.returncode == 0, told.decode()
    *shown, _ = told.decode().split("\0")
    return [[line.rstrip("\r\n") for line in one.split("\r\x1b[2K") if line] for one in shown]


SAID = """
from maint.cli.screen import Screen
from maint.errors import WorkFailed
from maint.model.plan import Happening, Outcome
from tests.cli.test_progress import PLAN, event
screen = Screen(color=COLOR)
screen.event(PLAN, event(0, Happening.FINISHED, "it was taken and lies in the store of the site", Outcome.DONE))
screen.warn("a line of more than forty columns goes on below")
screen.error(WorkFailed("it failed", detail=["a reason of more than forty columns goes on"],
                        hint="then `maint playbook resume 20261127T225153.302Z-a902` goes on"))
screen.say("next:\\n  maint backup create --config /etc/maint/config.yaml --yes")
"""


@pytest.fixture(scope="module")
def shown() -> dict[str, list[str]]:
    """What programs have shown on a terminal."""
    programs = {
        "said": (40, SAID.replace("COLOR", "'never'")),
        "coloured": (40, SAID.replace("COLOR", "'always'")),
        "run": (100, RUN.replace("COLOR", "'never'")),
        **{f"narrow {columns}": (columns, RUN.replace("COLOR", "'always'")) for columns in (20, 40)},
    }
    return dict(zip(programs, on_a_terminal(*programs.values()), strict=True))


def test_what_is_said_on_a_terminal_is_broken_between_words_and_a_command_never(shown: dict[str, list[str]]) -> None:
    [said], [coloured] = shown["said"], shown["coloured"]
    assert said.splitlines() == [
        "✓ [1/2] Take it: it was taken and lies",
        "  in the store of the site",
        "warning: a line of more than forty",
        "  columns goes on below",
        "error: it failed",
        "  a reason of more than forty columns",
        "    goes on",
        "hint: then",
        "  `maint playbook resume 20261127T225153.302Z-a902`",
        "  goes on",
        "next:",
        "  maint backup create --config /etc/maint/config.yaml --yes",
    ]
    assert re.sub(r"\x1b\[\d+m", "", coloured) == said
    assert "\x1b[33mwarning: a line of more than forty\r\n  columns goes on below\x1b[0m" in coloured


def test_a_terminal_shows_steps_of_all_and_bytes_with_rate_and_time_left(shown: dict[str, list[str]]) -> None:
    assert shown["run"] == [
        "             [1/2] Take it …",
        "✓ [1/2] Take it: taken",
        "━━━━━━       [2/2] Copy it …",
        "━━━━━━                   2.0 MB of 8.0 MB, 2.0 MB/s, 3s left  [2/2] Copy it: copying the deployment",
        "━━━━━━━━━                3.0 MB of 8.0 MB, 1.5 MB/s, 3s left  [2/2] Copy it: copying the deployment",
        "━━━━━━━━━━━━             4.0 MB of 8.0 MB, 1.3 MB/s, 3s left  [2/2] Copy it: copying the deployment",
        "━━━━━━━━━━━━━━━          5.0 MB of 8.0 MB, 1.2 MB/s, 2s left  [2/2] Copy it: copying the deployment",
        "10.0 kB, 10.0 kB/s  [2/2] Copy it: fetching",
        "✓ [2/2] Copy it: copied",
    ]


@pytest.mark.parametrize("columns", [20, 40])
def test_a_bar_never_goes_beyond_a_narrow_terminal(columns: int, shown: dict[str, list[str]]) -> None:
    told = shown[f"narrow {columns}"]
    assert ("\x1b[36m━" in "".join(told)) is (columns > 30)
    passing = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in told if "✓" not in line]
    assert len(passing) == 7 and all(len(line) < columns for line in passing)


def test_without_a_terminal_what_moves_is_a_line_a_minute_or_an_event(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for screen in (Screen(), Screen(log_format="json")):
        screen.event(PLAN, event(0, Happening.STARTED, "take it"))
        for _ in range(13):
            screen.moved("storing", 1_000_000, 30_000_000)
            now[0] += 10.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "[1/2] Take it: storing: 7.0 MB of 30.0 MB, 100.0 kB/s, 3m 50s left",
        "[1/2] Take it: storing: 13.0 MB of 30.0 MB, 100.0 kB/s, 2m 50s left",
    ]
    events = [json.loads(line) for line in lines[2:]]
    assert [one["event"] for one in events] == ["started", "transfer", "transfer"]
    assert {key: events[1][key] for key in ("transfer", "bytes", "of", "bytes_per_second", "seconds_left")} == {
        "transfer": "storing", "bytes": 7_000_000, "of": 30_000_000, "bytes_per_second": 100_000, "seconds_left": 230.0,
    }  # fmt: skip
