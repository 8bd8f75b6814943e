"""Who answers on the plain port in the manager's place gets no password of the site's from a run that is taken up."""

import base64
from collections.abc import Callable
from typing import Never

import pytest
from werkzeug import Request, Response

from maint.errors import WorkFailed
from maint.steps.manager import server
from maint.steps.restore import deployment
from tests.servers import ScriptedServer
from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator


def before_the_put(lost: Operator) -> None:
    """Begin a restore that stops before anything was sent."""

    def fail(*_: object) -> Never:
        raise WorkFailed("the disk of the store is full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deployment, "keep", fail)
        assert lost.restore().code == 1
    assert lost.puts == 0


def after_the_restart(lost: Operator) -> None:
    """Begin a restore that stops once the server has come up with TLS."""
    lost.lab.break_("truststore", "wrong-truststore-password")
    assert lost.restore().code == 1
    assert lost.puts == 1


@pytest.mark.parametrize(
    ("begin", "given", "words"),
    [(before_the_put, {"admin"}, "--allow-plain"), (after_the_restart, set(), "its TLS port does not answer")],
    ids=["put", "restart"],
)
def test_a_run_that_is_taken_up_sends_the_sites_password_in_clear_only_between_put_and_restart(
    lost: Operator, begin: Callable[[Operator], None], given: set[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.forget_requests()
    begin(lost)
    monkeypatch.setattr(server, "START_LIMIT", 1.0)
    lost.lab.server.stop()
    arrived = set[str]()

    def refuse(request: Request) -> Response:
        word = request.headers.get("Authorization", "").removeprefix("Basic ")
        arrived.update(base64.b64decode(word).decode().split(":")[1:])
        return Response("no", 401)

    with ScriptedServer(host="127.0.0.1", port=lost.lab.server.plain_port) as impostor:
        impostor.expect_request("/api/version").respond_with_handler(refuse)
        said = lost("playbook", "resume")
    assert arrived == given, said.err
    assert PASSWORD not in arrived
    assert (said.code, words in said.err) == (1, True), said.err
