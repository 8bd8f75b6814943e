"""`maint backup rekey` as an operator uses it: refused without the key, shown first, done once, old ones pruned."""

import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import StoreFailed
from maint.lab.create import SITE
from maint.lab.pki import age_key
from tests.steps.conftest import back_up
from tests.steps.operator import maint


@pytest.fixture
def changed(twice: Any) -> Any:
    """An operator with snapshots, whose config has just got another recipient and a copy."""
    change_recipient(twice)
    return twice


def change_recipient(operator: Any) -> None:
    """Give a site another recipient, whose key is beside the old one, and a copy of its store."""
    new, recipient = age_key()
    folder = operator.lab.folder
    (folder / "identity").write_text(f"{(folder / 'identity').read_text().strip()}\n{new}\n")
    path = Path(operator.config)
    text = path.read_text()
    old = next(word.strip("'\"- []") for word in text.split() if "age1" in word)
    copies = "" if "copies: [second]" in text else "      copies: [second]\n"
    path.write_text(text.replace(old, recipient).replace("    backup:\n", f"    backup:\n{copies}"))


def stored(operator: Any, place: str) -> list[str]:
    return sorted(path.parent.name for path in (operator.lab.folder / place / SITE).glob("2*/manifest.json"))


def test_what_a_killed_run_removed_from_the_first_store_alone_goes_from_the_copies_too(changed: Any) -> None:
    assert changed("backup", "rekey", "--all", "--yes").code == 0
    copy = changed.lab.folder / "second"
    shutil.copytree(copy, kept := copy.with_name("kept"))
    assert changed("backup", "rekey", "--all", "--prune-old", "--yes").code == 0
    made = stored(changed, "second")
    shutil.copytree(kept, copy, dirs_exist_ok=True)  # as if it had not come to them
    assert stored(changed, "second") != made
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert (said.code, said.out.strip().startswith("nothing to do")) == (0, True)
    assert stored(changed, "second") == stored(changed, "backups") == made


def test_all_are_encrypted_anew_once_and_the_old_ones_go_where_that_is_asked(changed: Any) -> None:
    before = stored(changed, "backups")
    shown = changed("backup", "rekey", "--all", "--dry-run", "-o", "json")
    assert (shown.code, [one["from"] for one in shown.json["rekeyed"]]) == (0, before)
    assert stored(changed, "backups") == before
    said = changed("backup", "rekey", "--all", "-o", "json")
    assert said.code == 0, said.err
    made = sorted(one["snapshot"] for one in said.json["rekeyed"])
    assert stored(changed, "backups") == stored(changed, "second") == sorted([*before, *made])
    assert f"encrypted anew: {before[0]}" in changed("backup", "show", made[0]).out
    shown = changed("backup", "rekey", "--all", "--prune-old", "--dry-run")
    assert f"would remove {before[0]}" in shown.out
    assert changed("backup", "rekey", "--all", "--prune-old").code == 5  # nobody was there to say yes
    assert stored(changed, "backups") == sorted([*before, *made])
    again = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert (again.code, again.out) == (0, "encrypted anew: 0 snapshots, 2 already before\n"), again.err
    assert stored(changed, "backups") == stored(changed, "second") == made
    assert "nothing to do" in changed("backup", "rekey", "--all").out
    assert changed("backup", "verify", made[-1]).code == 0


def test_one_change_of_keys_after_another_makes_one_new_snapshot_of_each_and_the_oldest_go_with_the_others(
    changed: Any,
) -> None:
    first = stored(changed, "backups")
    assert changed("backup", "rekey", "--all").code == 0
    second = [one for one in stored(changed, "backups") if one not in first]
    change_recipient(changed)
    shown = changed("backup", "rekey", "--all", "--dry-run").out
    assert all(f"would encrypt {one} anew" in shown for one in second)
    assert not any(f"would encrypt {one} anew" in shown for one in first)
    said = changed("backup", "rekey", "--all", "-o", "json")
    assert said.code == 0, said.err
    third = [one for one in stored(changed, "backups") if one not in first + second]
    made = {one["from"]: one["snapshot"] for one in said.json["rekeyed"]}
    assert (sorted(made), sorted({*made.values()}), len(third)) == (sorted(first + second), third, len(first))
    (changed.lab.folder / "backups" / SITE / third[0]).rename(changed.lab.folder / "lost")
    change_recipient(changed)
    assert changed("backup", "rekey", "--all", "--prune-old", "--yes").code == 0
    assert len(stored(changed, "backups")) == len(first)
    assert changed("backup", "verify", stored(changed, "backups")[0]).code == 0


def test_where_what_an_earlier_change_of_keys_made_is_damaged_the_older_one_is_encrypted_anew(changed: Any) -> None:
    first = stored(changed, "backups")
    assert changed("backup", "rekey", "--all").code == 0
    second = [one for one in stored(changed, "backups") if one not in first]
    for place in ("backups", "second"):
        part = changed.lab.folder / place / SITE / second[0] / "deployment.json.zst.age"
        part.write_bytes(part.read_bytes()[:-1])
    change_recipient(changed)
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes", "-o", "json")
    assert (said.code, second[0] in said.err) == (7, True), said.err
    made = {one["from"]: one["snapshot"] for one in said.json["rekeyed"]}
    assert sorted(made) == sorted([*first, second[1]])
    assert stored(changed, "backups") == sorted([second[0], *{*made.values()}])
    assert changed("backup", "verify", made[first[0]]).code == 0


def test_what_people_hold_is_held_as_well_where_it_was_encrypted_anew(changed: Any) -> None:
    for one in stored(changed, "backups"):
        assert changed("backup", "hold", one, "--reason", "before the upgrade").code == 0
    assert changed("backup", "rekey", "--all", "--yes").code == 0
    listed = changed("backup", "list", "-o", "json").json["snapshots"]
    assert [[hold["reason"] for hold in one["holds"]] for one in listed] == [["before the upgrade"]] * 4


def test_a_machine_whose_clock_is_ahead_removes_nothing_and_reads_nothing_for_it(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, written = stored(changed, "backups"), LocalStore.written
    late = timedelta(hours=2)
    monkeypatch.setattr(LocalStore, "written", lambda store, name: (at := written(store, name)) and at - late)
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert (said.code, stored(changed, "backups")) == (5, before)
    assert "nothing is removed: this machine's clock is ahead of the one of" in said.err


def test_the_help_says_that_a_key_file_holds_several_keys() -> None:
    for topic in ("rekey", "backup"):
        said = " ".join(maint("help", topic).out.split())
        assert re.search(r"may hold several(?: keys)?, (?:a line each|one a line)", said), topic


def test_without_the_private_key_it_is_refused(changed: Any) -> None:
    path = Path(changed.config)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "identity:" not in line))
    said = changed("backup", "rekey", "--all")
    assert (said.code, "no private key" in said.err) == (5, True)
    assert changed("backup", "rekey").code == 2


def test_a_password_that_cannot_be_read_is_a_matter_of_the_config_and_nothing_is_written(changed: Any) -> None:
    path, before = Path(changed.config), stored(changed, "backups")
    path.write_text(re.sub(r"password: \S*/password\S*", "password: env:UNSET", path.read_text(), count=1))
    said = changed("backup", "rekey", "--all")
    assert (said.code, "UNSET is not set" in said.err) == (3, True)
    assert stored(changed, "backups") == before


def test_a_key_that_does_not_open_a_snapshot_is_told_and_the_snapshot_stays(changed: Any) -> None:
    before = stored(changed, "backups")
    keys = changed.lab.folder / "identity"
    keys.write_text(f"{keys.read_text().split()[-1]}\n")
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert (said.code, before[0] in said.err) == (7, True)
    assert stored(changed, "backups") == before


def test_a_file_that_the_store_does_not_give_keeps_no_other_snapshot_from_being_encrypted_anew(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = stored(changed, "backups")
    opened = LocalStore.open

    def fails(self: LocalStore, name: str) -> Any:
        if f"{first}/deployment" in name:
            raise StoreFailed(f"{name} cannot be read: Input/output error", hint="look at the disk")
        return opened(self, name)

    monkeypatch.setattr(LocalStore, "open", fails)
    said = changed("backup", "rekey", "--all", "--yes", "-o", "json")
    assert (said.code, first in said.err) == (7, True), said.err
    assert [one["from"] for one in said.json["rekeyed"]] == others


def test_what_nobody_here_can_open_is_partly_done_and_its_later_proof_is_kept(changed: Any) -> None:
    keys = changed.lab.folder / "identity"
    old, new = keys.read_text().split()
    keys.write_text(f"{old}\n")
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert (said.code, "no private key at hand opens it" in said.err) == (7, True)
    keys.write_text(f"{old}\n{new}\n")
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert said.code == 0, said.err
    left = changed("backup", "list", "-o", "json").json["snapshots"]
    assert {(one["verified"]["result"], one["verified"]["level"]) for one in left} == {("verified", 3)}


def test_what_could_not_be_proven_is_proven_by_the_same_command_once_the_key_is_where_it_says(changed: Any) -> None:
    keys = changed.lab.folder / "identity"
    old, new = keys.read_text().split()
    keys.write_text(f"{old}\n")
    said = changed("backup", "rekey", "--all", "--yes")
    assert (said.code, "beside the old one in backup.identity" in said.err) == (7, True)
    keys.write_text(f"{old}\n{new}\n")
    said = changed("backup", "rekey", "--all", "--yes")
    assert said.code == 0, said.err


def test_a_key_that_was_exchanged_brands_no_backup_as_damaged_and_heals_by_itself(alone: Any) -> None:
    keys, path = alone.lab.folder / "identity", Path(alone.config)
    (kept,) = stored(alone, "backups")
    right = keys.read_text()
    keys.write_text(age_key()[0])
    text = path.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 1}\n")
    path.write_text(f"{text.rstrip()}\n    metrics: maint.prom\n")
    said = alone("backup", "verify", kept)
    assert (said.code, "level 1 of 3" in said.err) == (7, True), said.err
    figures = (alone.lab.folder / "maint.prom").read_text()
    assert re.findall(r'^maint_snapshots{.*kind="damaged".*} (.*)$', figures, re.MULTILINE) == ["0"], figures
    planned = alone("restore", "plan")
    assert (planned.code, "no private key at hand opens it" in planned.err) == (5, True), planned.err
    assert "damaged" not in planned.err
    (listed,) = alone("backup", "list", "-o", "json").json["snapshots"]
    assert listed["verified"]["result"] != "failed"
    told = alone("doctor", "-o", "json").json["checks"]
    assert [one for one in told if one["state"] == "FAIL" and one["label"] in ("snapshots", "backup")] == []
    pruned = alone("backup", "prune", "--damaged", "--yes")
    assert (pruned.code, "is not verified" in pruned.err) == (5, True), pruned
    assert stored(alone, "backups") == [kept]
    keys.write_text(right)
    assert alone("backup", "verify", kept).code == 0
    assert alone("backup", "prune", "--damaged", "--yes").code == 0
    assert stored(alone, "backups") == [kept]


def test_what_did_not_come_back_in_a_drill_is_no_proof_because_it_was_encrypted_anew(alone: Any) -> None:
    back_up(alone)
    newest = stored(alone, "backups")[-1]
    role = alone.lab.world.deployment["clusters"][0]["services"][0]["roles"][0]["name"]
    assert alone("backup", "drill", newest, "--switch", f"reject-role={role}").code == 1
    change_recipient(alone)
    assert alone("backup", "rekey", "--all", "--prune-old", "--yes").code == 0
    change_recipient(alone)  # of one that was encrypted anew itself, and whose old one is gone
    assert alone("backup", "rekey", "--all", "--yes").code == 0
    for place in ("backups", "second"):
        listed = alone("backup", "list", "--store", str(alone.lab.folder / place), "-o", "json").json["snapshots"]
        assert [(one["drilled"] or {"passed": None})["passed"] for one in listed] == [None, None, False, False]
    assert "ITS DRILL FAILED: " in alone("backup", "show", listed[-1]["id"]).out
    planned = alone("cluster", "stop", "base", "--dry-run")
    assert (planned.code, f"proven by snapshot {listed[1]['id']}" in planned.out) == (0, True), planned.out
    assert alone("backup", "drill", listed[-1]["id"]).code == 0
    planned = alone("cluster", "stop", "base", "--dry-run")
    assert (planned.code, f"proven by snapshot {listed[-1]['id']}" in planned.out) == (0, True), planned.out


@pytest.mark.parametrize("writable", [True, False])
def test_what_a_copy_does_not_hold_yet_is_not_called_damaged(
    changed: Any, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, create = stored(changed, "backups"), LocalStore.create

    def full(store: LocalStore, name: str) -> Any:
        if "second" in store.location and (not writable or "/under-way/" in name):
            raise StoreFailed(f"cannot write {name}", detail=["No space left on device"])
        return create(store, name)

    monkeypatch.setattr(LocalStore, "create", full)
    said = changed("backup", "rekey", "--all", "--prune-old", "--yes")
    assert said.code == 7, said.err
    assert f"{before[0]} stays: " in said.err
    assert f"is not proven in {changed.lab.folder}/second, which does not hold it yet" in said.err
    assert "must not be relied on" not in said.err and "is missing" not in said.err
    assert not list((changed.lab.folder / "second").rglob("*-verify-*"))


def test_metrics_and_list_of_sites_count_what_was_healed_and_what_was_encrypted_anew(alone: Any) -> None:
    path = Path(alone.config)
    path.write_text(f"{path.read_text().rstrip()}\n    metrics: maint.prom\n")

    def counted() -> tuple[str, str]:
        figures = (alone.lab.folder / "maint.prom").read_text()
        (found,) = re.findall(r'^maint_snapshots{.*kind="restorable".*} (.*)$', figures, re.MULTILINE)
        return found, alone("site", "list").out.splitlines()[1].split()[4]

    assert alone("backup", "create").code == 7
    source, redacted = stored(alone, "backups")
    assert counted() == ("1", "1")
    assert alone("backup", "heal", redacted, "--from", source).code == 0
    assert counted() == ("2", "2")
    change_recipient(alone)
    assert alone("backup", "rekey", "--all", "--yes").code == 0
    assert counted() == ("4", "4")


def test_the_last_good_drill_of_a_snapshot_that_was_replaced_is_told_as_of_one_that_is_gone(alone: Any) -> None:
    assert alone("backup", "drill", "latest").code == 0
    said = alone("backup", "list")
    assert "last good drill: " in said.out and "does not hold" not in said.out
    change_recipient(alone)
    assert alone("backup", "rekey", "--all", "--prune-old", "--yes").code == 0
    assert ", which this store does not hold" in alone("backup", "list").out


def test_a_snapshot_that_was_drilled_and_that_a_copy_lacks_is_not_said_to_be_removed(alone: Any) -> None:
    copy = alone.lab.folder / "second"
    path = Path(alone.config)
    path.write_text(path.read_text().replace("    backup:\n", f"    backup:\n      copies: [{copy}]\n"))
    assert alone("backup", "drill", "latest").code == 0
    drilled = stored(alone, "backups")[-1]
    assert alone("backup", "create").code == 7  # redacted; it copies, too
    shutil.rmtree(next(copy.glob(f"*/{drilled}")))
    said = alone("backup", "list", "--store", str(copy))
    assert said.out.splitlines()[-1].endswith(f"of {drilled}, which this store does not hold")
