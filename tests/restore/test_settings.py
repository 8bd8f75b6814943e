"""What a snapshot has set on one place of the manager, and what is never taken from it."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from maint.errors import Refused, WorkFailed
from maint.model.manager import Place
from maint.restore.payload import groups_in, settings_in
from maint.snapshots.capture import take
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.verify import verify
from tests.snapshots.conftest import EXAMPLE
from tests.snapshots.conftest import Place as Site
from tests.snapshots.liar import Liar


@pytest.fixture
def snapshot(place: Site, run: Any) -> Any:
    return run(take(place)).snapshot


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        (Place(), "AGENT_TLS", "true"),
        (Place(cluster="base", service="zookeeper"), "enableSecurity", "true"),
        (
            Place(host="f3a1c0de-4b7e-4d0a-9a51-0c6e2f1b7a01"),
            "host_config_suppression_memory_overcommitted_validator",
            "true",
        ),
        (
            Place(host="base-01.example.internal"),
            "host_config_suppression_memory_overcommitted_validator",
            "true",
        ),
    ],
)
def test_a_snapshot_tells_what_it_has_set(place: Site, snapshot: Any, of: Place, name: str, value: str) -> None:
    assert settings_in(place, snapshot, of)[name].value == value


def test_the_monitoring_service_is_found_by_its_name_alone(place: Site, snapshot: Any) -> None:
    assert groups_in(place, snapshot, Place(service="mgmt"))
    assert groups_in(place, snapshot, Place(service="other")) == []
    assert settings_in(place, snapshot, Place(service="mgmt")) is not None


@pytest.mark.parametrize(
    "of",
    [
        Place(cluster="other", service="hdfs"),
        Place(cluster="base", service="other"),
        Place(cluster="base", service="hdfs", role="other"),
        Place(service="other"),
        Place(host="other"),
    ],
)
def test_a_place_that_a_snapshot_has_not_is_refused_by_its_name(place: Site, snapshot: Any, of: Place) -> None:
    with pytest.raises(Refused, match=r"has no .*other") as caught:
        settings_in(place, snapshot, of)
    assert caught.value.hint


def test_no_setting_is_taken_from_bytes_that_a_store_swapped_after_the_proof(place: Site, snapshot: Any) -> None:
    assert verify(place, snapshot.id).proven
    forged = BytesIO()
    changed = EXAMPLE.read_bytes().replace(b'"value" : "true"', b'"value" : "evil"')
    place.seal.wrap(BytesIO(changed).read, forged, snapshot.recipients)  # who they are is not a secret
    place.store = Liar(place.store, lambda name, _: forged.getvalue() if name.endswith(DEPLOYMENT) else None)  # type: ignore[assignment]
    with pytest.raises(WorkFailed, match="is not what was stored"):
        settings_in(place, snapshot, Place())


def test_of_a_redacted_snapshot_no_setting_is_taken(tmp_path: Path, run: Any) -> None:
    document = json.loads(EXAMPLE.read_bytes())
    hdfs = next(one for one in document["clusters"][0]["services"] if one["name"] == "hdfs")
    hdfs["config"]["items"][0]["value"] = "REDACTED"
    place = Site(tmp_path, json.dumps(document).encode())
    snapshot = run(take(place)).snapshot
    with pytest.raises(Refused, match="is hidden in snapshot"):
        settings_in(place, snapshot, Place(cluster="base", service="hdfs"))
