"""The parts beside the export: taken where they can be had, said where they cannot."""

import io
import shlex
import tarfile
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from maint.config.schema import HostSettings, PartsSettings
from maint.errors import NotAsStored, WorkFailed
from maint.model.manager import CERTMANAGER, GUID
from maint.model.secret import Secret
from maint.model.snapshot import Trust
from maint.snapshots.archive import MemberKind, members, paths
from maint.snapshots.capture import take
from maint.snapshots.catalogue import load
from maint.snapshots.extra_parts import lacking, looked_for, present
from maint.snapshots.parts import DATABASE, MANAGER_FILES, TRUSTSTORE, from_bytes, read_part
from maint.snapshots.verify import verify
from maint.snapshots.writer import restore_guide
from tests.snapshots.liar import Liar

FILES = {
    "/etc/cloudera-scm-server/uuid": b"guid-1\n",
    "/etc/cloudera-scm-server/db.properties": b"com.cloudera.cmf.db.password=Canary-Db-Pw\n",
    "/etc/default/cloudera-scm-server": b'export CMF_JAVA_OPTS="-Xmx2G"\n',
    "/var/lib/cloudera-scm-server/certmanager/private/.pw": b"Canary-Key-Pw",
    "/etc/passwd": b"not the manager's",
}


def choose(place: Any, **parts: bool) -> None:
    backup = place.settings.backup.model_copy(update={"parts": PartsSettings(**parts)})
    place.settings = place.settings.model_copy(update={"backup": backup})


def everything_on_disk(place: Any) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(place.root.rglob("*")) if path.is_file())


def test_the_managers_own_files_are_kept_sealed_and_listed(place: Any, run: Any) -> None:
    place.shell.present = dict(FILES)
    snapshot = run(take(place)).snapshot
    assert list(snapshot.manager_files) == [path for path in FILES if path != "/etc/passwd"]
    assert load(place, snapshot.id) == snapshot
    assert b"Canary" not in everything_on_disk(place)
    with (
        place.store.open(f"prod/{snapshot.id}/{MANAGER_FILES}") as file,
        place.seal.unwrap(file, [place.identity]) as stream,
    ):
        found = {member.path: content for member, content in members(stream.read)}
    assert found == {path: FILES[path] for path in snapshot.manager_files}
    assert verify(place, snapshot.id, 2).result is Trust.VERIFIED
    assert not any("db.properties" in words for words in snapshot.uncovered)


@pytest.mark.parametrize("lie", [b"rotten", None])
def test_what_was_had_and_the_store_did_not_keep_is_not_left_out_of_a_backup(place: Any, run: Any, lie: Any) -> None:
    place.shell.present = dict(FILES)
    store = place.store = Liar(place.store, lambda name, _: lie if name.endswith(MANAGER_FILES) else None)
    store.hidden = set() if lie else {MANAGER_FILES}
    with pytest.raises(NotAsStored, match="manager-files"):
        run(take(place))
    store.hidden.clear()
    assert [name for name in store.names() if "manifest" in name] == []


def test_the_truststore_password_is_a_part_of_its_own(place: Any, run: Any) -> None:
    place.manager.truststore = Secret("Canary-Truststore")
    snapshot = run(take(place)).snapshot
    assert read_part(place, snapshot, TRUSTSTORE) == b"Canary-Truststore"
    assert b"Canary" not in everything_on_disk(place)
    assert "truststore-password.age" in restore_guide(snapshot, place.settings, "here")


def test_the_recipe_can_be_typed_whatever_the_address_and_the_account_are(place: Any, run: Any) -> None:
    snapshot = replace(run(take(place)).snapshot, manager="fd00::7", account=r"CORP\o'neil $HOME")
    text = restore_guide(snapshot, place.settings, "here")
    told = [line for line in text.replace("\\\n", " ").splitlines() if line.strip().startswith("curl ")]
    said = [shlex.split(line) for line in told]
    assert {urlsplit(word).hostname for words in said for word in words if "://" in word} == {"fd00::7"}
    assert {words[words.index("-u") + 1] for words in said} == {"admin", snapshot.account}


def test_the_recipe_is_followed_outside_of_the_store(place: Any, run: Any) -> None:
    assert "Copy this folder to a private place outside of the store" in restore_guide(
        run(take(place)).snapshot, place.settings, "here"
    )


def test_of_several_manager_hosts_it_is_said_whose_files_are_not_kept(place: Any, run: Any) -> None:
    place.shell.present = dict(FILES)
    hosts = tuple(
        HostSettings(name=name, address=f"{name}.example.internal", groups=("manager",)) for name in ("cm-1", "cm-2")
    )
    place.settings = place.settings.model_copy(update={"hosts": hosts})
    snapshot = run(take(place)).snapshot
    assert f"{MANAGER_FILES}: those of cm-2 are not kept" in snapshot.uncovered
    assert "those of cm-2" in (place.folder(snapshot.id) / "RESTORE.txt").read_text()


def test_the_recipe_beside_a_snapshot_says_all_that_it_does_not_cover(place: Any, run: Any) -> None:
    choose(place, manager_files=False)
    snapshot = run(take(place)).snapshot
    text = (place.folder(snapshot.id) / "RESTORE.txt").read_text()
    assert any("Kerberos credentials" in words for words in snapshot.uncovered)
    assert [words for words in snapshot.uncovered if f"   - {words}\n" not in text] == []


def test_a_host_that_does_not_answer_costs_a_part_and_nothing_more(place: Any, run: Any) -> None:
    place.shell.present = None
    taken = run(take(place))
    assert taken.snapshot.restorable
    assert not taken.snapshot.has(MANAGER_FILES)
    assert any(words.startswith(f"{MANAGER_FILES}: ") for words in taken.snapshot.uncovered)
    assert any("db.properties" in words for words in taken.snapshot.uncovered)
    assert lacking(place.settings, taken.snapshot) == []
    choose(place, manager_files=True)
    assert lacking(place.settings, taken.snapshot) == [MANAGER_FILES]


def test_an_archive_that_breaks_off_leaves_no_part(place: Any, run: Any) -> None:
    place.shell.present = dict(FILES)
    place.shell.cut_at = 700
    snapshot = run(take(place)).snapshot
    assert not snapshot.has(MANAGER_FILES)
    assert not (place.folder(snapshot.id) / MANAGER_FILES).exists()
    assert verify(place, snapshot.id, 3).result is Trust.VERIFIED


def test_what_is_switched_off_is_not_taken_and_said(place: Any, run: Any) -> None:
    choose(place, manager_files=False, truststore_password=False)
    place.manager.truststore = Secret("x" * 20)
    snapshot = run(take(place)).snapshot
    assert not snapshot.has(TRUSTSTORE)
    assert sum("switched off" in words for words in snapshot.uncovered) == 2


def test_without_a_readable_truststore_password_auto_tls_cannot_come_back(place_without: Any, run: Any) -> None:
    place = place_without
    snapshot = run(take(place)).snapshot
    assert not snapshot.restorable
    assert any(one.rule == "truststore" and one.passed is False for one in snapshot.judgement.findings)
    place.manager.truststore = Secret("t" * 43)
    place.clock.sleep(60)
    assert run(take(place)).snapshot.restorable


@pytest.fixture
def place_without(tmp_path: Any) -> Any:
    """A site whose document has Auto-TLS, and no password of the truststore."""
    import json

    from tests.snapshots.conftest import EXAMPLE, Place

    document = json.loads(EXAMPLE.read_bytes())
    items = document["managerSettings"]["items"]
    document["managerSettings"]["items"] = [one for one in items if "TRUSTSTORE_PASSWORD" not in one["name"]]
    return Place(tmp_path, json.dumps(document, indent=2).encode())


def test_an_archive_that_leads_out_of_itself_is_refused() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("etc/../../root/.ssh/authorized_keys"))
    with pytest.raises(WorkFailed, match="leads out"):
        paths(from_bytes(buffer.getvalue()))


def test_folders_links_owners_and_modes_are_told() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder, link = tarfile.TarInfo("./a"), tarfile.TarInfo("./a/b")
        folder.type, folder.mode, folder.uname, folder.uid = tarfile.DIRTYPE, 0o750, "cloudera-scm", 991
        link.type, link.linkname = tarfile.SYMTYPE, "c"
        archive.addfile(folder)
        archive.addfile(link)
    found = [member for member, _ in members(from_bytes(buffer.getvalue()))]
    seen = [(one.path, one.kind, one.target) for one in found]
    assert seen == [("/a", MemberKind.FOLDER, ""), ("/a/b", MemberKind.LINK, "c")]
    assert (found[0].mode, found[0].user, found[0].uid) == (0o750, "cloudera-scm", 991)
    assert paths(from_bytes(buffer.getvalue())) == ("/a/b",)


def test_at_a_site_without_ssh_what_lies_on_hosts_is_left_out_and_said(place: Any, run: Any) -> None:
    choose(place, database=True)
    place.settings = place.settings.model_copy(update={"ssh": None})
    taken = run(take(place))
    assert taken.snapshot.restorable
    assert f"{DATABASE}: no `ssh:` is configured" in taken.snapshot.uncovered
    assert f"{MANAGER_FILES}: no `ssh:` is configured" in taken.snapshot.uncovered
    assert "the files on the manager host were not looked for: no `ssh:` is configured" in taken.snapshot.uncovered


@pytest.mark.parametrize("closed", [["read_file"], ["read_file", "ask", "stream"]])
def test_a_host_that_lets_an_account_in_and_shows_it_nothing_keeps_no_backup_from_being_taken(
    place: Any, run: Any, monkeypatch: pytest.MonkeyPatch, closed: list[str]
) -> None:
    def refuse(host: str, *_: Any, **__: Any) -> None:
        raise WorkFailed(f"{host}: not allowed to look into this folder")

    place.shell.present = dict(FILES)
    place.manager.truststore = Secret("Canary-Truststore")
    for name in closed:
        monkeypatch.setattr(place.shell, name, refuse)
    snapshot = run(take(place)).snapshot
    assert snapshot.restorable
    assert snapshot.has(TRUSTSTORE)
    (told,) = [words for words in snapshot.uncovered if "were not looked for" in words]
    assert told.endswith("not allowed to look into this folder")


def test_where_none_of_the_managers_files_is_on_its_host_that_is_said(place: Any, run: Any) -> None:
    place.shell.present = {}
    snapshot = run(take(place)).snapshot
    assert not snapshot.has(MANAGER_FILES)
    assert any(words.startswith(f"{MANAGER_FILES}: none of them is on ") for words in snapshot.uncovered)


def test_what_the_account_may_not_look_for_is_not_said_to_be_absent(place: Any, run: Any) -> None:
    place.shell.present, place.shell.closed = dict(FILES), (CERTMANAGER,)
    snapshot = run(take(place)).snapshot
    assert present(snapshot.host_files, GUID)
    assert present(snapshot.host_files, CERTMANAGER) is None, "a restore would believe that there was none"
    assert snapshot.manager_files and not any(one.startswith(CERTMANAGER) for one in snapshot.manager_files)
    told = [words for words in snapshot.uncovered if f"whether {CERTMANAGER} is there cannot be seen" in words]
    assert len(told) == 2 and told[1].startswith(f"{MANAGER_FILES}: "), told
    with pytest.raises(WorkFailed, match=f"whether {CERTMANAGER} is there cannot be seen"):  # a restore asks to know
        looked_for(place, "cm", [CERTMANAGER])
