"""`backup verify`: the newest, those not looked at for long, and what it says of a redacted one."""

import re
import time
from pathlib import Path

import pytest

from maint.cli.help.output_schemas import schema_of
from maint.cli.open_site import opened
from maint.cli.options import Flags
from maint.lab.create import SITE
from maint.snapshots.records import write_record
from tests.cli.backup.test_rekey import change_recipient
from tests.cli.monitoring.test_notices import configured
from tests.cli.test_outputs import fits
from tests.cli.test_typed import typed_at
from tests.steps.conftest import PASSWORD


def typed(operator, password, *words):
    """Run a `backup` command whose password is asked for at a terminal; return its exit code and what it said."""
    config = Path(operator.config)
    config.write_text(re.sub(r"password: \S*/password\S*", "password: prompt", config.read_text(), count=1))
    answers, shown = {"Password": f"{password}\n".encode()}, {"MAINT_CONFIG": operator.config, "COLUMNS": "10000"}
    code, said, _ = typed_at(answers, ["backup", *words], operator.lab.folder, **shown)
    config.write_text(config.read_text().replace("password: prompt", f"password: file:{operator.lab.folder}/password"))
    return code, said.replace("\r\n", "\n")


def test_latest_is_the_newest_backup_and_for_a_restore_the_newest_restorable_one(with_its_host):
    older = with_its_host("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    with_its_host("backup", "create")  # redacted, as this manager gives it
    newer = with_its_host("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    assert newer != older
    assert with_its_host("backup", "show", "latest", "-o", "json").json["snapshot"]["id"] == newer
    for words in (("restore", "plan", "--manager-only"), ("manager", "restore", "--dry-run")):
        planned = with_its_host(*words, "--snapshot", "latest", "-o", "json")
        assert older in planned.out
        assert newer not in planned.out


def test_a_store_that_holds_nothing_of_the_site_is_named_with_what_to_look_at(alone):
    place = alone.lab.folder / "nowhere"
    error = alone("backup", "verify", "--store", str(place), "-o", "json").error
    assert error["message"] == f"there is no snapshot of {SITE} in {place} yet"
    assert error["hint"].startswith("look at the store's address, where there should be some")


def test_a_redacted_snapshot_is_whole_and_not_restorable(redacted):
    assert redacted("backup", "verify", "--dry-run", "-o", "json").json["level"] == 2
    said = redacted("backup", "verify")
    assert (said.code, said.out.split(": ")[1]) == (0, "verified")
    asked = redacted("backup", "verify", "latest", "--level", "3")
    assert asked.code == 1
    assert "is whole, and not restorable" in asked.err
    assert "not sound" not in asked.err
    assert "for audit" in asked.err


def test_those_not_verified_for_long_are_verified_the_longest_ago_first(redacted):
    first, newest = (one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"])
    assert redacted("backup", "verify", "--stale", "1h", "-o", "json").json["verifications"] == []
    planned = redacted("backup", "verify", "--stale", "0.001s", "--dry-run", "-o", "json").json
    assert planned["snapshots"] == [first, newest]
    said = redacted("backup", "verify", "--stale", "0.001s", "-o", "json")
    found = [(one["snapshot"], one["result"], one["level"]) for one in said.json["verifications"]]
    assert (said.code, found) == (0, [(first, "verified", 3), (newest, "verified", 2)])
    part = next(path for path in (redacted.lab.folder / "backups").rglob(f"{first}/deployment*") if path.stat().st_size)
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    said = redacted("backup", "verify", "--stale", "0.001s")
    assert (said.code, "1 snapshot of 2 failed" in said.err, first in said.err) == (1, True, True)
    shown, text = (
        redacted("backup", "show", first, "-o", "json").json["snapshot"],
        redacted("backup", "show", first).out,
    )
    assert (shown["restorable"], "restorable: no;" in text, "failed, level 0 of 3" in text) == (False, True, True)
    assert "failed, level 0 of 3" in redacted("backup", "list").out
    with opened(Flags(config=redacted.config)) as (site, _):
        write_record(site, "drill", newest, {"result": "failed", "reason": "a role is gone"})
    assert "ITS DRILL FAILED: a role is gone" in redacted("backup", "show", newest).out
    assert "ITS DRILL FAILED" not in redacted("backup", "show", first).out


def test_programs_are_told_the_level_that_was_reached_beside_the_one_that_was_asked_for(alone):
    def told():
        return alone("backup", "list", "-o", "json").json["snapshots"][-1]["verified"]

    assert (told()["result"], told()["level"], told()["depth"]) == ("verified", 3, 3)
    newest = alone("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    (part,) = (alone.lab.folder / "backups").rglob(f"{newest}/deployment.json.zst.age")
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert alone("backup", "verify", newest).code == 1
    assert (told()["result"], told()["level"], told()["depth"]) == ("failed", 3, 0)


def test_no_list_says_restorable_beside_failed(alone):
    (part,) = (alone.lab.folder / "backups").rglob("deployment.json.zst.age")
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    assert alone("backup", "verify").code == 1
    heads, line, *_ = alone("backup", "list").out.splitlines()
    told = dict(zip(heads.split(), line.split(), strict=False))
    assert (told["RESTORABLE"], told["VERIFIED"]) == ("no", "failed,"), line
    (listed,) = alone("backup", "list", "-o", "json").json["snapshots"]
    assert (listed["restorable"], listed["verified"]["result"]) == (False, "failed")


def test_a_password_that_was_changed_since_condemns_no_backup(loaded):
    (folder,) = {path.parent for path in (loaded.lab.folder / "backups").rglob("manifest.json")}
    (loaded.lab.folder / "password").write_text("changed since")
    said = loaded("backup", "verify")
    assert (said.code, "the configured password does not open admin" in said.err) == (1, True)
    assert ("`manager.password` as they were when it was taken" in said.err, "audit" in said.err) == (True, False)
    assert loaded("backup", "drill").code == 5
    (listed,) = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert (listed["restorable"], listed["verified"]["result"]) == (True, "verified")
    (loaded.lab.folder / "password").write_text(PASSWORD)
    assert folder.name in loaded("restore", "plan", "--manager-only").out


def test_a_renamed_site_is_told_as_that_and_condemned_by_nobody(alone):
    backups, config = alone.lab.folder / "backups", Path(alone.config)
    (folder,) = {path.parent for path in backups.rglob("manifest.json")}
    known, one = config.read_text(), folder.name
    config.write_text(known.replace(f"\n  {SITE}:", "\n  other:", 1))  # whoever wrote it anew remembers another name
    for line in ("backup list", "backup verify", "restore plan"):
        said = alone(*line.split())
        assert f"it holds snapshots of {SITE}: a site is found under the name that it had" in said.out + said.err
    (backups / SITE).rename(backups / "other")
    (alone.state / "keys/signing").parent.rename(alone.state.with_name("other") / "keys")
    for line in ("backup verify", "backup list --rebuild", f"restore plan --snapshot {one}"):
        said = alone(*line.split())
        assert (said.code, f"belongs to {SITE}/{one}, not to other/{one}" in said.err) == (1, True), said.err
    for line in ("restore plan", "doctor"):
        said = alone(*line.split())
        assert f"give it its name {SITE} again" in (told := said.err + said.out) and "--damaged" not in told, told
    (backups / "other").rename(backups / SITE)
    (alone.state.with_name("other") / "keys").rename(alone.state / "keys")
    config.write_text(known)
    (listed,) = alone("backup", "list", "-o", "json").json["snapshots"]
    assert (listed["restorable"], listed["verified"]["result"]) == (True, "verified")
    folder.rename(folder.with_name(one.lower()))
    assert f"{SITE}/{one.lower()} holds a manifest, and is no name of a snapshot" in alone("backup", "list").out


def test_a_machine_that_does_not_know_who_signed_condemns_no_backup(with_its_host, tmp_path):
    config = Path(with_its_host.config)
    (signer,) = with_its_host.state.glob("keys/signing.pub")
    key, known = " ".join(signer.read_text().split()[:2]), config.read_text()
    fresh = re.sub(r'state: "[^"]*"', f'state: "{tmp_path}/new"', known, count=1)
    config.write_text(fresh)  # as on a second machine, or where the state was lost
    said = with_its_host("backup", "verify")
    assert (said.code, "not trusted" in said.err, "backup.trusted_keys" in said.err) == (1, True, True)
    assert with_its_host("backup", "list", "--rebuild").code == 1
    assert not [*(tmp_path / "new").rglob("signing*")]  # of which nothing was signed

    def trusting(state: str, other: str) -> None:  # as the hint said, on each
        config.write_text(state.replace("    backup:", f"    backup:\n      trusted_keys: ['{other}']", 1))
        (listed,) = with_its_host("backup", "list", "-o", "json").json["snapshots"]
        assert (listed["restorable"], listed["verified"]["result"]) == (True, "verified")
        assert with_its_host("restore", "plan", "--manager-only").code == 0

    trusting(fresh, key)
    assert with_its_host("backup", "verify").code == 0
    (own,) = (tmp_path / "new").glob("*/keys/signing.pub")
    trusting(known, " ".join(own.read_text().split()[:2]))


def test_on_a_new_machine_it_is_told_that_keys_are_to_be_named_and_where_they_are_shown(alone, tmp_path):
    config = Path(alone.config)
    (signer,) = alone.state.glob("keys/signing.pub")
    config.write_text(re.sub(r'state: "[^"]*"', f'state: "{tmp_path}/new"', config.read_text(), count=1))
    listed = alone("backup", "list")
    assert (listed.code, "1 snapshot signed by a key that is not trusted" in listed.err) == (0, True), listed.err
    (known,) = alone("backup", "list", "-o", "json").json["snapshots"]
    shown = alone("backup", "show", known["id"])
    assert (shown.code, " ".join(signer.read_text().split()[:2]) in shown.err) == (1, True), shown.err
    assert alone("backup", "create").code == 7  # of its own, redacted: as the first night would
    said = alone("restore", "plan", "-o", "json")
    assert (said.code, "backup.trusted_keys" in said.error["hint"]) == (5, True), said.err


def test_what_somebody_left_among_the_parts_is_told_and_keeps_nobody_from_a_restore(with_its_host):
    (folder,) = {path.parent for path in (with_its_host.lab.folder / "backups").rglob("manifest.json")}
    (folder / "license.txt").write_text("taken out by hand")
    said = with_its_host("backup", "verify")
    assert (said.code, "license.txt lies there and is no part of it" in said.err) == (7, True)
    assert "remove it, then verify again" in said.err
    assert "RESTORABLE" in (listed := with_its_host("backup", "list")).out
    assert "failed" not in listed.out
    assert "yes" in listed.out
    assert folder.name in with_its_host("restore", "plan", "--manager-only").out
    (folder / "license.txt").unlink()
    assert with_its_host("backup", "verify").code == 0


@pytest.mark.parametrize("dry", [("--dry-run",), ()])
def test_a_verification_by_a_drill_prints_what_its_schema_says(alone, dry):
    said = alone("backup", "verify", "--level", "4", "-o", "json", *dry)
    schema = schema_of("output", "backup verify")
    assert (said.code, fits(said.json, schema, schema["$defs"])) == (0, True), said.err


def test_stale_chooses_by_itself(alone):
    assert alone("backup", "verify", "latest", "--stale", "1h").code == 2
    assert alone("backup", "verify", "--stale", "soon").code == 2


@pytest.mark.parametrize(("reference", "code", "why"), [("env:UNSET", 3, "UNSET is not set"), ("prompt:", 5, "typed")])
def test_what_wants_the_password_and_cannot_read_it_says_so_and_verifies_all_that_wants_none(
    redacted, reference, code, why
):
    # The newest is redacted, so that only --level 3 wants the password.
    first, newest = (one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"])
    store = redacted.lab.folder / "backups"
    before = sorted(store.rglob("*"))
    config = Path(redacted.config)
    config.write_text(re.sub(r"password: \S*/password\S*", f"password: '{reference}'", config.read_text(), count=1))
    for words in ("drill", first), ("create",):
        said = redacted("backup", *words)
        assert (said.code, why in said.err) == (code, True), said.err
    assert sorted(store.rglob("*")) == before
    assert redacted("backup", "verify", first, "--level", "2").code == 0
    for words in ([first], ["--stale", "0.001s", "--level", "3"]):
        said = redacted("backup", "verify", *words)
        assert (said.code, said.err.count(why), "level 3 tries this password" in said.err) == (code, 1, True), said.err
        assert (f"{first}: verified: level 2 of 2" in said.out, "failed" in said.out) == (True, False), said.out
    kept = redacted("backup", "list", "-o", "json").json["snapshots"]
    assert [(one["verified"]["result"], one["verified"]["level"]) for one in kept] == [("verified", 2)] * 2
    part = next(path for path in store.rglob(f"{newest}/deployment*") if path.stat().st_size)
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    said = redacted("backup", "verify", "--stale", "0.001s", "--level", "3")
    assert (said.code, "1 snapshot of 2 failed" in said.err, newest in said.err, said.err.count(why)) == (
        1, True, True, 1
    ), said.err  # fmt: skip
    kept = redacted("backup", "list", "-o", "json").json["snapshots"]
    assert [one["verified"]["result"] for one in kept] == ["verified", "failed"]


def test_a_password_that_can_be_read_no_longer_keeps_nobody_from_what_wants_none(twice):
    config, vault, reads = Path(twice.config), twice.lab.folder / "vault", twice.lab.folder / "reads"
    vault.write_text(f"echo >> {reads}; [ $(wc -l < {reads}) -le 2 ] && cat {twice.lab.folder}/password\n")
    reference = f"'command:/bin/sh {vault}'"
    config.write_text(re.sub(r"password: \S*/password\S*", f"password: {reference}", config.read_text(), count=1))
    said = twice("backup", "verify", "--stale", "0.001s")
    assert (said.code, said.err.count("error:"), "level 2 only: 1 snapshot" in said.err) == (3, 1, True), said.err
    assert ("level 3 of 3" in said.out, "level 2 of 2" in said.out) == (True, True), said.out


def test_where_the_private_key_cannot_be_read_each_is_looked_at_as_deep_as_goes_without_it(redacted):
    first, newest = (one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"])
    key, begun = redacted.lab.folder / "identity", time.time()
    whole = key.read_text()
    for spoil in (key.unlink, lambda: key.chmod(0o644), lambda: key.write_text("no key\n")):
        key.write_text(whole)
        key.chmod(0o600)
        spoil()
        said = redacted("backup", "verify", "--stale", "0.001s")
        assert (said.code, str(key) in said.err, said.err.count("error:")) == (3, True, 1), said.err
        assert "level 1 only: 2 snapshots" in said.err
        assert all(f"{one}: verified: level 1 of 1" in said.out for one in (first, newest)), said.out
        before = sorted((redacted.lab.folder / "backups").rglob("*"))
        said = redacted("backup", "drill", first)
        assert (said.code, str(key) in said.err) == (3, True), said.err
        assert sorted((redacted.lab.folder / "backups").rglob("*")) == before
    overdue = f"{time.time() - begun}s"  # what was looked at deep before, and since then only to level 1
    assert redacted("backup", "verify", "--stale", overdue).code == 3
    key.write_text(whole)
    said = redacted("backup", "verify", "--stale", overdue)
    assert (said.code, said.out.count(": verified: level ")) == (0, 2), said.out


@pytest.mark.parametrize("words", [("verify",), ("verify", "--stale", "0.001s"), ("drill",), ("rekey", "--all")])
def test_a_mistyped_password_says_nothing_of_the_snapshot(twice, httpserver, words):
    snapshots = [one["id"] for one in twice("backup", "list", "-o", "json").json["snapshots"]]
    if words[0] == "rekey":
        change_recipient(twice)
    store = twice.lab.folder / "backups"
    before = sorted(store.rglob("*"))
    httpserver.expect_request(re.compile("/p.*")).respond_with_data("OK")
    configured(twice, f"    notify: [{{name: dead-man, ping: {{url: '{httpserver.url_for('/p')}'}}}}]\n")
    code, said = typed(twice, "mistyped", *words)
    assert (code, said.count("the password that was typed"), "not sound" in said) == (2, 1, False), said
    told = [request.get_data(as_text=True) for request, _ in httpserver.log]
    words_of_end = f"backup {words[0]} is not done: a password was mistyped at a terminal"
    assert [words_of_end in one for one in told] == ([False, True] if words[0] != "rekey" else []), told
    assert ("`--level 2` wants none" in said) == (words[0] == "verify"), said
    assert all(one in said for one in (snapshots if len(words) > 1 else snapshots[-1:])), said
    assert sorted(store.rglob("*")) == before


def test_what_is_rekeyed_already_counts_where_the_password_is_mistyped(twice):
    change_recipient(twice)
    first, newest = (one["id"] for one in twice("backup", "list", "-o", "json").json["snapshots"])
    assert twice("backup", "rekey", "--snapshot", first).code == 0
    code, said = typed(twice, "mistyped", "rekey", "--all", "--prune-old", "--yes")
    assert (code, said.count("the password that was typed"), "not everything was done: 2" in said) == (7, 2, True), said
    left = [one["id"] for one in twice("backup", "list", "-o", "json").json["snapshots"]]
    assert (len(left), {first, newest} <= set(left)) == (3, True)


def test_what_is_healed_from_a_snapshot_wants_its_password_and_is_not_stored_where_that_is_mistyped(redacted):
    older, newer = (one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"])
    before = sorted((redacted.lab.folder / "backups").rglob("*"))
    code, said = typed(redacted, "mistyped", "heal", newer, "--from", older)
    assert (code, f"the password that was typed does not open admin of snapshot {older}" in said) == (2, True), said
    assert sorted((redacted.lab.folder / "backups").rglob("*")) == before
    code, said = typed(redacted, PASSWORD, "heal", newer, "--from", older)
    assert (code, "verified: level 3 of 3" in said) == (0, True), said


def test_what_is_healed_from_a_snapshot_that_the_password_does_not_open_is_opened_by_it_no_more(redacted):
    older, newer = (one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"])
    (redacted.lab.folder / "password").write_text("changed since")
    said = redacted("backup", "heal", newer, "--from", older)
    assert (said.code, "must not be relied on: the configured password does not open admin" in said.err) == (1, True)
    results = {
        one["id"]: one["verified"]["result"] for one in redacted("backup", "list", "-o", "json").json["snapshots"]
    }
    assert sorted(results.values()) == ["failed", "verified", "verified"]
    (healed,) = results.keys() - {older, newer}
    assert (redacted("backup", "verify", older).code, redacted("backup", "verify", healed).code) == (1, 1)
    (redacted.lab.folder / "password").write_text(PASSWORD)
    assert redacted("backup", "verify", healed).code == 0


def test_a_backup_of_a_fresh_manager_whose_account_the_configured_password_does_not_open_is_not_restorable(lost):
    lost.lab.world.redaction = False
    said = lost("backup", "create", "--yes")
    assert (said.code, "the configured password does not open admin" in said.err) == (1, True), said.err
    listed = lost("backup", "list", "-o", "json").json["snapshots"][-1]
    assert (listed["restorable"], listed["verified"]["result"]) == (False, "failed")
    assert lost("backup", "verify", listed["id"]).code == 1


@pytest.mark.parametrize(("api", "lacks"), [("v19", "tags"), ("v2", "role groups beside the first of each kind")])
def test_what_an_older_api_version_leaves_out_of_an_export_is_told_and_stands_in_the_snapshot(alone, api, lacks):
    alone.lab.world.redaction = False
    config = Path(alone.config)
    config.write_text(config.read_text().replace('"v49"', f'"{api}"').replace(": v49", f": {api}"))
    assert api in config.read_text()
    said = alone("backup", "create", "--yes", "-v")
    assert (said.code, "left out: what no export of this API version holds" in said.err) == (0, True), said.err
    shown = alone("backup", "show", "latest", "-o", "json").json
    (words,) = [one for one in shown["snapshot"]["uncovered"] if "API version" in one]
    assert lacks in words and f"asks for {api}, and the manager speaks v49" in words


@pytest.mark.parametrize("words", [("verify",), ("verify", "--stale", "0.001s"), ("drill",)])
def test_what_is_found_is_shown_also_where_the_store_takes_no_record_of_it(alone, words):
    records = alone.lab.folder / "backups" / SITE / "records"
    records.rename(records.with_name(".away"))
    records.touch()  # nothing can be written below it, as on a disk that is mounted read-only
    said = alone("backup", *words, "-o", "json")
    (found,) = said.json.get("verifications") or [said.json.get("verification") or said.json.get("drill")]
    assert (said.code, found["result"]) == (7, "passed" if words == ("drill",) else "verified"), said.err
    assert "what was found is not kept: cannot write" in said.err and "Not a directory" in said.err


def test_where_the_store_takes_no_record_all_snapshots_are_looked_at_and_a_damaged_one_fails(twice):
    backups = twice.lab.folder / "backups" / SITE
    oldest, newest = sorted(path.parent.name for path in backups.rglob("manifest.json"))
    (backups / "records").rename(backups / ".away")
    (backups / "records").touch()
    said = twice("backup", "list", "--rebuild")
    assert (said.code, "what was found is not kept: cannot write" in said.err) == (7, True), said.err
    assert all(f"{one}: verified: level 3 of 3" in said.err and one in said.out for one in (oldest, newest)), said.err
    part = backups / oldest / "deployment.json.zst.age"
    part.write_bytes(part.read_bytes()[:-1])
    for words in (("list", "--rebuild"), ("verify", "--stale", "0.001s")):
        said = twice("backup", *words)
        assert (said.code, f"{newest}: verified: level 3 of 3" in said.err + said.out) == (1, True), said.err
        assert f"{oldest}: failed" in said.err + said.out, said.err


def test_a_damaged_note_of_what_was_seen_keeps_nobody_from_verifying_and_copying_and_is_told(alone, tmp_path):
    alone.lab.world.redaction = False
    config, note = Path(alone.config), alone.state / "seen.json"
    config.write_text(
        config.read_text().replace("    backup:\n", f"    backup:\n      copies: ['{tmp_path}/second']\n")
    )
    note.write_text("{")
    said = alone("backup", "verify")
    assert (said.code, f"{note} is damaged" in said.err) == (0, True), said.err
    said = alone("backup", "create", "--yes")
    assert (said.code, f"{note} is damaged" in said.err) == (0, True), said.err
    assert len(alone("backup", "list", "--store", f"{tmp_path}/second", "-o", "json").json["snapshots"]) == 2
    assert note.read_text() == "{"  # what it holds may still be read by a person
    seen = alone("doctor", "-o", "json").json["checks"]
    assert [one["state"] for one in seen if f"{note} is damaged" in one["words"]] == ["FAIL"]
