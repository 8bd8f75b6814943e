"""Labs in processes of their own, and what the outside finds in their folders."""

import json
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from maint.errors import CannotReach, UsageError, WorkFailed
from maint.lab import control
from maint.lab.manager.load import Options
from maint.lab.running import Lab

SWITCHES = {"down-seconds": "0.1", "starting-seconds": "0"}


@pytest.fixture
def up(tmp_path):
    """Bring a lab up in its own process; it goes down with the test."""
    folder = tmp_path / "lab"

    def up(**more):
        return control.up(folder, Options(switches=SWITCHES, ssh=False, **more)), folder

    yield up
    control.down(folder)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A lab that is up in its own process until all tests here are over."""
    folder = tmp_path_factory.mktemp("running") / "lab"
    yield control.up(folder, Options(switches=SWITCHES, ssh=False)), folder
    control.down(folder)


def version(status):
    manager = status["manager"]
    account = (manager["username"], Path(manager["password_file"]).read_text())
    return requests.get(manager["tls"] + "/api/version", auth=account, verify=manager["ca"], timeout=10)


def processes_of(folder):
    """Return the command lines that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(path.read_bytes())
    return [line for line in found if str(folder).encode() in line]


def test_a_lab_comes_up_is_found_up_goes_down_and_comes_up_again_as_it_was(up):
    status, folder = up(new_password="not-the-factory-one")
    assert version(status).text == "v49"
    assert control.up(folder)["manager"] == status["manager"]
    assert control.down(folder)
    assert control.status(folder)["running"] is False
    assert not control.down(folder)
    again = control.up(folder)
    assert again["manager"] == status["manager"]
    assert version(again).status_code == 200


def test_two_who_bring_a_lab_up_at_once_bring_up_one_that_goes_down_whole(tmp_path):
    folder = tmp_path / "lab"
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: control.up(folder, Options(fresh=True, ssh=False)), range(2))
    assert one["manager"] == other["manager"]
    assert control.down(folder)
    assert processes_of(folder) == []


def test_another_process_breaks_repairs_switches_and_loses_the_database(running):
    status, folder = running
    control.break_(folder, "version", "error-500")
    assert version(status).status_code == 500
    assert control.status(folder)["faults"] == [{"fault": "error-500", "target": "version"}]
    for strange, meant in (("eror-500", "; did you mean 'error-500'[?]$"), ("nothing-of-ours", "$")):
        with pytest.raises(UsageError, match=f"no fault '{strange}'{meant}"):
            control.repair(folder, strange)
    assert [control.repair(folder, *words) for words in (("error-500", "export"), ("version",))] == [0, 1]
    control.switch(folder, "version-body", "quoted")
    assert version(status).text == '"v49"'
    with pytest.raises(UsageError, match="no fault"):
        control.break_(folder, "manager", "no-such-fault")
    with pytest.raises(UsageError, match="no switch"):
        control.switch(folder, "no-such-switch", "1")
    control.lose_database(folder)
    answer = requests.get(status["manager"]["plain"] + "/api/v49/clusters", auth=("admin", "admin"), timeout=10)
    assert answer.json() == {"items": []}


def test_the_folder_has_what_a_toolkit_needs_and_keeps_secrets_to_itself(running):
    status, folder = running
    secret = ("password", "bootstrap-password", "identity", "license.txt", "config.yaml", "lab.json", "options.json")
    for name in secret:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert Path(status["config"]).exists()
    assert status["requests"] == str(folder / "requests.jsonl")
    assert {"running", "config", "manager", "ssh", "requests", "virtual_clusters"} <= status.keys()


def test_the_toolkit_understands_the_configuration(running):
    from maint.config.precedence import ConfigFlags, load_settings

    status, _ = running
    settings = load_settings(ConfigFlags(config=Path(status["config"])), {})
    site = settings.site("lab")
    assert (site.manager.tls_port, site.manager.api.deployment) == (
        int(status["manager"]["tls"].rsplit(":")[-1]), 49,
    )  # fmt: skip
    assert next(host.name for host in site.hosts) == "base-01.example.internal"


def test_a_lab_that_cannot_come_up_says_why(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    with pytest.raises(WorkFailed) as raised:
        control.up(tmp_path / "lab", Options(deployment=broken))
    assert "not an object" in raised.value.detail[-1]


@pytest.mark.parametrize("content", ["", "null", "[5]", "[" * 100_000, '{"port": "x"}', '{"port": 1}', "\0"])
def test_a_damaged_file_of_a_labs_process_is_no_lab_that_is_up(tmp_path, content):
    (tmp_path / "control.json").write_text(content)
    (tmp_path / "lab.json").write_text(content)
    assert control.status(tmp_path)["running"] is False
    assert (control.down(tmp_path), control.is_down(tmp_path)) == (False, False)


def test_what_is_not_up_cannot_be_asked(tmp_path):
    with pytest.raises(CannotReach):
        control.break_(tmp_path, "manager", "proxy-502")


def test_a_deployment_without_hosts_gets_one_for_the_manager(tmp_path):
    lab = Lab(tmp_path / "lab", Options(fresh=True, ssh=False))
    assert list(lab.machines) == ["cm"]
    assert set(lab.machines["cm"].units) >= {"cloudera-scm-server", "cloudera-scm-agent", "cloudera-scm-supervisord"}


def test_the_manager_is_restarted_by_systemd_over_ssh(tmp_path):
    with Lab(tmp_path / "lab", Options(switches=SWITCHES)) as lab:
        ssh = lab.status()["ssh"]
        command = [
            "ssh", "-i", ssh["key"], "-o", f"UserKnownHostsFile={ssh['known_hosts']}", "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=yes", "-p", str(ssh["port"]), "root@127.0.0.1",
        ]  # fmt: skip
        before = lab.server.properties()["InvocationID"]
        done = subprocess.run([*command, "systemctl restart cloudera-scm-server"], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert lab.server.properties()["InvocationID"] != before
        assert lab.server.wait()
        ask = "systemctl show -p InvocationID cloudera-scm-server"
        shown = subprocess.run([*command, ask], capture_output=True, text=True, check=False)
        assert lab.server.properties()["InvocationID"] in shown.stdout
        store = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks"
        listed = subprocess.run(
            [*command, f"keytool -list -keystore {store}"],
            input=lab.world.truststore_password() + "\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (listed.returncode, "cmrootca-0" in listed.stdout) == (0, True), listed.stdout + listed.stderr


def test_many_clients_at_once_are_all_answered(tmp_path):
    with Lab(tmp_path / "lab", Options(switches=SWITCHES, ssh=False)) as lab:
        status, answers = lab.status(), []
        threads = [threading.Thread(target=lambda: answers.append(version(status).status_code)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 20
        assert len(lab.log.path.read_text().splitlines()) == 20
        assert all(json.loads(line)["status"] == 200 for line in lab.log.path.read_text().splitlines())
