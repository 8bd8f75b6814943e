"""Services and roles are moved once each, and only their states are believed."""

import json
import re
from types import SimpleNamespace

import pytest

from maint.adapters.manager.client import ManagerClient
from maint.model.manager import Cluster, Service
from maint.steps.services import services
from maint.steps.services.places import ServiceArguments

SERVICE = "POST /api/v45/clusters/base/services/hive/commands"
HDFS = "/api/v45/clusters/base/services/hdfs"


def states(operator):
    return {one["name"]: one["state"] for one in operator("service", "list", "-o", "json").json["services"]}


def run(operator, tmp_path, do, confirm="", **given):
    """Run a playbook of one step."""
    path = tmp_path / "own.yaml"
    path.write_text(
        f"name: own\nsummary: One step.\nsteps:\n  - name: It\n    do: {do}\n    with: {json.dumps(given)}\n"
    )
    operator.forget_requests()
    return operator("playbook", "run", str(path), "--yes", *(("--confirm", confirm) if confirm else ()), "-o", "json")


def test_a_service_also_the_monitoring_is_stopped_started_restarted_and_refreshed_once_each(loaded):
    for verb, state in (("stop", "STOPPED"), ("start", "STARTED"), ("restart", "STARTED")):
        loaded.forget_requests()
        said = loaded("service", verb, "hive", "--yes")
        assert (said.code, loaded.sent) == (0, [f"{SERVICE}/{verb}"]), said.err
        assert states(loaded)["hive"] == state
    loaded.forget_requests()
    assert loaded("service", "start", "hive", "--yes").code == 0
    assert loaded.sent == []  # it runs already
    said = loaded("service", "stop", "hvie", "--yes", "-o", "json")
    assert (said.code, said.error["hint"]) == (2, "did you mean 'hive'?")
    assert loaded("service", "refresh", "hdfs", "--yes").code == 0
    assert loaded.sent == [f"POST {HDFS}/roleCommands/refresh"]  # to the roles that know it
    assert loaded("service", "refresh", "zookeeper", "--yes").code == 5
    assert loaded("service", "restart", "mgmt", "--yes").code == 0
    assert "POST /api/v45/cm/service/commands/restart" in loaded.sent


@pytest.mark.parametrize("kind", ["service", "role"])
def test_what_somebody_deletes_after_the_plan_needs_no_stop(loaded, tmp_path, monkeypatch, kind):
    step = {"service": services.StopService, "role": services.StopRole}[kind]
    plan, given = step.plan, {"type": "NAMENODE"} if kind == "role" else {}

    def planned(*arguments):
        actions = list(plan(*arguments))
        with loaded.lab.world.lock:
            cluster = next(one for one in loaded.lab.world.deployment["clusters"] if one["name"] == "base")
            hdfs = next(one for one in cluster["services"] if one["name"] == "hdfs")
            hdfs["roles"].clear() if kind == "role" else cluster["services"].remove(hdfs)
        return actions

    monkeypatch.setattr(step, "plan", planned)
    said = run(loaded, tmp_path, f"{kind}.stop", service="hdfs", cluster="base", **given)
    assert (said.code, loaded.sent) == (0, []), said.err
    (action,) = said.json["actions"]
    assert action["outcome"] == "unchanged" and action["detail"].endswith("of base is gone already")


def test_a_service_that_somebody_deletes_while_it_is_planned_is_no_crash():
    listed = iter([[Service("hdfs", "HDFS", "STARTED", "FRESH")], []])
    clusters = [Cluster("base", "base", "BASE_CLUSTER", "7")]
    manager = SimpleNamespace(
        clusters=lambda: clusters, services=lambda _: next(listed), management_service=lambda: None
    )
    (action,) = services.StopService().plan(ServiceArguments(service="hdfs"), SimpleNamespace(manager=manager))
    assert action.summary == "stop service hdfs of base (it is STARTED)"


def test_a_service_that_does_not_stop_fails_with_the_reason_of_the_child_and_the_run_which_resume_alone_does_not_find(
    loaded,
):
    loaded.lab.break_("services", "command-fails-in-child")
    said = loaded("service", "stop", "hive", "--yes", "-o", "json")
    assert said.code == 1
    assert "role's log" in said.error["detail"][0]
    assert states(loaded)["hive"] == "STARTED"
    ways = re.findall(r"`(maint playbook resume.*?)`", said.error["hint"])
    assert ways == [f"maint playbook resume {loaded.run_of(said)['id']}"], said.error["hint"]
    alone = loaded("playbook", "resume", "-o", "json")
    assert (alone.code, ways[0] in alone.error["hint"]) == (5, True), alone.err
    loaded.lab.repair()
    again = loaded(*ways[0].split()[1:])
    assert (again.code, states(loaded)["hive"]) == (0, "STOPPED"), again.err


def test_a_lost_answer_is_decided_by_looking(make):
    operator = make(command_seconds="1")
    operator.lab.break_("services", "command-answer-lost")
    said = operator("service", "restart", "hive", "--yes")
    assert (said.code, operator.sent) == (0, [f"{SERVICE}/restart"]), said.err


def test_a_restart_of_which_nobody_can_tell_is_not_called_done_and_is_sent_again_on_resume(make):
    loaded = make(command_seconds="0")
    loaded.lab.break_("services", "command-answer-lost")
    said = loaded("service", "restart", "hive", "--yes", "-o", "json")
    assert (said.code, "cannot be told" in said.error["message"]) == (1, True)
    run = loaded("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    said = loaded("playbook", "resume", run)
    assert (said.code, loaded.sent) == (0, [f"{SERVICE}/restart"] * 2), said.err


def test_a_restart_that_the_manager_has_forgotten_is_sent_again_on_resume(make):
    loaded = make(command_seconds="60")
    assert loaded("service", "restart", "hive", "--yes", "--timeout", "3s").code == 1
    run = loaded("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    with loaded.lab.world.lock:
        loaded.lab.world.commands.clear()
    loaded.lab.switch("command-seconds", "0")
    said = loaded("playbook", "resume", run, "-o", "json")
    assert (said.code, "knows it no more" in said.error["message"]) == (1, True), said.err
    assert f"`maint playbook resume {run}` sends it again" in said.error["hint"]
    said = loaded("playbook", "resume", run)
    assert (said.code, loaded.sent) == (0, [f"{SERVICE}/restart"] * 2), said.err


@pytest.mark.parametrize(("method", "words"), [("role_command", "began nothing"), ("command", "no longer knows")])
def test_a_refresh_of_which_the_manager_says_nothing_is_not_called_done(make, monkeypatch, method, words):
    operator = make(command_seconds="1")
    silent = {"role_command": lambda *_: [], "command": lambda *_: None}
    monkeypatch.setattr(ManagerClient, method, silent[method])
    said = operator("service", "refresh", "hdfs", "--yes", "-o", "json")
    assert (said.code, words in str(said.error["detail"])) == (1, True), said.err


def test_roles_are_restarted_one_after_the_other_and_go_into_maintenance_mode_and_out_of_it(
    loaded, tmp_path, monkeypatch
):
    said = run(loaded, tmp_path, "role.restart", service="hdfs", type="DATANODE")
    assert said.code == 0, said.err
    assert len(said.json["actions"]) > 1
    assert loaded.sent == [f"POST {HDFS}/roleCommands/restart"] * len(said.json["actions"])
    given = {"service": "hdfs", "type": "NAMENODE"}
    outcomes = []
    for on in (True, True, False):
        said = run(loaded, tmp_path, "role.maintenance", **given, on=on)
        assert said.code == 0, said.err
        outcomes += [{one["outcome"] for one in said.json["actions"]}]
    assert outcomes == [{"done"}, {"unchanged"}, {"done"}]
    nothing = SimpleNamespace(key="nothing", ref={})
    monkeypatch.setattr("maint.lab.manager.api.commands.entity_of", lambda *_: nothing)
    said = run(loaded, tmp_path, "role.maintenance", **given, on=True)  # it is not, though the manager says so
    assert (said.code, "is not in maintenance mode" in said.err) == (1, True), said.err


COMMANDS = {
    "of a service": ({"service": "hdfs", "name": "hdfsRollEdits"}, f"POST {HDFS}/commands/hdfsRollEdits"),
    "of a cluster": ({"cluster": "base", "name": "refresh"}, "POST /api/v45/clusters/base/commands/refresh"),
    "for clients": (
        {"cluster": "base", "name": "deployClientConfig"},
        "POST /api/v45/clusters/base/commands/deployClientConfig",
    ),
    "of the manager": ({"manager": True, "name": "inspectHosts"}, "POST /api/v45/cm/commands/inspectHosts"),
    "of a host": (
        {"host": "base-02", "name": "enterMaintenanceMode"},
        "POST /api/v45/hosts/0b6d2c44-93f0-4e57-8a3f-5d0c9e7f2b02/commands/enterMaintenanceMode",
    ),
    "of a role": (
        {"role": "hdfs-DATANODE-24998d7fa92993a754e83b3a74c31296", "name": "jstack"},
        f"POST {HDFS}/roleCommands/jstack",
    ),
}


def test_any_command_is_sent_by_its_name_and_waited_for_says_why_it_fails_and_asks_for_a_name_where_it_sounds_harmful(
    loaded, tmp_path
):
    for which, (given, call) in COMMANDS.items():
        said = run(loaded, tmp_path, "command.run", **given)
        assert (said.code, loaded.sent) == (0, [call]), (which, said.err)
    assert run(loaded, tmp_path, "command.run", service="yarn", name="yarnFormatStateStore").code == 5
    assert loaded.sent == []
    assert run(loaded, tmp_path, "command.run", cluster="base", name="stop").code == 5  # has guards of its own
    loaded.lab.break_("services", "command-fails-in-child")
    said = run(loaded, tmp_path, "command.run", service="hdfs", name="hdfsRollEdits")
    assert (said.code, "role's log" in said.error["detail"][0]) == (1, True)
    said = run(loaded, tmp_path, "command.run", service="hdfs", name="hdfsRolEdits", confirm="hdfs")
    assert (said.code, "/static/apidocs" in said.error["hint"]) == (1, True)


ABOUT = (  # what is about a cluster, or about what it has
    ("command.run", {"cluster": "base", "name": "refresh"}),
    ("command.run", {"service": "hdfs", "name": "refresh"}),
    ("service.stop", {"service": "hdfs"}),
    ("service.refresh", {"service": "hdfs"}),
    ("role.restart", {"service": "hdfs", "type": "NAMENODE"}),
    ("role.maintenance", {"service": "hdfs", "type": "NAMENODE"}),
    ("config.set", {"service": "hdfs", "name": "dfs_replication", "value": 2}),
)


def test_no_command_goes_to_a_cluster_that_was_made_anew_since_the_plan(loaded, tmp_path):
    def made(uuid):
        with loaded.lab.world.lock:
            for cluster in loaded.lab.world.deployment["clusters"]:
                cluster["uuid"] = f"{uuid}-{cluster['name']}"

    for kind, which in ABOUT:
        made("first")
        steps = [
            {"name": "Wait", "do": "approve", "with": {"question": "Go on?"}},
            {"name": "It", "do": kind, "with": which},
        ]
        (tmp_path / "own.yaml").write_text(json.dumps({"name": "own", "summary": "Two steps.", "steps": steps}))
        said = loaded("playbook", "run", str(tmp_path / "own.yaml"), "--yes")
        run_ = loaded.run_of(said)["id"]
        assert loaded("playbook", "approve", run_).code == 0
        made("second")
        loaded.forget_requests()
        said = loaded("playbook", "resume", run_)
        assert (said.code, loaded.sent) == (5, []), (kind, which, said.err)
        assert "cluster base is another one than the plan was made for" in said.err, (kind, which)


@pytest.mark.parametrize("fault", ["command-answer-lost", "command-fails-in-parent", "command-rejected"])
def test_a_harmful_command_is_sent_again_only_where_its_end_is_known(make, tmp_path, fault):
    operator = make(command_seconds="0")
    operator.lab.break_("services", fault)
    given = {"service": "zookeeper", "name": "zooKeeperCleanup", "confirm": "zookeeper"}
    assert run(operator, tmp_path, "command.run", **given).code == 1
    which = operator("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    said = operator("playbook", "resume", which, "-o", "json")
    if fault == "command-answer-lost":
        assert (said.code, operator.sent) == (
            1,
            ["POST /api/v45/clusters/base/services/zookeeper/commands/zooKeeperCleanup"],
        ), said.err
        assert "is not sent again" in said.error["message"]
        assert f"maint playbook dismiss {which}" in said.error["hint"]
    else:
        assert (said.code, len(operator.sent)) == (0, 2), said.err
