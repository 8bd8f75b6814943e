"""The official client, unmodified, against the lab."""

import time

import cm_client
import pytest
from cm_client.rest import ApiException

from maint.lab.manager import document
from maint.lab.manager.load import Options


@pytest.fixture
def connect():
    """Return an API client for a lab."""

    def connect(client):
        cm_client.configuration.username, cm_client.configuration.password = client.account
        cm_client.configuration.ssl_ca_cert = str(client.lab.folder / "ca/bundle.pem")
        return cm_client.ApiClient(client.base + "/api/v49")

    return connect


def wait_for(api, command):
    commands = cm_client.CommandsResourceApi(api)
    limit = time.monotonic() + 200
    while command.active:
        assert time.monotonic() < limit, "the command does not end"
        time.sleep(0.02)
        command = commands.read_command(command.id)
    return command


def test_it_reads_what_the_server_is(loaded, connect):
    version = cm_client.ClouderaManagerResourceApi(connect(loaded)).get_version()
    assert (version.version, version.snapshot) == ("7.6.5", False)


def test_it_lists_clusters_by_type(loaded, connect):
    clusters = cm_client.ClustersResourceApi(connect(loaded))
    assert [each.name for each in clusters.read_clusters().items] == ["base"]
    assert [each.name for each in clusters.read_clusters(cluster_type="any").items] == ["base", "ecs-01"]
    assert [each.name for each in clusters.read_clusters(cluster_type="experience").items] == ["ecs-01"]


def test_it_stops_a_cluster_and_polls_the_command(loaded, connect):
    api = connect(loaded)
    submitted = cm_client.ClustersResourceApi(api).stop_command("base")
    assert submitted.active
    assert submitted.success is None
    done = wait_for(api, submitted)
    assert done.success
    assert {child.service_ref.service_name for child in done.children.items} >= {"zookeeper", "hdfs", "ranger"}
    services = cm_client.ServicesResourceApi(api).read_services("base").items
    assert {each.service_state for each in services} == {"STOPPED", "NA"}


def test_it_deletes_a_cluster_once(loaded, connect):
    api = connect(loaded)
    clusters = cm_client.ClustersResourceApi(api)
    assert wait_for(api, clusters.stop_command("ecs-01")).success
    assert clusters.delete_cluster("ecs-01").name == "ecs-01"
    with pytest.raises(ApiException) as raised:
        clusters.delete_cluster("ecs-01")
    assert raised.value.status == 404


def test_it_moves_a_deployment_to_an_empty_server(loaded, fresh, connect):
    exported = cm_client.ClouderaManagerResourceApi(connect(loaded)).get_deployment2(view="export")
    manager = cm_client.ClouderaManagerResourceApi(connect(fresh))
    applied = manager.update_deployment2(body=exported, delete_current_deployment=True)
    assert applied.to_dict()["users"] == exported.to_dict()["users"]
    original = loaded.get("/api/v49/cm/deployment").json()
    fresh.account = loaded.account
    moved = fresh.get("/api/v49/cm/deployment").json()
    original.pop("timestamp"), moved.pop("timestamp")
    assert moved == original


def test_it_reads_and_uploads_a_licence(make_lab, connect):
    client = make_lab(Options(fresh=True))
    manager = cm_client.ClouderaManagerResourceApi(connect(client))
    with pytest.raises(ApiException) as raised:
        manager.read_license()
    assert raised.value.status == 404
    installed = manager.update_license(license=str(client.lab.folder / "license.txt"))
    assert installed.owner == "Laboratory"
    assert manager.read_license().uuid == installed.uuid


def test_it_reads_the_truststore_password(loaded, connect):
    settings = document.settings(loaded.lab.world.deployment)
    password = cm_client.CertManagerResourceApi(connect(loaded)).get_truststore_password()
    assert password == settings["TRUSTSTORE_PASSWORD"]


def test_it_understands_every_read_that_checks_need(loaded, connect):
    api = connect(loaded)
    manager = cm_client.ClouderaManagerResourceApi(api)
    assert manager.get_scm_db_info().scm_db_type == "POSTGRESQL"
    assert len(cm_client.HostsResourceApi(api).read_hosts(view="full").items) == 5
    assert cm_client.MgmtServiceResourceApi(api).read_service().service_state == "STARTED"
    assert len(cm_client.MgmtRolesResourceApi(api).read_roles().items) == 5
    assert {each.name for each in cm_client.UsersResourceApi(api).read_users2().items} == {
        "admin", "backup-operator", "jdoe",
    }  # fmt: skip
    assert cm_client.ParcelsResourceApi(api).read_parcels("base").items
    assert cm_client.DataContextsResourceApi(api).read_data_contexts().items == []
