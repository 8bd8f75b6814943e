"""Restores are rehearsed in a throw-away manager, and the evidence is kept."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from maint.cli.backup import drill as rehearsal
from maint.errors import Interrupted
from maint.lab.manager import simulator
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.snapshots.records import Drill, last_good
from tests.campaigns.size import size
from tests.snapshots.conftest import DEPLOYMENTS, number
from tests.steps.conftest import FAST, PASSWORD, back_up
from tests.steps.operator import Operator


def left_over(process: int = 0) -> list[Path]:
    """Return what a process (this one, unless told otherwise) has left of its drills; others may drill beside it."""
    pattern = f"{rehearsal.PREFIX}{process or os.getpid()}-*"
    return [path for place in {Path("/dev/shm"), Path(tempfile.gettempdir())} for path in place.glob(pattern)]


def records(operator: Operator) -> list[Any]:
    folder = operator.lab.folder / "backups" / "lab" / "records"
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*-drill-*.json"))]


@pytest.mark.parametrize("path", DEPLOYMENTS[:: size(4, 1)], ids=number)
def test_a_drill_of_each_recording_passes(path: Path, tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", Options(deployment=path, new_password=PASSWORD, switches=FAST, ssh=False)) as lab:
        lab.switch("redaction-default", "off")
        lab.server.restart()
        assert lab.server.wait()
        operator = Operator(lab)
        taken = operator("backup", "create", "--yes")
        assert taken.code == 0, taken.err
        operator.forget_requests()
        said = operator("backup", "drill", "-o", "json")
        assert said.code == 0, said.err
        assert operator.sent == []
    found = said.json["drill"]
    assert (found["result"], found["differences"], found["not_comparable"]) == ("passed", 0, 0)
    assert found["rto_seconds"] > 0
    assert left_over() == []


def test_what_the_server_rejects_all_the_same_fails_with_its_own_words(loaded: Operator) -> None:
    role = loaded.lab.world.deployment["clusters"][0]["services"][0]["roles"][0]["name"]
    said = loaded(
        "backup", "drill", "--switch", f"reject-role={role}", "--switch", "reject-role-message=Not on this host."
    )
    assert said.code == 1
    assert "Not on this host." in said.err
    facts = records(loaded)[-1]["facts"]
    assert (facts["result"], facts["rto_seconds"]) == ("failed", None)
    assert "Not on this host." in facts["reason"] + " ".join(facts["detail"])
    assert loaded("backup", "verify", "--level", "3").code == 0
    assert left_over() == []
    # What did not come back proves no way back, and is not a default, until a drill of it passes.
    refused = loaded("cluster", "stop", "base", "--yes")
    assert refused.code == 5
    assert "did not come back in its last drill" in refused.err
    assert "its last drill failed" in loaded("restore", "plan").err
    assert "ITS DRILL FAILED" in loaded("backup", "list").out
    newest = loaded("backup", "list", "-o", "json").json["snapshots"][-1]
    assert newest["drilled"]["passed"] is False
    assert loaded("backup", "drill", newest["id"]).code == 0
    assert loaded("cluster", "stop", "base", "--yes").code == 0


def test_a_machine_without_the_private_key_says_where_it_can_be_done(loaded: Operator) -> None:
    config = Path(loaded.config)
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "identity:" not in line))
    said = loaded("backup", "drill", "-o", "json")
    assert said.code == 5
    assert "no private key" in said.error["message"]
    assert "age1" in said.error["detail"][0]
    assert "backup.identity" in said.error["hint"]
    assert records(loaded) == []


def test_a_damaged_snapshot_fails_the_drill_before_anything_is_brought_up(loaded: Operator) -> None:
    part = next((loaded.lab.folder / "backups").rglob("deployment.json.zst.age"))
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    snapshot = part.parent.name
    said = loaded("backup", "drill", snapshot)
    assert said.code == 1
    assert "does not pass level 3" in said.err


def until_it_has_a_lab(process: Any) -> None:
    """Wait until a drill has laid its lab out."""
    while not any((path / "lab/world/state.json").exists() for path in left_over(process.pid)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_the_evidence_is_a_signed_record_with_the_time_of_each_phase_and_the_next_drill_sweeps_what_a_killed_one_left(
    loaded: Operator,
) -> None:
    world = loaded.lab.world
    with world.lock:  # an account whose hash is of a kind without a salt comes back, too
        user = next(user for user in world.deployment["users"] if user["name"] == "backup-operator")
        user["pwHash"] = "$2b$12$" + "a" * 53
        del user["pwSalt"]
        world.changed()
    back_up(loaded)
    assert loaded("backup", "list", "-o", "json").json["last_drill"] is None
    assert "drill: none" in loaded("backup", "list").out
    process = loaded.fork("backup", "drill", "--switch", "put-seconds=600")
    until_it_has_a_lab(process)
    (folder,) = left_over(process.pid)
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    said = loaded("backup", "drill")
    assert said.code == 0, said.err
    assert left_over(process.pid) == []
    (record,) = records(loaded)
    assert record["kind"] == "drill"
    names = [phase["name"] for phase in record["facts"]["phases"]]
    assert names == ["verify", "open", "licence", "put", "restart", "tls", "login", "compare"]
    assert record["facts"]["release"] == "7.6.5"
    last = loaded("backup", "list", "-o", "json").json["last_drill"]
    assert last["result"] == "passed"
    assert last["age"] >= 0
    assert last["snapshot"] in loaded("backup", "list").out
    said = loaded("backup", "verify", "--level", "4", "-o", "json")  # is a drill
    assert said.code == 0, said.err
    assert said.json["drill"]["result"] == "passed"
    assert len(records(loaded)) == 2


def test_an_interrupted_drill_leaves_nothing(loaded: Operator) -> None:
    process = loaded.fork("backup", "drill", "--switch", "put-seconds=600")
    until_it_has_a_lab(process)
    process.terminate()
    _, err = process.communicate(timeout=200)
    assert process.returncode == 143, err
    assert left_over(process.pid) == []
    assert records(loaded) == []


def test_a_drill_makes_the_managers_host_alone_whatever_hosts_come_back(tmp_path: Path) -> None:
    """A large site has a thousand, and nobody visits them."""
    options = Options(deployment=DEPLOYMENTS[-1], fresh=True, ssh=False)
    simulator.create(tmp_path / "lab", options)
    assert len(list((tmp_path / "lab/hosts").iterdir())) == 1
    assert len(Lab(tmp_path / "all", options).machines) > 1


def test_a_drill_loads_the_manager_of_the_lab_and_nothing_else_of_it() -> None:
    script = "import sys, maint.lab.manager.simulator; print(*[name for name in sys.modules if 'maint.lab' in name])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.startswith(("maint.lab.hosts", "maint.lab.virtual_clusters"))]
    assert len(loaded) <= 54


@pytest.mark.parametrize("hash_rule", ["other"])
def test_where_nobody_can_tell_how_passwords_are_hashed_the_rest_is_still_rehearsed(
    tmp_path: Path, hash_rule: str
) -> None:
    options = Options(new_password=PASSWORD, switches={**FAST, "pwhash-algorithm": hash_rule}, ssh=False)
    with Lab(tmp_path / "lab", options) as lab:
        lab.switch("redaction-default", "off")
        lab.server.restart()
        assert lab.server.wait()
        operator = Operator(lab)
        assert operator("backup", "create", "--yes").code == 0
        said = operator("backup", "drill")
        assert said.code == 0, said.err


def test_the_last_good_drill_is_the_newest_that_passed() -> None:
    from datetime import UTC, datetime

    one, two, three = (
        Drill(str(n), datetime(2026, 11, n, tzinfo=UTC), passed, "", 1.0)
        for n, passed in ((1, True), (2, True), (3, False))
    )
    assert last_good([one, two, three]) is two
    assert last_good([three]) is None


def test_a_signal_while_the_throw_away_manager_comes_up_leaves_nothing_that_still_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = {"down-seconds": "0", "starting-seconds": "0"}
    lab = simulator.create(tmp_path / "lab", Options(fresh=True, switches=switches)).simulator

    def struck() -> bool:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(lab.server, "wait", struck)
    with pytest.raises(Interrupted), lab:
        pass
    assert not lab.server.active()
