"""No password goes in clear to a manager for which TLS is configured, unless somebody said so or the plan needs it."""

import base64
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.manager.session import PlainUse
from maint.config.schema import Bootstrap
from maint.errors import Invalid, LoginRefused, Refused
from maint.model.secret import Secret
from tests.adapters.manager.conftest import PASSWORD, Bench, context_for
from tests.servers import ScriptedServer

BOOTSTRAP = Bootstrap.model_construct(username="setup", password="bootstrap-pässword")
RESTORE = PlainUse("the plan restores a deployment", bootstrap_only=True)


@pytest.fixture
def fenced(bench: Bench, ca_file: Path) -> Bench:
    """A manager whose plain port answers, and for which an authority is configured."""
    bench.settings = bench.client(ca=ca_file, bootstrap=BOOTSTRAP)._calls.settings
    return bench


def admits(server: HTTPServer, *accounts: str) -> None:
    """Let these accounts in."""

    def answer(request: Request) -> Response:
        given = base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        return Response("v49") if given.partition(":")[0] in accounts else Response("no", 401)

    server.expect_request("/api/version").respond_with_handler(answer)


def names(server: HTTPServer) -> list[str]:
    """Return the accounts whose passwords have arrived."""
    given = [request.headers.get("Authorization", "").removeprefix("Basic ") for request, _ in server.log]
    return [base64.b64decode(one).decode().partition(":")[0] for one in given if one]


def test_a_closed_tls_port_does_not_talk_the_password_down(fenced: Bench, plain: HTTPServer) -> None:
    admits(plain, "admin", "setup")
    with pytest.raises(Refused, match="in clear") as failure:
        fenced.client().log_in()
    assert "--allow-plain" in (failure.value.hint or "")
    assert names(plain) == []


def test_the_operator_may_allow_it_and_is_warned(fenced: Bench, plain: HTTPServer) -> None:
    admits(plain, "admin", "setup")
    client = fenced.client(allow_plain=True)
    assert client.log_in().name == "admin"  # and not the bootstrap account first
    assert f"in clear to 127.0.0.1:{plain.port}: --allow-plain" in fenced.warnings[0]
    assert PASSWORD not in "".join(fenced.warnings)


def test_before_a_restore_only_the_bootstrap_account_goes_in_clear(fenced: Bench, plain: HTTPServer) -> None:
    admits(plain, "setup", "admin")
    client = fenced.client()
    client.allow_plain(RESTORE)
    assert client.log_in().bootstrap
    assert set(names(plain)) == {"setup"}
    assert "the plan restores a deployment" in fenced.warnings[0]


def test_before_a_restore_the_sites_own_password_stays_here(fenced: Bench, plain: HTTPServer) -> None:
    admits(plain, "admin")
    client = fenced.client()
    client.allow_plain(RESTORE)
    with pytest.raises(LoginRefused) as failure:
        client.log_in()
    assert set(names(plain)) == {"setup"}
    assert "--allow-plain" in (failure.value.hint or "")


def test_after_a_restore_the_restored_account_is_found(fenced: Bench, plain: HTTPServer) -> None:
    admits(plain, "admin")
    client = fenced.client()
    client.allow_plain(RESTORE)
    client._calls.session.restored()
    assert client.log_in().name == "admin"


def test_a_secret_that_cannot_be_had_stops_before_anything_leaves(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")

    class Locked:
        def resolve(self, reference: str) -> Secret:
            raise Invalid(f"{reference} can be read by others")

    client = bench.client()
    client._calls.session._secrets = Locked()
    with pytest.raises(Invalid, match="by others"):
        client.log_in()
    assert plain.log == []


def test_once_its_tls_port_was_seen_a_server_gets_no_password_in_clear_from_the_same_run(
    fenced: Bench, plain: HTTPServer, authority: trustme.CA
) -> None:
    admits(plain, "admin", "setup")
    context = context_for(authority.issue_cert("127.0.0.1"))
    with ScriptedServer(host="127.0.0.1", ssl_context=context, threaded=True) as tls:
        admits(tls, "admin")
        client, allowed = fenced.client(tls_port=tls.port), fenced.client(tls_port=tls.port, allow_plain=True)
        client.allow_plain(RESTORE)
        assert (client.log_in().name, allowed.log_in().name) == ("admin", "admin")
        assert fenced.warnings == []
    client.forget_login()
    with pytest.raises(Refused, match="in clear"):
        client.log_in()
    assert names(plain) == []
    allowed.forget_login()
    assert allowed.log_in().name == "admin"  # where the operator wants it all the same
