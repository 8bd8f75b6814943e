"""Hold, release, prune and the list, as an operator uses them."""

import fcntl
import json

import pytest

from maint.cli.backup import commands
from maint.lab.create import SITE
from tests.steps.conftest import back_up


@pytest.fixture
def keeping(twice):
    """An operator whose site keeps one backup, and who has two."""
    keep(twice, "keep: {last: 1}", "minimum: 1")
    return twice


def keep(operator, *lines):
    path = operator.lab.folder / "config.yaml"
    text = path.read_text()
    path.write_text(text.replace("    backup:\n", "    backup:\n" + "".join(f"      {line}\n" for line in lines)))


def listed(operator):
    return operator("backup", "list", "-o", "json").json


def ids(operator):
    return [one["id"] for one in listed(operator)["snapshots"]]


def test_without_a_policy_pruning_is_refused(alone):
    said = alone("backup", "prune", "--yes", "-o", "json")
    assert said.code == 5
    assert "no retention policy" in said.error["message"]


def test_a_dry_run_tells_the_reason_for_each_snapshot_and_removes_none(loaded):
    keep(loaded, "keep: {last: 1}", "minimum: 1")
    back_up(loaded)
    old, new = ids(loaded)
    vc = "virtual cluster Default-VC-abc12345"
    told = loaded("backup", "prune", "--dry-run", "-o", "json")
    assert told.code == 0
    assert told.json["snapshots"] == [
        {"id": old, "keep": False, "reasons": ["no rule keeps it"]},
        {
            "id": new,
            "keep": True,
            "reasons": [
                "last 1 of 1",
                "minimum 1 of 1",
                f"the newest that holds {vc}",
                f"the newest that holds {vc} whole",
            ],
        },
    ]
    assert ids(loaded) == [old, new]


def test_pruning_asks_first(keeping):
    before = ids(keeping)
    said = keeping("backup", "prune", given="")
    assert (said.code, "--yes" in said.err) == (5, True)
    assert ids(keeping) == before


@pytest.mark.parametrize("answer", [("--yes",), ()], ids=["flag", "piped"])
def test_pruning_removes_what_nothing_keeps_and_a_second_time_nothing(keeping, answer):
    _, new = ids(keeping)
    assert keeping("backup", "prune", *answer, given="" if answer else "y\n").code == 0
    assert ids(keeping) == [new]
    again = keeping("backup", "prune", "-o", "json")
    assert again.code == 0
    assert again.json["actions"][0]["outcome"] == "unchanged"


def test_what_is_held_stays_until_it_is_released(keeping):
    old, new = ids(keeping)
    assert keeping("backup", "hold", old, "--reason", "before the upgrade").code == 0
    (hold,) = listed(keeping)["snapshots"][0]["holds"]
    assert (hold["reason"], hold["until"]) == ("before the upgrade", None)
    assert "before the upgrade" in keeping("backup", "list").out
    assert keeping("backup", "prune", "--yes").code == 0
    assert ids(keeping) == [old, new]
    assert keeping("backup", "release", old, "--reason", "the upgrade went well").code == 0
    assert listed(keeping)["snapshots"][0]["holds"] == []
    assert keeping("backup", "prune", "--yes").code == 0
    assert ids(keeping) == [new]


def test_a_hold_twice_is_one_hold(keeping):
    old = ids(keeping)[0]
    for outcome in ("done", "unchanged"):
        said = keeping("backup", "hold", old, "--reason", "audit", "--until", "2999-12-31", "-o", "json")
        assert said.json["actions"][0]["outcome"] == outcome
    assert len(listed(keeping)["snapshots"][0]["holds"]) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--reason", "x", "--until", "tomorrow"), 2),
        (("--reason", "x", "--until", "2020-01-01"), 3),
        (("--reason", "  "), 3),
        ((), 2),
    ],
)
def test_a_hold_without_sense_is_refused(alone, words, code):
    assert alone("backup", "hold", ids(alone)[0], *words).code == code
    assert listed(alone)["snapshots"][0]["holds"] == []


def test_a_dry_run_holds_nothing(alone):
    assert alone("backup", "hold", ids(alone)[0], "--reason", "x", "--dry-run").code == 0
    assert listed(alone)["snapshots"][0]["holds"] == []


def test_the_list_tells_the_age_of_the_last_verified_success(alone):
    found = listed(alone)
    assert found["last_verified"]["id"] == found["snapshots"][0]["id"]
    assert 0 <= found["last_verified"]["age"] < 86_400
    assert found["snapshots"][0]["proven"]["level"] == 3


def test_a_redacted_export_is_no_verified_success(alone):
    before = listed(alone)["last_verified"]["id"]
    assert alone("backup", "create").code == 7
    assert listed(alone)["last_verified"]["id"] == before


def test_while_another_run_is_at_work_a_scheduled_one_leaves_with_6_and_the_age_is_told(alone):
    with (alone.state / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert alone("backup", "create", "--yes", given="").code == 6
        assert listed(alone)["last_verified"]["id"] == ids(alone)[0]


def test_pruning_waits_for_a_restore_that_was_killed(keeping):
    runs = keeping.state / "runs"
    line = json.loads(sorted(runs.glob("*.jsonl"))[0].read_text().splitlines()[0])
    line["plan"]["actions"][0] |= {"kind": "deployment.put", "arguments": {"snapshot": ids(keeping)[0]}}
    line["id"] = line["of"] = "29991231T000000.000Z-0000"
    del line["sum"], line["format"]  # as version 0.1.0 wrote it
    (runs / f"{line['id']}.jsonl").write_text(json.dumps(line) + "\n")
    for words in (("--dry-run",), ("--yes",)):
        said = keeping("backup", "prune", *words, "-o", "json")
        assert said.code == 5
        assert line["id"] in said.error["message"]
    assert keeping("backup", "prune", "--yes", "--thaw", "that server is scrap").code == 0
    assert len(ids(keeping)) == 1


def test_the_list_is_made_anew_from_the_objects_alone(alone):
    keep(alone, "keep: {last: 1}", "minimum: 1")
    back_up(alone)  # by this machine, into this store
    before = listed(alone)
    alone("backup", "hold", before["snapshots"][0]["id"], "--reason", "audit")
    records = alone.lab.folder / "backups" / SITE / "records"
    for path in records.glob("*-verify-*"):
        path.unlink()
    assert listed(alone)["last_verified"] is None
    assert "is lost: see `maint backup list --rebuild`" in alone("doctor").out
    assert (refused := alone("backup", "prune", "--dry-run")).code == 5 and "has lost" in refused.err
    said = alone("backup", "list", "--rebuild", "-o", "json")
    assert said.code == 0 and "has lost" in said.err
    assert "is lost" not in alone("doctor").out
    assert said.json["last_verified"]["id"] == before["last_verified"]["id"]
    assert [one["proven"]["level"] for one in said.json["snapshots"]] == [3, 3]
    assert said.json["snapshots"][0]["holds"][0]["reason"] == "audit"


def test_rebuilding_finds_what_was_damaged(keeping):
    old, new = ids(keeping)
    part = keeping.lab.folder / "backups" / SITE / old / "deployment.json.zst.age"
    part.write_bytes(part.read_bytes()[:-1])
    said = keeping("backup", "list", "--rebuild", "-o", "json")
    assert said.code == 1
    assert [one["verified"]["result"] for one in said.json["snapshots"]] == ["failed", "verified"]
    assert said.json["last_verified"]["id"] == new


def test_rebuilding_tells_what_the_store_did_not_give_and_keeps_nothing_of_it(keeping):
    _, new = ids(keeping)
    part = keeping.lab.folder / "backups" / SITE / new / "deployment.json.zst.age"
    part.rename(part.with_name(f".{part.name}"))
    part.symlink_to(part.name)
    said = keeping("backup", "list", "--rebuild")
    told = [words in said.err for words in ("not verified: level 0 of 3", "could not be read")]
    assert (said.code, told) == (1, [True, True]), said.err
    assert listed(keeping)["last_verified"]["id"] == new


def test_pruning_waits_where_a_journal_can_not_be_read(keeping):
    (keeping.state / "runs" / "29991231T000000.000Z-0000.jsonl").write_text('{"what": "run", "id":\n')
    said = keeping("backup", "prune", "--dry-run")
    assert said.code == 5
    assert "29991231T000000.000Z-0000.jsonl" in said.err
    assert "move the file away" in said.err


def test_a_pruning_that_asks_nobody_goes_on_where_another_machine_stores_meanwhile(keeping, monkeypatch):
    old, new = ids(keeping)
    shown = commands.lines

    def stored_meanwhile(decided):
        back_up(keeping)
        return shown(decided)

    monkeypatch.setattr(commands, "lines", stored_meanwhile)
    said = keeping("backup", "prune", "--yes")
    assert said.code == 0, said.err
    assert not {old, new} & {*ids(keeping)} and len(ids(keeping)) == 1


def test_a_file_of_host_keys_that_cannot_be_read_hinders_no_run_that_asks_no_host(alone):
    path = alone.lab.folder / "config.yaml"
    lines = path.read_text().splitlines()
    too_long = "/".join(["", *["a" * 200] * 25])  # of a path, which even root cannot look for
    changed = [f"{line.partition(':')[0]}: {too_long}" if "known_hosts:" in line else line for line in lines]
    assert changed != lines
    path.write_text("\n".join(changed) + "\n")
    said = alone("backup", "hold", ids(alone)[0], "--reason", "audit")
    assert said.code == 0, said.err
