"""A dump of the manager's database: asked for, sealed, its password in no command; its lack costs only itself."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from maint.errors import WorkFailed
from maint.model.manager import PROPERTIES
from maint.render import from_file
from maint.snapshots.extra_parts import DUMPED, HISTORY
from maint.snapshots.parts import DATABASE, from_bytes
from maint.snapshots.sources import read_whole
from tests.steps.operator import Operator

ACCEPT = {"MAINT_BACKUP_ON_REDACTED": "accept"}


def demand(operator: Operator) -> None:
    config = Path(operator.config)
    text = config.read_text().replace("    backup:\n", "    backup:\n      parts: {database: true}\n")
    config.write_text(text)


def newest(operator: Operator) -> Any:
    listed = operator("backup", "list", "-o", "json").json["snapshots"]
    found = max(listed, key=lambda one: str(one["id"]))
    return operator("backup", "show", found["id"], "-o", "json").json["snapshot"]


def password_of(operator: Operator) -> str:
    text = (operator.root / PROPERTIES.lstrip("/")).read_text()
    return text.partition("db.password=")[2].strip()


def left_behind(operator: Operator) -> list[Path]:
    return [path for path in (operator.root / "tmp").rglob("*") if path.is_file()]


def test_a_dump_is_taken_where_it_is_asked_for_sealed_verified_said_and_its_password_is_nowhere(
    loaded: Operator,
) -> None:
    assert loaded("backup", "create", "--yes", **ACCEPT).code == 0
    assert "database.sql" not in str(newest(loaded))
    demand(loaded)
    said = loaded("backup", "create", "--yes", **ACCEPT)
    assert said.code == 0, said.err
    shown = newest(loaded)
    assert DATABASE in [part["name"] for part in shown["parts"]]
    assert DUMPED in shown["uncovered"]
    assert HISTORY not in shown["uncovered"]
    folder = next((loaded.lab.folder / "backups").glob(f"*/{shown['id']}"))
    assert "psql -h HOST" in (folder / "RESTORE.txt").read_text()
    assert b"CREATE TABLE" not in (folder / DATABASE).read_bytes()
    assert loaded("backup", "verify", shown["id"], "--level", "2").code == 0
    sent = (loaded.lab.folder / "hosts" / loaded.lab.manager_host / "commands.jsonl").read_text()
    assert "pg_dump" in sent
    assert password_of(loaded) not in sent
    assert left_behind(loaded) == []


def test_a_dump_that_cannot_be_made_costs_the_dump_alone_and_is_said(loaded: Operator) -> None:
    demand(loaded)
    known = loaded.lab.machines[loaded.lab.manager_host].facts
    for facts, words in (
        ({"lacks": "pg_dump"}, "pg_dump is not installed"),
        ({"database_refuses": "FATAL:  too many connections"}, "too many connections"),
    ):
        known |= facts
        said = loaded("backup", "create", "--yes", **ACCEPT)
        assert (said.code, words in said.err) == (7, True), said.err
        shown = newest(loaded)
        assert DATABASE not in [part["name"] for part in shown["parts"]]
        assert any(one.startswith(f"{DATABASE}: ") and words in one for one in shown["uncovered"]), words
        assert HISTORY in shown["uncovered"]
        assert left_behind(loaded) == []
        for name in facts:
            del known[name]


def test_a_dump_that_breaks_off_is_no_dump() -> None:
    read_whole(from_bytes(b"--" * 9_000 + b"\n-- Dump completed on 2026-01-02\n"))
    with pytest.raises(WorkFailed, match="has no end"):
        read_whole(from_bytes(b"-- CREATE TABLE x;\n"))
    with pytest.raises(WorkFailed, match="login script"):
        read_whole(from_bytes(b"*** Welcome ***\n-- Dump completed\n"))


TOOL = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/words
for one in "$@"; do case $one in --defaults-extra-file=*) f=${{one#*=}};; esac; done
f=${{PGPASSFILE:-$f}}
echo "$f" > {folder}/path; stat -c %a "$f" > {folder}/mode; cat "$f" > {folder}/secret
"""
HARD = 'a:b\\"c $d'


@pytest.mark.parametrize(
    ("kind", "tool", "secret"),
    [
        ("postgresql", "pg_dump", '*:*:*:*:a\\:b\\\\"c $d\n'),
        ("mysql", "mysqldump", '[client]\npassword="a:b\\\\\\"c $d"\n'),
    ],
)
def test_the_password_goes_through_a_file_that_is_gone_at_the_end(
    tmp_path: Path, kind: str, tool: str, secret: str
) -> None:
    properties = tmp_path / "db.properties"
    written = HARD.replace("\\", "\\\\").replace(":", "\\:")
    lines = {"type": kind, "host": "db.example.internal\\:7432", "name": "scm", "user": "scm", "password": written}
    properties.write_text("".join(f"com.cloudera.cmf.db.{key}={value}\n" for key, value in lines.items()))
    program = tmp_path / tool
    program.write_text(TOOL.format(folder=tmp_path))
    program.chmod(0o755)
    script = from_file("database-dump.sh.j2", {"properties": str(properties)})
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    subprocess.run(["sh", "-c", script], env=environ, check=True, timeout=20)
    words = (tmp_path / "words").read_text()
    assert "--host=db.example.internal\n--port=7432\n" in words
    assert "c $d" not in words
    assert (tmp_path / "secret").read_text() == secret
    assert (tmp_path / "mode").read_text() == "600\n"
    assert not Path((tmp_path / "path").read_text().strip()).exists()
    assert stat.S_ISREG(properties.stat().st_mode)
