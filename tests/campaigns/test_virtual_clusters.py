"""A generated virtual cluster, every field used: backed up, wiped, restored, backed up again; also with kill -9."""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from maint.lab import control
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.model.virtual_cluster import normal_job, normal_resource
from tests.benchmarks.clusters import Size, client_of, content, fill
from tests.campaigns.size import SEED, size, tries
from tests.steps.operator import Operator

SIZE = Size(jobs=size(20, 2000), resources=size(4, 500), bytes=size(10**6, 2 * 10**9))
LARGE = size(10**6, 10**9)  # bytes of one file more
KILLS = tries(3, 40)
SWITCHES = {"vc-unknown-keys": "keep", "vc-env-seconds": "0.2", "vc-dag-seconds": "0.2", "vc-schedule-user": "given"}


class Ground:
    """A lab in a process of its own, an operator, and a client that looks for itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        told = control.up(folder, Options(ssh=False, switches=SWITCHES))["virtual_clusters"][0]
        self.name, self.client = str(told["name"]), client_of(told, folder)
        self.log = folder / "requests.jsonl"
        lab = SimpleNamespace(folder=folder.resolve(), log=SimpleNamespace(path=self.log))
        self.operator = Operator(cast(Lab, lab))
        fill(self.client, SIZE)
        self.client.upload("made-0", "jars/very large.bin", content(99, LARGE))

    def state(self) -> Any:
        """Return all that is there, in its normal form."""
        jobs = {job.name: normal_job(job.raw, pauses=False) for job in self.client.jobs()}
        with ThreadPoolExecutor(8) as hands:
            found = hands.map(self.client.resource, [one.name for one in self.client.resources()])
            files = {one.name: (normal_resource(one.raw), one.signature, self._files(one)) for one in found if one}
        return jobs, files

    def _files(self, resource: Any) -> list[tuple[str, str, int]]:
        return sorted((file.path, file.signature, file.size) for file in resource.files)

    def wipe(self) -> None:
        """Delete everything."""
        with ThreadPoolExecutor(8) as hands:
            list(hands.map(self.client.delete_job, [job.name for job in self.client.jobs()]))
            list(hands.map(self.client.delete_resource, [one.name for one in self.client.resources()]))
        assert self.state() == ({}, {})

    def awake(self) -> list[str]:
        """Return the jobs that would run by themselves."""
        jobs = self.client.jobs()
        return [job.name for job in jobs if (job.scheduled or job.type == "airflow") and not job.paused]

    def runs(self) -> list[int]:
        """Return the numbers of all runs."""
        return [run.id for run in self.client.runs()]

    def asked(self, since: int) -> list[str]:
        """Return what was asked since the log had so many bytes."""
        with self.log.open("rb") as file:
            file.seek(since)
            return [f"{one['method']} {one['path']}" for one in map(json.loads, file)]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("virtual-clusters") / "lab"
    made = Ground(folder)
    yield made
    made.client.close()
    control.down(folder)


@pytest.fixture(scope="module")
def backed_up(ground: Ground) -> Any:
    """What was there when the backup was taken."""
    said = ground.operator("vc", "backup", "--vc", ground.name, "--yes")
    assert said.code == 0, said.err
    return ground.state()


@pytest.fixture(scope="module")
def runs(ground: Ground) -> list[int]:
    """The numbers of all runs there are before any restore."""
    return ground.runs()


def restore(ground: Ground) -> int:
    """Restore undisturbed, and return by how many bytes the log of requests grew."""
    before = ground.log.stat().st_size
    said = ground.operator("vc", "restore", "--vc", ground.name, "--confirm", ground.name)
    assert said.code == 0, said.err
    return ground.log.stat().st_size - before


@pytest.fixture(scope="module")
def whole(ground: Ground, backed_up: Any) -> int:
    """By how many bytes an undisturbed restore of all, which was lost, makes the log of requests grow."""
    ground.wipe()
    return restore(ground)


def begun(ground: Ground) -> bool:
    """Tell whether a restore is to be resumed; one that was killed very early has not begun."""
    newest = ground.operator("playbook", "history", "-o", "json").json["runs"][-1]
    return newest["playbook"] == "restore-virtual-cluster" and newest["state"] not in ("done", "partly")


def summaries(ground: Ground) -> list[Any]:
    found = ground.operator("backup", "list", "-o", "json").json["snapshots"]
    return [one["virtual_clusters"] for one in found]


def test_backup_wipe_restore_backup_compares_equal_and_fetches_nothing_twice(
    ground: Ground, backed_up: Any, runs: list[int], whole: int
) -> None:
    assert ground.state() == backed_up
    assert (ground.awake(), ground.runs()) == ([], runs)
    before = ground.log.stat().st_size
    assert ground.operator("vc", "backup", "--vc", ground.name, "--yes").code == 0
    files = [one for one in ground.asked(before) if one.startswith("GET /dex/api/v1/resources/") and one.count("/") > 5]
    assert [one for one in files if "-dags/" not in one] == []  # DAGs are read for the jobs that they call
    first, *_, last = summaries(ground)
    assert first == last


def test_killed_again_and_again_a_restore_comes_to_the_same_end(
    ground: Ground, backed_up: Any, runs: list[int], whole: int
) -> None:
    chance, struck = random.Random(SEED), 0
    ground.wipe()
    words = ["vc", "restore", "--vc", ground.name, "--confirm", ground.name]
    for _ in range(KILLS):
        process = ground.operator.fork(*words)
        limit = ground.log.stat().st_size + chance.randrange(max(2 * whole // KILLS, 1))
        while process.poll() is None and ground.log.stat().st_size < limit:
            time.sleep(0.002)
        process.kill()
        process.communicate()
        struck += (process.returncode or 0) < 0
        if process.returncode == 0:
            break
        words = ["playbook", "resume"] if begun(ground) else words
    assert struck, "no kill came in time"
    if process.returncode:
        ended = ground.operator(*words)
        assert ended.code == 0, ended.err
    assert ground.state() == backed_up
    assert (ground.awake(), ground.runs()) == ([], runs)
