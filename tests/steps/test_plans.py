"""What a plan says is true when its turn comes: nothing is told of what an earlier step of the same plan changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.operator import Operator


@pytest.fixture(scope="module")
def still(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a manager that nothing changes."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("still") / "lab")) as lab:
        yield Operator(lab)


@pytest.fixture
def lines(still: Operator, tmp_path: Path):
    """Return what the plan of a playbook says of each step, given what each does and with which arguments."""

    def plan(*steps: str) -> list[str]:
        book = tmp_path / "own.yaml"
        written = [f"  - {{name: N, do: {kind}, with: {{{given}}}}}" for kind, _, given in map(parts, steps)]
        book.write_text("name: own\nsummary: Steps in a row.\nsteps:\n" + "\n".join(written) + "\n")
        said = still("playbook", "plan", str(book), "-o", "json")
        assert said.code == 0, said.err
        return [f"{one['effect']} {one['summary']}" for one in said.json["plan"]["actions"]]

    return plan


def parts(step: str) -> tuple[str, str, str]:
    return step.partition(" ")


def test_a_plan_that_stops_a_cluster_does_not_say_that_starting_it_is_nothing_to_do(lines):
    stop, start = "cluster.stop cluster: base", "cluster.start cluster: base"
    assert lines(stop, start)[1] == "CHANGE start cluster base (as step 1 leaves it)"
    assert lines(start) == ["CHANGE start cluster base (nothing to do)"]


def test_a_service_that_another_step_moves_is_told_as_that_one_leaves_it_and_no_other_is(lines):
    hdfs, yarn = "cluster: base, service: hdfs", "cluster: base, service: yarn"
    said = lines(f"service.stop {hdfs}", f"service.stop {yarn}", f"service.start {hdfs}", "cluster.start cluster: base")
    assert said == [
        "CHANGE stop service hdfs of base (it is STARTED)",
        "CHANGE stop service yarn of base (it is STARTED)",
        "CHANGE start service hdfs of base (as step 1 leaves it)",
        "CHANGE start cluster base (as step 3 leaves it)",
    ]


def test_the_second_change_of_a_setting_is_told_from_what_the_first_leaves(lines):
    setting = "config.set service: hdfs, name: {}, value: '{}'".format
    said = lines(setting("dfs_replication", 2), setting("dfs_replication", 5), "service.restart service: hdfs")
    assert said == [
        "CHANGE dfs_replication of service hdfs of base: unset (default 3) → '2'",
        "CHANGE dfs_replication of service hdfs of base: as step 1 leaves it → '5'",
        "CHANGE restart service hdfs of base (it is STARTED)",  # which no setting changes
    ]
    on, off = (setting("hadoop_security_authorization", value) for value in ("true", "false"))
    assert lines(on) == ["READ hadoop_security_authorization of service hdfs of base: → 'true' (it is so already)"]
    by_default = "→ '3', its default (it is so already)"
    assert lines(setting("dfs_replication", 3)) == [f"READ dfs_replication of service hdfs of base: {by_default}"]
    there_and_back = "CHANGE hadoop_security_authorization of service hdfs of base: → 'true' (as step 1 leaves it)"
    assert lines(off, setting("dfs_replication", 2), on)[2] == there_and_back


def test_a_schedule_that_an_earlier_step_wakes_is_not_said_to_be_paused(lines):
    pause = "job.pause job: orders-ingest, paused: {}".format
    waking, pausing = lines(pause("false"), pause("true"))
    assert "go on (a start in the past fires at once) of job orders-ingest; but no schedule of it is on" in waking
    assert pausing == "CHANGE pause the schedule of job orders-ingest (as step 1 leaves it)"
    assert lines(pause("true")) == ["CHANGE pause the schedule of job orders-ingest (it is so already)"]


def test_what_an_earlier_step_creates_is_not_said_to_be_absent(lines):
    create = "resource.create resource: new, type: files"
    delete = "resource.delete resource: new, if_exists: true"
    assert lines(create, delete)[1] == "CHANGE delete resource new (as step 1 leaves it)"
    assert lines(delete) == ["CHANGE delete resource new (it is not there: nothing to delete)"]
