"""Nothing is put unless the very snapshot to be restored is proven, and what is there is kept."""

from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import StoreFailed
from maint.lab.create import SITE
from tests.steps.guards.test_clusters import damage, purposes, snapshots
from tests.steps.operator import Operator, Said


def put(operator: Operator, *words: str) -> Said:
    operator.forget_requests()
    return operator("manager", "restore", "--confirm", SITE, *words)


def test_a_damaged_or_redacted_snapshot_is_never_put_whatever_is_asked_or_lifted(loaded):
    snapshot = snapshots(loaded)[0]["id"]
    damage(loaded, snapshot)
    for more in ((), ("--no-safety-net", "in a hurry")):
        said = put(loaded, "--snapshot", snapshot, *more)
        assert said.code == 5, said.err
        assert "is not what was stored" in said.err
    assert loaded.puts == 0
    assert loaded("backup", "create").code == 7
    audit_only = snapshots(loaded)[-1]["id"]
    said = put(loaded, "--snapshot", audit_only, "--no-safety-net", "in a hurry")
    assert (said.code, loaded.sent) == (5, [])
    assert "redacted" in said.err
    assert (loaded.restore("--snapshot", audit_only).code, loaded.sent) == (5, [])


def test_a_restore_that_is_taken_up_proves_no_less_and_keeps_what_was_there_once_and_what_changed_meanwhile(lost):
    lost.lab.break_("restore", "put-fails")
    said = lost.restore("-v")
    assert said.code == 1, said.err
    assert "audit-only: no cluster and no host is in it, so nothing to restore" in said.err  # a formality
    assert "redacts" not in said.err
    lost.lab.break_("restore", "put-fails")
    assert lost("playbook", "resume").code == 1
    assert purposes(lost) == ["backup", "safety"]
    lost.lab.repair()
    lost.forget_requests()
    snapshot, world = snapshots(lost)[0]["id"], lost.lab.world

    def refused(*words: str, code: int = 5) -> None:
        said = lost("playbook", "resume")
        assert (said.code, lost.puts) == (code, 0), said.err
        assert [one for one in words if one not in said.err] == []

    damage(lost, snapshot)
    refused("is not what was stored", code=1)
    damage(lost, snapshot)  # the same byte turns back
    (path,) = (lost.lab.folder / "backups" / SITE / snapshot).glob("manager-files*")
    whole = path.read_bytes()
    path.write_bytes(b"rotten")
    refused("is not proven restorable, so it is not sent")
    path.write_bytes(whole)
    with world.lock:
        release = world.deployment["versionInfo"]["version"]
        world.deployment["versionInfo"]["version"] = "7.11.3"
    refused("the server is release 7.11.3, the snapshot 7.6.5")
    with world.lock:
        world.deployment["versionInfo"]["version"] = release
        world.deployment["clusters"] = [{"name": "new", "displayName": "new", "fullVersion": "7.1.9"}]
    refused("the manager holds what the plan does not name: cluster new", "maint playbook dismiss 2")
    with world.lock:
        world.deployment["clusters"] = []
        world.deployment["users"].append({"name": "newcomer", "roles": ["ROLE_USER"]})
    said = lost("playbook", "resume")
    assert said.code == 0, said.err
    assert purposes(lost) == ["backup", "safety", "safety"]
    assert f"the state before is safety snapshot {snapshots(lost)[-1]['id']}" in said.err


def test_the_snapshot_to_be_put_proves_the_stop_what_was_there_is_kept_and_nothing_is_sent_while_a_cluster_runs(
    loaded,
):
    loaded.lab.break_("restore", "put-fails")
    with loaded.lab.world.lock:  # so that it is not in force already
        loaded.lab.world.deployment["managerSettings"]["items"][0]["value"] = "another"
    said = put(loaded, "--open-window")
    assert said.code == 1, said.err
    assert [line.split("?")[0].rpartition("/")[2] for line in loaded.sent] == ["stop", "stop", "deployment"]
    assert purposes(loaded) == ["backup", "safety"]
    assert (snapshots(loaded)[-1]["restorable"], loaded.window) == (True, False)
    assert loaded("cluster", "start", "base", "--yes").code == 0  # somebody has started it meanwhile
    loaded.forget_requests()
    said = loaded("playbook", "resume")
    assert said.code == 5, said.err
    assert "clusters that are about to be replaced are not at rest" in said.err
    assert "hint: `maint cluster stop base`, then again" in said.err
    assert loaded.puts == 0
    assert loaded("cluster", "stop", "base", "--yes").code == 0
    said = loaded("playbook", "resume")
    assert (said.code, loaded.puts, purposes(loaded)) == (0, 1, ["backup", "safety"]), said.err


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(store: LocalStore, name: str) -> Any:
        raise StoreFailed(f"cannot write {name} in {store.location}", detail=["Read-only file system"])

    monkeypatch.setattr(LocalStore, "create", refuse)


def test_a_store_that_takes_no_safety_snapshot_stops_with_the_way_that_goes_without(lost, monkeypatch):
    read_only(monkeypatch)
    said = lost.restore()
    assert (said.code, lost.puts) == (1, 0), said.err
    assert "cannot write" in said.err and "begun anew with `--no-safety-net REASON`" in said.err, said.err
    assert said.err.index("no-safety-net") > said.err.index("hint:")
    again = lost.restore("--no-safety-net", "the store is read-only")
    assert (again.code, lost.puts) == (0, 1), again.err
    assert purposes(lost) == ["backup"]
    assert lost.journal()[0]["options"]["no_safety_net"] == "the store is read-only"
