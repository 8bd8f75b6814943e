"""Putting a deployment in force, and the restarts around it."""

import http.client
import json
import socket
import ssl
import threading
import time

import pytest
import requests

from maint.lab.manager import document
from maint.lab.manager.load import Options
from maint.lab.running import Lab

PUT_HEAD = (
    b"PUT /api/v49/cm/deployment?deleteCurrentDeployment=true HTTP/1.1\r\nHost: x\r\n"
    b"Authorization: Basic YWRtaW46YWRtaW4=\r\n"
)


def edited(content, change):
    doc = document.parse(content)
    change(doc)
    return document.dumps(doc).encode()


def clusters_of(client):
    return [each["name"] for each in client.get("/api/v49/clusters?clusterType=any").json()["items"]]


def test_a_restore_replaces_accounts_at_once_and_stops_everything(fresh, example):
    cookie = fresh.get("/api/version").cookies
    assert fresh.put_deployment(example).status_code == 200
    assert fresh.get("/api/version", auth=None, cookies=cookie).status_code == 401
    fresh.log_in_as("backup-operator", "backup-operator-Pw-1")
    assert clusters_of(fresh) == ["base", "ecs-01"]
    states = {each["serviceState"] for each in fresh.get("/api/v49/clusters/base/services").json()["items"]}
    assert states == {"STOPPED", "NA"}


def test_a_restore_forgets_commands(loaded, example):
    number = loaded.send("POST", "/api/v49/clusters/base/commands/stop").json()["id"]
    assert loaded.put_deployment(example, "/api/v49/cm/deployment?deleteCurrentDeployment=True").status_code == 200
    assert loaded.get(f"/api/v49/commands/{number}").status_code == 404


def test_tls_comes_up_with_the_restart_only(fresh, example):
    fresh.put_deployment(example)
    fresh.log_in_as("admin", "admin")
    assert fresh.base.startswith("http://")
    assert fresh.get("/api/version").status_code == 200
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", fresh.lab.server.tls_port), timeout=100):
        pass
    fresh.lab.server.restart()
    assert fresh.lab.server.wait()
    assert fresh.base.startswith("https://")
    assert fresh.get("/api/version").status_code == 200


def no_admin(doc):
    doc["users"] = [user for user in doc["users"] if user["name"] != "admin"]


def no_host(doc):
    doc["hosts"] = doc["hosts"][1:]


def two_clusters(doc):
    doc["clusters"].append(doc["clusters"][0])


def no_group(doc):
    doc["clusters"][0]["services"][0]["roleConfigGroups"] = []


def lost_template(doc):
    doc["clusters"] = doc["clusters"][1:]


@pytest.mark.parametrize(
    ("change", "words"),
    [(no_admin, "ROLE_ADMIN"), (no_host, "not found"), (two_clusters, "Duplicate"), (no_group, "config group"),
     (lost_template, "host template")],
)  # fmt: skip
def test_what_is_not_whole_is_refused_and_changes_nothing(installed, example, change, words):
    before = installed.get("/api/v49/cm/deployment").json()
    answer = installed.put_deployment(edited(example, change))
    assert (answer.status_code, words in answer.json()["message"]) == (400, True)
    after = installed.get("/api/v49/cm/deployment").json()
    assert before | {"timestamp": ""} == after | {"timestamp": ""}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clusters": 7}', b'{"managerSettings": []}', b'{"users": [1]}'])
def test_what_is_no_deployment_is_400(installed, body):
    answer = installed.put_deployment(body)
    assert (answer.status_code, "message" in answer.json()) == (400, True)


def test_without_a_licence_clusters_are_refused(make_lab, example):
    client = make_lab(Options(fresh=True))
    assert "license" in client.put_deployment(example).json()["message"]


def test_without_the_flag_what_exists_is_refused(standing, example):
    answer = standing.put_deployment(example, "/api/v49/cm/deployment")
    assert (answer.status_code, "exists already" in answer.json()["message"]) == (400, True)


def test_without_the_flag_a_part_is_added(fresh):
    part = {"hosts": [{"hostId": "h1", "hostname": "new.example", "ipAddress": "192.0.2.1", "rackId": "/default"}]}
    assert fresh.put_deployment(json.dumps(part).encode(), "/api/v49/cm/deployment").status_code == 200
    assert [each["hostname"] for each in fresh.get("/api/v49/hosts").json()["items"]] == ["new.example"]
    assert fresh.get("/api/version").status_code == 200  # the account is still there


def test_the_server_refuses_the_role_it_was_told_to(make_lab, example):
    role = json.loads(example)["clusters"][0]["services"][0]["roles"][0]["name"]
    switches = {"reject-role": role, "reject-role-message": "No such {thing}."}
    client = make_lab(Options(fresh=True, switches=switches))
    client.upload_license()
    message = client.put_deployment(example).json()["message"]
    assert role in message
    assert message.endswith("No such {thing}.")


def test_read_only_fields_are_ignored(fresh, example):
    def add(doc):
        doc["clusters"][0]["entityStatus"] = "GOOD_HEALTH"
        doc["clusters"][0]["services"][0]["serviceState"] = "STARTED"
        doc["timestamp"] = "1999-01-01T00:00:00.000Z"
        doc["versionInfo"]["version"] = "1.2.3"

    assert fresh.put_deployment(edited(example, add)).status_code == 200
    fresh.log_in_as("admin", "admin")
    original = document.parse(example)
    assert fresh.get("/api/v49/cm/deployment").json() | {"timestamp": ""} == original | {"timestamp": ""}


def test_a_reference_that_is_null_names_nothing_else(fresh, example):
    def forget(doc):
        group = doc["clusters"][0]["services"][0]["roleConfigGroups"][0]
        group["serviceRef"] = {"clusterName": None, "serviceName": None}

    assert fresh.put_deployment(edited(example, forget)).status_code == 200


@pytest.mark.parametrize("pw_hash", ["$2b$12$" + "a" * 53, "é" * 64])
def test_a_hash_of_an_unknown_kind_is_taken_and_opens_to_nobody(fresh, example, pw_hash):
    def unknown(doc):
        user = next(user for user in doc["users"] if user["name"] == "backup-operator")
        user["pwHash"] = pw_hash
        if pw_hash.isascii():
            del user["pwSalt"]

    assert fresh.put_deployment(edited(example, unknown)).status_code == 200
    fresh.log_in_as("backup-operator", "backup-operator-Pw-1")
    assert fresh.get("/api/version").status_code == 401
    fresh.log_in_as("admin", "admin")
    assert fresh.get("/api/version").status_code == 200


def test_a_directory_group_needs_its_auth_role_as_a_user_does(installed, example):
    def grant(doc):
        doc["externalUserMappings"][0]["authRoles"].append({"name": "auditors"})

    assert "'auditors'" in installed.put_deployment(edited(example, grant)).json()["message"]


def test_roles_of_a_user_that_are_no_list_are_a_400(installed, example):
    answer = installed.put_deployment(edited(example, lambda doc: doc["users"][0].update(roles=True)))
    assert (answer.status_code, "not a list" in answer.json()["message"]) == (400, True)


def test_a_password_in_clear_becomes_a_hash(fresh):
    role = [{"displayName": "Full Administrator"}]
    body = json.dumps({"users": [{"name": "ops", "password": "clear", "authRoles": role}]}).encode()
    assert "clear" not in fresh.put_deployment(body).text
    fresh.log_in_as("ops", "clear")
    assert fresh.get("/api/version").status_code == 200


def test_fields_newer_than_the_path_are_lost(fresh, example):
    def with_roles(doc):
        doc["users"][4]["roles"] = ["ROLE_ADMIN"]

    path = "/api/v19/cm/deployment?deleteCurrentDeployment=true"
    assert "ROLE_ADMIN" in fresh.put_deployment(example, path).json()["message"]
    assert fresh.put_deployment(edited(example, with_roles), path).status_code == 200
    fresh.log_in_as("admin", "admin")
    assert "externalUserMappings" not in fresh.get("/api/v49/cm/deployment").json()


def test_redacted_values_are_stored_and_tls_cannot_start(fresh, example):
    redacted = edited(example, lambda doc: [
        item.update(value="REDACTED") for item in doc["managerSettings"]["items"] if item["sensitive"]
    ])  # fmt: skip
    assert fresh.put_deployment(redacted).status_code == 200
    fresh.lab.server.restart()
    assert fresh.lab.server.wait()
    fresh.log_in_as("admin", "admin")
    assert fresh.base.startswith("http://")
    log = fresh.lab.folder / "hosts" / fresh.lab.manager_host / "root/var/log/cloudera-scm-server"
    assert "Failed to start TLS" in (log / "cloudera-scm-server.log").read_text()
    assert fresh.get("/api/v49/certs/truststorePassword").text == "REDACTED"


def test_without_the_keystore_tls_cannot_start(make_lab):
    client = make_lab(plain_when_tls_fails="redirect")
    tree = client.lab.folder / "hosts" / client.lab.manager_host / "root"
    (tree / "var/lib/cloudera-scm-agent/agent-cert/cm-auto-host_keystore.jks").unlink()
    client.lab.server.restart()
    assert client.lab.server.wait()
    assert not client.lab.world.tls
    assert client.get("/api/version").status_code == 302


@pytest.mark.parametrize("path", ["/etc", "/../../../../outside.jks", "/etc/cloudera-scm-server/uuid"])
def test_a_keystore_that_is_none_keeps_nothing_but_tls_down_and_lies_within_its_host(make_lab, example, path, tmp_path):
    doc = json.loads(example)
    next(each for each in doc["managerSettings"]["items"] if each["name"] == "KEYSTORE_PATH")["value"] = path
    (tmp_path / "export.json").write_text(json.dumps(doc))
    client = make_lab(Options(deployment=tmp_path / "export.json"))
    assert client.lab.server.ready
    assert client.lab.world.tls is (path.endswith("outside.jks"))
    tree = client.lab.folder / "hosts" / client.lab.manager_host / "root"
    assert [one for one in client.lab.folder.parent.rglob("outside.jks") if tree not in one.parents] == []


@pytest.mark.parametrize("starting", [503, 404])
def test_a_restart_refuses_connections_then_says_that_it_starts_then_serves(make_lab, starting):
    client = make_lab(starting_status=str(starting))
    for name in ("down-seconds", "starting-seconds"):
        client.lab.switch(name, "600")
    client.lab.server.restart()
    for status, waits in ((0, "down-seconds"), (starting, "starting-seconds"), (200, "")):
        wait_until(lambda status=status: answered(client) == status)
        if waits:
            client.lab.switch(waits, "0")


def answered(client):
    """Return the status of an answer, 0 where there is none."""
    try:
        return client.get("/api/version").status_code
    except requests.RequestException:
        return 0


def test_a_server_whose_port_is_taken_comes_up_once_it_is_free(fresh):
    fresh.lab.server.stop()
    with socket.create_server(("127.0.0.1", fresh.lab.server.plain_port)):
        fresh.lab.server.start()
        assert not fresh.lab.server.wait(0.3)
    assert fresh.lab.server.wait()
    assert fresh.get("/api/version").status_code == 200


def test_a_restart_ends_active_commands(make_lab):
    client = make_lab(command_seconds="60")
    number = client.send("POST", "/api/v49/clusters/base/commands/stop").json()["id"]
    client.lab.server.restart()
    assert client.lab.server.wait()
    command = client.get(f"/api/v49/commands/{number}").json()
    assert (command["active"], command["success"]) == (False, False)


def test_a_restart_rolls_back_a_restore_under_way(make_lab, example):
    client = make_lab(Options(fresh=True), put_seconds="30")
    client.upload_license()
    failed = []

    def put():
        try:
            client.put_deployment(example)
        except requests.RequestException as error:
            failed.append(error)

    let_in = set(client.lab.world.sessions)
    sender = threading.Thread(target=put)
    sender.start()
    wait_until(lambda: client.lab.world.sessions.keys() - let_in)
    client.lab.server.restart()
    sender.join(200)
    assert failed
    assert client.lab.server.wait()
    assert clusters_of(client) == []


def test_a_restore_goes_on_when_its_sender_leaves(make_lab, example):
    client = make_lab(Options(fresh=True), put_seconds="0.5")
    client.upload_license()
    with socket.create_connection(("127.0.0.1", client.lab.server.plain_port)) as connection:
        length = b"Content-Length: %d\r\n\r\n" % len(example)
        connection.sendall(PUT_HEAD + length + example)
    wait_until(lambda: client.lab.world.deployment["clusters"])
    client.log_in_as("backup-operator", "backup-operator-Pw-1")
    assert clusters_of(client) == ["base", "ecs-01"]
    wait_until(lambda: client.lab.counts().get("PUT /api/v49/cm/deployment"))  # told after it is done
    assert client.lab.counts()["PUT /api/v49/cm/deployment"] == 1


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_breaks_off_changes_nothing(make_lab, example, chunked):
    client = make_lab(Options(fresh=True))
    client.upload_license()
    connection = socket.create_connection(("127.0.0.1", client.lab.server.plain_port))
    size = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(example)
    piece = b"%x\r\n%s\r\n" % (len(example), example) if chunked else example[:-1]
    connection.sendall(PUT_HEAD + size + b"\r\n\r\n" + piece)
    connection.close()
    wait_until(lambda: client.lab.counts().get("PUT /api/v49/cm/deployment"))
    assert clusters_of(client) == []
    assert json.loads(client.lab.log.path.read_text().splitlines()[1])["status"] == 0


def test_roles_that_name_their_host_alone_are_on_it(fresh, example):
    doc = json.loads(example)
    for role in doc["clusters"][0]["services"][0]["roles"]:
        del role["hostRef"]["hostId"]
    fresh.upload_license()
    assert fresh.put_deployment(json.dumps(doc).encode()).status_code == 200
    restored = fresh.log_in_as("admin", "admin").get("/api/v49/clusters/base/hosts")
    assert {host["hostId"] for host in restored.json()["items"]} == {
        role["hostRef"]["hostId"]
        for service in json.loads(example)["clusters"][0]["services"]
        for role in service["roles"]
    }


def test_a_document_that_is_nested_very_deeply_is_a_400_and_changes_nothing(installed):
    nested = b'{"extra" : ' + b"[" * 900 + b"]" * 900 + b"}"
    answer = installed.put_deployment(nested)
    assert (answer.status_code, "nested too deeply" in answer.text) == (400, True)


def test_a_chunked_restore_is_taken_or_not(make_lab, example):
    client = make_lab(Options(fresh=True))
    client.upload_license()
    path = "/api/v49/cm/deployment?deleteCurrentDeployment=true"
    assert client.send("PUT", path, data=iter([example[:100], example[100:]])).status_code == 200
    strict = make_lab(Options(fresh=True), chunked_upload="refuse")
    assert strict.send("PUT", path, data=iter([example])).status_code == 411


def test_a_sender_that_waits_for_100_is_told_to_go_on_or_is_turned_away(make_lab, example):
    client = make_lab(Options(fresh=True))
    client.upload_license()
    for account, expected in (("YWRtaW46YWRtaW4=", b"100 Continue"), ("d3Jvbmc6d3Jvbmc=", b"401 Bad credentials")):
        with socket.create_connection(("127.0.0.1", client.lab.server.plain_port)) as connection:
            connection.sendall(
                b"PUT /api/v49/cm/deployment?deleteCurrentDeployment=true HTTP/1.1\r\nHost: x\r\n"
                b"Expect: 100-continue\r\nContent-Length: %d\r\nAuthorization: Basic %s\r\n\r\n"
                % (len(example), account.encode())
            )
            assert expected in connection.recv(4096).split(b"\r\n")[0]
            if b"100" in expected:
                connection.sendall(example)
                assert b"200 OK" in connection.recv(4096).split(b"\r\n")[0]


def test_the_database_can_be_lost_while_the_hosts_files_stay(loaded):
    tree = loaded.lab.folder / "hosts" / loaded.lab.manager_host / "root"
    guid = (tree / "etc/cloudera-scm-server/uuid").read_text()
    loaded.lab.lose_database()
    loaded.log_in_as("admin", "admin")
    assert loaded.base.startswith("http://")
    assert clusters_of(loaded) == []
    assert loaded.get("/api/v49/cm/license").status_code == 404
    assert loaded.get("/api/v49/cm/version").json()["version"] == "7.6.5"
    assert (tree / "etc/cloudera-scm-server/uuid").read_text() == guid
    assert (tree / "var/lib/cloudera-scm-server/certmanager/trust-store/cm-auto-global_truststore.jks").exists()


def test_a_lab_survives_its_process(fresh, example):
    fresh.put_deployment(example)
    fresh.lab.stop()
    fresh.log_in_as("admin", "admin")
    fresh.lab = Lab(fresh.lab.folder)
    with fresh.lab:
        assert fresh.base.startswith("https://")
        assert clusters_of(fresh) == ["base", "ecs-01"]
        assert fresh.get("/api/v49/cm/license").json()["owner"] == "Laboratory"


def wait_until(condition):
    limit = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < limit, "it does not happen"
        time.sleep(0.02)


def test_each_answer_counts_even_when_it_is_lost(fresh, example):
    fresh.lab.break_("", "put-answer-lost")
    with pytest.raises((requests.ConnectionError, http.client.HTTPException)):
        fresh.put_deployment(example)
    assert fresh.lab.counts()["PUT /api/v49/cm/deployment"] == 1
    fresh.log_in_as("admin", "admin")
    assert clusters_of(fresh) == ["base", "ecs-01"]


FAULTS = [("unauthorised-once", 401), ("bad-request-once", 400), ("error-500-once", 500), ("unavailable-once", 503),
          ("proxy-502", 502), ("html-error", 500)]  # fmt: skip


@pytest.mark.parametrize(("fault", "status"), FAULTS)
def test_a_fault_that_strikes_once_strikes_once(loaded, fault, status):
    loaded.lab.break_("clusters", fault)
    assert loaded.get("/api/version").status_code == 200
    assert loaded.get("/api/v49/clusters").status_code == status
    assert loaded.get("/api/v49/clusters").status_code == 200


def test_a_fault_that_lasts_redirects_everything_until_it_is_repaired(loaded):
    loaded.lab.break_("", "redirect-everything")
    assert {loaded.get(path).status_code for path in ("/api/version", "/api/v49/clusters", "/api/version")} == {302}
    loaded.lab.repair()
    assert loaded.get("/api/version").status_code == 200


def test_a_cut_export_is_noticed_by_whoever_counts_chunks(loaded):
    loaded.lab.break_("", "cut-body")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        loaded.get("/api/v49/cm/deployment")
    loaded.lab.break_("", "cut-body-cleanly")
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        loaded.get("/api/v49/cm/deployment").json()
    assert loaded.get("/api/v49/cm/deployment").json()["clusters"]


def test_a_slow_body_comes_whole(make_lab):
    client = make_lab(slow_seconds="0.2", redaction_default="off")
    client.lab.break_("", "slow-body")
    assert client.get("/api/v49/cm/deployment").json()["versionInfo"]["version"] == "7.6.5"


@pytest.mark.parametrize(
    ("fault", "words"),
    [("expired-certificate", "expired"), ("wrong-host-certificate", "match"), ("unknown-ca-certificate", "issuer")],
)
def test_a_bad_certificate_is_shown_until_cleared(loaded, fault, words):
    loaded.lab.break_("", fault)
    with pytest.raises(ssl.SSLError, match=words):
        handshake(loaded)
    assert loaded.lab.repair() == 1
    handshake(loaded)


def handshake(client):
    context = ssl.create_default_context(cafile=str(client.lab.folder / "ca/bundle.pem"))
    address = ("127.0.0.1", client.lab.server.tls_port)
    with socket.create_connection(address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
        assert len(tls.getpeercert()["issuer"]) == 1


def test_tls_that_never_comes_up_leaves_the_plain_port(loaded):
    loaded.lab.break_("", "tls-never-comes-up")
    loaded.lab.server.restart()
    assert loaded.lab.server.wait()
    assert loaded.base.startswith("http://")
    assert loaded.get("/api/version").status_code == 200


def test_a_wrong_truststore_password_opens_nothing(loaded):
    good = loaded.get("/api/v49/certs/truststorePassword").text
    loaded.lab.break_("", "wrong-truststore-password")
    bad = loaded.get("/api/v49/certs/truststorePassword").text
    assert (len(bad), bad == good) == (43, False)


def test_the_log_says_what_became_of_each_answer(fresh, example):
    fresh.lab.break_("version", "connection-dropped")
    with pytest.raises(requests.ConnectionError):
        fresh.get("/api/version")
    line = json.loads(fresh.lab.log.path.read_text().splitlines()[-1])
    assert (line["status"], line["remark"]) == (0, "connection dropped")
