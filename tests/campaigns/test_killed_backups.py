"""kill -9 at random moments of `backup create`: a reader sees the old state or the new, and the next run cleans up."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.size import SEED, size, tries
from tests.forked import Command

KILLS = tries(8, 500)
CREATE = ("backup", "create")
TAKEN = (0, 7)  # restorable, or audit-only where the server redacts


def listed(operator: Any) -> list[str]:
    """Return what a reader sees, every one of which must be whole."""
    found = operator("backup", "list", "-o", "json").json["snapshots"]
    assert [one for one in found if one.get("problem")] == []
    return [one["id"] for one in found]


def whole(operator: Any, snapshot: str) -> bool:
    return bool(operator("backup", "verify", snapshot, "--level", "1").code == 0)


def left_over(store: Path) -> list[str]:
    folders = [path for path in store.glob("*/*") if path.is_dir() and path.name not in ("records", "objects")]
    half = [path.name for path in folders if any(path.iterdir()) and not (path / "manifest.json").exists()]
    return half + [path.name for path in store.rglob(".staging-*")]


def markers(operator: Any) -> set[str]:
    """Return which snapshots are noted as begun."""
    return {path.name for path in (operator.state / "begun").glob("*")}


def wait_for_the_first_byte(operator: Any, process: Command, before: set[str]) -> None:
    """Wait until a run begins to write into the store, or is over."""
    while process.poll() is None and not markers(operator) - before:
        time.sleep(0.001)


def duration(operator: Any) -> float:
    """Return how many seconds an undisturbed run takes from its first byte to its end."""
    before = markers(operator)
    process = operator.fork(*CREATE)
    wait_for_the_first_byte(operator, process, before)
    begun = time.monotonic()
    process.communicate()
    assert process.returncode in TAKEN
    return time.monotonic() - begun


def kill_at(operator: Any, seconds: float) -> bool:
    """Start a run and kill it so many seconds after its first byte; return whether it still lived."""
    before = markers(operator)
    process = operator.fork(*CREATE)
    wait_for_the_first_byte(operator, process, before)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("part", range(size(1, 10)))
def test_a_killed_backup_leaves_the_old_state_or_the_new(loaded: Any, part: int) -> None:
    chance, store = random.Random(SEED + part), loaded.lab.folder / "backups"
    limit, struck, torn = duration(loaded), 0, 0
    for _ in range(-(-KILLS // size(1, 10))):
        before = listed(loaded)
        struck += kill_at(loaded, limit * chance.random())
        torn += bool(left_over(store) or markers(loaded))
        after = listed(loaded)
        assert after[: len(before)] == before
        assert len(after) - len(before) in (0, 1)
        assert all(whole(loaded, snapshot) for snapshot in after[len(before) :])
    assert struck, "no kill came in time"
    assert torn, "no kill came while something was being written"
    assert loaded(*CREATE).code in TAKEN
    assert left_over(store) == []
    assert all(whole(loaded, snapshot) for snapshot in listed(loaded))
