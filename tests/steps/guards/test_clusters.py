"""No cluster is stopped or deleted before it is proven that it can come back."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from maint.lab.create import SITE
from tests.steps.conftest import back_up
from tests.steps.operator import Operator, Said, maint

DELETE = "DELETE /api/v45/clusters/ecs-01"
SCRAPPED = """
name: scrap
summary: Delete a cluster.
steps:
  - name: Delete it
    do: cluster.delete
    with: {cluster: ecs-01}
"""


def store(operator: Operator) -> Path:
    return operator.lab.folder / "backups" / SITE


def snapshots(operator: Operator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = operator("backup", "list", "-o", "json").json["snapshots"]
    return found


def purposes(operator: Operator) -> list[str]:
    return [item["purpose"] for item in snapshots(operator)]


def damage(operator: Operator, snapshot: str) -> None:
    """Flip one byte in the middle of the raw part."""
    part = store(operator) / snapshot / "deployment.json.zst.age"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.chmod(0o600)
    part.write_bytes(content)


def delete(operator: Operator, *words: str) -> Said:
    operator.forget_requests()
    return operator("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01", *words)


def refused(said: Said, reason: str) -> None:
    """Assert a refusal with its reason, the meaning of its exit code, and the next step."""
    assert said.code == 5, said.err
    assert reason in said.err
    assert "exit code 5" in said.err
    assert "hint:" in said.err


def test_without_a_backup_or_with_one_audit_only_or_of_virtual_clusters_alone_nothing_is_touched_but_what_is_at_rest(
    loaded,
):
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    shutil.rmtree(store(loaded))
    loaded.forget_requests()
    said = loaded("cluster", "stop", "ecs-01", "--yes")
    assert (said.code, loaded.sent) == (0, []), said.err
    assert loaded("cluster", "start", "ecs-01", "--yes").code == 0
    loaded.forget_requests()
    for verb in ("stop", "delete"):
        refused(loaded("cluster", verb, "ecs-01", "--confirm", "ecs-01", "--yes"), "there is no backup in")
        assert loaded.sent == [], verb
    assert loaded("vc", "backup").code == 0
    refused(delete(loaded), "holds virtual clusters alone")
    assert loaded.sent == []
    assert loaded("backup", "create").code == 7
    said = delete(loaded)
    refused(said, "nothing is destroyed")
    assert ("maint backup create --open-window" in said.err, loaded.sent) == (True, [])


def test_a_backup_that_is_too_old_or_damaged_proves_nothing_to_verbs_nor_to_playbooks_that_require_it_or_name_no_guard(
    loaded, tmp_path
):
    loaded.forget_requests()
    for words in (("stop", "base", "--yes"), ("delete", "base", "--confirm", "base")):
        said = loaded("cluster", *words, "--max-age", "1ms")
        refused(said, "and 0.0s is allowed")
        assert ("maint backup create --open-window" in said.err, loaded.sent) == (True, []), words
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    scrap, require = tmp_path / "scrap.yaml", tmp_path / "require.yaml"
    scrap.write_text(SCRAPPED)
    step = "{name: Proof, do: backup.require, with: {max_age: 24h, cluster: Data Services ECS}}"
    require.write_text(f"name: require\nsummary: Prove.\nsteps:\n  - {step}\n")
    assert maint("playbook", "lint", str(scrap)).code == 0
    assert loaded("playbook", "run", str(require)).code == 0
    loaded.lab.break_("export", "error-500")  # nothing can be kept of the present state
    assert (delete(loaded).code in (1, 4), loaded.sent) == (True, [])
    loaded.lab.repair()
    damage(loaded, snapshots(loaded)[0]["id"])
    refused(delete(loaded), "is not what was stored")
    assert loaded.sent == []
    refused(loaded("playbook", "run", str(require)), "is not proven restorable")
    refused(loaded("playbook", "run", str(scrap), "--confirm", "ecs-01"), "is not proven restorable")
    assert loaded.sent == []
    waived = loaded("playbook", "run", str(scrap), "--confirm", "ecs-01", "--no-safety-net", "scrapped for good")
    assert waived.code == 0, waived.err
    assert loaded.sent == [DELETE]


def test_a_backup_without_the_cluster_proves_nothing_and_an_older_one_with_it_does(loaded):
    older, world = snapshots(loaded)[0]["id"], loaded.lab.world
    with world.lock:
        whole = world.deployment
        base, _ecs = whole["clusters"]
        templates = [one for one in whole["hostTemplates"]["items"] if one["clusterRef"]["clusterName"] == "base"]
        world.deployment = {**whole, "clusters": [base], "hostTemplates": {"items": templates}}
        world.changed()
    back_up(loaded)
    newer = snapshots(loaded)[-1]["id"]
    with world.lock:
        world.deployment = whole
        world.changed()
    planned = delete(loaded, "--dry-run")
    assert f"proven by snapshot {older}" in planned.out
    shutil.rmtree(store(loaded) / older)
    refused(delete(loaded), f"{newer} does not hold cluster ecs-01")
    assert loaded.sent == []


def test_what_was_taken_before_the_manager_was_upgraded_proves_nothing(loaded):
    with loaded.lab.world.lock:
        loaded.lab.world.deployment["versionInfo"]["version"] = "7.11.3"
    verbs = {"stop": ("--yes",), "delete": ("--api-only", "--confirm", "ecs-01")}
    loaded.forget_requests()
    for verb, confirmed in verbs.items():
        refused(loaded("cluster", verb, "ecs-01", *confirmed), "would not come back here: the server is release 7.11.3")
        assert loaded.sent == [], verb
    back_up(loaded)
    for verb, confirmed in verbs.items():
        said = loaded("cluster", verb, "ecs-01", *confirmed)
        assert said.code == 0, said.err


def test_before_a_delete_the_present_state_is_kept_for_audit_only_and_a_machine_without_the_private_key_proves_it_too(
    loaded,
):
    planned = [
        delete(loaded, "--dry-run", "-o", "json", *more)
        for more in ((), ("--no-safety-net", "one"), ("--no-safety-net", "two"))
    ]
    assert len({one.json["digest"] for one in planned}) == 3
    assert "the present state is exported first, for audit only, since the manager redacts its API" in planned[0].out
    assert "`--open-window` makes it restorable" in planned[0].out
    path = Path(loaded.config)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "identity:" not in line))
    said = delete(loaded)
    assert said.code == 0, said.err
    assert "contents as judged when it was taken" in said.err
    assert purposes(loaded) == ["backup", "safety"]
    kept = snapshots(loaded)[-1]
    assert (kept["purpose"], kept["restorable"]) == ("safety", False)
    assert f"safety snapshot {kept['id']}, audit-only" in said.err


def test_without_a_safety_net_it_is_loud_and_on_record_and_a_reason_must_be_one(loaded):
    shutil.rmtree(store(loaded))
    said = delete(loaded, "--no-safety-net", " ")
    assert (said.code, loaded.sent) == (2, [])
    said = delete(loaded, "--no-safety-net", "the  hosts are gone", "-o", "json", "--quiet")
    assert said.code == 0, said.err
    assert "NO SAFETY NET" in said.err
    assert loaded.journal()[0]["options"]["no_safety_net"] == "the hosts are gone"
    for kind in ("md", "html"):
        assert "the hosts are gone" in Path(said.json["report"][kind]).read_text()
    assert snapshots(loaded) == []


def made(operator: Operator, uuid: str) -> None:
    """Have the clusters be those of this UUID."""
    with operator.lab.world.lock:
        for cluster in operator.lab.world.deployment["clusters"]:
            cluster["uuid"] = f"{uuid}-{cluster['name']}"


def test_a_resumed_delete_is_proven_no_less_keeps_what_is_there_once_and_what_changed_too_and_leaves_no_window_open(
    loaded,
):
    """What is kept through the window is restorable, and proves nothing."""
    options = loaded.options.read_bytes()
    made(loaded, "first")
    loaded.lab.break_("delete", "error-500")
    assert delete(loaded, "--open-window").code == 1
    assert (loaded.options.read_bytes(), loaded.window) == (options, False)
    assert loaded("playbook", "resume").code == 1
    assert purposes(loaded) == ["backup", "safety"]
    loaded.lab.repair()
    loaded.forget_requests()
    made(loaded, "second")
    refused(loaded("playbook", "resume"), "cluster ecs-01 is another one than the plan was made for")
    assert loaded.sent == []
    made(loaded, "first")
    damage(loaded, snapshots(loaded)[0]["id"])
    refused(loaded("playbook", "resume"), "is not proven restorable")
    assert loaded.sent == []
    damage(loaded, snapshots(loaded)[0]["id"])  # the same byte turns back
    with loaded.lab.world.lock:
        loaded.lab.world.deployment["managerSettings"]["items"][0]["value"] = "changed since"
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
    assert (loaded.options.read_bytes(), loaded.window, loaded.kept) == (options, False, [])
    assert [(item["purpose"], item["restorable"]) for item in snapshots(loaded)] == [
        ("backup", True),
        ("safety", True),
        ("safety", True),
    ]
    assert f"safety snapshot {snapshots(loaded)[-1]['id']}" in said.err
    said = loaded("restore", "run", "--cluster", "ecs-01", "--yes")
    assert said.code == 0, said.err
    shutil.rmtree(store(loaded) / snapshots(loaded)[0]["id"])
    refused(delete(loaded), "there is no backup in")


def test_a_cluster_that_was_made_anew_under_the_same_name_is_not_what_a_stop_that_is_taken_up_is_about(loaded):
    made(loaded, "first")
    loaded.lab.break_("commands", "command-rejected")
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 1
    loaded.lab.repair()
    made(loaded, "second")
    loaded.forget_requests()
    refused(loaded("playbook", "resume"), "cluster ecs-01 is another one than the plan was made for")
    assert loaded.sent == []


def test_a_namesake_on_other_hosts_proves_nothing(loaded: Operator) -> None:
    """A store that two managers share, or a config that was copied and points elsewhere, brings it within reach."""
    world = loaded.lab.world
    text = json.dumps(world.deployment)
    for number, host in enumerate(world.deployment["hosts"]):
        text = text.replace(host["hostId"], f"0f0f0f0f-0000-4000-8000-{number:012}")
    world.deployment = json.loads(text)
    loaded.forget_requests()
    for words in (("stop",), ("delete", "--api-only")):
        said = loaded("cluster", *words, "ecs-01", "--confirm", "ecs-01", "--yes")
        refused(said, "holds a cluster ecs-01 on other hosts, none of which it has here")
        assert loaded.sent == [], words


@pytest.fixture
def read_only(loaded):
    """An operator at a manager whose store is mounted read-only."""
    folder = loaded.lab.folder / "backups"
    if subprocess.run(["mount", "--bind", folder, folder], check=False).returncode:
        pytest.skip("this account may not mount a file system")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    yield loaded
    subprocess.run(["umount", "-l", folder], check=True)


def test_nothing_is_stopped_where_no_store_takes_what_is_kept_of_the_present_state(read_only):
    for words in (
        ("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01"),
        ("restore", "run", "--manager-only", "--confirm", SITE),
        ("manager", "restore", "--confirm", SITE),
    ):
        said = read_only(*words)
        assert (said.code, read_only.sent) == (5, []), said.err
        assert "no store takes a backup" in said.err and "mounted read-only" in said.err, words
        assert "`--no-safety-net REASON` goes without" in said.err, words
        planned = read_only(*words, "--dry-run", "--no-safety-net", "the store is read-only")
        assert planned.code == 0, planned.err
