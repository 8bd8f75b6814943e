"""Commands, backup and restore against a difficult server: each thing is done once, whatever the answers look like."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.seal import AgeSeal
from maint.model.virtual_cluster import normal_job
from tests.acceptance.virtual_cluster_stub.stub import PASSWORD, USER, Foreign, Temper, serve
from tests.steps.operator import Said, maint

TEMPERS = {
    "one": Temper(409, "object", "milliseconds", 201, merges=True),
    "other": Temper(500, "strings", "seconds", 204, merges=False),
    "third": Temper(500, "objects", "token", 200, merges=True),
}
CONFIG = """\
state: {folder}/state
sites:
  prod:
    manager: {{host: manager.invalid, password: "file:password"}}
    backup: {{store: {folder}/store, recipients: [{recipient}], identity: "file:identity"}}
    virtual_clusters:
      - {{name: foreign-vc, base_url: "{address}/dex/api/v1", auth_url: "{address}", username: {user},
         password: "file:password"}}
"""
MANY = 105  # more than a page


@dataclass
class Hands:
    """Somebody who types commands."""

    foreign: Foreign
    folder: Path

    def __call__(self, *words: str, ends: int = 0) -> Said:
        """Run `maint vc WORDS`, which must end so."""
        said = maint("--config", str(self.folder / "config.yaml"), "vc", *words, "--yes")
        assert said.code == ends, said.err
        return said


@pytest.fixture
def hands(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hands]:
    foreign = Foreign(TEMPERS[request.param])
    server = serve(foreign)
    identity, recipient = AgeSeal().new_identity()
    for name, text in (("password", PASSWORD), ("identity", identity.reveal())):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(text + "\n")
    address = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "config.yaml").write_text(
        CONFIG.format(folder=tmp_path, address=address, recipient=recipient, user=USER)
    )
    yield Hands(foreign, tmp_path)
    server.shutdown()
    server.server_close()


def filled(foreign: Foreign, jobs: int = 2) -> None:
    """Fill it without asking anyone."""
    chance = random.Random(3)
    contents = {
        "a/crlf.py": b"print(1)\r\n",
        "empty": b"",
        "Large.bin": chance.randbytes(700_000),
        "ä b.txt": b"\xff\x00",
    }
    for name in ("code", "data", "unused"):
        foreign.resources[name] = {"name": name, "type": "files", "status": "ready", "modified": "2026-01-01T00:00:00Z"}
        foreign.files[name] = {path: content + name.encode() * bool(content) for path, content in contents.items()}
    for number in range(jobs):
        spark = {"file": "a/crlf.py", "args": ["日本", str(number)], "numExecutors": 2, "conf": {"k": "v"}}
        job: dict[str, Any] = {"name": f"job-{number:03}", "type": "spark", "spark": spark, "key-of-tomorrow": [number]}
        job["mounts"] = [{"resourceName": "code", "dirPrefix": "/"}]
        job["schedule"] = {
            "enabled": True,
            "user": USER,
            "cronExpression": "0 3 * * *",
            "start": "2031-01-01T00:00:00Z",
        }
        job["schedule"] = job["schedule"] if number % 40 == 0 else {"enabled": False, "user": USER}
        foreign.jobs[job["name"]] = {**job, "created": "2026-01-01T00:00:00Z", "modified": "2026-01-01T00:00:00Z"}
    dag = b"from airflow import DAG\nDAG('x', schedule=None)\nCdeRunJobOperator(job_name='job-001')\n"
    foreign.files["code"]["dag.py"] = dag
    flow = {"name": "flow", "type": "airflow", "airflow": {"dagFile": "dag.py", "dagID": "x"}}
    foreign.jobs["flow"] = {**flow, "mounts": [{"resourceName": "code"}], "schedule": {"enabled": False, "user": USER}}


def state(foreign: Foreign) -> Any:
    jobs = {name: normal_job(job, pauses=False) for name, job in foreign.jobs.items()}
    return jobs, {name: dict(files) for name, files in foreign.files.items()}


def awake(foreign: Foreign) -> list[str]:
    return [
        name
        for name, job in foreign.jobs.items()
        if (job["type"] == "airflow" or job["schedule"]["enabled"]) and not job["schedule"].get("paused")
    ]


@pytest.mark.parametrize("hands", TEMPERS, indirect=True)
def test_every_command_does_its_work_once(hands: Hands) -> None:
    foreign, source = hands.foreign, hands.folder / "app.py"
    source.write_bytes(b'print("hello from there")\n')
    hands("resource", "create", "--name", "mine")
    hands("resource", "upload", "--name", "mine", "--local-path", str(source))
    hands(
        "job",
        "create",
        "--name",
        "job",
        "--type",
        "spark",
        "--application-file",
        "app.py",
        "--mount-1-resource",
        "mine",
    )
    assert hands("job", "create", "--name", "job", "--type", "spark", "--application-file", "x", ends=1).err
    hands("job", "update", "--name", "job", "--schedule-enabled", "--every-days", "2", "--schedule-start", "2031-01-01")
    assert foreign.jobs["job"]["schedule"]["enabled"] is True
    hands("job", "pause", "--name", "job")
    assert foreign.jobs["job"]["schedule"]["paused"] is True
    hands("job", "run", "--name", "job", "--wait")
    (run,) = foreign.runs
    assert hands("run", "logs", "--id", str(run), "--type", "driver/stdout").out == "hello from there\n"
    hands("resource", "download", "--name", "mine", "--resource-path", "app.py", "--local-path", str(source) + "-2")
    assert Path(str(source) + "-2").read_bytes() == source.read_bytes()
    hands("spark", "submit", str(source))
    assert len(foreign.runs) == 2
    hands("job", "run", "--name", "job")
    hands("run", "kill", "--id", str(max(foreign.runs)))
    assert foreign.runs[max(foreign.runs)]["status"] in ("killed", "succeeded")
    assert len(foreign.runs) == 3
    hands("smoke")
    hands("job", "delete", "--name", "job")
    hands("resource", "delete", "--name", "mine")
    assert (foreign.jobs, foreign.resources) == ({}, {})


@pytest.mark.parametrize("hands", ["other"], indirect=True)
def test_backup_wipe_restore_backup_is_the_same_again(hands: Hands) -> None:
    foreign = hands.foreign
    filled(foreign, MANY)
    before = state(foreign)
    taken = json.loads(hands("backup", "-o", "json").out)
    assert taken
    for table in (foreign.jobs, foreign.resources, foreign.files):
        table.clear()
    hands("restore", "--confirm", "foreign-vc")
    assert state(foreign) == before
    assert (awake(foreign), foreign.runs) == ([], {})
    assert foreign.shifts < 6
    assert min(foreign.tokens, foreign.throttled, foreign.undone) > 1, "the server was not difficult enough"
    creations = [call for call in foreign.calls if call == "POST /jobs"]
    assert len(creations) <= MANY + 1 + len(foreign.calls) // 23 + foreign.writes // 31
    hands("backup")


@pytest.mark.parametrize("hands", ["third"], indirect=True)
def test_a_resource_whose_bytes_do_not_match_is_told_and_all_else_comes_back(hands: Hands) -> None:
    foreign = hands.foreign
    filled(foreign)
    foreign.lies.add("data")
    said = hands("backup", ends=7)
    assert "data/Large.bin is not what its signature says" in said.err
    wanted = state(foreign)
    for path in ("a/crlf.py", "Large.bin", "ä b.txt"):
        del wanted[1]["data"][path]
    foreign.lies.clear()
    for table in (foreign.jobs, foreign.resources, foreign.files):
        table.clear()
    said = hands("restore", "--confirm", "foreign-vc", ends=7)
    assert "data/Large.bin" in said.err
    assert state(foreign) == wanted


@pytest.mark.parametrize("hands", ["one"], indirect=True)
def test_a_download_that_is_cut_is_begun_anew(hands: Hands) -> None:
    filled(hands.foreign)
    hands.foreign.cuts, target = 1, hands.folder / "here.bin"
    hands("resource", "download", "--name", "code", "--resource-path", "Large.bin", "--local-path", str(target))
    assert target.read_bytes() == hands.foreign.files["code"]["Large.bin"]
    assert hands.foreign.cuts == 0
    assert [path.name for path in hands.folder.glob(".here*")] == []
