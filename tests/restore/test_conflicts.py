"""Names that are taken: what a rename reaches, and where it would break a DAG."""

from typing import Any

import pytest
from msgspec.structs import replace

from maint.errors import Refused
from maint.model.virtual_cluster import Job, Resource
from maint.restore.conflicts import Resolution, dags_of, decide, definition_of, recovery_source
from maint.snapshots.capture import take
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.virtual_clusters.dag_source import Dag
from maint.snapshots.virtual_clusters.document import ClusterDocument, part_name

NIGHTLY = {
    "name": "nightly",
    "type": "airflow",
    "mounts": [{"resourceName": "dags"}],
    "airflow": {"dagFile": "nightly.py", "fileMounts": [{"resourceName": "tables", "dirPrefix": "/tables"}]},
}
CALLS = Dag(calls=["load"], unclear=False, scheduled=False, born_paused=False)
RACES = Dag(calls=["load"], unclear=False, scheduled=True, born_paused=False)


def document(*jobs: Any) -> ClusterDocument:
    file = {"path": "nightly.py", "signature": "ab" * 20, "fileSize": 1}
    resources = ({"name": "dags", "type": "files", "files": [file]}, {"name": "tables", "type": "files"})
    return ClusterDocument(
        name="vc", base_url="https://vc.invalid", taken_at="", user="", info={}, jobs=tuple(map(Job, jobs)),
        resources=tuple(map(Resource, resources)), users=(), objects={}, uncovered=(), problems=(),
    )  # fmt: skip


class Live:
    """A virtual cluster in which some names are taken."""

    def __init__(self, *names: str) -> None:
        self.taken = [{"name": name} for name in names]

    def resources(self) -> list[Resource]:
        return [Resource(raw) for raw in self.taken]

    def jobs(self) -> list[Job]:
        return [Job(raw) for raw in self.taken]

    def resource(self, name: str, *, files: bool = True) -> None: ...

    def job(self, name: str) -> None: ...


def renamed(live: Any, dag: Dag | None) -> Resolution:
    load = {"name": "load", "type": "spark"}
    return decide(document(NIGHTLY, load), live, "rename", {"nightly": dag}, accept_race=False)


def test_a_renamed_resource_is_named_anew_wherever_its_jobs_mount_it() -> None:
    found = renamed(Live("tables"), CALLS)
    assert (found.resource_names, found.job_names) == ({"tables": "tables-2"}, {})
    made = definition_of(Job(NIGHTLY), found)
    assert made["airflow"]["fileMounts"] == [{"resourceName": "tables-2", "dirPrefix": "/tables"}]  # type: ignore[index, call-overload]
    assert made["mounts"] == NIGHTLY["mounts"]


def test_a_job_keeps_its_name_where_a_dag_that_comes_back_calls_it() -> None:
    with pytest.raises(Refused, match="would break DAGs") as caught:
        renamed(Live("load"), CALLS)
    assert caught.value.detail == ("nightly calls load, which would be load-2",)
    alone = renamed(Live("load"), RACES)  # which would start by itself, and is left out
    assert (alone.job_names, alone.left_out) == ({"load": "load-2"}, ["nightly"])


def test_beside_an_older_snapshot_comes_what_that_one_holds_though_a_newer_one_cannot_be_believed(
    place: Any, run: Any
) -> None:
    older = run(take(place)).snapshot
    place.clock.sleep(60)
    newest = run(take(place)).snapshot
    (place.folder(newest.id) / MANIFEST).write_bytes(b"{}")
    assert recovery_source(place, older, "vc") is None
    holding = replace(older, parts=(*older.parts, replace(older.parts[0], name=part_name("vc"))))
    assert recovery_source(place, holding, "vc") == holding


def test_of_a_dag_whose_file_the_snapshot_does_not_hold_nobody_knows_what_it_calls(place: Any) -> None:
    assert dags_of(place, document(NIGHTLY)) == {"nightly": None}
    paused = {**NIGHTLY, "schedule": {"pausedUponCreation": True}}
    with pytest.raises(Refused) as caught:
        decide(document(paused), Live("nightly"), "rename", {"nightly": None}, accept_race=False)  # type: ignore[arg-type]
    assert caught.value.detail == ("what nightly calls is unknown",)
