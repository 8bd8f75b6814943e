"""What has changed in a virtual cluster since a snapshot: told by names, from signatures."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from maint.snapshots.capture import recipients_of
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.document import ClusterDocument, drift_of
from maint.snapshots.virtual_clusters.verify import read_document
from tests.adapters.virtual_clusters.server import Api
from tests.snapshots.virtual_clusters.conftest import VC, Ground

Run = Callable[[Any], Any]


@pytest.fixture
def document(ground: Ground, run: Run) -> ClusterDocument:
    snapshot = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    return read_document(ground, snapshot, VC)


def told(ground: Ground, document: ClusterDocument) -> set[tuple[str, ...]]:
    found = drift_of(document, ground.clients[VC])
    return {(one.what, one.name, one.change, one.property) for one in found}


def test_nothing_differs_and_no_file_is_downloaded(ground: Ground, api: Api, document: ClusterDocument) -> None:
    asked = len(api.sent)
    assert told(ground, document) == set()
    assert not [path for _, path, _ in api.sent[asked:] if path.startswith("/resources/") and path.count("/") > 2]


def test_what_is_left_out_and_what_is_spelled_out_are_the_same(
    ground: Ground, api: Api, document: ClusterDocument
) -> None:
    api.jobs["pi-estimate"]["spark"] |= {
        "pyFiles": [],
        "className": api.jobs["pi-estimate"]["spark"].get("className", ""),
    }
    api.jobs["pi-estimate"]["modified"] = "2031-01-01T00:00:00Z"
    assert told(ground, document) == set()


def test_each_change_is_named_and_no_value_of_it(ground: Ground, api: Api, document: ClusterDocument) -> None:
    api.jobs["pi-estimate"]["spark"]["conf"] = {"spark.password": "very-secret"}
    api.jobs["daily-vacuum"]["schedule"]["paused"] = False
    del api.jobs["order-report"]
    api.jobs["fresh"] = {"name": "fresh", "type": "spark", "schedule": {"enabled": False}}
    api.files["etl-scripts"]["basket.py"] = b"changed"
    api.files["etl-data"]["lookup/rates-2.csv"] = api.files["etl-data"].pop("lookup/rates.csv")
    found = told(ground, document)
    assert ("job", "pi-estimate", "added", "spark.conf.spark.password") in found
    assert ("job", "order-report", "removed", "") in found
    assert ("job", "fresh", "added", "") in found
    assert ("file", "etl-scripts/basket.py", "changed", "") in found
    assert ("file", "etl-data/lookup/rates.csv", "removed", "") in found
    assert ("file", "etl-data/lookup/rates-2.csv", "added", "") in found
    assert {one[3] for one in found if one[1] == "daily-vacuum"} == {"schedule.paused"}
    words = json.dumps([one.to_json() for one in drift_of(document, ground.clients[VC])])
    assert "very-secret" not in words


def test_that_a_dag_was_paused_or_let_go_on_is_told(ground: Ground, api: Api, document: ClusterDocument) -> None:
    api.jobs["nightly-pipeline"]["schedule"]["paused"] = True
    assert told(ground, document) == {("job", "nightly-pipeline", "added", "schedule.paused")}
    api.jobs["adhoc-rebuild"]["schedule"] = {"enabled": False}  # it was paused, and has no times of its own
    assert ("job", "adhoc-rebuild", "removed", "schedule.paused") in told(ground, document)
