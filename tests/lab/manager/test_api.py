"""The management API of the lab: doors, accounts, clusters, commands, redaction."""

import base64
import itertools
import json
import re
import socket

import pytest
import requests

from maint.lab.manager import accounts, document
from maint.lab.manager.load import Options
from tests.lab.conftest import switched

HTML_401 = "Error 401 Bad credentials"


def test_the_version_is_bare_text(standing):
    answer = standing.get("/api/version")
    assert (answer.content, answer.headers["Content-Type"]) == (b"v49", "text/plain")


def test_the_version_can_be_spelled_otherwise(standing):
    for value, text in (("quoted", '"v49"'), ("line", "v49\n")):
        with switched(standing, version_body=value):
            assert standing.get("/api/version").text == text


@pytest.mark.parametrize("account", [None, ("admin", "wrong"), ("jdoe", "jdoe"), ("nobody", "x")])
def test_who_has_no_account_gets_an_html_401(standing, account):
    answer = standing.get("/api/version", auth=account)
    assert (answer.status_code, answer.reason) == (401, "Bad credentials")
    assert HTML_401 in answer.text
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="Cloudera Manager"'


def test_a_session_cookie_is_taken_instead_of_basic(standing):
    cookie = standing.get("/api/version").cookies
    assert list(cookie.keys()) == ["SESSION"]
    assert standing.get("/api/version", auth=None, cookies=cookie).status_code == 200
    assert standing.get("/api/version", auth=None, cookies={"SESSION": "made-up"}).status_code == 401


def test_a_call_without_a_cookie_opens_a_session_each_time(loaded):
    for _ in range(3):
        loaded.get("/api/version")
    assert len(loaded.get("/api/v49/users/sessions").json()["items"]) == 4


@pytest.mark.parametrize(
    "path", ["/api/v50/clusters", "/api/v0/clusters", "/api/v049/clusters", "/api/v49/nonsense", "/api/vx/clusters"]
)
def test_what_does_not_exist_is_404(standing, path):
    assert standing.get(path).status_code == 404


def test_every_version_up_to_the_announced_one_answers(standing):
    assert all(standing.get(f"/api/v{number}/cm/version").status_code == 200 for number in (1, 19, 45, 49))
    assert standing.get("/api/v40/certs/truststorePassword").status_code == 404


def test_under_tls_the_plain_port_redirects_whatever_is_asked(standing):
    plain, tls = (standing.lab.status()["manager"][name] for name in ("plain", "tls"))
    for code, method in itertools.product((301, 302, 303, 307, 308), ("GET", "PUT", "DELETE", "POST")):
        with switched(standing, redirect_code=str(code)):
            answer = requests.request(method, f"{plain}/api/v49/x?a=1", data=b"body", allow_redirects=False, timeout=10)
        assert (answer.status_code, answer.headers["Location"]) == (code, f"{tls}/api/v49/x?a=1"), method


def test_errors_have_a_message(standing):
    answer = standing.get("/api/v49/clusters/x")
    assert (answer.status_code, answer.text) == (404, '{\n  "message" : "Cluster \'x\' not found."\n}')
    assert standing.get("/api/v49/tools/echoError?message=why").json() == {"message": "why"}
    assert standing.get("/api/v49/tools/echo?message=hello").json() == {"message": "hello"}


def test_a_cluster_answers_to_its_display_name(standing):
    assert standing.get("/api/v49/clusters/Base%20Cluster%201").json()["name"] == "base"
    with switched(standing, display_name_in_path="refused"):
        assert standing.get("/api/v49/clusters/Base%20Cluster%201").status_code == 404


def test_a_stopped_cluster_refuses_to_stop_with_status_200(loaded):
    loaded.send("POST", "/api/v49/clusters/base/commands/stop")
    loaded.settle()
    answer = loaded.send("POST", "/api/v49/clusters/base/commands/stop")
    body = answer.json()
    assert (answer.status_code, body["active"], body["success"]) == (200, False, False)
    assert body["resultMessage"] == "At least one role must be started."
    assert body["startTime"] == body["endTime"]


def test_a_stopped_cluster_can_take_a_stop_for_done(make_lab):
    client = make_lab(stop_stopped="succeed", command_seconds="0")
    client.send("POST", "/api/v49/clusters/base/commands/stop")
    assert client.send("POST", "/api/v49/clusters/base/commands/stop").json()["success"] is True


def test_a_second_command_on_a_busy_cluster_is_rejected(make_lab):
    client = make_lab(command_seconds="60")
    first = client.send("POST", "/api/v49/clusters/base/commands/stop").json()
    assert list(first) == ["id", "name", "startTime", "active", "clusterRef"]
    again = client.send("POST", "/api/v49/clusters/base/commands/start").json()
    assert again["resultMessage"] == "There is already a pending command on this entity."
    service = client.send("POST", "/api/v49/clusters/base/services/hdfs/commands/stop").json()
    assert service["success"] is False
    assert client.send("POST", "/api/v49/clusters/ecs-01/commands/stop").json()["active"] is True
    assert [each["id"] for each in client.get("/api/v49/clusters/base/commands").json()["items"]] == [first["id"]]
    states = {each["serviceState"] for each in client.get("/api/v49/clusters/base/services").json()["items"]}
    assert states == {"STOPPING", "NA"}


def test_an_aborted_command_is_not_successful_and_can_be_retried(make_lab):
    client = make_lab(command_seconds="60")
    number = client.send("POST", "/api/v49/clusters/base/commands/stop").json()["id"]
    aborted = client.send("POST", f"/api/v49/commands/{number}/abort").json()
    assert (aborted["active"], aborted["success"], aborted["canRetry"]) == (False, False, True)
    assert client.send("POST", f"/api/v49/commands/{number}/retry").json()["id"] > number


@pytest.mark.parametrize(("fault", "in_parent"), [("command-fails-in-child", False), ("command-fails-in-parent", True)])
def test_a_failed_command_gives_its_reason_where_it_was_told(loaded, fault, in_parent):
    loaded.lab.break_("", fault)
    number = loaded.send("POST", "/api/v49/clusters/base/commands/stop").json()["id"]
    loaded.settle()
    done = loaded.get(f"/api/v49/commands/{number}").json()
    reasons = [child["resultMessage"] for child in done["children"]["items"] if not child["success"]]
    assert done["success"] is False
    assert ("told to let it fail" in done["resultMessage"]) is in_parent
    assert bool(reasons) is not in_parent


def test_single_roles_of_the_management_service_are_started(loaded):
    loaded.send("POST", "/api/v49/cm/service/commands/stop")
    loaded.settle()
    assert loaded.get("/api/v49/cm/service").json()["serviceState"] == "STOPPED"
    roles = [each["name"] for each in loaded.get("/api/v49/cm/service/roles").json()["items"]]
    monitors = [name for name in roles if "MONITOR" in name]
    body = json.dumps({"items": [*monitors, "no-such"]})
    answer = loaded.send("POST", "/api/v49/cm/service/roleCommands/start", data=body).json()
    assert (len(answer["items"]), len(answer["errors"])) == (2, 1)
    loaded.settle()
    states = {each["name"]: each["roleState"] for each in loaded.get("/api/v49/cm/service/roles").json()["items"]}
    assert {name for name, state in states.items() if state == "STARTED"} == set(monitors)


def test_a_fresh_manager_has_no_management_service(installed):
    assert installed.get("/api/v49/cm/service").status_code == 404
    assert installed.send("POST", "/api/v49/cm/service/commands/start").status_code == 404


def test_a_running_cluster_is_not_deleted(loaded):
    answer = loaded.send("DELETE", "/api/v49/clusters/base")
    assert answer.status_code == 400
    assert "stopped first" in answer.json()["message"]
    loaded.lab.switch("delete-running", "allow")
    assert loaded.send("DELETE", "/api/v49/clusters/base").status_code == 200


def test_a_cluster_that_others_use_is_not_deleted(tmp_path, make_lab, example):
    doc = json.loads(example)
    doc["dataContexts"]["items"] = [{"name": "dc1", "services": [{"clusterName": "base", "serviceName": "hdfs"}]}]
    path = tmp_path / "with-context.json"
    path.write_text(json.dumps(doc))
    client = make_lab(Options(deployment=path), delete_running="allow")
    assert "data context 'dc1'" in client.send("DELETE", "/api/v49/clusters/base").json()["message"]
    assert client.send("DELETE", "/api/v49/dataContexts/dc1").status_code == 200
    assert client.send("DELETE", "/api/v49/clusters/base").status_code == 200
    assert len(client.get("/api/v49/hosts").json()["items"]) == 5


def test_redaction_is_on_unless_the_options_say_otherwise(make_lab):
    client = make_lab()
    text = client.get("/api/v49/cm/deployment").text
    assert text.count('"REDACTED"') == 53
    assert "pwHash" not in text
    assert "REDACTED" in client.get("/api/v49/cm/config").text
    options = client.lab.folder / "hosts" / client.lab.manager_host / "root/etc/default/cloudera-scm-server"
    line = 'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false $CMF_JAVA_OPTS"\n'
    options.write_text(options.read_text() + line)
    assert "REDACTED" in client.get("/api/v49/cm/deployment").text
    client.lab.server.restart()
    assert client.lab.server.wait()
    text = client.get("/api/v49/cm/deployment").text
    assert "REDACTED" not in text
    assert text.count("pwHash") == 7


def test_the_redacted_view_hides_without_the_property(standing):
    text = standing.get("/api/v49/cm/deployment?view=EXPORT_REDACTED").text
    assert text.count('"REDACTED"') == 53
    assert "pwSalt" not in text
    assert standing.get("/api/v49/cm/deployment?view=summary").status_code == 400


def test_weak_roles_are_refused(standing):
    standing.log_in_as("backup-operator", "backup-operator-Pw-1")
    assert standing.get("/api/version").status_code == 200
    assert standing.get("/api/v49/cm/deployment").status_code == 200
    for path in ("/api/v49/cm/license", "/api/v49/certs/truststorePassword"):
        answer = standing.get(path)
        assert (answer.status_code, "message" in answer.json()) == (403, True)


def test_a_role_of_one_cluster_counts_there_only_and_nowhere_once_that_is_gone(tmp_path, make_lab, example):
    doc = document.parse(example)
    user = {"name": "night", "authRoles": [{"displayName": "Base Cluster Operators", "name": "Base Cluster Operators"}]}
    accounts.set_password(user, "watch", __import__("random").Random(1), "cm5")
    doc["users"].append(user)
    path = tmp_path / "with-operator.json"
    path.write_text(json.dumps(doc))
    client = make_lab(Options(deployment=path), delete_running="allow").log_in_as("night", "watch")
    assert client.send("POST", "/api/v49/clusters/ecs-01/commands/stop").status_code == 403
    assert client.send("POST", "/api/v49/clusters/base/commands/stop").status_code == 200
    assert client.send("DELETE", "/api/v49/clusters/base").status_code == 403
    assert client.log_in_as("admin", "admin").send("DELETE", "/api/v49/clusters/base").status_code == 200
    assert "Base Cluster Operators" not in client.get("/api/v49/cm/deployment").text
    client.log_in_as("night", "watch")
    assert client.send("POST", "/api/v49/clusters/ecs-01/commands/stop").status_code == 403


def test_the_truststore_password_opens_the_truststore_on_every_host(standing):
    from maint.lab.manager import jks

    password = standing.get("/api/v49/certs/truststorePassword").text
    for name in standing.lab.machines:
        tree = standing.lab.folder / "hosts" / name / "root/var/lib/cloudera-scm-agent/agent-cert"
        assert jks.read((tree / "cm-auto-global_truststore.jks").read_bytes(), password)
    assert jks.read(standing.get("/api/v49/certs/truststore?type=JKS").content, password)
    assert b"BEGIN CERTIFICATE" in standing.get("/api/v49/certs/truststore?type=PEM").content


def test_without_auto_tls_there_is_no_password(installed):
    for value, status in (("404", 404), ("500", 500), ("empty", 200)):
        with switched(installed, truststore_off=value):
            answer = installed.get("/api/v49/certs/truststorePassword")
        assert answer.status_code == status
        assert not answer.text if status == 200 else "message" in answer.json(), value


def test_json_is_chunked_and_spelled_as_the_real_server_does(standing):
    answer = standing.get("/api/v49/clusters?clusterType=any")
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["Content-Type"] == "application/json;charset=utf-8"
    assert answer.text.startswith('{\n  "items" : [ {\n    "name" : "base",\n')
    assert "null" not in answer.text


def test_settings_are_changed_and_reset(loaded):
    body = json.dumps({"items": [{"name": "SESSION_TIMEOUT", "value": "60"}, {"name": "KDC_TYPE", "value": None}]})
    assert loaded.send("PUT", "/api/v49/cm/config", data=body).status_code == 200
    settings = {each["name"]: each["value"] for each in loaded.get("/api/v49/cm/config").json()["items"]}
    assert settings["SESSION_TIMEOUT"] == "60"
    assert "KDC_TYPE" not in settings
    assert settings["WEB_TLS"] == "true"


def test_a_licence_that_is_none_is_refused(installed, make_lab):
    answer = installed.upload_license(b"not a licence")
    assert (answer.status_code, "not a valid license" in answer.json()["message"]) == (400, True)
    assert installed.get("/api/v49/cm/license").json()["owner"] == "Laboratory"
    other = make_lab(Options(fresh=True), no_license_message="express")
    assert other.get("/api/v49/cm/license").json() == {
        "message": "This installation is currently running Cloudera Express."
    }


def test_a_trial_can_be_had_once(make_lab):
    client = make_lab(Options(fresh=True))
    assert client.send("POST", "/api/v49/cm/trial/begin").status_code == 204
    assert "Trial" in client.get("/api/v49/cm/license").json()["owner"]
    assert client.send("POST", "/api/v49/cm/trial/begin").json() == {"message": "Trial has been used."}


def test_the_log_holds_each_request_before_its_answer_arrives(loaded):
    loaded.get("/api/version")
    loaded.get("/api/v49/clusters?clusterType=any")
    assert loaded.lab.counts() == {"GET /api/version": 1, "GET /api/v49/clusters": 1}
    line = json.loads(loaded.lab.log.path.read_text().splitlines()[-1])
    assert line["path"] == "/api/v49/clusters?clusterType=any"
    assert (line["method"], line["status"], line["port"]) == ("GET", 200, loaded.lab.server.tls_port)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_a_basic_header_that_is_garbage_is_a_401(standing):
    for value in ("Basic ?", "Bearer x", "Basic " + base64.b64encode(b"\xff\xfe").decode()):
        assert standing.get("/api/version", auth=None, headers={"Authorization": value}).status_code == 401


def test_of_what_comes_twice_the_first_counts_and_a_name_need_not_be_escaped(installed):
    assert installed.get("/api/v49/tools/echo?message=one&message=two").json() == {"message": "one"}
    account = base64.b64encode(":".join(installed.account).encode())
    head = "GET /api/v49/hosts/Größe HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic ".encode()
    with socket.create_connection(("127.0.0.1", installed.lab.server.plain_port), timeout=20) as connection:
        connection.sendall(head + account + b"\r\nAuthorization: Basic eDp5\r\n\r\n")
        assert "Host 'Größe' not found." in connection.makefile("rb").read().decode()


def test_what_lies_beside_the_api_is_a_page_that_is_not_there(standing):
    answer = standing.get("/apidocs", auth=None)
    assert (answer.status_code, "<html>" in answer.text) == (404, True)
