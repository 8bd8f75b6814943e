"""Doctor finds what stands in the way, says so in one line each, and changes nothing."""

import fcntl
import json
import os
import re
import shutil
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from maint.adapters.clock import SystemClock
from maint.adapters.seal import AgeSeal
from maint.adapters.stores.local import LocalStore
from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.cli.schedule.units import references, references_by_hand
from maint.cli.site import doctor, doctor_lines
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.sample import sample
from maint.engine.lease import Lease, Terms
from maint.engine.lock import site_lock, works_on
from maint.retry import answering
from tests.cli.conftest import only_the_manager
from tests.steps.conftest import PASSWORD, back_up
from tests.steps.operator import SITE


def checks(said):
    """Return the lines by their label."""
    return {one["label"]: one for one in said.json["checks"]}


def states(said):
    return {label: one["state"] for label, one in checks(said).items()}


def snapshot_of(folder):
    """Return every file below a folder with its content."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_each_host_and_each_virtual_cluster_of_a_sound_site_is_tried_and_nothing_fails_or_changes(loaded):
    before = snapshot_of(loaded.lab.folder / "state"), snapshot_of(loaded.lab.folder / "backups")
    said = loaded("doctor", "-o", "json")
    assert said.code == 7, said.out  # nobody has rehearsed a restore yet
    assert [label for label, state in states(said).items() if state == "FAIL"] == []
    assert states(said)["drill"] == "warn"
    assert "let us in over SSH" in checks(said)["hosts"]["words"]
    (cluster,) = [one for label, one in checks(said).items() if label.startswith("virtual cluster ")]
    assert (cluster["state"], "lets" in cluster["words"]) == ("ok", True)
    assert "opens /var" in checks(said)["truststore"]["words"]
    assert PASSWORD not in said.out
    assert (snapshot_of(loaded.lab.folder / "state"), snapshot_of(loaded.lab.folder / "backups")) == before


def test_a_table_has_a_line_for_each_and_an_old_backup_is_a_warning(alone):
    told = alone("doctor", "--max-age", "0s").out.splitlines()
    assert told[0].split() == ["WHAT", "STATE", "SEEN"]
    assert any(line.startswith("lock") and " ok " in line for line in told)
    assert any(line.startswith("backup") and " warn " in line for line in told)


def test_a_file_of_metrics_whose_name_no_collector_looks_for_is_a_warning(alone):
    path = alone.lab.folder / "config.yaml"
    text = path.read_text()
    for name, told in (("maint.prom", False), ("maint.txt", True)):
        path.write_text(text.replace("    backup:\n", f"    metrics: {name}\n    backup:\n", 1))
        found = checks(alone("doctor", "-o", "json"))
        assert ("metrics" in found) is told, name
    assert (found["metrics"]["state"], "maint.txt" in found["metrics"]["words"]) == ("warn", True)


def test_a_config_with_a_mistake_is_the_first_thing_told(alone):
    path = alone.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("manager:", "manger:", 1))
    said = alone("doctor", "-o", "json")
    assert said.code == 1
    assert list(states(said).items()) == [("config", "FAIL")]


def test_a_state_folder_that_others_can_read_is_told_with_what_can_be_typed(alone, tmp_path):
    shutil.copytree(alone.state.parent, tmp_path / "my state")
    key = tmp_path / "my state/lab/keys/signing"
    (tmp_path / "my state/lab").chmod(0o755)
    key.chmod(0o644)
    found = checks(alone("doctor", "-o", "json", MAINT_STATE=str(tmp_path / "my state")))
    assert found["state"]["hint"] == f"chmod 700 '{tmp_path}/my state/lab'"
    assert found["keys"]["hint"] == f"chmod 600 '{key}'"


def test_a_config_that_anybody_may_write_fails(alone):
    folder = alone.lab.folder
    (folder / "sites.d").mkdir(mode=0o700)
    (folder / "sites.d/more.yaml").write_text("sites: {}\n")
    (folder / "sites.d/more.yaml").chmod(0o660)
    for name, sound, loose in (
        ("config.yaml", 0o600, 0o666),
        ("sites.d", 0o700, 0o777),
        ("sites.d/more.yaml", 0o660, 0o662),
        (".", 0o700, 0o703),
    ):
        (folder / name).chmod(loose)
        said = alone("doctor", "-o", "json")
        (folder / name).chmod(sound)
        assert (said.code, checks(said)["config open"]["state"]) == (1, "FAIL"), name
        assert checks(said)["config open"]["hint"] == f"chmod o-w {folder / name}"
    folder.chmod(0o1777)
    told = states(alone("doctor", "-o", "json"))
    folder.chmod(0o700)
    assert told["config"] == "ok" and "config open" not in told


def test_who_holds_the_lease_is_told_and_only_where_a_state_is_shared(alone):
    assert "lease" not in states(alone("doctor", "-o", "json"))
    path, shared = alone.lab.folder / "config.yaml", alone.lab.folder / "shared"
    path.write_text(path.read_text().replace("    backup:\n", "    shared_state: shared\n    backup:\n"))
    assert checks(alone("doctor", "-o", "json"))["lease"]["words"].endswith("free")
    assert not shared.exists()
    held = Lease(LocalStore(shared), "lab", SystemClock(), "elsewhere", "playbook restore", Terms(beat=0.0))
    list(held.take())
    held.renew("stop cluster c1")
    line = checks(alone("doctor", "-o", "json"))["lease"]
    assert line["state"] == "warn"
    assert "playbook restore (stop cluster c1), renewed at" in line["words"]
    assert "playbook restore" in json.loads(alone("site", "status", "-o", "json").out)["lease"]
    refused = alone("backup", "create", "--yes")
    assert (refused.code, "playbook restore" in refused.err) == (6, True)
    held.give_back()


def test_a_shared_state_that_is_not_mounted_is_not_told_as_free(alone):
    path, shared = alone.lab.folder / "config.yaml", alone.lab.folder / "shared"
    path.write_text(path.read_text().replace("    backup:\n", "    shared_state: shared\n    backup:\n"))
    back_up(alone)
    assert json.loads(alone("site", "status", "-o", "json").out)["lease"] == "free"
    shared.rename(shared.with_name("elsewhere"))
    said = alone("site", "status", "-o", "json")
    assert said.code == 0
    assert "is empty, or not the one that this machine has worked with" in json.loads(said.out)["lease"]


def test_a_shared_state_that_can_hold_no_lease_fails_with_why_and_a_dry_run_writes_nothing(alone, httpserver):
    page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    httpserver.expect_request("/states", method="GET").respond_with_data(page, content_type="application/xml")
    httpserver.expect_request(re.compile("/.*"), method="HEAD").respond_with_data(status=404)
    httpserver.expect_request(re.compile("/.*")).respond_with_data("")  # it overwrites what is there
    path, service = alone.lab.folder / "config.yaml", httpserver.url_for("").rstrip("/")
    key = f"file:{path.parent}/secret"
    s3 = f"      s3: {{endpoint: '{service}', access_key: '{key}', secret_key: '{key}'}}\n"
    (path.parent / "secret").write_text("secret")
    (path.parent / "secret").chmod(0o600)
    path.write_text(path.read_text().replace("    backup:\n", f"    shared_state: s3://states/x\n    backup:\n{s3}", 1))
    line = checks(alone("doctor", "-o", "json"))["lease"]
    assert (line["state"], "ignores the condition If-None-Match" in line["words"]) == ("FAIL", True)
    assert "honours conditional writes" in line["hint"]
    assert httpserver.log[-1][0].method == "DELETE"
    httpserver.clear_log()
    assert states(alone("doctor", "--dry-run", "-o", "json"))["lease"] == "ok"
    assert {request.method for request, _ in httpserver.log} == {"GET"}


def test_a_held_lock_is_told(alone):
    with (alone.state / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(json.dumps({"user": "ops", "host": "h", "pid": 1, "since": "now", "doing": "backup"}))
        lock.flush()
        line = checks(alone("doctor", "-o", "json"))["lock"]
    assert (line["state"], "ops@h" in line["words"]) == ("warn", True)


def test_a_lock_that_cannot_be_opened_fails(alone):
    (alone.state / "lock").unlink()
    (alone.state / "lock").symlink_to("lock")
    line = checks(alone("doctor", "-o", "json"))["lock"]
    assert (line["state"], "cannot be opened" in line["words"]) == ("FAIL", True)


def test_what_keeps_a_backup_from_beginning_for_want_of_room_is_told_before_it_begins(alone, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=20_000_000))
    found = checks(alone("doctor", "-o", "json"))
    assert (found["state"]["state"], found["store"]["state"]) == ("FAIL", "FAIL")
    assert f"{alone.state} has 20.0 MB free, and 33.6 MB may be needed" in str(found["state"])
    said = alone("backup", "create", "--open-window", "--yes")
    assert (said.code, f"{alone.state} has 20.0 MB free" in said.err) == (5, True), said.err


def test_a_store_that_has_room_for_the_next_backup_and_hardly_for_another_is_warned_of(alone, monkeypatch):
    usage, large = shutil.disk_usage("/"), 50_000_000
    monkeypatch.setattr("maint.snapshots.capture.largest", lambda sight: large)
    monkeypatch.setattr("maint.cli.site.doctor_backups.largest", lambda sight: large)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2 * large))
    found = checks(alone("doctor", "-o", "json"))
    assert (found["state"]["state"], found["store"]["state"]) == ("ok", "warn")


def test_a_disk_that_takes_hardly_a_file_more_is_told_before_a_backup_begins(alone, monkeypatch):
    real = os.statvfs("/")
    usual = {name: getattr(real, name) for name in dir(real) if name.startswith("f_")}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(**usual | {"f_files": 1000, "f_favail": 9}))
    found = checks(alone("doctor", "-o", "json"))
    assert (found["state"]["state"], found["store"]["state"]) == ("FAIL", "FAIL")
    said = alone("backup", "create", "--open-window", "--yes")
    assert (said.code, f"the disk of {alone.state} takes 9 more files (inodes)" in said.err) == (5, True), said.err
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(**usual | {"f_files": 0, "f_favail": 0})
    )  # as btrfs counts them
    assert checks(alone("doctor", "-o", "json"))["state"]["state"] == "ok"


def test_hosts_that_the_whole_machine_knows_are_trusted(loaded, tmp_path, monkeypatch):
    config, own = loaded.lab.folder / "config.yaml", loaded.lab.folder / "ssh/known_hosts"
    config.write_text(re.sub(r".*known_hosts:.*\n", "", config.read_text()))
    monkeypatch.setattr("maint.config.schema.SYSTEM_KNOWN_HOSTS", own, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    line = checks(loaded("doctor", "-o", "json"))["known hosts"]
    assert (line["state"], line["words"]) == ("ok", str(own))


def test_a_manager_that_is_down_fails_and_the_store_is_told(alone):
    alone.lab.stop()
    said = alone("doctor", "-o", "json")
    assert said.code == 1
    assert "FAIL" in (states(said)["manager"], states(said).get("login"))
    assert states(said)["store"] == "ok"


def test_a_manager_that_was_upgraded_since_its_newest_backup_is_a_warning(alone):
    assert "release" not in checks(alone("doctor", "-o", "json"))
    with alone.lab.world.lock:
        alone.lab.world.deployment["versionInfo"]["version"] = "7.11.3"
    line = checks(alone("doctor", "-o", "json"))["release"]
    assert (line["state"], line["hint"]) == ("warn", "maint backup create --open-window")
    assert "would not come back on it: the server is release 7.11.3, the snapshot 7.6.5" in line["words"]


def test_without_any_backup_it_fails_and_the_command_to_copy_stays_in_a_piece_however_narrow_the_terminal(alone):
    shutil.rmtree(alone.lab.folder / "backups")
    said = alone("doctor", COLUMNS="72")
    assert (said.code, re.findall("(?m)^backup +FAIL ", said.out) != []) == (1, True), said.out
    assert "`maint backup create --open-window`" in said.out


def test_a_newest_backup_that_holds_much_less_than_those_before_is_a_warning(alone):
    with alone.lab.world.lock:
        alone.lab.world.deployment["clusters"] = []
    assert alone("backup", "create").code == 7  # the server redacts
    line = checks(alone("doctor", "-o", "json"))["backup"]
    assert (line["state"], "holds 0 clusters, and" in line["words"]) == ("warn", True)


def test_a_window_that_was_left_open_fails_and_the_command_that_closes_it_is_named(alone):
    window = {"run": "20261121T000000.000Z-0000", "opened_at": "2026-11-21T00:00:00Z", "hosts": {}}
    (alone.state / "window.json").write_text(json.dumps(window))
    with site_lock(alone.state, SITE, "backup verify", SystemClock()):
        line = checks(alone("doctor", "-o", "json"))["redaction window"]
        works_on(alone.state, str(window["run"]))
        assert checks(alone("doctor", "-o", "json"))["redaction window"]["state"] == "warn"
    assert (line["state"], line["hint"]) == ("FAIL", "maint manager export --close-window")


def test_of_several_sites_each_command_to_type_says_of_which_it_is(alone):
    path = alone.lab.folder / "config.yaml"
    path.write_text(path.read_text() + "  other: {manager: {host: cm2, password: prompt}}\n")
    window = {"run": "20261121T000000.000Z-0000", "opened_at": "2026-11-21T00:00:00Z", "hosts": {}}
    (alone.state / "window.json").write_text(json.dumps(window))
    line = checks(alone("doctor", "--site", SITE, "-o", "json"))["redaction window"]
    assert line["hint"] == f"maint manager export --close-window --site {SITE}"
    looked = alone("playbook", "history", "--site", SITE)
    assert f"`maint manager export --close-window --site {SITE}` closes it" in looked.err


def test_a_window_that_another_machine_has_closed_is_told_as_open_by_no_command_that_looks(with_its_host):
    assert with_its_host("backup", "create", "--open-window", "--yes").code == 0
    *_, path = sorted(
        (with_its_host.lab.folder / "backups").glob("*/records/*-window-*.json")
    )  # the last one closed it
    said = json.loads(path.read_text())
    window = {"run": said["snapshot"], "opened_at": said["facts"]["opened_at"], "hosts": {}}
    (with_its_host.state / "window.json").write_text(json.dumps(window))  # as a machine has it that died meanwhile
    assert checks(with_its_host("doctor", "-o", "json"))["redaction window"]["words"] == "closed"
    assert with_its_host("site", "status", "-o", "json").json["redaction_window"] == "closed"
    assert "left the redaction window open" not in with_its_host("playbook", "history").err
    path.rename(path.with_suffix(".away"))
    assert "left the redaction window open" in with_its_host("playbook", "history").err


def test_a_key_of_the_shared_state_that_is_none_is_named_by_doctor_and_by_the_run(alone):
    path, key = alone.lab.folder / "config.yaml", alone.lab.folder / "shared-key"
    key.write_text("age1public")
    key.chmod(0o600)
    shared = f"    shared_state: shared\n    shared_state_key: file:{key}\n"
    path.write_text(path.read_text().replace("    backup:\n", f"{shared}    backup:\n"))
    line = checks(alone("doctor", "-o", "json"))["secret shared_state_key"]
    assert (line["state"], f"shared_state_key, file:{key}: this is not" in line["words"]) == ("FAIL", True)
    said = alone("backup", "create", "--yes")
    assert said.code == 3 and f"shared_state_key, file:{key}: this is not" in said.err


def test_a_key_of_fingerprints_that_waits_in_the_shared_state_is_not_said_to_be_lost(alone):
    path, key = alone.lab.folder / "config.yaml", alone.lab.folder / "shared-key"
    key.write_text(AgeSeal().new_identity()[0].reveal())
    key.chmod(0o600)
    shared = f"    shared_state: shared\n    shared_state_key: file:{key}\n"
    path.write_text(path.read_text().replace("    backup:\n", f"{shared}    backup:\n"))
    own = alone.state / "keys/fingerprint"
    kept = own.rename(alone.lab.folder / "kept")  # as on a machine that has not worked on the site yet
    assert "there is no fingerprint key" in checks(alone("doctor", "-o", "json"))["keys"]["words"]
    kept.rename(own)
    assert alone("backup", "create").code == 7  # audit-only
    content = own.read_bytes()
    own.unlink()
    line = checks(alone("doctor", "-o", "json"))["keys"]
    assert (line["state"], own.exists()) == ("ok", False), line
    assert alone("backup", "create").code == 7
    assert own.read_bytes() == content


def test_a_run_that_was_killed_is_told_with_the_way_on(alone):
    journal = sorted((alone.state / "runs").glob("*.jsonl"))[0]
    journal.write_text(journal.read_text().splitlines()[0] + "\n")
    with site_lock(alone.state, SITE, "backup verify", SystemClock()):
        line = checks(alone("doctor", "-o", "json"))["runs"]
        works_on(alone.state, journal.stem)
        assert checks(alone("doctor", "-o", "json"))["runs"]["state"] == "ok"
    assert (line["state"], line["hint"]) == ("warn", f"maint playbook resume {journal.stem}")


@pytest.mark.parametrize("flag", ["--max-age", "--drill-age"])
def test_an_age_that_is_no_duration_is_wrong_usage(alone, flag):
    assert alone("doctor", flag, "soon").code == 2


def test_a_store_that_hides_the_only_restorable_snapshot_below_a_newer_one_fails_here_and_before_a_restore(redacted):
    hidden, _ = [one["id"] for one in redacted("backup", "list", "-o", "json").json["snapshots"]]
    assert redacted("backup", "verify", hidden).code == 0
    store = redacted.lab.folder / "backups" / SITE
    shutil.rmtree(store / hidden)
    for path in (store / "records").glob(f"*{hidden}*"):
        path.unlink()
    said = redacted("doctor", "-o", "json")
    line = checks(said)["store"]
    assert (line["state"], f"{hidden}, which this machine has verified" in line["words"]) == ("FAIL", True), line
    said = redacted("restore", "plan", "-o", "json")
    assert (said.code, hidden in said.error["message"]) == (5, True), said.err
    told = redacted("backup", "list", "--rebuild").err  # it is lost for good
    assert "1 snapshot that this machine has verified" in told
    assert hidden in told
    assert states(redacted("doctor", "-o", "json"))["store"] == "ok"
    assert "1 snapshot" not in redacted("backup", "list", "--rebuild").err
    assert "no restorable snapshot" in redacted("restore", "plan").err


def test_a_damaged_snapshot_and_a_copy_that_cannot_be_read_fail_each_on_its_own_line(alone):
    path = alone.lab.folder / "config.yaml"
    (alone.lab.folder / "in-the-way").write_text("no folder")
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      copies: [in-the-way]\n"))
    (manifest,) = (alone.lab.folder / "backups").glob("*/*/manifest.json")
    manifest.write_text("{}")
    lines = alone("doctor", "-o", "json").json["checks"]
    failed = [one["label"].split()[0] for one in lines if one["state"] == "FAIL"]
    assert sorted(failed) == ["backup", "copy", "snapshots"]


def test_an_empty_key_file_is_no_key(alone):
    key = next(path for path in (alone.state / "keys").iterdir() if path.suffix != ".pub")
    kept = key.read_bytes()
    key.write_bytes(b"")
    key.chmod(0o644)
    said = alone("doctor")
    key.write_bytes(kept)
    assert said.code == 1
    assert f"{key} is empty" in said.out and f"{key} can be read by others" in said.out


def test_keys_that_are_configured_are_not_said_to_come_with_the_first_backup(alone):
    config, keys = alone.lab.folder / "config.yaml", alone.lab.folder / "kept"
    (alone.state / "keys").rename(keys)
    text = re.sub(r"(?m)^ +key: .*id_ed25519.*\n", "", config.read_text())
    for name, told in (("signing", "there is no fingerprint key, though the store"), ("fingerprint", "as configured")):
        text = text.replace("    backup:\n", f"    backup:\n      {name}_key: 'file:{keys / name}'\n")
        config.write_text(text)
        assert told in checks(alone("doctor", "-o", "json"))["keys"]["words"]


def test_a_key_that_is_none_fails_under_its_own_name_and_all_else_names_that(alone):
    (alone.state / "keys/signing").write_text("a word\n")
    said = alone("doctor", "-o", "json")
    assert (said.code, states(said)["keys"]) == (1, "FAIL")
    assert "keys/signing is not a usable private key" in checks(said)["keys"]["words"]
    assert checks(said)["snapshots"]["words"] == "cannot be told, for the reason of `keys`"


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_journal_is_no_finished_run(alone, number):
    journal = sorted((alone.state / "runs").glob("*.jsonl"))[0]
    lines = journal.read_text().splitlines(keepends=True)
    lines[number] = lines[number].replace("{", "[", 1)
    journal.write_text("".join(lines))
    line = checks(alone("doctor", "-o", "json"))["runs"]
    assert (line["state"], journal.stem in line["words"], "look at the server" in line["hint"]) == ("FAIL", True, True)


def test_a_run_that_an_older_version_began_is_not_said_to_be_taken_up(alone):
    alone.lab.break_("commands", "command-rejected")
    assert alone("cluster", "stop", "base", "--yes").code == 1
    journal = sorted((alone.state / "runs").glob("*.jsonl"))[-1]
    old = [json.loads(line) for line in journal.read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key not in ("sum", "format", "version")} for line in old]
    journal.write_text("".join(json.dumps(line) + "\n" for line in kept))
    line = checks(alone("doctor", "-o", "json"))["runs"]
    assert (line["state"], "was begun by maint 0.1.0" in line["words"]) == ("FAIL", True), line
    assert f"maint playbook dismiss {journal.stem}" in line["hint"] and "resume" not in line["hint"]


def test_redaction_that_somebody_switched_off_by_hand_is_no_closed_window(with_its_host):
    assert checks(with_its_host("doctor", "-o", "json"))["redaction window"]["words"] == "closed"
    with_its_host.options.write_bytes(b'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n')
    line = checks(with_its_host("doctor", "-o", "json"))["redaction window"]
    assert (line["state"], "counts from the next start" in line["words"]) == ("warn", True)
    with_its_host.lab.world.redaction = False
    lines = with_its_host("doctor", "-o", "json").json["checks"]
    assert [one["state"] for one in lines if one["label"] == "redaction window"] == ["warn"]


def test_a_manager_whose_database_is_gone_is_not_well(lost):
    said = lost("doctor", "-o", "json")
    line = checks(said)["manager"]
    assert (said.code, line["state"], "it has no cluster" in line["words"]) == (1, "FAIL", True), line
    assert "maint restore plan" in line["hint"]


def test_what_a_killed_drill_left_in_clear_is_shown(alone, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "maint-drill-1-x"
    left.mkdir(mode=0o700)
    (left / "lock").touch()
    said = alone("doctor")
    assert said.code == 1
    assert str(left) in said.out


def test_an_unknown_snapshot_is_wrong_usage_with_the_nearest_names(alone):
    known = alone("backup", "list", "-o", "json").json["snapshots"][0]["id"]
    said = alone("backup", "show", f"{known[:-1]}!", "-o", "json")
    assert (said.code, said.error["detail"]) == (2, [known])


def test_each_recipient_is_told_with_whether_its_key_opens_the_newest_snapshot(alone):
    config = alone.lab.folder / "config.yaml"
    lines = checks(alone("doctor", "-o", "json"))
    (own,) = [label for label in lines if label.startswith("recipient ")]
    assert (lines[own]["state"], "opens snapshot" in lines[own]["words"]) == ("ok", True)
    recipient = own.removeprefix("recipient ")
    _, other = AgeSeal().new_identity()
    text = config.read_text()
    config.write_text(re.sub(rf'( *)- "{recipient}"', rf'\g<0>\n\1- "{other}"', text, count=1))
    line = checks(alone("doctor", "-o", "json"))[f"recipient {other}"]
    assert (line["state"], "not encrypted for it" in line["words"]) == ("FAIL", True)
    said = alone("backup", "create")
    assert said.code == 7, said.err
    line = checks(alone("doctor", "-o", "json"))[f"recipient {other}"]
    assert (line["state"], "private key is not here" in line["words"]) == ("skip", True)
    drilled = alone("backup", "drill")
    assert (drilled.code, f"WARNING: recipient {other}: snapshot" in drilled.err) == (0, True), drilled.err
    assert f"{own}: its private key opens snapshot" in drilled.err


def test_what_only_a_key_of_former_times_opens_is_told_until_it_is_encrypted_anew(alone):
    config, identity = alone.lab.folder / "config.yaml", alone.lab.folder / "identity"
    (label,) = [one for one in checks(alone("doctor", "-o", "json")) if one.startswith("recipient ")]
    key, former = AgeSeal().new_identity()[0], identity.read_text()
    recipient = AgeSeal().recipient_of(key)
    config.write_text(config.read_text().replace(label.removeprefix("recipient "), recipient))
    identity.write_text(f"{key.reveal()}\n")
    assert alone("backup", "create").code == 7
    told = checks(alone("doctor", "-o", "json"))
    assert (told[label]["state"], told[f"recipient {recipient}"]["state"]) == ("warn", "ok")
    identity.write_text(f"{key.reveal()}\n{former}")  # as the hint says
    (words,) = re.findall(r"`maint ([^`]+)`", told[label]["hint"])
    assert alone(*words.split(), "--yes").code == 0
    identity.write_text(f"{key.reveal()}\n")
    told = checks(alone("doctor", "-o", "json"))
    assert (label in told, told[f"recipient {recipient}"]["state"]) == (False, "ok")


def test_nothing_is_well_and_failed_under_one_name(lost):
    only_the_manager(lost, hosts=1)
    manifest = sorted((lost.lab.folder / "backups").glob("*/*/manifest.json"))[0]
    manifest.write_text("{}")
    lines = lost("doctor", "-o", "json").json["checks"]
    well, failed = ({one["label"] for one in lines if one["state"] == state} for state in ("ok", "FAIL"))
    assert {"manager", "snapshots"} <= failed and not well & failed


def test_a_changed_host_key_and_a_virtual_cluster_that_refuses_are_seen(few):
    known = few.lab.folder / "ssh/known_hosts"
    lines = known.read_text().splitlines(True)
    places, keys = zip(*(line.split(" ", 1) for line in lines), strict=True)
    known.write_text("".join(f"{place} {key}" for place, key in zip(places, keys[1:] + keys[:1], strict=True)))
    few.lab.break_("virtual-cluster", "vc-forbidden")
    found = few("doctor", "-o", "json")
    assert found.code == 1
    said = checks(found)
    assert any(label.startswith("host ") and one["state"] == "FAIL" for label, one in said.items()), found.out
    (cluster,) = [one for label, one in said.items() if label.startswith("virtual cluster ")]
    assert (cluster["state"], "403" in cluster["words"]) == ("FAIL", True)


def test_a_virtual_cluster_that_tells_its_name_and_refuses_its_jobs_is_seen(few, monkeypatch):
    monkeypatch.setattr(VirtualClusterClient, "info", lambda _: {})
    few.lab.break_("virtual-cluster", "vc-forbidden")
    (cluster,) = [one for label, one in checks(few("doctor", "-o", "json")).items() if label.startswith("virtual ")]
    assert (cluster["state"], "403" in cluster["words"]) == ("FAIL", True)


def test_a_reason_is_told_once(alone):
    """What fails for the reason of another line names that line."""
    config = alone.lab.folder / "config.yaml"
    text = config.read_text()
    start = text.index("    backup:\n")
    rest = re.split(r"\n(?=    \w)", text[start:], maxsplit=1)
    config.write_text(text[:start] + (rest[1] if len(rest) > 1 else ""))
    found = checks(alone("doctor", "-o", "json")).values()
    told = [one["words"] for one in found if one["state"] == "FAIL" and "has no `backup:`" in one["words"]]
    assert len(told) == 1
    assert sum("for the reason of `backup`" in one["words"] for one in found) >= 2
    assert alone("doctor").out.count("for the reason of `backup`") == 2, "neighbours that fail alike are one row"


@pytest.mark.parametrize("proxy", ["http://user:secret@proxy.example:3128", "user:secret@proxy.example:3128"])
def test_doctor_says_which_stores_go_through_a_proxy(alone, proxy):
    path = alone.lab.folder / "config.yaml"
    copies = '    backup:\n      copies: ["s3://a", "s3://b"]\n      s3: {endpoint: "https://s3.example.internal", '
    more = 'buckets: [{name: b, endpoint: "https://s3.elsewhere.example"}]}\n'
    path.write_text(path.read_text().replace("    backup:\n", copies + more, 1))
    env = {"https_proxy": proxy, "no_proxy": ".internal", "AWS_ACCESS_KEY_ID": "x"}
    said = alone("doctor", "-o", "json", **env, AWS_SECRET_ACCESS_KEY="y", ALL_PROXY="")
    lines = [one["words"] for one in said.json["checks"] if one["label"] == "proxy"]
    assert lines == ["s3://b goes through proxy.example (HTTPS_PROXY); manager, hosts and virtual clusters do not"], (
        said.err
    )
    assert "secret@" not in said.out + said.err


@pytest.mark.parametrize("lacks", [True, False])
def test_a_copy_whose_disk_is_full_is_not_said_to_be_mended_by_the_next_backup(alone, monkeypatch, lacks):
    path = alone.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      copies: [second]\n"))
    if not lacks:
        assert alone("playbook", "run", "copy", "--yes").code == 0
    place, real = alone.lab.folder / "second", shutil.disk_usage
    place.mkdir(exist_ok=True)
    full = real(place)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full if str(path) == str(place) else real(path))
    (copy,) = [one for label, one in checks(alone("doctor", "-o", "json")).items() if label.startswith("copy ")]
    assert (copy["state"], copy["hint"]) == ("FAIL" if lacks else "warn", "make room, or prune")
    assert "second has 4.1 kB free" in copy["words"]


def test_a_copy_that_was_seen_to_be_damaged_is_no_good_copy(alone):
    path = alone.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      copies: [second]\n"))
    assert alone("playbook", "run", "copy", "--yes").code == 0
    (part,) = (alone.lab.folder / "second").glob("lab/*/deployment.json.zst.age")
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert alone("backup", "verify", "--store", str(part.parents[2])).code == 1
    (copy,) = [one for label, one in checks(alone("doctor", "-o", "json")).items() if label.startswith("copy ")]
    assert (copy["state"], f"not proven to be sound, such as {part.parent.name}" in copy["words"]) == ("warn", True)
    assert "`maint backup create` copies" in copy["hint"]
    (first,) = (one for one in alone.lab.folder.glob(f"*/lab/{part.parent.name}") if one != part.parent)
    shutil.rmtree(first)  # what is not there is not copied from there
    (copy,) = [one for label, one in checks(alone("doctor", "-o", "json")).items() if label.startswith("copy ")]
    assert copy["hint"] == f"maint backup verify {part.parent.name} --store {part.parents[2]}"
    assert f"1 that the first store does not hold, such as {part.parent.name}" in copy["words"]


def test_every_secret_that_a_config_can_name_is_tried(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(re.sub(r"(?m)^( *)# ", r"\1", sample()))
    site = load_settings(ConfigFlags(config=str(path)), {}).site("prod")
    buckets = {"file:/etc/maint/s3-access-key", "file:/etc/maint/s3-secret-key"}  # tried where a store is one
    buckets |= {one.replace("s3-", "offsite-") for one in buckets}

    def named(value):
        """Return the values of all fields that are references, however deep they lie."""
        if isinstance(value, list | tuple | dict):
            return {ref for one in (value.values() if isinstance(value, dict) else value) for ref in named(one)}
        if not isinstance(value, BaseModel):
            return set()
        found = set()
        for name, field in type(value).model_fields.items():
            one = getattr(value, name)
            is_reference = "check_reference" in f"{field.annotation} {field.metadata}" and isinstance(one, str)
            found |= {one} if is_reference else named(one)
        return found

    assert len(named(site)) > 10
    assert named(site) - buckets <= {*references(site).values(), *references_by_hand(site).values()}


def test_a_certificate_of_a_virtual_cluster_that_ends_soon_is_told_with_what_makes_a_new_one(few, monkeypatch):
    label = "virtual cluster Default-VC-abc12345"
    assert checks(few("doctor", "-o", "json"))[label]["state"] == "ok"
    monkeypatch.setattr(doctor, "SOON", timedelta(days=9999))
    line = checks(few("doctor", "-o", "json"))[label]
    assert line["state"] == "warn" and "; the certificate of " in line["words"], line
    assert "maint vc init Default-VC-abc12345" in line["hint"]


def test_a_virtual_cluster_that_takes_its_own_time_leaves_the_others_theirs(few, monkeypatch):
    monkeypatch.setattr(doctor, "within", lambda clock, hint: answering(clock, 0.001, "", hint))
    found = checks(few("doctor", "-o", "json"))
    assert found["virtual cluster Default-VC-abc12345"]["words"] == "no answer within 0.001 s"
    assert "the rest" not in found and found["store"]["state"] == "ok"


@pytest.mark.parametrize(("off", "told"), [(7200, True), (-7200, True), (30, False)])
def test_clocks_of_this_machine_and_of_the_manager_that_differ_by_more_than_a_minute_are_told(
    alone, monkeypatch, off, told
):
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + timedelta(seconds=off))
    line = checks(alone("doctor", "-o", "json")).get("manager's clock")
    assert (line is not None) is told
    if line is not None:
        side = "behind" if off > 0 else "ahead of"
        assert line["state"] == "warn" and f"{side} this machine's" in line["words"], line
        assert "here, or on 127.0.0.1" in line["hint"]


def test_doctor_waits_once_for_a_host_that_hangs_after_its_login_and_names_it(few, monkeypatch):
    for module in (doctor, doctor_lines):
        monkeypatch.setattr(module, "REACH", 2.0)
    host = few.lab.manager_host
    few.lab.break_(host, "hangs-after-login")
    begun = time.monotonic()
    said = few("doctor", "-o", "json")
    assert time.monotonic() - begun < 2 + 15
    lines = {one["label"]: one for one in said.json["checks"]}
    assert (said.code, lines[f"host {host}"]["state"]) == (1, "FAIL")
    assert lines[f"host {host}"]["words"] == "no answer within 2 s to a login and an empty command"
    for label in ("manager's host", "truststore", "redaction window"):
        assert (lines[label]["state"], f"{host} did not answer" in lines[label]["words"]) == ("skip", True)


def test_who_only_looks_makes_no_signing_key_in_place_of_one_that_is_lost(alone):
    keys = alone.state / "keys"
    kept = keys.rename(keys.with_name("kept-elsewhere"))
    for words in (("doctor",), ("backup", "list"), ("site", "status"), ("doctor", "--dry-run"), ("backup", "drift")):
        alone(*words)
        assert not list(keys.glob("*")), words
    line = checks(alone("doctor", "-o", "json"))["keys"]
    kept.rename(keys)
    assert "there is no fingerprint or signing key, though the store holds snapshots" in line["words"]
