"""Pruning where the disk of the store or of the state folder is full: it frees what it can, or says what it needs."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from maint.lab.create import SITE
from tests.cli.backup.test_retention import ids, keep
from tests.steps.operator import Operator

ENOUGH = re.compile("1 MB and (two|a few) inodes free are enough")


@pytest.fixture
def keeping(twice: Operator) -> Operator:
    """An operator who has two backups, of which the policy keeps one."""
    keep(twice, "keep: {last: 1}", "minimum: 1")
    return twice


@pytest.fixture
def filling() -> Iterator[Callable[[Path], Path]]:
    """Puts a folder onto a full file system of its own, and returns what fills it."""
    mounted = []

    def fill(folder: Path) -> Path:
        aside = folder.rename(folder.with_name(f"{folder.name}-aside"))
        folder.mkdir(mode=0o700)
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(folder)]
        if subprocess.run(mount, check=False).returncode:
            pytest.skip("this account may not mount a file system")
        mounted.append(folder)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        filler = folder / "filler"
        with filler.open("wb", 0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return filler

    yield fill
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


def prune(operator: Operator) -> tuple[int, str]:
    said = operator("backup", "prune", "--yes")
    return said.code, said.err


@pytest.mark.parametrize("place", ["backups", "state"])
def test_a_pruning_on_a_full_disk_says_how_little_room_it_needs_and_that_is_enough(
    keeping: Operator,
    filling: Callable[[Path], Path],
    place: str,
) -> None:
    _, new = ids(keeping)
    filler = filling(keeping.lab.folder / place)
    code, err = prune(keeping)
    assert (code, "No space left on device" in err, bool(ENOUGH.search(err))) == (1, True, True), err
    with filler.open("rb+") as file:
        file.truncate(filler.stat().st_size - 1_000_000)
    code, err = prune(keeping)
    assert code == 0, err
    assert ids(keeping) == [new]


def test_a_pruning_on_a_full_disk_removes_first_what_a_killed_backup_left_there(
    keeping: Operator,
    filling: Callable[[Path], Path],
) -> None:
    _, new = ids(keeping)
    store = keeping.lab.folder / "backups"
    filler = filling(store)
    left = store / SITE / ".staging-0123456789abcdef"
    with filler.open("rb+") as file:
        file.truncate(filler.stat().st_size - 1_000_000)
    with left.open("wb", 0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    code, err = prune(keeping)
    assert code == 0, err
    assert ids(keeping) == [new]
    assert not left.exists()


def test_room_is_told_as_what_is_needed_only_where_the_store_is_full(
    keeping: Operator, filling: Callable[[Path], Path]
) -> None:
    folder = keeping.lab.folder / "backups"
    filling(folder).unlink()
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    code, err = prune(keeping)
    assert (code, "where the store is full: 1 MB and" in err) == (1, True), err
