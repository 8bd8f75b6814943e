"""One setting is changed, its old value kept; nobody else's change is undone, no secret shown, no mask written."""

import json
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from tests.steps.conftest import back_up
from tests.steps.operator import SITE

PUT = "PUT /api/v45/clusters/base/services/hdfs/config"
GROUP = ("--role-group", "hdfs-NAMENODE-BASE")
SECRET = "ssl_server_keystore_password"


def change(operator, *words):
    operator.forget_requests()
    return operator("setting", "set", *words, "--yes", "-o", "json")


def run_id(operator):
    return operator("playbook", "history", "-o", "json").json["runs"][-1]["id"]


def puts(operator):
    return [line.split("?")[0] for line in operator.sent]


def everything(operator):
    """All that the state folder holds, and what a run has printed of it, as bytes."""
    return b"".join(path.read_bytes() for path in operator.state.rglob("*") if path.is_file())


def test_a_setting_is_set_once_also_to_an_empty_text_and_the_plan_shows_old_and_new(loaded, live):
    said = loaded("setting", "set", "namenode_java_heapsize", "2147483648", *GROUP, "--dry-run")
    assert "'1073741824' → '2147483648'" in said.out
    assert change(loaded, "namenode_java_heapsize", "2147483648", *GROUP).code == 0
    assert len(puts(loaded)) == 1
    assert live("namenode_java_heapsize", group="hdfs-NAMENODE-BASE") == "2147483648"
    said = change(loaded, "namenode_java_heapsize", "2147483648", *GROUP)
    assert (said.code, puts(loaded)) == (0, [])
    assert change(loaded, "hadoop_security_authorization", "", "--service", "hdfs").code == 0
    assert live("hadoop_security_authorization") == ""
    said = loaded("setting", "set", "", "x", "--service", "hdfs")
    assert (said.code, "say which is meant" in said.err) == (2, True)


def test_undo_puts_back_what_a_run_set_or_unset_also_by_a_record_of_an_earlier_version_and_a_second_one_finds_nothing(
    loaded, live
):
    for name, new, old in (("hadoop_security_authorization", "false", "true"), ("dfs_replication", "2", None)):
        assert change(loaded, name, new, "--service", "hdfs").code == 0
        assert live(name) == new
        said = loaded("playbook", "undo", "--yes")
        assert (said.code, f"  {run_id(loaded)}  " in said.err, live(name)) == (2, True, new)
        run = run_id(loaded)
        said = loaded("playbook", "undo", run, "--yes")
        assert (said.code, live(name)) == (0, old), said.err
        state = "unset" if old is None else "set"
        assert f"{name} of service hdfs of base is {state}; " in said.err
        said = loaded("playbook", "undo", run, "--dry-run")
        stands = "unset" if old is None else f"{old!r}"
        assert f"{name} of service hdfs of base: {stands}, as it was before" in said.out, said.out
    assert loaded("setting", "unset", "hadoop_security_authorization", "--service", "hdfs", "--yes").code == 0
    assert live("hadoop_security_authorization") is None
    path = loaded.state / "setting-undo" / f"{run_id(loaded)}.json"
    path.write_text(path.read_text().replace(f',"run":"{path.stem}"', ""))  # as an earlier version wrote it
    assert path.stem not in path.read_text()
    assert loaded("playbook", "undo", path.stem, "--yes").code == 0
    assert live("hadoop_security_authorization") == "true"


def test_of_several_sites_what_puts_a_setting_back_says_of_which(loaded):
    path = Path(loaded.config)
    path.write_text(f"{path.read_text().rstrip()}\n  other: {{manager: {{host: cm2, password: prompt}}}}\n")
    words = ("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--site", SITE)
    for said in (loaded(*words, "--dry-run"), loaded(*words, "--yes")):
        assert said.code == 0, said.err
        assert f"`maint playbook undo RUN --site {SITE}` puts it back" in said.out + said.err
        assert "undo RUN`" not in said.out + said.err


def test_where_a_state_is_shared_an_undo_that_finds_nothing_says_that_another_machine_may_have_it(loaded):
    path = loaded.lab.folder / "config.yaml"
    assert loaded("service", "stop", "hive", "--cluster", "base", "--yes").code == 0
    run = run_id(loaded)
    alone = loaded("playbook", "undo", run, "--yes")
    path.write_text(path.read_text().replace("    backup:\n", "    shared_state: shared\n    backup:\n", 1))
    shared = loaded("playbook", "undo", run, "--yes")
    assert [(said.code, "undo it there" in said.err) for said in (alone, shared)] == [(5, False), (5, True)], shared.err


def test_undo_leaves_alone_what_somebody_changed_since_and_puts_nothing_back_from_the_record_of_another_run(
    loaded, live
):
    assert change(loaded, "dfs_replication", "2", "--service", "hdfs").code == 0
    first = run_id(loaded)
    assert change(loaded, "dfs_replication", "4", "--service", "hdfs").code == 0
    second = run_id(loaded)
    said = loaded("playbook", "undo", first, "--yes", "-o", "json")
    assert (said.code, live("dfs_replication")) == (5, "4")
    assert "the run left '2', now it is '4'" in said.error["detail"][0]
    records = [loaded.state / "setting-undo" / f"{run}.json" for run in (first, second)]
    records[0].write_bytes(records[1].read_bytes())
    said = loaded("playbook", "undo", first, "--yes")
    assert (said.code, f"it is that of run {second}" in said.err, live("dfs_replication")) == (1, True, "4"), said.err


def test_undo_says_what_is_no_longer_there_and_puts_back_the_rest(loaded, live, tmp_path):
    steps = [f"  - {{name: {one}, do: config.set, with: {{cluster: base, service: {one}, name: {name}, value: 7}}}}"
             for one, name in (("hdfs", "dfs_replication"), ("tez", "yarn_service"))]  # fmt: skip
    (tmp_path / "two.yaml").write_text("\n".join(["name: two", "summary: X.", "steps:", *steps]))
    assert loaded("playbook", "run", str(tmp_path / "two.yaml"), "--yes").code == 0
    with loaded.lab.world.lock:
        cluster = loaded.lab.world.deployment["clusters"][0]
        cluster["services"] = [one for one in cluster["services"] if one["name"] != "tez"]
    said = loaded("playbook", "undo", run_id(loaded), "--yes")
    assert (said.code, live("dfs_replication")) == (0, None), said.err
    assert "service tez of base is no longer there" in said.err


def test_undo_puts_back_the_only_setting_of_a_service_on_a_server_that_lists_only_what_is_set(loaded, monkeypatch):
    monkeypatch.setattr("maint.lab.manager.api.settings._known", lambda world, kind: {})
    with loaded.lab.world.lock:
        services = loaded.lab.world.deployment["clusters"][0]["services"]
        tez = next(one for one in services if one["name"] == "tez")
        tez["config"] = {"items": [{"name": "yarn_service", "value": "yarn"}]}
    assert loaded("setting", "unset", "yarn_service", "--service", "tez", "--yes").code == 0
    said = loaded("playbook", "undo", run_id(loaded), "--dry-run")
    assert "put back yarn_service of service tez of base: unset → 'yarn'" in said.out, said.err


def test_undo_puts_back_though_the_server_dropped_the_new_value_for_it_is_the_default(make):
    operator = make(default_setting="drop")
    said = change(operator, "dfs_replication", "3", "--service", "hdfs")
    assert said.code == 0, said.err  # taken for set
    assert change(operator, "dfs_replication", "2", "--service", "hdfs").code == 0
    assert change(operator, "dfs_replication", "3", "--service", "hdfs").code == 0
    said = operator("playbook", "undo", run_id(operator), "--yes")
    assert said.code == 0, said.err
    said = operator("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--dry-run")
    assert "is so already" in said.out


def test_a_failed_run_is_undone_though_its_last_change_was_refused(loaded, live, tmp_path):
    step = "  - {name: %s, do: config.set, with: {service: hdfs, name: %s, value: '%s'}}\n"
    steps = step % ("A", "hadoop_security_authorization", "false") + step % ("B", "dfs_replication", "three")
    (tmp_path / "own.yaml").write_text(f"name: own\nsummary: Two steps.\nsteps:\n{steps}")
    assert loaded("playbook", "run", str(tmp_path / "own.yaml"), "--yes").code == 1
    assert live("hadoop_security_authorization") == "false"
    said = loaded("playbook", "undo", run_id(loaded), "--yes")
    assert (said.code, live("hadoop_security_authorization"), live("dfs_replication")) == (0, "true", None), said.err


def test_what_somebody_changes_between_plan_and_run_is_left_alone(loaded, live, monkeypatch):
    from maint.steps.services import change_setting
    from maint.steps.services.places import place_from

    def meanwhile(action, site, work, wanted):
        site.manager.configure(place_from(action.arguments), action.arguments["name"], "5", "somebody else")
        return (yield from original(action, site, work, wanted))

    original = change_setting.carry_out
    monkeypatch.setattr(change_setting, "carry_out", meanwhile)
    said = change(loaded, "dfs_replication", "2", "--service", "hdfs")
    assert (said.code, live("dfs_replication")) == (5, "5")
    assert "somebody has changed it" in said.error["message"]


def test_a_refused_value_fails_a_mask_is_never_written_and_a_lost_answer_is_decided_by_reading(loaded, live):
    said = change(loaded, "dfs_replication", "three", "--service", "hdfs")
    assert (said.code, live("dfs_replication")) == (1, None)
    assert "three" in said.error["message"]
    said = change(loaded, "dfs_replicaton", "3", "--service", "hdfs")
    assert (said.code, said.error["hint"]) == (2, "did you mean 'dfs_replication'?")
    for mask in ("REDACTED", "fp:0123456789abcdef", "********"):
        said = change(loaded, "dfs_replication", mask, "--service", "hdfs")
        assert (said.code, puts(loaded)) == (5, []), mask
    loaded.lab.break_("config", "config-answer-lost")
    said = change(loaded, "dfs_replication", "2", "--service", "hdfs")
    assert (said.code, puts(loaded), live("dfs_replication")) == (0, [PUT], "2"), said.err


# -- secrets


def test_a_secret_is_given_by_reference_and_shown_nowhere(loaded, live, tmp_path):
    old, new = live(SECRET), "a-New-Keystore-Pw-77"
    (tmp_path / "pw").write_text(new)
    (tmp_path / "pw").chmod(0o600)
    assert change(loaded, SECRET, new, "--service", "hdfs").code == 5  # in clear
    said = change(loaded, SECRET, "--secret", f"file:{tmp_path / 'pw'}", "--service", "hdfs")
    assert (said.code, live(SECRET)) == (0, new), said.err
    shown = said.out + said.err + everything(loaded).decode(errors="replace")
    assert (old in shown, new in shown) == (False, False)
    undone = loaded("playbook", "undo", run_id(loaded), "--yes")
    assert (undone.code, live(SECRET)) == (0, old), undone.err  # the manager hides it: kept from the snapshot


def test_a_secret_is_not_set_a_second_time_before_a_backup_has_the_first_and_comes_back_from_the_sealed_copy(
    loaded, live, tmp_path
):
    old, (first,) = live(SECRET), (one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"])
    for number, code in ((1, 0), (2, 5)):
        (tmp_path / "pw").write_text(f"a-New-Keystore-Pw-8{number}")
        (tmp_path / "pw").chmod(0o600)
        said = change(loaded, SECRET, "--secret", f"file:{tmp_path / 'pw'}", "--service", "hdfs")
        assert (said.code, live(SECRET)) == (code, "a-New-Keystore-Pw-81"), said.err
    assert "present value could not be put back" in said.error["message"]
    said = loaded("restore", "config", "--service", "hdfs", "--property", SECRET, "--yes", "-o", "json")
    assert (said.code, live(SECRET)) == (5, "a-New-Keystore-Pw-81")
    assert "present value could not be put back" in said.error["message"]
    back_up(loaded)
    said = loaded("restore", "config", "--service", "hdfs", "--property", SECRET, "--from", first, "--yes")
    assert (said.code, live(SECRET)) == (0, old), said.err
    assert old not in said.out + said.err + everything(loaded).decode(errors="replace")


def test_a_hidden_secret_that_a_later_run_changed_is_not_put_back_over_it(loaded, live, tmp_path):
    old, runs = live(SECRET), []
    for number in (1, 2):
        (tmp_path / "pw").write_text(f"a-New-Keystore-Pw-9{number}")
        (tmp_path / "pw").chmod(0o600)
        assert change(loaded, SECRET, "--secret", f"file:{tmp_path / 'pw'}", "--service", "hdfs").code == 0
        runs.append(run_id(loaded))
        back_up(loaded)
    said = loaded("playbook", "undo", runs[0], "--yes", "-o", "json")
    assert (said.code, live(SECRET)) == (5, "a-New-Keystore-Pw-92")
    assert f"run {runs[1]} changed it since" in said.error["detail"][0]
    loaded.lab.break_("config", "config-refused")
    said = loaded("playbook", "undo", runs[1], "--yes")  # what it puts back is not shown, though the manager quotes it
    assert (said.code, "'•••' of parameter" in said.err) == (1, True)
    shown = said.out + said.err + everything(loaded).decode(errors="replace")
    assert "a-New-Keystore-Pw-91" not in shown and old not in shown
    loaded.lab.repair()
    for run, left in ((runs[1], "a-New-Keystore-Pw-91"), (runs[0], old)):
        said = loaded("playbook", "undo", run, "--yes")
        assert (said.code, live(SECRET)) == (0, left), said.err


def test_a_run_that_sets_one_setting_twice_is_undone_though_the_second_was_refused(loaded, live, tmp_path):
    step = "  - {name: %s, do: config.set, with: {service: hdfs, name: dfs_replication, value: '%s'}}\n"
    own = tmp_path / "own.yaml"
    for second, code, left in (("three", 1, "2"), ("4", 0, "4")):
        own.write_text(f"name: own\nsummary: Two steps.\nsteps:\n{step % ('A', '2')}{step % ('B', second)}")
        said = loaded("playbook", "run", str(own), "--yes")
        assert (said.code, live("dfs_replication")) == (code, left), said.err
        said = loaded("playbook", "undo", run_id(loaded), "--yes")
        assert (said.code, live("dfs_replication")) == (0, None), said.err


def test_a_refused_secret_is_not_shown_though_the_manager_quotes_it(loaded, tmp_path):
    (tmp_path / "pw").write_text("a-New-Keystore-Pw-78")
    (tmp_path / "pw").chmod(0o600)
    loaded.lab.break_("config", "config-refused")
    said = change(loaded, SECRET, "--secret", f"file:{tmp_path / 'pw'}", "--service", "hdfs")
    assert said.code == 1
    assert "a-New-Keystore-Pw-78" not in said.out + said.err + everything(loaded).decode(errors="replace")


def test_a_hidden_old_value_that_no_snapshot_has_is_not_overwritten(loaded, live, tmp_path):
    import shutil

    shutil.rmtree(loaded.lab.folder / "backups")
    (tmp_path / "pw").write_text("a-New-Keystore-Pw-79")
    (tmp_path / "pw").chmod(0o600)
    old = live(SECRET)
    said = change(loaded, SECRET, "--secret", f"file:{tmp_path / 'pw'}", "--service", "hdfs")
    assert (said.code, puts(loaded), live(SECRET)) == (5, [], old)


# -- killed


def kill_when(operator, there):
    """Kill a change of dfs_replication as soon as something is there."""
    operator.forget_requests()
    process = operator.fork("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes", "--allow-plain")
    until = time.monotonic() + 60
    while process.poll() is None and not there() and time.monotonic() < until:
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_killed_at_any_moment_a_change_ends_as_if_undisturbed_and_can_be_undone(loaded, live):
    record = loaded.state / "setting-undo"
    for there in (lambda: any(record.glob("*.json")), lambda: live("dfs_replication") == "2"):  # sealed, put
        kill_when(loaded, there)
        run = run_id(loaded)
        said = loaded("playbook", "resume", run)
        assert (said.code, live("dfs_replication")) == (0, "2"), said.err
        assert len(puts(loaded)) <= 2
        assert loaded("playbook", "undo", run, "--yes").code == 0
        assert live("dfs_replication") is None


def set_by_somebody(operator, value):
    """Give dfs_replication a value without a run, as the server keeps it; None: it keeps none."""
    with operator.lab.world.lock:
        service = next(one for one in operator.lab.world.deployment["clusters"][0]["services"] if one["name"] == "hdfs")
        items = [one for one in service["config"]["items"] if one["name"] != "dfs_replication"]
        new = [{"name": "dfs_replication", "value": value, "sensitive": False}] if value is not None else []
        service["config"]["items"] = [*items, *new]


def test_a_run_that_sets_one_setting_twice_and_is_killed_before_the_second_is_sent_goes_on_and_leaves_others_alone(
    loaded, live, tmp_path
):
    """A server may drop what equals the default, which is 3."""
    for first, left in (("2", "2"), ("3", None), ("2", "7")):
        assert change(loaded, "dfs_replication", "4", "--service", "hdfs").code == 0
        steps = [
            {"name": v, "do": "config.set", "with": {"service": "hdfs", "name": "dfs_replication", "value": v}}
            for v in (first, "5")
        ]
        (tmp_path / "twice.yaml").write_text(json.dumps({"name": "twice", "summary": "T.", "steps": steps}))
        assert loaded("playbook", "run", str(tmp_path / "twice.yaml"), "--yes").code == 0
        path = max((loaded.state / "runs").glob("*.jsonl"))
        lines = path.read_bytes().splitlines(keepends=True)
        at = max(number for number, line in enumerate(lines) if b'"key": "sealed"' in line)
        path.write_bytes(b"".join(lines[: at + 1]))
        set_by_somebody(loaded, left)
        said = loaded("playbook", "resume", path.stem)
        expected = (5, "7") if left == "7" else (0, "5")
        assert (said.code, live("dfs_replication")) == expected, (first, left, said.err)


def test_killed_after_the_put_it_is_not_sent_again_over_somebody_elses_change(loaded, live):
    if not kill_when(loaded, lambda: live("dfs_replication") == "2"):
        pytest.skip("it was done before it could be killed")
    run = run_id(loaded)
    set_by_somebody(loaded, "7")
    said = loaded("playbook", "resume", run)
    assert live("dfs_replication") == "7"
    assert said.code == 5, said.err


# -- back from a snapshot


def hidden(said):
    """Whether a few of what cannot be compared are named, and the others counted."""
    return re.search(r"hides them: \d+; .* and \d+ more", " ".join((said.out + said.err).split())) is not None


def test_a_services_settings_come_back_from_a_snapshot_without_a_put_of_the_deployment(loaded, live):
    assert change(loaded, "namenode_java_heapsize", "2147483648", *GROUP).code == 0
    assert change(loaded, "hadoop_security_authorization", "false", "--service", "hdfs").code == 0
    assert change(loaded, "dfs_replication", "2", "--service", "hdfs").code == 0
    said = loaded("restore", "config", "--service", "hdfs", "--dry-run")
    for words in ("'2147483648' → '1073741824'", "'false' → 'true'", "'2' → unset"):
        assert words in said.out
    loaded.forget_requests()
    said = loaded("restore", "config", "--service", "hdfs", "--property", "dfs_replication", "--yes")
    assert (said.code, live("dfs_replication"), live("hadoop_security_authorization")) == (0, None, "false"), said.err
    said = loaded("restore", "config", "--service", "hdfs", "--yes")
    assert (said.code, live("hadoop_security_authorization"), hidden(said)) == (0, "true", True), said.err
    assert live("namenode_java_heapsize", group="hdfs-NAMENODE-BASE") == "1073741824"
    assert len(puts(loaded)) == 3
    assert loaded.puts == 0
    said = loaded("restore", "config", "--service", "hdfs", "--yes")
    assert "nothing that can be read differs" in said.out + said.err and hidden(said)


def test_the_managers_own_settings_come_back(loaded):
    assert change(loaded, "PARCEL_UPDATE_FREQ", "5", "--manager").code == 0
    said = loaded("restore", "config", "--manager", "--yes")
    assert said.code == 0, said.err
    with loaded.lab.world.lock:
        assert loaded.lab.world.settings.get("PARCEL_UPDATE_FREQ") != "5"


def test_what_the_manager_writes_by_itself_is_put_back_only_where_it_is_named(loaded):
    world = loaded.lab.world
    world.redaction = False
    with world.lock:
        services = [one for cluster in world.deployment["clusters"] for one in cluster["services"]]
        roles = [role for service in services for role in service["roles"]]
        held = [(role["name"], item) for role in roles for item in role.get("config", {}).get("items", [])]
        settings = world.deployment["managerSettings"]["items"]
        (name, password), *_ = [(role, item) for role, item in held if item["name"] == "role_jceks_password"]
        (begun,) = [item for item in settings if item["name"] == "CLUSTER_STATS_START"]
        password["value"], begun["value"] = "renewed-at-a-restart", "another day"
    for words in (("--role", name), ("--manager",)):
        said = loaded("restore", "config", *words, "--dry-run")
        assert (said.code, "nothing that can be read differs" in said.out) == (0, True), said.out
    said = loaded("restore", "config", "--manager", "--property", "CLUSTER_STATS_START", "--dry-run")
    assert (said.code, "'another day' → " in said.out) == (0, True), said.out


def test_a_redacted_snapshot_is_refused(loaded):
    world = loaded.lab.world
    assert world.redaction
    assert loaded("backup", "create").code == 7
    redacted = loaded("backup", "list", "-o", "json").json["snapshots"]
    which = next(one["id"] for one in redacted if not one["restorable"])
    assert loaded("restore", "config", "--service", "hdfs", "--from", which, "--yes").code == 5


NOWHERE = {  # what is typed → what is said, which names the way on
    ("setting", "list", "--service", "hdsf"): "did you mean 'hdfs'?",
    ("setting", "set", "dfs_replicatio", "2", "--service", "hdfs", "--yes"): "did you mean 'dfs_replication'?",
    ("service", "restart", "qqq", "--dry-run"): "`maint service list`",
    ("restore", "config", "--service", "qqq", "--dry-run"): "`maint service list`",
    ("restore", "config", "--host", "qqq", "--dry-run"): "`maint host list`",
    ("restore", "config", "--service", "hdfs", "--property", "qqq", "--dry-run"): "`maint setting list --service hdfs",
}
PLACES = (
    ("--service", "hdfs"), ("--role-group", "hdfs-DATANODE-BASE"), ("--host", "ds-01.example.internal"), ("--manager",)
)  # fmt: skip


VERBS = (("list",), ("set", "dfs_replication", "2", "--yes"), ("unset", "dfs_replication"))


def test_a_place_that_is_none_or_not_the_only_one_ends_with_the_way_on_and_what_is_said_to_list_or_unset_does_so(
    loaded,
):
    loaded.forget_requests()
    for place in PLACES:
        lists = loaded("setting", "set", "qqq", "1", *place, "-o", "json").error["hint"]
        assert loaded(*shlex.split(lists.split("`")[1])[1:], "-o", "json").json["settings"], place
        known = next(one["name"] for one in loaded("setting", "list", *place, "--all", "-o", "json").json["settings"])
        unsets = loaded("setting", "set", known, *place, "-o", "json").error["hint"]
        said = loaded(*shlex.split(unsets.split("`")[1])[1:], "--dry-run")
        assert said.code in (0, 5) and known in said.out + said.err, said.err
    for words, hint in NOWHERE.items():
        said = loaded(*words)
        assert (said.code, hint in said.err) == (2, True), said.err
    for verb in VERBS:
        for place, told in (
            (("--cluster", "base"), "a cluster has no settings of its own: name a service"),
            (("--cluster", "nowhere"), "a cluster has no settings of its own: name a service"),
            (("--cluster", "nowhere", "--service", "hdfs"), "nowhere"),
            (("--manager", "--service", "hdfs"), "several things are named"),
            ((), "nothing is named"),
        ):
            said = loaded("setting", *verb, *place)
            assert (said.code, told in said.err) == (2, True), (verb, place, said.err)
    with loaded.lab.world.lock:  # a group of one name in two clusters
        clusters = loaded.lab.world.deployment["clusters"]
        clusters.append(json.loads(json.dumps(clusters[0]).replace('"base"', '"other"')))
        clusters[-1]["displayName"] = "Other"
    words = ("setting", "set", "dfs_datanode_max_locked_memory", "1", "--role-group", "hdfs-DATANODE-BASE")
    said = loaded(*words, "--yes")
    assert (said.code, loaded.sent) == (5, []), said.err
    for cluster in ("base", "other"):
        assert f"role group hdfs-DATANODE-BASE of service hdfs of {cluster}" in said.err
        planned_here = loaded(*words, "--cluster", cluster, "--dry-run")
        assert planned_here.code == 0 and f"of service hdfs of {cluster}" in planned_here.out, planned_here.err


def test_a_secret_within_a_text_is_shown_nowhere_comes_back_whole_and_no_dots_are_written(loaded, live):
    name, place = "hdfs_service_env_safety_valve", ("--service", "hdfs")
    text = "OPTS=-Dssl.password=hunter-two -Dx=y"
    assert change(loaded, name, text, *place).code == 0
    listed = loaded("setting", "list", *place)
    in_json = loaded("setting", "list", *place, "-o", "json")
    planned = loaded("setting", "set", name, "OPTS=-Dssl.password=hunter-three", *place, "--dry-run")
    for said in (listed, in_json, planned):
        assert (said.code, "ssl.password=•••" in said.out, "hunter" in said.out + said.err) == (0, True, False), said
    assert "'OPTS=-Dssl.password=••• -Dx=y' → 'OPTS=-Dssl.password=•••'" in planned.out
    again = loaded("setting", "set", name, text.replace("two", "three"), *place, "--dry-run")
    assert "-Dx=y' with another secret in it" in again.out
    dots = next(one["value"] for one in in_json.json["settings"] if one["name"] == name)
    refused = change(loaded, name, dots, *place)
    assert (refused.code, "is what is shown in a secret's place" in refused.err, live(name)) == (5, True, text)
    assert change(loaded, name, "OPTS=-Dx=z", *place).code == 0
    assert loaded("playbook", "undo", run_id(loaded), "--yes").code == 0
    assert live(name) == text


def test_a_secret_within_a_text_of_a_playbook_is_shown_by_no_plan_and_no_answer_and_is_set_as_it_stands(
    loaded, live, tmp_path
):
    name, book = "hdfs_service_env_safety_valve", tmp_path / "own.yaml"
    given = f"{{service: hdfs, name: {name}, value: 'OPTS=-Dssl.password={{{{ pw }}}} -Dx=y'}}"
    steps = f"steps:\n  - {{name: A, do: config.set, with: {given}}}\n"
    asked = "parameters: {pw: {type: string, help: A.}, url: {type: string, help: B.}}"
    book.write_text(f"name: own\nsummary: One.\n{asked}\n{steps}")
    words = (str(book), "--set", "pw=hunter-two", "--set", "url=https://a:hunter-two@h/x")
    planned = loaded("playbook", "plan", *words, "-o", "json")
    assert planned.code == 0, planned.err
    (action,) = planned.json["plan"]["actions"]
    assert action["arguments"]["value"] == "OPTS=-Dssl.password=••• -Dx=y"
    assert planned.json["plan"]["parameters"] == {"pw": "•••", "url": "https://a:•••@h/x"}
    ran = loaded("playbook", "run", *words, "--yes")
    assert (ran.code, live(name)) == (0, "OPTS=-Dssl.password=hunter-two -Dx=y"), ran.err
    assert "hunter" not in planned.out + ran.out + ran.err
    said = change(loaded, "dfs_replication", "db.password=hunter-three", "--service", "hdfs")
    assert (said.code, "Could not parse" in said.err, "hunter" in said.err) == (1, True, False), said.err
