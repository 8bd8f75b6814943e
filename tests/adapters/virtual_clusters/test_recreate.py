"""Recreating a job: the seed's order of operations, and the way back when it fails."""

import errno
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.undo_store import SealedUndo
from maint.errors import NotKept, NotWritten
from maint.model.virtual_cluster import joint_signature
from maint.steps.virtual_clusters import recreate
from tests.adapters.virtual_clusters.operator import VcOperator, written
from tests.adapters.virtual_clusters.server import Api, _error
from tests.adapters.virtual_clusters.test_temporary import killed_when
from tests.steps.operator import environment
from tests.steps.test_shared_state import lapse

SCHEDULE = {"enabled": True, "cronExpression": "1 2 * * *", "start": "2026-01-01T00:00:00.000Z", "user": "etl_user"}


@pytest.fixture
def there(vc: VcOperator) -> VcOperator:
    """A virtual cluster with a scheduled job and its resource."""
    vc.api.jobs["etl"] = {
        "name": "etl",
        "type": "spark",
        "created": "2026-01-01T00:00:00Z",
        "mounts": [{"resourceName": "code"}],
        "spark": {"file": "old.py", "future": [1]},
        "schedule": dict(SCHEDULE),
    }
    vc.api.add_file("code", "old.py", b"old\r\n")
    vc.api.add_file("code", "lib/data.bin", b"\0" * 1000)
    vc.api.add_file("code", "empty", b"")
    return vc


def words(vc: VcOperator, *more: str) -> list[str]:
    """Return the command that recreates the job."""
    path = written(vc.folder, "new.py", b'print("new")\n')
    given = ["job=etl", "resource=code", f"files={path}", *more]
    return ["playbook", "run", "recreate-job", "--yes", *(word for pair in given for word in ("--set", pair))]


def test_the_order_is_that_of_the_contract_and_the_resource_is_made_anew_as_it_was_defined(there):
    there.api.resources["code"] |= {"hidden": True, "future": [1]}
    said = there.maint(*words(there))
    assert said.code == 0, said.err
    assert there.api.writes() == [
        "DELETE /jobs/etl",
        "DELETE /resources/code",
        "POST /resources",
        "PUT /resources/code/new.py",
        *(f"PUT /resources/code/{path}" for path in ("empty", "lib/data.bin", "old.py")),
        "POST /jobs",
        "POST /jobs/etl/run",
    ]
    job = there.api.jobs["etl"]
    assert (job["spark"]["future"], job["schedule"]["enabled"], job["schedule"].get("paused", False)) == (
        [1],
        True,
        False,
    )
    anew = there.api.resources["code"]
    assert (anew.get("hidden"), anew.get("future")) == (True, [1])


OLD = {"old.py": b"old\r\n", "lib/data.bin": b"\0" * 1000, "empty": b""}
NEW = {**OLD, "new.py": b'print("new")\n'}


def test_files_that_are_not_replaced_stay_and_those_that_are_come_back_for_a_month(there):
    path = written(there.folder, "old.py", b"newer")
    given = ["job=etl", "resource=code", f"files={path}"]
    words_ = [word for pair in given for word in ("--set", pair)]
    said = there.maint("playbook", "run", "recreate-job", "--yes", *words_)
    assert said.code == 0, said.err
    assert there.api.files["code"] == {**OLD, "old.py": b"newer"}
    run = re.search(r"`maint vc undo (\S+)` brings it back", said.err)
    assert run, said.err
    back = there("undo", run[1], "--yes")
    assert back.code == 0, back.err
    assert there.api.files["code"] == OLD
    assert there.api.jobs["etl"]["schedule"]["enabled"] is True


def test_the_undo_brings_the_old_definition_back_and_takes_the_new_files_away_sealed(there):
    said = there.maint(*words(there))
    run = re.search(r"`maint vc undo (\S+)` brings it back", said.err)
    assert (said.code, run is not None) == (0, True), said.err
    assert run and there.api.files["code"] == NEW
    there.api.jobs["etl"]["spark"] = {"file": "theirs.py"}
    back = there("undo", run[1], "--yes")
    assert (back.code, there.api.files["code"]) == (0, OLD), back.err
    assert there.api.jobs["etl"]["spark"] == {"file": "old.py", "future": [1]}
    again = re.search(r"`maint vc undo (\S+)` brings it back", back.err)
    assert again, back.err
    assert there("undo", again[1], "--yes").code == 0
    assert there.api.files["code"] == NEW


@pytest.fixture
def dag(there: VcOperator) -> dict[str, Any]:
    """A DAG of that name in the job's place, awake although its file pauses it upon creation."""
    there.api.switches.born_paused = True
    there.api.add_file("code", "etl.py", b"DAG('etl', schedule='@daily', is_paused_upon_creation=True)\n")
    made = {"name": "etl", "type": "airflow", "airflow": {"dagFile": "etl.py", "dagID": "the_dag"}}
    schedule = {"enabled": True, "cronExpression": "@daily", "pausedUponCreation": True, "user": "etl_user"}
    there.api.jobs["etl"] = {**made, "mounts": [{"resourceName": "code"}], "schedule": schedule}
    return there.api.jobs["etl"]


def test_a_dag_that_is_paused_is_refused_before_anything_is_touched_since_it_would_come_back_awake(there, dag):
    dag["schedule"]["paused"] = True
    said = there.maint(*words(there))
    assert (said.code, there.api.writes()) == (5, []), said.err
    assert "is a DAG that is paused" in said.err
    assert "`maint vc job unpause --name etl`" in said.err


def test_a_dag_that_its_file_pauses_upon_creation_is_awake_again_before_it_is_run(there, dag):
    said = there.maint(*words(there))
    assert said.code == 0, said.err
    assert [*there.api.writes()][-3:] == ["POST /jobs", "POST /jobs/etl/schedule/unpause", "POST /jobs/etl/run"]
    assert "may START A RUN by itself" in said.err
    assert there.api.jobs["etl"]["schedule"]["paused"] is False


def test_a_dag_that_was_awake_and_is_put_back_paused_is_not_said_to_be_as_it_was(there, dag, monkeypatch):
    path = written(there.folder, "etl.py", there.api.files["code"]["etl.py"])
    for name in [name for name in there.api.files["code"] if name != "etl.py"]:
        del there.api.files["code"][name]
    monkeypatch.setattr(recreate, "wake_once_read", lambda *_: "")  # somebody pauses it again
    there.api.switches.states = ("failed",)
    given = ("job=etl", "resource=code", f"files={path}", "wait=true")
    said = there.maint("playbook", "run", "recreate-job", "--yes", *(word for one in given for word in ("--set", one)))
    assert said.code == 1
    assert "job etl is as it was, but paused: `maint vc job unpause --name etl` lets it go on" in said.err


def test_the_plan_names_the_other_jobs_that_use_the_resource(there):
    for name in ("report", "daily"):
        there.api.jobs[name] = {"name": name, "type": "spark", "mounts": [{"resourceName": "code"}]}
    said = there.maint(*words(there), "--dry-run")
    assert "delete resource code with 3 files; 3 jobs mount it: daily, etl, report" in said.out, said.out
    # and does not say that what it deletes first stands in the way
    assert "create resource code as it was defined: as step 3 leaves it" in said.out, said.out
    assert "fails this" not in said.out


def test_a_failure_brings_the_old_job_back_with_its_schedule_paused(there):
    there.api.switches.states = ("failed",)
    said = there.maint(*words(there, "wait=true"))
    assert said.code == 1
    assert there.api.files["code"] == {"old.py": b"old\r\n", "lib/data.bin": b"\0" * 1000, "empty": b""}
    job = there.api.jobs["etl"]
    assert (job["spark"]["future"], job["schedule"]["enabled"], job["schedule"]["paused"]) == ([1], True, True)
    assert "job unpause --name etl" in said.err
    assert there.sealed == []


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_a_schedule_that_is_somebody_elses_afterwards_is_told_with_the_new_job_and_with_the_old_one(there, state):
    there.api.jobs["etl"]["schedule"]["user"] = "deuser1"
    there.api.switches.states = (state,)
    said = there.maint(*words(there, "wait=true"))
    assert said.code == (state == "failed")
    assert "; the schedule of etl belonged to deuser1, and now to etl_user" in said.err


def test_a_run_that_was_put_back_is_taken_up_from_its_start(there):
    there.api.switches.states = ("failed",)
    assert there.maint(*words(there, "wait=true")).code == 1
    there.api.switches.states = ("starting", "succeeded")
    said = there.maint("playbook", "resume")
    assert said.code == 0, said.err
    assert there.api.files["code"] == NEW
    assert [run["job"] for run in there.api.runs] == ["etl", "etl"]


@pytest.mark.parametrize(
    "when", ["DELETE /jobs/etl", "DELETE /resources/code", "PUT /resources/code/new.py", "POST /jobs"]
)
def test_a_killed_recreation_is_taken_up(there, when):
    gate = there.api.switches
    gate.states = ("starting", "succeeded")
    assert killed_when(there, lambda: when in there.api.writes(), *words(there, "wait=true")) == -signal.SIGKILL
    said = there.maint("playbook", "resume")
    assert said.code == 0, said.err
    assert there.api.files["code"] == NEW
    assert (list(there.api.jobs), len(there.api.runs)) == (["etl"], 1)


DYING = """
import os, signal
from maint.steps.virtual_clusters import recreate
recreate.forget_recreation = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from maint.cli.start import main
main()
"""


def test_a_run_that_is_killed_once_it_has_handed_over_what_it_kept_hands_each_over_once(there):
    command = [sys.executable, "-c", DYING, *words(there), "--config", there.config]
    assert subprocess.run(command, env=environment(), capture_output=True, check=False).returncode == -signal.SIGKILL
    said = there.maint("playbook", "resume")
    assert said.code == 0, said.err
    run = re.search(r"`maint vc undo (\S+)` brings it back", said.err)
    assert run, said.err
    assert there("undo", run[1], "--yes").code == 0
    assert OLD.items() <= there.api.files["code"].items()
    again = there("undo", run[1], "--yes")
    assert (again.code, "nothing that run" in again.err) == (5, True), again.err


@pytest.mark.parametrize("moment", ["remember", "forget_recreation"])
def test_a_signal_once_the_run_has_handed_over_what_it_kept_leaves_all_that_its_undo_names(there, monkeypatch, moment):
    act, signals = getattr(recreate, moment), [signal.SIGTERM]

    def struck(*given, **more):
        if moment == "remember":
            act(*given, **more)
        for number in signals[:1]:
            signals.clear()
            signal.raise_signal(number)
        return act(*given, **more)

    monkeypatch.setattr(recreate, moment, struck)
    said = there.maint(*words(there))
    assert (said.code, there.api.files["code"]) == (143, OLD), said.err
    (record,) = (there.state / "vc-undo").glob("*.json")
    named = [
        name for one in json.loads(record.read_text())["objects"] for file in one["files"] for name in file["chunks"]
    ]
    assert named
    assert set(named) <= set(there.sealed)
    del there.api.files["code"]["old.py"]
    said = there("undo", record.stem, "--yes")
    assert (said.code, there.api.files["code"]) == (0, OLD), said.err


def test_a_file_that_is_not_what_its_signature_says_keeps_all_as_it_is(there, monkeypatch):
    plain = Api._file

    def lying(api, method, resource, path, body):
        answer = plain(api, method, resource, path, body)
        if method == "GET" and path == "old.py":
            answer.set_data(b"other")
        return answer

    monkeypatch.setattr(Api, "_file", lying)
    said = there.maint(*words(there))
    assert said.code == 5
    assert "could not be put back as it was" in said.err and "--no-safety-net" in said.err
    assert (there.api.writes(), there.sealed) == ([], [])
    assert there.maint(*words(there), "--no-safety-net", "it is in git").code == 0
    assert there.api.files["code"] == {"new.py": b'print("new")\n'}


def test_a_resource_of_which_the_api_shows_some_files_only_is_not_made_anew(there):
    there.api.resources["code"]["signature"] = joint_signature([("old.py", "1" * 40), ("page-2.py", "2" * 40)])
    said = there.maint(*words(there))
    assert (said.code, there.api.writes(), there.sealed) == (5, [], []), said.err
    assert "the API shows 3 files of resource code, and its signature speaks of others" in said.err


def test_where_the_old_job_could_not_be_put_back_either_the_last_words_say_so(there, monkeypatch):
    plain = Api._routed

    def closing(api, request, path, body):
        if request.method != "GET" and "code" not in api.files:
            return _error(403, "no role")
        return plain(api, request, path, body)

    monkeypatch.setattr(Api, "_routed", closing)
    said = there.maint(*words(there))
    assert (said.code, there.api.jobs) == (1, {}), said.err
    _, _, last = said.err.partition("\nerror: ")
    assert "also: Put the old job back: " in last, said.err
    monkeypatch.undo()
    assert there.maint("playbook", "resume").code == 0


@pytest.mark.parametrize("waiver", [[], ["--no-safety-net", "it is in git"]])
def test_a_job_whose_definition_cannot_be_sealed_is_refused_since_it_is_made_anew_from_that(there, monkeypatch, waiver):
    keep = SealedUndo.keep

    def full(undo, content, *more):
        if b'"resource"' in content:
            raise NotWritten("undo", OSError(errno.ENOSPC, "No space left on device"))
        return keep(undo, content, *more)

    monkeypatch.setattr(SealedUndo, "keep", full)
    said = there.maint(*words(there), *waiver)
    assert (said.code, "job etl cannot be sealed, so it is not touched" in said.err) == (5, True), said.err
    assert ("goes without" in said.err, there.api.writes(), there.sealed) == (False, [], []), said.err


@pytest.mark.parametrize("undone", [False, True])
def test_what_arrives_damaged_as_it_is_brought_back_stays_sealed_until_it_is_there(there, monkeypatch, undone):
    plain, damaging = Api._file, [not undone]

    def damage(api, method, resource, path, body):
        answer = plain(api, method, resource, path, body)
        if method == "PUT" and path == "lib/data.bin" and damaging[0]:
            api.files[resource][path] = b"damaged on its way"
        return answer

    there.api.switches.states = ("failed",)
    monkeypatch.setattr(Api, "_file", damage)
    if undone:
        gone = there("resource", "delete", "--name", "code", "--yes")
        run = re.search(r"`maint vc undo (\S+)` brings it back", gone.err)
        assert run, gone.err
        damaging[0] = True
        said = there("undo", run[1], "--yes")
    else:
        said = there.maint(*words(there, "wait=true"))
    assert (said.code, "does not hold what was uploaded" in said.err) == (1, True), said.err
    assert there.sealed
    damaging[0] = False
    again = there("undo", run[1], "--yes") if undone else there.maint("playbook", "resume")
    assert again.code == (0 if undone else 1), again.err
    assert there.api.files["code"] == OLD


def test_an_unknown_job_is_refused_before_anything_is_touched(there):
    there.api.jobs.clear()
    assert there.maint(*words(there)).code == 5
    assert there.api.writes() == []


def test_pages_of_a_proxy_after_every_write_do_not_disturb_it(there):
    there.api.switches.write_fails = -1
    said = there.maint(*words(there))
    assert said.code == 0, said.err
    assert (there.api.files["code"], len(there.api.runs)) == (NEW, 1)


def test_what_others_put_in_the_place_of_the_old_job_is_sealed_before_that_comes_back(there, monkeypatch):
    theirs = {"name": "etl", "type": "spark", "spark": {"file": "theirs.py"}, "schedule": {"enabled": False}}
    plain = Api._resources

    def meanwhile(api, method, parts, query, body):
        answer = plain(api, method, parts, query, body)
        if method == "PUT" and parts[-1] == "new.py":
            api.jobs["etl"] = dict(theirs)
            api.files["code"]["theirs.py"] = b"theirs"
        return answer

    monkeypatch.setattr(Api, "_resources", meanwhile)
    failed = there.maint(*words(there))
    assert failed.code == 1, failed.err
    assert (there.api.jobs["etl"]["spark"]["file"], there.api.files["code"]) == ("old.py", OLD)
    run = re.search(r"`maint vc undo (\S+)` brings it back", failed.err)
    assert run, failed.err
    back = there("undo", run[1], "--yes")
    assert back.code == 0, back.err
    assert there.api.jobs["etl"]["spark"]["file"] == "theirs.py"
    assert there.api.files["code"] == {**OLD, "theirs.py": b"theirs"}


def test_a_resource_that_others_made_meanwhile_is_sealed_whole_before_the_old_one_comes_back(there, monkeypatch):
    plain = Api._resources

    def meanwhile(api, method, parts, query, body):
        answer = plain(api, method, parts, query, body)
        if method == "DELETE" and parts == ["code"] and "POST /resources" not in api.writes():
            api.add_file("code", "theirs.py", b"theirs")
        return answer

    monkeypatch.setattr(Api, "_resources", meanwhile)
    failed = there.maint(*words(there))
    assert failed.code == 1, failed.err
    assert there.api.files["code"] == OLD
    run = re.search(r"`maint vc undo (\S+)` brings it back", failed.err)
    assert run, failed.err
    assert there("undo", run[1], "--yes").code == 0
    assert there.api.files["code"]["theirs.py"] == b"theirs"


@pytest.mark.parametrize("waiver", [[], ["--no-safety-net", "it is in git"]])
def test_the_old_job_comes_back_only_where_all_that_goes_for_it_could_be_sealed_or_is_waived(
    there, monkeypatch, waiver
):
    plain, plain_file = Api._resources, Api._file

    def meanwhile(api, method, parts, query, body):
        answer = plain(api, method, parts, query, body)
        if method == "PUT" and parts[-1] == "new.py":
            api.jobs["etl"] = {"name": "etl", "type": "spark", "spark": {"file": "theirs.py"}}
            api.add_file("code", "theirs.py", b"theirs")
        return answer

    def lying(api, method, resource, path, body):
        answer = plain_file(api, method, resource, path, body)
        if method == "GET" and path == "theirs.py":
            answer.set_data(b"other")
        return answer

    monkeypatch.setattr(Api, "_resources", meanwhile)
    monkeypatch.setattr(Api, "_file", lying)
    failed = there.maint(*words(there), *waiver)
    assert failed.code in (1, 5), failed.err
    if waiver:
        assert (there.api.jobs["etl"]["spark"]["file"], there.api.files["code"]) == ("old.py", OLD)
    else:
        assert (there.api.writes().count("DELETE /jobs/etl"), there.api.jobs["etl"]["spark"]["file"]) == (
            1,
            "theirs.py",
        )
        assert there.api.files["code"]["theirs.py"] == b"theirs"


@pytest.fixture
def elsewhere(there: VcOperator) -> VcOperator:
    """Another machine, with a state folder of its own, that shares the state of the site."""
    key = written(there.folder, "shared-key", AgeSeal().new_identity()[0].reveal().encode())
    Path(key).chmod(0o600)
    config = Path(there.config)
    shared = f"    shared_state: {there.folder}/shared\n    shared_state_key: file:{key}\n    virtual_clusters:\n"
    config.write_text(config.read_text().replace("    virtual_clusters:\n", shared))
    folder = there.folder.parent / "other"
    folder.mkdir()
    shutil.copy(there.folder / "password", folder)
    (folder / "config.yaml").write_text(config.read_text().replace(f"{there.folder}/state", f"{folder}/state"))
    return VcOperator(there.api, folder)


@pytest.mark.parametrize("when", ["DELETE /jobs/etl", "DELETE /resources/code"])
def test_another_machine_takes_a_killed_recreation_up_with_all_that_was_kept(there, elsewhere, when):
    killed_when(there, lambda: when in there.api.writes(), *words(there))
    lapse(there.folder / "shared", 400)
    said = elsewhere.maint("playbook", "resume")
    assert said.code == 0, said.err
    assert (there.api.files["code"], list(there.api.jobs)) == (NEW, ["etl"])
    assert there.api.jobs["etl"]["spark"]["future"] == [1]


def test_another_machine_waits_for_the_run_of_a_killed_smoke_test_and_takes_its_job_away(there, elsewhere):
    there.api.jobs.clear()
    there.api.resources.clear()
    there.api.switches.states = ("running",)
    killed_when(there, lambda: bool(there.api.polls), "vc", "smoke", "--yes")
    lapse(there.folder / "shared", 400)
    there.api.switches.states = ("running", "succeeded")
    said = elsewhere.maint("playbook", "resume")
    assert said.code == 0, said.err
    assert (len(there.api.runs), [*there.api.jobs, *there.api.resources]) == (1, [])


@pytest.mark.parametrize("undone", [False, True])
def test_nothing_goes_for_what_was_kept_before_all_of_that_is_read(there, monkeypatch, undone):
    if undone:
        gone = there("resource", "delete", "--name", "code", "--yes")
        run = re.search(r"`maint vc undo (\S+)` brings it back", gone.err)
        assert run, gone.err
        there.api.add_file("code", "old.py", b"theirs", hidden=True)
        command = ["vc", "undo", run[1], "--yes"]
    else:
        there.api.switches.states = ("failed",)
        command = words(there, "wait=true")
    fetch = SealedUndo.fetch

    def rotten(undo, name):
        content = fetch(undo, name)
        if content == b"\0" * 1000:
            raise NotKept("what was kept to take this back is gone", hint="bring it back from a copy")
        return content

    with monkeypatch.context() as patch:
        patch.setattr(SealedUndo, "fetch", rotten)
        said = there.maint(*command)
    assert (said.code, "to take this back is gone" in said.err) == (1, True), said.err
    new = {"old.py": b"theirs"} if undone else {"new.py": b'print("new")\n'}
    assert new.items() <= there.api.files["code"].items()
    again = there.maint(*command) if undone else there.maint("playbook", "resume")
    assert again.code == (0 if undone else 1), again.err
    assert there.api.files["code"] == OLD
