"""Exports, licence, truststore, platform and restore against a manager of other habits."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.steps.manager import management_service
from maint.steps.restore import deployment as send_deployment
from tests.acceptance.manager_stub.conftest import configured
from tests.acceptance.manager_stub.manager import Manager, cut, page, said
from tests.adapters.manager.conftest import context_for
from tests.servers import ScriptedServer
from tests.steps.operator import Operator

EXPORT = "GET /cm/deployment"
STOP = "POST /clusters/base/commands/stop"


def listed(operator: Operator) -> list[bool]:
    return [one["restorable"] for one in operator("backup", "list", "-o", "json").json["snapshots"]]


@pytest.mark.parametrize("left", [0.5, 0.999])
def test_an_export_that_is_cut_leaves_no_snapshot(operator, manager, left):
    whole = json.dumps(manager.document).encode()
    manager.script[EXPORT] = [cut(whole, int(len(whole) * left))] * 3  # as often as it is asked for
    said_ = operator("backup", "create")
    assert said_.code == 4, said_.err
    assert "was cut off after" in said_.err and "after 0 bytes" not in said_.err
    assert listed(operator) == []
    assert operator("backup", "create").code == 0
    assert listed(operator) == [True]


def test_an_export_killed_in_the_middle_leaves_nothing_and_is_resumed(operator, manager):
    manager.script[EXPORT] = [manager.late(lambda: said(manager.document))]
    manager.kill_amid(EXPORT, operator.fork("backup", "create"))
    assert listed(operator) == []
    resumed = operator("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert listed(operator) == [True]


def licence(folder: Path) -> Path:
    """Write a licence file as the contract describes it: signed text, of which only the text is looked at."""
    fields = {
        "version": 1, "name": "Example", "uuid": "0a1b2c3d-0000-4000-8000-000000000000",
        "expirationDate": f"{datetime.now(UTC) + timedelta(days=99):%Y-%m-%d}", "features": ["EDH"],
    }  # fmt: skip
    path = folder / "license.txt"
    path.write_text(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\n" + json.dumps(fields, indent=1)
        + "\n-----BEGIN PGP SIGNATURE-----\n\niQEcBAEBAgAGBQJ\n=abcd\n-----END PGP SIGNATURE-----\n"
    )  # fmt: skip
    return path


def test_a_licence_upload_that_somebody_else_answers_is_not_believed(operator, manager, tmp_path):
    manager.script["POST /cm/license"] = [page()]
    said_ = operator("manager", "license", str(licence(tmp_path)), "--yes")
    assert said_.code == 1, said_.err
    assert "licence" in said_.err
    assert manager.sent == ["POST /cm/license"]


@pytest.mark.parametrize(
    "answer",
    [page(), Response('"quoted"'), Response('{"message" : "x"}')],
    ids=["page", "quoted", "object"],
)
def test_what_is_no_truststore_password_is_told_as_such_and_written_nowhere(operator, manager, tmp_path, answer):
    manager.truststore = answer
    said_ = operator("manager", "truststore-password", "--file", str(tmp_path / "handed"), "--yes")
    assert said_.code == 1, said_.err
    assert "the answer is not a password" in said_.err and "hint:" in said_.err
    assert not (tmp_path / "handed").exists()


@pytest.mark.parametrize(
    "answer",
    [said({"message": "no"}, 404), said({"message": "no"}, 500), Response(""), Response("\n")],
    ids=["404", "500", "empty", "blank"],
)
def test_without_auto_tls_it_is_said_that_there_is_no_truststore_password(operator, manager, tmp_path, answer):
    manager.truststore = answer
    said_ = operator("manager", "truststore-password", "--file", str(tmp_path / "handed"), "--yes")
    assert said_.code in (1, 5), said_.err
    assert "Auto-TLS" in said_.err
    assert not (tmp_path / "handed").exists()


def test_a_truststore_password_is_handed_over_byte_for_byte(operator, manager, tmp_path):
    manager.truststore = Response("  1e10 \n", content_type="text/plain")
    said_ = operator("manager", "truststore-password", "--file", str(tmp_path / "handed"), "--yes")
    assert said_.code == 0, said_.err
    assert (tmp_path / "handed").read_text() == "  1e10 "


MONITORS = """
name: monitors
summary: Start the monitoring service, its monitors first.
steps:
  - {name: Monitors, do: management.start, with: {only: [HOSTMONITOR, SERVICEMONITOR]}}
  - {name: The rest, do: management.start}
"""


def test_monitors_start_first_and_each_role_once(operator, manager, tmp_path):
    asked: list[list[str]] = []

    def noted(request: Request) -> Response:
        asked.append(json.loads(request.get_data())["items"])
        return manager.start_roles(request)

    manager.script["POST /cm/service/roleCommands/start"] = [noted, noted]
    (tmp_path / "monitors.yaml").write_text(MONITORS)
    started = operator("playbook", "run", str(tmp_path / "monitors.yaml"), "--yes")
    assert started.code == 0, started.err
    assert asked == [["mgmt-HM", "mgmt-SM"], ["mgmt-EV"]]


def killed_while_roles_start(operator: Operator, manager: Manager, folder: Path) -> None:
    """Kill a run once its command has arrived, and before it was answered."""

    def late(request: Request) -> Response:
        return manager.late(lambda: manager.start_roles(request))(request)  # and no state has moved

    manager.script["POST /cm/service/roleCommands/start"] = [late]
    (folder / "monitors.yaml").write_text(MONITORS[: MONITORS.index("  - {name: The rest")])
    process = operator.fork("playbook", "run", str(folder / "monitors.yaml"), "--yes")
    manager.kill_amid("POST /cm/service/roleCommands/start", process)


def test_a_start_of_roles_killed_before_its_answer_came_is_not_sent_again(operator, manager, tmp_path):
    killed_while_roles_start(operator, manager, tmp_path)
    asked = manager.role_states

    def moved(request: Request) -> Response:
        manager.role_states = {**asked, "mgmt-HM": "STARTED", "mgmt-SM": "STARTED"}
        return manager.listed_roles()

    manager.script["GET /cm/service/roles"] = [lambda request: manager.listed_roles(), moved]
    resumed = operator("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert manager.sent == ["POST /cm/service/roleCommands/start"]


def test_roles_that_never_move_are_started_by_the_next_life(operator, manager, tmp_path, monkeypatch):
    monkeypatch.setattr(management_service, "LAG", 0.2)
    killed_while_roles_start(operator, manager, tmp_path)
    resumed = operator("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert manager.sent == ["POST /cm/service/roleCommands/start"] * 2


def without_base(operator: Operator, manager: Manager) -> None:
    """Delete the base cluster, and count from there."""
    manager.states["base"] = dict.fromkeys(manager.states["base"], "STOPPED")
    assert operator("cluster", "delete", "base", "--confirm", "base").code == 0
    manager.license = {"owner": "Example", "uuid": "x", "expiration": "2099-01-01"}
    manager.log.clear()


ADD = ("restore", "run", "--cluster", "base", "--yes")


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
def test_a_cluster_comes_back_by_one_deployment_and_a_look_decides_what_somebody_else_answered(
    hosted, manager, applied, monkeypatch
):
    monkeypatch.setattr(send_deployment, "PATIENCE", 0.5)

    def answered(request: Request) -> Response:
        if applied:
            manager.put(request)
        else:
            request.get_data()
        return page(200)

    without_base(hosted, manager)
    manager.script["PUT /cm/deployment"] = [answered]
    added = hosted(*ADD)
    assert added.code == (0 if applied else 1), added.err
    assert manager.sent == ["PUT /cm/deployment"]
    if not applied:
        assert "was not applied so far" in added.err and "maint playbook resume" in added.err
        resumed = hosted("playbook", "resume")
        assert resumed.code == 0, resumed.err
        assert "a restart of the server rolls back what is under way" in resumed.err
        assert manager.sent == ["PUT /cm/deployment"] * 2
    assert "base" in manager.states


@pytest.fixture
def secured(manager, tmp_path):
    """Make the plain port answer nothing but a redirect, and another port serve over TLS; hands out the operator."""
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    servers: list[HTTPServer] = []

    def build(status: int) -> tuple[Operator, list[str]]:
        context = context_for(authority.issue_cert("127.0.0.1"))
        tls = ScriptedServer(host="127.0.0.1", ssl_context=context, threaded=True)
        plain = ScriptedServer(host="127.0.0.1", threaded=True)
        log: list[str] = []

        def moved(request: Request) -> Response:
            log.append(f"{request.method} {request.path} {request.headers.get('Authorization', '')}".strip())
            return Response("", status, {"Location": f"https://127.0.0.1:{tls.port}{request.path}"})

        for server in (tls, plain):
            server.start()
            servers.append(server)
        plain.expect_request(manager.everything).respond_with_handler(moved)
        manager.serve(tls)
        return configured(tmp_path, plain.port, tls.port, f"      ca: {tmp_path}/ca.pem\n"), log

    yield build
    for server in servers:
        server.stop()


@pytest.mark.parametrize("status", [301, 303])
def test_behind_a_redirect_everything_goes_to_the_tls_port_and_no_password_to_the_other(secured, manager, status):
    operator, plain = secured(status)
    assert operator("backup", "create").code == 0
    stopped = operator("cluster", "stop", "base", "--yes")
    assert stopped.code == 0, stopped.err
    assert manager.sent == [STOP]
    assert [line for line in plain if "Basic" in line or not line.startswith("GET")] == []


def test_where_tls_serves_already_the_switch_changes_nothing(secured, manager):
    operator, _ = secured(301)
    said_ = operator("manager", "tls-switch", "--yes")
    assert said_.code == 0 and manager.sent == [], said_.err


def test_the_switch_without_ssh_is_refused_before_anything_is_touched(operator, manager):
    said_ = operator("manager", "tls-switch", "--yes")
    assert (said_.code, manager.sent) == (5, []), said_.err
    assert "ssh" in said_.err
