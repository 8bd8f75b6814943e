"""Another machine prunes while a command reads: what is gone is told, and nothing is called damaged or undone."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.parts import DEPLOYMENT
from tests.cli.backup.test_rekey import change_recipient
from tests.steps.operator import Operator, environment

THEIRS = "state-two"


@pytest.fixture
def at() -> tuple[str, int]:
    """Of which file a snapshot goes as it is opened, and at which time of that."""
    return DEPLOYMENT, 1


@pytest.fixture
def pruned(twice: Operator, monkeypatch: pytest.MonkeyPatch, at: tuple[str, int]) -> Iterator[str]:
    """The id of a snapshot that another machine prunes as soon as this one opens a file of it."""
    change_recipient(twice)
    config, folder = Path(twice.config), twice.lab.folder
    policy = "      keep: {last: 1}\n      minimum: 1\n"
    config.write_text(config.read_text().replace("    backup:\n", f"    backup:\n{policy}"))
    oldest, _ = twice("backup", "list", "-o", "json").json["snapshots"]
    shutil.copytree(twice.state / "keys", folder / THEIRS / twice.state.name / "keys")
    opened, (file, times) = LocalStore.open, at
    waiting = [f"{oldest['id']}/{file}"] * times

    def late(store: LocalStore, name: str) -> Any:
        here = waiting and name.endswith(waiting[0]) and "second" not in store.location
        if here and waiting.pop() and not waiting:
            words = ("backup", "prune", "--yes", "--thaw", "no matter", "--allow-plain")
            with twice.fork(*words, env=environment(MAINT_STATE=str(folder / THEIRS))) as other:
                assert other.communicate() and other.returncode == 0
        return opened(store, name)

    monkeypatch.setattr(LocalStore, "open", late)
    yield oldest["id"]
    assert not waiting


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("verify --stale 0s", 0),
        ("verify {}", 5),
        ("drill {}", 5),
        ("list --rebuild", 0),
        ("rekey --all", 0),
        ("create --yes", 7),  # of a manager that redacts
    ],
)
def test_a_command_says_that_it_is_gone_and_does_the_rest(twice: Operator, pruned: str, line: str, code: int) -> None:
    said = twice("backup", *line.format(pruned).split())
    assert said.code == code, said.err
    assert f"snapshot {pruned} was removed from {twice.lab.folder}/backups while it was read" in said.err
    assert "missing" not in said.out + said.err
    listed = twice("backup", "list", "-o", "json").json["snapshots"]
    assert pruned not in [one["id"] for one in listed]
    assert twice("backup", "verify", "--stale", "0s").code == 0


@pytest.mark.parametrize("at", [(MANIFEST, 2)])  # listed, then read for what it holds
def test_one_that_goes_before_its_turn_leaves_the_others_their_depth(twice: Operator, pruned: str) -> None:
    said = twice("backup", "verify", "--stale", "0s")
    assert (said.code, "level 2 only" in said.err) == (0, False), said.err
    assert "verified: level 3 of 3" in said.out
