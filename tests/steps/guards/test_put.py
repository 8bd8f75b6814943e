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


def test_a_damaged_snapshot_is_never_put_whatever_is_lifted(loaded):
    snapshot = snapshots(loaded)[0]["id"]
    damage(loaded, snapshot)
    for more in ((), ("--no-safety-net", "in a hurry")):
        said = put(loaded, "--snapshot", snapshot, *more)
        assert said.code == 5, said.err
        assert "is not what was stored" in said.err
    assert loaded.puts == 0


def test_a_redacted_snapshot_is_never_put_whatever_is_lifted(loaded):
    assert loaded("backup", "create").code == 7
    said = put(loaded, "--snapshot", snapshots(loaded)[-1]["id"], "--no-safety-net", "in a hurry")
    assert (said.code, loaded.puts) == (5, 0)
    assert "redacted" in said.err


def test_the_age_of_the_snapshot_to_be_put_does_not_matter_and_it_is_the_proof_for_stopping(loaded):
    said = put(loaded)
    assert said.code == 0, said.err
    assert [line.split("?")[0].rpartition("/")[2] for line in loaded.sent] == ["stop", "stop", "deployment"]


def test_before_a_put_the_present_state_is_kept(loaded):
    assert put(loaded).code == 0
    assert purposes(loaded) == ["backup", "safety"]


def test_through_the_window_what_was_there_can_be_restored(loaded):
    said = put(loaded, "--open-window")
    assert said.code == 0, said.err
    kept = snapshots(loaded)[-1]
    assert (kept["purpose"], kept["restorable"], loaded.window) == ("safety", True, False)


def test_the_safety_copy_of_an_empty_manager_is_a_formality(lost):
    said = lost.restore("-v")
    assert said.code == 0, said.err
    assert purposes(lost) == ["backup", "safety"]
    assert "audit-only: no cluster and no host is in it, so nothing to restore" in said.err
    assert "redacts" not in said.err


def test_without_a_safety_net_nothing_is_kept(lost):
    said = lost.restore("--no-safety-net", "it is empty")
    assert said.code == 0, said.err
    assert purposes(lost) == ["backup"]
    assert lost.journal()[0]["options"]["no_safety_net"] == "it is empty"


def test_a_resumed_put_keeps_what_was_there_once(lost):
    lost.lab.break_("restore", "put-fails")
    assert lost.restore().code == 1
    lost.lab.repair()
    said = lost("playbook", "resume")
    assert said.code == 0, said.err
    assert purposes(lost) == ["backup", "safety"]


def test_a_resumed_put_proves_no_less(lost):
    lost.lab.break_("restore", "put-fails")
    assert lost.restore().code == 1
    lost.lab.repair()
    lost.forget_requests()
    damage(lost, snapshots(lost)[0]["id"])
    assert lost("playbook", "resume").code != 0
    assert lost.puts == 0


def stopped_before_the_put(operator: Operator) -> None:
    operator.lab.break_("restore", "put-fails")
    assert operator.restore().code == 1
    operator.lab.repair()
    operator.forget_requests()


def test_a_restore_that_is_taken_up_sends_nothing_while_another_part_than_the_deployment_has_rotted(lost):
    stopped_before_the_put(lost)
    (path,) = (lost.lab.folder / "backups" / SITE / snapshots(lost)[0]["id"]).glob("manager-files*")
    path.write_bytes(b"rotten")
    said = lost("playbook", "resume")
    assert said.code == 5, said.err
    assert "is not proven restorable, so it is not sent" in said.err
    assert lost.puts == 0


def test_a_restore_that_is_taken_up_sends_nothing_to_a_manager_that_was_upgraded_meanwhile(lost):
    stopped_before_the_put(lost)
    with lost.lab.world.lock:
        lost.lab.world.deployment["versionInfo"]["version"] = "7.11.3"
    said = lost("playbook", "resume")
    assert said.code == 5, said.err
    assert "the server is release 7.11.3, the snapshot 7.6.5" in said.err
    assert lost.puts == 0


def test_a_restore_that_is_taken_up_loses_no_cluster_that_somebody_has_made_meanwhile(lost):
    stopped_before_the_put(lost)
    with lost.lab.world.lock:
        lost.lab.world.deployment["clusters"] = [{"name": "new", "displayName": "new", "fullVersion": "7.1.9"}]
    said = lost("playbook", "resume")
    assert said.code == 5, said.err
    assert "the manager holds what the plan does not name: cluster new" in said.err
    assert "maint playbook dismiss 2" in said.err
    assert lost.puts == 0


def test_a_restore_that_is_taken_up_sends_nothing_while_a_cluster_runs_that_somebody_has_started_meanwhile(loaded):
    loaded.lab.break_("restore", "put-fails")
    with loaded.lab.world.lock:  # so that it is not in force already
        loaded.lab.world.deployment["managerSettings"]["items"][0]["value"] = "another"
    assert put(loaded).code == 1
    assert loaded("cluster", "start", "base", "--yes").code == 0
    loaded.forget_requests()
    said = loaded("playbook", "resume")
    assert said.code == 5, said.err
    assert "clusters that are about to be replaced are not at rest" in said.err
    assert "hint: `maint cluster stop base`, then again" in said.err
    assert loaded.puts == 0


def test_what_changed_while_a_restore_lay_is_kept_too_before_it_is_replaced(lost):
    stopped_before_the_put(lost)
    with lost.lab.world.lock:
        lost.lab.world.deployment["users"].append({"name": "newcomer", "roles": ["ROLE_USER"]})
    said = lost("playbook", "resume")
    assert said.code == 0, said.err
    assert purposes(lost) == ["backup", "safety", "safety"]
    assert f"the state before is safety snapshot {snapshots(lost)[-1]['id']}" in said.err


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
