"""What can go wrong, by the words of the help pages' tables: each row that no other test provokes is provoked here."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from tests.steps.operator import Operator, maint

CONFIG = """\
state: /var/lib/maint
sites:
  prod:
    manager: {host: cm.example.internal, password: "file:/etc/maint/password"}
    backup: {store: /srv/backups, identity: "file:/etc/maint/identity"}
"""
COMPARE = "name: compare\nsummary: X.\nsteps:\n  - {name: Compare, do: deployment.compare}\n"


def test_a_server_that_lets_in_none_of_the_accounts_ends_with_4(lost: Operator) -> None:
    for name in ("password", "bootstrap-password"):
        (lost.lab.folder / name).write_text("not-the-password")
    said = lost("restore", "plan", "--manager-only")
    assert (said.code, "lets in none of the configured accounts" in said.err) == (4, True), said.err


def test_places_that_differ_from_the_snapshot_are_named(loaded: Operator, tmp_path: Path) -> None:
    (tmp_path / "compare.yaml").write_text(COMPARE)
    assert loaded("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes").code == 0
    said = loaded("playbook", "run", str(tmp_path / "compare.yaml"), "-o", "json")
    assert said.code == 1
    assert "the configuration differs from snapshot" in said.error["message"] and "in 1 place" in said.error["message"]
    assert any("dfs_replication" in line for line in said.error["detail"])


def test_an_export_that_does_not_hang_together_is_no_matter_of_redaction(loaded: Operator) -> None:
    with loaded.lab.world.lock:
        service = loaded.lab.world.deployment["clusters"][0]["services"][0]
        service["roles"].append(dict(service["roles"][0]))
    said = loaded("backup", "create", "--open-window", "--yes")
    assert said.code == 1
    assert "its secrets can be read, but the manager's data does not hang together" in said.err
    assert not loaded.window


def test_a_server_that_cannot_be_restarted_leaves_the_window_to_be_closed(loaded: Operator) -> None:
    unit = loaded.lab.machines[loaded.lab.manager_host].units["cloudera-scm-server"]
    restart, unit.start = unit.start, lambda: (_ for _ in ()).throw(OSError("no room"))  # type: ignore[method-assign]
    said = loaded("manager", "export", "--open-window", "--yes")
    unit.start = restart  # type: ignore[method-assign]
    assert said.code == 1
    assert "could not be restarted" in said.err and "--close-window" in said.err


def test_a_server_that_did_not_start_again_is_restarted_and_not_waited_for_when_the_run_is_taken_up(
    loaded: Operator, tmp_path: Path
) -> None:
    unit = loaded.lab.machines[loaded.lab.manager_host].units["cloudera-scm-server"]
    start, unit.start = unit.start, lambda: (_ for _ in ()).throw(OSError("no room"))  # type: ignore[method-assign]
    (tmp_path / "again.yaml").write_text(
        "name: again\nsummary: Restart.\nsteps:\n  - {name: Restart, do: server.restart}\n"
    )
    said = loaded("playbook", "run", str(tmp_path / "again.yaml"), "--yes")
    unit.start = start  # type: ignore[method-assign]
    assert (said.code, "could not be restarted" in said.err) == (1, True), said.err
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
    assert "was restarted already" not in said.err


def test_a_folder_of_units_that_belongs_to_another_names_the_ways_out() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder, config = Path(name) / "units", Path(name) / "maint.yaml"
        folder.mkdir(mode=0)
        Path(name).chmod(0o755)
        config.write_text(CONFIG)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            said = maint("schedule", "install", "--config", str(config), "--folder", str(folder), "--yes")
        finally:
            os.seteuid(os.getuid())
    assert said.code == 1, said.err
    assert "cannot be read: Permission denied" in said.err and "--user" in said.err


def test_a_place_for_the_truststore_password_that_nobody_may_look_at_is_told_and_no_bug() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        closed, config = Path(name) / "closed", Path(name) / "maint.yaml"
        closed.mkdir(mode=0)
        Path(name).chmod(0o755)
        config.write_text(CONFIG)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            said = maint(
                "manager", "truststore-password", "--file", f"{closed}/it", "--config", str(config), "--dry-run"
            )
        finally:
            os.seteuid(os.getuid())
    assert (said.code, "hand the truststore password to file" in said.out) == (0, True), said.err


def test_a_paused_job_that_is_run_by_hand_names_the_command_that_wakes_it(loaded: Operator) -> None:
    assert loaded("vc", "job", "pause", "--name", "nightly-pipeline", "--yes").code == 0
    said = loaded("vc", "job", "run", "--name", "nightly-pipeline", "--yes")
    assert (said.code, "`maint vc job unpause --name JOB`" in said.err) == (1, True), said.err


def test_resume_is_no_success_after_a_command_that_a_full_disk_let_write_nothing(
    loaded: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def write(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("maint.files.os", Full())  # no real disk is full at the wanted moment
        assert loaded("cluster", "stop", "base", "--yes").code == 1
    said = loaded("playbook", "resume")
    assert (said.code, "a later command ended before its run began" in said.err) == (5, True), said.err
    assert loaded("cluster", "stop", "base", "--yes").code == 0
    assert loaded("playbook", "resume").code == 0
