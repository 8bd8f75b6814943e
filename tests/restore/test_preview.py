"""What a restore tells before it begins: what stays behind, and that what it saw is what there is."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from maint.errors import Refused
from maint.model.manager import Door, Host, Presence
from maint.restore.payload import outgoing, planned_edit
from maint.restore.preview import meaning, preview, tree_of_server
from maint.snapshots.capture import take
from tests.snapshots.conftest import EXAMPLE
from tests.snapshots.conftest import Place as Site

OLD, NEW = "base-01.example.internal", Host("n", "new.example.org", "192.0.2.9")


@pytest.fixture
def moving(tmp_path: Path, run: Any) -> tuple[Site, Any]:
    """A site with a snapshot in which a setting names a host, and the document that moves that host."""
    document = json.loads(EXAMPLE.read_bytes())
    valve = {"name": "valve", "value": f"http://{OLD}/?token=hush", "sensitive": False}
    document["clusters"][0]["services"][0].setdefault("config", {}).setdefault("items", []).append(valve)
    place = Site(tmp_path, json.dumps(document).encode())
    place.manager.hosts = lambda: [NEW]
    snapshot = run(take(place)).snapshot
    place.manager.presence = lambda: Presence(Door.TLS, "redirects", "answers")
    return place, outgoing(place, snapshot, planned_edit(place, snapshot, (), [f"{OLD}=n"]))


def test_what_still_names_an_old_host_is_told_by_its_place(moving: tuple[Site, Any]) -> None:
    place, out = moving
    out = replace(out, edit=replace(out.edit, left_out=("peers/dr",)))
    lines = "\n".join(preview(place, out, meaning(tree_of_server(place))).lines())
    assert f"{OLD} becomes {NEW.hostname} ({NEW.address})" in lines
    assert "still names an old host, look at it afterwards: clusters/base/services/" in lines
    assert "not brought back, make it anew in the manager: peers/dr" in lines
    assert "hush" not in lines + repr(out)


def test_a_configuration_that_changed_while_the_plan_was_made_is_refused(moving: tuple[Site, Any]) -> None:
    with pytest.raises(Refused, match="changed while the plan was made"):
        preview(*moving, "what was there a moment ago")
