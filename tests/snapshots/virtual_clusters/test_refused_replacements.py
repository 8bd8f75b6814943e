"""What becomes of what was to be replaced where the server does not take what comes in its place."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.stores.local import LocalStore
from maint.errors import MaintError, Refused, StoreFailed
from maint.model.plan import Result
from maint.model.snapshot import Purpose, Snapshot
from maint.snapshots.capture import committed, recipients_of
from maint.snapshots.catalogue import entries
from maint.snapshots.parts import object_name
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.virtual_clusters.restore import RestoreCluster
from tests.adapters.virtual_clusters.server import Api, _error
from tests.campaigns.size import FULL
from tests.snapshots.virtual_clusters.conftest import VC, Ground, Notes
from tests.snapshots.virtual_clusters.test_restore import (
    Killed,
    Run,
    _die_after,
    awake,
    plan,
    race,
    snapshot,
    taken,
    wipe,
)

__all__ = ["snapshot", "taken"]


def refusing(monkeypatch: pytest.MonkeyPatch, call: str, wanted: Callable[[Any], bool]) -> None:
    """Have the server refuse what is created."""
    plain = getattr(Api, call)

    def answer(self: Api, *given: Any) -> Any:
        creates = isinstance(given[-1], dict) and "name" in given[-1]
        return _error(400, "invalid definition") if creates and wanted(given[-1]) else plain(self, *given)

    monkeypatch.setattr(Api, call, answer)


def die(*_: Any) -> None:
    raise Killed


def taken_up(ground: Ground, run: Run, work: Notes, action: Any, dies_after: str) -> Result:
    """Carry a restore out that is killed once, just after a call."""
    client = ground.clients[VC]
    real = getattr(client, dies_after)

    def dying(*given: Any) -> None:
        real(*given)
        raise Killed

    setattr(client, dies_after, dying)
    with pytest.raises(Killed):
        run(RestoreCluster().apply(action, ground, work))
    setattr(client, dies_after, real)
    work.resumed = True
    result: Result = run(RestoreCluster().apply(action, ground, work))
    return result


def test_a_resource_whose_successor_is_refused_is_put_back_with_its_files(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_file("etl-scripts", "lib/mine.py", b"mine", hidden=True)
    api.add_file("etl-scripts", "basket.py", b"my basket")
    action = plan(ground, on_conflict="replace")
    refusing(monkeypatch, "_resources", lambda body: body["name"] == "etl-scripts" and not body["hidden"])
    result = run(RestoreCluster().apply(action, ground, work))
    assert "resource etl-scripts could not be made" in result.detail
    assert "invalid definition; what was there is back" in result.detail
    assert result.partly
    assert api.resources["etl-scripts"]["hidden"] is True
    assert api.files["etl-scripts"] == {"lib/mine.py": b"mine", "basket.py": b"my basket"}


def test_a_resource_that_cannot_be_put_back_is_told_as_gone(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_file("etl-scripts", "mine.py", b"mine", hidden=True)
    action = plan(ground, on_conflict="replace")
    refusing(monkeypatch, "_resources", lambda body: body["name"] == "etl-scripts")
    result = taken_up(ground, run, work, action, "delete_resource")
    assert "what was there is gone, and kept in the safety snapshot" in result.detail


def test_a_safety_snapshot_that_no_key_at_hand_opens_any_more_is_replaced_by_no_other_one(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.jobs["pi-estimate"] = {"name": "pi-estimate", "type": "spark", "schedule": {"enabled": False}}
    action = plan(ground, on_conflict="replace")
    monkeypatch.setattr(ground.clients[VC], "delete_job", die, raising=False)
    with pytest.raises(Killed):
        run(RestoreCluster().apply(action, ground, work))
    (safety,) = {one.id for one in entries(ground)} - {snapshot.id}
    ground.keys = [AgeSeal().new_identity()[0]]
    found = committed(ground, work, Purpose.SAFETY)
    assert found is not None
    assert found.id == safety


def test_a_run_that_a_dag_began_as_it_was_put_back_is_named(
    ground: Ground, api: Api, run: Run, work: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    race(api)
    api.jobs["racer"]["airflow"]["config"] = {"day": "monday"}
    run(take_alone(ground, VC, recipients_of(ground)))
    api.jobs["racer"]["airflow"]["config"] = {"day": "sunday"}
    action = plan(ground, on_conflict="replace", accept_dag_race=True)
    refusing(monkeypatch, "_create_job", lambda body: body.get("airflow", {}).get("config") == {"day": "monday"})
    began = {"id": 41, "job": "racer", "type": "airflow", "user": "x", "status": "running", "_request": ""}
    plain = ground.clock.sleep
    monkeypatch.setattr(ground.clock, "sleep", lambda seconds: (api.runs or api.runs.append(began), plain(seconds)))
    result: Result = run(RestoreCluster().apply(action, ground, work))
    assert "what was there is back; its DAG is paused" in result.detail
    assert "maint vc run kill --id 41" in result.detail


@pytest.mark.parametrize("at", [0, 3, 9, 13, 14] if FULL else [0, 3, 13])  # resource deleted, back; job deleted
def test_killed_after_any_change_what_is_refused_leaves_what_was_there(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    api.add_file("etl-scripts", "lib/mine.py", b"mine", hidden=True)
    api.add_file("etl-scripts", "basket.py", b"my basket")
    theirs = {"enabled": True, "paused": False, "cronExpression": "@hourly"}
    api.jobs["remote-pi"] = {"name": "remote-pi", "type": "spark", "schedule": theirs}
    action, calls = plan(ground, on_conflict="replace"), [0]
    refusing(monkeypatch, "_resources", lambda body: body["name"] == "etl-scripts" and not body["hidden"])
    refusing(monkeypatch, "_create_job", lambda body: body["name"] == "remote-pi" and "spark" in body)
    with pytest.MonkeyPatch.context() as dying:
        for name in ("create_job", "delete_job", "pause", "create_resource", "delete_resource", "upload"):
            _die_after(dying, ground, name, calls, at)
        with pytest.raises((Killed, MaintError)):
            run(RestoreCluster().apply(action, ground, work))
    work.resumed = True
    result: Result = run(RestoreCluster().apply(action, ground, work))
    assert result.detail.count("what was there is back") == 2 and result.partly
    assert "resource etl-scripts could not be made" in result.detail and "job remote-pi is left out" in result.detail
    assert "what was there is back; its schedule is paused" in result.detail
    assert api.resources["etl-scripts"]["hidden"] is True
    assert api.files["etl-scripts"] == {"lib/mine.py": b"mine", "basket.py": b"my basket"}
    schedule = api.jobs["remote-pi"]["schedule"]
    assert (schedule["cronExpression"], schedule["paused"]) == ("@hourly", True)
    assert awake(api) == set()


def damage(ground: Ground, snapshot: Snapshot, resource: str, path: str, *, lost: bool) -> None:
    """Let the store lose a file of a snapshot, or rot one byte of it."""
    document = read_document(ground, snapshot, VC)
    (file,) = [file for one in document.resources if one.name == resource for file in one.files if file.path == path]
    stored = document.stored(file)
    assert stored is not None
    name = object_name(snapshot.site, stored.place)
    with ground.store.open(name) as stream:
        content = stream.read()
    ground.store.remove(name)
    if not lost:
        with ground.store.create(name) as rotten:
            rotten.write(content[:-1] + bytes([content[-1] ^ 1]))


def test_nothing_is_replaced_before_all_that_comes_in_its_place_is_proven(
    ground: Ground, api: Api, run: Run, snapshot: Snapshot
) -> None:
    def put(what: str) -> None:
        wipe(api)
        if what == "a job that needs it":
            api.jobs["orders-ingest"] = {"name": "orders-ingest", "type": "spark", "schedule": {"enabled": False}}
        else:
            api.add_file("etl-scripts", "basket.py", b"theirs", hidden=what == "its definition")
        api.add_file("etl-data", "mine.txt", b"mine")

    actions = {}
    for what in ("a file in it", "its definition", "a job that needs it"):
        put(what)
        actions[what] = plan(ground, on_conflict="replace")
    for lost in (False, True):
        damage(ground, snapshot, "etl-scripts", "basket.py", lost=lost)
        for what, action in actions.items():
            put(what)
            before = copy.deepcopy((api.jobs, api.resources, api.files))
            for attempt in (
                lambda action=action: run(RestoreCluster().apply(action, ground, Notes())),
                lambda: plan(ground, on_conflict="replace"),
            ):
                with pytest.raises(Refused, match="would be replaced by what cannot be read") as caught:
                    attempt()
                assert "etl-scripts" in caught.value.detail[0], (what, lost)
                assert "maint backup heal" in str(caught.value.hint)
            assert (api.jobs, api.resources, api.files) == before, (what, lost)
    assert [one.id for one in entries(ground)] == [snapshot.id]


def test_what_the_store_has_lost_and_nothing_goes_for_is_no_obstacle_to_a_replacing(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot
) -> None:
    api.jobs["remote-pi"] = {"name": "remote-pi", "type": "spark", "schedule": {"enabled": False}}
    damage(ground, snapshot, "etl-scripts", "basket.py", lost=True)
    result: Result = run(RestoreCluster().apply(plan(ground, on_conflict="replace"), ground, work))
    assert result.partly and "etl-scripts/basket.py" in result.detail
    assert "spark" in api.jobs["remote-pi"]


def test_a_store_that_takes_no_safety_snapshot_stops_a_replacing_with_the_way_that_goes_without(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.jobs["remote-pi"] = {"name": "remote-pi", "type": "spark", "schedule": {"enabled": False}}
    action = plan(ground, on_conflict="replace")

    def refuse(_: LocalStore, name: str) -> Any:
        raise StoreFailed(f"cannot write {name}", detail=["Read-only file system"])

    monkeypatch.setattr(LocalStore, "create", refuse)
    with pytest.raises(StoreFailed, match="cannot write") as caught:
        run(RestoreCluster().apply(action, ground, work))
    assert "begun anew with `--no-safety-net REASON`" in str(caught.value.hint)
    assert "spark" not in api.jobs["remote-pi"]


def test_a_resource_of_which_the_api_shows_some_files_only_is_not_replaced(
    ground: Ground, api: Api, run: Run, work: Notes, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = type(api)._resource

    def first_page(self: Api, name: str, *, with_files: bool) -> Any:
        shown = whole(self, name, with_files=with_files)
        return {**shown, "files": shown["files"][:1]} if with_files else shown

    monkeypatch.setattr(type(api), "_resource", first_page)
    api.add_file("etl-scripts", "basket.py", b"my basket", hidden=True)
    api.add_file("etl-scripts", "page-2.py", b"mine")
    action = plan(ground, on_conflict="replace")
    with pytest.raises(Refused, match="the safety snapshot does not hold") as caught:
        run(RestoreCluster().apply(action, ground, work))
    assert "files of resource etl-scripts that the API does not show" in caught.value.detail
    assert api.writes() == []
