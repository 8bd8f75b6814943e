"""No password in anything that an operator, a log or a crash report shows."""

import base64
import socket
import traceback
from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer

from maint.adapters.clock import SystemClock
from maint.errors import CannotReach, DeadlinePassed
from tests.adapters.manager.conftest import PASSWORD, Bench, answer, request_head

Raw = Callable[[Callable[[socket.socket], None]], int]
HEADER = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()


def rendered(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format()) + repr(error)


def _assert_clean(text: str) -> None:
    assert "test_secrecy.py" in text
    for secret in (PASSWORD, HEADER, HEADER[:20]):
        assert secret not in text


def _serve_then(raw: Raw, last: Callable[[socket.socket], None]) -> int:
    def serve(connection: socket.socket) -> None:
        if "/api/version" in request_head(connection):
            connection.sendall(answer("200 OK", b"v49"))
        else:
            last(connection)

    return raw(serve)


def test_a_traceback_with_locals_of_a_cut_read_is_clean(bench: Bench, raw: Raw) -> None:
    port = _serve_then(raw, lambda connection: connection.sendall(b"garbage\r\n"))
    with pytest.raises(CannotReach) as failure:
        bench.client(plain_port=port).hosts()
    _assert_clean(rendered(failure.value))


def test_a_traceback_with_locals_of_a_closed_port_is_clean(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    asked = bench.client()
    asked.log_in()
    plain.stop()
    try:
        with pytest.raises(CannotReach) as failure:
            asked.hosts()
    finally:
        plain.start()
    _assert_clean(rendered(failure.value))


def test_a_traceback_with_locals_of_an_interrupted_call_is_clean(bench: Bench, raw: Raw) -> None:
    port = _serve_then(raw, lambda connection: connection.recv(1) and None)
    asked = bench.client(plain_port=port)
    asked.log_in()
    with pytest.raises(DeadlinePassed) as failure, SystemClock().limit(0.3):
        asked.hosts()
    _assert_clean(rendered(failure.value))


def test_a_refused_login_is_clean(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("no", status=401)
    with pytest.raises(CannotReach) as failure:
        bench.client().log_in()
    _assert_clean(rendered(failure.value))


def test_nothing_leaves_on_a_port_before_the_knock(bench: Bench, raw: Raw) -> None:
    heads: list[str] = []

    def serve(connection: socket.socket) -> None:
        heads.append(request_head(connection))
        connection.sendall(answer("302 Found", b"", "Location: https://127.0.0.1:7183/api/version"))

    with pytest.raises(CannotReach):
        bench.client(plain_port=raw(serve)).log_in()
    assert heads
    assert all("authorization" not in head.lower() for head in heads)
