"""Who closes the TLS port, or answers on the plain one in the manager's place, gets no password of the site's."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Never

import pytest
from werkzeug import Request, Response

from maint.errors import WorkFailed
from maint.lab.create import SITE
from maint.steps.hosts import units
from maint.steps.manager import server, tls, window
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


@contextmanager
def impostor(lost: Operator) -> Iterator[set[str]]:
    """Answer on the plain port in the manager's place, let nobody in, and yield the passwords that arrive."""
    lost.lab.server.stop()
    arrived = set[str]()

    def refuse(request: Request) -> Response:
        word = request.headers.get("Authorization", "").removeprefix("Basic ")
        arrived.update(base64.b64decode(word).decode().split(":")[1:])
        return Response("no", 401)

    with ScriptedServer(host="127.0.0.1", port=lost.lab.server.plain_port) as answering:
        answering.expect_request("/api/version").respond_with_handler(refuse)
        yield arrived


def test_for_a_licence_alone_no_password_but_the_bootstrap_accounts_goes_in_clear(lost: Operator) -> None:
    with impostor(lost) as arrived:
        said = lost("manager", "license", "--yes")
    assert (arrived, said.code, "--allow-plain" in said.err) == ({"admin"}, 1, True), said.err


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
    with impostor(lost) as arrived:
        said = lost("playbook", "resume")
    assert arrived == given, said.err
    assert PASSWORD not in arrived
    assert (said.code, words in said.err) == (1, True), said.err


def test_between_put_and_restart_a_run_that_is_taken_up_logs_in_as_the_restored_account(
    lost: Operator, tmp_path: Path
) -> None:
    look = {"groups": ["manager"], "command": "test -e /mended", "reads": True}
    steps = [{"do": "deployment.put"}, {"do": "host.run", "with": look}, {"do": "server.login"}]
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "steps": [{"name": "so", **one} for one in steps]}))
    assert lost("manager", "license", "--yes").code == 0
    assert lost("playbook", "run", str(path), "--yes", "--confirm", SITE).code == 1
    (lost.root / "mended").touch()
    said = lost("playbook", "resume")
    assert (said.code, "goes in clear to" in said.err, lost.lab.world.tls) == (0, True, False), said.err


def test_a_final_restart_that_a_run_does_again_lets_no_password_go_in_clear_once_tls_is_there(
    lost: Operator, tmp_path: Path
) -> None:
    look = {"groups": ["manager"], "command": "test -e /mended", "reads": True}
    steps = [{"do": "license.upload"}, {"do": "server.restart"}, {"do": "host.run", "with": look}]
    text = {"name": "mine", "summary": "Mine.", "steps": [{"name": "so", **one} for one in steps]}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({**text, "finally": [{"name": "last", "do": "server.restart", "timeout": "5s"}]}))
    assert lost("playbook", "run", str(path), "--yes").code == 1
    with impostor(lost) as arrived:
        said = lost("playbook", "resume", "--timeout", "5s")
    assert (said.code != 0, arrived) == (True, set()), said.err


RESTART = {"do": "host.run", "with": {"groups": ["manager"], "command": "systemctl restart cloudera-scm-server"}}
WAITS = {
    "restart": [{"do": "server.restart"}],
    "start": [{"do": "server.stop"}, {"do": "server.start"}],
    "wait": [RESTART, {"do": "server.wait"}],
    "verify": [RESTART, {"do": "tls.verify"}],
}


@pytest.fixture
def closed(loaded: Operator, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """A manager whose TLS port does not open any more once it is restarted, though its plain one does."""
    loaded.lab.break_("server", "tls-never-comes-up")
    for module in (server, tls, units):
        monkeypatch.setattr(module, "START_LIMIT", 1.0)
    monkeypatch.setattr(window, "_LIMIT", 1.0)
    return loaded


def test_in_every_wait_after_a_restart_a_closed_tls_port_means_not_ready(closed: Operator, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for name, steps in WAITS.items():
        book = {"name": "mine", "summary": "Mine.", "steps": [{"name": "so", **one} for one in steps]}
        path.write_text(json.dumps(book))
        said = closed("playbook", "run", str(path), "--yes")
        assert (said.code, "its TLS port does not answer" in said.err) == (1, True), (name, said.err)
        assert "in clear" not in said.err, name
        closed.lab.repair()
        closed.lab.server.restart()
        closed.lab.server.wait()
        closed.lab.break_("server", "tls-never-comes-up")


def test_a_window_opens_on_the_tls_port_alone_closes_on_any_answer_and_once_tls_is_mended_the_hint_leads_to_the_end(
    closed: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = closed("manager", "export", "--open-window", "--yes", "--timeout", "30s")
    assert (said.code, said.err.count("its TLS port does not answer")) == (1, 2), said.err
    assert "goes in clear" not in said.err and not closed.window
    monkeypatch.undo()
    closed.lab.repair()
    run = closed("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    said = closed("playbook", "resume", run, "--yes")
    assert (said.code, "`maint manager tls-switch` restarts it" in said.err) == (5, True), said.err
    assert closed("manager", "tls-switch", "--yes").code == 0
    assert closed("playbook", "resume", run, "--yes").code == 0


def test_the_switch_waits_for_the_tls_port_alone(lost: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lost("manager", "license", "--yes").code == 0
    assert lost("manager", "restore", "--confirm", "lab").code == 0
    lost.lab.break_("server", "tls-never-comes-up")
    monkeypatch.setattr(tls, "START_LIMIT", 1.0)
    said = lost("manager", "tls-switch", "--yes")
    assert (said.code, "its TLS port does not answer" in said.err) == (1, True), said.err
