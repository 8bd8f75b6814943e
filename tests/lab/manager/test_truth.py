"""The lab answers as the server would where callers, documents and versions are strange."""

import io
import json
import random
import re
import socket
import ssl
import threading
import zipfile
from http.server import BaseHTTPRequestHandler

import pytest
import requests

from maint.cli.help.topics import text_of
from maint.lab.http.server import Listener, RequestLog
from maint.lab.manager import document, simulator
from maint.lab.manager.api import routes
from maint.lab.manager.load import Options
from tests.lab.conftest import FAST

JSON = {"Content-Type": "application/json"}
V = "/api/v49"


def last(client):
    """Return the last line of the request log."""
    return json.loads(client.lab.log.path.read_text().splitlines()[-1])


def raw(client, head: bytes, body: bytes = b"") -> bytes:
    """Send bytes to the plain port and return what comes back until the server closes."""
    import base64

    account = base64.b64encode(":".join(client.account).encode())
    with socket.create_connection(("127.0.0.1", client.lab.server.plain_port), timeout=20) as connection:
        connection.sendall(
            head + b"\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic " + account + b"\r\n\r\n" + body
        )
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found


# -- whatever goes wrong within is answered and logged


@pytest.mark.parametrize(("method", "call"), [("GET", "cm/version"), ("PUT", "cm/deployment")])
def test_a_handler_that_fails_is_answered_500_and_logged_with_or_without_a_body(
    standing, monkeypatch, capfd, method, call
):
    def fails(world, request):
        raise TypeError("anything")

    route = next(pattern for pattern in routes.CALLS.table if pattern.fullmatch(f"{method} {call}"))
    monkeypatch.setitem(routes.CALLS.table, route, routes.Route(fails))
    body = {"data": "{}", "headers": JSON} if method == "PUT" else {}
    answer = standing.send(method, f"{V}/{call}", timeout=10, **body)
    assert (answer.status_code, "message" in answer.json()) == (500, True)
    assert (last(standing)["path"], last(standing)["status"]) == (f"{V}/{call}", 500)
    assert "TypeError: anything" in capfd.readouterr().err
    assert standing.get("/api/version").status_code == 200


@pytest.mark.parametrize("items", ["5", '"x"', "[5]", '[{"value": "no name"}]', '[{"name": "WEB_TLS", "value": {}}]'])
def test_settings_that_are_no_list_of_settings_are_a_400(standing, items):
    answer = standing.send("PUT", f"{V}/cm/config", data=f'{{"items": {items}}}', headers=JSON, timeout=10)
    assert (answer.status_code, last(standing)["status"]) == (400, 400)
    assert "Cannot read the settings" in answer.json()["message"]


@pytest.mark.parametrize("length", [b"abc", b"-1", b"1e3", b"5, 5", b"9" * 5000])
def test_a_length_that_is_no_number_is_a_400(installed, length):
    answer = raw(installed, b"POST /api/v49/cm/trial/begin HTTP/1.1\r\nContent-Length: " + length)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert last(installed)["status"] == 400


@pytest.mark.parametrize("size", [b"zz", b"-5", b"+5", b"0x5", b"1_0", b"", b"f" * 60])
def test_a_chunk_whose_length_is_no_number_is_a_400_and_waited_for_by_nobody(installed, size):
    head = b"PUT /api/v49/cm/config HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    answer = raw(installed, head, size + b"\r\n{}   \r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert last(installed)["status"] == 400


def test_a_version_of_very_many_digits_is_not_found(installed):
    assert installed.get(f"/api/v{'9' * 5000}/hosts").status_code == 404


def test_a_request_line_that_cannot_be_read_is_a_400_and_logged(installed):
    assert b" 400 " in raw(installed, b"GARBAGE")[:40]
    assert last(installed)["status"] == 400


@pytest.mark.parametrize(
    "head",
    [b"GET http://[x/api/version HTTP/1.1", b"GET /api/version HTTP/1.1\r\nHost: y",
     b"PUT /api/v49/cm/config HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 12",
     b"PUT /api/v49/cm/config HTTP/1.1\r\nTransfer-Encoding: gzip"],
)  # fmt: skip
def test_a_head_that_can_be_read_in_two_ways_is_a_400_and_logged(installed, head):
    assert raw(installed, head).startswith(b"HTTP/1.1 400 ")
    assert last(installed)["status"] == 400


def mutated(content: bytes, seed: int) -> bytes:
    """Return a document of which one value, somewhere, is of another kind."""
    chance, doc = random.Random(seed), document.parse(content)
    node = doc
    for _ in range(chance.randrange(1, 9)):
        below = [
            part
            for part in (node.values() if isinstance(node, dict) else node)
            if part and isinstance(part, dict | list)
        ]
        if not below:
            break
        node = chance.choice(below)
    key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    node[key] = chance.choice([5, "x", None, [], {}, [5], ["x"], {"a": 1}, True, 1e300])
    return json.dumps(doc).encode()


ZOOKEEPER = {
    "name": "zoo-2",
    "type": "ZOOKEEPER",
    "config": {"items": [{"name": "maxClientCnxns", "value": "50"}]},
    "roleConfigGroups": [{"name": "small", "roleType": "SERVER", "config": {"items": []}}],
    "roles": [{"type": "SERVER", "hostRef": {"hostname": "base-01.example.internal"},
               "roleConfigGroupRef": {"roleConfigGroupName": "small"}, "tags": [{"name": "a", "value": "b"}]}],
}  # fmt: skip
ROLE = {"name": "ROLE_USER"}
BODIES = {
    "POST clusters": {"items": [{"name": "second", "fullVersion": "7.1.9", "services": [ZOOKEEPER]}]},
    "POST clusters/base/services": {"items": [ZOOKEEPER]},
    "POST clusters/base/services/hdfs/roles": {"items": [{"type": "BALANCER", "hostRef": {"hostname": "x"}}]},
    "POST clusters/base/services/hdfs/roleConfigGroups": {"items": [{"name": "big", "roleType": "DATANODE"}]},
    "POST clusters/base/hostTemplates": {"items": [{"name": "t", "roleConfigGroupRefs": []}]},
    "POST clusters/base/hosts": {"items": [{"hostId": "x"}]},
    "POST users": {"items": [{"name": "new", "password": "x", "authRoles": [ROLE], "roles": ["ROLE_USER"]}]},
    "PUT users/jdoe": {"roles": ["ROLE_USER"], "authRoles": []},
    "POST externalUserMappings": {"items": [{"name": "ops", "type": "LDAP", "authRoles": [ROLE]}]},
    "POST dataContexts": {"name": "sdx", "services": [{"clusterName": "base", "serviceName": "hdfs"}]},
    "PUT hosts/base-01.example.internal": {"rackId": "/one"},
}


def test_mutated_bodies_are_taken_or_refused_and_are_no_fault_of_the_lab(loaded):
    for call, body in BODIES.items():
        method, _, path = call.partition(" ")
        for seed in range(4):
            sent = mutated(json.dumps(body).encode(), seed)
            answer = loaded.send(method, f"{V}/{path}", data=sent, headers=JSON, timeout=20)
            assert answer.status_code in (200, 400, 404), (call, sent, answer.text)


@pytest.mark.parametrize("body", ['{"items": 5}', '{"items": [5]}', "[]", "5", "null", '{"items": {"name": "x"}}'])
@pytest.mark.parametrize("call", ["cm/config", "clusters/base/services/hdfs/config"])
def test_settings_of_another_shape_are_refused_and_never_left_without_an_answer(standing, call, body):
    answer = standing.send("PUT", f"{V}/{call}", data=body, headers=JSON, timeout=10)
    assert (answer.status_code, "message" in answer.json()) == (400, True), answer.text
    assert (last(standing)["path"], last(standing)["status"]) == (f"{V}/{call}", 400)


def test_mutated_deployments_are_taken_or_refused_never_left_without_an_answer(fresh, example):
    for seed in range(30):
        answer = fresh.put_deployment(mutated(example, seed), timeout=20)
        assert answer.status_code in (200, 400), (seed, answer.text)
        if answer.status_code == 200:
            assert fresh.log_in_as("admin", "admin").get(f"{V}/cm/deployment").status_code == 200
            assert fresh.get(f"{V}/hosts?view=full").status_code == 200


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"users": ' + "9" * 5000 + "}"])
def test_a_document_that_no_parser_likes_is_a_400(installed, text):
    assert installed.put_deployment(text.encode(), timeout=20).status_code == 400


def test_half_a_character_is_a_400_and_spoils_nothing_that_is_kept(loaded):
    half = '{"items": [{"name": "WEB_TLS", "value": "\\ud800"}]}'
    for call, body in (("PUT cm/config", half), ("PUT clusters/base/tags", '[{"name": "\\ud800", "value": "x"}]')):
        method, _, path = call.partition(" ")
        assert loaded.send(method, f"{V}/{path}", data=body, headers=JSON).status_code == 400
    assert loaded.send("POST", f"{V}/clusters/base/commands/stop").status_code == 200
    raw_half = b'{"items": [{"name": "WEB_TLS", "value": "\xed\xa0\x80"}]}'
    assert loaded.send("PUT", f"{V}/cm/config", data=raw_half, headers=JSON).status_code == 400


@pytest.mark.parametrize("number", ["9" * 400, "1.5", "-1", "%00"])
def test_what_can_be_no_number_of_a_command_is_not_found(standing, number):
    assert standing.get(f"{V}/commands/{number}").status_code == 404


def test_no_thread_of_a_manager_outlives_it(tmp_path):
    before = set(threading.enumerate())
    with simulator.create(tmp_path / "lab", Options(switches=FAST)).simulator as manager:
        address = ("127.0.0.1", manager.server.tls_port)
        context = ssl.create_default_context(cafile=str(manager.bundle))
        silent = socket.create_connection(address)  # never begins to speak TLS
        idle = context.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1")
        idle.sendall(b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"401" in idle.recv(100)
        slow = context.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1")
        slow.sendall(b"PUT /api/v49/cm/deployment HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of")
    assert set(threading.enumerate()) - before == set()
    for connection in (silent, idle, slow):
        connection.close()


class Deaf(socket.socket):
    """A socket that cannot be shut down while it listens, as on some systems."""

    def shutdown(self, how):
        raise OSError("not connected")


class OnADeafSocket(Listener):
    def server_bind(self):
        self.socket.close()
        self.socket = Deaf(self.address_family, self.socket_type)
        super().server_bind()


def test_a_listener_ends_where_its_socket_cannot_be_shut_down(tmp_path):
    before = set(threading.enumerate())
    OnADeafSocket(0, BaseHTTPRequestHandler, None, RequestLog(tmp_path / "log")).close()
    assert set(threading.enumerate()) - before == set()


# -- methods


def test_a_head_is_a_get_without_its_body(standing):
    for path in ("/api/version", f"{V}/clusters"):
        answer = standing.send("HEAD", path, timeout=10)
        assert (answer.status_code, answer.content) == (200, b"")
        assert (last(standing)["method"], last(standing)["status"]) == ("HEAD", 200)


@pytest.mark.parametrize("method", ["OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_405_with_what_is_allowed(standing, method):
    answer = standing.send(method, f"{V}/cm/config", timeout=10)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, PUT")
    assert last(standing)["status"] == 405
    assert standing.send(method, "/api/version", timeout=10).headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
def test_the_plain_port_redirects_every_method(standing, method):
    plain = standing.lab.status()["manager"]["plain"]
    answer = requests.request(method, f"{plain}/api/version", allow_redirects=False, timeout=10)
    assert (answer.status_code, last(standing)["status"]) == (302, 302)


# -- views


def test_services_and_roles_have_tags(standing):
    services = standing.get(f"{V}/clusters/base/services").json()["items"]
    roles = standing.get(f"{V}/clusters/base/services/hdfs/roles").json()["items"]
    assert all(each["tags"] == [] for each in [*services, *roles])
    assert "tags" not in standing.get("/api/v40/clusters/base/services").json()["items"][0]


def test_the_full_view_of_hosts_has_tags_distribution_and_config(standing):
    full = standing.get(f"{V}/hosts?view=full").json()["items"][0]
    assert {"tags", "distribution", "config", "lastHeartbeat"} <= full.keys()
    assert full["distribution"].keys() == {"distributionType", "name", "version"}
    older = standing.get("/api/v39/hosts?view=full").json()["items"][0]
    assert not {"tags", "distribution"} & older.keys()
    assert not {"tags", "distribution", "config"} & standing.get(f"{V}/hosts").json()["items"][0].keys()


def test_the_full_view_of_settings_says_more_and_lists_defaults(standing):
    summary = standing.get(f"{V}/cm/config").json()["items"]
    full = {each["name"]: each for each in standing.get(f"{V}/cm/config?view=full").json()["items"]}
    assert {"required", "displayName", "description", "validationState"} <= full["WEB_TLS"].keys()
    assert full["PARCEL_UPDATE_FREQ"]["default"] == "60"
    assert "value" not in full["PARCEL_UPDATE_FREQ"]
    assert {each["name"] for each in summary} < full.keys()


# -- versions


def test_an_export_by_an_old_version_has_the_shape_of_that_version(standing):
    old, new = (standing.get(f"/api/v{api}/cm/deployment").json() for api in (13, 49))
    text = json.dumps(old)
    assert {"authRoles", "externalUserMappings", "dataContexts"} & old.keys() == set()
    assert '"sensitive"' not in text
    assert '"authRoles"' not in text
    assert old["users"][4]["roles"] == ["ROLE_ADMIN"]
    assert "hostname" not in old["clusters"][0]["services"][0]["roles"][0]["hostRef"]
    assert new["authRoles"]


def test_what_an_old_version_does_not_carry_is_lost_by_a_restore_through_it(loaded):
    exported = loaded.get("/api/v13/cm/deployment").content
    assert loaded.put_deployment(exported, "/api/v13/cm/deployment?deleteCurrentDeployment=true").status_code == 200
    back = loaded.get(f"{V}/cm/deployment").json()
    assert not back.get("externalUserMappings")
    assert "sensitive" not in json.dumps(back["clusters"])


def test_accounts_and_settings_take_the_shape_of_the_version(standing):
    assert "roles" in standing.get("/api/v13/users").json()["items"][0]
    assert "authRoles" in standing.get(f"{V}/users").json()["items"][0]
    assert "sensitive" not in standing.get("/api/v13/cm/config").text


# -- what is refused


def test_a_setting_that_nobody_knows_is_refused_unless_switched_off(loaded):
    body = json.dumps({"items": [{"name": "MADE_UP_BY_ME", "value": "1"}]})
    answer = loaded.send("PUT", f"{V}/cm/config", data=body, headers=JSON)
    assert (answer.status_code, "MADE_UP_BY_ME" in answer.json()["message"]) == (400, True)
    loaded.lab.switch("unknown-setting", "accept")
    assert loaded.send("PUT", f"{V}/cm/config", data=body, headers=JSON).status_code == 200


def test_a_body_that_is_said_to_be_something_else_is_refused_unless_switched_off(loaded):
    body, kind = json.dumps({"items": []}), {"Content-Type": "application/x-www-form-urlencoded"}
    assert loaded.send("PUT", f"{V}/cm/config", data=body, headers=kind).status_code == 415
    assert loaded.send(
        "PUT", f"{V}/cm/config", data=body, headers={"Content-Type": "application/json; charset=utf-8"}
    ).ok
    loaded.lab.switch("wrong-content-type", "accept")
    assert loaded.send("PUT", f"{V}/cm/config", data=body, headers=kind).ok


def test_what_is_not_simulated_is_told_from_what_does_not_exist(standing):
    missing = standing.get(f"{V}/timeseries?query=select")
    assert (missing.status_code, "not simulated" in missing.json()["message"]) == (501, True)
    assert last(standing)["remark"] == "not simulated"
    assert standing.send("POST", f"{V}/cm/importClusterTemplate", data="{}", headers=JSON).status_code == 501
    assert standing.send("POST", f"{V}/clusters/base/commands/poolsRefresh").status_code == 501
    assert standing.get(f"{V}/nonsense").status_code == 404
    assert standing.send("POST", f"{V}/clusters/base/commands/nonsense").status_code == 404


def test_a_view_that_does_not_exist_is_refused_with_those_that_do(standing):
    answer = standing.get(f"{V}/hosts?view=everything")
    assert (answer.status_code, "export_redacted" in answer.json()["message"]) == (400, True)
    assert standing.get(f"{V}/hosts?view=FULL").status_code == 200


def test_every_call_that_the_lab_answers_is_one_of_the_real_servers():
    newer = {"GET controlPlanes", "GET cm/licensedFeatureUsage", "GET tools/echoError"}
    for spelled in routes.ROUTES:
        method, _, path = spelled.partition(" ")
        plain = re.sub(r"\{\w+\}", "x", re.sub(r"\{\w+:(\w+)[\w|]*\}", r"\1", path))
        assert routes.is_real(method, plain) or spelled in newer, spelled


def test_the_help_lists_every_call():
    listed = re.findall(r"^    ([A-Z, ]+?) +(?:/api/)?([\w/{}:|]+)$", text_of("lab"), re.MULTILINE)
    told = {f"{method} {path}" for methods, path in listed for method in methods.split(", ")}
    assert told == {*routes.ROUTES, "GET version"}


# -- calls of the contract


def test_the_logs_of_a_command_are_archives(loaded):
    number = loaded.send("POST", f"{V}/clusters/base/commands/stop").json()["id"]
    for stream in ("stdout", "stderr"):
        answer = loaded.get(f"{V}/commands/{number}/logs/{stream}")
        assert zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert loaded.get(f"{V}/commands/999/logs/stdout").status_code == 404


def test_parcels_go_from_stage_to_stage(loaded):
    parcel = loaded.get(f"{V}/clusters/base/parcels").json()["items"][0]
    path = f"{V}/clusters/base/parcels/products/{parcel['product']}/versions/{parcel['version']}"
    assert loaded.get(path).json()["stage"] == "ACTIVATED"
    assert loaded.send("POST", f"{path}/commands/startDistribution").json()["success"] is False
    for verb, stage in (("deactivate", "DISTRIBUTED"), ("startRemovalOfDistribution", "DOWNLOADED"),
                        ("startDistribution", "DISTRIBUTED"), ("activate", "ACTIVATED")):  # fmt: skip
        answer = loaded.send("POST", f"{path}/commands/{verb}").json()
        assert (answer["active"], answer["success"]) == (False, True)
        assert loaded.get(path).json()["stage"] == stage
    assert loaded.get(f"{V}/clusters/base/parcels/products/CDH/versions/0").status_code == 404


def test_hosts_join_a_cluster_and_leave_it(fresh, example):
    doc = document.parse(example)
    spare = {**doc["hosts"][0], "hostId": "spare-id", "hostname": "spare.example.internal", "ipAddress": "192.0.2.99"}
    doc["hosts"].append(spare)
    assert fresh.put_deployment(json.dumps(doc).encode()).status_code == 200
    fresh.log_in_as("admin", "admin")
    joined = fresh.send(
        "POST", f"{V}/clusters/base/hosts", data=json.dumps({"items": [{"hostId": "spare-id"}]}), headers=JSON
    )
    assert joined.json()["items"] == [{"hostId": "spare-id", "hostname": "spare.example.internal"}]
    assert "spare-id" in [each["hostId"] for each in fresh.get(f"{V}/clusters/base/hosts").json()["items"]]
    other = fresh.send(
        "POST", f"{V}/clusters/ecs-01/hosts", data=json.dumps({"items": [{"hostId": "spare-id"}]}), headers=JSON
    )
    assert other.status_code == 400
    body = json.dumps({"hostsToRemove": ["spare.example.internal"]})
    assert fresh.send("POST", f"{V}/hosts/removeHostsFromCluster", data=body, headers=JSON).json()["active"] is True
    assert "clusterRef" not in fresh.get(f"{V}/hosts/spare-id").json()
    busy = json.dumps({"hostsToRemove": [doc["hosts"][1]["hostname"]]})
    refused = fresh.send("POST", f"{V}/hosts/removeHostsFromCluster", data=busy, headers=JSON)
    assert (refused.status_code, "still has roles" in refused.json()["message"]) == (400, True)


def test_certificates_are_generated_by_a_command(loaded):
    begun = loaded.send("POST", f"{V}/cm/commands/generateCmca", data="{}", headers=JSON).json()
    assert begun["name"] == "GenerateCMCA"
    loaded.settle()
    assert loaded.get(f"{V}/commands/{begun['id']}").json()["success"] is True


def test_groups_templates_roles_and_mappings_are_read(standing):
    groups = standing.get(f"{V}/clusters/base/services/hdfs/roleConfigGroups").json()["items"]
    path = f"{V}/clusters/base/services/hdfs/roleConfigGroups/{groups[0]['name']}"
    assert standing.get(path).json()["name"] == groups[0]["name"]
    assert "items" in standing.get(f"{path}/config").json()
    assert all(each["type"] == groups[0]["roleType"] for each in standing.get(f"{path}/roles").json()["items"])
    for template in standing.get(f"{V}/clusters/base/hostTemplates").json()["items"]:
        assert standing.get(f"{V}/clusters/base/hostTemplates/{template['name']}").json() == template
    for noun in ("authRoles", "externalUserMappings"):
        for entry in standing.get(f"{V}/{noun}").json()["items"]:
            assert standing.get(f"{V}/{noun}/{entry['uuid']}").json() == entry
        assert standing.get(f"{V}/{noun}/no-such").status_code == 404
    assert standing.get(f"{V}/authRoles/metadata").json()["items"]
    host = standing.get(f"{V}/hosts").json()["items"][0]
    assert standing.get(f"{V}/hosts/{host['hostId']}/config").status_code == 200


# -- faults and switches


def cut(client, content: bytes, keep: int, chunked: bool = False) -> None:
    """Send the head of a PUT and the beginning of its body, then go away."""
    import base64

    account = base64.b64encode(":".join(client.account).encode())
    with socket.create_connection(("127.0.0.1", client.lab.server.plain_port), timeout=20) as connection:
        connection.sendall(
            b"PUT /api/v49/cm/deployment?deleteCurrentDeployment=true HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nAuthorization: Basic %s\r\nContent-Length: %d\r\n\r\n"
            % (account, len(content))
        )
        connection.sendall(content[:keep])


@pytest.mark.parametrize(("value", "commits"), [("closing-brace", True), ("whole-body", False)])
def test_a_server_may_commit_at_the_closing_brace_though_the_body_is_cut_afterwards(make_lab, example, value, commits):
    client = make_lab(Options(fresh=True), put_commits=value, put_unlicensed="accept")
    cut(client, example.rstrip() + b"\n" * 100, len(example.rstrip()))
    for _ in range(200):
        lines = [json.loads(line) for line in client.lab.log.path.read_text().splitlines()]
        if any(line["method"] == "PUT" for line in lines):
            break
        __import__("time").sleep(0.05)
    assert bool(client.lab.world.deployment["clusters"]) is commits


def test_a_body_cut_before_its_closing_brace_is_never_committed(make_lab, example):
    client = make_lab(Options(fresh=True), put_commits="closing-brace", put_unlicensed="accept")
    cut(client, example, len(example) - 10)
    assert client.get("/api/version").status_code == 200
    assert client.lab.world.deployment["clusters"] == []


def test_a_cut_body_says_how_much_of_it_came(loaded):
    loaded.lab.break_("", "cut-body")
    with pytest.raises(requests.exceptions.ChunkedEncodingError) as caught:
        loaded.get(f"{V}/cm/deployment")
    assert "IncompleteRead(0 bytes read)" not in str(caught.value)


def test_a_command_that_never_ends_ends_with_a_repair(loaded):
    loaded.lab.break_("", "command-never-ends")
    number = loaded.send("POST", f"{V}/clusters/base/commands/stop").json()["id"]
    loaded.settle()
    assert loaded.get(f"{V}/commands/{number}").json()["active"] is True
    assert loaded.lab.status()["faults"] == [{"fault": "command-never-ends", "target": "commands"}]
    assert loaded.lab.repair() == 1
    assert loaded.get(f"{V}/commands/{number}").json()["success"] is True
