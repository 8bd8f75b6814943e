"""Completion: what each shell offers at a real Tab, from the config, the state and a local store alone."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maint.cli.app import COMMANDS
from maint.cli.completion.names import candidates
from tests.steps.operator import environment, maint

CONFIG = """
sites:
  prod:
    manager: {host: cm.invalid, password: "env:PASSWORD"}
    backup: {store: STORE, identity: "env:IDENTITY"}
    notify: [{name: night-shift, exec: {command: [/bin/true]}}]
    hosts:
      - {name: ecs-1, groups: [ecs-master]}
      - {name: base-01, groups: [base]}
    virtual_clusters:
      - name: etl
        base_url: https://a.invalid/dex/api/v1
        auth_url: https://s.invalid
        username: u
        password: "env:P"
  test:
    manager: {host: cm2.invalid, password: "env:PASSWORD"}
"""


@pytest.fixture(scope="module")
def estate(tmp_path_factory):
    """A config of two sites with a store of 1,000 snapshots and three runs; returns its folder."""
    folder = tmp_path_factory.mktemp("estate")
    (folder / "config.yaml").write_text(CONFIG.replace("STORE", f"{folder}/store"))
    for number in range(1000):
        snapshot = folder / f"store/prod/202601{number // 60 + 10:02}T10{number % 60:02}00.000Z-{number:04x}"
        snapshot.mkdir(parents=True)
        (snapshot / "manifest.json").touch()
    (folder / "store/prod/20260101T000000.000Z-0000").mkdir()  # one that was never finished
    state = folder / ".maint/prod"
    (state / "runs").mkdir(parents=True)
    for name in ("20260101T000000.000Z-aaaa.jsonl", "20260102T000000.000Z-bbbb.jsonl", "else.html"):
        (state / "runs" / name).touch()
    (state / "names.json").write_text(json.dumps({"clusters": ["base", "ecs-01"]}))
    return folder


@pytest.fixture
def offered(estate, monkeypatch):
    """Ask what is offered for the last of some words."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(estate / "cache"))
    monkeypatch.setenv("MAINT_CONFIG", str(estate / "config.yaml"))
    return lambda *words: [name for name, _ in candidates(words)]


def test_words_and_options_come_from_the_declarations(offered):
    assert {name.split()[0] for name in COMMANDS} == set(offered(""))
    assert offered("vc", "job", "un") == ["unpause"]
    assert offered("backup", "create", "--open") == ["--open-window"]
    assert "--site" in offered("--")
    assert offered("generate", "completion", "") == ["bash", "zsh", "fish"]
    assert offered("-o", "") == ["table", "json", "yaml"]
    assert "nagios" in offered("host", "check", "-o", "")
    assert offered("host", "check", "--check", "os.th") == ["os.thp", "os.thp.persist"]
    assert "database" in offered("lab", "break", "") and "lost" in offered("lab", "break", "database", "")


def test_no_secret_of_the_environment_is_kept_and_what_older_versions_kept_is_removed(offered, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("MAINT_CM_PW", "c4nary")
    monkeypatch.setenv("MAINT_MANAGER_PASSWORD", "c4nary")
    (tmp_path / "maint").mkdir()
    (tmp_path / "maint/completion-config.json").write_text('["MAINT_CM_PW=c4nary"]')
    assert offered("--site", "") == ["prod", "test"]
    kept = {path.name: path.read_text() for path in (tmp_path / "maint").iterdir()}
    assert "completion-sites.json" in kept
    assert "completion-config.json" not in kept
    assert "c4nary" not in "".join(kept.values())


def test_names_come_from_the_config_the_state_and_the_store(offered, estate):
    assert offered("--site", "") == ["prod", "test"]
    assert offered("backup", "list", "--site=t") == ["--site=test"]
    snapshots = offered("backup", "show", "--site", "prod", "")
    assert (len(snapshots), snapshots[0]) == (1000, "20260126T103900.000Z-03e7")
    assert offered("restore", "run", "--site", "prod", "--snapshot", "20260126T1039") == snapshots[:1]
    runs = ["20260102T000000.000Z-bbbb", "20260101T000000.000Z-aaaa"]
    assert offered("--site", "prod", "playbook", "resume", "") == runs
    assert offered("cluster", "stop", "--site", "prod", "") == ["base", "ecs-01"]
    assert offered("host", "check", "--site", "prod", "--host", "e") == ["ecs-1"]
    assert offered("host", "check", "--site", "prod", "--group", "") == ["base", "ecs-master"]
    assert offered("playbook", "run", "--site", "prod", "probe", "--limit", "ecs") == ["ecs-1", "ecs-master"]
    assert offered("vc", "status", "--site", "prod", "--vc", "") == ["etl"]
    assert offered("playbook", "run", "disaster") == ["disaster-recovery", ":files"]
    assert offered("help", "exit") == ["exit-codes"]
    assert offered("manager", "license", "") == [":files"]


OWN = """name: own
summary: Own.
parameters:
  hosts: {type: list, help: Where}
  deep: {type: boolean, default: false}
steps: [{name: A, do: pause, with: {duration: 1s}}]
"""


def test_parameters_of_shipped_and_own_playbooks_are_offered_by_name(offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert offered("playbook", "run", "retire-cluster", "--set", "clu") == ["cluster="]
    assert offered("playbook", "plan", "own.yaml", "--set", "") == []
    (tmp_path / "own.yaml").write_text(OWN)
    assert offered("playbook", "plan", "own.yaml", "--set", "") == ["hosts=", "deep=true", "deep=false"]
    assert offered("playbook", "schedule", "own.yaml", "--set", "hosts=a", "--set", "deep=t") == ["deep=true"]
    bash = ("playbook", "run", "own.yaml", "--set", "hosts", "=", "a", "--set", "deep", "=")  # which cuts words there
    assert (offered(*bash), offered(*bash, "t")) == (["true", "false"], ["true"])
    (tmp_path / "own.yaml").write_text(OWN.replace("deep", "whole"))
    assert offered("playbook", "run", "own.yaml", "--set=w") == ["--set=whole=true", "--set=whole=false"]


@pytest.mark.parametrize("verb", ["run", "plan", "lint", "schedule", "show", "test", "diff"])
def test_paths_of_files_are_left_to_the_shell(offered, verb):
    assert offered("playbook", verb, "./")[-1:] == [":files"]
    assert ":files" in offered("playbook", verb, "")


def test_choices_that_are_known_are_offered(offered):
    assert offered("playbook", "history", "--outcome", "p") == ["partly"]
    assert offered("playbook", "history", "--playbook", "disa") == ["disaster-recovery"]
    assert "before-backup" in offered("host", "check", "--phase", "")
    assert offered("generate", "schema", "playbook-") == ["playbook-test"]
    assert offered("notify", "test", "--site", "prod", "") == ["night-shift"]


def test_two_snapshots_of_a_comparison_are_two(offered):
    first = offered("backup", "diff", "--site", "prod", "")[0]
    assert first not in offered("backup", "diff", "--site", "prod", first, "")
    assert len(offered("backup", "diff", "--site", "prod", first, "")) == 999


def test_without_a_config_nothing_fails(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("MAINT_CONFIG", str(tmp_path / "none"))
    asked = environment(_MAINT_COMPLETE="1", HOME=str(tmp_path), MAINT_CONFIG=str(tmp_path / "none"))
    words = [sys.executable, "-m", "maint", "backup", "show", ""]
    ran = subprocess.run(words, env=asked, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_changed_config_is_read_again(offered, estate, tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    monkeypatch.setenv("MAINT_CONFIG", str(path))
    for name in ("one", "another"):
        path.write_text(CONFIG.replace("STORE", "/srv").replace("prod:", f"{name}:"))
        assert offered("--site", "") == [name, "test"]


def test_it_neither_loads_the_product_nor_opens_a_connection(offered, estate):
    offered("backup", "show", "--site", "prod", "")
    program = (
        "import sys, socket\n"
        "sys.addaudithook(lambda name, _: sys.exit(name) if name.startswith('socket.') else None)\n"
        "sys.argv = ['maint', 'backup', 'show', '--site', 'prod', '20260126']\n"
        "from maint.cli.start import main; main()\n"
        "print(*[one for one in ('typer', 'pydantic', 'yaml', 'requests', 'maint.cli.app') if one in sys.modules])"
    )
    env = {**os.environ, "_MAINT_COMPLETE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    *found, heavy = ran.stdout.split("\n")[:-1]
    assert (len(found), heavy, ran.stderr) == (40, "", "")


def test_listings_leave_their_names_for_stores_that_are_not_asked(loaded):
    loaded("backup", "list", "--dry-run")
    assert not (loaded.state / "names.json").exists()
    listed = loaded("backup", "list", "-o", "json").json["snapshots"]
    loaded("cluster", "list")
    kept = json.loads((loaded.state / "names.json").read_text())
    assert kept["snapshots"] == [one["id"] for one in listed]
    assert "base" in kept["clusters"]


BEGIN = {
    "bash": (["--norc", "--noprofile", "-i"], "source"),
    "zsh": (["-f", "-i"], "autoload -U compinit; compinit -D; source"),
    "fish": (["--no-config", "-i"], "source"),
}


@pytest.mark.parametrize("shell", list(BEGIN))
def test_a_tab_completes_in_a_real_shell(shell, offered, estate):
    """Type a command with a Tab into a terminal, and see what it became."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is at hand in few test environments")
    script = estate / f"maint.{shell}"
    script.write_text(maint("generate", "completion", shell).out)
    folder = estate / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "maint").write_text(f'#!/bin/sh\nexec {sys.executable} -m maint "$@"\n')
    (folder / "maint").chmod(0o755)
    offered("")  # so that the names are worked out
    words, source = BEGIN[shell]
    typed = f'{source} {script}; echo rea""dy\n'  # which the terminal echoes otherwise than it is answered
    said = _typed([program, *words], typed, "maint backup show --site prod 20260126T1039\t", folder)
    assert "20260126T103900.000Z-03e7" in said, said


def _typed(argv: list[str], first: str, then: str, folder: Path) -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(PATH=f"{folder}:{os.environ['PATH']}", TERM="xterm", PS1="$ ", COLUMNS="200")
        os.execv(argv[0], argv)
    try:
        said = ""
        os.write(terminal, first.encode())
        said = _until(terminal, "ready", 20)
        os.write(terminal, then.encode())
        said += _until(terminal, "Z-03e7", 20)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    return said


def _until(terminal: int, words: str, limit: float) -> str:
    said, end = "", time.monotonic() + limit
    while words not in said.replace("\r", "") and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                said += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
    return said
