"""Restores into the lab's virtual cluster when what is there is more, or other, than a snapshot holds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from maint.errors import WorkFailed
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.steps.virtual_clusters import restorer, safety_net
from tests.steps.operator import Operator, Said

VC = "Default-VC-abc12345"
SWITCHES = {"vc-env-seconds": "0.2", "vc-dag-seconds": "0.5", "vc-unknown-keys": "keep"}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a lab whose virtual cluster holds the example set; each test takes a snapshot of its own."""
    with Lab(tmp_path_factory.mktemp("variants") / "lab", Options(switches=SWITCHES)) as lab:
        yield Operator(lab)


def call(operator: Operator, *words: str, code: int = 0) -> Said:
    said = operator("vc", *words, "--yes")
    assert said.code == code, said.err
    return said


def job(operator: Operator, name: str) -> dict[str, Any]:
    found: dict[str, Any] = operator("vc", "job", "describe", "--name", name, "-o", "json").json["job"]
    return found


def drift(operator: Operator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = operator("vc", "drift", "-o", "json").json["differences"]
    return found


def drift_but_for_rest(operator: Operator) -> list[dict[str, Any]]:
    """Return what differs, but for the DAGs that a restore has paused."""
    dags = ("nightly-pipeline", "hourly")
    return [one for one in drift(operator) if (one["name"] not in dags) or one["property"] != "schedule.paused"]


def backup(operator: Operator) -> None:
    assert operator("vc", "backup").code in (0, 7)


def replace(operator: Operator, code: int = 0) -> Said:
    return call(operator, "restore", "--confirm", VC, "--on-conflict", "replace", code=code)


BARE = ("--type", "spark", "--application-file", "local:/x.py")
MORE = ("--arg", "drop", "--conf", "spark.executor.instances=500", "--num-executors", "99", "--executor-memory", "64g")


def last_run(operator: Operator) -> str:
    run: str = operator("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    return run


def test_what_a_job_has_more_than_its_snapshot_goes_when_it_is_replaced(operator: Operator) -> None:
    call(operator, "job", "create", "--name", "bare", *BARE)
    backup(operator)
    call(operator, "job", "delete", "--name", "bare")
    call(operator, "job", "create", "--name", "bare", *BARE, *MORE)
    assert drift(operator)
    replace(operator)
    assert set(job(operator, "bare")["spark"]) == {"file", "logLevel"}
    assert drift_but_for_rest(operator) == []


def test_what_a_job_has_more_than_the_deleted_one_goes_when_the_deletion_is_undone(operator: Operator) -> None:
    call(operator, "job", "create", "--name", "plain", *BARE)
    call(operator, "job", "delete", "--name", "plain")
    deletion = last_run(operator)
    call(operator, "job", "create", "--name", "plain", *BARE, *MORE)
    call(operator, "undo", deletion)
    assert set(job(operator, "plain")["spark"]) == {"file", "logLevel"}


DAG = """\
from datetime import datetime, timezone

from airflow import DAG

with DAG(dag_id="{name}", schedule="{cron}", start_date=datetime(2031, 1, 1, tzinfo=timezone.utc), catchup=False,
         is_paused_upon_creation=True):
    pass
"""


def cron(operator: Operator, name: str) -> str:
    found: str = job(operator, name)["schedule"].get("cronExpression", "")
    return found


def await_cron(operator: Operator, name: str, wanted: str) -> None:
    while cron(operator, name) != wanted:
        time.sleep(0.1)


def upload_dag(operator: Operator, folder: Path, name: str, when: str) -> Said:
    path = folder / f"{name}.py"
    path.write_text(DAG.format(name=name, cron=when))
    return call(operator, "resource", "upload", "--name", f"{name}-dags", "--local-path", str(path))


def make_dag(operator: Operator, folder: Path, name: str) -> None:
    call(operator, "resource", "create", "--name", f"{name}-dags")
    upload_dag(operator, folder, name, "0 2 * * *")
    words = ("--dag-file", f"{name}.py", "--mount-1-resource", f"{name}-dags")
    call(operator, "job", "create", "--name", name, "--type", "airflow", *words)
    await_cron(operator, name, "0 2 * * *")


def test_a_replaced_dag_runs_by_the_text_of_the_snapshot_and_an_upload_or_its_undoing_says_that_it_must_be_updated(
    operator: Operator, tmp_path: Path
) -> None:
    make_dag(operator, tmp_path, "hourly")
    backup(operator)
    said = upload_dag(operator, tmp_path, "hourly", "17 5 * * *")
    told = "`maint vc job update --name hourly`"
    assert told in said.err
    assert told in call(operator, "undo", last_run(operator)).err
    upload_dag(operator, tmp_path, "hourly", "17 5 * * *")
    call(operator, "job", "update", "--name", "hourly")
    await_cron(operator, "hourly", "17 5 * * *")
    assert [one["property"] for one in drift(operator) if one["name"] == "hourly"] == ["schedule.cronExpression"]
    replace(operator)
    assert (cron(operator, "hourly"), drift_but_for_rest(operator)) == ("0 2 * * *", [])


@contextmanager
def switched(operator: Operator, name: str, value: str, back: str) -> Iterator[None]:
    operator.lab.switch(name, value)
    yield
    operator.lab.switch(name, back)


def names(operator: Operator) -> set[str]:
    return {one["name"] for one in operator("vc", "job", "list", "-o", "json").json["jobs"]}


def test_a_job_that_the_server_does_not_take_is_left_out_or_what_was_there_put_back_and_the_others_come_back(
    operator: Operator,
) -> None:
    call(operator, "resource", "create", "--name", "repository")
    words = ("--type", "spark", "--application-file", "x.py", "--mount-1-resource", "repository")
    for name in ("orphan", "changing"):
        call(operator, "job", "create", "--name", name, *words)
    call(operator, "job", "create", "--name", "sister", *BARE)
    call(operator, "resource", "delete", "--name", "repository")
    backup(operator)
    for name in ("orphan", "sister", "nightly-pipeline", "changing"):
        call(operator, "job", "delete", "--name", name)
    call(operator, "job", "create", "--name", "changing", *BARE)
    said = replace(operator, code=7)
    assert "job changing is left out" in said.err
    assert job(operator, "changing")["spark"]["file"] == "local:/x.py"
    assert "job orphan is left out" in said.err
    assert "repository is no resource here (a git repository?)" in said.err
    assert {"sister", "nightly-pipeline"} <= names(operator)
    with switched(operator, "vc-missing-mount", "accept", "refuse"):
        said = call(operator, "restore", "--confirm", VC, "--on-conflict", "skip")
    assert "job orphan needs repository: no resource here" in said.err
    for name in ("orphan", "changing"):
        call(operator, "job", "delete", "--name", name)


def test_an_environment_whose_requirements_no_call_gives_holds_back_its_jobs_alone(
    operator: Operator, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("nothing==0\n")
    call(operator, "resource", "create", "--name", "wheels", "--type", "python-env")
    call(operator, "resource", "upload", "--name", "wheels", "--local-path", str(tmp_path / "requirements.txt"))
    call(operator, "job", "create", "--name", "needy", *BARE, "--python-env-resource-name", "wheels")
    with switched(operator, "vc-requirements-download", "refuse", "allow"):
        backup(operator)
    for what, name in (("job", "needy"), ("job", "daily-vacuum"), ("resource", "wheels")):
        call(operator, what, "delete", "--name", name)
    said = call(operator, "restore", "--confirm", VC, "--on-conflict", "skip", "--timeout", "100s", code=7)
    assert "wheels/requirements.txt: the snapshot does not hold it" in said.err
    assert "job needy is held back: it needs environment wheels" in said.err
    assert "daily-vacuum" in names(operator)


def test_a_deleted_dag_comes_back_asleep_though_it_cannot_be_paused_until_it_is_read(
    operator: Operator, tmp_path: Path
) -> None:
    make_dag(operator, tmp_path, "monthly")
    call(operator, "job", "delete", "--name", "monthly")
    with switched(operator, "vc-pause-unparsed", "refused", "works"):
        call(operator, "undo", last_run(operator))
    assert job(operator, "monthly")["schedule"]["paused"] is True


RACING = DAG.replace("\n         is_paused_upon_creation=True", "").replace("2031", "2024")


@pytest.fixture
def read_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that reads files of DAGs within half a second, as the lab does, shows what they started in two."""
    for module in (restorer, safety_net):
        monkeypatch.setattr(module, "PARSED", 2.0)


def make_racing(operator: Operator, folder: Path, name: str, *, paused: bool = True) -> None:
    path = folder / f"{name}.py"
    path.write_text(RACING.format(name=name, cron="* * * * *"))
    call(operator, "resource", "create", "--name", f"{name}-dags")
    call(operator, "resource", "upload", "--name", f"{name}-dags", "--local-path", str(path))
    words = ("--dag-file", f"{name}.py", "--mount-1-resource", f"{name}-dags")
    call(operator, "job", "create", "--name", name, "--type", "airflow", *words)
    if paused:
        call(operator, "job", "pause", "--name", name)


def test_an_undo_that_may_start_a_dag_says_so_before_and_tells_its_runs_after(
    operator: Operator, tmp_path: Path, read_soon: None
) -> None:
    make_racing(operator, tmp_path, "racer")
    call(operator, "job", "delete", "--name", "racer")
    deletion = last_run(operator)
    assert "may START A RUN" in operator("vc", "undo", deletion, "--dry-run").out
    with switched(operator, "vc-pause-unparsed", "overruled", "works"):
        said = call(operator, "undo", deletion)
    assert "DAG racer started by itself before it was paused: `maint vc run kill --id" in said.err
    assert job(operator, "racer")["schedule"]["paused"] is True


def test_an_undo_that_is_taken_up_before_its_dag_was_paused_tells_the_runs_that_this_started(
    operator: Operator, tmp_path: Path, read_soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_racing(operator, tmp_path, "early")
    call(operator, "job", "delete", "--name", "early")

    def lost(*_: Any) -> None:
        while not operator("vc", "run", "list", "--filter", "job[eq]early", "-o", "json").json["runs"]:
            time.sleep(0.1)
        raise WorkFailed("the machine is gone", hint="none")

    with monkeypatch.context() as patch:
        patch.setattr(safety_net, "rest_for_good", lost)
        call(operator, "undo", last_run(operator), code=1)
    said = operator("playbook", "resume", last_run(operator), "--yes")
    assert (said.code, job(operator, "early")["schedule"]["paused"]) == (0, True), said.err
    assert "DAG early started by itself before it was paused: `maint vc run kill --id" in said.err


def test_a_restored_dag_that_its_own_file_wakes_rests_again_and_so_one_whose_file_was_not_read_for_the_snapshot(
    operator: Operator, tmp_path: Path, read_soon: None
) -> None:
    make_racing(operator, tmp_path, "sleeper")
    with switched(operator, "vc-dag-seconds", "600", SWITCHES["vc-dag-seconds"]):
        make_racing(operator, tmp_path, "fresh", paused=False)
        backup(operator)
    for name in ("sleeper", "fresh"):
        call(operator, "job", "delete", "--name", name)
    words = ("--on-conflict", "skip", "--accept-dag-race")
    with switched(operator, "vc-pause-unparsed", "overruled", "works"):
        said = call(operator, "restore", "--confirm", VC, *words, code=7)
    for name in ("sleeper", "fresh"):
        assert f"DAG {name} started by itself before it was paused: `maint vc run kill --id" in said.err
    assert job(operator, "sleeper")["schedule"]["paused"] is True
    schedule = job(operator, "fresh")["schedule"]
    assert (schedule["cronExpression"], schedule["paused"]) == ("* * * * *", True)
