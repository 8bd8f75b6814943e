"""Several stores at the command line: what each exit code means, and that nothing is lost."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from maint import files
from maint.lab.create import SITE
from tests.cli.conftest import with_few_hosts


class Stores:
    """An operator whose config names a second store."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.first = operator.lab.folder / "backups"
        self.second = operator.lab.folder / "second"
        config = Path(operator.config)
        with_copies = f"    backup:\n      copies: ['{self.second}']\n"
        config.write_text(config.read_text().replace("    backup:\n", with_copies))

    def create(self) -> Any:
        return self.operator("backup", "create", "-o", "json")

    def ids(self, store: Path) -> list[str]:
        said = self.operator("backup", "list", "--store", str(store), "-o", "json")
        assert said.code == 0, said.err
        return [one["id"] for one in said.json["snapshots"]]

    def outcome(self, kind: str) -> str:
        plan, *lines = self.operator.journal()
        kinds = [action["kind"] for action in plan["plan"]["actions"]]
        (found,) = [line for line in lines if line["what"] == "outcome" and kinds[line["index"]] == kind]
        return str(found["detail"])


def down(folder: Path) -> None:
    if folder.is_dir():
        folder.rename(folder.with_name(f"{folder.name}-away"))
    folder.write_text("not a folder")


def up(folder: Path) -> None:
    folder.unlink()
    if folder.with_name(f"{folder.name}-away").is_dir():
        folder.with_name(f"{folder.name}-away").rename(folder)


def accepting(operator: Any) -> Stores:
    """Return two stores of an operator's site; that the server redacts is no reason for an exit code of its own."""
    stores = Stores(operator)
    text = Path(operator.config).read_text()
    Path(operator.config).write_text(text.replace("    backup:\n", "    backup:\n      on_redacted: accept\n"))
    return stores


@pytest.fixture
def stores_of_all(loaded: Any) -> Stores:
    """Two stores of a site with hosts and virtual clusters."""
    return accepting(with_few_hosts(loaded, "ecs"))


@pytest.fixture
def stores(alone: Any) -> Stores:
    """Two stores of a site that is a manager alone."""
    return accepting(alone)


def test_a_backup_brings_the_second_store_up_to_date(stores: Stores) -> None:
    said = stores.create()
    assert said.code == 0, said.err
    assert stores.ids(stores.second) == stores.ids(stores.first)
    assert len(stores.ids(stores.second)) == 2
    assert stores.operator("backup", "verify", "--store", str(stores.second), "--level", "2").code == 0


def test_a_copy_that_is_down_makes_the_run_partly_done_and_the_next_one_catches_up(stores: Stores) -> None:
    down(stores.second)
    said = stores.create()
    assert (said.code, said.error["exit"]) == (7, 7)
    assert str(stores.second) in stores.outcome("snapshot.copy")
    shown = [line for line in stores.operator("backup", "create").err.splitlines() if str(stores.second) in line]
    assert [line[:3] for line in shown if "] " in line][-1] == "! [", shown
    up(stores.second)
    assert stores.create().code == 0
    assert stores.ids(stores.second) == stores.ids(stores.first)
    assert len(stores.ids(stores.second)) == 4


def test_where_the_signing_key_is_lost_the_copies_are_said_to_want_it_and_nothing_to_be_unsound(stores: Stores) -> None:
    assert stores.create().code == 0
    operator, key = stores.operator, stores.operator.state / "keys/signing"
    key.rename(key.with_name("away"))
    said = stores.create()
    assert (said.code, "backup.trusted_keys" in said.err) == (7, True), said.err
    (line,) = [one for one in operator("doctor", "-o", "json").json["checks"] if one["label"].startswith("copy ")]
    assert "not proven to be sound" in line["words"] and line["hint"].startswith("maint backup verify"), line
    ((command, *words),) = [re.sub("^maint ", "", line["hint"]).split()]
    said = operator(command, *words)
    assert "is signed by nobody who is trusted here" in said.err and "backup.trusted_keys" in said.err, said.err
    said = operator("restore", "plan", "--snapshot", words[1])
    assert (said.code, "backup.trusted_keys" in said.err) == (5, True), said.err


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_store_whose_disk_is_not_mounted_is_not_begun_anew_until_somebody_says_that_all_is_lost(
    stores: Stores, which: str
) -> None:
    assert stores.create().code == 0
    folder: Path = getattr(stores, which)
    folder.rename(away := folder.with_name("not-mounted"))
    said = stores.create()
    assert (said.code, "is its disk mounted?" in said.err, folder.exists()) == (7, True, False)
    label = "store" if which == "first" else f"copy {folder}"
    lines = {one["label"]: one for one in stores.operator("doctor", "-o", "json").json["checks"]}
    assert (lines[label]["state"], "mount it" in lines[label]["hint"]) == ("FAIL", True)
    away.rename(folder)
    assert stores.create().code == 0
    assert len(stores.ids(stores.first)) == len(stores.ids(stores.second)) == 4  # the one that went elsewhere, too
    folder.rename(away)
    lost = stores.create()
    ways = {*re.findall(r"`maint (backup list --rebuild --store \S+)`", lost.err)}
    assert ways == {f"backup list --rebuild --store {folder}"}
    said = stores.operator(*ways.pop().split())
    assert (said.code, f"--store {stores.second}` looks into a copy" in said.out) == (0, which == "first"), said.out
    assert stores.create().code == 0
    assert len(stores.ids(folder)) > 0


@pytest.mark.parametrize("mounted", ["no", "empty"])
def test_where_a_disk_is_not_mounted_nobody_is_told_that_there_is_no_backup(
    stores_of_all: Stores, mounted: str
) -> None:
    assert stores_of_all.create().code == 0
    operator, (_, known) = stores_of_all.operator, sorted(stores_of_all.ids(stores_of_all.first))
    stores_of_all.first.rename(away := stores_of_all.first.with_name("not-mounted"))
    if mounted == "empty":
        stores_of_all.first.mkdir()
    for line in (
        "backup list", f"backup show {known}", "backup verify", f"backup verify {known}", "backup diff latest latest",
        "backup drift", "backup drill", "restore plan --manager-only",
        f"restore plan --manager-only --snapshot {known}",
        "manager restore --dry-run", "vc drift", "vc restore --dry-run", "cluster stop base --dry-run",
        "cluster delete ecs-01 --dry-run", "backup prune --dry-run", "backup prune --yes",
    ):  # fmt: skip
        said = operator(*line.split())
        assert (said.code, "is its disk mounted?" in said.err, said.out) == (1, True, ""), (line, said)
        assert f"`maint backup list --store {stores_of_all.second}`" in said.err
    assert operator("backup", "list", "--store", str(stores_of_all.second)).code == 0
    assert operator("cluster", "stop", "base", "--dry-run", "--no-safety-net", "it is lost").code == 0
    assert "could not be asked" in operator("site", "status", "-o", "json").json["redaction_window"]
    told = {one["label"]: one for one in operator("doctor", "-o", "json").json["checks"]}
    assert told["drill"]["words"] == "cannot be told, for the reason of `store`"
    assert told[f"copy {stores_of_all.second}"]["words"] == "2 snapshots"
    assert "could not be asked for open windows" in told["redaction window"]["words"]
    if mounted == "empty":
        stores_of_all.first.rmdir()
    away.rename(stores_of_all.first)
    assert operator("backup", "show", known).code == 0


def test_a_copy_that_never_answers_holds_up_neither_a_backup_nor_a_pruning_beyond_its_first_look(
    stores_of_all: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        secret = stores_of_all.second.with_name("secret")
        files.create(secret, b"secret")
        s3 = f"{{endpoint: 'http://127.0.0.1:{silent.getsockname()[1]}', access_key: 'file:{secret}', "
        s3 += f"secret_key: 'file:{secret}', region: us-east-1}}"
        config = Path(stores_of_all.operator.config)
        text = config.read_text().replace(
            f"copies: ['{stores_of_all.second}']", f"copies: ['s3://copies/x']\n      s3: {s3}"
        )
        config.write_text(text.replace("    backup:\n", "    backup:\n      keep: {last: 1}\n      minimum: 1\n"))
        monkeypatch.setattr("maint.snapshots.replicate.REACH", 0.5)
        words = "s3://copies/x: no answer within 0.5 s"
        said = stores_of_all.operator("backup", "create", "--open-window", "--yes", "--timeout", "115s", "-o", "json")
        assert said.code == 7, said.err
        assert words in stores_of_all.outcome("snapshot.copy")
        said = stores_of_all.operator("backup", "prune", "--yes", "--timeout", "115s")
        assert (said.code, words in said.err) == (7, True), said.err


def test_without_a_copy_nothing_is_stored_in_the_place_of_a_disk_that_is_not_mounted(loaded: Any) -> None:
    store = loaded.lab.folder / "backups"
    loaded("backup", "create")
    store.rename(away := store.with_name("not-mounted"))
    for words in (("backup", "create"), ("vc", "backup")):
        said = loaded(*words)
        assert (said.code, "is its disk mounted?" in said.err, store.exists()) == (1, True, False), said.err
    away.rename(store)
    assert loaded("backup", "verify").code == 0


def test_a_copy_that_cannot_be_made_is_named_with_a_way_out(stores: Stores) -> None:
    config = Path(stores.operator.config)
    config.write_text(config.read_text().replace(str(stores.second), "/proc/self/second"))
    said = stores.create()
    assert (said.code, "/proc/self/second" in stores.outcome("snapshot.copy")) == (7, True)
    assert "No such file or directory" in said.out + said.err


def test_when_the_first_store_is_down_the_backup_lies_in_the_copy_and_comes_home(stores: Stores) -> None:
    assert stores.create().code == 0
    down(stores.first)
    assert stores.create().code == 7
    assert len(stores.ids(stores.second)) == 3
    up(stores.first)
    assert len(stores.ids(stores.first)) == 2
    assert stores.create().code == 0
    assert stores.ids(stores.first) == stores.ids(stores.second)
    assert len(stores.ids(stores.first)) == 4


def test_when_no_store_holds_the_snapshot_the_run_fails(stores: Stores) -> None:
    down(stores.first)
    down(stores.second)
    assert stores.create().code == 1


def test_a_manager_comes_back_from_a_copy_and_a_restore_that_stops_is_taken_up_from_that_copy(
    stores_of_all: Stores,
) -> None:
    operator, second = stores_of_all.operator, str(stores_of_all.second)
    assert stores_of_all.create().code == 0
    down(stores_of_all.first)
    operator.lab.lose_database()
    operator.forget_requests()
    assert operator.restore().code != 0
    assert operator.sent == []
    operator.lab.break_("restore", "put-fails")
    said = operator.restore("--store", second, "-o", "json")
    assert said.code == 1
    assert f"maint playbook resume --store {second}" in said.error["hint"]
    taken_up = operator("playbook", "resume", "--store", second, "-o", "json")
    assert taken_up.code == 0, taken_up.err
    assert taken_up.json["actions"][-1]["kind"] == "deployment.compare"
    assert operator.puts == 2


def test_a_restore_that_was_killed_is_taken_up_from_the_store_that_it_was_told(stores_of_all: Stores) -> None:
    assert stores_of_all.create().code == 0
    down(stores_of_all.first)
    stores_of_all.operator.lab.lose_database()
    stores_of_all.operator.lab.break_("restore", "put-fails")
    assert stores_of_all.operator.restore("--store", str(stores_of_all.second)).code == 1
    for more in (("--dry-run",), ()):  # as one types it after a kill, which leaves no words
        taken_up = stores_of_all.operator("playbook", "resume", *more)
        assert taken_up.code == 0, taken_up.err
    assert stores_of_all.operator.puts == 2


def test_a_config_without_copies_plans_no_copy(loaded: Any) -> None:
    said = loaded("backup", "create", "--dry-run", "-o", "json")
    assert [action["kind"] for action in said.json["plan"]["actions"]] == ["snapshot.take"]
    assert said.json["plan"]["site"] == SITE


def test_what_is_damaged_in_the_first_store_is_put_back_from_a_sound_copy_as_the_hint_says(stores: Stores) -> None:
    assert stores.create().code == 0
    snapshot = stores.ids(stores.first)[-1]
    (part,) = (stores.first / SITE / snapshot).glob("deployment.json.*")
    sound = stores.second / SITE / snapshot / part.name
    part.write_bytes(b"rotten" + part.read_bytes()[6:])
    words = "backup", "verify", snapshot, "--level", "2", "-o", "json"
    said = stores.operator(*words)
    assert (said.code, "what is damaged can be put back from there" in said.error["hint"]) == (1, True)
    assert stores.operator(*words, "--store", str(stores.second)).code == 0
    part.write_bytes(sound.read_bytes())
    assert stores.operator(*words).code == 0


def test_where_the_first_store_is_gone_what_reads_a_copy_is_told(stores: Stores) -> None:
    assert stores.create().code == 0
    down(stores.first)
    way = f"`maint backup list --store {stores.second}` looks into a copy"
    for words in ("backup list", "backup verify", "restore plan", "backup hold 2 --reason x"):
        assert way in stores.operator(*words.split(), "-o", "json").error["hint"], words
    told = {one["label"]: one["hint"] for one in stores.operator("doctor", "-o", "json").json["checks"]}
    assert way in told["store"]
    down(stores.second)
    assert way not in stores.operator("backup", "list", "--store", str(stores.second), "-o", "json").error["hint"]
    up(stores.first)
    for one in stores.first.iterdir():
        one.rename(stores.first.with_name(f"{one.name}-away"))
    assert stores.operator("backup", "list", "-o", "json").error["hint"].count(way) == 1


def test_where_the_shared_state_is_gone_for_good_it_is_told_what_a_restore_elsewhere_leaves_out(lost: Any) -> None:
    path, shared = Path(lost.config), lost.lab.folder / "shared"
    path.write_text(path.read_text().replace("    backup:\n", f"    shared_state: {shared}\n    backup:\n"))
    shared.write_text("not a folder")
    way = "where it is lost for good, and no other machine is at work: take `shared_state` out of the config"
    assert lost.restore("-o", "json").error["hint"].endswith(way)
    told = {one["label"]: one["hint"] for one in lost("doctor", "-o", "json").json["checks"]}
    assert told["lease"].endswith(way)
    assert "shared_state" not in lost("backup", "list", "--store", "/nowhere/at/all", "-o", "json").err
