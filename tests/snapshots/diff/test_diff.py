"""Two snapshots, or a snapshot and the live manager, compared by meaning and without any secret in the answer."""

import json
import random
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from msgspec.structs import replace

from maint.errors import Refused, WorkFailed
from maint.lab.create import SITE
from maint.model.manager import Door, Instance, Presence
from maint.restore.payload import Edit, Outgoing
from maint.restore.preview import meaning, preview, tree_of_server
from maint.restore.select_snapshot import manifest_fact
from maint.snapshots.capture import take
from maint.snapshots.diff import differences, latest, of_server, of_snapshot, unified
from maint.snapshots.diff import place as told
from maint.snapshots.parts import REDACTED_COPY
from maint.steps.restore.deployment import CompareDeployment
from tests.snapshots.conftest import Manager
from tests.steps.conftest import back_up

NO_NOTES: Any = None  # of a step that takes none
CANARY, ROTATED = "Canary-Secret-0001", "Canary-Secret-0002"


def changed(content: bytes, change: Any) -> bytes:
    document = json.loads(content)
    change(document)
    return json.dumps(document, indent=2).encode()


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    if isinstance(value, list):
        members = [shuffled(member, chance) for member in value]
        chance.shuffle(members)
        return members
    return value


def setting(document: Any, name: str) -> Any:
    return next(one for one in document["managerSettings"]["items"] if one["name"] == name)


def pair(site: Any, run: Any, first: bytes, second: bytes, *, redacted: bool = False) -> Any:
    sides = []
    for content in (first, second):
        site.manager.content = content
        sides.append(of_snapshot(site, run(take(site)).snapshot, redacted=redacted))
        site.clock.sleep(60)
    return sides, differences(site, *sides)


def test_a_permuted_export_differs_in_nothing(deployment: Path, place_of: Any, run: Any) -> None:
    content = deployment.read_bytes()
    site = place_of(content, "x")
    permuted = json.dumps(shuffled(json.loads(content), random.Random(7))).encode()
    taken = []
    for site.manager.content in (content, permuted):
        taken.append(run(take(site)).snapshot)
        site.clock.sleep(60)
    for redacted in (False, True):
        sides = [of_snapshot(site, one, redacted=redacted) for one in taken]
        found = differences(site, *sides)
        assert found.same, (redacted, found.differences)
        assert not found.not_comparable, redacted
        assert unified(*sides, found) == ""


@pytest.mark.parametrize("redacted", [False, True])
def test_a_rotated_secret_is_one_line_without_its_value(place: Any, run: Any, redacted: bool) -> None:
    def rotate(to: str) -> Any:
        return lambda document: setting(document, "KDC_ADMIN_PASSWORD").update(value=to)

    content = place.manager.content
    sides, found = pair(
        place, run, changed(content, rotate(CANARY)), changed(content, rotate(ROTATED)), redacted=redacted
    )
    assert [one.path for one in found.differences] == ["managerSettings/KDC_ADMIN_PASSWORD"]
    text = unified(*sides, found)
    assert [line[:40] for line in text.splitlines()[2:]] == [
        "-managerSettings/KDC_ADMIN_PASSWORD: fp:",
        "+managerSettings/KDC_ADMIN_PASSWORD: fp:",
    ]
    assert "Canary" not in text + json.dumps(found.to_json())


def test_a_known_secret_inside_a_text_that_differs_is_not_shown(place: Any, run: Any) -> None:
    def note(words: str) -> Any:
        def change(document: Any) -> None:
            setting(document, "KDC_ADMIN_PASSWORD").update(value=CANARY)
            document["managerSettings"]["items"].append({"name": "BANNER", "value": words, "sensitive": False})

        return change

    content = place.manager.content
    first, second = (changed(content, note(f"{words} {CANARY}")) for words in ("one", "two"))
    sides, found = pair(place, run, first, second)
    assert [one.path for one in found.differences] == ["managerSettings/BANNER"]
    assert "Canary" not in unified(*sides, found)
    assert found.differences[0].before.startswith("one fp:")


class Standing(Manager):
    """A manager that can be restored onto."""

    def presence(self) -> Presence:
        return Presence(Door.PLAIN, "answers 401", "refused")

    def hosts(self) -> list[Any]:
        return []

    def instances(self) -> list[Instance]:
        return [Instance("cm", "")]

    def forget_login(self) -> None:
        """There is none to forget."""


def test_nor_is_it_in_what_a_restore_would_change_or_has_not_brought_back(place: Any, run: Any) -> None:
    def note(words: str) -> Any:
        def change(document: Any) -> None:
            setting(document, "KDC_ADMIN_PASSWORD").update(value=CANARY)
            document["managerSettings"]["items"].append({"name": "BANNER", "value": words, "sensitive": False})

        return change

    first, second = (changed(place.manager.content, note(f"{words} {CANARY}")) for words in ("one", "two"))
    place.manager = Standing(first)
    out = Outgoing(run(take(place)).snapshot, Edit())
    place.manager = Standing(second)
    losses = preview(place, out, meaning(tree_of_server(place))).losses
    assert [one.path for one in losses.differences] == ["managerSettings/BANNER"]
    assert str(losses.differences[0].before).startswith("two fp:")
    assert "Canary" not in str(losses)
    step = CompareDeployment()
    action = step.action("manager", "compare", {"snapshot": out.snapshot.id, "edit": Edit().to_json()})
    action = replace(action, facts=manifest_fact(out.snapshot))
    with pytest.raises(WorkFailed, match="differs") as caught:
        run(step.apply(action, place, NO_NOTES))
    assert "one fp:" in str(caught.value.detail)
    assert "Canary" not in str(caught.value.detail)


def test_an_added_field_of_the_same_format_is_a_difference(place: Any, run: Any) -> None:
    def rack(document: Any) -> None:
        document["hosts"][0]["brandNew"] = "value"

    sides, found = pair(place, run, place.manager.content, changed(place.manager.content, rack))
    assert [(one.before, one.after) for one in found.differences] == [(None, "value")]
    assert unified(*sides, found).splitlines()[-1].endswith("/brandNew: value")


def test_a_live_server_that_redacts_is_compared_with_a_full_snapshot(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot
    document = json.loads(place.manager.content)

    def hide(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("sensitive"):
                value["value"] = "REDACTED"
            for name in ("pwHash", "pwSalt", "pwLogin"):
                value.pop(name, None)
            if "password" in value:
                value["password"] = "REDACTED"
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            hide(child)

    hide(document)
    document["hosts"][0]["rackId"] = "/moved"
    place.manager.content = json.dumps(document).encode()
    found = differences(place, of_snapshot(place, snapshot, redacted=False), of_server(place))
    assert [one.after for one in found.differences] == ["/moved"]
    assert len(found.not_comparable) > 30


@pytest.mark.parametrize(
    "words",
    [
        "jdbc:x;pw=Canary-Secret-0001;y",
        "Canary-Secret-0001 and Canary-Secret-0001",
        "jdbc:x;" + "long, " * 400 + "pw=Canary-Secret-0001;" + "Canary-Secret-0001," * 40,  # longer than what is shown
    ],
)
def test_a_redacted_copy_with_fingerprints_in_its_texts_equals_the_live_ones(place: Any, run: Any, words: str) -> None:
    def note(document: Any) -> None:
        setting(document, "KDC_ADMIN_PASSWORD").update(value=CANARY)
        document["managerSettings"]["items"].append({"name": "BANNER", "value": words, "sensitive": False})

    place.manager.content = changed(place.manager.content, note)
    snapshot = run(take(place)).snapshot
    copy = of_snapshot(place, snapshot, redacted=True, whole=True)
    assert differences(place, copy, of_server(place, whole=True)).same
    place.manager.content = place.manager.content.replace(b"jdbc:x", b"jdbc:z").replace(b" and ", b" or ")
    found = differences(place, copy, of_server(place, whole=True))
    assert [one.path for one in found.differences] == ["managerSettings/BANNER"]
    assert "Canary" not in str(found.differences)
    assert all(len(one.after or "") < 1_100 for one in found.differences)


def test_a_redacted_copy_that_is_not_what_was_signed_is_not_read(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot
    path = place.folder(snapshot.id) / REDACTED_COPY
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(WorkFailed, match="is not what was stored"):
        of_snapshot(place, snapshot, redacted=True)


def test_where_there_is_no_redacted_copy_the_way_without_one_is_named(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot
    bare = replace(snapshot, parts=tuple(part for part in snapshot.parts if part.name != REDACTED_COPY))
    with pytest.raises(WorkFailed, match="has no redacted copy") as caught:
        of_snapshot(place, bare, redacted=True)
    assert "where the private key is" in caught.value.hint
    assert of_snapshot(place, bare, redacted=False).source == "raw"


def test_the_latest_snapshot_is_no_safety_copy(place: Any, run: Any) -> None:
    from maint.model.snapshot import Purpose

    with pytest.raises(Refused):
        latest(place)
    wanted = run(take(place)).snapshot
    place.clock.sleep(60)
    run(take(place, purpose=Purpose.SAFETY))
    assert latest(place).id == wanted.id


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("clusters/base/services/hdfs/roleConfigGroups/g/config/x", ("base", "hdfs", "g", "config/x")),
        ("clusters/base/services/hdfs/config/x", ("base", "hdfs", "", "config/x")),
        ("clusters/base", ("", "", "", "clusters/base")),
        ("managementService/roles/r/hostRef/hostId", ("", "managementService", "r", "hostRef/hostId")),
        ("hosts/h/rackId", ("", "", "", "hosts/h/rackId")),
    ],
)
def test_a_path_is_told_by_cluster_service_group_and_property(path: str, wanted: Any) -> None:
    assert told(path.split("/")) == wanted


def test_a_slash_in_a_name_does_not_shift_what_follows(place: Any, run: Any) -> None:
    def rename(document: Any) -> None:
        service = document["clusters"][0]["services"][0]
        service["roleConfigGroups"][0]["displayName"] = "another"
        service["name"] = service["roleConfigGroups"][0]["name"] = "a/b"

    def move(document: Any) -> None:
        rename(document)
        document["clusters"][0]["services"][0]["roleConfigGroups"][0]["displayName"] = "moved"

    content = place.manager.content
    _, found = pair(place, run, changed(content, rename), changed(content, move))
    assert [told(one.steps) for one in found.differences] == [("base", "a/b", "a/b", "displayName")]


def test_drift_and_diff_by_command_and_of_an_id_that_two_begin_with_both_are_told(loaded: Any) -> None:
    back_up(loaded)
    said = loaded("backup", "diff", "2", "latest")
    assert (said.code, "2 snapshots begin with 2" in said.err) == (2, True), said.err
    ids = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    same = loaded("backup", "diff", ids[0], ids[-1], "--exit-code", "-o", "json")
    assert (same.code, same.json["same"]) == (0, True), same.out
    with loaded.lab.world.lock:
        loaded.lab.world.deployment["hosts"][0]["rackId"] = "/moved"
        loaded.lab.world.changed()
    loaded.forget_requests()
    drifted = loaded("backup", "drift", "--exit-code", "-o", "text")
    assert drifted.code == 8, drifted.err
    assert drifted.out.splitlines()[-1].endswith("/rackId: /moved")
    assert "not comparable" in drifted.err
    assert loaded.sent == []
    assert loaded("backup", "drift", ids[0], "--redacted", "-o", "json").json["differences"][0]["after"] == "/moved"
    assert "rackId" in loaded("backup", "drift").out


def test_a_changed_job_and_a_changed_file_are_differences_for_drift_and_diff_of_a_site(
    loaded: Any, tmp_path: Path
) -> None:
    loaded.lab.world.redaction = False  # the window is not the matter
    assert loaded("backup", "drift", "--exit-code").code == 0
    (tmp_path / "basket.py").write_text("changed")
    upload = ("--name", "etl-scripts", "--local-path", str(tmp_path / "basket.py"))
    assert loaded("vc", "resource", "upload", *upload, "--yes").code == 0
    assert loaded("vc", "job", "delete", "--name", "daily-vacuum", "--yes").code == 0
    drifted = loaded("backup", "drift", "--exit-code", "-o", "json")
    assert loaded("backup", "create").code == 0
    before, after = (one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"])
    for said in (drifted, loaded("backup", "diff", before, after, "--exit-code", "-o", "json")):
        (cluster,) = said.json["virtual_clusters"]
        assert (said.code, said.json["differences"]) == (8, []), said.err
        assert {one["name"] for one in cluster["differences"]} >= {"daily-vacuum", "etl-scripts/basket.py"}


def test_without_a_snapshot_the_way_to_one_is_named(loaded: Any) -> None:
    rmtree(loaded.lab.folder / "backups" / SITE)
    said = loaded("backup", "drift")
    assert (said.code, "to compare with" in said.err, "maint backup create" in said.err) == (5, True, True), said.err
