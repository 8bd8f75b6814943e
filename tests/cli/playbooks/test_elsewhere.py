"""A run goes on, and is undone, on the manager on which it was begun, whatever the config names by then."""

import json
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


def test_a_run_goes_on_with_no_other_manager_and_the_same_one_at_another_address_is_named_once(
    stopped: Operator,
) -> None:
    for flag in ("--yes", "--dry-run"):
        refused = stopped("playbook", "resume", flag, **ELSEWHERE)
        assert (refused.code, stopped.sent) == (5, []), refused.err
        assert "works on the manager at 127.0.0.1:" in refused.err, refused.err
        assert "names the one at localhost:" in refused.err, refused.err
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
    with loaded.fork(*words) as process:
        process.communicate()
    config.write_text(written.replace(address, address.replace("https://", "https://x")))
    run = loaded.journal()[0]["id"]
    loaded.forget_requests()
    said = loaded("playbook", "resume", run)
    assert (said.code, loaded.sent) == (5, []), said.err
    assert f"works in virtual cluster {name} at {address}, and the config names https://x" in said.err
    config.write_text(written)
    assert loaded("playbook", "resume", run).code == 0


@pytest.fixture
def killed(loaded: Operator) -> tuple[Operator, str]:
    """An operator whose run was killed before it put a file on one of two hosts, and how the config was written."""
    config, book = loaded.lab.folder / "config.yaml", loaded.lab.folder / "book.json"
    (loaded.lab.folder / "file").write_text("x")
    given = {"hosts": [_HOSTS[0]], "file": str(loaded.lab.folder / "file"), "path": "/etc/put-there"}
    step = {"name": "put", "do": "host.put", "with": given}
    book.write_text(json.dumps({"name": "mine", "summary": "Mine.", "steps": [step]}))
    written = config.read_text()
    config.write_text(written + """    hooks: {before_run: [["/bin/sh", "-c", "kill -9 $PPID"]]}\n""")
    with loaded.fork("playbook", "run", str(book), "--yes") as process:
        process.communicate()
    config.write_text(written)
    return loaded, written


_HOSTS = ("base-02.example.internal", "base-03.example.internal")


def ports(written: str) -> list[str]:
    return [re.findall(f'name: "{host}".*?port: (\\d+)', written, re.DOTALL)[0] for host in _HOSTS]


def put_on(operator: Operator) -> list[bool]:
    return [(operator.lab.folder / "hosts" / host / "root" / "etc" / "put-there").exists() for host in _HOSTS]


def test_a_run_goes_on_on_no_other_host_of_the_name(killed: tuple[Operator, str]) -> None:
    operator, written = killed
    one, other = ports(written)
    (operator.lab.folder / "config.yaml").write_text(
        written.replace(f"port: {one}", "port: 0")
        .replace(f"port: {other}", f"port: {one}")
        .replace("port: 0", f"port: {other}")
    )
    for flag in ("--yes", "--dry-run"):
        said = operator("playbook", "resume", flag)
        assert (said.code, put_on(operator)) == (5, [False, False]), said.err
        assert f"works on host {_HOSTS[0]} at 127.0.0.1:{one}, and the config names 127.0.0.1:{other}" in said.err
    (operator.lab.folder / "config.yaml").write_text(written)
    assert operator("playbook", "resume").code == 0
    assert put_on(operator) == [True, False]


def test_a_run_goes_on_on_the_same_host_at_another_address(killed: tuple[Operator, str]) -> None:
    operator, written = killed
    one, _ = ports(written)
    (operator.lab.folder / "config.yaml").write_text(
        re.sub(f'address: "127.0.0.1"(\\s+port: {one})', r'address: "localhost"\1', written)
    )
    said = operator("playbook", "resume")
    assert (said.code, "no key of that one is known" in said.err, put_on(operator)) == (5, True, [False, False])
    assert operator("host", "trust", _HOSTS[0], "--yes").code == 0
    said = operator("playbook", "resume")
    assert (said.code, put_on(operator)) == (0, [True, False]), said.err


def test_a_run_goes_on_where_a_host_could_not_be_reached_at_the_address_of_before(loaded: Operator) -> None:
    config, book = loaded.lab.folder / "config.yaml", loaded.lab.folder / "book.json"
    (loaded.lab.folder / "file").write_text("x")
    command = {"do": "host.run", "with": {"hosts": [_HOSTS[0]], "command": "true"}}
    book.write_text(json.dumps({"name": "mine", "summary": "Mine.", "steps": [{"name": "run", **command}]}))
    written = config.read_text()
    one, _ = ports(written)
    config.write_text(written.replace(f"port: {one}", "port: 9"))
    assert loaded("playbook", "run", str(book), "--yes").code == 1
    config.write_text(written)
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
