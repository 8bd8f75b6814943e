"""What a run seals goes to the shared state in several pieces: where that is cut, no machine loses what it knew."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from maint.adapters.stores.local import LocalStore
from maint.engine import past_runs
from maint.errors import Locked, StoreFailed
from maint.steps.registry import STEPS
from tests.engine.conftest import Bench, Reading
from tests.engine.test_shared_kills import begun, ended, prepare
from tests.engine.test_shared_state import HEAD, learn, machine, shared_runs, take_up
from tests.forked import FORKED

SEALED = 20  # what one step seals: three pieces
ROW = re.compile(r"prod/runs/[^/]+/(\d{8})")


def step(name: str, kind: str, more: str = "") -> str:
    return f"  - {{name: {name}, do: try.{kind}, with: {{target: {name}{more}}}}}\n"


BOOK = HEAD + "steps:\n" + step("s", "seal") + step("a", "change") + step("t", "seal") + step("b", "change")
PIECES = 6  # and more: three before each change


class Sealing(Reading):
    """Seals as much as needs three pieces, and changes a record of the run."""

    kind = "try.seal"

    def apply(self, action, site, work):
        """Seal, note the names, write the record."""
        work.note("kept", [site.undo.keep(os.urandom(100)) for _ in range(SEALED)])
        record = site.state / "recreate" / "one.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text(action.target)
        return (yield from super().apply(action, site, work))


class Breaking(LocalStore):
    """A store that writes no piece from a number on: it fails, or whoever writes is killed."""

    def __init__(self, root: Path, at: int, how: str) -> None:
        super().__init__(root)
        self.at, self.how = at, how

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Write a file, unless it is such a piece."""
        row = ROW.fullmatch(name)
        if row and int(row[1]) >= self.at:
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise StoreFailed(f"cannot write {name}: no room")
        with super().create(name) as file:
            yield file


def work(folder: Path, at: int, how: str) -> None:
    """Be a machine whose store breaks, and that is killed with it."""
    begun(folder)
    STEPS[Sealing.kind] = Sealing()
    carry_out(folder, at, how)


def carry_out(folder: Path, at: int, how: str) -> None:
    """Carry the playbook out, or take its run up, on a machine whose store breaks; the failure is foreseen."""
    one = machine(folder, "one")
    one.site.__dict__["shared"] = Breaking(folder / "shared", at, how)
    past = past_runs.unfinished(one.site.state)
    with suppress(StoreFailed):
        take_up(one, past[0].id) if past else one.run(BOOK)
        raise SystemExit("it did not break")


def cut(folder: Path, at: int, how: str) -> str:
    """Let the first machine work until its store breaks; return the run."""
    if how == "killed":
        process = FORKED.Process(target=work, args=(folder, at, how))
        process.start()
        assert ended(process) == -signal.SIGKILL, (folder / "said").read_text()
    else:
        carry_out(folder, at, how)
    (path,) = (folder / "one/runs").glob("*.jsonl")
    return path.stem


def learnt(bench: Bench) -> list[str]:
    """Learn once the lease of whoever was killed has lapsed."""
    while True:
        with suppress(Locked):
            return [words for words in learn(bench) if words.startswith("run ")]
        time.sleep(0.05)


def known(bench: Bench) -> dict[str, bytes]:
    """Return the journals and records that a machine has."""
    places = [*bench.site.state.glob("runs/*.jsonl"), *bench.site.state.glob("recreate/*")]
    return {str(path.relative_to(bench.site.state)): path.read_bytes() for path in places}


@pytest.fixture(autouse=True)
def steps(monkeypatch):
    prepare(monkeypatch.setattr, monkeypatch.setitem)
    monkeypatch.setitem(STEPS, Sealing.kind, Sealing())


@pytest.mark.parametrize("how", ["failed", "killed"])
@pytest.mark.parametrize("at", range(1, PIECES + 1))
@pytest.mark.parametrize("again", [False, True])
def test_where_a_push_is_cut_no_machine_forgets_what_it_knew_and_the_run_comes_to_its_end(tmp_path, how, at, again):
    run = cut(tmp_path, at, how)
    one, other = machine(tmp_path, "one"), machine(tmp_path, "other")
    assert learnt(one) == []
    if again:
        cut(tmp_path, min(at + 1, PIECES), how)
    before = known(one)
    told = learnt(other)
    assert told or at <= 3, "the first push was whole"
    there = known(other)  # of what came after the last push that was whole, nothing
    assert list(there) == (list(before) if told else [])
    assert all(before[name].startswith(content) for name, content in there.items() if name.startswith("runs/"))
    assert learnt(one) == []
    assert known(one) == before
    taking = other if told else one
    take_up(taking, run)
    assert (past_runs.find(taking.site.state, run).state, shared_runs(one)) == ("done", [])
    did = [line for line in one.did if line in "ab"]
    assert (set(did) if told else did) == ({"a", "b"} if told else ["a", "b"])  # it was not told that `a` was done
    past = past_runs.find(taking.site.state, run)
    kept = [name for index in (0, 2) for name in past.record(index).notes["kept"]]
    assert len({*map(taking.site.undo.fetch, kept)}) == 2 * SEALED
    assert (taking.site.state / "recreate/one.json").read_text() == "t"
    assert learnt(machine(tmp_path, "third")) == []


@pytest.mark.parametrize("how", ["failed", "killed"])
@pytest.mark.parametrize("at", [2, 3])
def test_what_a_machine_left_that_was_gone_for_good_in_its_first_push_goes_with_the_next_run(tmp_path, how, at):
    cut(tmp_path, at, how)
    other = machine(tmp_path, "other")
    left = shared_runs(other)
    assert learnt(other) == []
    assert (len(left), shared_runs(other)) == (at - 1, [])
    assert past_runs.history(other.site.state) == []
