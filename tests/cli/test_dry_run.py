"""`--dry-run` does nothing: a spy on files, requests and processes over every command of the tree."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.cli.app import COMMANDS
from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator

SNAPSHOT, JOB, RESOURCE = "@SNAPSHOT@", ("--name", "orders-ingest"), ("--name", "etl-scripts")
# What each command takes beside its name; what is missing takes nothing.
WORDS: dict[str, tuple[str, ...]] = {
    "lab up": ("--folder", "@NEW@/lab"),
    "lab down": ("--folder", "@LAB@"),
    "lab status": ("--folder", "@LAB@"),
    "lab break": ("manager", "error-500", "--folder", "@LAB@"),
    "cluster stop": ("base",),
    "cluster start": ("base",),
    "cluster delete": ("base",),
    "service stop": ("hdfs",),
    "service start": ("hdfs",),
    "service restart": ("hdfs",),
    "service refresh": ("hdfs",),
    "setting list": ("--service", "hdfs"),
    "setting set": ("dfs_replication", "2", "--service", "hdfs"),
    "setting unset": ("hadoop_security_authorization", "--service", "hdfs"),
    "restore config": ("--service", "hdfs"),
    "playbook undo": ("@RUN@",),
    "manager export": ("--open-window",),
    "manager truststore-password": ("--file", "@NEW@/password"),
    "playbook show": ("probe",),
    "playbook plan": ("probe",),
    "playbook run": ("export",),
    "playbook dismiss": ("@RUN@", "--reason", "so"),
    "backup create": ("--open-window",),
    "backup list": ("--rebuild",),
    "backup show": (SNAPSHOT,),
    "backup hold": (SNAPSHOT, "--reason", "so"),
    "backup release": (SNAPSHOT, "--reason", "so"),
    "backup diff": (SNAPSHOT, SNAPSHOT),
    "backup heal": (SNAPSHOT, "--from", SNAPSHOT),
    "backup rekey": ("--all", "--prune-old"),
    "backup files": (SNAPSHOT, "--extract", "/etc/default/cloudera-scm-server", "--to", "@NEW@/file"),
    "schedule install": ("--form", "systemd", "--folder", "@NEW@/units"),
    "schedule remove": ("--folder", "@NEW@/units"),
    "schedule show": ("--folder", "@NEW@/units"),
    "host check": ("--check", "os.thp", "--save-facts", "@NEW@/facts", "--report", "@NEW@/report.html"),
    "site report": ("--to", "@NEW@/pages"),
    "vc init": ("@VC@",),
    "vc init-user": ("@VC@", "etl_user"),
    "vc job describe": JOB,
    "vc job create": ("--name", "another", "--application-file", "local:/opt/app.py"),
    "vc job update": (*JOB, "--cron-expression", "0 3 * * *"),
    "vc job run": JOB,
    "vc job pause": JOB,
    "vc job unpause": JOB,
    "vc job delete": JOB,
    "vc resource describe": RESOURCE,
    "vc resource create": ("--name", "another"),
    "vc resource upload": (*RESOURCE, "--local-path", "@LAB@/config.yaml"),
    "vc resource download": (*RESOURCE, "--resource-path", "Vacuum.py", "--local-path", "@NEW@/Vacuum.py"),
    "vc resource delete": RESOURCE,
    "vc resource delete-file": (*RESOURCE, "--resource-path", "Vacuum.py"),
    "vc run describe": ("--id", "1"),
    "vc run logs": ("--id", "1", "--type", "driver/stdout"),
    "vc run kill": ("--id", "1"),
    "vc spark submit": ("@LAB@/config.yaml",),
    "generate bundle": ("--to", "@NEW@/bundle.tar.gz"),
    "generate man": ("--to", "@NEW@/man"),
    "config init": ("@NEW@/config.yaml",),
}
PROVING = {"kinit", "klist", "kdestroy"}  # whether a keytab opens its account, in a private folder
FORESEEN = {0, 1, 2, 3, 5, 7}  # none of them is a crash, or a connection that failed


@pytest.fixture(scope="module")
def lab(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with Lab(copy(backed_up, tmp_path_factory.mktemp("dry") / "lab")) as lab:
        yield Operator(lab)


def contents(*folders: Path) -> dict[str, bytes]:
    """Return all that a command could change."""
    logs = ("/var/log/", "commands.jsonl", "requests.jsonl", "daemon.log", "/world/")  # the lab's own
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in found if not any(log in str(path) for log in logs)}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "lab demo"])
def test_a_dry_run_writes_sends_and_starts_nothing(
    command: str, lab: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary, new = tmp_path / "home", tmp_path / "temporary", tmp_path / "new"
    for folder in (home, temporary, new):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    started: list[object] = []
    real = subprocess.Popen

    def spied(words: list[str], **more: object) -> object:
        if words[0] not in PROVING:
            started.append(words)
        return real(words, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", spied)
    snapshot = next(path.name for path in sorted((lab.lab.folder / "backups" / SITE).glob("2*")))
    values = {
        SNAPSHOT: snapshot, "@NEW@": str(new), "@LAB@": str(lab.lab.folder), "@VC@": "Default-VC-abc12345",
        "@RUN@": next(path.stem for path in (lab.state / "runs").glob("*.jsonl")),
    }  # fmt: skip
    words = list(WORDS.get(command, ()))
    for mark, value in values.items():
        words = [word.replace(mark, value) for word in words]
    before = contents(lab.lab.folder, home, new)
    lab.forget_requests()
    said = lab(*command.split(), *words, "--dry-run", "--yes", "--confirm", SITE, HOME=str(home), XDG_STATE_HOME="")
    assert said.code in FORESEEN, said.err
    assert lab.sent == []
    assert started == []
    assert contents(lab.lab.folder, home, new) == before
    assert list(temporary.iterdir()) == []
