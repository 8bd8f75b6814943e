"""Clocks that jump by hours both ways, umask 0, a home that nobody can write to, an account that the system does not
know, a process number that another program has by now: no bug, nothing half, nothing open.
"""

import json
import os
import random
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock
from tests.campaigns.size import SEED, tries
from tests.steps.operator import Operator, environment

ROUNDS = tries(4, 200)
FORESEEN = (0, 1, 5, 7)  # a snapshot from the future is refused; never 70


UNDER_JUMPS = (
    ("backup", "create", "--yes"), ("backup", "create", "--open-window", "--yes"), ("backup", "verify"),
    ("backup", "list"), ("backup", "hold", "@", "--reason", "x"), ("backup", "release", "@", "--reason", "x"),
    ("backup", "prune", "--dry-run"), ("service", "restart", "hdfs", "--yes"), ("vc", "backup", "--yes"),
    ("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes"), ("host", "check", "--check", "os.thp"),
    ("restore", "plan", "--manager-only"), ("doctor",), ("playbook", "run", "probe"),
)  # fmt: skip


def test_a_clock_that_jumps_by_hours_at_any_reading_leaves_everything_whole(
    loaded: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, shift = random.Random(SEED), [timedelta()]
    loaded.lab.world.redaction = False

    def now(_: SystemClock) -> datetime:
        if chance.random() < 0.2:
            shift[0] = timedelta(hours=chance.uniform(-6, 6))
        return datetime.now(UTC) + shift[0]

    monkeypatch.setattr(SystemClock, "now", now)
    known = {one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]}
    for _ in range(ROUNDS):
        words = [word.replace("@", chance.choice([*known])) for word in chance.choice(UNDER_JUMPS)]
        said = loaded(*words)
        assert said.code in FORESEEN and "bug in maint" not in said.err, (words, said)
        assert not said.code or words[0] == "doctor" or "hint:" in said.err, (words, said)
    monkeypatch.undo()
    for run in loaded("playbook", "history", "-o", "json").json["runs"]:
        if run["state"] not in ("done", "partly", "refused", "dismissed"):
            resumed = loaded("playbook", "resume", run["id"], "--yes")
            assert resumed.code == 0, (run, resumed)
    left = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert known <= {one["id"] for one in left}
    for one in left:
        assert loaded("backup", "verify", one["id"], "--level", "1").code == 0
    assert not loaded.window


def test_a_backup_of_a_clock_a_month_ahead_is_told_by_its_time_and_holds_up_no_other(
    loaded: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.lab.world.redaction = False
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + timedelta(days=30))
    assert loaded("backup", "create", "--yes").code == 0
    monkeypatch.undo()
    said = loaded("backup", "create", "--yes")
    assert said.code == 0, said.err
    *_, good, ahead = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    assert loaded("backup", "list", "-o", "json").json["last_verified"]["id"] == good
    said = loaded("backup", "verify")
    assert (said.code, f"{ahead} is whole, and not restorable" in said.err) == (1, True), said.err
    assert f"from the future: {ahead}" in loaded("doctor").out
    assert loaded("backup", "verify", good).code == 0
    said = loaded("restore", "plan")
    assert (said.code, "in the future" in said.err, "--snapshot ID" in said.err) == (5, True, True)
    assert loaded("restore", "plan", "--snapshot", good).code == 0


def test_under_umask_0_and_with_a_home_that_nobody_can_write_to_everything_stays_private(loaded: Operator) -> None:
    before = set(loaded.lab.folder.rglob("*"))
    mask = os.umask(0)
    try:
        said = loaded("backup", "create", "--yes", HOME="/proc/nobody")
    finally:
        os.umask(mask)
    assert said.code in (0, 7), said.err
    places = (loaded.state, loaded.lab.folder / "backups")
    made = [path for place in places for path in Path(place).rglob("*") if path not in before]
    assert made
    assert [str(path) for path in made if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077] == []


_STRANGER = ("unshare", "--user", "--map-user=54321", "--map-group=54321")  # an account without a name and a home
_COMMANDS = [
    ("backup", "create", "--yes"), ("backup", "list"), ("backup", "verify"), ("doctor",), ("host", "list"),
    ("host", "check", "--check", "os.thp"), ("playbook", "run", "probe"), ("playbook", "history"), ("config", "show"),
    ("lab", "status"), ("lab", "status", "--folder", "~/lab"), ("schedule", "show"), ("generate", "systemd"),
    ("completion", "show", "bash"), ("config", "init", "--file", "~/maint.yaml"), ("site", "status"), ("help",),
]  # fmt: skip


def test_an_account_that_the_system_does_not_know_works_or_is_told_what_it_lacks(loaded: Operator) -> None:
    environ = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
    if subprocess.run([*_STRANGER, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody become an account without a name")
    known = ("lab", "generate", "completion", "help")  # which read no config
    lines = [[*words, *(() if words[0] in known else ("--config", loaded.config))] for words in _COMMANDS]
    each = "import json, sys; from tests.steps.operator import maint; config, lines = json.load(sys.stdin);"
    each += " said = [maint(*words, MAINT_CONFIG=config) for words in lines];"
    each += " print(json.dumps([(one.code, one.err) for one in said]))"
    ended = subprocess.run(
        [*_STRANGER, sys.executable, "-c", each], env=environ, input=json.dumps([loaded.config, lines]),
        stdout=subprocess.PIPE, text=True, timeout=600, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    for words, (code, err) in zip(_COMMANDS, json.loads(ended.stdout), strict=True):
        assert code in (0, 1, 2, 3, 5, 7) and "bug in maint" not in err, (words, code, err)
        if code in (3, 5):
            assert "hint:" in err, (words, code, err)
    assert (loaded("backup", "verify").code, loaded.window) == (0, False)


def test_a_lock_that_names_a_process_number_which_another_program_has_by_now_holds_nobody_up(loaded: Operator) -> None:
    lock = loaded.state / "lock"
    lock.write_text(json.dumps({"user": "ann", "host": "cm", "pid": os.getpid(), "since": "2026", "doing": "a backup"}))
    found = {one["label"]: one for one in loaded("doctor", "-o", "json").json["checks"]}
    assert found["lock"]["state"] == "ok", found["lock"]
    assert loaded("backup", "create", "--yes").code in (0, 7)
    process = loaded.fork("backup", "create", "--yes")  # killed at work: its number is anybody's from then on
    while not list((loaded.state / "runs").glob("*.jsonl")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    lock.write_text(lock.read_text().replace(str(process.pid), str(os.getpid())))
    assert loaded("backup", "create", "--yes").code in (0, 7)
