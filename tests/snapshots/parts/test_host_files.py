"""The manager's own files travel with its backup, and come back where the host lacks them."""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

CERTMANAGER = "var/lib/cloudera-scm-server/certmanager"
GUID = "/etc/cloudera-scm-server/uuid"


def action(said: Any, kind: str) -> Any:
    return next(one for one in said.json["actions"] if one["kind"] == kind)


def test_a_lost_certmanager_comes_back_before_the_restart_and_lost_options_without_the_line_of_the_window(
    lost: Any,
) -> None:
    options = lost.options.read_bytes()
    lost.options.unlink()
    folder = lost.root / CERTMANAGER
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert before
    shutil.rmtree(folder)
    said = lost.restore("-o", "json")
    assert said.code == 0, said.err
    assert action(said, "hostfiles.restore")["outcome"] == "done"
    after = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before
    assert lost.options.read_bytes() == options
    assert b"redaction" not in options


def test_what_is_on_the_host_stays_as_it_is_path_by_path(lost: Any) -> None:
    properties = lost.root / "etc/cloudera-scm-server/db.properties"
    properties.write_text("of the new database")
    path = f"/{CERTMANAGER}/private/.global_truststore.pw"
    kept, files = lost.root.joinpath(path[1:]).read_bytes(), lost.lab.machines[lost.lab.manager_host].files
    facts = files.entry(path)
    files.remove(path)
    said = lost.restore("-o", "json")
    assert said.code == 0, said.err
    assert properties.read_text() == "of the new database"
    assert lost.root.joinpath(path[1:]).read_bytes() == kept
    there = files.entry(path)
    assert (there.mode, there.user, there.group) == (facts.mode, facts.user, facts.group)
    assert action(said, "hostfiles.restore")["value"]["files"] == [path]


def test_a_missing_guid_refuses_before_anything_is_sent_and_says_how_to_get_it(lost: Any, tmp_path: Path) -> None:
    guid = (lost.root / GUID.lstrip("/")).read_bytes()
    (lost.root / GUID.lstrip("/")).unlink()
    lost.forget_requests()
    said = lost.restore()
    assert (said.code, lost.sent) == (5, [])
    assert "maint backup files" in said.err
    snapshot = lost("backup", "list", "-o", "json").json["snapshots"][0]["id"]
    target = tmp_path / "guid"
    assert lost("backup", "files", snapshot, "--extract", GUID, "--to", str(target)).code == 0
    assert target.read_bytes() == guid
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert lost("backup", "files", snapshot, "--extract", GUID, "--to", str(target)).code == 5
    assert lost("backup", "files", snapshot, "--extract", "/etc/shadow", "--to", str(tmp_path / "x")).code == 2
    assert GUID in lost("backup", "files", snapshot).out.splitlines()


def test_a_part_that_is_demanded_and_cannot_be_had_is_exit_7(loaded: Any) -> None:
    config = Path(loaded.config)
    manager = loaded.lab.manager_host
    loaded.lab.machines[manager].fault = "login-refused"
    assert loaded("backup", "create", "--yes", MAINT_BACKUP_ON_REDACTED="accept").code == 0
    text = config.read_text().replace("    backup:\n", "    backup:\n      parts:\n        manager_files: true\n")
    config.write_text(text)
    said = loaded("backup", "create", "--yes", MAINT_BACKUP_ON_REDACTED="accept")
    assert said.code == 7, (said, text)
    assert "manager-files.tar.zst.age" in said.err
    loaded.lab.machines[manager].fault = None
    assert loaded("backup", "create", "--yes", MAINT_BACKUP_ON_REDACTED="accept").code == 0


def test_the_kept_files_come_out_with_stock_tools_only(loaded: Any, tmp_path: Path) -> None:
    for tool in ("age", "zstd", "tar"):
        if shutil.which(tool) is None:
            assert not os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"), f"{tool} is not installed"
            pytest.skip(f"{tool} is not installed")
    part = next((loaded.lab.folder / "backups").rglob("manager-files.tar.zst.age"))
    words = (part.parent / "RESTORE.txt").read_text()
    (line,) = [one.strip() for one in words.splitlines() if "--skip-old-files" in one]
    out = tmp_path / "out"
    out.mkdir()
    command = line.replace("-C /", f"-C {out}").replace("-i identity", f"-i {loaded.lab.folder / 'identity'}")
    subprocess.run(["sh", "-c", command], cwd=part.parent, check=True)
    found = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert len(found) > 5
    changed = [path for path, content in found.items() if (loaded.root / path).read_bytes() != content]
    assert [str(path) for path in changed] == ["etc/default/cloudera-scm-server"]  # kept while the window was open
