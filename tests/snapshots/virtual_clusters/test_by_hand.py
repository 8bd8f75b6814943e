"""A virtual cluster that comes back as RESTORE.txt says, by stock tools alone."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.snapshots.virtual_clusters.test_lab import VC, asleep, state, wipe
from tests.steps.operator import Operator

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("age", "zstd", "curl", "sha1sum")), reason="needs the stock tools"
)
TAKE = {"with the manager": ("backup", "create", "--open-window", "--yes"), "alone": ("vc", "backup")}
SERVERS = {"created", "modified", "lastUsed", "latestRunInfo", "status", "signature", "pythonEnvInfo", "files"}


# What pausing a DAG does whose file was not read yet.
PAUSES = {"with the manager": "works", "alone": "overruled", "redacted": "works"}


@pytest.fixture
def operator(tmp_path: Path, taken: str) -> Iterator[Operator]:
    """An operator at a lab whose environments are built at once."""
    switches = {"vc-env-seconds": "0.1", "vc-dag-seconds": "0.1", "vc-pause-unparsed": PAUSES[taken]}
    with Lab(tmp_path / "lab", Options(switches=switches)) as lab:
        yield Operator(lab)


class Hand:
    """One who types what the text of a snapshot says, in a copy of it."""

    def __init__(self, operator: Operator, work: Path) -> None:
        site = operator.lab.folder / "backups" / "lab"
        (folder,) = [path for path in site.iterdir() if (path / "RESTORE.txt").is_file()]
        shutil.copytree(folder, work / "copy")
        shutil.copytree(site / "objects", work / "objects")
        self.folder = work / "copy"
        shutil.copy(operator.lab.folder / "identity", self.folder / "identity")
        shutil.copy(operator.lab.folder / "ca" / "bundle.pem", self.folder / "apps-ca.pem")
        self.text = re.sub(r" \|\n +", " | ", (self.folder / "RESTORE.txt").read_text())
        config = Path(operator.config).read_text()
        self.lines = [f"{name}={self._of(config, key)}" for name, key in (("api", "base_url"), ("gateway", "auth_url"))]
        self.password = Path(self._of(config, f'- name: "{VC}".*?password').removeprefix("file:")).read_text().strip()
        self.at = self._of(config, "connect_to")

    def __call__(self, words: str, **filled: str) -> str:
        """Type the one line that holds the words, with its names filled in, and return what it said."""
        chapter = self.text[self.text.index(f"   Virtual cluster {VC}") :]
        line = next(line.strip() for line in chapter.splitlines() if line.startswith("       ") and words in line)
        line = line.replace("-u USER", f'-u "etl_user:{self.password}"')
        for name, value in filled.items():
            line = line.replace(name, value)
        (self.folder / ".curlrc").write_text(f'connect-to = "::{self.at}"\n')
        done = subprocess.run(
            ["sh", "-euc", "\n".join([*self.lines, line])],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "CURL_HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, line + done.stderr
        return done.stdout

    def put(self, name: str, fields: dict[str, Any]) -> None:
        """Write what is sent into a file, without what only the server sets."""
        (self.folder / name).write_text(json.dumps({key: value for key, value in fields.items() if key not in SERVERS}))

    @staticmethod
    def _of(config: str, key: str) -> str:
        found = re.search(rf'{key}: "(.*?)"', config, re.DOTALL)
        assert found
        return found[1]


def _own(part: dict[str, Any]) -> dict[str, Any]:
    servers = ("user", "nextExecution", "pausedUponCreation", "dagID")
    return {key: value for key, value in part.items() if key not in servers}


@pytest.mark.parametrize("taken", TAKE)
def test_a_virtual_cluster_comes_back_by_the_calls_that_the_snapshot_tells(
    operator: Operator, tmp_path: Path, taken: str
) -> None:
    before = state(operator)
    assert operator(*TAKE[taken]).code == 0
    whole = taken == "with the manager"  # else its resources are there
    wipe(operator, resources=whole)
    hand = Hand(operator, tmp_path)
    kept, _, rest = hand.text.partition("Copy this folder")
    for name, words in (("manager-ca.pem", "manager's TLS port"), ("apps-ca.pem", "virtual clusters' addresses")):
        assert not whole or (name in rest and words in kept), name
    before_hands = {path.name for path in hand.folder.iterdir()}
    hand("> Default-VC")
    document = json.loads((hand.folder / f"{VC}.json").read_text())
    hand("> token")
    for resource in document["resources"] if whole else ():
        hand.put("resource", resource)
        hand("@resource")
        for file in resource["files"]:
            found = document["objects"][file["signature"]]
            assert hand("sha1sum -c", ID=found, SIGNATURE=file["signature"]) == "file: OK\n"
            hand("file=@file", NAME=resource["name"], PATH=file["path"])
    while '"status":"ready"' not in hand('NAME"', NAME="analytics-env"):
        time.sleep(0.05)
    for job in sorted(document["jobs"], key=lambda job: str(job["type"] == "airflow")):
        if "airflow" in job:
            assert "without `schedule`" in hand.text
            hand.put("job", {**{key: job[key] for key in job if key != "schedule"}, "airflow": _own(job["airflow"])})
        else:
            hand.put("job", {**job, "schedule": {**_own(job["schedule"]), "paused": True}})
        hand("@job")
        if "airflow" in job:
            hand("schedule/pause", NAME=job["name"])
            while '"dagID"' not in hand('/jobs/NAME"', NAME=job["name"]):
                time.sleep(0.05)
            hand("schedule/pause", NAME=job["name"])
    assert state(operator) == before
    assert asleep(operator)
    hand("shred -u token")
    for name in ("resource", "file"):
        (hand.folder / name).touch()  # where none was sent
    hand("shred -u resource")
    assert {path.name for path in hand.folder.iterdir()} == before_hands | {".curlrc"}


@pytest.mark.parametrize("taken", ["redacted"])
def test_an_export_that_is_only_read_is_removed_after_it(operator: Operator, tmp_path: Path, taken: str) -> None:
    assert operator("backup", "create", "--yes").code == 7
    text = Hand(operator, tmp_path).text
    assert text.index("> deployment.json") < text.index("shred -u deployment.json")
