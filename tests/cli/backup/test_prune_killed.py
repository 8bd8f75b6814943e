"""A pruning killed at any moment shows whole snapshots only, and the next run ends it."""

import json
import os
import shutil
import signal
import time

import pytest

from maint.lab.create import SITE
from maint.lab.running import Lab
from tests.cli.conftest import only_the_manager
from tests.steps.conftest import back_up, copy
from tests.steps.operator import Operator


@pytest.fixture(scope="module")
def five(without_others, tmp_path_factory):
    """The folder of a lab, now down, that has five backups."""
    folder = copy(without_others, tmp_path_factory.mktemp("five") / "lab")
    with Lab(folder) as lab:
        operator = only_the_manager(Operator(lab))
        for _ in range(4):
            back_up(operator)
    return folder


@pytest.fixture
def full(make, five):
    """An operator whose site keeps one backup, and who has five."""
    operator = only_the_manager(make(template=five))
    path = operator.lab.folder / "config.yaml"
    more = "      keep: {last: 1}\n      minimum: 1\n"
    path.write_text(path.read_text().replace("    backup:\n", f"    backup:\n{more}"))
    return operator


def whole(store):
    """Return the ids of the snapshots in a store; each must have all its parts."""
    found = []
    for manifest in sorted(store.glob("*/manifest.json")):
        parts = [part["name"] for part in json.loads(manifest.read_text())["parts"]]
        assert [name for name in parts if not (manifest.parent / name).is_file()] == []
        found.append(manifest.parent.name)
    return found


def entries(store):
    """Return how many folders and files a store has; what goes while they are counted, counts or not."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(store))


RESUME, ANEW = ("playbook", "resume"), ("backup", "prune", "--yes")


@pytest.mark.parametrize(("files", "next_run"), [(1, RESUME), (9, RESUME), (9, ANEW), (17, ANEW)])
def test_a_killed_pruning_is_ended_by_the_next_run(full, files, next_run):
    store = full.lab.folder / "backups" / SITE
    before, newest = entries(store), whole(store)[-1]
    process = full.fork("backup", "prune", "--yes")
    while process.poll() is None and entries(store) > before - files:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert newest in whole(store)
    said = full(*next_run)
    assert said.code == 0, said.err
    assert whole(store) == [newest]
    left = {path.relative_to(store).parts[0] for path in store.rglob("*") if path.is_file()}
    assert left - {"records", "objects"} == {newest}


def test_a_pruning_that_is_taken_up_removes_nothing_from_another_store(full):
    config, store = full.lab.folder / "config.yaml", full.lab.folder / "backups"
    other, written = full.lab.folder / "moved", config.read_text()
    shutil.copytree(store, other)
    config.write_text(written + """    hooks: {before_run: [["/bin/sh", "-c", "kill -9 $PPID"]]}\n""")
    with full.fork("backup", "prune", "--yes") as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    config.write_text(written.replace(str(store), str(other)))
    said = full("playbook", "resume")
    assert said.code == 5 and f"this run prunes store {store}" in said.err, said.err
    assert len(whole(other / SITE)) == len(whole(store / SITE)) == 5
    config.write_text(written)
    assert full("playbook", "resume").code == 0
    assert (len(whole(other / SITE)), len(whole(store / SITE))) == (5, 1)
