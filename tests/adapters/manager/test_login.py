import base64

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.manager import calls
from maint.config.schema import Bootstrap
from maint.errors import Invalid, LoginRefused, WorkFailed
from tests.adapters.manager.conftest import PASSWORD, Bench

BOOTSTRAP = Bootstrap.model_construct(username="setup", password="bootstrap-pässword")


def _allow(server: HTTPServer, *accounts: tuple[str, str]) -> None:
    def answer(request: Request) -> Response:
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        pair = tuple(base64.b64decode(given).decode().split(":", 1))
        if pair in accounts:
            return Response("v49", headers={"Set-Cookie": "SESSION=abc; Path=/"})
        return Response("<html>Error 401 Bad credentials</html>", 401, content_type="text/html")

    server.expect_request("/api/version").respond_with_handler(answer)


def test_the_configured_account_goes_first_in_utf_8(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, ("admin", PASSWORD), (BOOTSTRAP.username, BOOTSTRAP.password))
    account = bench.client(bootstrap=BOOTSTRAP).log_in()
    assert (account.name, account.bootstrap) == ("admin", False)


def test_a_fresh_server_lets_the_bootstrap_account_in(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, (BOOTSTRAP.username, BOOTSTRAP.password))
    client = bench.client(bootstrap=BOOTSTRAP)
    assert client.log_in().bootstrap
    assert client.api_version() == 49
    assert len(plain.log) == 4  # knock, refused, let in, asked


def test_the_bootstrap_account_only_looks_unless_the_run_is_for_a_fresh_server(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, (BOOTSTRAP.username, BOOTSTRAP.password))
    plain.expect_request("/api/v45/clusters/c", method="DELETE").respond_with_json({"name": "c"})
    client = bench.client(bootstrap=BOOTSTRAP)
    assert client.log_in().bootstrap
    assert bench.warnings == ["admin is not let in with manager.password: the bootstrap account setup looks instead"]
    with pytest.raises(LoginRefused, match=r"does not let admin in with manager\.password, and nothing") as refused:
        client.delete_cluster("c")
    assert "only in a restore, `manager license` and `manager tls-switch`" in refused.value.detail[0]
    assert not any(request.method == "DELETE" for request, _ in plain.log)
    client.for_fresh_server()
    client.delete_cluster("c")
    assert sum(request.method == "DELETE" for request, _ in plain.log) == 1


def test_a_stray_401_at_login_does_not_keep_the_configured_account_from_changing_something(
    bench: Bench, plain: HTTPServer
) -> None:
    stray = plain.expect_ordered_request("/api/version")  # the knock, which is answered without an account
    stray.respond_with_data("", 401)
    plain.expect_ordered_request("/api/version").respond_with_data("", 401)
    for _ in range(2):
        plain.expect_ordered_request("/api/version").respond_with_data("v49")
    plain.expect_ordered_request("/api/v45/clusters/c", method="DELETE").respond_with_json({"name": "c"})
    client = bench.client(bootstrap=BOOTSTRAP)
    assert client.log_in().bootstrap
    client.delete_cluster("c")
    assert _name(plain.log[-1][0]).startswith("admin:")


def test_after_a_restore_the_other_account_is_found_anew(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, (BOOTSTRAP.username, BOOTSTRAP.password))
    client = bench.client(bootstrap=BOOTSTRAP)
    client.log_in()
    plain.clear()
    _allow(plain, ("admin", PASSWORD))
    client.forget_login()
    assert not client.log_in().bootstrap


def test_refusal_names_both_accounts_and_no_password(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain)
    with pytest.raises(LoginRefused) as failure:
        bench.client(bootstrap=BOOTSTRAP).log_in()
    told = "\n".join((failure.value.message, *failure.value.detail, failure.value.hint or ""))
    assert "admin" in told
    assert "setup" in told
    assert PASSWORD not in told
    assert BOOTSTRAP.password not in told
    assert bench.clock.pauses == []  # a 401 on the first call is not a stray one


def test_a_password_of_several_lines_never_leaves(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain)
    broken = Bootstrap.model_construct(username="setup", password="env:A\nB")
    with pytest.raises(Invalid):
        bench.client(bootstrap=broken).log_in()
    assert not any("setup" in _name(request) for request, _ in plain.log)


def _name(request: Request) -> str:
    return base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()


def test_a_stray_401_after_login_is_asked_again(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    plain.expect_oneshot_request("/api/v45/cm/version").respond_with_data("no", status=401)
    plain.expect_request("/api/v45/cm/version").respond_with_json({"version": "7.6.5"})
    assert bench.client().release() == "7.6.5"
    assert bench.clock.pauses == [calls._PAUSE]


def test_an_account_that_is_not_let_in_any_more_ends_the_tries(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    plain.expect_request("/api/v45/cm/version").respond_with_data("no", status=401)
    with pytest.raises(LoginRefused, match="admin"):
        bench.client().release()
    assert len(bench.clock.pauses) == 2


def test_a_stray_401_to_an_account_that_was_let_in_before_is_asked_again(bench: Bench, plain: HTTPServer) -> None:
    for status in (401, 200, 401, 401, 200):  # a knock and a login; the same after a restart, with a stray 401
        plain.expect_ordered_request("/api/version").respond_with_data("v49", status)
    client = bench.client(bootstrap=BOOTSTRAP)
    client.log_in()
    client.forget_login()
    assert not client.log_in().bootstrap
    assert [_name(request).partition(":")[0] for request, _ in plain.log] == ["", "admin", "", "admin", "admin"]
    assert bench.clock.pauses == [calls._PAUSE]


def test_an_account_that_was_let_in_before_is_tried_twice_at_most(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, ("admin", PASSWORD))
    client = bench.client(bootstrap=None)
    client.log_in()
    plain.clear()
    _allow(plain)
    client.forget_login()
    with pytest.raises(LoginRefused, match="none of the configured accounts"):
        client.log_in()
    assert [_name(request).partition(":")[0] for request, _ in plain.log] == ["", "admin", "admin"]  # more may lock it


def test_cookies_are_never_sent_back(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain, ("admin", PASSWORD))
    client = bench.client()
    client.log_in()
    client.api_version()
    assert [request.headers.get("Cookie") for request, _ in plain.log] == [None] * 3


def test_a_colon_in_an_account_name_is_refused(bench: Bench, plain: HTTPServer) -> None:
    _allow(plain)
    with pytest.raises(Invalid, match="colon"):
        bench.client(username="a:b", password="x").log_in()


@pytest.mark.parametrize("text", ["v49", '"v49"', " v49\r\n", '"v49"\n', "\ufeffv49"])
def test_the_version_is_read_whatever_surrounds_it(bench: Bench, plain: HTTPServer, text: str) -> None:
    plain.expect_request("/api/version").respond_with_data(text)
    assert bench.client().api_version() == 49


@pytest.mark.parametrize("text", ["", "v0", "49", "<html>v49</html>", "v4.9", "v٤٩", "v99999999999"])
def test_what_is_no_version_is_refused(bench: Bench, plain: HTTPServer, text: str) -> None:
    plain.expect_request("/api/version").respond_with_data(text)
    with pytest.raises(WorkFailed, match="not a version"):
        bench.client().api_version()


def test_a_pinned_version_is_never_lowered(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v45")
    client = bench.client()
    assert client.require_api(45) == "v45"
    with pytest.raises(WorkFailed, match="up to v45"):
        client.require_api(49)


def test_a_server_without_the_version_call_is_told_to_be_old_or_starting(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("no", status=404)
    with pytest.raises(WorkFailed, match="does not know /api/version") as failure:
        bench.client().api_version()
    assert "v1" in (failure.value.hint or "")
