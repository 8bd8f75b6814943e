"""Stop, start and delete against a manager of other habits: once each, whatever it answers in between."""

import pytest
from werkzeug import Request, Response

from tests.acceptance.manager_stub.manager import Manager, page, said

STOP, START = "POST /clusters/base/commands/stop", "POST /clusters/base/commands/start"


def test_a_cluster_is_stopped_and_started_though_ids_are_fractions_and_ecs_is_unknown(proven, manager):
    stopped = proven("cluster", "stop", "base", "--yes")
    assert stopped.code == 0, stopped.err
    assert set(manager.states["base"].values()) == {"STOPPED"}
    started = proven("cluster", "start", "base", "--yes")
    assert started.code == 0, started.err
    assert manager.sent == [STOP, START]


def test_passing_troubles_while_polling_are_lived_through(proven, manager):
    at_work = {"id": 338.0, "name": "Stop", "active": True}
    troubles = (said({"message": "try later"}, 400), page(401), page(503))
    manager.script["GET /commands/338"] = [one for trouble in troubles for one in (trouble, trouble, said(at_work))]
    stopped = proven("cluster", "stop", "base", "--yes")
    assert stopped.code == 0, stopped.err
    assert (manager.sent, manager.script["GET /commands/338"]) == ([STOP], [])


def test_a_command_that_is_refused_at_once_fails_in_the_servers_words(proven, manager):
    words = "There is already a pending command on this entity."
    manager.script[STOP] = [said({"id": -1, "name": "Stop", "active": False, "success": False, "resultMessage": words})]
    stopped = proven("cluster", "stop", "base", "--yes")
    assert (stopped.code, words in stopped.err) == (1, True), stopped.err
    assert manager.sent == [STOP]


def test_the_reason_of_a_failure_may_be_known_to_a_childs_child_only(proven, manager):
    deepest = {"id": 9.0, "active": False, "success": False, "resultMessage": "the disk of base-03 is full"}
    child = {"id": 8.0, "active": False, "success": False, "children": {"items": [deepest]}}
    manager.failing = {"success": False, "resultMessage": "Failed.", "children": {"items": [child]}}
    stopped = proven("cluster", "stop", "base", "--yes")
    assert (stopped.code, "the disk of base-03 is full" in stopped.err) == (1, True), stopped.err
    assert manager.sent == [STOP]


def test_a_stop_whose_answer_is_lost_is_waited_for_by_the_states(proven, manager):
    def done_all_the_same(request: Request) -> Response:
        manager.states["base"] = dict.fromkeys(manager.states["base"], "STOPPED")
        return page(502)

    manager.script[STOP] = [done_all_the_same]
    stopped = proven("cluster", "stop", "base", "--yes")
    assert stopped.code == 0, stopped.err
    assert manager.sent == [STOP]


@pytest.mark.parametrize("answer", ["usual", "lost", "unknown"])
def test_a_cluster_is_deleted_once(proven, manager, answer):
    def gone(request: Request) -> Response:
        told = manager.delete("base")
        return page(502) if answer == "lost" else manager.delete("base") if answer == "unknown" else told

    assert proven("cluster", "stop", "base", "--yes").code == 0
    manager.script["DELETE /clusters/base"] = [gone]
    deleted = proven("cluster", "delete", "base", "--confirm", "base")
    assert deleted.code == 0, deleted.err
    assert manager.sent == [STOP, "DELETE /clusters/base"]
    assert "base" not in manager.states


def test_a_delete_that_is_refused_leaves_the_cluster_and_fails(proven, manager):
    assert proven("cluster", "stop", "base", "--yes").code == 0
    manager.script["DELETE /clusters/base"] = [said({"message": "Not while it is in use.", "causes": ["by X"]}, 400)]
    deleted = proven("cluster", "delete", "base", "--confirm", "base")
    assert (deleted.code, "Not while it is in use." in deleted.err) == (1, True), deleted.err
    assert "base" in manager.states


def killed_amid(operator, manager: Manager, line: str, *words: str) -> None:
    """Start a command, and kill it once a request has arrived."""
    manager.kill_amid(line, operator.fork(*words))


def test_a_stop_killed_while_it_polls_is_waited_for_and_not_sent_again(proven, manager):
    manager.polls = 1_000_000
    killed_amid(proven, manager, "GET /commands/338", "cluster", "stop", "base", "--yes")
    manager.commands[338]["left"] = 2
    resumed = proven("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert manager.sent == [STOP]


@pytest.mark.parametrize(("verb", "line"), [("stop", STOP), ("start", START)])
def test_a_command_killed_before_its_answer_came_is_not_sent_again(proven, manager, verb, line):
    if verb == "start":
        manager.states["base"] = dict.fromkeys(manager.states["base"], "STOPPED")

    manager.script[line] = [manager.late(lambda: manager.begin("base", verb))]
    killed_amid(proven, manager, line, "cluster", verb, "base", "--yes")
    resumed = proven("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert manager.sent == [line]


def test_a_delete_killed_before_its_answer_came_is_not_sent_again(proven, manager):
    assert proven("cluster", "stop", "base", "--yes").code == 0

    manager.script["DELETE /clusters/base"] = [manager.late(lambda: manager.delete("base"))]
    killed_amid(proven, manager, "DELETE /clusters/base", "cluster", "delete", "base", "--confirm", "base")
    resumed = proven("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert manager.sent == [STOP, "DELETE /clusters/base"]
