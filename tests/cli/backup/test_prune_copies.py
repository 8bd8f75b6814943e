"""Pruning where snapshots are copied to further stores."""

import pytest

from maint.lab.create import SITE
from tests.steps.conftest import back_up


@pytest.fixture
def copied(loaded):
    """An operator whose site keeps one backup in two stores, and who has two."""
    path = loaded.lab.folder / "config.yaml"
    more = "      keep: {last: 1}\n      minimum: 1\n      copies: [second]\n"
    path.write_text(path.read_text().replace("    backup:\n", f"    backup:\n{more}"))
    back_up(loaded)
    return loaded


def stored(operator, store):
    """Return the ids of the snapshots in one store."""
    return sorted(path.parent.name for path in (operator.lab.folder / store / SITE).glob("*/manifest.json"))


def test_a_copy_follows(copied):
    old, new = stored(copied, "backups")
    assert stored(copied, "second") == [old, new]
    assert copied("backup", "prune", "--yes").code == 0
    assert stored(copied, "backups") == stored(copied, "second") == [new]


def test_a_copy_that_is_down_keeps_its_snapshots_until_the_next_pruning(copied):
    old, new = stored(copied, "backups")
    folder = copied.lab.folder / "second"
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    assert copied("backup", "prune", "--yes").code == 7
    assert stored(copied, "backups") == [new]
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert stored(copied, "second") == [old, new]
    assert copied("backup", "prune", "--yes").code == 0
    assert stored(copied, "second") == [new]


def test_what_was_pruned_does_not_come_back_with_the_next_backup(copied):
    old, _ = stored(copied, "backups")
    assert copied("backup", "prune", "--yes").code == 0
    copied("backup", "create")
    assert old not in stored(copied, "backups") + stored(copied, "second")


def test_a_copy_follows_after_a_restore_from_it_that_was_given_up(copied):
    old, new = stored(copied, "backups")
    copied.lab.lose_database()
    copied.lab.break_("restore", "put-fails")
    assert copied.restore("--store", str(copied.lab.folder / "second"), "--snapshot", old).code == 1
    assert copied("playbook", "dismiss", copied.run_of(None)["id"], "--reason", "another way").code == 0
    said = copied("backup", "prune", "--yes")
    assert said.code == 0, said.err
    assert stored(copied, "backups") == [new]
    assert old not in stored(copied, "second")
