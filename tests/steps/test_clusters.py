"""Stop, start and retire clusters: only states are believed, nothing is sent twice."""

import json
import shlex
import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from maint.adapters.clock import SystemClock
from maint.errors import CannotReach, DeadlinePassed, LoginRefused, NotTrusted, TimedOut, Transient
from maint.lab.manager import commands
from maint.model.manager import Command
from maint.steps.manager import clusters
from maint.steps.manager.commands import finish, wait_until
from tests.snapshots.conftest import Clock
from tests.steps.conftest import back_up

STOP = "POST /api/v45/clusters/base/commands/stop"
START = "POST /api/v45/clusters/base/commands/start"
DELETE = "DELETE /api/v45/clusters/base"


def stop(operator, *words):
    operator.forget_requests()
    return operator("cluster", "stop", "base", "--yes", *words)


def retire(operator, name="base", *words):
    operator.forget_requests()
    return operator("cluster", "delete", name, "--confirm", name, *words)


def names(operator):
    return [cluster["name"] for cluster in operator("cluster", "list", "-o", "json").json["clusters"]]


def outcomes(said):
    return [action["outcome"] for action in said.json["actions"]]


@pytest.mark.parametrize("behaviour", ["reject", "succeed"])
def test_a_cluster_is_stopped_and_started_once_each_and_left_alone_where_it_is_stopped(make, behaviour):
    operator = make(stop_stopped=behaviour)
    assert stop(operator).code == 0
    assert operator.sent == [STOP]
    said = stop(operator, "-o", "json")
    assert (said.code, outcomes(said), operator.sent) == (0, ["unchanged"], [])
    if behaviour == "reject":
        assert operator("cluster", "start", "Base Cluster 1", "--yes").code == 0
        assert operator.sent == [START]


def test_a_rejected_command_fails_with_the_reason(loaded):
    loaded.lab.break_("commands", "command-rejected")
    said = stop(loaded, "-o", "json")
    assert said.code == 1
    assert said.error["detail"][0]
    assert loaded.sent == [STOP]


def test_a_failed_command_tells_why_and_resume_shows_what_is_left_wants_one_of_several_named_and_says_who_gave_one_up(
    loaded,
):
    loaded.lab.break_("commands", "command-fails-in-child")
    said = stop(loaded, "-o", "json")
    assert said.code == 1, said.err
    reason = said.error["detail"][0]
    with loaded.lab.world.lock:
        children = [command for command in loaded.lab.world.commands.values() if command.fails]
    assert reason and reason.split(": ")[-1] in repr(children)  # though only a child knows
    assert "maint playbook resume" in said.error["hint"]
    assert loaded.sent == [STOP]
    loaded.forget_requests()
    shown = loaded("playbook", "resume", "--dry-run", "-o", "json")
    assert (shown.code, loaded.sent) == (0, [])
    assert [(action["kind"], action["state"]) for action in shown.json["left"]] == [("cluster.stop", "failed")]
    assert loaded.run_of(said)["state"] == "failed"
    assert loaded("playbook", "dismiss", loaded.run_of(said)["id"], "--reason", "typed twice").code == 0
    said = loaded("playbook", "resume", "-o", "json")
    assert (said.code, said.error["hint"]) == (5, "begin anew what is still wanted of it")
    assert said.error["detail"][1].endswith(": typed twice")
    for more in ((), ("--no-safety-net", "a drill")):
        loaded.lab.break_("commands", "command-fails-in-child")
        assert stop(loaded, *more).code == 1
    runs = [run["id"] for run in loaded("playbook", "history", "-o", "json").json["runs"]][-2:]
    said = loaded("playbook", "resume")
    assert said.code == 5
    assert all(run in said.err for run in runs)
    assert loaded("playbook", "dismiss", runs[0], "--reason", "typed twice").code == 0
    loaded.forget_requests()
    resumed = loaded("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert "is sent anew" in resumed.err  # and the one that failed is not waited for
    assert loaded.sent == [STOP]
    nothing = loaded("playbook", "resume")
    assert (nothing.code, "nothing to take up" in nothing.err) == (0, True)
    assert loaded("playbook", "resume", "-o", "json").json["left"] == []


def test_a_stop_whose_command_failed_ends_well_where_all_is_stopped_and_says_that_it_failed(loaded):
    loaded.lab.break_("commands", "command-fails-in-parent")
    said = stop(loaded)
    states = loaded("cluster", "list", "-o", "json").json["clusters"][0]["states"]
    assert (said.code, states) == (0, ["NA", "STOPPED"])
    assert "although the manager calls its command Stop" in said.err and "the lab was told to let it fail" in said.err


def test_a_command_that_never_reached_the_manager_is_not_waited_for_and_is_sent_on_resume(loaded, monkeypatch):
    monkeypatch.setattr("maint.steps.manager.commands._SETTLE", 0.5)
    loaded.lab.break_("commands", "connection-dropped")
    said = stop(loaded, "--timeout", "10s", "-o", "json")
    assert said.code == 1, said.err
    assert "nobody saw what became of the command, and nothing of it runs" in said.error["message"]
    assert loaded("playbook", "resume", "--timeout", "10s").code == 0
    assert loaded.sent == [STOP] * 2


def test_a_stop_that_ended_well_and_holds_no_more_is_sent_anew_on_resume(make, monkeypatch):
    loaded = make(command_seconds="60")
    monkeypatch.setattr("maint.steps.manager.commands._SETTLE", 0.5)
    for limit in ("3s", "20s"):
        said = stop(loaded, "--timeout", limit)
        if loaded.sent:  # else the limit passed while it planned
            break
    world, run = loaded.lab.world, loaded.run_of(said)["id"]
    loaded.lab.switch("command-seconds", "0")
    with world.lock:
        for command in world.commands.values():
            command.seconds = 0
        commands.settle(world)
    assert loaded("cluster", "start", "base", "--yes").code == 0  # all of it is stopped by now
    assert loaded("playbook", "resume", run, "--timeout", "20s").code == 1
    said = loaded("playbook", "resume", run, "--timeout", "20s")
    assert (said.code, loaded.sent) == (0, [STOP, START, STOP]), said.err


def test_a_cluster_that_somebody_deletes_after_the_plan_needs_no_stop(loaded, monkeypatch):
    plan = clusters.StopCluster.plan

    def planned(*given):
        actions = list(plan(*given))
        with loaded.lab.world.lock:
            loaded.lab.world.deployment["clusters"] = []
        return actions

    monkeypatch.setattr(clusters.StopCluster, "plan", planned)
    said = stop(loaded)
    assert (said.code, loaded.sent) == (0, []), said.err
    assert "cluster base is gone already" in said.err


@pytest.mark.parametrize("status", ["404", "500"])
def test_a_command_that_the_manager_has_forgotten_is_sent_anew_on_resume(make, monkeypatch, status):
    loaded = make(command_seconds="60", unknown_command=status)
    monkeypatch.setattr("maint.steps.manager.commands._SETTLE", 0.5)
    assert stop(loaded, "--timeout", "3s").code == 1
    loaded.lab.server.restart()
    with loaded.lab.world.lock:
        loaded.lab.world.commands.clear()
    loaded.lab.server.wait()
    assert loaded("playbook", "resume", "--timeout", "10s").code == 1
    loaded.lab.switch("command-seconds", "0")
    assert loaded("playbook", "resume", "--timeout", "10s").code == 0
    assert loaded.sent == [STOP] * 2


def test_what_is_printed_to_be_typed_takes_a_cluster_of_any_name_as_one_word(loaded):
    name = "Cluster 1 #$(id)'s"  # the first is what a manager calls one by itself
    with loaded.lab.world.lock:
        world = loaded.lab.world
        world.deployment = json.loads(json.dumps(world.deployment).replace('"base"', json.dumps(name)))
    back_up(loaded)
    planned = [
        ("cluster", "stop", name),
        ("cluster", "delete", name, "--confirm", name),
        ("service", "stop", "hive", "--cluster", name),
    ]
    for words in planned:
        shown = loaded(*words, "--dry-run", "-o", "json")
        assert shown.code == 0, shown.err
        for action in shown.json["plan"]["actions"]:
            assert name in shlex.split(action["undo"].strip("`")), action["undo"]
    said = loaded("cluster", "stop", name, "--yes")
    assert said.code == 0, said.err


def test_where_no_run_did_any_work_resume_is_no_success(make):
    operator = make()
    shutil.rmtree(operator.state / "runs", ignore_errors=True)
    said = operator("playbook", "resume")
    assert said.code == 5
    assert "nothing was done" in said.err


def test_a_passing_trouble_while_polling_is_lived_through_and_one_that_stays_is_not(loaded):
    loaded.lab.switch("command-seconds", "0.5")
    for verb, trouble in (
        ("stop", ("connection-dropped", "unauthorised-once")),
        ("start", ("bad-request-once", "error-500-once")),
        ("stop", ("unavailable-once", "proxy-502")),
    ):
        for fault in trouble:
            loaded.lab.break_("polling", fault)
        loaded.forget_requests()
        said = loaded("cluster", verb, "base", "--yes")
        assert said.code == 0, said.err
        assert loaded.sent == [STOP if verb == "stop" else START], trouble
        assert loaded.lab.status()["faults"] == [], trouble
    loaded.lab.switch("command-seconds", "600")
    loaded.lab.break_("polling", "error-500")
    loaded.forget_requests()
    said = loaded("cluster", "start", "base", "--yes")
    assert said.code == 1, said.err
    assert loaded.sent == [START]


def test_a_command_that_outlasts_the_operators_limit_is_named():
    command: Any = Command(123, "Stop", True, None, "")
    manager: Any = SimpleNamespace(command=lambda _: command)
    with pytest.raises(DeadlinePassed, match="the limit of") as failure, SystemClock().limit(0.3):
        list(finish(manager, SystemClock(), command, 60.0))
    assert failure.value.detail == ("command Stop (123) still runs",)
    assert "playbook resume" in failure.value.hint


def test_a_resumed_stop_waits_for_the_command_that_was_sent(loaded):
    for seconds in (1, 4, 16, 64):
        loaded.lab.switch("command-seconds", str(seconds + 2))
        said = stop(loaded, "--timeout", f"{seconds}s")
        if loaded.sent:  # else the limit passed while it planned, which a busy machine takes a second for
            break
    assert said.code == 1, said.err
    resumed = loaded("playbook", "resume", loaded.run_of(said)["id"])
    assert resumed.code == 0, resumed.err
    assert loaded.sent == [STOP]


def begin(operator, service, verb, seconds):
    """Have somebody else send a command to one service of the base cluster."""
    world = operator.lab.world
    with world.lock:
        world.switches.chosen["command-seconds"] = str(seconds)
        cluster = next(one for one in world.deployment["clusters"] if one["name"] == "base")
        found = next(one for one in cluster["services"] if one["name"] == service)
        command = commands.start_on_service(world, cluster, found, verb, "somebody else")
        world.switches.chosen["command-seconds"] = "0.05"
    assert command.active, command.message


def test_a_cluster_of_which_somebody_else_stops_one_service_is_stopped_after_that_if_anything_of_it_still_runs(loaded):
    begin(loaded, "hive", "Stop", 1)
    said = stop(loaded, "--timeout", "60s")
    assert said.code == 0, said.err
    assert loaded.sent == [STOP]
    begin(loaded, "zookeeper", "Start", 0)
    with loaded.lab.world.lock:
        commands.settle(loaded.lab.world)
    begin(loaded, "zookeeper", "Stop", 1)  # the last that runs
    said = stop(loaded, "--timeout", "60s")
    assert (said.code, loaded.sent) == (0, []), said.err


def test_what_runs_on_a_single_service_is_seen_and_keeps_a_restore_waiting(loaded):
    begin(loaded, "hdfs", "Restart", 60)
    assert loaded("site", "status", "-o", "json").json["active_commands"][0].startswith("Restart (")
    said = loaded("restore", "plan", "--manager-only")
    assert (said.code, "still running; wait until it has ended" in said.err) == (5, True), said.err


def test_retiring_proves_a_backup_keeps_the_present_stops_and_deletes_though_the_answer_is_lost_and_once(loaded):
    loaded.lab.break_("delete", "delete-answer-lost")  # a look replaces it
    said = retire(loaded, "ecs-01", "--api-only", "-o", "json")
    assert said.code == 0, said.err
    assert [action["kind"] for action in said.json["actions"]][-2:] == ["cluster.stop", "cluster.delete"]
    purposes = [item["purpose"] for item in loaded("backup", "list", "-o", "json").json["snapshots"]]
    assert purposes == ["backup", "safety"]
    assert names(loaded) == ["base"]
    assert [line.split()[0] for line in loaded.sent] == ["POST", "DELETE"]
    said = retire(loaded, "ecs-01")
    assert (said.code, loaded.sent) == (2, [])


def test_a_proxys_answer_to_a_delete_is_named_where_the_cluster_stays(loaded, monkeypatch):
    monkeypatch.setattr(clusters, "_SETTLE", 1.0)
    loaded.lab.break_("delete", "proxy-502")
    said = retire(loaded, "ecs-01", "--api-only", "-o", "json")
    told = [words in said.error["message"] for words in ("502 Bad Gateway", "ecs-01 is still there")]
    assert (said.code, told) == (1, [True, True]), said.error
    assert said.err.count("cluster ecs-01 is still listed") == 1, said.err


def two_bases(document, refs):
    """Add a second base and a compute cluster on a context of the first one."""
    more = {"version": "CDH7", "fullVersion": "7.1.7", "services": []}
    document["clusters"] += [
        {"name": "base2", "displayName": "B", "clusterType": "BASE_CLUSTER", **more},
        {"name": "compute-1", "displayName": "C", "clusterType": "COMPUTE_CLUSTER", "dataContextRefs": refs, **more},
    ]
    services = [{"clusterName": "base", "serviceName": "hdfs"}]
    document["dataContexts"] = {"items": [{"name": "context-1", "displayName": "X", "services": services}]}


def test_a_base_on_which_no_compute_cluster_hangs_is_retired_beside_one_that_carries_them(loaded):
    assert "ecs-01" in loaded("cluster", "delete", "base", "--dry-run").out, "an ECS cluster beside it is but a warning"
    world = loaded.lab.world
    with world.lock:
        world.deployment = json.loads(json.dumps(world.deployment))
        two_bases(world.deployment, [])
        compute = world.deployment["clusters"][-1]
        world.changed()
    plan = loaded("cluster", "delete", "base2", "--dry-run", "--no-safety-net", "no backup has it yet")
    assert "on which base compute cluster compute-1 hangs" in plan.out
    with world.lock:
        compute["dataContextRefs"] = [{"name": "context-1"}]
        world.changed()
    back_up(loaded)
    assert "on which base compute cluster compute-1 hangs" not in loaded("cluster", "delete", "base2", "--dry-run").out
    said = retire(loaded, "base2")
    assert (said.code, "base2" in names(loaded)) == (0, False), said.err
    for contexts, more, told in (
        (world.deployment["dataContexts"], [compute], ["compute cluster compute-1", "data context context-1"]),
        ({"items": []}, [compute], ["compute cluster compute-1"]),  # on the only base that is left
        (world.deployment["dataContexts"], [], ["data context context-1"]),
    ):
        with world.lock:
            kept = [one for one in world.deployment["clusters"] if one["name"] != "compute-1"]
            world.deployment |= {"dataContexts": contexts, "clusters": [*kept, *more]}
            world.changed()
        refused = retire(loaded, "base")
        assert (refused.code, loaded.sent) == (5, []), refused.err
        assert [words for words in told if words not in refused.err] == []


def test_what_is_waited_for_is_told_once_and_named_when_the_limit_passes():
    shown = []
    with pytest.raises(TimedOut, match="cluster c is still there after") as failure:
        for words in wait_until(
            SystemClock(), 0.5, lambda: ["cluster c is listed"], "cluster c is still there", "look"
        ):
            shown.append(words)
    assert shown == ["waiting: cluster c is listed"]
    assert failure.value.detail == ("cluster c is listed",)


@pytest.mark.parametrize("error", [CannotReach("no connection", hint="x"), Transient("500", hint="x")])
def test_five_troubles_in_a_row_end_no_wait_and_six_do(error):
    looks = [error] * 5

    def look():
        if looks:
            raise looks.pop()
        return []

    for troubles, ends in ((5, False), (6, True)):
        looks[:] = [error] * troubles
        waiting = wait_until(Clock(), 600, look, "it is not there", "look")
        if ends:
            with pytest.raises(type(error)):
                list(waiting)
        else:
            assert len(list(waiting)) == 5


@pytest.mark.parametrize("error", [LoginRefused("not let in", hint="x"), NotTrusted("a stranger's", hint="x")])
def test_a_password_or_a_certificate_that_is_refused_is_not_tried_again(error):
    looks = [error]

    def look():
        if looks:
            raise looks.pop()
        return []

    with pytest.raises(type(error)):
        list(wait_until(Clock(), 600, look, "it is not there", "look"))
