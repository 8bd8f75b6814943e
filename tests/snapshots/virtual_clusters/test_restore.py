"""Restores of a virtual cluster: the same again, nothing awake, nothing overwritten that nobody spoke of."""

from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytest_httpserver import HTTPServer

from maint.errors import CannotReach, Conflict, MaintError, NotWritten, Refused, StoreFailed, WorkFailed
from maint.model.plan import Result
from maint.model.snapshot import Purpose, Snapshot
from maint.model.virtual_cluster import Resource, normal_job, normal_resource
from maint.restore.conflicts import fresh_names
from maint.snapshots.capture import committed, recipients_of
from maint.snapshots.catalogue import entries
from maint.snapshots.parts import object_name
from maint.snapshots.verify import verify
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.virtual_clusters.recover import RecoverCluster
from maint.steps.virtual_clusters.resources import UploadArguments, UploadFiles
from maint.steps.virtual_clusters.restore import (
    ClusterRestorer,
    RestoreCluster,
    RestoreClusterArguments,
    ResumeArguments,
    ResumeSchedules,
)
from tests.adapters.virtual_clusters.server import Api
from tests.campaigns.size import FULL
from tests.snapshots.liar import Liar
from tests.snapshots.virtual_clusters.conftest import (
    VC,
    Ground,
    Notes,
    Signed,
    captured,
    fill,
    hide_from_lists,
    lie_about,
)

Run = Callable[[Any], Any]
RACING = b"from airflow import DAG\nwith DAG('racer', schedule='@daily'):\n    pass\n"


class Killed(BaseException):
    """What happens to a process between two calls."""


@pytest.fixture(scope="module")
def taken(server: HTTPServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ground, Snapshot]:
    """A site whose virtual cluster held the example set when a snapshot was taken of it alone, and that snapshot."""
    return captured(server, tmp_path_factory.mktemp("taken"), lambda one: take_alone(one, VC, recipients_of(one)))


@pytest.fixture
def snapshot(ground: Ground, api: Api, taken: tuple[Ground, Snapshot]) -> Snapshot:
    """A snapshot of the example set, after which the virtual cluster is empty."""
    source, found = taken
    ground.become(source)
    wipe(api)
    return found


def wipe(api: Api) -> None:
    for table in (api.jobs, api.resources, api.files, api.runs, api.sent):
        table.clear()


def plan(ground: Ground, **more: Any) -> Any:
    (action,) = RestoreCluster().plan(RestoreClusterArguments(**more), ground)
    return action


def restore(ground: Ground, run: Run, work: Notes, **more: Any) -> Result:
    found: Result = run(RestoreCluster().apply(plan(ground, **more), ground, work))
    return found


def normal(ground: Ground, snapshot: Snapshot) -> Any:
    document = read_document(ground, snapshot, VC)
    files = {(r.name, f.path, f.signature) for r in document.resources for f in r.files}
    resources = {r.name: (normal_resource(r.raw), r.signature) for r in document.resources}
    return files, resources, {job.name: normal_job(job.raw, pauses=False) for job in document.jobs}


def present(api: Api) -> Any:
    """Return what is there, as far as a backup of it tells, without taking one."""
    resources = {name: normal_resource(api._resource(name, with_files=False)) for name in api.resources}
    return resources, {name: normal_job(job, pauses=False) for name, job in api.jobs.items()}, api.files


def awake(api: Api) -> set[str]:
    return {
        name
        for name, job in api.jobs.items()
        if not job["schedule"].get("paused") and (job["schedule"]["enabled"] or job["type"] == "airflow")
    }


def starts(api: Api) -> list[str]:
    return [path for path in api.writes() if path.endswith("/run")]


def test_all_that_the_plan_names_comes_back_the_same_and_asleep_jobs_after_resources_and_dags_last(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    document, action = read_document(ground, snapshot, VC), plan(ground)
    names = [one.name for one in (*document.resources, *document.jobs)]
    assert len(names) > 3 and [name for name in names if name not in action.summary] == []
    result: Result = run(RestoreCluster().apply(action, ground, work))
    assert not result.partly, result.detail
    made, writes = [body["name"] for body in api.bodies("POST /jobs")], api.writes()
    assert set(made[-2:]) == {"nightly-pipeline", "adhoc-rebuild"}  # each after those it calls
    assert writes.index("POST /jobs") > max(number for number, one in enumerate(writes) if one.startswith("PUT "))
    pauses = [one for one in writes if one.endswith("/schedule/pause")]
    assert "POST /jobs/nightly-pipeline/schedule/pause" in pauses
    created = [number for number, one in enumerate(writes) if one == "POST /jobs"]
    assert writes.index("POST /jobs/adhoc-rebuild/schedule/pause") == created[-2] + 1
    ground.clock.time += timedelta(minutes=5)
    again = run(take_alone(ground, VC, recipients_of(ground), accept_empty=True)).snapshot
    assert normal(ground, again) == normal(ground, snapshot)
    assert awake(api) == set()
    assert starts(api) == []


def test_a_document_or_a_file_that_a_store_swaps_after_the_proof_is_never_sent(
    ground: Ground, api: Api, run: Run, snapshot: Snapshot
) -> None:
    document, target, kept = read_document(ground, snapshot, VC), BytesIO(), ground.store
    ground.seal.encrypt(
        BytesIO(b"forged").read, target, ground.settings.backup.recipients
    )  # who they are is not a secret
    assert document.jobs and verify(ground, snapshot.id).proven
    action = plan(ground)

    def swaps(end: str) -> Liar:
        return Liar(kept, lambda name, _: target.getvalue() if name.endswith(end) else None)

    ground.store = swaps(f"vc/{VC}.json.zst.age")
    with pytest.raises(WorkFailed, match="is not what was stored"):
        run(RestoreCluster().apply(action, ground, Notes()))
    assert api.jobs == {}
    ground.store = swaps(f"{snapshot.objects[0].place}.age")
    result: Result = run(RestoreCluster().apply(action, ground, Notes()))
    assert result.partly and "is not what was stored" in result.detail
    assert not any(b"forged" in content for files in api.files.values() for content in files.values())


def test_a_file_that_the_store_has_lost_is_named_and_all_else_comes_back(
    ground: Ground, api: Api, run: Run, snapshot: Snapshot
) -> None:
    document = read_document(ground, snapshot, VC)
    every = {(one.name, file.path): document.stored(file) for one in document.resources for file in one.files}
    assert len(every) > 10
    first = {resource: (path, stored) for (resource, path), stored in reversed(every.items())}
    for resource, (path, stored) in first.items():
        assert stored is not None
        name = object_name(snapshot.site, stored.place)
        with ground.store.open(name) as file:
            content = file.read()
        ground.store.remove(name)
        wipe(api)
        result = restore(ground, run, Notes())
        assert result.partly and f"{resource}/{path}: {name} in {ground.store.location} is missing" in result.detail
        here = {(one, file) for one, files in api.files.items() for file in files}
        assert here == {*every} - {(resource, path)}
        lacking = [job.name for job in document.jobs if job.name not in api.jobs]
        assert all(
            f"job {job} is held back" in result.detail or f"DAG {job} is left out" in result.detail for job in lacking
        )
        assert len(lacking) <= 1
        with ground.store.create(name) as again:
            again.write(content)


def test_nothing_is_sent_from_another_manifest_than_the_plan_was_made_from(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    action = plan(ground)
    other = msgspec.structs.replace(action, facts={**action.facts, "manifest": "0" * 64})
    with pytest.raises(Refused, match="not the one that the plan was made from"):
        run(RestoreCluster().apply(other, ground, work))
    assert api.writes() == []


def test_one_that_calls_itself_otherwise_takes_nothing_of_a_recovery_unless_the_operator_says_so(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = plan(ground)  # which has all that a recovery's has
    monkeypatch.setattr(ground.clients[VC], "info", lambda: {"appName": "spare"}, raising=False)
    monkeypatch.setattr(work, "answers", {}, raising=False)
    with pytest.raises(Refused, match="it calls itself spare"):
        run(RecoverCluster().carry_out(action, ground, work))
    assert api.writes() == []
    monkeypatch.setattr(work, "answers", {"confirmed": True})
    run(RecoverCluster().carry_out(action, ground, work))
    assert "pi-estimate" in api.jobs


def test_what_is_there_is_refused_by_default(ground: Ground, api: Api, snapshot: Snapshot) -> None:
    fill(api)
    with pytest.raises(Refused, match="names are taken"):
        plan(ground)
    assert api.writes() == []


def test_skipping_keeps_what_is_there(ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot) -> None:
    api.add_file("etl-data", "mine.csv", b"mine")
    restore(ground, run, work, on_conflict="skip")
    assert api.files["etl-data"] == {"mine.csv": b"mine"}
    assert len(api.jobs) == 8


def test_renaming_moves_the_mounts_along(ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot) -> None:
    api.add_file("etl-scripts", "mine.py", b"mine")
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    restore(ground, run, work, on_conflict="rename")
    assert api.files["etl-scripts"] == {"mine.py": b"mine"}
    assert "basket.py" in api.files["etl-scripts-2"]
    assert "spark" not in api.jobs["pi-estimate"]
    mounts = [one["resourceName"] for job in api.jobs.values() for one in job.get("mounts", ())]
    assert "etl-scripts" not in mounts
    assert "etl-scripts-2" in mounts
    assert "pi-estimate-2" in api.jobs


def test_a_long_name_is_cut_so_that_the_new_one_is_no_longer_than_servers_take() -> None:
    long = "a" * 63
    assert fresh_names([long], {long, "a" * 62 + "-2"}) == {long: "a" * 62 + "-3"}


def test_a_rename_that_would_break_a_dag_is_refused(ground: Ground, api: Api, snapshot: Snapshot) -> None:
    api.jobs["orders-ingest"] = {"name": "orders-ingest", "type": "spark", "schedule": {"enabled": False}}
    with pytest.raises(Refused) as caught:
        plan(ground, on_conflict="rename")
    assert "nightly-pipeline calls orders-ingest" in caught.value.detail[0]


def test_replacing_leaves_the_snapshot_and_nothing_else_and_keeps_what_was_there_in_whichever_playbook_it_stands(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    fill(api)
    api.files["etl-scripts"] |= {"basket.py": b"changed", "extra.py": b"extra"}
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    action = plan(ground, on_conflict="replace")
    assert action.summary.endswith("; a safety snapshot of what is there comes first")
    run(RestoreCluster().apply(action, ground, work))
    (kept,) = [one.snapshot for one in entries(ground) if one.snapshot and one.snapshot.purpose is Purpose.SAFETY]
    document = read_document(ground, kept, VC)
    (file,) = [f for r in document.resources for f in r.files if f.path == "extra.py"]
    assert document.stored(file)
    assert "spark" not in next(job.raw for job in document.jobs if job.name == "pi-estimate")
    ground.clock.time += timedelta(minutes=5)
    again = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    assert normal(ground, again) == normal(ground, snapshot)
    assert awake(api) == set()


def test_a_safety_snapshot_that_a_store_does_not_give_is_waited_for_and_no_other_one_takes_its_place(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    action = plan(ground, on_conflict="replace")
    with monkeypatch.context() as patch:
        _die_after(patch, ground, "delete_job", [0], 0)
        with pytest.raises((Killed, MaintError)):
            run(RestoreCluster().apply(action, ground, work))
    work.resumed, before, kept = True, str(work.noted("snapshot")), ground.store
    for silent in ("manifest", "vc/"):
        ground.store = liar = Liar(kept, lambda *_: None)
        liar.silent = f"{before}/{silent}"
        with pytest.raises(StoreFailed):
            run(RestoreCluster().apply(action, ground, work))
    ground.store = kept
    with monkeypatch.context() as patch, pytest.raises(NotWritten):
        patch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
        patch.setattr("maint.files.spool", lambda _: Path("/dev/full").open("r+b"))  # noqa: SIM115
        committed(ground, work, Purpose.SAFETY)
    run(RestoreCluster().apply(action, ground, work))
    assert {one.id for one in entries(ground)} == {snapshot.id, before}


def race(api: Api) -> None:
    api.files["nightly-dags"]["racer.py"] = RACING
    mounts = [{"resourceName": "nightly-dags"}]
    api.jobs["racer"] = {"name": "racer", "type": "airflow", "mounts": mounts, "airflow": {"dagFile": "racer.py"}}
    api.jobs["racer"]["schedule"] = {"enabled": True, "cronExpression": "@daily"}


def test_a_dag_that_would_start_by_itself_is_left_out_unless_accepted_and_told_once_as_what_becomes_of_it(
    ground: Ground, api: Api, run: Run
) -> None:
    race(api)
    run(take_alone(ground, VC, recipients_of(ground)))
    for accepted in (False, True):
        wipe(api)
        action = plan(ground, accept_dag_race=accepted)
        assert ("start by themselves: racer" in action.summary) is not accepted
        result = run(RestoreCluster().apply(action, ground, Notes()))
        assert ("racer" in api.jobs) is accepted
        assert result.partly is not accepted
        assert awake(api) == set()
    for policy, told, partly in (
        ("skip", "kept as they are", False),
        ("replace", "LEFT OUT", True),
        ("rename", "LEFT OUT", True),
    ):
        wipe(api)
        api.jobs["racer"] = {"name": "racer", "type": "spark", "schedule": {"enabled": False}}
        action = plan(ground, on_conflict=policy)
        shown = [
            words for words in action.summary.split("; ") if ": " in words and "racer" in words.rpartition(": ")[2]
        ]
        assert [words.startswith(told) for words in shown] == [True], (policy, action.summary)
        result = run(RestoreCluster().apply(action, ground, Notes()))
        assert (result.partly, api.jobs["racer"]["type"]) == (partly, "spark"), (policy, result.detail)


def test_a_run_that_a_dag_started_before_it_was_paused_is_named_however_late_it_appears(
    ground: Ground, api: Api, run: Run, work: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    race(api)
    run(take_alone(ground, VC, recipients_of(ground)))
    wipe(api)
    plain = ground.clock.sleep

    def late(seconds: float) -> None:
        if seconds > 10 and not api.runs:
            api.runs.append(
                {"id": 41, "job": "racer", "type": "airflow", "user": "x", "status": "running", "_request": ""}
            )
        plain(seconds)

    monkeypatch.setattr(ground.clock, "sleep", late)
    result = restore(ground, run, work, accept_dag_race=True)
    assert result.partly
    assert "maint vc run kill --id 41" in result.detail


def test_the_source_must_not_answer_at_another_address(ground: Ground, api: Api, snapshot: Snapshot) -> None:
    address = ground.settings.virtual_clusters[0].auth_url
    ground.clients[VC].close()
    ground.add(address.replace("127.0.0.1", "localhost"))
    with pytest.raises(Refused, match="still answers"):
        plan(ground)
    api.switches.unauthorised = 0  # the scripted server keeps count of who came without a token
    assert plan(ground, source_gone=True).confirm == VC


def test_what_somebody_else_made_is_not_overwritten_on_resume_either(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    action = plan(ground)
    api.add_file("etl-scripts", "basket.py", b"theirs")
    for _ in range(2):
        with pytest.raises(Conflict, match="resource etl-scripts"):
            run(RestoreCluster().apply(action, ground, work))
        work.resumed = True
    assert api.files["etl-scripts"] == {"basket.py": b"theirs"}
    assert api.writes() == []


@pytest.mark.parametrize("other", ["file", "definition", "job"])
def test_what_appears_after_a_kill_and_is_other_than_what_is_sent_is_left_alone(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, other: str
) -> None:
    action = plan(ground)
    with pytest.MonkeyPatch.context() as patch:
        _die_after(patch, ground, "create_resource", [0], 0)
        with pytest.raises((Killed, MaintError)):
            run(RestoreCluster().apply(action, ground, work))
    work.resumed = True
    for table in (api.resources, api.files, api.sent):
        table.clear()
    if other == "file":
        ours = next(one for one in read_document(ground, snapshot, VC).resources if one.name == "etl-scripts")
        api.resources["etl-scripts"] = {**ours.raw, "status": "ready"}
        api.add_file("etl-scripts", "basket.py", b"theirs")
    elif other == "definition":
        api.resources["etl-scripts"] = {"name": "etl-scripts", "type": "python-env", "status": "ready"}
        api.files["etl-scripts"] = {}
    else:
        api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": True}}
    held = (dict(api.files.get("etl-scripts", {})), dict(api.jobs))
    with pytest.raises(Conflict, match=r"with basket\.py" if other == "file" else None):
        run(RestoreCluster().apply(action, ground, work))
    theirs = {name: api.jobs[name] for name in held[1]}
    assert ({} if other == "job" else dict(api.files["etl-scripts"]), theirs) == held
    assert not any("pi-estimate" in one for one in api.writes())


@pytest.mark.parametrize("what", ["resource", "job"])
def test_what_appears_once_a_restore_has_begun_is_anothers_though_it_is_the_same(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    action, note, document = plan(ground), work.note, read_document(ground, snapshot, VC)
    (resource,) = (one for one in document.resources if one.name == "etl-scripts")
    (job,) = (one for one in document.jobs if one.name == "pi-estimate")

    def noted(key: str, value: Any) -> None:
        note(key, value)
        if key == "intent" and what == "resource":
            api.resources["etl-scripts"], api.files["etl-scripts"] = {**resource.raw, "status": "ready"}, {}
        elif key == "intent":
            api.jobs["pi-estimate"] = dict(job.raw)

    monkeypatch.setattr(work, "note", noted)
    with pytest.raises(Conflict, match="etl-scripts" if what == "resource" else "pi-estimate"):
        run(RestoreCluster().apply(action, ground, work))
    assert not any("/etl-scripts/" in one if what == "resource" else "pi-estimate" in one for one in api.writes())
    assert api.files["etl-scripts"] == {} if what == "resource" else api.jobs["pi-estimate"] == job.raw


def test_a_damaged_upload_names_its_resource_and_is_replaced_on_resume(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    action, upload = plan(ground), ground.clients[VC].upload

    def damaged(resource: str, path: str, content: Any) -> str:
        signature = upload(resource, path, content)
        if path == "basket.py":
            api.files[resource][path] = b"damaged on its way"
        return str(signature)

    monkeypatch.setattr(ground.clients[VC], "upload", damaged, raising=False)
    with pytest.raises(MaintError) as caught:
        run(RestoreCluster().apply(action, ground, work))
    assert caught.value.detail == ("resource etl-scripts: basket.py is not what was sent",)
    assert "somebody" not in f"{caught.value.message} {caught.value.hint}"
    monkeypatch.undo()
    work.resumed = True
    assert not run(RestoreCluster().apply(action, ground, work)).partly
    assert api.files["etl-scripts"]["basket.py"] != b"damaged on its way"


def test_jobs_whose_environment_could_not_be_built_are_held_back_and_named(
    ground: Ground, api: Api, run: Run, work: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_file("wheels", "requirements.txt", b"nothing==0", type="python-env")
    needing = {"name": "needs-wheels", "type": "spark", "spark": {"file": "x.py", "pythonEnvResourceName": "wheels"}}
    api.jobs["needs-wheels"] = {**needing, "mounts": [], "schedule": {"enabled": True, "paused": False, "user": "u"}}
    run(take_alone(ground, VC, recipients_of(ground)))
    wipe(api)
    resource = ground.clients[VC].resource

    def failing(name: str, **more: Any) -> Any:
        found = resource(name, **more)
        return found if found is None or name != "wheels" else Resource({**found.raw, "status": "failed"})

    monkeypatch.setattr(ground.clients[VC], "resource", failing, raising=False)
    result = restore(ground, run, work)
    assert "environment wheels could not be built" in result.detail
    assert "job needs-wheels is held back: it needs environment wheels" in result.detail
    assert (result.partly, "needs-wheels" in api.jobs, "pi-estimate" in api.jobs) == (True, False, True)
    assert "needs-wheels" not in result.value["awake"]


def test_a_hidden_resource_or_job_of_that_name_is_a_conflict_too(
    ground: Ground, api: Api, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what in ("resource", "job"):
        wipe(api)
        if what == "resource":
            api.add_file("etl-scripts", "basket.py", b"theirs", hidden=True)
        else:
            api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
        with monkeypatch.context() as patch:
            patch.setattr(ground.clients[VC], f"{what}s", lambda *_: [], raising=False)
            with pytest.raises(Refused, match="is taken"):
                plan(ground)


# One of each kind: a resource made or deleted, files uploaded, jobs made or deleted, a DAG made, and all of it done.
_KILLS = [*(("refuse", at) for at in (0, 7, 22, 25)), *(("replace", at) for at in (2, 11, 20))]
_ALL_KILLS = [(policy, at) for policy in ("refuse", "replace") for at in (0, 1, 4, 7, 11, 16, 19, 22, 24, 25)]


@pytest.mark.parametrize(("policy", "at"), _ALL_KILLS if FULL else _KILLS)
def test_killed_after_any_change_a_restore_ends_the_same(
    ground: Ground,
    api: Api,
    run: Run,
    work: Notes,
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    at: int,
) -> None:
    if policy == "replace":
        api.add_file("etl-scripts", "basket.py", b"changed")
        api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    action, calls = plan(ground, on_conflict=policy), [0]
    for name in ("create_job", "delete_job", "pause", "create_resource", "upload"):
        _die_after(monkeypatch, ground, name, calls, at)
    with pytest.raises((Killed, MaintError)):
        run(RestoreCluster().apply(action, ground, work))
    monkeypatch.undo()
    work.resumed = True
    result: Result = run(RestoreCluster().apply(action, ground, work))
    assert not result.partly, result.detail
    whole = Signed()
    fill(whole)
    assert present(api) == present(whole)
    assert awake(api) == set()
    assert starts(api) == []


def _die_after(monkeypatch: pytest.MonkeyPatch, ground: Ground, name: str, calls: list[int], at: int) -> None:
    """Let a call be done, and nothing after it."""
    client = ground.clients[VC]
    real = getattr(client, name)

    def dying(*args: Any, **more: Any) -> Any:
        if calls[0] > at:
            raise Killed
        found = real(*args, **more)
        calls[0] += 1
        if calls[0] > at:
            raise Killed
        return found

    monkeypatch.setattr(client, name, dying, raising=False)


def test_schedules_that_were_awake_go_on_in_the_order_of_before_without_a_job_deleted_since_unless_it_is_named(
    ground: Ground, api: Api, run: Run, work: Notes
) -> None:
    api.jobs["daily-vacuum"]["schedule"] = {"enabled": True, "cronExpression": "30 3 * * *"}
    run(take_alone(ground, VC, recipients_of(ground)))
    wipe(api)
    restore(ground, run, work)
    (action,) = ResumeSchedules().plan(ResumeArguments(), ground)
    assert action.arguments["order"] == ["daily-vacuum", "nightly-pipeline"]
    deleted = api.jobs.pop("daily-vacuum")
    (without,) = ResumeSchedules().plan(ResumeArguments(), ground)
    assert without.arguments["order"] == ["nightly-pipeline"]
    assert "gone since the restore: daily-vacuum" in without.summary
    with pytest.raises(Refused, match="there is no job 'daily-vacuum'"):
        list(ResumeSchedules().plan(ResumeArguments(order=["daily-vacuum"]), ground))
    api.jobs["daily-vacuum"] = deleted
    run(ResumeSchedules().apply(action, ground, Notes()))
    assert awake(api) == {"daily-vacuum", "nightly-pipeline"}
    wakings = sum("unpause" in one for one in api.writes())
    run(ResumeSchedules().apply(action, ground, Notes()))
    assert sum("unpause" in one for one in api.writes()) == wakings == 2


def test_schedules_that_an_earlier_restore_paused_go_on_after_another_that_left_their_jobs_as_they_were(
    ground: Ground, api: Api, run: Run, work: Notes
) -> None:
    for name in ("daily-vacuum", "pi-estimate"):
        api.jobs[name]["schedule"] = {"enabled": True, "cronExpression": "30 3 * * *"}
    run(take_alone(ground, VC, recipients_of(ground)))
    wipe(api)
    restore(ground, run, work)
    api.jobs["pi-estimate"]["spark"]["args"] = ["another one"]  # somebody's own by now, who paused it
    ground.clock.time += timedelta(minutes=5)
    result = restore(ground, run, Notes(), on_conflict="skip")
    assert "2 schedules that were awake left paused" in result.detail
    (action,) = ResumeSchedules().plan(ResumeArguments(), ground)
    assert action.arguments["order"] == ["daily-vacuum", "nightly-pipeline"]


def test_schedules_that_rested_since_an_earlier_restore_as_the_snapshot_was_taken_count_as_awake(
    ground: Ground, api: Api, run: Run, work: Notes
) -> None:
    api.jobs["daily-vacuum"]["schedule"] = {"enabled": True, "cronExpression": "30 3 * * *"}
    api.jobs["pi-estimate"]["schedule"] = {"enabled": True, "paused": True, "cronExpression": "30 3 * * *"}
    run(take_alone(ground, VC, recipients_of(ground)))
    wipe(api)
    restore(ground, run, work)
    both = ["daily-vacuum", "nightly-pipeline"]
    for rested in (both, both, ["nightly-pipeline"]):  # also through a backup of a backup
        if rested != both:  # woken, and paused by somebody's own will later
            (action,) = ResumeSchedules().plan(ResumeArguments(order=["daily-vacuum"]), ground)
            run(ResumeSchedules().apply(action, ground, Notes()))
            api.jobs["daily-vacuum"]["schedule"]["paused"] = True
        ground.clock.time += timedelta(minutes=5)
        run(take_alone(ground, VC, recipients_of(ground)))
        wipe(api)
        ground.clock.time += timedelta(minutes=5)
        words = f"awake until an earlier restore, and paused since: {', '.join(rested)}"
        assert words in plan(ground).summary
        result = restore(ground, run, Notes())
        assert words in result.detail
        (action,) = ResumeSchedules().plan(ResumeArguments(), ground)
        assert action.arguments["order"] == rested


def test_a_schedule_whose_job_is_gone_keeps_no_other_from_going_on(ground: Ground, api: Api, run: Run) -> None:
    for name in ("daily-vacuum", "pi-estimate"):
        api.jobs[name]["schedule"] = {"enabled": True, "paused": True, "cronExpression": "30 3 * * *"}
    (action,) = ResumeSchedules().plan(ResumeArguments(order=["daily-vacuum", "pi-estimate"]), ground)
    del api.jobs["daily-vacuum"]
    result: Result = run(ResumeSchedules().apply(action, ground, Notes()))
    assert result.detail == "1 of 1 schedule let go on; gone since this was planned: daily-vacuum"
    assert "pi-estimate" in awake(api)


def test_what_is_kept_and_is_not_as_in_the_snapshot_is_named_with_the_jobs_that_need_it(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    restore(ground, run, work)
    assert "NOT as in the snapshot" not in restore(ground, run, Notes(), on_conflict="skip").detail
    api.files["etl-scripts"].clear()
    for name in ("daily-vacuum", "pi-estimate"):
        del api.jobs[name]
    result = restore(ground, run, Notes(), on_conflict="skip")
    words = "etl-scripts was kept, is NOT as in the snapshot, and is needed by daily-vacuum, pi-estimate"
    assert words in result.detail and not result.partly


def test_credentials_that_jobs_and_resources_need_are_named_in_a_backup_and_after_a_restore(
    ground: Ground, api: Api, run: Run, work: Notes
) -> None:
    api.jobs["pi-estimate"]["workloadCredentials"] = ["s3-keys", "db"]
    api.jobs["daily-vacuum"]["workloadCredentials"] = ["db"]
    image = {"engine": "spark3", "image": "registry/x", "credential": "registry-login"}
    api.resources["own-image"] = {"name": "own-image", "type": "custom-runtime-image", "customRuntimeImage": image}
    taken: Snapshot = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    told = [words for words in taken.uncovered if "credential " in words]
    assert told == [
        f"virtual cluster {VC}: credential db, which job daily-vacuum and job pi-estimate need",
        f"virtual cluster {VC}: credential registry-login, which resource own-image needs",
        f"virtual cluster {VC}: credential s3-keys, which job pi-estimate needs",
    ]
    wipe(api)
    result = restore(ground, run, work)
    for words in (
        "credential db, which job daily-vacuum and job pi-estimate need, is in no backup: see that it is there",
        "credential registry-login, which resource own-image needs, is in no backup: see that it is there",
    ):
        assert words in result.detail
    assert not result.partly


def test_schedules_that_nobody_restored_must_be_named(ground: Ground) -> None:
    with pytest.raises(Refused, match="no restore into default-vc is known"):
        list(ResumeSchedules().plan(ResumeArguments(), ground))


def test_what_the_safety_snapshot_lacks_is_not_replaced(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    api.files["etl-scripts"] |= {"basket.py": b"changed", "extra.py": b"extra"}
    api.sent.clear()
    lie_about(monkeypatch, "extra.py")
    with pytest.raises(Refused, match="the safety snapshot does not hold") as caught:
        restore(ground, run, work, on_conflict="replace")
    assert caught.value.detail[0] == "etl-scripts/extra.py"
    assert api.writes() == []
    restore(ground, run, Notes(), on_conflict="replace", no_safety_net="it is in git")
    assert "extra.py" not in api.files["etl-scripts"]


def test_what_no_list_shows_and_a_restore_replaces_is_in_the_safety_snapshot(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    api.jobs.clear()
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "hidden": True}
    api.resources["etl-scripts"]["hidden"] = True
    api.files["etl-scripts"] = {"theirs.py": b"theirs"}
    hide_from_lists(monkeypatch)
    result = restore(ground, run, work, on_conflict="replace")
    assert not result.partly, result.detail
    (safety,) = [one.snapshot for one in entries(ground) if one.snapshot and one.snapshot.purpose is Purpose.SAFETY]
    kept = read_document(ground, safety, VC)
    assert {job.name for job in kept.jobs} == {"pi-estimate"}
    assert {file.path for one in kept.resources for file in one.files if one.name == "etl-scripts"} == {"theirs.py"}


def test_a_file_that_the_safety_snapshot_lacks_and_nothing_replaces_is_no_obstacle(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    api.add_file("theirs", "extra.py", b"extra")
    lie_about(monkeypatch, "extra.py")
    restore(ground, run, work, on_conflict="replace")
    assert api.files["theirs"] == {"extra.py": b"extra"}


def test_nothing_is_planned_to_go_for_a_safety_snapshot_that_no_key_at_hand_opens(
    ground: Ground, api: Api, snapshot: Snapshot
) -> None:
    fill(api)
    api.files["etl-scripts"]["extra.py"] = b"extra"
    assert ground.settings.backup is not None
    key, recipient = ground.seal.new_identity()
    backup = ground.settings.backup.model_copy(update={"recipients": (recipient,)})
    ground.settings = ground.settings.model_copy(update={"backup": backup})
    with pytest.raises(Refused, match="no private key at hand opens the safety snapshot"):
        plan(ground, on_conflict="replace")
    ground.keys.append(key)
    assert plan(ground, on_conflict="replace").summary.endswith("; a safety snapshot of what is there comes first")


def test_what_appears_after_the_safety_snapshot_is_not_replaced_either(
    ground: Ground, api: Api, run: Run, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(api)
    plain, late = ClusterRestorer.note_intent, {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    for what in ("file", "job"):

        def meanwhile(bringing: ClusterRestorer, what: str = what) -> None:
            plain(bringing)
            if what == "file":
                api.files["etl-scripts"]["late.py"] = b"late"
            else:
                api.jobs["pi-estimate"] = late

        monkeypatch.setattr(ClusterRestorer, "note_intent", meanwhile)
        with pytest.raises(Refused, match="the safety snapshot does not hold"):
            restore(ground, run, Notes(), on_conflict="replace")
        if what == "file":
            assert api.files["etl-scripts"].pop("late.py") == b"late"
        else:
            assert api.jobs["pi-estimate"] == late


def test_what_appears_after_the_plan_is_left_and_told_with_the_command_that_shows_it(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    planned = plan(ground)
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark"}
    with pytest.raises(Conflict, match="job pi-estimate is there") as told:
        run(RestoreCluster().apply(planned, ground, work))
    assert str(told.value.hint).startswith("`maint vc job describe --name pi-estimate` shows it")
    assert api.jobs == {"pi-estimate": {"name": "pi-estimate", "type": "spark"}}


def test_who_watches_sees_how_many_bytes_of_all_are_uploaded(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, tmp_path: Path
) -> None:
    total = sum(file.size for one in read_document(ground, snapshot, VC).resources for file in one.files)
    ground.seen.clear()
    run(RestoreCluster().apply(plan(ground), ground, work))
    count, of = ground.seen["uploading"]
    assert count == total and of == 30  # the resources' files first, then those of environments
    (tmp_path / "big.py").write_bytes(bytes(700_000))
    (tmp_path / "small.py").write_bytes(b"1")
    paths = [str(tmp_path / name) for name in ("big.py", "small.py")]
    (action,) = UploadFiles().plan(UploadArguments(vc=VC, resource="etl-scripts", files=paths), ground)
    ground.seen.clear()
    run(UploadFiles().apply(action, ground, work))
    assert ground.seen["uploading"] == (700_001, 700_001)


@pytest.fixture
def upload(ground: Ground, run: Run, work: Notes, tmp_path: Path) -> Callable[[str], str]:
    """Upload a file into the resource of DAGs, and return what is said of it."""

    def put(name: str) -> str:
        (tmp_path / name).write_bytes(b"anew")
        (action,) = UploadFiles().plan(
            UploadArguments(vc=VC, resource="nightly-dags", files=[str(tmp_path / name)]), ground
        )
        return str(run(UploadFiles().apply(action, ground, work)).detail)

    return put


def test_an_upload_names_the_dags_of_that_very_file_and_no_other(api: Api, upload: Callable[[str], str]) -> None:
    race(api)
    assert "DAG racer goes by its old file" in upload("racer.py")
    assert [name for name in ("cer.py", "y") if "old file" in upload(name)] == []


def test_an_upload_is_done_though_nobody_can_tell_whose_file_it_is(
    ground: Ground, api: Api, upload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> Any:
        raise CannotReach("no answer", hint="wait")

    monkeypatch.setattr(ground.clients[VC], "jobs", silent, raising=False)
    assert "whether a DAG goes by its old file cannot be told: no answer" in upload("racer.py")
    assert api.files["nightly-dags"]["racer.py"] == b"anew"
