"""What the store has lost of virtual clusters stands in nobody else's way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import StoreFailed
from maint.lab.create import SITE
from tests.restore.recovery.conftest import FIRST, SECOND
from tests.restore.recovery.test_virtual_clusters import create
from tests.steps.operator import Operator


def stored(operator: Operator) -> list[Path]:
    return sorted((operator.lab.folder / "backups" / SITE / "objects").iterdir())


def told(addresses: Mapping[str, str]) -> list[str]:
    return [word for name, address in addresses.items() for word in ("--set", f"vc.{name}.base_url={address}")]


@pytest.mark.parametrize("command", ["restore run", "manager restore"])
def test_a_lost_file_of_a_virtual_cluster_does_not_stand_in_the_way_of_the_manager(
    lost_all: Operator, command: str
) -> None:
    gone = stored(lost_all)[0]
    gone.unlink()
    assert lost_all("backup", "verify").code == 1  # signed, so that it is no default any more
    offered = lost_all("restore", "plan", "--manager-only")
    assert offered.code == 5 and "named by its id, is asked anew" in offered.err
    (taken,) = [one["id"] for one in lost_all("backup", "list", "-o", "json").json["snapshots"]]
    uploaded = lost_all("manager", "license", "--yes") if command == "manager restore" else None
    assert uploaded is None or uploaded.code == 0
    only = ["--manager-only"] if command == "restore run" else []
    said = lost_all(*command.split(), "--confirm", SITE, "--snapshot", taken, *only)
    assert said.code == 0, said.err
    assert f"WARNING, not about the manager: {SITE}/objects/{gone.name} is missing" in said.err
    assert lost_all.puts == 1


def test_a_lost_document_of_a_virtual_cluster_does_not_stand_in_the_way_of_the_manager(lost_all: Operator) -> None:
    (taken,) = [one["id"] for one in lost_all("backup", "list", "-o", "json").json["snapshots"]]
    name = f"vc/{SECOND}.json.zst.age"
    (lost_all.lab.folder / "backups" / SITE / taken / name).write_bytes(b"rotten")
    said = lost_all("restore", "run", "--confirm", SITE, "--manager-only")
    assert (said.code, lost_all.puts) == (0, 1), said.err
    assert f"WARNING, not about the manager: {name} is not what was stored" in said.err


def test_a_store_that_takes_no_record_keeps_no_virtual_cluster_from_coming_back(
    waiting: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {name: create(waiting, name) for name in (FIRST, SECOND)}

    def refuse(store: LocalStore, name: str) -> Any:
        raise StoreFailed(f"cannot write {name} in {store.location}", detail=["Permission denied"])

    monkeypatch.setattr(LocalStore, "create", refuse)  # as one that is mounted read-only
    said = waiting("playbook", "resume", *told(addresses))
    assert said.code == 0, said.err
    assert f"resume-schedules --set vc={FIRST} --set order=nightly-pipeline " in said.err
    assert "which schedules rest could not be noted: cannot write" in said.err
    asked = waiting("playbook", "run", "resume-schedules", "--set", f"vc={FIRST}", "--dry-run")
    assert asked.code == 5 and "as far as the records in" in asked.err
