"""A signal or a limit that strikes where Python ignores what is raised still ends the command."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from maint.model.plan import Action
from maint.steps.flow import Pause
from maint.steps.step import Progress, done
from tests.steps.operator import environment, maint
from tests.steps.test_plugins import CONFIG

LONG = 600  # seconds; no more than an end for what never comes

# In a finalizer, in the callback of a weak reference, and within a library that takes every failure for its own.
LOSERS = {
    "finalizer": """
class Loser:
    def __del__(self):
        strike()
def lose():
    Loser()
""",
    "weak reference": """
import weakref
class Loser:
    pass
def lose():
    one = Loser()
    weakref.finalize(one, strike)
    del one
""",
}
SIGNAL = """
def strike():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)
"""
LIMIT = """
def strike():
    time.sleep(0.3)
"""
WORK = """
import os, signal, time
from maint.adapters.clock import SystemClock
from maint.cli.boundary import guarded
from maint.cli.screen import Screen
from maint.errors import WorkFailed
{strike}
{lose}
def work():
    with SystemClock().limit({limit}):
        lose()
        print("lost", flush=True)
        time.sleep({long})
raise SystemExit(guarded(lambda: Screen("table"), work))
"""


def run(text: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=environment(**env), check=False
    )


@pytest.mark.parametrize("loser", LOSERS)
def test_a_signal_that_python_ignores_is_raised_again(loser: str) -> None:
    ended = run(WORK.format(strike=SIGNAL, lose=LOSERS[loser], limit=LONG, long=LONG))
    assert (ended.returncode, ended.stdout) == (143, "lost\n")
    assert "ignored" not in ended.stderr


@pytest.mark.parametrize("loser", LOSERS)
def test_a_limit_that_python_ignores_is_raised_again(loser: str) -> None:
    ended = run(WORK.format(strike=LIMIT, lose=LOSERS[loser], limit=0.1, long=LONG))
    assert (ended.returncode, ended.stdout) == (1, "lost\n")
    assert "the limit of 0.1s has passed" in ended.stderr


def test_a_signal_that_comes_out_as_another_failure_ends_with_its_own_code() -> None:
    swallowed = """
def lose():
    try:
        strike()
    except Exception as error:
        raise WorkFailed("cannot encrypt", detail=[str(error)], hint="look") from None
"""
    ended = run(WORK.format(strike=SIGNAL, lose=swallowed, limit=LONG, long=LONG))
    assert (ended.returncode, "cannot encrypt" in ended.stderr) == (143, True)


# As one that comes between Python's last look and a wait: it is noted, and interrupts nothing.
JUST_BEFORE = """
import threading
def lose():
    def note():
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Thread(target=note).start()
"""
WITHOUT_A_LOOK = """
from collections import deque
from functools import partial
from operator import call
def lose():
    busy = partial(sum, range(30_000_000))  # for longer than the limit; Python looks for signals behind the last one
    deque(map(call, [busy, partial(time.sleep, 600)]))
"""


@pytest.mark.parametrize("limit", [None, LONG])
def test_a_signal_that_comes_just_before_a_wait_ends_it(limit: int | None) -> None:
    ended = run(WORK.format(strike="", lose=JUST_BEFORE, limit=limit, long=LONG))
    assert (ended.returncode, ended.stdout) == (143, "lost\n")


def test_a_limit_that_passes_just_before_a_wait_ends_it() -> None:
    ended = run(WORK.format(strike="", lose=WITHOUT_A_LOOK, limit=0.05, long=LONG))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the limit of 0.1s has passed" in ended.stderr


ANOTHER = """
def lose():
    failure = None
    try:
        strike()
    except Exception:
        failure = ValueError("a schema cannot be built")  # as pydantic's core, in Rust, says of what is raised in it
    if failure:
        raise failure
"""


@pytest.mark.parametrize(("strike", "limit", "code"), [(SIGNAL, LONG, 143), (LIMIT, 0.1, 1)])
def test_what_a_library_makes_of_a_signal_or_a_limit_is_no_bug(strike: str, limit: float, code: int) -> None:
    ended = run(WORK.format(strike=strike, lose=ANOTHER, limit=limit, long=LONG))
    assert (ended.returncode, "bug" in ended.stderr) == (code, False), ended.stderr
    assert ("the limit of 0.1s has passed" if code == 1 else "interrupted") in ended.stderr


def test_a_bug_of_a_library_is_one_where_no_limit_has_passed(tmp_path: Path) -> None:
    ended = run(WORK.format(strike="def strike(): 1 / 0\n", lose=ANOTHER, limit=LONG, long=LONG), TMPDIR=str(tmp_path))
    assert (ended.returncode, "this is a bug in maint: ValueError" in ended.stderr) == (70, True)


def test_a_run_whose_signal_was_swallowed_begins_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def swallowing(self: Pause, action: Action, site: object, work: object) -> Progress:
        yield "waiting"
        begun.append(action.name)
        with suppress(Exception):
            signal.raise_signal(signal.SIGTERM)
        return done("waited")

    monkeypatch.setattr(Pause, "apply", swallowing)
    (tmp_path / "config.yaml").write_text(CONFIG)
    book = tmp_path / "two.yaml"
    steps = "".join(f"  - {{name: {name}, do: pause, with: {{duration: 1s}}}}\n" for name in ("first", "second"))
    book.write_text(f"name: two\nsummary: X.\nsteps:\n{steps}")
    said = maint("playbook", "run", str(book), "--config", str(tmp_path / "config.yaml"))
    assert (said.code, begun) == (143, ["first"])


@pytest.mark.parametrize("signalled", [True, False])
def test_a_library_that_panics_keeps_nothing_from_being_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signalled: bool
) -> None:
    class Panic(BaseException):  # as that of pyo3
        pass

    begun: list[str] = []

    def panicking(self: Pause, action: Action, site: object, work: object) -> Progress:
        yield "waiting"
        begun.append(action.name)
        if action.name == "first":
            if signalled:
                with suppress(Exception):
                    signal.raise_signal(signal.SIGTERM)
            raise Panic
        return done("waited")

    monkeypatch.setattr(Pause, "apply", panicking)
    (tmp_path / "config.yaml").write_text(CONFIG)
    book = tmp_path / "two.yaml"
    step = "  - {{name: {}, do: pause, with: {{duration: 1s}}}}\n"
    book.write_text(f"name: two\nsummary: X.\nsteps:\n{step.format('first')}finally:\n{step.format('last')}")
    said = maint("playbook", "run", str(book), "--config", str(tmp_path / "config.yaml"))
    assert (said.code, begun) == (143 if signalled else 70, ["first", "last"]), said.err
    assert "Traceback" not in said.err


def test_a_signal_waits_until_what_panics_has_been_read_in() -> None:
    """Struck at each of many moments while the module that encrypts is imported, Python's own words never come."""
    program = """
import os, signal, sys
from maint.errors import Interrupted
import maint.adapters, maint.files, zstandard
def interrupt(number, frame):
    raise Interrupted(number)
signal.signal(signal.SIGALRM, interrupt)
for tries in range(1, 25):
    if (child := os.fork()) == 0:
        try:
            signal.setitimer(signal.ITIMER_REAL, tries * 0.0004)
            import maint.adapters.seal
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Exception as error:  # up to Python 3.11 what is raised while a class is made is the cause of another one
            sys.exit(3 if isinstance(error.__cause__ or error, Interrupted) else str(error))
        sys.exit()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended not in (0, 3, -signal.SIGALRM):
        sys.exit(f"{tries}: {ended}")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert (ended.returncode, "panic" in ended.stderr) == (0, False), ended.stderr


def test_a_command_whose_words_nobody_takes_is_ended_by_ctrl_c_and_says_nothing_of_python() -> None:
    """As with a terminal that Ctrl-S holds, or a pager that is not read on."""
    readable, writable = os.pipe()
    holds = fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, 4096)
    words = [sys.executable, "-m", "maint", "help", "checks"]
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=writable, stderr=writable, env=environment())
    os.close(writable)
    waiting = array.array("i", [0])
    while waiting[0] < holds and child.poll() is None:
        fcntl.ioctl(readable, termios.FIONREAD, waiting)
        time.sleep(0.01)
    assert child.poll() is None
    for _ in range(2):  # the first may end the work, whose last words wait in turn
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(5)
    code = child.poll()
    child.kill()
    with os.fdopen(readable, "rb") as rest:
        said = rest.read().decode()
    assert (code, "Interrupted" in said, "Traceback" in said) == (130, False, False), said[-400:]
