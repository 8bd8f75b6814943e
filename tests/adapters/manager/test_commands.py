import json
import re

import pytest
from pytest_httpserver import HTTPServer

from maint.adapters.manager import decoding
from maint.errors import AnswerMissing, LoginRefused, Transient, WorkFailed
from maint.model.manager import Place
from tests.adapters.manager.conftest import Bench
from tests.adapters.manager.test_reads import recorded


@pytest.fixture
def server(plain: HTTPServer) -> HTTPServer:
    plain.expect_request("/api/version").respond_with_data("v49")
    return plain


@pytest.mark.parametrize(("given", "read"), [(338, 338), (338.0, 338), ("338", 338), ("338.0", 338), (None, -1)])
def test_ids_are_read_in_every_spelling(given: int | float | str | None, read: int) -> None:
    assert decoding.command({"id": given}).id == read


def test_a_large_id_in_text_stays_exact() -> None:
    assert decoding.command({"id": "9007199254740993"}).id == 9007199254740993


def test_a_recorded_rejection_is_finished_and_says_why() -> None:
    found = decoding.command(recorded("start-refused-v2"))
    assert (found.active, found.success) == (False, False)
    assert found.reason == "Command Start is not currently available for execution."


def test_the_reason_may_be_in_a_child_only() -> None:
    child = {"id": 2, "active": False, "success": False, "resultMessage": "disk full"}
    found = decoding.command({"id": 1, "active": False, "success": False, "children": {"items": [child]}})
    assert found.reason == "disk full"


def test_without_the_active_field_the_end_tells() -> None:
    assert decoding.command({"id": 1}).active
    assert not decoding.command({"id": 1, "endTime": "2026-01-15T02:00:03.417Z"}).active


def test_stop_is_sent_once_without_a_body(bench: Bench, server: HTTPServer) -> None:
    path = "/api/v45/clusters/base/commands/stop"
    server.expect_request(path, method="POST").respond_with_json(recorded("stop-active-v12"))
    assert bench.client().place_command(Place("base"), "stop").active
    sent = [request for request, _ in server.log if request.method == "POST"]
    assert len(sent) == 1
    assert sent[0].content_length == 0


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_unknown_command_is_none_whichever_way_that_is_said(bench: Bench, server: HTTPServer, status: int) -> None:
    server.expect_request("/api/v45/commands/7").respond_with_json({"message": "Command 7 not found."}, status)
    assert bench.client().command(7) is None


@pytest.mark.parametrize("status", [400, 401, 429, 500, 502, 503, 504])
def test_polling_tells_passing_failures_apart(bench: Bench, server: HTTPServer, status: int) -> None:
    server.expect_request("/api/v45/commands/7").respond_with_data("<html>no</html>", status=status)
    client = bench.client()
    client.log_in()
    with pytest.raises(Transient, match=str(status)):
        client.command(7)
    assert bench.clock.pauses == []


def test_all_levels_are_asked_for_what_runs(bench: Bench, server: HTTPServer) -> None:
    running = {"id": 5, "name": "Stop", "active": True}
    server.expect_request("/api/v45/cm/service/commands").respond_with_json({"message": "none"}, 404)
    roles = [{"name": "r1", "roleState": "STARTED"}, {"name": "r2", "roleState": "BUSY"}]
    below = "/api/v45/clusters/b/services"
    answers: dict[str, list[dict[str, object]]] = {
        "/api/v45/cm/commands": [{**running, "id": 1}],
        "/api/v45/clusters": [{"name": "a b"}, {"name": "b"}],
        "/api/v45/clusters/a b/commands": [running],
        "/api/v45/clusters/b/commands": [],
        below: [{"name": "s"}, {"name": "t"}],
        f"{below}/s/commands": [{**running, "id": 6}],
        f"{below}/t/commands": [],
        f"{below}/t/roles": roles,
        f"{below}/t/roles/r2/commands": [{**running, "id": 7}],
    }
    for path, items in answers.items():
        server.expect_request(path).respond_with_json({"items": items})
    assert [found.id for found in bench.client().active_commands()] == [1, 5, 6, 7]


def test_what_runs_on_a_role_of_the_monitoring_service_is_seen(bench: Bench, server: HTTPServer) -> None:
    roles = [{"name": "mgmt-H", "roleState": "STARTING"}, {"name": "mgmt-S", "roleState": "STARTED"}]
    answers: dict[str, list[dict[str, object]]] = {
        "/api/v45/cm/commands": [],
        "/api/v45/cm/service/commands": [],
        "/api/v45/cm/service/roles": roles,
        "/api/v45/cm/service/roles/mgmt-H/commands": [{"id": 8, "name": "Start", "active": True}],
        "/api/v45/clusters": [],
    }
    for path, items in answers.items():
        server.expect_request(path).respond_with_json({"items": items})
    assert [found.id for found in bench.client().active_commands()] == [8]


def test_roles_that_were_not_begun_come_back_as_failed(bench: Bench, server: HTTPServer) -> None:
    answer = {"items": [{"id": 9, "active": True}], "errors": ["mgmt-X: unknown role"]}
    path = "/api/v45/cm/service/roleCommands/start"
    server.expect_request(path, method="POST", json={"items": ["mgmt-H", "mgmt-X"]}).respond_with_json(answer)
    begun, refused = bench.client().management_command("start", ["mgmt-H", "mgmt-X"])
    assert (begun.id, begun.active) == (9, True)
    assert (refused.success, refused.reason) == (False, "mgmt-X: unknown role")


def test_the_whole_monitoring_service_is_commanded(bench: Bench, server: HTTPServer) -> None:
    path = "/api/v45/cm/service/commands/start"
    server.expect_request(path, method="POST").respond_with_data(json.dumps({"id": 4.0, "active": True}))
    assert [found.id for found in bench.client().management_command("start")] == [4]


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_a_refused_command_is_a_failure_in_the_servers_words(bench: Bench, server: HTTPServer, status: int) -> None:
    path = "/api/v45/clusters/c/commands/stop"
    server.expect_request(path, method="POST").respond_with_json({"message": "Not today."}, status)
    with pytest.raises(WorkFailed, match="Not today") as failure:
        bench.client().place_command(Place("c"), "stop")
    assert not isinstance(failure.value, Transient | AnswerMissing)
    assert sum(request.method == "POST" for request, _ in server.log) == 1


@pytest.mark.parametrize(
    ("place", "role"),
    [
        (Place(), "Full Administrator is needed"),
        (Place(service="mgmt"), "Operator, Configurator or higher is needed"),
        (Place("c", "hdfs"), "Operator, Configurator or higher on that cluster is needed"),
    ],
)
def test_a_command_that_the_role_is_too_weak_for_names_the_role_that_its_place_wants(
    bench: Bench, server: HTTPServer, place: Place, role: str
) -> None:
    server.expect_request(re.compile("/api/v45/.*"), method="POST").respond_with_json({"message": "denied"}, 403)
    with pytest.raises(WorkFailed) as failure:
        bench.client().place_command(place, "x")
    assert role in (failure.value.hint or "")
    if place.service:
        with pytest.raises(WorkFailed) as failure:
            bench.client().role_command(place, "start", ["r"])
        assert role in (failure.value.hint or "")


def test_a_401_to_a_command_is_not_tried_again(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters/c/commands/stop", method="POST").respond_with_data("no", status=401)
    with pytest.raises(LoginRefused) as failure:
        bench.client().place_command(Place("c"), "stop")
    assert "nothing was done: try again" in (failure.value.hint or "")
    assert sum(request.method == "POST" for request, _ in server.log) == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [(502, "<html>"), (504, '{"message": "timed out"}'), (500, "oops"), (200, "<html>"), (200, '{"id":')],
)
def test_an_answer_that_is_not_the_managers_leaves_it_open(
    bench: Bench, server: HTTPServer, status: int, text: str
) -> None:
    server.expect_request("/api/v45/clusters/c/commands/stop", method="POST").respond_with_data(text, status=status)
    with pytest.raises(AnswerMissing) as failure:
        bench.client().place_command(Place("c"), "stop")
    assert failure.value.whole
    assert sum(request.method == "POST" for request, _ in server.log) == 1


@pytest.mark.parametrize("answer", [{}, [], "ok", {"status": "up"}, {"items": [{"id": 4}]}])
def test_a_200_that_is_no_command_leaves_open_what_became_of_one(
    bench: Bench, server: HTTPServer, answer: object
) -> None:
    server.expect_request("/api/v45/clusters/c/commands/stop", method="POST").respond_with_json(answer)
    with pytest.raises(AnswerMissing, match="is no clear one"):
        bench.client().place_command(Place("c"), "stop")
    assert sum(request.method == "POST" for request, _ in server.log) == 1


@pytest.mark.parametrize("answer", ["ok", {"status": "up"}])
def test_a_200_that_lists_no_commands_leaves_open_what_became_of_them(
    bench: Bench, server: HTTPServer, answer: object
) -> None:
    path = "/api/v45/cm/service/roleCommands/start"
    server.expect_request(path, method="POST").respond_with_json(answer)
    with pytest.raises(AnswerMissing, match="is no clear one"):
        bench.client().management_command("start", ["mgmt-H"])


@pytest.mark.parametrize("answer", [{}, [], "ok", {"status": "up"}, {"id": 8, "active": False, "success": True}])
def test_an_answer_that_is_not_the_command_that_was_asked_for_ends_no_wait(
    bench: Bench, server: HTTPServer, answer: object
) -> None:
    server.expect_request("/api/v45/commands/7").respond_with_json(answer)
    with pytest.raises(WorkFailed, match="7"):
        bench.client().command(7)
