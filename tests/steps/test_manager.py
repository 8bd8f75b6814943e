"""Licence, TLS switch, truststore password, and the order in which a platform comes up."""

import json
import os
import stat
from types import SimpleNamespace

import pytest

from maint.adapters.manager.client import ManagerClient
from maint.cli import restore
from maint.lab.manager.load import EXAMPLE, Options
from maint.lab.running import Lab
from maint.model.manager import Command
from maint.model.secret import Secret
from maint.ports.manager_host import try_password
from maint.steps.manager import management_service
from tests.steps.conftest import FAST, PASSWORD, back_up, copy
from tests.steps.operator import Operator


def license_(operator, *words):
    operator.forget_requests()
    return operator("manager", "license", "--yes", "-o", "json", *words)


def test_a_licence_is_uploaded_once_byte_for_byte_and_one_that_is_none_or_is_not_taken_fails(lost, tmp_path):
    file = tmp_path / "license.txt"
    file.write_text("hello")
    said = license_(lost, str(file))
    assert said.code in (3, 5), said.err
    assert lost.sent == []
    assert lost("manager", "license", "--dry-run").code == 0
    for fault in ("bad-request-once", "error-500-once", "proxy-502"):
        lost.lab.break_("license", fault)
        said = license_(lost)
        assert said.code in (0, 1), (fault, said.err)
        assert len(lost.sent) <= 1, fault
        lost.lab.repair()
        lost.lab.world.license = None
    file.write_bytes((lost.lab.folder / "license.txt").read_bytes().replace(b"\n", b"\r\n"))
    said = license_(lost, str(file))
    assert said.code == 0, said.err
    lost.lab.world.license = None
    said = license_(lost)
    assert (said.code, said.json["actions"][0]["outcome"]) == (0, "done"), said.err
    assert lost.sent == ["POST /api/v49/cm/license"]
    again = license_(lost)
    assert (again.code, again.json["actions"][0]["outcome"], lost.sent) == (0, "unchanged", [])


def test_where_tls_serves_already_the_switch_is_unchanged(loaded):
    loaded.forget_requests()
    said = loaded("manager", "tls-switch", "--yes", "-o", "json")
    assert said.code == 0, said.err
    assert said.json["actions"][0]["outcome"] == "unchanged"
    assert loaded.sent == []


def test_a_stored_setting_takes_effect_by_the_switch_and_a_chain_that_was_not_verified_is_not_called_so(lost):
    assert lost("manager", "license", "--yes").code == 0
    restored = lost("manager", "restore", "--confirm", "lab")
    assert restored.code == 0, restored.err
    assert not lost.lab.world.tls
    for outcome in ("done", "unchanged"):
        said = lost("manager", "tls-switch", "--yes", "--insecure", "-o", "json")
        assert (said.code, said.json["actions"][0]["outcome"]) == (0, outcome), said.err
        assert said.json["actions"][0]["detail"].endswith("chain NOT verified (--insecure)")
        assert lost.lab.world.tls


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """An operator at a manager that serves its password, and that nothing changes: a lab with ports of its own."""
    with Lab(tmp_path_factory.mktemp("served") / "lab", Options(new_password=PASSWORD, switches=FAST)) as lab:
        yield Operator(lab)


@pytest.fixture
def password():
    """The password of the example's truststore."""
    items = json.loads(EXAMPLE.read_text())["managerSettings"]["items"]
    return next(item["value"] for item in items if item["name"] == "TRUSTSTORE_PASSWORD")


def deliver(operator, *words):
    return operator("manager", "truststore-password", *words)


def everything_written(operator):
    """All that the state folder holds, as one text."""
    files = [path for path in operator.state.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


def test_the_password_goes_to_a_new_private_file(served, tmp_path, password):
    target = tmp_path / "password"
    said = deliver(served, "--file", str(target), "-v")
    assert said.code == 0, said.err
    assert target.read_text() == password
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert password not in said.out + said.err
    assert password.encode() not in everything_written(served)


def test_a_password_that_cannot_be_tried_for_want_of_ssh_is_told_with_what_to_do():
    trial = try_password(SimpleNamespace(settings=SimpleNamespace(ssh=None)), "/truststore", Secret("x"))
    assert trial.opens is None
    assert trial.hint.startswith("add `ssh:`")


def test_a_password_that_does_not_open_the_truststore_is_not_handed_over_and_no_part_of_a_backup(loaded, tmp_path):
    loaded.lab.break_("truststore", "wrong-truststore-password")
    target = tmp_path / "password"
    said = deliver(loaded, "--file", str(target))
    assert (said.code, "does not open" in said.err, target.exists()) == (1, True, False)
    world = loaded.lab.world
    world.redaction = False
    said = loaded("backup", "create", "-o", "json")
    world.redaction = True
    taken = next(one for one in said.json["actions"] if one["value"])
    assert (said.code, taken["value"]["restorable"]) == (7, True), said.err
    assert "the password that the manager serves does not open" in taken["detail"]
    shown = loaded("backup", "show", taken["value"]["id"], "-o", "json").json
    assert "truststore-password.age" not in [part["name"] for part in shown["snapshot"]["parts"]]
    loaded.lab.repair("wrong-truststore-password")
    back_up(loaded)


def test_a_run_killed_after_it_wrote_the_password_is_taken_up_to_its_end(served, tmp_path, password):
    target = tmp_path / "password"
    assert deliver(served, "--file", str(target)).code == 0
    journal = sorted((served.state / "runs").glob("*.jsonl"))[-1]
    *before, _outcome, _end = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(before))  # as a kill leaves it
    assert served("playbook", "resume", journal.stem).code == 0
    assert target.read_text() == password
    journal.write_text("".join(before))
    target.write_text("mine")
    assert served("playbook", "resume", journal.stem).code == 1
    assert target.read_text() == "mine"


def test_the_password_never_goes_over_a_file(served, tmp_path):
    target = tmp_path / "password"
    target.write_text("mine")
    assert deliver(served, "--file", str(target)).code == 5
    assert target.read_text() == "mine"


def test_the_password_is_fed_to_a_command(served, tmp_path, password):
    script = tmp_path / "take"
    lines = ["#!/bin/sh", f"cat > {tmp_path}/got", f"tr '\\0' ' ' < /proc/$PPID/cmdline > {tmp_path}/args"]
    script.write_text("\n".join([*lines, f"env > {tmp_path}/env", ""]))
    script.chmod(0o700)
    said = served("manager", "truststore-password", "--command", str(script), OTHER_SECRET="canary-of-another")
    assert said.code == 0, said.err
    assert (tmp_path / "got").read_text() == password
    assert "canary-of-another" not in (tmp_path / "env").read_text()
    assert password not in (tmp_path / "args").read_text() + (tmp_path / "env").read_text()


def test_the_command_runs_where_the_operator_stands(served, tmp_path, password, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "take").write_text("#!/bin/sh\ncat > got\n")
    (tmp_path / "take").chmod(0o700)
    said = deliver(served, "--command", "./take")
    assert (said.code, (tmp_path / "got").read_text()) == (0, password)
    assert deliver(served, "--command", "cp take other").code == 0
    assert (tmp_path / "other").exists()


def test_a_command_that_fails_is_told_without_the_password(served, password):
    for command in ("false", "sh -c 'cat >&2; exit 3'"):
        said = deliver(served, "--command", command)
        assert said.code == 1
        assert password not in said.out + said.err


def test_show_prints_to_a_terminal_only(served, password):
    said = deliver(served, "--show")
    assert (said.code, password in said.out) == (5, False)


@pytest.mark.parametrize("words", [(), ("--show", "--file", "x"), ("--file", "x", "--command", "cat")])
def test_the_password_needs_one_place_to_go(served, words):
    assert deliver(served, *words).code == 2


def test_show_on_a_terminal_prints_the_password_alone(served, password):
    master, slave = os.openpty()
    process = served.start("manager", "truststore-password", "--show", stdout=slave)
    process.communicate()
    os.close(slave)
    assert process.returncode == 0
    assert os.read(master, 1000).decode().strip() == password
    os.close(master)


def test_where_no_tls_is_set_the_switch_is_skipped_and_without_auto_tls_there_is_no_password(tmp_path):
    document = json.loads(EXAMPLE.read_text())
    items = document["managerSettings"]["items"]
    kept = [item for item in items if not {"TRUSTSTORE", "AUTO"} & set(item["name"].split("_"))]
    document["managerSettings"]["items"] = [item for item in kept if item["name"] != "WEB_TLS"]
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(document))
    with Lab(tmp_path / "lab", Options(deployment=path, new_password=PASSWORD, switches=FAST)) as lab:
        said = Operator(lab)("manager", "tls-switch", "-o", "json")
        assert said.code == 0, said.err
        assert said.json["actions"][0]["outcome"] == "skipped"
        for kind in ("404", "500", "empty"):
            lab.switch("truststore-off", kind)
            said = deliver(Operator(lab), "--file", str(tmp_path / "target"))
            assert said.code == 1, (kind, said.err)
            assert not (tmp_path / "target").exists(), kind


@pytest.fixture(scope="module")
def restored(backed_up, tmp_path_factory):
    """The folder of a lab, now down, whose manager was restored and whose platform is at rest."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("restored") / "lab")) as lab:
        lab.lose_database()
        assert Operator(lab).restore().code == 0
    return lab.folder


def test_a_platform_comes_up_monitors_first(make, restored):
    lost = make(template=restored)
    lost.forget_requests()
    said = lost("manager", "start", "--cluster", "base", "--yes", "-o", "json")
    assert said.code == 0, said.err
    assert [action["kind"] for action in said.json["actions"]] == [
        "credentials.import",
        "credentials.generate",
        "agents.start",
        "management.start",
        "management.start",
        "cluster.start",
    ]
    posts = [line.split("?")[0] for line in lost.sent]
    assert posts[-1] == "POST /api/v45/clusters/base/commands/start"
    assert all("Credentials" in line for line in posts[:2])
    assert all("/cm/service/" in line for line in posts[2:-1]) and len(posts) == 5
    planned = lost("manager", "start", "--dry-run", "-o", "json").json["plan"]["actions"]
    running = "EVENTSERVER, HOSTMONITOR, REPORTSMANAGER, SERVICEMONITOR"
    assert "it runs already on 5 of 5 hosts" in planned[0]["summary"]
    assert planned[2]["summary"] == f"start no role; running already: ALERTPUBLISHER, {running}"
    again = lost("manager", "start", "--cluster", "base", "--yes", "-o", "json")
    assert {action["outcome"] for action in again.json["actions"]} <= {"unchanged", "skipped"}


def test_a_start_of_the_management_service_that_failed_is_sent_anew_on_resume(make, restored, tmp_path, monkeypatch):
    lost = make(template=restored)
    send, sent = ManagerClient.management_command, []

    def failing_once(manager, verb, roles):
        sent.append(verb)
        return [Command(7, "Start", False, False, "no room")] if len(sent) == 1 else send(manager, verb, roles)

    monkeypatch.setattr(ManagerClient, "management_command", failing_once)
    monkeypatch.setattr(management_service, "LAG", 0.2)
    path = tmp_path / "start.yaml"
    path.write_text("name: start\nsummary: Start.\nsteps:\n  - {name: Start, do: management.start, timeout: 20s}\n")
    said = lost("playbook", "run", str(path), "--yes")
    assert (said.code, "no room" in said.err) == (1, True), said.err
    resumed = lost("playbook", "resume")
    assert (resumed.code, sent) == (0, ["start", "start"]), resumed.err


def test_a_role_type_that_is_left_out_does_not_start_and_one_that_does_not_exist_is_refused(make, restored):
    lost = make(template=restored)
    assert lost("manager", "start", "--without", "REPORTMANAGER", "--yes").code == 5
    said = lost("manager", "start", "--without", "REPORTSMANAGER", "--yes")
    assert said.code == 0, said.err
    roles = lost("playbook", "plan", "start-platform", "-o", "json").json["plan"]["actions"][2]
    assert "REPORTSMANAGER" in roles["summary"]


def test_then_start_is_asked_before_the_restore_refused_where_nobody_can_say_yes_and_brings_the_platform_up_too(lost):
    lost.forget_requests()
    said = lost.restore("--then-start")
    assert (said.code, "start agents, monitors and the clusters? [y/N]" in said.err) == (5, True), said.err
    assert (lost.sent, "give --yes" in said.err) == ([], True)
    assert lost.restore("--then-start", "--dry-run").code == 0
    said = lost.restore("--then-start", "--yes", "-o", "json")
    assert (said.code, said.json["playbook"]) == (0, "disaster-recovery"), said.err
    assert any("/commands/start" in line for line in lost.sent)


def test_where_the_platform_cannot_be_started_after_a_restore_the_restore_is_not_to_be_repeated(lost, monkeypatch):
    real = restore.carry_out

    def refused(flags, name, *given, **more):
        if name == "start-platform":
            lost.lab.break_("clusters", "unauthorised")
        return real(flags, name, *given, **more)

    monkeypatch.setattr(restore, "carry_out", refused)  # nothing fails by itself at the wanted moment
    said = lost.restore("--then-start", "--yes")
    assert (said.code, lost.puts) == (4, 1), said.err
    hint = said.err.rpartition("hint: ")[2]
    assert "`maint manager start --cluster base --cluster ecs-01` starts it without another restore" in hint


@pytest.mark.parametrize("command", ["tee 'x", "  "])
def test_a_command_that_cannot_be_split_into_words_is_refused(served, command):
    said = deliver(served, "--command", command)
    assert said.code in (2, 5), said.err
    assert "Traceback" not in said.err


def test_an_export_that_is_lost_on_its_way_is_asked_for_again(loaded):
    undisturbed = loaded("backup", "drift").code
    for fault in ("connection-dropped", "cut-body", "cut-body-cleanly"):
        loaded.lab.break_("export", fault)
        said = loaded("backup", "drift")
        assert (said.code, undisturbed in (0, 7), loaded.lab.status()["faults"]) == (undisturbed, True, []), said.err
    loaded.lab.break_("export", "cut-body")
    said = loaded("backup", "create")
    assert (said.code, loaded.lab.status()["faults"]) == (7, []), said.err  # audit-only, as without a fault
