"""kill -9 at random moments of `backup rekey --prune-old`: nothing half is listed; done again it ends as if whole."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from maint.lab.create import SITE
from tests.campaigns.size import SEED, tries
from tests.campaigns.test_killed_backups import left_over, markers
from tests.campaigns.test_two_machines import STORES
from tests.cli.backup.test_rekey import change_recipient, changed, stored
from tests.steps.conftest import back_up

__all__ = ["changed"]

KILLS = tries(2, 60)
REKEY = ("backup", "rekey", "--all", "--prune-old", "--yes")
LONGEST = 0.6  # seconds from the first byte that is written to the end, on an idle machine


def until_it_writes(process: Any, store: Path) -> None:
    """Wait until it has begun to write into the store, or is over."""
    before = set(store.glob("2*"))
    while process.poll() is None and set(store.glob("2*")) == before:
        time.sleep(0.002)


@pytest.mark.timeout(120 * KILLS)
def test_a_rekey_that_is_killed_at_any_moment_is_done_again_and_loses_nothing(changed: Any) -> None:
    chance, store, struck = random.Random(SEED), changed.lab.folder / "backups", 0
    before = stored(changed, "backups")
    assert changed("backup", "hold", before[0], "--reason", "before the upgrade").code == 0
    for number in range(KILLS):
        process = changed.fork(*REKEY)
        until_it_writes(process, store / SITE)
        time.sleep(chance.uniform(0, LONGEST) if number else 0)  # the first one is sure to strike
        process.kill()
        process.communicate()
        struck += process.returncode == -signal.SIGKILL
        listed = changed("backup", "list", "-o", "json").json["snapshots"]
        assert [one for one in listed if one.get("problem")] == []
        assert len(listed) >= len(before)
    assert struck
    said = changed(*REKEY)
    assert said.code == 0, said.err
    after = changed("backup", "list", "-o", "json").json["snapshots"]
    assert len(after) == len(before) and {one["id"] for one in after}.isdisjoint(before)
    assert next(one["holds"] for one in sorted(after, key=lambda one: one["taken_at"]))
    assert stored(changed, "backups") == stored(changed, "second") == sorted(one["id"] for one in after)
    assert left_over(store) == left_over(changed.lab.folder / "second") == []
    for one in after:
        assert changed("backup", "verify", one["id"], "--level", "3").code == 0


@pytest.mark.parametrize("kind", ["sftp", "s3"])
@pytest.mark.timeout(120 * KILLS)
def test_a_rekey_of_a_far_store_that_is_killed_is_done_again_and_loses_nothing(
    loaded: Any, kind: str, request: pytest.FixtureRequest
) -> None:
    chance, config, folder = random.Random(f"{SEED} {kind}"), Path(loaded.config), loaded.lab.folder
    place = STORES[kind](folder, request)
    config.write_text(config.read_text().replace(f'store: "{folder}/backups"', place))
    back_up(loaded)
    change_recipient(loaded)
    before = list_of(loaded)
    assert len(before) == 1
    for number in range(tries(1, 30)):
        known = markers(loaded)
        process = loaded.fork(*REKEY)
        while process.poll() is None and not markers(loaded) - known:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, LONGEST) if number else 0)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL or number  # the first one is sure to strike
        assert len(list_of(loaded)) >= 1
    said = loaded(*REKEY)
    assert said.code == 0, said.err
    (after,) = list_of(loaded)
    assert after not in before
    assert stored(loaded, "second") == [after]
    assert loaded("backup", "verify", after, "--level", "3").code == 0
    assert [path.name for path in folder.rglob(".staging-*")] == []


def list_of(operator: Any) -> list[str]:
    """Return what is listed, every one of which must be whole."""
    found = operator("backup", "list", "-o", "json").json["snapshots"]
    assert [one for one in found if one.get("problem")] == []
    return [one["id"] for one in found]
