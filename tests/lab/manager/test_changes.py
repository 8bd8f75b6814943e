"""Services, roles, groups, templates, accounts made, changed and taken away, by the official client, unmodified."""

import cm_client
import pytest
from cm_client.rest import ApiException

from tests.lab.conftest import Client, MakeLab

HDFS = ("base", "hdfs")
BALANCER = "hdfs-BALANCER-f7ce1b5c40b2dfede61deb76956bf598"
THIRD = "base-03.example.internal"


@pytest.fixture
def api(loaded: Client) -> cm_client.ApiClient:
    """The client, logged in."""
    cm_client.configuration.username, cm_client.configuration.password = loaded.account
    cm_client.configuration.ssl_ca_cert = str(loaded.lab.folder / "ca/bundle.pem")
    return cm_client.ApiClient(loaded.base + "/api/v45")


def refused(status: int, call, *arguments, **named) -> str:
    """Return the message of a refusal."""
    with pytest.raises(ApiException) as raised:
        call(*arguments, **named)
    assert raised.value.status == status
    return str(raised.value.body)


def test_roles_are_listed_as_the_filter_says(api):
    roles = cm_client.RolesResourceApi(api)
    named = {one.name: one for one in roles.read_roles(*HDFS).items}
    host = named[BALANCER].host_ref
    assert [one.name for one in roles.read_roles(*HDFS, filter="type==BALANCER").items] == [BALANCER]
    assert BALANCER not in {one.name for one in roles.read_roles(*HDFS, filter="type!=BALANCER").items}
    for condition in (f"hostname=={host.hostname}", f"hostId=={host.host_id}"):
        found = roles.read_roles(*HDFS, filter=f"type==BALANCER;{condition}").items
        assert [one.name for one in found] == [BALANCER]
    assert roles.read_roles(*HDFS, filter=f"type==BALANCER;hostname=={THIRD}").items == []
    assert "filter" in refused(400, roles.read_roles, *HDFS, filter="type=BALANCER")


def test_a_service_is_made_with_its_base_groups_and_deleted_once_it_is_stopped(api, loaded):
    services, groups = cm_client.ServicesResourceApi(api), cm_client.RoleConfigGroupsResourceApi(api)
    assert {"HDFS", "ZOOKEEPER"} <= set(cm_client.ClustersResourceApi(api).list_service_types("base").items)
    body = cm_client.ApiServiceList([cm_client.ApiService(name="zoo-2", type="ZOOKEEPER", display_name="Second")])
    made = services.create_services("base", body=body).items[0]
    assert (made.name, made.display_name, made.service_state) == ("zoo-2", "Second", "NA")
    assert [(one.name, one.base) for one in groups.read_role_config_groups("base", "zoo-2").items] == [
        ("zoo-2-SERVER-BASE", True)
    ]
    assert services.list_role_types("base", "zoo-2").items == ["SERVER"]
    assert "already exists" in refused(400, services.create_services, "base", body=body)
    body.items[0].config = cm_client.ApiConfigList([cm_client.ApiConfig(name="no_such", value="1")])
    body.items[0].name = "zoo-3"
    assert "Unknown" in refused(400, services.create_services, "base", body=body)
    assert services.update_service("base", "zoo-2", body=cm_client.ApiService(display_name="Two")).display_name == "Two"
    assert "must be stopped" in refused(400, services.delete_service, *HDFS)
    exported = loaded.get("/api/v49/cm/deployment").content
    assert b"zoo-2-SERVER-BASE" in exported
    assert loaded.put_deployment(exported).status_code == 200
    assert services.delete_service("base", "zoo-2").name == "zoo-2"
    refused(404, services.read_service, "base", "zoo-2")
    body.items[0].type = "NO_SUCH"
    assert "NO_SUCH" in refused(400, services.create_services, "base", body=body)


def test_a_role_is_made_on_a_host_moved_between_groups_and_deleted(api, loaded):
    roles, groups = cm_client.RolesResourceApi(api), cm_client.RoleConfigGroupsResourceApi(api)
    ref = cm_client.ApiHostRef(hostname=THIRD)
    wanted = cm_client.ApiRoleList([cm_client.ApiRole(type="BALANCER", host_ref=ref)])
    role = roles.create_roles(*HDFS, body=wanted).items[0]
    assert (role.host_ref.hostname, role.role_state, role.name[:14]) == (THIRD, "STOPPED", "hdfs-BALANCER-")
    assert "already" in refused(400, roles.create_roles, *HDFS, body=wanted)
    spare = cm_client.ApiRoleConfigGroup(name="spare", role_type="BALANCER", display_name="Spare")
    assert not groups.create_role_config_groups(*HDFS, body=cm_client.ApiRoleConfigGroupList([spare])).items[0].base
    names = cm_client.ApiRoleNameList([role.name])
    moved = groups.move_roles("base", "spare", "hdfs", body=names).items[0]
    assert moved.role_config_group_ref.role_config_group_name == "spare"
    assert "still has roles" in refused(400, groups.delete_role_config_group, "base", "spare", "hdfs")
    back = groups.move_roles_to_base_group(*HDFS, body=names).items[0]
    assert back.role_config_group_ref.role_config_group_name == "hdfs-BALANCER-BASE"
    changed = cm_client.ApiRoleConfigGroup(display_name="Other", config=cm_client.ApiConfigList([]))
    assert groups.update_role_config_group("base", "spare", "hdfs", body=changed).display_name == "Other"
    assert groups.delete_role_config_group("base", "spare", "hdfs").name == "spare"
    assert "base group" in refused(400, groups.delete_role_config_group, "base", "hdfs-BALANCER-BASE", "hdfs")
    assert "must be stopped" in refused(400, roles.delete_role, "base", BALANCER, "hdfs")
    assert roles.delete_role("base", role.name, "hdfs").name == role.name
    kept = loaded.get("/api/v49/cm/deployment").json()["clusters"][0]["services"]
    assert role.name not in str(kept)


def test_tags_are_added_listed_and_taken_away(api):
    roles = cm_client.RolesResourceApi(api)
    tag = cm_client.ApiEntityTag("owner", "ops")
    roles.add_tags("base", BALANCER, "hdfs", body=[tag])
    assert [(one.name, one.value) for one in roles.read_role("base", BALANCER, "hdfs").tags] == [("owner", "ops")]
    roles.delete_tags("base", BALANCER, "hdfs", body=[tag])
    assert roles.read_role("base", BALANCER, "hdfs").tags == []


def test_a_host_template_is_made_changed_and_deleted(api):
    templates = cm_client.HostTemplatesResourceApi(api)

    def template(group: str) -> cm_client.ApiHostTemplate:
        return cm_client.ApiHostTemplate(name="t", role_config_group_refs=[cm_client.ApiRoleConfigGroupRef(group)])

    wanted = cm_client.ApiHostTemplateList([template("hdfs-DATANODE-BASE")])
    assert templates.create_host_templates("base", body=wanted).items[0].cluster_ref.cluster_name == "base"
    assert "already exists" in refused(400, templates.create_host_templates, "base", body=wanted)
    changed = templates.update_host_template("base", "t", body=template("hdfs-BALANCER-BASE"))
    assert [ref.role_config_group_name for ref in changed.role_config_group_refs] == ["hdfs-BALANCER-BASE"]
    assert "nothing" in refused(400, templates.update_host_template, "base", "t", body=template("nothing"))
    assert templates.delete_host_template("base", "t").name == "t"


def test_an_account_is_made_let_in_given_another_password_and_deleted(api, loaded):
    accounts = cm_client.UsersResourceApi(api)
    ref = cm_client.ApiAuthRoleRef(name="ROLE_USER")
    user = cm_client.ApiUser2(name="new", password="first-Pw-1", auth_roles=[ref])
    made = accounts.create_users2(body=cm_client.ApiUser2List([user])).items[0]
    assert [role.display_name for role in made.auth_roles] == ["Read-Only"]
    own, version = loaded.account, "/api/v45/cm/version"
    assert loaded.log_in_as("new", "first-Pw-1").get(version).status_code == 200
    accounts.update_user2("new", body=cm_client.ApiUser2(name="new", password="second-Pw-2"))
    assert loaded.log_in_as("new", "first-Pw-1").get(version).status_code == 401
    assert loaded.log_in_as("new", "second-Pw-2").get(version).status_code == 200
    assert accounts.delete_user2("new").name == "new"
    assert loaded.get(version).status_code == 401
    exported = loaded.log_in_as(*own).get("/api/v49/cm/deployment").json()
    assert "new" not in [one["name"] for role in exported["authRoles"] for one in role["users"]]


def test_a_group_of_a_directory_is_mapped_to_roles(api):
    mappings = cm_client.ExternalUserMappingsResourceApi(api)
    body = cm_client.ApiExternalUserMapping(
        name="ops", type="LDAP", auth_roles=[cm_client.ApiAuthRoleRef(name="ROLE_USER")]
    )
    made = mappings.create_external_user_mappings(body=cm_client.ApiExternalUserMappingList([body])).items[0]
    body.auth_roles = [cm_client.ApiAuthRoleRef(display_name="Full Administrator")]
    assert mappings.update_external_user_mapping(made.uuid, body=body).auth_roles[0].name == "ROLE_ADMIN"
    assert mappings.delete_external_user_mapping(made.uuid).name == "ops"


def test_a_data_context_is_of_services_that_there_are(api):
    contexts = cm_client.DataContextsResourceApi(api)

    def context(service: str) -> cm_client.ApiDataContext:
        ref = cm_client.ApiServiceRef(cluster_name="base", service_name=service)
        return cm_client.ApiDataContext(name="sdx", display_name="sdx", services=[ref])

    assert "nothing" in refused(400, contexts.create_data_context, body=context("nothing"))
    assert contexts.create_data_context(body=context("hdfs")).created_time
    assert [one.name for one in contexts.read_data_contexts().items] == ["sdx"]


def test_the_managers_settings_are_known_in_either_case(api):
    manager = cm_client.ClouderaManagerResourceApi(api)
    body = cm_client.ApiConfigList([cm_client.ApiConfig(name="krb_auth_enable", value=False)])
    listed = {one.name: one.value for one in manager.update_config(body=body).items}
    assert listed["KRB_AUTH_ENABLE"] == "false"


def test_clusters_are_made_empty_and_a_switch_lets_what_runs_be_deleted(make_lab: MakeLab):
    client = make_lab(delete_running="allow")
    assert client.send("DELETE", f"/api/v45/clusters/base/services/hdfs/roles/{BALANCER}").status_code == 200
    cluster = {"items": [{"name": "second", "fullVersion": "7.1.9", "clusterType": "BASE_CLUSTER"}]}
    made = client.send("POST", "/api/v45/clusters", json=cluster)
    assert (made.status_code, made.json()["items"][0]["version"]) == (200, "CDH7")
    assert client.get("/api/v45/clusters/second/services").json() == {"items": []}
    assert client.send("POST", "/api/v45/clusters", json=cluster).status_code == 400
    strange: list[dict[str, object]] = [
        {"roles": "abc"},
        {"roles": [{"type": "SERVER", "hostRef": "x"}]},
        {"config": 5},
    ]
    for part in strange:
        entry = {"name": "strange", "type": "ZOOKEEPER", **part}
        answer = client.send("POST", "/api/v45/clusters/base/services", json={"items": [entry]})
        assert (answer.status_code, "Cannot read the " in answer.json()["message"]) == (400, True), part
    assert client.get("/api/v45/clusters/base/services/strange").status_code == 404


def whole(client: Client) -> dict:
    """Return the export, which the lab's own PUT takes."""
    exported = client.get("/api/v49/cm/deployment")
    assert client.put_deployment(exported.content).json().get("message") is None
    return dict(exported.json())


def post(client: Client, path: str, *entries: dict, status: int = 200) -> dict:
    """Send a list of entries; return the answer."""
    answer = client.send("POST", f"/api/v49/{path}", json={"items": list(entries)})
    assert answer.status_code == status, answer.text
    return dict(answer.json())


def test_what_is_made_with_settings_has_them_as_text_and_secrets_are_marked(make_lab: MakeLab):
    client = make_lab(unknown_setting="accept")
    client.upload_license()
    config = {"items": [{"name": "tick", "value": 5}, {"name": "zk_password", "value": "Pw-1"}]}
    post(client, "clusters/base/services", {"name": "zoo-2", "type": "ZOOKEEPER", "config": config})
    client.lab.world.redaction = False
    made = next(one for one in whole(client)["clusters"][0]["services"] if one["name"] == "zoo-2")
    assert [(one["name"], one["value"], one["sensitive"]) for one in made["config"]["items"]] == [
        ("tick", "5", False),
        ("zk_password", "Pw-1", True),
    ]


def test_what_is_deleted_leaves_nothing_that_points_to_it(make_lab: MakeLab):
    client = make_lab(delete_running="allow", redaction_default="off")
    client.upload_license()
    path = "/api/v49/clusters/base/services"
    context = {"name": "sdx", "services": [{"clusterName": "base", "serviceName": name} for name in ("hdfs", "yarn")]}
    assert client.send("POST", "/api/v49/dataContexts", json=context).status_code == 200
    assert client.send("POST", f"{path}/hdfs/commands/enterMaintenanceMode").status_code == 200
    assert client.send("DELETE", f"{path}/hdfs").status_code == 200
    left = whole(client)
    assert "hdfs" not in str([left["hostTemplates"], left["dataContexts"]])
    again = {"name": "hdfs", "type": "HDFS", "config": {"items": [{"name": "zookeeper_service", "value": "zookeeper"}]}}
    post(client, "clusters/base/services", again)  # its settings are known still
    assert client.get(f"{path}/hdfs").json()["maintenanceMode"] is False
    assert client.send("DELETE", "/api/v49/dataContexts/sdx").status_code == 200
    assert client.send("DELETE", "/api/v49/clusters/base").status_code == 200
    post(client, "clusters", {"name": "base"}, status=400)
    post(client, "clusters", {"name": "base", "version": "CDH7"})
    assert client.get("/api/v49/clusters/base/hosts").json()["items"] == []
    assert client.send("DELETE", "/api/v49/cm/service").status_code == 200
    part = {"managementService": {"name": "mgmt", "type": "MGMT", "roles": [], "roleConfigGroups": []}}
    assert client.send("PUT", "/api/v49/cm/deployment", json=part).status_code == 200


def test_a_name_is_taken_by_what_stands_before_it_in_the_same_body(loaded: Client):
    group, zoo = {"name": "g", "roleType": "SERVER"}, {"name": "zoo", "type": "ZOOKEEPER"}
    post(loaded, "clusters/base/services/zookeeper/roleConfigGroups", group, group, status=400)
    post(loaded, "clusters/base/services", {**zoo, "roleConfigGroups": [group, group]}, status=400)
    post(loaded, "clusters", {"name": "second", "version": "CDH7", "services": [zoo, zoo]}, status=400)


def test_a_made_role_has_a_name_that_a_restore_takes(loaded: Client):
    name, roles = "a-rather-long-name-of-a-zookeeper", [{"type": "SERVER", "hostRef": {"hostname": THIRD}}]
    post(loaded, "clusters/base/services", {"name": name, "type": "ZOOKEEPER", "roles": roles})
    assert name[:31] in str(whole(loaded))
    wanted = {**roles[0], "hostRef": {"hostname": "base-01.example.internal"}, "name": "n" * 65}
    post(loaded, f"clusters/base/services/{name}/roles", wanted, status=400)


def test_roles_of_accounts_and_mappings_are_what_was_sent_last(loaded: Client):
    def held(name: str) -> list[dict]:
        return next(one[name] for one in whole(loaded)["authRoles"] if one["name"] == "ROLE_OPERATOR")

    answer = loaded.send("PUT", "/api/v49/users/backup-operator", json={"roles": ["ROLE_OPERATOR"]})
    assert [one["name"] for one in answer.json()["authRoles"]] == ["ROLE_OPERATOR"]
    assert [one["name"] for one in held("users")] == ["backup-operator"]
    for kind in ("LDAP", "SAML_ATTRIBUTE"):
        post(loaded, "externalUserMappings", {"name": "ops", "type": kind, "authRoles": [{"name": "ROLE_OPERATOR"}]})
    assert sorted(one["type"] for one in held("externalUserMappings")) == ["LDAP", "SAML_ATTRIBUTE"]


def test_the_last_administrator_stays_one(loaded: Client):
    assert loaded.send("DELETE", "/api/v49/users/admin").status_code == 400
    assert loaded.send("PUT", "/api/v49/users/admin", json={"roles": ["ROLE_USER"]}).status_code == 400
    post(loaded, "users", {"name": "new", "password": "new-Pw-1", "roles": ["ROLE_ADMIN"]})
    assert loaded.send("DELETE", "/api/v49/users/admin").status_code == 200


def test_a_command_that_is_refused_changes_nothing_one_that_ends_well_does(make_lab: MakeLab):
    client = make_lab(delete_running="allow", redaction_default="off")
    template = "/api/v49/clusters/base/hostTemplates/base-worker/commands/applyHostTemplate"
    refs = {"items": [{"hostname": THIRD}]}
    assert client.send("POST", template, json=refs).status_code == 400  # the host has roles
    for service in client.get("/api/v49/clusters/base/services").json()["items"]:
        path = f"/api/v49/clusters/base/services/{service['name']}/roles"
        for role in client.get(f"{path}?filter=hostname=={THIRD}").json()["items"]:
            assert client.send("DELETE", f"{path}/{role['name']}").status_code == 200

    def made() -> list[str]:
        path = f"/api/v49/clusters/base/services/hdfs/roles?filter=hostname=={THIRD}"
        return [one["roleState"] for one in client.get(path).json()["items"]]

    def missing() -> list[dict]:
        return list(client.get("/api/v49/cm/kerberosPrincipals?missingOnly=true").json()["items"])

    credentials = "/api/v49/cm/commands/deleteCredentials"
    for path in (template, credentials):
        client.lab.break_("", "command-rejected")
        assert client.send("POST", path, json=refs).json()["success"] is False
        assert (made(), missing()) == ([], [])
    assert client.send("POST", template, json=refs).json()["active"] is True
    client.settle()
    assert made() == ["STARTED"]
    client.send("POST", credentials)
    client.settle()
    assert missing()


def test_a_host_is_put_into_another_rack(loaded: Client):
    assert loaded.send("PUT", f"/api/v49/hosts/{THIRD}", json={"rackId": "/two"}).json()["rackId"] == "/two"
    assert loaded.get(f"/api/v49/hosts/{THIRD}").json()["rackId"] == "/two"
