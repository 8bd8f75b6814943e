"""What is deleted from a virtual cluster is sealed before, others who use it are named, and it comes back."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from maint.steps.virtual_clusters import safety_net
from tests.adapters.virtual_clusters.operator import VcOperator
from tests.adapters.virtual_clusters.server import Api

DAG = b"""from airflow import DAG
with DAG('nightly', schedule=None):
    CDEJobRunOperator(job_name='etl')
"""


@pytest.fixture
def there(vc: VcOperator) -> VcOperator:
    """Two jobs that mount a resource, and a DAG that calls one of them."""
    vc.api.add_file("code", "app.py", b"print(1)\n")
    vc.api.add_file("code", "lib/data.bin", b"\0" * 1000)
    vc.api.add_file("dags", "nightly.py", DAG)
    for name in ("etl", "report"):
        vc.api.jobs[name] = {
            "name": name,
            "type": "spark",
            "mounts": [{"resourceName": "code"}],
            "spark": {"file": "a"},
        }
        vc.api.jobs[name]["schedule"] = {"enabled": True, "cronExpression": "1 2 * * *"}
    airflow = {"name": "nightly", "type": "airflow", "airflow": {"dagFile": "nightly.py"}}
    vc.api.jobs["nightly"] = {**airflow, "mounts": [{"resourceName": "dags"}], "schedule": {"enabled": False}}
    return vc


def run_of(said) -> str:
    """Return the run that the last words name."""
    found = re.search(r"`maint vc undo (\S+)` brings it back until", said.err)
    assert found, said.err
    return found[1]


def test_a_deleted_resource_comes_back_with_its_files(there):
    before = dict(there.api.files["code"])
    said = there("resource", "delete", "--name", "code", "--yes")
    assert (said.code, "code" in there.api.files) == (0, False), said.err
    back = there("undo", run_of(said)[:18], "--yes")
    assert back.code == 0, back.err
    assert there.api.files["code"] == before
    assert there.sealed == []


def test_the_plan_of_a_deleted_resource_names_who_mounts_it(there):
    said = there("resource", "delete", "--name", "code", "--dry-run")
    assert "delete resource code with 2 files; 2 jobs mount it: etl, report; sealed first" in said.out


def test_the_plan_of_a_deleted_job_names_the_dags_that_call_it(there):
    assert (
        "delete job etl; 1 job calls it: nightly; sealed first"
        in there("job", "delete", "--name", "etl", "--dry-run").out
    )
    there.api.files["dags"]["nightly.py"] = b"no python ("
    said = there("job", "delete", "--name", "report", "--dry-run")
    assert "nightly (what its DAG calls cannot be told)" in said.out


def test_a_deleted_job_comes_back_with_its_schedule_paused(there):
    said = there("job", "delete", "--name", "etl", "--yes")
    assert (said.code, "etl" in there.api.jobs) == (0, False)
    back = there("undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert there.api.jobs["etl"]["mounts"] == [{"resourceName": "code"}]
    assert there.api.jobs["etl"]["schedule"]["paused"] is True
    assert "job unpause --name etl" in back.err


def test_a_deleted_file_comes_back_alone(there):
    said = there("resource", "delete-file", "--name", "code", "--resource-path", "app.py", "--yes")
    assert there.api.files["code"] == {"lib/data.bin": b"\0" * 1000}
    there.api.files["code"]["later.py"] = b"later"
    assert there("undo", run_of(said), "--yes").code == 0
    assert set(there.api.files["code"]) == {"app.py", "lib/data.bin", "later.py"}


def test_what_stands_in_the_place_of_the_deleted_is_sealed_before_it_is_replaced(there):
    run = run_of(there("job", "delete", "--name", "etl", "--yes"))
    theirs = {"name": "etl", "type": "spark", "spark": {"file": "theirs"}, "schedule": {"enabled": False}}
    there.api.jobs["etl"] = dict(theirs)
    back = there("undo", run, "--yes")
    assert there.api.jobs["etl"]["spark"]["file"] == "a"
    assert there("undo", run_of(back), "--yes").code == 0
    assert there.api.jobs["etl"]["spark"]["file"] == "theirs"


def test_where_it_cannot_be_sealed_it_is_refused_unless_a_reason_is_given(there, monkeypatch):
    plain = Api._file

    def lying(api, method, resource, path, body):
        answer = plain(api, method, resource, path, body)
        if method == "GET" and path == "app.py":
            answer.set_data(b"other")
        return answer

    monkeypatch.setattr(Api, "_file", lying)
    said = there("resource", "delete", "--name", "code", "--yes")
    assert (said.code, there.api.writes(), there.sealed) == (5, [], []), said.err
    assert "could not be sealed" in said.err and "--no-safety-net" in said.err
    said = there("resource", "delete", "--name", "code", "--yes", "--no-safety-net", "it is in git")
    assert (said.code, "code" in there.api.files, there.sealed) == (0, False, [])
    assert "without a safety net (it is in git)" in said.err


def test_what_was_kept_for_its_time_goes_with_the_next_deletion(there, monkeypatch):
    first = run_of(there("job", "delete", "--name", "etl", "--yes"))
    monkeypatch.setattr(safety_net, "KEPT_FOR", timedelta(days=-1))
    second = run_of(there("job", "delete", "--name", "report", "--yes"))
    monkeypatch.undo()
    records = there.state / "vc-undo"
    path = records / f"{first}.json"
    path.write_text(path.read_text().replace(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}", "2020-01-01"))
    assert there("resource", "delete", "--name", "code", "--yes").code == 0
    assert {one.stem for one in records.glob("*.json")}.isdisjoint({first, second})
    assert len(there.sealed) == 3
    said = there("undo", first, "--yes")
    assert (said.code, "30 days" in said.err) == (5, True)


def test_a_damaged_record_says_what_to_do(there):
    run = run_of(there("job", "delete", "--name", "etl", "--yes"))
    (there.state / "vc-undo" / f"{run}.json").write_text("{")
    said = there("undo", run, "--yes")
    assert (said.code, "is damaged" in said.err, "move the file away" in said.err) == (1, True, True), said.err
