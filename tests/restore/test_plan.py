"""A restore's plan tells all that matters, and only that very plan is carried out."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from maint.cli.schedule.units import references
from maint.config.schema import BackupSettings, ManagerSettings, SiteSettings
from maint.config.stores import S3Bucket, S3Settings
from maint.lab.create import SITE
from maint.restore.preview import secrets_of
from tests.steps.conftest import back_up
from tests.steps.operator import Operator, Said


def planned(operator: Operator, *words: str) -> Any:
    said = operator("restore", "plan", "-o", "json", "--manager-only", *words)
    assert said.code == 0, said.err
    return said.json


def run(operator: Operator, plan: str, *words: str) -> Said:
    operator.forget_requests()
    return operator("restore", "run", "--confirm", SITE, "--manager-only", "--plan", plan, *words)


def change_rack(operator: Operator, rack: str) -> None:
    """Change the present configuration, as somebody else would."""
    with operator.lab.world.lock:
        operator.lab.world.deployment["hosts"][0]["rackId"] = rack


def stale(said: Said, operator: Operator) -> None:
    assert said.code == 5, said.err
    assert "stale" in said.err
    assert operator.sent == []


def test_the_plan_tells_endpoints_secrets_hosts_snapshot_and_by_meaning_what_would_be_lost_by_reads_alone(loaded):
    said = loaded("restore", "plan", "-o", "json")
    assert said.code == 0, said.err
    plan = said.json
    manager = loaded.lab.status()["manager"]
    assert plan["endpoints"]["serves"] == "tls"
    assert manager["tls"].endswith(f":{plan['endpoints']['tls']['port']}")
    assert plan["endpoints"]["plain"]["state"].startswith("redirects")
    assert {"name": "manager.password", "kind": "file"} in plan["secrets"]
    assert len(plan["hosts"]) == 5
    assert all(host["known"] and host["was"] is None for host in plan["hosts"])
    assert plan["snapshot"]["counts"]["clusters"] == 2
    assert plan["snapshot"]["age_seconds"] >= 0
    assert {"plan", "digest", "fingerprint"} <= plan.keys()
    assert loaded.sent == []
    password = Path(manager["password_file"]).read_text().strip()
    assert password
    assert password not in said.out + said.err
    for user in loaded.lab.world.deployment["users"]:
        assert str(user.get("pwSalt", "nothing")) not in said.out
        assert str(user.get("pwHash", "nothing")) not in said.out
    assert any("Kerberos credentials" in words for words in plan["uncovered"])
    change_rack(loaded, "/elsewhere")
    with loaded.lab.world.lock:
        loaded.lab.world.deployment["hosts"] += [
            {"hostId": f"h-{n}", "hostname": f"n{n}.example.internal", "ipAddress": f"192.0.2.{n + 80}"}
            for n in range(30)
        ]
    lost = planned(loaded)["lost"]  # all of it to programs
    assert (lost["counts"]["removed"], lost["counts"]["changed"], lost["counts"]["added"]) == (30, 1, 0)
    assert lost["counts"]["not_comparable"] == len(lost["not_comparable"]) > 0
    paths = {one["path"]: (one["before"], one["after"]) for one in lost["differences"]}
    assert paths["hosts/h-29"][1] is None
    assert "/elsewhere" in [before for before, _ in paths.values()]
    text = loaded("restore", "plan").out  # twenty differences to people
    assert "30 places lost, 1 changed" in text
    assert text.count("→ nothing") == 20 and "/rackId" not in text  # what would go comes first
    assert "and 11 more" in text
    assert "Kerberos credentials" in text  # which the snapshot does not cover
    path = loaded.lab.folder / "backups" / SITE / plan["snapshot"]["id"] / "manifest.json"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")  # damaged
    for verb in ("plan", "run"):
        said = loaded("restore", verb, "--snapshot", plan["snapshot"]["id"], "--confirm", SITE)
        assert said.code == 5, said.err
        assert "manifest cannot be believed" in said.err
    assert loaded.sent == []


def test_the_plan_names_the_keys_of_a_store_of_s3_with_the_secrets_that_are_asked_for():
    buckets = (S3Bucket(name="offsite", access_key="file:/etc/maint/offsite"),)
    for place, named in {
        "/srv/maint": [],
        "s3://near/maint": [("backup.s3.access_key", "env"), ("backup.s3.secret_key", "env")],
        "s3://offsite": [
            ("backup.s3.buckets.offsite.access_key", "file"),
            ("backup.s3.secret_key", "env"),
        ],
    }.items():
        backup = BackupSettings(store=place, s3=S3Settings(buckets=buckets))
        manager = ManagerSettings(host="cm.example.internal", password="env:X")
        settings = SiteSettings.model_construct(name="prod", manager=manager, backup=backup)
        assert [one for one in secrets_of(settings) if ".s3." in one[0]] == named


def test_a_shared_state_s_own_secrets_are_asked_for_by_a_restore_and_by_what_is_scheduled():
    settings = SiteSettings.model_construct(
        name="prod",
        manager=ManagerSettings(host="cm.example.internal", password="env:X"),
        backup=BackupSettings(store="/srv/maint"),
        shared_state="s3://maint/state",
        shared_state_key="file:/etc/maint/shared",
    )
    wanted = {"shared_state_key", "backup.s3.access_key", "backup.s3.secret_key"}
    assert wanted <= {name for name, _ in secrets_of(settings)}
    assert wanted <= references(settings).keys()


def test_a_plan_is_the_same_where_something_changes_by_itself_and_stale_with_other_flags_a_changed_server_or_snapshot(
    loaded,
):
    first = planned(loaded)
    digest = first["digest"]
    with loaded.lab.world.lock:
        document = loaded.lab.world.deployment
        document["hosts"].reverse()
        for item in document["managerSettings"]["items"]:
            if item["name"] == "CLUSTER_STATS_START":
                item["value"] = "10/23/2012 10:30"
    assert planned(loaded, "--snapshot", first["snapshot"]["id"])["digest"] == digest
    stale(run(loaded, digest, "--open-window"), loaded)
    other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    said = run(loaded, other)
    stale(said, loaded)
    assert f"it had {other}, now it would be {digest}" in said.err  # told whole where they begin alike
    change_rack(loaded, "/elsewhere")
    stale(run(loaded, digest), loaded)
    change_rack(loaded, "/default")
    back_up(loaded)
    stale(run(loaded, digest), loaded)


def test_whatever_plan_passes_a_damaged_newer_snapshot_over_says_so(loaded: Operator) -> None:
    operator = loaded
    back_up(operator)
    listed = operator("backup", "list", "-o", "json").json["snapshots"]
    older, newer = listed[0]["id"], listed[1]["id"]
    part = operator.lab.folder / "backups" / SITE / newer / "deployment.json.zst.age"
    *kept, last = part.read_bytes()
    part.write_bytes(bytes([*kept, last ^ 1]))
    assert operator("backup", "verify").code == 1
    told = f"a NEWER one is passed over: {newer}: its verification failed"
    for words in (
        ("playbook", "plan", "restore-deployment"),
        ("restore", "plan", "--manager-only"),
        ("restore", "config", "--service", "hdfs", "--dry-run"),
        ("vc", "restore", "--on-conflict", "skip", "--dry-run"),
    ):
        said = operator(*words, "-o", "json")
        assert said.code == 0, said.err
        summaries = [action["summary"] for action in said.json["plan"]["actions"]]
        assert [one for one in summaries if older in one and told in one], summaries
    actions = operator("playbook", "plan", "disaster-recovery", "-o", "json").json["plan"]["actions"]
    assert [told in one["summary"] for one in actions if one["kind"] == "vc.find"] == [True]
    assert told in operator("backup", "drill", "--dry-run").err
    assert told not in operator("backup", "drill", older, "--dry-run").err


def test_each_step_that_reads_a_snapshot_names_the_manifest_that_it_was_planned_from(lost: Operator):
    said = lost("restore", "plan", "-o", "json")
    assert said.code == 0, said.err
    named = {
        one["kind"]
        for one in said.json["plan"]["actions"]
        if re.fullmatch("[0-9a-f]{64}", one["facts"].get("manifest", ""))
    }
    assert named == {
        "restore.ready", "license.upload", "deployment.put", "hostfiles.restore", "tls.verify", "truststore.check",
        "deployment.compare", "vc.find", "vc.recover",
    }  # fmt: skip


def test_on_a_new_machine_a_plan_names_a_newer_snapshot_that_is_gone_without_a_record(loaded):
    back_up(loaded)
    (older, newer) = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]][-2:]
    shutil.rmtree(loaded.lab.folder / "backups" / SITE / newer)
    for path in loaded.state.iterdir():
        if path.name != "keys":  # what a new machine is given
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    told = f"a NEWER one is passed over: {newer}: it is gone, and no signed record says that it was removed"
    first = loaded("restore", "plan", "--manager-only", "-o", "json").json["plan"]["actions"][0]["summary"]
    assert older in first and told in first
    assert loaded("backup", "hold", older, "--reason", "so").code == 0
    config = Path(loaded.config)
    config.write_text(
        config.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 1}\n      minimum: 1\n")
    )
    for _ in range(2):
        back_up(loaded)
    assert loaded("backup", "prune", "--yes").code == 0
    assert len(loaded("backup", "list", "-o", "json").json["snapshots"]) == 2
    first = planned(loaded, "--snapshot", older)["plan"]["actions"][0]["summary"]
    assert first.count("NEWER") == 1 and told in first  # what was pruned has its record


def test_onto_other_machines_by_a_plan_that_is_saved_too_taken_up_again_and_with_nothing_left_in_plain(lost, tmp_path):
    name, path = [*lost.lab.machines][1], tmp_path / "plan.json"
    moved = f"{name}=new-id:new-02.example.internal:192.0.2.222"
    plan = planned(lost, "--map-host", moved)
    changed = [host for host in plan["hosts"] if host["was"]]
    assert [(host["was"], host["name"], host["id"]) for host in changed] == [
        (name, "new-02.example.internal", "new-id")
    ]
    assert all(name not in str(change) for change in plan["unmapped"])
    path.write_text(json.dumps(plan))
    said = run(lost, str(path), "--dry-run")  # needs no flags
    assert said.code == 0 and "new-02.example.internal" in said.out, said.err
    lost.lab.break_("restore", "put-fails")
    assert (run(lost, plan["digest"], "--map-host", moved).code, lost.puts) == (1, 1)
    lost.lab.repair()
    said = lost("playbook", "resume")
    assert said.code == 0, said.err
    assert lost.run_of(said)["state"] == "done"
    assert "new-id" in [host["hostId"] for host in lost.lab.world.deployment["hosts"]]
    names = [host["hostname"] for host in lost.lab.world.deployment["hosts"]]
    assert "new-02.example.internal" in names
    assert name not in names
    hashes = [user["pwHash"].encode() for user in lost.lab.world.deployment["users"] if "pwHash" in user]
    assert hashes
    files = [
        path for folder in (lost.state, lost.lab.folder / "backups") for path in folder.rglob("*") if path.is_file()
    ]
    assert not [path for path in files if any(one in path.read_bytes() for one in hashes)]


def test_a_host_that_the_manager_knows_under_another_id_is_named_with_the_mapping_that_keeps_it_one(lost):
    name = lost.lab.manager_host
    with lost.lab.world.lock:  # its agent was installed anew, and has reported
        again = {"hostId": "new-id", "hostname": name, "ipAddress": "192.0.2.222", "rackId": "/default"}
        lost.lab.world.deployment["hosts"] = [again]
    plan, shown = planned(lost), lost("restore", "plan").out
    (known,) = [one for one in plan["hosts"] if one["known_as"]]
    assert (known["name"], known["known_as"], known["id"] == "new-id") == (name, "new-id", False)
    assert f"under another id: {name}" in shown and f"--map-host {name}=new-id" in shown
    assert name not in next(line for line in shown.splitlines() if "not known to the manager yet" in line)
    mapped = planned(lost, "--map-host", f"{name}=new-id")
    assert not [one for one in mapped["hosts"] if one["known_as"]]
    assert not [one for one in mapped["unmapped"] if "_host" in str(one)]  # which name it still, and rightly so
