"""A redacted snapshot gets its secrets back from an older one or from a file, and is judged anew."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from maint.adapters.seal import AgeSeal
from maint.config.schema import PartsSettings
from maint.deployment.secrets import readable
from maint.errors import Invalid, Refused, WorkFailed
from maint.model.snapshot import Redaction, Trust
from maint.snapshots.capture import take
from maint.snapshots.catalogue import load
from maint.snapshots.heal import fill, heal, values_of
from maint.snapshots.parts import DATABASE, from_bytes, read_deployment, read_part


def hidden(value: Any) -> Any:
    """Return a document as a redacting server shows it."""
    if isinstance(value, list):
        return [hidden(member) for member in value]
    if not isinstance(value, dict):
        return value
    shown = {key: hidden(child) for key, child in value.items() if key not in ("pwHash", "pwSalt", "pwLogin")}
    if shown.get("sensitive") is True:
        shown["value"] = "REDACTED"
    if "url" in shown and "password" in shown:
        shown["password"] = "REDACTED"
    return shown


def test_filling_a_redacted_document_from_the_full_one_gives_the_full_one(deployment: Path) -> None:
    full = json.loads(deployment.read_bytes())
    document = hidden(full)
    filled, left = fill(document, values_of(full).get)
    assert left == []
    assert filled > 0
    assert document == full


def test_two_things_of_one_name_are_filled_each_with_its_own() -> None:
    twins = [{"name": "x", "value": "one", "sensitive": True}, {"name": "x", "value": "two", "sensitive": True}]
    document = hidden({"items": twins})
    assert fill(document, values_of({"items": twins}).get) == (2, [])
    assert document == {"items": twins}


def test_a_service_whose_name_holds_a_slash_is_not_taken_for_what_another_one_holds() -> None:
    secret = {"name": "password", "value": "of b", "sensitive": True}
    full = {"services": [{"name": "b", "config": {"items": [secret]}}, {"name": "b/config", "password": "its own"}]}
    document = hidden(full)
    assert fill(document, values_of(full).get) == (1, [])
    assert document == full
    document = hidden(full)
    assert fill(document, values_of({"services": full["services"][1:]}).get) == (0, ["services/b/config/password"])


@pytest.fixture
def pair(place: Any, run: Any) -> Any:
    """A full snapshot and a redacted one of a day later, in which a host has moved; both with the database."""
    backup = place.settings.backup.model_copy(update={"parts": PartsSettings(database=True)})
    place.settings = place.settings.model_copy(update={"backup": backup})
    place.shell.dump = b"--\nCREATE TABLE x ();\n-- PostgreSQL database dump complete\n"
    older = run(take(place)).snapshot
    place.clock.sleep(86400)
    document = hidden(json.loads(place.manager.content))
    document["hosts"][0]["rackId"] = "/moved"
    place.manager.content = json.dumps(document).encode()
    return older, run(take(place)).snapshot


def test_the_healed_snapshot_is_a_new_restorable_one_that_says_where_it_comes_from(
    place: Any, run: Any, pair: Any
) -> None:
    older, redacted = pair
    assert (redacted.restorable, redacted.has(DATABASE)) == (False, True)
    rekeyed = replace(redacted, rekeyed_from={"snapshot": older.id, "at": "2026-11-23T02:00:00Z"})
    healed = run(heal(place, rekeyed, values_of(read_deployment(place, older)).get, f"snapshot {older.id}"))
    assert (healed.left, healed.snapshot.restorable, healed.verification.result) == ([], True, Trust.VERIFIED)
    stored = load(place, healed.snapshot.id)
    assert (stored.healed_from["redacted"], stored.rekeyed_from) == (redacted.id, {})  # no other's contents
    assert older.id in stored.healed_from["from"]
    assert stored.taken_at == redacted.taken_at
    document = read_deployment(place, stored)
    assert document["hosts"][0]["rackId"] == "/moved"
    salts = [user["pwSalt"] for user in read_deployment(place, older)["users"] if "pwSalt" in user]
    assert [user["pwSalt"] for user in document["users"] if "pwSalt" in user] == salts
    assert load(place, redacted.id) == redacted
    assert read_part(place, stored, DATABASE) == read_part(place, redacted, DATABASE) == place.shell.dump


def test_what_was_healed_already_is_proven_again_and_not_stored_twice(place: Any, run: Any, pair: Any) -> None:
    older, redacted = pair
    values = values_of(read_deployment(place, older)).get
    first = run(heal(place, redacted, values, f"snapshot {older.id}"))
    again = run(heal(place, redacted, values, f"snapshot {older.id}"))
    assert (again.snapshot, again.filled, again.verification.result) == (first.snapshot, first.filled, Trust.VERIFIED)
    path = place.root / f"prod/{first.snapshot.id}/deployment.json.zst.age"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkFailed, match="must not be relied on"):
        run(heal(place, redacted, values, f"snapshot {older.id}"))
    another = run(heal(place, redacted, values, f"snapshot {older.id}"))
    assert another.snapshot.id != first.snapshot.id and another.snapshot.restorable


def test_without_the_password_that_the_verification_tries_nothing_is_healed(place: Any, run: Any, pair: Any) -> None:
    older, redacted = pair
    values, before = values_of(read_deployment(place, older)).get, sorted(place.root.rglob("*"))
    place.manage(password="env:UNSET")
    with pytest.raises(Invalid, match="cannot resolve env:UNSET"):
        run(heal(place, redacted, values, f"snapshot {older.id}"))
    assert sorted(place.root.rglob("*")) == before


def test_what_cannot_be_filled_is_listed_and_keeps_it_audit_only(place: Any, run: Any, pair: Any) -> None:
    older, redacted = pair
    values = dict(values_of(read_deployment(place, older)))
    del values["managerSettings/LDAP_BIND_PW"], values["users/admin/pwHash"]
    healed = run(heal(place, redacted, values.get, "what is left"))
    assert set(healed.left) == {
        "users/admin/pwHash",
        "managerSettings/LDAP_BIND_PW",
    }
    assert not healed.snapshot.restorable
    assert healed.snapshot.judgement.redaction is Redaction.REDACTED
    rest = values_of(read_deployment(place, older)).get
    again = run(heal(place, healed.snapshot, rest, "the rest"))
    assert (again.filled, again.left, again.snapshot.restorable) == (2, [], True)


def test_nothing_is_stored_where_nothing_can_be_filled(place: Any, run: Any, pair: Any) -> None:
    before = sorted(place.root.rglob("*"))
    with pytest.raises(Refused, match="nothing in snapshot"):
        run(heal(place, pair[1], lambda _: None, "nowhere"))
    with pytest.raises(Refused, match="not redacted") as refusal:
        run(heal(place, pair[0], lambda _: None, "nowhere"))
    assert f"`maint backup show {pair[0].id}`" in refusal.value.hint  # a restore refuses it where it is damaged
    assert sorted(place.root.rglob("*")) == before


def test_further_parts_are_carried_over(place: Any, run: Any, pair: Any) -> None:
    older, redacted = pair
    healed = run(heal(place, redacted, values_of(read_deployment(place, older)).get, "x")).snapshot
    names = {part.name for part in redacted.parts}
    assert {part.name for part in healed.parts} == names
    assert healed.manager_files == redacted.manager_files != ()


def test_a_file_of_references_or_a_sealed_one_heals_what_an_older_snapshot_cannot_and_only_with_the_private_key(
    make: Any, tmp_path: Path
) -> None:
    operator = make()
    assert operator("backup", "create", "--yes").code == 7
    listed = operator("backup", "list", "-o", "json").json["snapshots"]
    full, redacted = listed[0]["id"], listed[-1]["id"]
    file = tmp_path / "secrets.yaml"
    file.write_text("managerSettings/LDAP_BIND_PW: env:LDAP_PW\n")
    file.chmod(0o644)
    assert operator("backup", "heal", redacted, "--secrets", str(file)).code == 3
    file.chmod(0o600)
    said = operator("backup", "heal", redacted, "--secrets", str(file), "-o", "json", LDAP_PW="Canary-Ldap-Pw")
    assert said.code == 7, said.err
    assert said.json["filled"] == 1
    assert "users/admin/pwHash" in said.json["left"]
    assert "managerSettings/LDAP_BIND_PW" not in said.json["left"]
    assert "Canary" not in said.out + said.err
    written = subprocess.run(["grep", "-rl", "Canary-Ldap", str(operator.lab.folder)], capture_output=True, text=True)
    assert written.stdout == ""
    file = tmp_path / "secrets.json"
    file.write_text('{"managerSettings/LDAP_BIND_PW": "Canary-In-The-Clear"}')
    file.chmod(0o600)
    said = operator("backup", "heal", redacted, "--secrets", str(file))
    assert said.code == 3
    assert "Canary" not in said.err
    sealed = tmp_path / "secrets.json.age"
    config = Path(operator.config)
    recipient = next(line for line in config.read_text().splitlines() if "age1" in line)
    with sealed.open("wb") as target:
        AgeSeal().encrypt(from_bytes(file.read_bytes()), target, [recipient.strip().strip('- "')])
    sealed.chmod(0o600)
    said = operator("backup", "heal", redacted, "--secrets", str(sealed), "-o", "json")
    assert said.json["filled"] == 1, said.err
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "identity:" not in line))
    said = operator("backup", "heal", redacted, "--from", full)
    assert (said.code, "no private key" in said.err) == (5, True), said.err


def test_a_user_without_a_hash_that_an_outside_directory_keeps_is_no_gap() -> None:
    document = {"users": [{"name": "jdoe"}, {"name": "admin"}]}
    values = {"users/jdoe/pwLogin": False, "users/admin/pwHash": "ab", "users/admin/pwSalt": "-7"}
    filled, left = fill(document, values.get)
    assert (filled, left) == (3, [])
    assert document["users"][1] == {"name": "admin", "pwHash": "ab", "pwSalt": -7}
    assert readable(document["users"][1]["pwSalt"])


@pytest.mark.parametrize(("salt", "filled"), [("-7", -7), ("seven", None), ("9" * 5000, None)])
def test_a_salt_that_is_no_number_is_left_out_and_no_bug(salt: str, filled: int | None) -> None:
    document: dict[str, Any] = {"users": [{"name": "a", "pwLogin": True}]}
    _, left = fill(document, {"users/a/pwSalt": salt, "users/a/pwHash": "x"}.get)
    assert document["users"][0].get("pwSalt") == filled
    assert ("users/a/pwSalt" in left) is (filled is None)


def test_what_stands_in_a_secrets_place_is_filled_whatever_it_is() -> None:
    item = {"name": "db_password", "value": "********", "sensitive": True}
    document: Any = {"managerSettings": {"items": [item, {"name": "banner", "value": "****", "sensitive": False}]}}
    assert fill(document, {"managerSettings/db_password": "x", "managerSettings/banner": "y"}.get) == (1, [])
    assert [one["value"] for one in document["managerSettings"]["items"]] == ["x", "****"]


def test_a_document_that_is_not_the_one_stored_is_not_healed_from(place: Any, run: Any, pair: Any) -> None:
    older, redacted = pair
    part = "deployment.json.zst.age"
    (place.folder(older.id) / part).unlink()
    (place.folder(older.id) / part).write_bytes((place.folder(redacted.id) / part).read_bytes())
    with pytest.raises(WorkFailed, match="is not what was stored"):
        read_deployment(place, older)


def test_a_dry_run_tells_what_would_be_filled_or_why_nothing_would_and_what_is_healed_comes_back(make: Any) -> None:
    operator = make()
    assert operator("backup", "create", "--yes").code == 7
    assert operator("vc", "backup", "--yes").code == 0
    full, redacted, clusters = (one["id"] for one in operator("backup", "list", "-o", "json").json["snapshots"])
    said = operator("backup", "heal", redacted, "--from", full, "--dry-run", "-o", "json")
    assert (said.code, said.json["filled"] > 0, said.json["left"]) == (0, True, []), said.err
    for dry in (["--dry-run"], []):
        for wanted, source in ((redacted, clusters), (clusters, full)):
            said = operator("backup", "heal", wanted, "--from", source, "--yes", *dry)
            assert (said.code, f"snapshot {clusters} holds virtual clusters alone" in said.err) == (5, True), said.err
        said = operator("backup", "heal", redacted, "--from", redacted, "--yes", *dry)
        assert (said.code, "could be filled from" in said.err) == (5, True), said.err
        said = operator("backup", "heal", full, "--from", full, "--yes", *dry)
        assert (said.code, "there is nothing to heal" in said.err) == (5, True), said.err
    said = operator("backup", "heal", redacted, "--from", full, "-o", "json")
    assert (said.code, said.json["restorable"]) == (0, True), said.err
    operator.lab.lose_database()
    restored = operator.restore("--snapshot", said.json["snapshot"])
    assert restored.code == 0, restored.err
