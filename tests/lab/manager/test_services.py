"""Settings, commands by name, maintenance mode and Kerberos credentials, as the vendor's published model has them."""

import json

import pytest

V = "/api/v45"
HDFS = f"{V}/clusters/base/services/hdfs"
JSON = {"Content-Type": "application/json"}


def put(client, path, name, value):
    """Set one setting and return the answer."""
    body = json.dumps({"items": [{"name": name, "value": value}]})
    return client.send("PUT", f"{path}/config", data=body, headers=JSON)


def settings(client, path, view="full"):
    """Return the settings of something, by name."""
    return {one["name"]: one for one in client.get(f"{path}/config?view={view}").json()["items"]}


def finished(client, answer):
    """Return a command once it has ended."""
    command = answer.json()
    while command["active"]:
        command = client.get(f"{V}/commands/{command['id']}").json()
    return command


PLACES = {
    "a service": (HDFS, "dfs_replication"),
    "a role config group": (f"{HDFS}/roleConfigGroups/hdfs-NAMENODE-BASE", "dfs_namenode_handler_count"),
    "a role": (f"{HDFS}/roles/hdfs-DATANODE-24998d7fa92993a754e83b3a74c31296", "dfs_datanode_handler_count"),
    "a host": (f"{V}/hosts/f3a1c0de-4b7e-4d0a-9a51-0c6e2f1b7a01", "memory_overcommit_threshold"),
    "all hosts": (f"{V}/cm/allHosts", "memory_overcommit_threshold"),
    "the manager": (f"{V}/cm", "PARCEL_UPDATE_FREQ"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_setting_is_set_read_and_unset_wherever_there_are_settings(standing, place):
    path, name = PLACES[place]
    before = settings(standing, path, "summary")
    assert "value" not in settings(standing, path)[name]
    assert put(standing, path, name, "7").status_code == 200
    assert settings(standing, path, "summary")[name]["value"] == "7"
    assert put(standing, path, name, None).status_code == 200
    assert settings(standing, path, "summary") == before


def test_names_and_values_that_make_no_sense_are_refused(standing):
    unknown = put(standing, HDFS, "dfs_replicatoin", "3")
    assert (unknown.status_code, unknown.json()["message"]) == (
        400, "Unknown configuration attribute 'dfs_replicatoin'.",
    )  # fmt: skip
    assert "three" in put(standing, HDFS, "dfs_replication", "three").json()["message"]
    standing.lab.break_("config", "config-refused")
    assert "'4'" in put(standing, HDFS, "dfs_replication", "4").json()["message"]
    assert put(standing, HDFS, "dfs_replication", "4").ok
    assert put(standing, HDFS, "dfs_replication", None).ok


def test_a_changed_service_is_stale_until_it_is_restarted(loaded):
    def stale():
        return loaded.get(HDFS).json()["configStalenessStatus"]

    assert stale() == "FRESH"
    put(loaded, HDFS, "dfs_replication", "2")
    assert stale() == "STALE"
    finished(loaded, loaded.send("POST", f"{HDFS}/commands/restart"))
    assert stale() == "FRESH"


def test_commands_go_by_the_names_that_are_listed(standing):
    names = {one["name"] for one in standing.get(f"{HDFS}/commandsByName").json()["items"]}
    assert {"deployClientConfig", "hdfsRollEdits"} <= names
    assert finished(standing, standing.send("POST", f"{HDFS}/commands/hdfsRollEdits"))["success"]
    assert standing.send("POST", f"{HDFS}/commands/makeCoffee").status_code == 404
    role = next(one["name"] for one in standing.get(f"{HDFS}/roles").json()["items"] if one["type"] == "NAMENODE")
    body = json.dumps({"items": [role, "nobody"]})
    said = standing.send("POST", f"{HDFS}/roleCommands/refresh", data=body, headers=JSON).json()
    assert (len(said["items"]), len(said["errors"])) == (1, 1)


def test_maintenance_mode_is_entered_and_left_at_once(loaded):
    role = loaded.get(f"{HDFS}/roles").json()["items"][0]["name"]

    def modes():
        return [loaded.get(path).json()["maintenanceMode"] for path in (f"{HDFS}/roles/{role}", HDFS)]

    said = loaded.send("POST", f"{HDFS}/roles/{role}/commands/enterMaintenanceMode").json()
    assert (said["active"], said["success"], said["id"] < 0, modes()) == (False, True, True, [True, False])
    loaded.send("POST", f"{HDFS}/roles/{role}/commands/exitMaintenanceMode")
    loaded.send("POST", f"{HDFS}/commands/enterMaintenanceMode")
    assert modes() == [True, True]  # what belongs to it is in it, too


def test_kerberos_credentials_are_missing_after_a_restore_until_they_are_made(loaded):
    def missing():
        return len(loaded.get(f"{V}/cm/kerberosPrincipals?missingOnly=true").json()["items"])

    assert loaded.get(f"{V}/clusters/base/kerberosInfo").json()["kerberized"] is True
    assert missing() == 0
    document = loaded.get(f"{V}/cm/deployment").content
    loaded.send("PUT", f"{V}/cm/deployment?deleteCurrentDeployment=true", data=document, headers=JSON)
    assert missing() > 0
    assert "import" in finished(loaded, loaded.send("POST", f"{V}/cm/commands/generateCredentials"))["resultMessage"]
    named = loaded.lab.world.settings
    realm, right = named["SECURITY_REALM"], named["KDC_ADMIN_PASSWORD"]
    for password, good in (("wrong", False), (right, True)):
        query = f"username=scm/admin@{realm}&password={password}"
        said = finished(loaded, loaded.send("POST", f"{V}/cm/commands/importAdminCredentials?{query}"))
        assert said["success"] is good
    assert finished(loaded, loaded.send("POST", f"{V}/cm/commands/generateCredentials"))["success"]
    assert missing() == 0


def test_a_value_that_is_the_default_may_be_dropped(make_lab):
    client = make_lab()
    for value, kept in (("keep", True), ("drop", False)):
        client.lab.switch("default-setting", value)
        put(client, HDFS, "dfs_replication", "3")
        assert ("dfs_replication" in settings(client, HDFS, "summary")) is kept
