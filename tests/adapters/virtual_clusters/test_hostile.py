"""Answers that no virtual cluster should give are errors that name what was expected, never empty lists."""

import json
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.virtual_clusters import client
from maint.adapters.virtual_clusters.calls import Patience
from maint.errors import CannotReach, LoginRefused, WorkFailed
from maint.model.virtual_cluster import File
from tests.adapters.manager.conftest import answer, request_head
from tests.adapters.virtual_clusters.conftest import Bench
from tests.adapters.virtual_clusters.server import PAGE, PASSWORD

TOKEN = "/gateway/authtkn/knoxtoken/api/v1/token"


@pytest.fixture
def scripted(bench: Bench, server: HTTPServer) -> HTTPServer:
    """A server that knows the gateway only."""
    server.clear()
    server.expect_request(TOKEN).respond_with_json({"access_token": "t"})
    return server


@pytest.mark.parametrize("body", [{"unexpected": True}, {}, {"jobs": "many"}, {"jobs": ["text"]}, [1], "text"])
def test_an_answer_that_is_no_list_is_not_an_empty_one(bench: Bench, scripted: HTTPServer, body: Any) -> None:
    scripted.expect_request("/dex/api/v1/jobs").respond_with_json(body)
    with pytest.raises(WorkFailed, match="what was expected") as failure:
        bench.client().jobs()
    assert failure.value.hint


@pytest.mark.parametrize("status", [400, 404])
def test_a_list_that_is_refused_is_told_in_the_servers_words(bench: Bench, scripted: HTTPServer, status: int) -> None:
    refused = {"status": "error", "message": "invalid filter: no such field 'foo'"}
    scripted.expect_request("/dex/api/v1/jobs").respond_with_json(refused, status)
    with pytest.raises(WorkFailed, match=f"{status} .*no such field 'foo'") as failure:
        bench.client().jobs(["foo[eq]x"])
    assert "filter" in str(failure.value.hint)


@pytest.mark.parametrize("more", ["true", "false", 1, {}])
def test_a_list_that_says_unreadably_whether_it_goes_on_is_not_taken_for_whole(
    bench: Bench, scripted: HTTPServer, more: Any
) -> None:
    body = {"jobs": [{"name": "a", "type": "spark"}], "meta": {"hasNext": more}}
    scripted.expect_request("/dex/api/v1/jobs").respond_with_json(body)
    with pytest.raises(WorkFailed, match="hasNext"):
        bench.client().jobs()


def test_a_first_page_that_shows_nothing_of_more_is_no_empty_list(bench: Bench, scripted: HTTPServer) -> None:
    scripted.expect_request("/dex/api/v1/jobs").respond_with_json({"jobs": [], "meta": {"hasNext": True}})
    with pytest.raises(WorkFailed, match="an item on a page behind which there are more") as failure:
        bench.client().jobs()
    assert failure.value.hint


def test_a_server_with_shorter_pages_that_does_not_say_whether_a_list_goes_on_is_read_to_its_end(
    bench: Bench, scripted: HTTPServer
) -> None:
    names = [f"job-{number:03}" for number in range(130)]

    def shown(request: Request) -> Response:
        offset, limit = int(request.args["offset"]), min(50, int(request.args["limit"]))
        jobs = [{"name": name} for name in names[offset : offset + limit]]
        return Response(json.dumps({"jobs": jobs, "meta": {"limit": limit, "offset": offset}}))

    scripted.expect_request("/dex/api/v1/jobs").respond_with_handler(shown)
    assert [job.name for job in bench.client().jobs()] == names


@pytest.mark.parametrize("bound", ["_MOST", "_LARGEST"])
def test_a_list_without_an_end_is_left(
    bench: Bench, scripted: HTTPServer, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(request: Request) -> Response:
        offset, limit = int(request.args["offset"]), int(request.args["limit"])
        jobs = [{"name": f"job-{number}"} for number in range(offset, offset + limit)]
        return Response(json.dumps({"jobs": jobs, "meta": {"hasNext": offset < 50_000}}))  # without the bound, so far

    monkeypatch.setattr(client, bound, 10_000)
    scripted.expect_request("/dex/api/v1/jobs").respond_with_handler(shown)
    with pytest.raises(WorkFailed, match="the list of jobs has more than") as failure:
        bench.client().jobs()
    assert failure.value.hint


def test_a_file_is_not_read_beyond_what_its_resource_says(bench: Bench, scripted: HTTPServer) -> None:
    block, blocks = b" " * 65536, 500
    scripted.expect_request("/dex/api/v1/resources/r/a").respond_with_handler(
        lambda _: Response(block for _ in range(blocks))
    )
    file, read = File({"path": "a", "sizeBytes": len(block)}), 0
    with pytest.raises(WorkFailed, match="longer than"), bench.client().download("r", file) as answer:
        while found := answer.read(len(block)):
            read += len(found)
    assert read == len(block)


@pytest.mark.parametrize("body", [{"jobs": []}, {"jobs": None, "meta": {}}, {"meta": {"hasNext": False}}])
def test_an_empty_list_is_one(bench: Bench, scripted: HTTPServer, body: Any) -> None:
    scripted.expect_request("/dex/api/v1/jobs").respond_with_json(body)
    assert bench.client().jobs() == ()


@pytest.mark.parametrize("count", [100, 230])
def test_a_list_that_does_not_say_whether_it_goes_on_is_read_to_its_end(
    bench: Bench, scripted: HTTPServer, count: int
) -> None:
    names = [f"job-{number:03}" for number in range(count)]

    def shown(request: Request) -> Response:
        offset = int(request.args["offset"])
        jobs = [{"name": name} for name in names[offset : offset + int(request.args["limit"])]]
        return Response(json.dumps({"jobs": jobs}), content_type="application/json")

    scripted.expect_request("/dex/api/v1/jobs").respond_with_handler(shown)
    assert [job.name for job in bench.client().jobs()] == names


@pytest.mark.parametrize("body", [{"types": []}, [], None, {"types": None}])
def test_a_run_without_logs_has_no_kinds_of_log(bench: Bench, scripted: HTTPServer, body: Any) -> None:
    scripted.expect_request("/dex/api/v1/job-runs/1/log-types").respond_with_json(body)
    assert bench.client().log_types(1) == ()


def test_kinds_of_log_are_not_guessed_from_something_else(bench: Bench, scripted: HTTPServer) -> None:
    scripted.expect_request("/dex/api/v1/job-runs/1/log-types").respond_with_json({"unexpected": True})
    with pytest.raises(WorkFailed, match="kinds of log"):
        bench.client().log_types(1)


_NUMBERS = [b'"%s"' % text for text in (b"9" * 5000, b"9" * 400, "\u00b2".encode())]


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_run_with_a_monstrous_number_ends_in_no_crash(bench: Bench, scripted: HTTPServer, number: bytes) -> None:
    scripted.expect_request(re.compile(".*")).respond_with_data(b'{"runs": [{"id": %s}]}' % number)
    (run,) = bench.client().runs()
    assert run.id == 0


@pytest.mark.parametrize("claim", [b"9" * 5000, b"1e999", b"[" * 100_000 + b"]" * 100_000, b'"\\ud800"', *_NUMBERS])
def test_a_token_with_a_monstrous_lifetime_ends_in_no_crash(bench: Bench, server: HTTPServer, claim: bytes) -> None:
    server.clear()
    body = b'{"access_token": "t", "expires_in": ' + claim + b"}"
    server.expect_request(TOKEN).respond_with_data(body)
    try:
        assert bench.client().token_until() is None
    except CannotReach as failure:
        assert failure.hint


def test_a_token_that_no_header_can_carry_is_none(bench: Bench, server: HTTPServer) -> None:
    server.clear()
    server.expect_request(TOKEN).respond_with_json({"access_token": "a\r\nHost: b\ud800"})
    with pytest.raises(CannotReach, match="no token"):
        bench.client().info()


def test_names_of_any_shape_end_in_no_crash(bench: Bench, scripted: HTTPServer) -> None:
    half = b'{"jobs": [{"name": {"a": 1}}, {"name": "\\ud800"}], "meta": {}}'
    scripted.expect_request("/dex/api/v1/jobs").respond_with_data(half)
    assert len(bench.client().jobs()) == 2
    with pytest.raises(WorkFailed):
        bench.client(Patience(attempts=0)).job("\ud800")


def test_the_servers_words_hold_no_secret(bench: Bench, scripted: HTTPServer) -> None:
    scripted.expect_request("/dex/api/v1/jobs/j").respond_with_json({"message": f"no {PASSWORD} here"}, 400)
    with pytest.raises(WorkFailed, match="no ••• here") as failure:
        bench.client().job("j")
    assert failure.value.hint


@pytest.mark.parametrize(
    "words", ["dial tcp: lookup db: no such host", 'database "dex" does not exist', "job database host not found"]
)
def test_a_server_that_misses_its_own_database_says_nothing_of_what_was_asked_for(
    bench: Bench, scripted: HTTPServer, words: str
) -> None:
    refused = {"status": "error", "message": f"could not get job from storage: {words}"}
    scripted.expect_request("/dex/api/v1/jobs/j").respond_with_json(refused, 500)
    client = bench.client(Patience(attempts=1))
    for asked in (client.job, client.delete_job):
        with pytest.raises(WorkFailed, match="500"):
            asked("j")


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_let_in_is_told_nothing_of_what_was_asked_for(
    bench: Bench, scripted: HTTPServer, status: int
) -> None:
    refused = {"status": "error", "message": "user etl_user not found in this environment"}
    scripted.expect_request("/dex/api/v1/jobs/j", method="GET").respond_with_json(refused, status)
    scripted.expect_request("/dex/api/v1/jobs/j", method="DELETE").respond_with_data(PAGE, status=502)
    client = bench.client(Patience(attempts=1))
    for asked in (client.job, client.delete_job):
        with pytest.raises(LoginRefused, match=str(status)):
            asked("j")


def test_an_answer_that_is_cut_is_asked_for_again(
    bench: Bench, raw: Callable[[Callable[[socket.socket], None]], int]
) -> None:
    asked: list[str] = []

    def serve(connection: socket.socket) -> None:
        head = request_head(connection)
        if "authtkn" in head:
            connection.sendall(answer("200 OK", b'{"access_token": "t"}'))
            return
        asked.append(head)
        whole = answer("200 OK", b'{"appName": "x"}')
        connection.sendall(whole if len(asked) > 1 else whole[:-3])

    address = f"http://127.0.0.1:{raw(serve)}"
    client = bench.client(base_url=f"{address}/dex/api/v1", auth_url=address)
    assert client.info()["appName"] == "x"
    assert len(asked) == 2


def test_a_probe_tells_a_jobs_api_from_an_unknown_name(bench: Bench, scripted: HTTPServer) -> None:
    client, here = bench.client(), bench.settings.base_url
    scripted.expect_request("/dex/api/v1/info").respond_with_data("who are you?", status=401)
    scripted.expect_request("/nothing/api/v1/info").respond_with_data("no such name", status=404)
    assert client.answers(here)
    assert not client.answers(here.replace("/dex/", "/nothing/"))
    assert not client.answers("http://127.0.0.1:1/dex/api/v1")
