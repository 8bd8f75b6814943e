"""A run goes on, and is undone, on the manager on which it was begun, whatever the config names by then."""

import re

import pytest

from tests.steps.operator import Operator

ELSEWHERE = {"MAINT_MANAGER_HOST": "localhost"}  # how the config would name another one


@pytest.fixture
def stopped(loaded: Operator) -> Operator:
    """An operator whose deletion of a cluster stopped before the deletion itself."""
    loaded.lab.break_("delete", "error-500")
    assert loaded("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01").code == 1
    loaded.lab.repair()
    loaded.forget_requests()
    return loaded


@pytest.mark.parametrize("flag", ["--yes", "--dry-run"])
def test_a_run_goes_on_with_no_other_manager(stopped: Operator, flag: str) -> None:
    said = stopped("playbook", "resume", flag, **ELSEWHERE)
    assert (said.code, stopped.sent) == (5, []), said.err
    assert "works on the manager at 127.0.0.1:" in said.err and "names the one at localhost:" in said.err, said.err


def test_the_same_manager_at_another_address_is_named_once(stopped: Operator) -> None:
    refused = stopped("playbook", "resume", **ELSEWHERE)
    wanted = refused.err.partition("--set ")[2].partition("`")[0]
    wrong = stopped("playbook", "resume", "--set", "manager=elsewhere", **ELSEWHERE)
    assert (wrong.code, stopped.sent) == (5, []), wrong.err
    stopped.lab.break_("delete", "error-500")
    assert stopped("playbook", "resume", "--set", wanted, **ELSEWHERE).code == 1
    stopped.lab.repair()
    back = stopped("playbook", "resume")
    assert (back.code, "works on the manager at localhost:" in back.err) == (5, True), back.err
    said = stopped("playbook", "resume", **ELSEWHERE)
    assert said.code == 0, said.err


def test_settings_are_put_back_on_no_other_manager(loaded: Operator) -> None:
    changed = loaded("setting", "set", "dfs_replication", "2", "--service", "hdfs", "--yes", "-o", "json")
    assert changed.code == 0, changed.err
    loaded.forget_requests()
    said = loaded("playbook", "undo", changed.json["run"], "--yes", **ELSEWHERE)
    assert (said.code, loaded.sent) == (5, []), said.err
    assert "hint: let the config name that one again" in said.err
    assert loaded("playbook", "undo", changed.json["run"], "--yes").code == 0


def test_a_run_in_a_virtual_cluster_goes_on_in_no_other_of_its_name(loaded: Operator) -> None:
    config = loaded.lab.folder / "config.yaml"
    written = config.read_text()
    name, address = re.findall('name: "(.+)"\\n *base_url: "(.+)"', written)[0]
    config.write_text(written + """    hooks: {before_run: [["/bin/sh", "-c", "kill -9 $PPID"]]}\n""")
    words = ("vc", "resource", "delete", "--name", "etl-scripts", "--vc", name, "--confirm", "etl-scripts", "--yes")
    with loaded.start(*words) as process:
        process.communicate()
    config.write_text(written.replace(address, address.replace("https://", "https://x")))
    run = loaded.journal()[0]["id"]
    loaded.forget_requests()
    said = loaded("playbook", "resume", run)
    assert (said.code, loaded.sent) == (5, []), said.err
    assert f"works in virtual cluster {name} at {address}, and the config names https://x" in said.err
    config.write_text(written)
    assert loaded("playbook", "resume", run).code == 0
