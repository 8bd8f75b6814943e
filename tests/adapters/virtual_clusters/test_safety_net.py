"""What is deleted from a virtual cluster is sealed before, others who use it are named, and it comes back."""

import errno
import json
import os
import random
import re
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from werkzeug import Response

from maint.adapters.seal import AgeSeal
from maint.adapters.undo_store import SealedUndo
from maint.errors import NotWritten
from maint.model.virtual_cluster import joint_signature
from maint.steps import undo_records
from maint.steps.virtual_clusters import safety_net
from tests.adapters.virtual_clusters.operator import VcOperator, written
from tests.adapters.virtual_clusters.server import Api
from tests.adapters.virtual_clusters.test_temporary import killed_when

DAG = b"""from airflow import DAG
with DAG('nightly', schedule=None):
    CDEJobRunOperator(job_name='etl')
"""


DELETED = {
    "job etl": ("job", "delete", "--name", "etl"),
    "resource code": ("resource", "delete", "--name", "code"),
    "code/app.py": ("resource", "delete-file", "--name", "code", "--resource-path", "app.py"),
}


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
    found = re.search(r"`maint vc undo (\S+)(?: --vc \S+)?` brings it back until", said.err)
    assert found, said.err
    return found[1]


def newest_run(vc: VcOperator) -> str:
    return max(path.stem for path in (vc.state / "runs").glob("*.jsonl"))


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
    assert (
        "delete resource code with 2 files; 2 jobs mount it: etl, report; sealed first (1.0 kB for 30 days)" in said.out
    ), said.out


def test_a_job_that_no_list_shows_is_named_where_a_dag_calls_it(there):
    inner = {"name": "inner", "type": "airflow", "airflow": {"dagFile": "inner.py"}, "hidden": True}
    there.api.jobs["inner"] = {**inner, "mounts": [{"resourceName": "dags"}], "schedule": {"enabled": False}}
    there.api.add_file("dags", "nightly.py", DAG.replace(b"'etl'", b"'inner'"))
    there.api.add_file("dags", "inner.py", DAG)
    there.api.jobs["etl"]["hidden"] = True
    said = there("resource", "delete", "--name", "code", "--dry-run")
    assert "2 jobs mount it: report, etl" in said.out, said.out
    assert "delete job etl; 1 job calls it: inner;" in there("job", "delete", "--name", "etl", "--dry-run").out


def test_the_plan_of_a_deleted_job_names_the_dags_that_call_it(there):
    assert (
        "delete job etl; 1 job calls it: nightly; sealed first"
        in there("job", "delete", "--name", "etl", "--dry-run").out
    )
    there.api.files["dags"]["nightly.py"] = b"no python ("
    said = there("job", "delete", "--name", "report", "--dry-run")
    assert "; 1 job may call it: nightly (what its DAG calls cannot be told)" in said.out


@pytest.mark.parametrize("cut", [False, True])
def test_a_dag_whose_file_goes_before_it_is_read_stops_no_deletion_of_another_job(there, monkeypatch, cut):
    gone = json.dumps({"status": "error", "message": "file not found"})
    half = {"Content-Length": str(len(DAG))}
    broken = (lambda: Response(iter([DAG[:9]]), headers=half)) if cut else (lambda: Response(gone, 404))
    monkeypatch.setattr(there.api, "_file", lambda *_: broken())
    said = there("job", "delete", "--name", "report", "--yes")
    assert (said.code, "report" in there.api.jobs) == (0, False), said.err
    assert "nightly (what its DAG calls cannot be told)" in said.err


def test_a_deleted_job_comes_back_with_its_schedule_paused(there):
    said = there("job", "delete", "--name", "etl", "--yes")
    assert (said.code, "etl" in there.api.jobs) == (0, False)
    back = there("undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert there.api.jobs["etl"]["mounts"] == [{"resourceName": "code"}]
    assert there.api.jobs["etl"]["schedule"]["paused"] is True
    assert "job unpause --name etl" in back.err


@pytest.mark.parametrize("name", ["etl", "nightly"])
def test_a_job_that_comes_back_says_that_its_schedule_is_somebody_elses_now(there, name):
    there.api.jobs[name]["schedule"]["user"] = "deuser1"
    said = there("job", "delete", "--name", name, "--yes")
    back = there("undo", run_of(said), "--yes")
    assert f"; the schedule of {name} belonged to deuser1, and now to etl_user" in back.err


def test_a_job_without_a_schedule_has_no_owner_to_tell_of(there):
    there.api.jobs["etl"]["schedule"] = {"enabled": False, "user": "deuser1"}
    said = there("job", "delete", "--name", "etl", "--yes")
    assert "belonged" not in there("undo", run_of(said), "--yes").err


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
    assert "cannot be sealed" in said.err and "--no-safety-net" in said.err
    said = there("resource", "delete", "--name", "code", "--yes", "--no-safety-net", "it is in git")
    assert (said.code, "code" in there.api.files, there.sealed) == (0, False, [])
    assert "without a safety net (it is in git)" in said.err


def test_a_resource_of_which_the_api_shows_some_files_only_is_not_deleted_as_if_all_were_sealed(there):
    there.api.resources["code"]["signature"] = joint_signature([("app.py", "1" * 40), ("page-2.py", "2" * 40)])
    said = there("resource", "delete", "--name", "code", "--yes")
    assert (said.code, there.api.writes(), there.sealed) == (5, [], []), said.err
    assert "the API shows 2 files of resource code, and its signature speaks of others" in said.err
    said = there("resource", "delete-file", "--name", "code", "--resource-path", "app.py", "--yes")
    assert (said.code, there.api.writes()) == (0, ["DELETE /resources/code/app.py"]), said.err
    said = there("resource", "delete", "--name", "code", "--yes", "--no-safety-net", "it is in git")
    assert (said.code, "code" in there.api.files) == (0, False), said.err


@pytest.mark.parametrize("what", DELETED)
def test_nothing_is_deleted_where_it_could_not_be_sealed_first(there, monkeypatch, what):
    def full(*_):
        raise NotWritten("undo", OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(SealedUndo, "keep", full)
    said = there(*DELETED[what], "--yes")
    assert (said.code, f"{what.split('/')[0].split()[-1]} cannot be sealed" in said.err) == (5, True), said.err
    assert (there.api.writes(), "--no-safety-net REASON" in said.err) == ([], True), said.err
    said = there(*DELETED[what], "--yes", "--no-safety-net", "it is in git")
    assert (said.code, len(there.api.writes())) == (0, 1), said.err
    assert "is deleted without a safety net (it is in git)" in said.err


@pytest.mark.parametrize("what", DELETED)
def test_a_deletion_says_at_its_end_how_and_until_which_day_it_is_undone(there, what):
    begun = datetime.now(UTC)
    said = there(*DELETED[what], "--yes")
    days = {f"{moment + timedelta(days=30):%Y-%m-%d}" for moment in (begun, datetime.now(UTC))}
    way = re.search(r"`maint vc undo (\S+)` brings it back until (\S+)\n", said.err)
    assert way, said.err
    assert (way[1], way[2] in days) == (newest_run(there), True), said.err


@pytest.mark.parametrize("came", ["new.py", "app.py"])
def test_a_file_that_comes_while_the_others_are_sealed_is_not_deleted_with_them(there, monkeypatch, came):
    plain = Api._file

    def written_meanwhile(api, method, resource, path, body):
        answer = plain(api, method, resource, path, body)
        if path == "lib/data.bin":
            api.files[resource][came] = b"newer"
        return answer

    delete = ("resource", "delete", "--name", "code", "--yes")
    with monkeypatch.context() as busy:
        busy.setattr(Api, "_file", written_meanwhile)
        said = there(*delete)
    assert (said.code, there.api.writes(), f"\n  {came}" in said.err) == (5, [], True), said.err
    before = dict(there.api.files["code"])
    assert there("undo", run_of(there(*delete)), "--yes").code == 0
    assert there.api.files["code"] == before


def test_what_was_kept_for_its_time_goes_with_the_next_deletion(there, monkeypatch):
    monkeypatch.setattr(undo_records, "_DOUBTED", timedelta())
    first = run_of(there("job", "delete", "--name", "etl", "--yes"))
    monkeypatch.setattr(safety_net, "KEPT_FOR", timedelta(days=-2))
    second = run_of(there("job", "delete", "--name", "report", "--yes"))
    monkeypatch.setattr(safety_net, "KEPT_FOR", timedelta(days=30))
    records = there.state / "vc-undo"
    path = records / f"{first}.json"
    path.write_text(path.read_text().replace(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}", "2020-01-01"))
    assert there("resource", "delete", "--name", "code", "--yes").code == 0
    assert {one.stem for one in records.glob("*.json")}.isdisjoint({first, second})
    assert len(there.sealed) == 3
    said = there("undo", first, "--yes")
    assert (said.code, "30 days" in said.err) == (5, True)


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_kill_left_sealed_without_a_name_goes_in_time_and_nothing_else(there, monkeypatch, damaged):
    monkeypatch.setattr(undo_records, "_DOUBTED", timedelta())
    first, third = (run_of(there("job", "delete", "--name", name, "--yes")) for name in ("etl", "nightly"))
    named = set(there.sealed)
    there.api.add_file("code", "large.bin", bytes(8 * undo_records.CHUNK))
    killed_when(there, lambda: set(there.sealed) > named, "vc", "resource", "delete", "--name", "code", "--yes")
    left = set(there.sealed) - named
    there.api.files["code"].pop("large.bin")
    for path in (there.state / "undo").iterdir():
        os.utime(path, (0, 0))
    young = SealedUndo(there.state, AgeSeal()).keep(b"just sealed, and not written down yet")
    if damaged:
        (there.state / "host-files.json").write_text("[")
    second = run_of(there("job", "delete", "--name", "report", "--yes"))
    assert left and left.isdisjoint(there.sealed) == (not damaged)
    assert {*named, young} <= set(there.sealed)
    for run in (first, second, third):
        assert there("undo", run, "--yes").code == 0


def test_a_damaged_record_says_what_to_do(there):
    run = run_of(there("job", "delete", "--name", "etl", "--yes"))
    (there.state / "vc-undo" / f"{run}.json").write_text("{")
    said = there("undo", run, "--yes")
    assert (said.code, "is damaged" in said.err, "move the file away" in said.err) == (1, True, True), said.err


def test_the_record_of_another_run_brings_nothing_back(there):
    first, second = (run_of(there("job", "delete", "--name", name, "--yes")) for name in ("etl", "report"))
    records = there.state / "vc-undo"
    shutil.copy(records / f"{first}.json", records / f"{second}.json")
    said = there("undo", second, "--yes")
    assert (said.code, f"it is that of run {first}" in said.err, "etl" in there.api.jobs) == (1, True, False), said.err
    assert there("undo", first, "--yes").code == 0 and "etl" in there.api.jobs


def take_away(api: Api, what: str) -> None:
    """Delete it as somebody else would."""
    if what == "job etl":
        api.jobs.pop("etl", None)
    elif what == "resource code":
        api.resources.pop("code", None)
    else:
        api.files["code"].pop("app.py", None)


@pytest.mark.parametrize("what", DELETED)
def test_what_vanished_after_its_deletion_was_planned_is_no_failure_and_said(there, monkeypatch, what):
    plain = Api._routed

    def vanishing(api, request, path, body):
        answer = plain(api, request, path, body)
        if path in ("/jobs/etl", "/resources/code"):
            take_away(api, what)
        return answer

    monkeypatch.setattr(Api, "_routed", vanishing)
    said = there(*DELETED[what], "--yes")
    assert (said.code, f"{what} is not there" in said.err, there.api.writes()) == (0, True, []), said.err


@pytest.mark.parametrize("what", DELETED)
def test_what_vanished_before_its_deletion_was_taken_up_is_no_failure_and_said(there, monkeypatch, what):
    plain = Api._routed

    def refusing(api, request, path, body):
        return Response("no", 400) if request.method == "DELETE" else plain(api, request, path, body)

    with monkeypatch.context() as refused:
        refused.setattr(Api, "_routed", refusing)
        assert there(*DELETED[what], "--yes").code == 1
    take_away(there.api, what)
    there.api.sent.clear()
    said = there.maint("playbook", "resume", newest_run(there), "--yes")
    assert (said.code, f"{what} is not there" in said.err, there.api.writes()) == (0, True, []), said.err


def upload(vc: VcOperator, content: bytes, *more: str):
    """Upload `app.py` with other bytes."""
    return vc("resource", "upload", "--name", "code", "--local-path", written(vc.folder, "app.py", content), *more)


def test_a_file_that_an_upload_replaces_is_named_with_who_mounts_it_sealed_and_comes_back(there):
    said = upload(there, b"new", "--dry-run")
    assert "REPLACES app.py; 2 jobs mount it: etl, report; sealed first (9 B for 30 days)" in said.out, said.out
    said = upload(there, b"new", "--yes")
    assert (said.code, there.api.files["code"]["app.py"]) == (0, b"new"), said.err
    back = there("undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert there.api.files["code"]["app.py"] == b"print(1)\n"
    assert there("undo", run_of(back), "--yes").code == 0
    assert there.api.files["code"]["app.py"] == b"new"


def test_an_upload_of_what_is_there_already_seals_nothing(there):
    assert "REPLACES" not in upload(there, b"print(1)\n", "--dry-run").out
    assert upload(there, b"print(1)\n", "--yes").code == 0
    assert there.sealed == []


def test_an_upload_that_is_taken_up_does_not_take_its_own_file_for_somebody_elses(there, monkeypatch):
    plain, damaged = Api._file, [b"damaged on its way"]

    def damaging(api, method, resource, path, body):
        return plain(api, method, resource, path, damaged.pop() if method == "PUT" and damaged else body)

    monkeypatch.setattr(Api, "_file", damaging)
    failed = upload(there, b"new", "--yes")
    assert failed.code == 1, failed.err
    said = there.maint("playbook", "resume", newest_run(there), "--yes")
    assert (said.code, there.api.files["code"]["app.py"]) == (0, b"new"), said.err
    assert there("undo", run_of(said), "--yes").code == 0
    assert there.api.files["code"]["app.py"] == b"print(1)\n"


@pytest.mark.parametrize("place", ["app.py", "elsewhere.py"])
def test_a_local_file_that_cannot_be_read_is_told_before_anything_is_touched(there, place):
    unreadable = "/proc/self/clear_refs"  # whoever asks
    said = there("resource", "upload", "--name", "code", "--local-path", unreadable, "--resource-path", place, "--yes")
    assert (said.code, f"{unreadable} cannot be read" in said.err, "make it readable" in said.err) == (3, True, True)
    assert (there.api.writes(), there.sealed) == ([], [])


def test_a_local_file_that_vanished_before_a_resume_is_told(there, monkeypatch):
    plain = Api._file

    def damaging(api, method, resource, path, body):
        return plain(api, method, resource, path, b"damaged" if method == "PUT" else body)

    monkeypatch.setattr(Api, "_file", damaging)
    assert upload(there, b"new", "--yes").code == 1
    (there.folder / "app.py").unlink()
    said = there.maint("playbook", "resume", newest_run(there), "--yes")
    assert (said.code, "app.py cannot be read" in said.err) == (3, True), said.err


def test_undoing_an_upload_that_was_taken_up_brings_back_what_was_there_before_it(there, monkeypatch):
    plain, damaged = Api._file, [b"damaged on its way"]

    def damaging(api, method, resource, path, body):
        return plain(api, method, resource, path, damaged.pop() if method == "PUT" and damaged else body)

    monkeypatch.setattr(Api, "_file", damaging)
    assert upload(there, b"new", "--yes").code == 1
    there.api.files["code"]["app.py"] = b"theirs"
    said = there.maint("playbook", "resume", newest_run(there), "--yes")
    assert (said.code, there.api.files["code"]["app.py"]) == (0, b"new"), said.err
    run = run_of(said)
    assert there("undo", run, "--yes").code == 0
    assert there.api.files["code"]["app.py"] == b"print(1)\n"
    assert there("undo", run, "--yes").code == 0, "what somebody else put there meanwhile is kept, too"
    assert there.api.files["code"]["app.py"] == b"theirs"


def test_a_file_that_comes_back_leaves_the_others_of_its_resource_alone(there):
    run = run_of(upload(there, b"new", "--yes"))
    there.api.resources["code"]["retentionPolicy"] = "other"
    there.api.resources["code"]["hidden"] = True
    there.api.files["code"]["theirs.py"] = b"theirs"
    assert there("undo", run, "--yes").code == 0
    assert there.api.files["code"]["theirs.py"] == b"theirs"
    assert "DELETE /resources/code" not in there.api.writes()


def test_the_old_definition_of_a_changed_job_is_sealed_and_comes_back(there):
    words = ("job", "update", "--name", "etl", "--cron-expression", "5 5 * * *")
    assert "update job etl: schedule; sealed first" in there(*words, "--dry-run").out
    said = there(*words, "--yes")
    assert (said.code, there.api.jobs["etl"]["schedule"]["cronExpression"]) == (0, "5 5 * * *"), said.err
    back = there("undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert there.api.jobs["etl"]["schedule"]["cronExpression"] == "1 2 * * *"


def test_a_change_of_a_job_that_was_killed_after_it_keeps_what_was_before(there):
    words = ("vc", "job", "update", "--name", "etl", "--cron-expression", "5 5 * * *", "--yes")
    plain = Api._jobs

    def slow(api, method, parts, query, body):
        answer = plain(api, method, parts, query, body)
        if method == "PATCH":
            changed.set()
            time.sleep(2)
        return answer

    changed = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Api, "_jobs", slow)
        killed_when(there, changed.is_set, *words)
    said = there.maint("playbook", "resume", newest_run(there), "--yes")
    assert said.code == 0, said.err
    assert there("undo", run_of(said), "--yes").code == 0
    assert there.api.jobs["etl"]["schedule"]["cronExpression"] == "1 2 * * *"


def test_what_would_fill_the_disk_of_the_state_folder_is_refused_in_the_plan_and_a_reason_goes_without(
    there, monkeypatch
):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=32 * 1024 * 1024 + 500))
    for words in (("--dry-run",), ("--yes",)):
        said = there("resource", "delete", "--name", "code", *words)
        assert said.code == 5, said.err
        assert "would fill the disk of" in said.err and "--no-safety-net REASON" in said.err
    assert set(there.api.files["code"]) == {"app.py", "lib/data.bin"}
    said = there("resource", "delete", "--name", "code", "--yes", "--no-safety-net", "it is a copy")
    assert (said.code, "code" in there.api.files) == (0, False), said.err


def test_what_grows_too_large_while_it_is_sealed_is_refused_and_nothing_of_it_stays(there, monkeypatch):
    there.api.add_file("code", "noise.bin", random.Random(1).randbytes(2 * 1024 * 1024))
    usage, free = shutil.disk_usage("/"), iter([1 << 40])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=next(free, 1 << 20)))
    said = there("resource", "delete", "--name", "code", "--yes")
    assert said.code == 5, said.err
    assert "resource code cannot be sealed" in said.err and "would fill the disk of" in said.err
    assert "noise.bin" in there.api.files["code"]
    assert there.sealed == []


@pytest.mark.parametrize("odd", [["r"], [None], {"resourceName": "r"}, "r", 5])
def test_what_a_definition_spells_oddly_stops_neither_a_deletion_nor_the_way_back(vc, api, odd):
    api.jobs["dag"] = {"name": "dag", "type": "airflow", "airflow": {"dagFile": "a.py"}, "mounts": odd}
    api.jobs["old"] = {"name": "old", "type": "spark", "schedule": odd, "mounts": odd}
    said = vc("job", "delete", "--name", "old", "--yes")
    assert said.code == 0, said.err
    run = vc.maint("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    said = vc("undo", run, "--yes")
    assert (said.code, "old" in api.jobs) == (0, True), said.err


def test_undoing_a_run_that_replaced_a_file_time_and_again_brings_back_what_was_there_before_it(there, tmp_path):
    def put(*contents: bytes) -> dict[str, object]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        files = [folder / "app.py", folder / "more.py"][: len(contents)]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        return {"name": "Put", "do": "resource.upload", "with": {"resource": "code", "files": [*map(str, files)]}}

    there.api.add_file("code", "more.py", b"more\n")
    steps = [put(b"1", b"1"), put(b"2"), put(b"3", b"3")]
    mine = tmp_path / "mine.yaml"
    mine.write_text(json.dumps({"name": "mine", "summary": "Mine.", "steps": steps}))
    said = there.maint("playbook", "run", str(mine), "--yes")
    assert said.code == 0, said.err
    back = there("undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert there.api.files["code"]["app.py"] == b"print(1)\n"
    assert there.api.files["code"]["more.py"] == b"more\n"
