"""Taking a snapshot: all of it or nothing, sealed, signed and read back."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import maint
from maint.adapters.seal import AgeSeal
from maint.adapters.stores.local import LocalStore
from maint.config.schema import PartsSettings
from maint.errors import CannotReach, Conflict, Invalid, Refused, StoreFailed, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Purpose, Redaction, Trust
from maint.ports.streams import Cut
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, find
from maint.snapshots.in_progress import is_own, owner
from maint.snapshots.manifest import MANIFEST, new_id
from maint.snapshots.parts import DATABASE, DEPLOYMENT, REDACTED_COPY, open_part, read_part
from maint.snapshots.parts import LICENSE as LICENSE_PART

Run = Callable[[Any], Any]

LICENSE = b'-----BEGIN PGP SIGNED MESSAGE-----\n\n{"name": "x", "expirationDate": "2030-01-01"}\n'


def files(place: Any) -> list[str]:
    return sorted(str(path.relative_to(place.root)) for path in place.root.rglob("*") if path.is_file())


def test_every_deployment_is_stored_and_comes_back_byte_for_byte(
    deployment: Path, place_of: Callable[[bytes, str], Any], password_of: Callable[[Path], str], run: Run
) -> None:
    content = deployment.read_bytes()
    place = place_of(content, password_of(deployment))
    taken = run(take(place))
    assert taken.snapshot.restorable
    assert taken.snapshot.judgement.hash_rule is True
    assert find(place, taken.snapshot.id) == taken.snapshot
    with open_part(place, taken.snapshot, DEPLOYMENT) as stream:
        assert stream.read() == content


def test_a_part_is_sealed_for_as_many_as_its_help_page_tells(place: Any, tmp_path: Path, run: Run) -> None:
    licence = tmp_path / "license.txt"
    licence.write_bytes(LICENSE)
    place.manage(license=licence)
    snapshot = run(take(place)).snapshot
    several = len(snapshot.recipients)
    page = (Path(maint.__file__).parent / "help" / "backup.md").read_text()
    assert "| the deployment, the manager files, documents of virtual clusters | N + 1 | 1 |" in page
    assert "| licence, truststore password, files of virtual clusters | N | 1 |" in page
    for name, more in ((DEPLOYMENT, 1), ("license.txt.age", 0)):
        header = (place.folder(snapshot.id) / name).read_bytes().partition(b"\n---")[0].splitlines()
        stanzas = [line.split()[1] for line in header if line.startswith(b"-> ")]
        assert stanzas.count(b"X25519") == several + more
        assert sum(kind.endswith(b"-grease") for kind in stanzas) == len(stanzas) - several - more == 1


def test_the_layout_on_disk_is_as_promised(place: Any, tmp_path: Path, run: Run) -> None:
    licence = tmp_path / "license.txt"
    licence.write_bytes(LICENSE)
    place.manage(license=licence)
    taken = run(take(place))
    folder = place.folder(taken.snapshot.id)
    assert {path.name for path in folder.iterdir()} == {
        "RESTORE.txt",
        "deployment.json.zst.age",
        "deployment.redacted.json.zst",
        "license.txt.age",
        "manager-files.tar.zst.age",
        "manifest.json",
        "manifest.json.sig",
    }
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["id"] == taken.snapshot.id
    assert manifest["taken_at"] == "2026-11-21T02:15:00.123Z"
    assert manifest["id"].startswith("20261121T021500.123Z-")
    assert read_part(place, taken.snapshot, "license.txt.age") == LICENSE


def test_no_secret_is_in_any_readable_file(place: Any, run: Run, tmp_path: Path) -> None:
    document = json.loads(place.manager.content)
    secrets = {str(user[key]) for user in document["users"] for key in ("pwHash", "pwSalt")}
    secrets |= {peer["password"] for peer in document["peers"]}
    secrets |= {item["value"] for item in document["managerSettings"]["items"] if item["sensitive"]}
    taken = run(take(place))
    folder = place.folder(taken.snapshot.id)
    with place.store.open(f"prod/{taken.snapshot.id}/{REDACTED_COPY}") as file, place.seal.decompress(file) as stream:
        readable = stream.read().decode()
    for path in place.root.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".txt", ".sig"):
            readable += path.read_text()
    assert len(secrets) > 10
    assert folder.is_dir()
    assert [secret for secret in secrets if secret in readable] == []


def test_a_redacted_export_is_kept_as_audit_only(
    place: Any, spoiled: Callable[..., bytes], recording: Any, run: Run
) -> None:
    def redact(item: dict[str, Any]) -> None:
        if item.get("sensitive") is True:
            item["value"] = "REDACTED"

    place.manager.content = spoiled(recording("example"), redact)
    taken = run(take(place))
    assert not taken.snapshot.restorable
    assert taken.snapshot.judgement.redaction is Redaction.REDACTED
    assert taken.verification.result is Trust.VERIFIED
    assert taken.verification.level == 2
    assert [(entry.offered, entry.drawback) for entry in entries(place)] == [(False, "not restorable")]
    assert "AUDIT-ONLY" in (place.folder(taken.snapshot.id) / "RESTORE.txt").read_text()


def test_an_export_of_another_release_than_the_server_tells_is_not_restorable(place: Any, run: Run) -> None:
    place.manager.release_text = "7.7.1"
    taken = run(take(place))
    assert not taken.snapshot.restorable
    (found,) = [one for one in taken.snapshot.judgement.findings if one.rule == "release"]
    assert found.passed is False
    assert "7.6.5" in found.words


@pytest.mark.parametrize("at", [0, 1, 20_000, 50_000])
def test_a_cut_answer_leaves_nothing(place: Any, at: int, run: Run) -> None:
    place.manager.cut_at = at
    with pytest.raises(CannotReach):
        run(take(place))
    assert files(place) == []


@pytest.mark.parametrize("content", [b"<html>502</html>", b"", b'{"clusters" : [', b"[ ]"])
def test_an_answer_that_is_no_deployment_leaves_nothing(place: Any, content: bytes, run: Run) -> None:
    place.manager.content = content
    with pytest.raises(WorkFailed):
        run(take(place))
    assert files(place) == []


def test_leaving_off_in_the_middle_leaves_nothing(place: Any) -> None:
    generator = take(place)
    next(generator)
    next(generator)
    generator.close()
    assert files(place) == []


def test_a_disk_that_gives_back_other_bytes_is_noticed(place: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = place.store.open

    def lying(name: str) -> Any:
        stored = place.root / name
        raw = bytearray(stored.read_bytes())
        raw[-3] ^= 1
        stored.write_bytes(raw)
        return honest(name)

    monkeypatch.setattr(place.store, "open", lying)
    with pytest.raises(WorkFailed):
        run(take(place))
    assert files(place) == []


class Failing(LocalStore):
    """A store that takes everything but files whose names end so."""

    end = ""

    def create(self, name: str) -> Any:
        if name.endswith(self.end):
            raise StoreFailed("the disk is full")
        return super().create(name)


@pytest.mark.parametrize("name", [LICENSE_PART, DATABASE])
def test_a_store_that_fails_at_a_further_part_is_no_lack_of_that_part(
    place: Any, run: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / "license.txt").write_bytes(LICENSE)
    place.manage(license=tmp_path / "license.txt")
    backup = place.settings.backup.model_copy(update={"parts": PartsSettings(database=True)})
    place.settings = place.settings.model_copy(update={"backup": backup})
    place.store = Failing(place.root)
    place.store.end = name
    with pytest.raises(StoreFailed, match="the disk is full"):
        run(take(place))
    assert files(place) == []


@pytest.mark.parametrize("name", [DEPLOYMENT, MANIFEST])
def test_what_stands_where_a_snapshot_is_to_be_written_is_not_ours_and_stays(place: Any, run: Run, name: str) -> None:
    one = new_id(place.clock.now())
    with place.store.create(f"prod/{one}/{name}") as file:
        file.write(b"of another machine")
    with pytest.raises(Conflict, match=f"snapshot {one} is not stored"):
        run(take(place, snapshot_id=one))
    assert files(place) == [f"prod/{one}/{name}"]
    assert (place.root / "prod" / one / name).read_bytes() == b"of another machine"


class Forgetful(AgeSeal):
    """Gives back other bytes than were encrypted, as a machine does whose memory is broken."""

    @contextmanager
    def unwrap(self, source: Any, identities: Any) -> Iterator[Any]:
        with super().unwrap(source, identities) as stream:
            yield BytesIO(stream.read().replace(b"example.internal", b"example.infernal"))


def test_a_machine_that_decrypts_other_bytes_than_it_encrypted_takes_no_backup(place: Any, run: Run) -> None:
    place.seal = Forgetful()
    with pytest.raises(WorkFailed, match="is not what was written"):
        run(take(place))
    assert files(place) == []


def test_an_export_of_which_nothing_more_comes_is_not_asked_for_again(place: Any, run: Run) -> None:
    class Late(Cut):
        late = True

    class Silent(BytesIO):
        length = None

        def read(self, size: int | None = -1, /) -> bytes:
            raise Late("nothing more came for 60 s")

    asked = []

    @contextmanager
    def deployment(*, redacted: bool = False) -> Iterator[BytesIO]:
        asked.append(redacted)
        yield Silent()

    place.manager.deployment = deployment
    with pytest.raises(CannotReach, match="nothing more came"):
        run(take(place))
    assert asked == [False]


def test_what_tells_this_state_folder_from_others_is_never_guessed(place: Any) -> None:
    place.state.mkdir(exist_ok=True)
    (place.state / "owner").write_text("somebody")
    with pytest.raises(Invalid, match="is damaged: what this state folder left in the stores"):
        owner(place)
    (place.state / "owner").unlink()
    (place.state / "owner").mkdir()
    with pytest.raises(Invalid, match="is damaged"):
        is_own(place, "0" * 16)


def test_a_machine_without_the_private_key_takes_verified_backups_and_cannot_open_them(place: Any, run: Run) -> None:
    place.keys.clear()
    taken = run(take(place))
    assert taken.verification.result is Trust.VERIFIED
    assert taken.verification.on_capture
    with pytest.raises(Refused, match="no private key"), open_part(place, taken.snapshot, DEPLOYMENT):
        pass
    place.keys.append(place.identity)
    with open_part(place, taken.snapshot, DEPLOYMENT) as stream:
        assert stream.read() == place.manager.content


def test_without_recipients_the_identity_at_hand_is_used_and_without_both_nothing_starts(place: Any, run: Run) -> None:
    place.settings = place.settings.model_copy(
        update={"backup": place.settings.backup.model_copy(update={"recipients": ()})}
    )
    taken = run(take(place))
    assert taken.snapshot.recipients == (place.seal.recipient_of(place.identity),)
    place.keys.clear()
    with pytest.raises(Invalid, match="nobody to encrypt"):
        run(take(place))


def test_the_manager_host_is_noted_and_a_silent_one_is_said(place: Any, run: Run) -> None:
    noted = run(take(place)).snapshot
    assert noted.host_files["/etc/cloudera-scm-server/uuid"] == {"present": True, "value": "guid-1"}
    assert noted.host_files["/var/lib/cloudera-scm-server/certmanager"] == {"present": False}
    place.shell.present = None
    place.clock.sleep(60)
    silent = run(take(place)).snapshot
    assert silent.restorable
    assert any("did not answer" in words for words in silent.uncovered)


def test_a_safety_snapshot_is_listed_and_never_offered(place: Any, run: Run) -> None:
    run(take(place, purpose=Purpose.SAFETY))
    (entry,) = entries(place)
    assert entry.snapshot is not None
    assert entry.snapshot.restorable
    assert not entry.offered


def test_bytes_that_rot_between_manifest_and_verification_fail_the_backup(
    place: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = place.sign.sign

    def rotting(content: bytes) -> bytes:
        for stored in place.root.rglob(DEPLOYMENT):
            stored.write_bytes((whole := stored.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
        return bytes(honest(content))

    monkeypatch.setattr(place.sign, "sign", rotting)
    with pytest.raises(WorkFailed, match="not what was stored"):
        run(take(place))


def test_parts_of_a_run_that_died_are_cleared_away_a_day_later(place: Any, run: Run) -> None:
    dead = place.folder("20261119T010000.000Z-beef")
    young = place.folder("20261121T020000.000Z-beef")
    for folder in (dead, young):
        folder.mkdir(parents=True)
        (folder / DEPLOYMENT).write_bytes(b"half")
    then = time.time() - 25 * 3600
    os.utime(dead / DEPLOYMENT, (then, then))
    place.clock.time = datetime.now(UTC)  # as the store's
    for _ in range(2):  # the records of the first tell how late it is by the clock of the store
        place.clock.sleep(60)
        run(take(place))
    assert not (dead / DEPLOYMENT).exists()
    assert (young / DEPLOYMENT).exists()
    assert len(entries(place)) == 2


@pytest.mark.skipif(not shutil.which("age") or not shutil.which("zstd"), reason="needs the stock tools")
def test_stock_tools_recover_the_bytes_as_the_recipe_says(place: Any, run: Run, tmp_path: Path) -> None:
    taken = run(take(place))
    folder = place.folder(taken.snapshot.id)
    text = (folder / "RESTORE.txt").read_text()
    start = text.index("age -d -i identity deployment")
    command = "\n".join(text[start:].splitlines()[:2])
    work = tmp_path / "work"
    shutil.copytree(folder, work)
    (work / "identity").write_text(place.identity.reveal())
    done = subprocess.run(["sh", "-euc", command], cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (work / "deployment.json").read_bytes() == place.manager.content
    check = text[text.index("sha256sum -c <<'END'") :].split("\nEND\n")[0] + "\nEND\n"
    summed = subprocess.run(["sh", "-euc", check], cwd=work, capture_output=True, text=True, check=False)
    assert summed.returncode == 0, summed.stdout + summed.stderr


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs the stock tool")
def test_the_stock_tool_verifies_the_manifest_as_the_recipe_says(place: Any, run: Run) -> None:
    folder = place.folder(run(take(place)).snapshot.id)
    text = (folder / "RESTORE.txt").read_text()
    command = next(line.strip() for line in text.splitlines() if "ssh-keygen -Y verify" in line)
    (folder / "allowed").write_text(f"maint {place.sign.public_key}\n")
    assert subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, check=False).returncode == 0
    (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes() + b" ")
    assert subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, check=False).returncode != 0


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs the stock tool")
def test_a_recipe_changed_by_one_who_writes_to_the_store_does_not_pass_its_own_checks(place: Any, run: Run) -> None:
    folder = place.folder(run(take(place)).snapshot.id)
    recipe, part = folder / "RESTORE.txt", folder / DEPLOYMENT
    (folder / "allowed").write_text(f"maint {place.sign.public_key}\n")
    assert all(word in {"Good", "OK"} for word in checked(folder))
    was = hashlib.sha256(part.read_bytes()).hexdigest()
    part.write_bytes(b"an administrator of somebody's own")
    recipe.write_text(recipe.read_text().replace(was, hashlib.sha256(part.read_bytes()).hexdigest()))
    assert "another" in checked(folder)


def checked(folder: Path) -> list[str]:
    """Type the first chapter of a recipe, and return the word by which each check says how it went."""
    chapter = (folder / "RESTORE.txt").read_text().split("\n\n2. ")[0]
    sums = chapter[chapter.index("\nsha256sum -c") :].partition("\nEND\n")[0].splitlines()
    lines = [line for line in chapter.splitlines() if line.startswith("       ")] + [*sums, "END"]
    done = subprocess.run(["sh", "-c", "\n".join(lines)], cwd=folder, capture_output=True, text=True, check=False)
    return [re.sub(r".*: (OK|FAILED)", r"\1", line).split()[0] for line in done.stdout.splitlines()]


def test_a_folder_that_only_looks_like_a_snapshot_is_passed_over(place: Any, run: Run) -> None:
    odd = place.folder("20261399T999999.000Z-beef")
    odd.mkdir(parents=True)
    (odd / "manifest.json").write_bytes(b"{}")
    run(take(place))
    assert len(entries(place)) == 1


def test_equal_secrets_have_equal_fingerprints_and_the_key_matters(place: Any, run: Run) -> None:
    def copy_of(taken: Any) -> dict[str, Any]:
        name = f"prod/{taken.snapshot.id}/{REDACTED_COPY}"
        with place.store.open(name) as file, place.seal.decompress(file) as stream:
            return dict(json.loads(stream.read()))

    first = copy_of(run(take(place)))
    place.clock.sleep(60)
    assert copy_of(run(take(place))) == first
    place.fingerprint_key = Secret("cd" * 32)
    place.clock.sleep(60)
    assert copy_of(run(take(place))) != first
