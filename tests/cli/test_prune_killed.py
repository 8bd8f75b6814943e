"""A pruning killed at any moment shows whole snapshots only, and the next run ends it."""

import json
import signal
import time

import pytest

from maint.lab.running import SITE


@pytest.fixture
def full(loaded):
    """An operator whose site keeps one backup, and who has five."""
    path = loaded.lab.folder / "config.yaml"
    more = "      keep: {last: 1}\n      minimum: 1\n"
    path.write_text(path.read_text().replace("    backup:\n", f"    backup:\n{more}"))
    for _ in range(4):
        assert loaded("backup", "create", "--open-window", "--yes").code == 0
    return loaded


def whole(store):
    """Return the ids of the snapshots in a store; each must have all its parts."""
    found = []
    for manifest in sorted(store.glob("*/manifest.json")):
        parts = [part["name"] for part in json.loads(manifest.read_text())["parts"]]
        assert [name for name in parts if not (manifest.parent / name).is_file()] == []
        found.append(manifest.parent.name)
    return found


@pytest.mark.parametrize("next_run", [("playbook", "resume"), ("backup", "prune", "--yes")], ids=" ".join)
@pytest.mark.parametrize("files", [1, 9, 17])
def test_a_killed_pruning_is_ended_by_the_next_run(full, files, next_run):
    store = full.lab.folder / "backups" / SITE
    before, newest = len(list(store.rglob("*"))), whole(store)[-1]
    process = full.start("backup", "prune", "--yes")
    while process.poll() is None and len(list(store.rglob("*"))) > before - files:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert newest in whole(store)
    said = full(*next_run)
    assert said.code == 0, said.err
    assert whole(store) == [newest]
    left = {path.relative_to(store).parts[0] for path in store.rglob("*") if path.is_file()}
    assert left - {"records", "objects"} == {newest}
