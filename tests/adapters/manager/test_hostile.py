"""Answers that no manager should give: endless, packed, nested, mistyped, dripping, quoting secrets."""

import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from maint.adapters.clock import SystemClock
from maint.adapters.http import answers
from maint.adapters.manager import calls
from maint.errors import AnswerMissing, CannotReach, MaintError, Transient, WorkFailed
from maint.model.secret import Secret
from tests.adapters.manager.conftest import PASSWORD, Bench, answer, context_for, request_head
from tests.ports import closed_port

Raw = Callable[[Callable[[socket.socket], None]], int]
HOSTS = "/api/v45/hosts"


@pytest.fixture
def server(plain: HTTPServer) -> HTTPServer:
    plain.expect_request("/api/version").respond_with_data("v49")
    return plain


def after_version(raw: Raw, last: Callable[[socket.socket], None]) -> int:
    """Serve the version, and everything else by a function."""

    def serve(connection: socket.socket) -> None:
        if "/api/version" in request_head(connection):
            connection.sendall(answer("200 OK", b"v49"))
        else:
            last(connection)

    return raw(serve)


def test_an_endless_answer_is_not_read_to_its_end(bench: Bench, raw: Raw) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            connection.sendall(b" " * 65536)

    with pytest.raises(WorkFailed, match="longer than"):
        bench.client(plain_port=after_version(raw, endless)).hosts()


def test_a_packed_answer_counts_by_what_it_unpacks_to(bench: Bench, server: HTTPServer) -> None:
    packed = gzip.compress(b" " * (answers.MOST + 1))
    server.expect_request(HOSTS).respond_with_data(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(WorkFailed, match="longer than"):
        bench.client().hosts()


def test_an_answer_that_drips_ends_with_its_time(bench: Bench, raw: Raw) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b" ")
            time.sleep(0.05)

    bench.timeouts = replace(bench.timeouts, whole=1.0)
    begun = time.monotonic()
    with pytest.raises(CannotReach, match="in time"):
        bench.client(plain_port=after_version(raw, drip)).hosts()
    assert time.monotonic() - begun < 25


def test_the_operators_limit_holds_in_other_threads_too(bench: Bench, raw: Raw) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(100_000):
            connection.sendall(b" ")
            time.sleep(0.05)

    client = bench.client(plain_port=after_version(raw, drip))
    client.log_in()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            client.hosts()
        except MaintError as error:
            failures.append(error)

    thread = threading.Thread(target=read, daemon=True)
    with SystemClock().limit(40):  # far off: the alarm is not what ends the other thread
        bench.timeouts = replace(bench.timeouts, whole=60)
        with SystemClock().limit(1.5):
            thread.start()
            time.sleep(0.5)
        thread.join(30)
    assert not thread.is_alive()
    assert failures


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 200_000 + b"]" * 200_000, id="very deep"),
        pytest.param(b'{"items":' * 400 + b"1" + b"}" * 400, id="deep"),
        pytest.param(b'{"items": [' + b"9" * 5000 + b"]}", id="huge integer"),
        pytest.param(b'{"items": [1e999]}', id="infinite"),
        pytest.param(b'{"items": [NaN]}', id="not a number"),
        pytest.param(b'{"items": ["\xff"]}', id="not UTF-8"),
        pytest.param(b'{"unexpected": true}', id="another object"),
        pytest.param(b'{"items": {"a": 1}}', id="items are an object"),
        pytest.param(b'"text"', id="text"),
        pytest.param(b"3", id="number"),
    ],
)
def test_an_answer_that_is_no_list_is_a_failure_and_never_an_empty_list(
    bench: Bench, server: HTTPServer, body: bytes
) -> None:
    server.expect_request(HOSTS).respond_with_data(body)
    with pytest.raises(WorkFailed) as failure:
        bench.client().hosts()
    assert failure.value.hint


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"[" * 300 + b"]" * 300, "it is nested too deeply"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "it is nested too deeply"),
        (b"9" * 4000, "a number is too long"),
        (b"1e999", "a number is too long"),
    ],
)
def test_what_python_could_read_and_nothing_of_ours_could_use_is_refused_with_its_reason(
    bench: Bench, server: HTTPServer, value: bytes, words: str
) -> None:
    server.expect_request(HOSTS).respond_with_data(b'{"items": [{"hostname": "a", "more": ' + value + b"}]}")
    with pytest.raises(WorkFailed, match=words):
        bench.client().hosts()


def test_what_was_expected_is_named(bench: Bench, server: HTTPServer) -> None:
    server.expect_request(HOSTS).respond_with_json({"unexpected": True})
    with pytest.raises(WorkFailed, match='a list of objects under "items"') as failure:
        bench.client().hosts()
    assert "'unexpected'" in failure.value.detail[0]


@pytest.mark.parametrize("body", [{}, {"items": []}, []])
def test_an_empty_list_is_one(bench: Bench, server: HTTPServer, body: object) -> None:
    server.expect_request(HOSTS).respond_with_json(body)
    assert bench.client().hosts() == []


def test_halves_of_characters_end_no_call_with_a_crash(bench: Bench, server: HTTPServer) -> None:
    half = b'{"items": [{"hostname": "\\ud800"}], "message": "\\udfff"}'
    server.expect_request(HOSTS).respond_with_data(half)
    assert bench.client().hosts()[0].hostname == "\ud800"
    server.expect_request("/api/v45/clusters/%ED%A0%80/services").respond_with_data(half, status=400)
    with pytest.raises(WorkFailed):
        bench.client().services("\ud800")


def test_a_secret_that_the_server_quotes_is_not_repeated(bench: Bench, server: HTTPServer) -> None:
    quoted = Secret('canary-"of"-the/truststore')
    words = f"Value '{quoted.reveal()}' of TRUSTSTORE_PASSWORD is invalid; {PASSWORD}; {json.dumps(quoted.reveal())}"
    server.expect_request(HOSTS).respond_with_json({"message": words, "causes": [PASSWORD]}, 400)
    with pytest.raises(WorkFailed) as failure:
        bench.client().hosts()
    said = " ".join((failure.value.message, *failure.value.detail, failure.value.hint or ""))
    assert "of TRUSTSTORE_PASSWORD is invalid" in said
    assert "canary" not in said and PASSWORD not in said


def test_a_secret_in_a_commands_result_is_not_repeated(bench: Bench, server: HTTPServer) -> None:
    result = {"id": 7, "active": False, "success": False, "resultMessage": f"login with {PASSWORD} failed"}
    server.expect_request("/api/v45/commands/7").respond_with_json(result)
    found = bench.client().command(7)
    assert found is not None and found.reason == "login with ••• failed"


def test_a_dropped_connection_while_polling_passes(bench: Bench, raw: Raw) -> None:
    client = bench.client(plain_port=after_version(raw, lambda _: None))
    client.log_in()
    with pytest.raises(Transient, match="closed the connection"):
        client.command(7)


def test_a_dropped_connection_of_a_read_is_asked_again(bench: Bench, raw: Raw) -> None:
    times: list[int] = []

    def second_time(connection: socket.socket) -> None:
        times.append(1)
        if len(times) > 1:
            connection.sendall(answer("200 OK", b'{"items": []}'))

    assert bench.client(plain_port=after_version(raw, second_time)).hosts() == []
    assert bench.clock.pauses == [calls._PAUSE]


def test_a_delete_that_a_proxy_answers_names_the_answer(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters/c", method="DELETE").respond_with_data("<html>", status=502)
    with pytest.raises(AnswerMissing, match="502 Bad Gateway"):
        bench.client().delete_cluster("c")


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_every_refusal_says_what_to_do(bench: Bench, server: HTTPServer, status: int) -> None:
    server.expect_request(HOSTS).respond_with_json({"message": "No."}, status)
    with pytest.raises(WorkFailed) as failure:
        bench.client().hosts()
    assert failure.value.hint


def tls_failure(bench: Bench, port: int, **changes: object) -> CannotReach:
    with pytest.raises(CannotReach) as failure:
        bench.client(plain_port=closed_port(), tls_port=port, **changes).log_in()
    return failure.value


def test_each_kind_of_broken_tls_has_its_own_way_out(
    bench: Bench, raw: Raw, authority: trustme.CA, ca_file: Path
) -> None:
    def with_certificate(made: trustme.LeafCert) -> int:
        context = context_for(made)

        def serve(connection: socket.socket) -> None:
            try:
                context.wrap_socket(connection, server_side=True).recv(10)
            except ssl.SSLError:
                return

        return raw(serve)

    past = datetime.now(UTC) - timedelta(days=2)
    hints = {
        "expired": tls_failure(bench, with_certificate(authority.issue_cert("127.0.0.1", not_after=past)), ca=ca_file),
        "name": tls_failure(bench, with_certificate(authority.issue_cert("other.invalid")), ca=ca_file),
        "issuer": tls_failure(bench, with_certificate(trustme.CA().issue_cert("127.0.0.1")), ca=ca_file),
        "dropped": tls_failure(bench, raw(lambda connection: connection.recv(1) and None), ca=ca_file),
    }
    said = {kind: failure.hint or "" for kind, failure in hints.items()}
    assert "renew" in said["expired"]
    assert "manager.host" in said["name"]
    assert "manager.ca" in said["issuer"]
    assert "closed the connection" in said["dropped"]
    assert len(set(said.values())) == 4
    assert sum("expired" in line for line in hints["expired"].detail) == 1, "it is said once"
