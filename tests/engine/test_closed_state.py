"""A state folder, or one in it, that is closed to the account: told as that, and nothing that it holds is denied."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from maint import files
from maint.adapters.stores.local import LocalStore
from maint.cli.completion.names import remember
from maint.engine import last_command
from maint.engine.journal import journals
from maint.errors import Invalid, WorkFailed
from maint.snapshots.in_progress import unfinished
from tests.engine.conftest import Bench, site_in

ONE = "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: a}}\n"
NOW = datetime(2026, 1, 15, 3, 0, tzinfo=UTC)


@contextmanager
def closed(name: str, mode: int = 0) -> Iterator[Bench]:
    """A bench with one run, of whose folders one is then somebody else's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        bench = Bench(site_in(Path(place)))
        bench.run(ONE)
        folder = bench.site.state / name
        if os.geteuid() == 0:
            for path in [Path(place), *Path(place).rglob("*")]:
                os.chown(path, 65534, 65534)
            os.chown(folder, 0, 0)
        folder.chmod(mode)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            yield bench
        finally:
            os.seteuid(os.getuid())
            folder.chmod(0o700)


def test_runs_that_are_closed_to_the_account_are_not_said_to_be_none() -> None:
    with closed("runs") as bench, pytest.raises(Invalid, match="runs cannot be read: Permission denied"):
        journals(bench.site.state)


def test_a_run_that_cannot_write_where_runs_are_says_whose_account_can() -> None:
    refused = pytest.raises(WorkFailed, match="cannot be written: Permission denied")
    with closed("runs", 0o555) as bench, refused as failure:
        bench.run(ONE)
    assert "the account that owns the state folder" in str(failure.value.hint)


def test_an_immutable_folder_is_told_with_what_shows_that_and_not_with_another_account(tmp_path: Path) -> None:
    bench = Bench(site_in(tmp_path))
    bench.run(ONE)
    folders = [bench.site.state / "runs", tmp_path / "store", tmp_path / "plain"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    if subprocess.run(["chattr", "+i", *folders], check=False).returncode:
        pytest.skip("this account, or this file system, makes nothing immutable")
    try:
        with pytest.raises(WorkFailed, match=r"runs/.* cannot be written: Operation not permitted") as of_journal:
            bench.run(ONE)
        with pytest.raises(WorkFailed) as of_store, LocalStore(folders[1]).create("a") as file:
            file.write(b"x")
        with pytest.raises(WorkFailed, match="Operation not permitted") as of_file:
            files.replace(folders[2] / "a", b"x")
    finally:
        subprocess.run(["chattr", "-i", *folders], check=True)
    assert all("`lsattr` shows it immutable" in str(one.value.hint) for one in (of_journal, of_store, of_file))


def test_an_included_playbook_in_a_closed_folder_is_a_mistake_with_its_place_and_no_bug() -> None:
    with closed("runs") as bench:
        outer = f"name: x\nsummary: X.\nsteps:\n  - {{name: A, playbook: {bench.site.state}/runs/inner.yaml}}\n"
        with pytest.raises(Invalid, match=r"book\.yaml:4:.*inner\.yaml"):
            bench.plan(outer)


def test_notes_of_snapshots_that_are_closed_to_the_account_are_not_taken_for_none() -> None:
    with closed("runs") as bench:
        (bench.site.state / "begun").symlink_to("runs")
        with pytest.raises(Invalid, match="begun cannot be read: Permission denied"):
            unfinished(bench.site.state, "anywhere")


@pytest.mark.parametrize(
    "noted",
    [
        lambda state: last_command.note(state, "backup create", NOW),
        last_command.last,
        lambda state: remember(state, clusters=["base"]),
    ],
)
def test_what_is_only_remembered_keeps_nobody_from_working(noted: Callable[[Path], object]) -> None:
    with closed("") as bench:
        assert noted(bench.site.state / "inner") is None
