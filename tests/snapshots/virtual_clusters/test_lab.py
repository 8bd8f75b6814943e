"""Backup, wipe, restore, backup against the lab's virtual cluster, also with kill -9 in between."""

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.model.virtual_cluster import normal_job, normal_resource
from tests.campaigns.size import size
from tests.steps.operator import Operator

VC = "Default-VC-abc12345"
RESTORE = ("vc", "restore", "--confirm", VC)


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """An operator at a lab whose virtual cluster holds the example set."""
    switches = {"vc-env-seconds": "0.2", "vc-dag-seconds": "0.5", "vc-unknown-keys": "keep"}
    with Lab(tmp_path / "lab", Options(switches=switches)) as lab:
        yield Operator(lab)


def call(operator: Operator, *words: str) -> Any:
    said = operator("vc", *words, "--yes")
    assert said.code == 0, said.err
    return said


def listed(operator: Operator, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = operator("vc", what, "list", "-o", "json").json[f"{what}s"]
    return found


def state(operator: Operator) -> tuple[Any, Any]:
    jobs = {job["name"]: normal_job(job, pauses=False) for job in listed(operator, "job")}
    return jobs, {one["name"]: (normal_resource(one), one.get("signature")) for one in listed(operator, "resource")}


def asleep(operator: Operator) -> bool:
    return all(
        job.get("schedule", {}).get("paused") is True
        for job in listed(operator, "job")
        if job["type"] == "airflow" or job["schedule"]["enabled"]
    )


def wipe(operator: Operator, *, resources: bool = True) -> None:
    assert operator.lab.service
    cluster = operator.lab.service.cluster(VC)
    with cluster.lock:
        for job in list(cluster.jobs.values()):
            cluster.jobs.drop(job["name"])
        for resource in list(cluster.resources.values()) if resources else ():
            cluster.files.drop_all(resource["name"])
            cluster.resources.drop(resource["name"])
    assert listed(operator, "job") == [] and (listed(operator, "resource") == []) is resources


def generate(operator: Operator, folder: Path, count: int) -> None:
    """Make jobs and files with all that is awkward."""
    chance = random.Random(7)
    contents = {"crlf.py": b"print(1)\r\n", "empty": b"", "binary.jar": bytes(range(256)) * 5000, "ümlaut.txt": b"x"}
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for number in range(3):
        call(operator, "resource", "create", "--name", f"made-{number}")
        paths = [word for name in contents for word in ("--local-path", str(folder / name))]
        call(operator, "resource", "upload", "--name", f"made-{number}", *paths)
    for number in range(count):
        words = ["--name", f"Made_job-{number}", "--type", "spark", "--application-file", "crlf.py"]
        words += ["--arg", f"ärgument-{number} 日本", "--conf", f"spark.a={chance.random()}", "--num-executors", "2"]
        words += ["--mount-1-resource", f"made-{number % 3}", "--mount-1-prefix", "sub/folder"]
        if number % 2:
            words += [
                "--schedule-enabled",
                "--cron-expression",
                "0 3 * * *",
                "--schedule-start",
                "2031-01-01T00:00:00Z",
            ]
        call(operator, "job", "create", *words)


def test_backup_wipe_restore_backup_compares_equal(operator: Operator, tmp_path: Path) -> None:
    generate(operator, tmp_path / "files", size(4, 12))
    before = state(operator)
    assert operator("vc", "backup").code == 0
    wipe(operator)
    runs = len(listed(operator, "run"))
    said = operator(*RESTORE)
    assert said.code == 0, said.err
    assert state(operator) == before
    assert asleep(operator)
    assert len(listed(operator, "run")) == runs
    again = operator("vc", "backup", "-o", "json")
    assert again.code == 0, again.err
    first, second = operator("backup", "list", "-o", "json").json["snapshots"]
    told = [{**one["virtual_clusters"][0]} for one in (first, second)]
    assert told[0] == told[1]


def test_killed_at_random_a_restore_is_taken_up_to_the_same_end(operator: Operator) -> None:
    before = state(operator)
    assert operator("vc", "backup").code == 0
    chance = random.Random()
    for _ in range(size(1, 20)):
        wipe(operator)
        runs = len(listed(operator, "run"))
        process = operator.fork(*RESTORE)
        requests = len(operator.sent) + chance.randrange(1, 28)
        limit = time.monotonic() + 200
        while len(operator.sent) < requests and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        resumed = operator("playbook", "resume")
        assert resumed.code == 0, resumed.err
        assert state(operator) == before
        assert asleep(operator)
        assert len(listed(operator, "run")) == runs


def without_its_cluster(operator: Operator) -> None:
    """Take a backup of the site while its virtual cluster cannot be reached."""
    config = Path(operator.config)
    text = config.read_text()
    broken = re.sub(r'connect_to: "127.0.0.1:\d+"', 'connect_to: "127.0.0.1:9"', text)
    assert broken != text
    config.write_text(broken)
    said = operator("backup", "create", "--yes", "-o", "json")
    config.write_text(text)
    assert said.code == 7, said.err


def test_what_a_backup_had_to_leave_out_is_told_and_hides_no_other_difference(operator: Operator) -> None:
    operator.lab.world.redaction = False  # the window is not the matter
    assert operator("backup", "create", "--yes").code == 0
    without_its_cluster(operator)
    first, second = operator("backup", "list", "-o", "json").json["snapshots"]
    assert second["restorable"] and second["virtual_clusters"][0]["problems"]
    whole, partly = first["id"], second["id"]
    for words in (("diff", whole, partly), ("diff", partly, whole), ("drift", partly)):
        said = operator("backup", *words, "-o", "json")
        assert (said.code, said.json["same"]) == (0, True), said.err
        (cluster,) = said.json["virtual_clusters"]
        assert cluster["not_compared"].startswith(f"it could not be read when {partly} was taken: "), cluster
        assert operator("backup", *words, "--exit-code").code == 7


def test_virtual_clusters_alone_are_proven_as_deep_as_all_else_and_compared_and_have_no_configuration_to_compare(
    operator: Operator,
) -> None:
    config, second = Path(operator.config), operator.lab.folder / "second"
    config.write_text(config.read_text().replace("    backup:\n", f"    backup:\n      copies: ['{second}']\n"))
    assert operator("vc", "backup").code == 0
    for words in ((), ("--store", str(second)), ("--rebuild",)):
        (one,) = operator("backup", "list", *words, "-o", "json").json["snapshots"]
        assert (one["verified"]["level"], one["verified"]["result"]) == (3, "verified"), words
    assert one["restorable"] is False
    assert [part["restorable"] for part in one["parts"] if part["name"].startswith("vc/")] == [True]
    assert operator("backup", "drift", one["id"]).code == 5
    assert operator("backup", "drift").code == 5
    assert operator("restore", "plan", "--snapshot", one["id"]).code == 5
    assert operator("vc", "job", "delete", "--name", "daily-vacuum", "--yes").code == 0
    assert operator("vc", "backup").code == 0
    other = operator("backup", "list", "-o", "json").json["snapshots"][1]
    assert operator("backup", "diff", one["id"], one["id"], "--exit-code").code == 0
    said = operator("backup", "diff", one["id"], other["id"], "--exit-code", "-o", "json")
    assert said.code == 8
    assert said.json["virtual_clusters"][0]["name"] == VC
    assert {found["name"] for found in said.json["virtual_clusters"][0]["differences"]} == {"daily-vacuum"}
