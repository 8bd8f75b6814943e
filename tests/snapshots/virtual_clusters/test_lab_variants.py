"""Restores into the lab's virtual cluster when what is there is more, or other, than a snapshot holds."""

from collections.abc import Iterator
from typing import Any

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
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
    assert drift(operator) == []


def test_what_a_job_has_more_than_the_deleted_one_goes_when_the_deletion_is_undone(operator: Operator) -> None:
    call(operator, "job", "create", "--name", "plain", *BARE)
    call(operator, "job", "delete", "--name", "plain")
    deletion = last_run(operator)
    call(operator, "job", "create", "--name", "plain", *BARE, *MORE)
    call(operator, "undo", deletion)
    assert set(job(operator, "plain")["spark"]) == {"file", "logLevel"}
