"""Each unknown of the contract, switched to what is not its default."""

import json
import re
from pathlib import Path

import pytest

from maint.lab.faults import FAULTS
from maint.lab.manager import document
from maint.lab.manager.load import Options
from maint.lab.switches import SWITCHES
from tests.lab.conftest import switched

ROOT = Path(__file__).parents[3]
LAB = ROOT / "maint" / "lab"


def thrown(name, lines):
    """Whether a line of a test says a switch or fault."""
    word = name.replace("-", "_").removeprefix("vc_")  # tests of virtual clusters leave that out
    said = re.compile(rf'"[^"]*\b{name}"|\b(vc_)?{word}=|"{word}"')
    return any(said.search(line) for line in lines if name in line or word in line)


def test_every_switch_and_every_fault_is_asked_for_somewhere_and_thrown_by_a_test():
    own = ("switches.py", "faults.py")
    source = "".join(path.read_text() for path in LAB.rglob("*.py") if path.name not in own)
    planted = "".join(path.read_text() for path in LAB.rglob("*.toml"))
    tests = {line for path in (ROOT / "tests").rglob("test_*.py") for line in path.read_text().splitlines()}
    names = [*SWITCHES, *FAULTS]
    assert [name for name in names if f'"{name}"' not in source and f"[planted.{name}]" not in planted] == []
    assert [name for name in names if not thrown(name, tests)] == [], "one that does nothing would pass"


@pytest.fixture
def empty(make_lab):
    """Bring up a manager just installed, licensed, with switches."""

    def empty(*, licensed=True, **switches):
        client = make_lab(Options(deployment=LAB / "data/deployment-example.json", fresh=True), **switches)
        if licensed:
            client.upload_license()
        return client

    return empty


def edited(content, change):
    doc = document.parse(content)
    change(doc)
    return document.dumps(doc).encode()


def deployment(client):
    return client.get("/api/v49/cm/deployment").json()


def restart(client):
    client.lab.server.restart()
    assert client.lab.server.wait()


def test_a_deployment_without_an_administrator_can_be_taken(empty, example):
    content = edited(example, lambda doc: doc.update(users=doc["users"][5:]))
    assert empty(put_without_admin="accept").put_deployment(content).status_code == 200


def test_what_exists_can_be_kept(empty):
    client = empty(put_existing="keep")
    body = {"users": [{"name": "admin", "authRoles": []}]}
    assert client.put_deployment(json.dumps(body).encode(), "/api/v49/cm/deployment").status_code == 200
    assert client.get("/api/version").status_code == 200


def test_clusters_can_be_taken_without_a_licence(empty, example):
    assert empty(licensed=False, put_unlicensed="accept").put_deployment(example).status_code == 200


def test_a_licence_can_count_from_the_next_restart_only(empty, example):
    client = empty(license_effective="after-restart")
    assert client.put_deployment(example).status_code == 400
    restart(client)
    assert client.put_deployment(example).status_code == 200


def hide(doc):
    doc["managerSettings"]["items"][1]["value"] = "REDACTED"


def other_release(doc):
    doc["versionInfo"]["version"] = "7.1.4"


def with_state(doc):
    doc["clusters"][0]["entityStatus"] = "NONE"


def test_what_is_doubtful_can_be_refused(empty, example):
    client = empty()
    for switch, change, words in (
        ("put_redacted", hide, "redacted"),
        ("put_other_release", other_release, "7.1.4"),
        ("read_only_fields", with_state, "read-only"),
    ):
        with switched(client, **{switch: "refuse"}):
            answer = client.put_deployment(edited(example, change))
            assert (answer.status_code, words in answer.json()["message"]) == (400, True), switch
    for name in ("put-redacted", "put-other-release", "read-only-fields"):
        client.lab.switch(name, "refuse")
    assert client.put_deployment(example).status_code == 200


def test_a_lower_version_can_refuse_or_keep_newer_fields(empty, example):
    path = "/api/v30/cm/deployment?deleteCurrentDeployment=true"
    client = empty(put_by_lower_api="refuse", redaction_default="off")
    assert client.put_deployment(example, path).status_code == 400
    client.lab.switch("put-by-lower-api", "keep")
    assert client.put_deployment(example, path).status_code == 200
    assert deployment(client.log_in_as("admin", "admin"))["externalUserMappings"]


def test_clusters_can_get_a_new_uuid(empty, example):
    content = edited(example, lambda doc: doc["clusters"][0].update(uuid="old"))
    client = empty(cluster_uuid_after_put="new")
    client.put_deployment(content)
    assert deployment(client.log_in_as("admin", "admin"))["clusters"][0]["uuid"] != "old"


def test_accounts_can_count_from_the_next_restart_only(empty, example):
    client = empty(users_after_put="after-restart")
    client.put_deployment(edited(example, lambda doc: doc["users"][4].update(pwSalt=1)))
    assert client.get("/api/version").status_code == 200
    restart(client)
    client.log_in_as("backup-operator", "backup-operator-Pw-1")
    assert client.get("/api/version").status_code == 200
    assert client.log_in_as("admin", "admin").get("/api/version").status_code == 401


def test_sessions_can_outlive_a_restore_and_a_restart(empty, example):
    client = empty(session_after_put="valid", session_after_restart="valid", session_cookie="OTHER")
    cookie = client.get("/api/version").cookies
    assert list(cookie.keys()) == ["OTHER"]
    client.put_deployment(example)
    assert client.get("/api/version", auth=None, cookies=cookie).status_code == 200
    restart(client)
    assert client.get("/api/version", auth=None, cookies=cookie).status_code == 200


def test_commands_and_running_roles_can_outlive_a_restore(make_lab, example):
    client = make_lab(commands_after_put="keep", put_stops_clusters="no")
    number = client.send("POST", "/api/v49/clusters/ecs-01/commands/stop").json()["id"]
    client.settle()
    assert client.put_deployment(example).status_code == 200
    assert client.get(f"/api/v49/commands/{number}").json()["success"] is True
    assert client.get("/api/v49/clusters/base/services/hdfs").json()["serviceState"] == "STARTED"


def test_exports_can_have_more_and_fewer_fields(standing):
    with switched(standing, extra_fields="present", hostname_in_refs="absent"):
        shown = deployment(standing)["clusters"][0]
    assert {"uuid", "entityStatus"} <= shown.keys()
    assert list(shown["services"][0]["roles"][0]["hostRef"]) == ["hostId"]


def test_redacted_exports_can_keep_accounts_and_peers(make_lab):
    client = make_lab(pwhash_under_redaction="present", pwhash_in_redacted_view="present", peer_password_redacted="no")
    for path in ("/api/v49/cm/deployment", "/api/v49/cm/deployment?view=export_redacted"):
        shown = client.get(path).json()
        assert ("pwHash" in shown["users"][0], shown["peers"][0]["password"]) == (True, "peer-Pw-14")


def test_a_stranger_command_and_context_can_be_500(standing):
    with switched(standing, unknown_command="500", missing_data_context="404"):
        assert standing.get("/api/v49/commands/999").status_code == 500
        assert standing.get("/api/v49/dataContexts/none").status_code == 404


def test_there_can_be_several_servers(make_lab):
    client = make_lab(server_instances="2")
    names = [each["name"] for each in client.get("/api/v49/cm/instances").json()["items"]]
    assert names == ["base-01.example.internal", "base-02.example.internal"]
    for name in names:
        assert "cloudera-scm-server" in client.lab.machines[name].units
        assert (client.lab.folder / "hosts" / name / "root/etc/default/cloudera-scm-server").exists()


def test_another_version_can_be_announced(standing):
    with switched(standing, announced_api="v44", version_content_type="application/json") as client:
        assert (client.get("/api/version").text, client.get("/api/v45/clusters").status_code) == ("v44", 404)


def test_a_401_can_be_json(standing):
    with switched(standing, unauthorised_body="json"):
        answer = standing.get("/api/version", auth=("x", "y"))
    assert (answer.status_code, answer.json()) == (401, {"message": "Bad credentials"})


def test_bodies_can_be_limited(installed, example):
    with switched(installed, put_max_bytes="1000"):
        assert installed.put_deployment(example).status_code == 413


@pytest.mark.parametrize(("value", "status"), [("cluster-administrator", 200), ("any", 200)])
def test_weaker_roles_can_be_let_at_licence_and_truststore(standing, value, status):
    client = standing.log_in_as("backup-operator", "backup-operator-Pw-1")
    with switched(client, privileged_role=value):
        assert client.get("/api/v49/certs/truststorePassword").status_code == status
        assert client.get("/api/v49/cm/license").status_code == 200


def test_passwords_can_be_hashed_by_another_rule(make_lab, example):
    client = make_lab(pwhash_algorithm="other", redaction_default="off")
    shown = {user["name"]: user["pwHash"] for user in deployment(client)["users"]}
    before = {user["name"]: user["pwHash"] for user in json.loads(example)["users"]}
    assert {name for name in shown if shown[name] != before[name]} == {"admin"}


def test_internal_secrets_can_change_by_themselves(make_lab, example):
    client = make_lab(rotate_internal_secrets="restart", redaction_default="off")
    before, after = json.loads(example), deployment(client)
    pairs = zip(before["users"], after["users"], strict=True)
    assert {old["name"].startswith("__cloudera") for old, new in pairs if old != new} == {True}
    old, new = (doc["clusters"][0]["services"][0]["roles"][0]["config"]["items"][0] for doc in (before, after))
    assert (old["name"], old["value"] == new["value"]) == ("role_jceks_password", False)
    assert len(old["value"]) == len(new["value"])


def test_a_cluster_in_use_can_be_deleted(tmp_path, make_lab, example):
    path = tmp_path / "with-context.json"
    context = {"name": "dc1", "services": [{"clusterName": "base", "serviceName": "hdfs"}]}
    path.write_bytes(edited(example, lambda doc: doc.update(dataContexts={"items": [context]})))
    client = make_lab(Options(deployment=path), delete_running="allow", delete_with_dependants="allow")
    assert client.send("DELETE", "/api/v49/clusters/base").status_code == 200


def test_a_bad_licence_can_be_500(installed):
    with switched(installed, bad_license="500"):
        assert installed.upload_license(b"x").status_code == 500


def test_a_plain_port_can_close_when_tls_fails(make_lab):
    client = make_lab(plain_when_tls_fails="closed")
    client.lab.break_("", "tls-never-comes-up")
    restart(client)
    with pytest.raises(OSError):
        client.get("/api/version")
