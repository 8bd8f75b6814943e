"""Tokens: both meanings of `expires_in`, early renewal, one renewal on 401, and nothing that leaks."""

import base64
import json
import socket
import time
import traceback
from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer

from maint.errors import CannotReach, Invalid, LoginRefused
from tests.adapters.manager.conftest import answer, request_head
from tests.adapters.virtual_clusters.conftest import Bench, spark
from tests.adapters.virtual_clusters.server import PASSWORD, Api


@pytest.mark.parametrize("expires_in", [3600, "3600", lambda: int((time.time() + 3600) * 1000)])
def test_a_lifetime_is_read_as_duration_and_as_time(bench: Bench, expires_in: object) -> None:
    bench.api.switches.expires_in = expires_in() if callable(expires_in) else expires_in
    lifetime = bench.client().token_until()
    assert lifetime is not None and 3590 < lifetime <= 3600


def test_without_a_lifetime_the_token_itself_is_read(bench: Bench, server: HTTPServer) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 100}).encode()).decode().rstrip("=")
    server.clear()
    server.expect_request("/gateway/authtkn/knoxtoken/api/v1/token").respond_with_json(
        {"access_token": f"a.{claims}.c"}
    )
    lifetime = bench.client().token_until()
    assert lifetime is not None and 90 < lifetime <= 100


@pytest.mark.parametrize("said", [None, 0, 1_000_000_000_500])
def test_a_lifetime_that_makes_no_sense_is_none(bench: Bench, said: object) -> None:
    bench.api.switches.expires_in = said
    assert bench.client().token_until() is None


def test_a_token_is_asked_for_once_while_it_is_good(bench: Bench) -> None:
    client = bench.client()
    for _ in range(5):
        client.info()
    assert bench.api.tokens == 1


@pytest.mark.parametrize(("seconds", "good"), [(2, 0.5), (3600, 3200)])
def test_a_token_is_renewed_before_it_expires(bench: Bench, seconds: int, good: float) -> None:
    bench.api.switches.expires_in = seconds
    client = bench.client()
    client.info()
    bench.clock.pauses.append(good)
    client.info()
    assert bench.api.tokens == 1
    bench.clock.pauses.append(seconds - good - 0.1)
    client.info()
    assert bench.api.tokens == 2


def test_a_colon_in_an_account_name_is_refused_and_counts_against_no_other_account(
    bench: Bench, server: HTTPServer
) -> None:
    with pytest.raises(Invalid, match="colon"):
        bench.client(username="etl_user:x").info()
    assert server.log == []


def test_a_refused_token_is_renewed_once(bench: Bench) -> None:
    client = bench.client()
    client.info()
    bench.api.switches.unauthorised = 1
    client.create_job(spark("j"))  # type: ignore[arg-type]  # a small definition
    assert (bench.api.tokens, list(bench.api.jobs)) == (2, ["j"])
    bench.api.switches.unauthorised = 2
    with pytest.raises(LoginRefused):
        client.info()


@pytest.mark.parametrize("username", ["somebody", "admin"])
def test_a_refused_user_is_told(bench: Bench, username: str) -> None:

    with pytest.raises(LoginRefused, match=username):
        bench.client(username=username).info()


@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_login_page_is_no_gateway(bench: Bench, server: HTTPServer, status: int) -> None:
    server.clear()
    server.expect_request("/gateway/authtkn/knoxtoken/api/v1/token").respond_with_data("<html>", status=status)
    with pytest.raises(CannotReach, match="no token"):
        bench.client().info()


def test_a_gateway_that_is_down_is_told_and_not_the_virtual_cluster(bench: Bench, server: HTTPServer) -> None:
    server.clear()
    server.expect_request("/gateway/authtkn/knoxtoken/api/v1/token").respond_with_data("<html>", status=503)
    with pytest.raises(CannotReach, match="and no token") as failure:
        bench.client().info()
    assert bench.warnings and all("the gateway answered 503" in words for words in bench.warnings)
    assert "is it up" in str(failure.value.hint)


def test_a_password_that_is_refused_is_named_by_its_place(bench: Bench) -> None:
    with pytest.raises(LoginRefused) as failure:
        bench.client(username="somebody").info()
    assert "is what file:password gives still" in str(failure.value.hint)


def test_the_token_service_is_a_setting(bench: Bench, server: HTTPServer) -> None:
    server.clear()
    server.expect_request("/gateway/authtkn/other/api/v1/token").respond_with_json({"access_token": "t"})
    assert bench.client(token_service="other").token_until() is None


def rendered(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format()) + repr(error)


def leaks(text: str) -> list[str]:
    basic = base64.b64encode(f"etl_user:{PASSWORD}".encode()).decode()
    return [secret for secret in (PASSWORD, basic, basic[:20], "token.number") if secret in text]


@pytest.mark.parametrize("what", ["page", "refused", "role", "unauthorised"])
def test_a_traceback_with_locals_holds_no_secret(bench: Bench, api: Api, server: HTTPServer, what: str) -> None:
    client = bench.client()
    client.info()
    if what == "role":
        api.switches.role_refused = True
    elif what == "unauthorised":
        api.switches.unauthorised = 9
    elif what == "refused":
        server.stop()
        bench.clock.pauses.extend([10_000.0])
    else:
        api.switches.write_refused = 99
    with pytest.raises(Exception) as failure:  # whatever comes is looked at
        client.create_job(spark("j"))  # type: ignore[arg-type]  # a small definition
    if what == "refused":
        server.start()
    assert "test_token.py" in rendered(failure.value)
    assert leaks(rendered(failure.value)) == []
    assert leaks(repr(client.__dict__)) == []


def test_a_cut_answer_leaks_nothing(bench: Bench, raw: Callable[[Callable[[socket.socket], None]], int]) -> None:
    def serve(connection: socket.socket) -> None:
        if "authtkn" in request_head(connection):
            connection.sendall(answer("200 OK", b'{"access_token": "token.number1.x"}'))
        else:
            connection.sendall(b"garbage\r\n")

    address = f"http://127.0.0.1:{raw(serve)}"
    client = bench.client(base_url=f"{address}/dex/api/v1", auth_url=address)
    with pytest.raises(CannotReach) as failure:
        client.info()
    assert leaks(rendered(failure.value)) == []
