"""Clocks that jump by hours both ways, umask 0, a home that nobody can write to: no bug, nothing half, nothing open."""

import os
import random
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock
from tests.campaigns.size import size
from tests.steps.operator import Operator, environment

ROUNDS = size(4, 200)
SEED = int(os.environ.get("MAINT_CAMPAIGN_SEED", "20261122"))
FORESEEN = (0, 1, 5, 7)  # a snapshot from the future is refused; never 70


def test_a_clock_that_jumps_by_hours_at_any_reading_leaves_everything_whole(
    loaded: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, shift = random.Random(SEED), [timedelta()]
    loaded.lab.world.redaction = False

    def now(_: SystemClock) -> datetime:
        if chance.random() < 0.2:
            shift[0] = timedelta(hours=chance.uniform(-6, 6))
        return datetime.now(UTC) + shift[0]

    monkeypatch.setattr(SystemClock, "now", now)
    known = {one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]}
    for _ in range(ROUNDS):
        words = chance.choice([("create", "--yes"), ("verify",), ("list",), ("hold", max(known), "--reason", "x")])
        said = loaded("backup", *words)
        assert said.code in FORESEEN and "bug in maint" not in said.err, (words, said)
    monkeypatch.undo()
    left = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert known <= {one["id"] for one in left}
    for one in left:
        assert loaded("backup", "verify", one["id"], "--level", "1").code == 0
    assert not loaded.window


def test_under_umask_0_and_with_a_home_that_nobody_can_write_to_everything_stays_private(loaded: Operator) -> None:
    before = set(loaded.lab.folder.rglob("*"))
    process = loaded.start("backup", "create", "--yes", umask=0, env=environment(HOME="/proc/nobody"))
    _, err = process.communicate(timeout=600)
    assert process.returncode in (0, 7), err
    places = (loaded.state, loaded.lab.folder / "backups")
    made = [path for place in places for path in Path(place).rglob("*") if path not in before]
    assert made
    assert [str(path) for path in made if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077] == []
