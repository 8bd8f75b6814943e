"""What a failed backup takes back from a store that has fallen silent: for some seconds, and a sweep finds the rest."""

import time
from itertools import cycle
from typing import Any

import pytest

from maint import retry
from maint.adapters.clock import SystemClock
from maint.errors import DeadlinePassed, WorkFailed
from maint.snapshots import writer as writing
from maint.snapshots.capture import take
from maint.snapshots.in_progress import storing, unfinished
from maint.snapshots.parts import from_bytes, plain
from maint.snapshots.writer import SnapshotWriter, id_after

SNAPSHOT = "20261122T100000.000Z-0001"


@pytest.fixture
def silent(place: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A site whose store answers no removal."""
    monkeypatch.setattr(place, "clock", SystemClock())
    monkeypatch.setattr(type(place.store), "remove", lambda *_: time.sleep(600))
    return place


@pytest.mark.timeout(60)
def test_a_store_that_is_silent_holds_a_failed_backup_up_for_some_seconds_only(
    silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_LAST", 0.2)
    failed = pytest.raises(WorkFailed, match="why it failed")
    with failed, storing(silent), SnapshotWriter(silent, SNAPSHOT, []) as writer:
        writer.write("one", from_bytes(b"content"), plain)
        raise WorkFailed("why it failed")
    assert unfinished(silent.state, silent.store.location) == {SNAPSHOT}  # so that a sweep finds it


@pytest.mark.timeout(60)
def test_the_limit_of_the_command_passes_while_something_is_taken_back(silent: Any) -> None:
    with pytest.raises(DeadlinePassed), silent.clock.limit(0.2), SnapshotWriter(silent, SNAPSHOT, []) as writer:
        writer.write("one", from_bytes(b"content"), plain)
        raise WorkFailed("why it failed")


def test_a_snapshot_of_the_time_of_another_gets_the_next_free_id_behind_it(
    place: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = run(take(place)).snapshot
    time_, _, number = there.id.partition("-")
    behind = [f"{time_}-{n:04x}" for n in range(int(number, 16) + 1, 0x10000)][:3] or [f"{time_}-0000"]
    drawn = cycle([there.id, *reversed(behind), f"{time_}-0000"])
    monkeypatch.setattr(writing, "new_id", lambda _: next(drawn))
    assert id_after(place, there) == behind[0]
    (place.root / "prod" / behind[0]).mkdir()
    (place.root / "prod" / behind[0] / "RESTORE.txt").write_text("another machine is at work")
    assert id_after(place, there) == (behind[1] if len(behind) > 1 else f"{time_}-0000")
