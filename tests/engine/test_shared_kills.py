"""A machine that is killed or frozen in the middle of a run: another one takes the run up, nothing is done twice."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from maint.engine import lease as leases
from maint.engine import past_runs
from maint.engine.lease import Terms
from maint.errors import Locked
from maint.steps.registry import STEPS
from maint.steps.step import done, unchanged
from tests.engine.conftest import TRIES, Bench, Changing
from tests.engine.test_shared_state import HEAD, learn, machine, take_up
from tests.forked import FORKED

BOOK = HEAD + "steps:\n" + "".join(f"  - {{name: {one}, do: try.commit, with: {{target: {one}}}}}\n" for one in "abc")
TERMS = Terms(lapses=0.5, ends=1.0, beat=0.1)
SLACK = 0.2  # a local folder tells its time by the nanosecond
ACT = 0.4  # seconds


class Committing(Changing):
    """Commits once: it looks whether that was done already, works for a while, then commits."""

    kind = "try.commit"

    def apply(self, action, site, work):
        """Write down who begins, and who commits."""
        log = site.state.parent / "did"
        yield "committing"
        if log.exists() and f"commit {action.target}\n" in log.read_text():
            return unchanged("committed already")
        _append(log, f"begin {action.target}\n")
        site.clock.sleep(ACT)
        _append(log, f"commit {action.target}\n")
        return done("committed")


def _append(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line)


def prepare(setattr_=setattr, setitem=lambda steps, kind, step: steps.__setitem__(kind, step)) -> None:
    """Let leases lapse soon, and know the steps."""
    setattr_(leases, "TERMS", TERMS)
    setattr_(leases, "_SLACK", SLACK)
    for step in (*TRIES.values(), Committing()):
        setitem(STEPS, step.kind, step)


def begun(folder: Path) -> None:
    """Be a machine of its own, which keeps what is wrong beside its state."""
    os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    prepare()


def work(folder: Path) -> None:
    """Carry the playbook out as the first machine."""
    begun(folder)
    Bench(machine(folder, "one").site).run(BOOK)


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseProcess]:
    """The first machine at work, in a process of its own that has begun its first act."""
    prepare(monkeypatch.setattr, monkeypatch.setitem)
    process = FORKED.Process(target=work, args=(tmp_path,))
    process.start()
    limit = time.monotonic() + 60
    while not log(tmp_path):
        assert process.is_alive() and time.monotonic() < limit
        time.sleep(0.01)
    yield process
    process.kill()
    process.join()


def ended(process: BaseProcess) -> int | None:
    """Wait for the end of a process, and return how it was."""
    process.join(60)
    return process.exitcode


def log(folder: Path) -> list[str]:
    path = folder / "did"
    return path.read_text().splitlines() if path.exists() else []


def commits(folder: Path) -> list[str]:
    return [line for line in log(folder) if line.startswith("commit")]


def ended_on(other: Bench) -> str:
    """Take the run up on the other machine and return its id."""
    (run,) = [path.stem for path in (other.site.state.parent / "one/runs").glob("*.jsonl")]
    told: list[str] = []
    while not told:
        with suppress(Locked):  # it has not lapsed yet
            told = learn(other)
        time.sleep(0.05)
    assert any(words.startswith("taking over the lease of") for words in told)
    take_up(other, run)
    assert past_runs.find(other.site.state, run).state == "done"
    return run


def test_a_run_whose_machine_was_killed_ends_on_another_and_nothing_is_committed_twice(first, tmp_path):
    time.sleep(random.uniform(0, 2 * ACT))
    first.kill()
    first.join()
    run = ended_on(machine(tmp_path, "other"))
    assert commits(tmp_path) == ["commit a", "commit b", "commit c"]
    assert learn(machine(tmp_path, "one")) == [f"run {run} was brought to its end by another machine"]


def test_a_machine_that_was_frozen_until_its_run_ended_elsewhere_does_nothing_further(first, tmp_path):
    time.sleep(random.uniform(0, 2 * ACT))
    os.kill(first.pid, signal.SIGSTOP)
    run = ended_on(machine(tmp_path, "other"))
    before = log(tmp_path)
    os.kill(first.pid, signal.SIGCONT)
    assert ended(first) == 1
    assert log(tmp_path) == before
    assert commits(tmp_path) == ["commit a", "commit b", "commit c"]
    assert learn(machine(tmp_path, "one")) == [f"run {run} was brought to its end by another machine"]


def test_a_machine_that_was_frozen_for_less_than_its_lease_holds_goes_on(first, tmp_path):
    os.kill(first.pid, signal.SIGSTOP)
    time.sleep(0.2)
    os.kill(first.pid, signal.SIGCONT)
    assert ended(first) == 0
    assert commits(tmp_path) == ["commit a", "commit b", "commit c"]
    assert [line for line in log(tmp_path) if line.startswith("begin")] == ["begin a", "begin b", "begin c"]
