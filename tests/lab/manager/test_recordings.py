"""Recorded deployments, loaded and exported again."""

import re
from pathlib import Path

import pytest

from maint.lab.manager import accounts, document
from maint.lab.manager.document import announced, recorded_at
from maint.lab.manager.load import Options, load
from maint.lab.running import Lab
from tests.campaigns.size import FULL
from tests.lab.conftest import FAST, Client

HERE = Path(__file__).parents[1]
RECORDINGS = sorted((HERE.parent / "data" / "recordings").glob("deployment-*.json"))
EXAMPLE = HERE.parent.parent / "maint" / "lab" / "data" / "deployment-example.json"
TIMESTAMP = re.compile(rb'"timestamp" : "[^"]*"')
PASSWORDS = {
    "01": "alder-Admin1", "02": "alder-Admin1", "03": "birch-Admin2", "04": "cedar-Admin3", "05": "walnut-Admin4",
    "06": "walnut-Admin4", "07": "sumac-Admin5", "08": "fern-Admin6", "09": "gorse-Admin7", "10": "hazel-Admin8",
    "11": "iris-Admin9", "12": "juniper-Admin10", "13": "kale-Admin11", "14": "tansy-Admin12", "15": "maple-Admin13",
    "16": "nettle-Admin14", "17": "poplar-Admin16", "18": "holly-Admin17", "19": "sage-Admin18", "20": "thyme-Admin19",
    "21": "willow-Admin20",
}  # fmt: skip


def without_time(content: bytes) -> bytes:
    return TIMESTAMP.sub(b"", content, count=1)


@pytest.mark.parametrize("path", [*RECORDINGS, EXAMPLE], ids=lambda path: path.stem)
def test_a_document_is_printed_as_the_server_printed_it(path):
    assert document.dumps(document.read(path)).encode() == path.read_bytes().rstrip(b"\n")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_password_rule_holds_for_every_recorded_admin(path):
    password = PASSWORDS[path.stem.split("-")[1]]
    assert accounts.check_password(document.users(document.read(path)), "admin", password)


# The first of each API version goes the way that the others of that version go, too.
FIRST = {recorded_at(document.read(path)): path for path in [*RECORDINGS[::-1], EXAMPLE]}


@pytest.fixture
def recorded(path, tmp_path):
    """A client of a lab that is made of a recording, unredacted, and of which no copy is needed."""
    options = Options(deployment=path, ssh=False, switches={**FAST, "redaction-default": "off"})
    with Lab(tmp_path / "lab", options) as lab:
        yield Client(lab)


@pytest.mark.parametrize("path", [*RECORDINGS, EXAMPLE], ids=lambda path: path.stem)
def test_a_loaded_deployment_is_exported_with_the_same_bytes_and_so_after_its_database_was_lost(path, recorded):
    client, original = recorded, document.read(path)
    api, own = recorded_at(original), client.account
    before = client.get(f"/api/v{api}/cm/deployment").content
    assert without_time(before) == without_time(document.dumps(client.lab.world.deployment).encode())
    changed = client.account[0] if client.lab.remarks else None
    for was, now in zip(document.users(original), document.users(document.parse(before)), strict=True):
        assert was == now or was["name"] == changed
    if changed is None:
        assert without_time(before) == without_time(path.read_bytes().rstrip(b"\n"))
    if path not in FIRST.values() and not FULL:
        return
    client.lab.lose_database()
    client.log_in_as("admin", "admin")
    content = (client.lab.folder / "license.txt").read_bytes()
    assert client.send("POST", f"/api/v{api}/cm/license", files={"license": content}).status_code == 200
    restored = client.put_deployment(before, f"/api/v{api}/cm/deployment?deleteCurrentDeployment=true")
    assert restored.status_code == 200, restored.text
    client.lab.server.restart()
    assert client.lab.server.wait()
    client.log_in_as(*own)
    assert without_time(client.get(f"/api/v{api}/cm/deployment").content) == without_time(before)


@pytest.mark.parametrize(
    ("part", "api"),
    [("01", 2), ("02", 2), ("03", 13), ("04", 14), ("05", 14), ("06", 16), ("11", 16), ("16", 16), ("17", 19),
     ("20", 13), ("21", 18)],
)  # fmt: skip
def test_the_shape_tells_at_which_version_a_document_was_read(part, api):
    path = next(path for path in RECORDINGS if path.stem.startswith(f"deployment-{part}-"))
    assert recorded_at(document.read(path)) == api


@pytest.mark.parametrize(
    ("release", "api"),
    [("5.8.5", 13), ("5.11.2", 16), ("5.16.1", 19), ("6.3.4", 33), ("7.0.3", 40), ("7.1.4", 41), ("7.6.5", 49),
     ("7.13.1", 57), ("99.0.0", 57), ("", 49)],
)  # fmt: skip
def test_a_release_announces_its_api_version(release, api):
    assert announced(release) == api


def test_a_recorded_administrator_keeps_the_password_that_was_given(make_lab):
    path = next(path for path in RECORDINGS if path.stem.startswith("deployment-06-"))
    client = make_lab(Options(deployment=path, password="walnut-Admin4"))
    assert (client.account, client.lab.remarks) == (("admin", "walnut-Admin4"), ())
    assert client.get("/api/version").text == "v16"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_lab_with_a_new_password_knows_no_factory_one_whatever_was_recorded(path):
    loaded = load(Options(deployment=path, new_password="walnut-New1"))
    users = document.users(loaded.world.deployment)
    assert accounts.check_password(users, loaded.username, "walnut-New1")
    assert not accounts.check_password(users, loaded.username, accounts.FACTORY_PASSWORD)


def test_answers_have_the_fields_that_real_servers_sent(make_lab):
    import json

    recorded = json.loads((HERE.parent / "data/recordings/answer-services-v11.json").read_text())["items"][0]
    path = next(path for path in RECORDINGS if path.stem.startswith("deployment-02-"))
    client = make_lab(Options(deployment=path, password="alder-Admin1"))
    answered = client.get("/api/v11/clusters/Alder/services").json()["items"][0]
    assert list(answered) == list(recorded)
    hosts = json.loads((HERE.parent / "data/recordings/answer-hosts-v5.json").read_text())["items"][0]
    assert list(client.get("/api/v5/hosts").json()["items"][0]) == list(hosts)


# -- fields that came with a later version, in answers and documents


def fields(value):
    """Return the names of all members, at any depth."""
    if isinstance(value, list):
        return {name for member in value for name in fields(member)}
    return {*value, *fields(list(value.values()))} if isinstance(value, dict) else set()


@pytest.fixture(scope="module")
def stopped(standing_labs):
    """A manager whose first command was to stop a cluster, which has a UUID."""
    client = Client(standing_labs(Options(deployment=EXAMPLE)))
    client.lab.world.deployment["clusters"][0]["uuid"] = "11111111-2222-3333-4444-555555555555"
    client.send("POST", "/api/v49/clusters/base/commands/stop")
    client.settle()
    return client


@pytest.mark.parametrize(
    ("path", "below", "names"),
    [
        ("clusters", 2, {"maintenanceMode", "maintenanceOwners"}),
        ("clusters", 6, {"displayName", "fullVersion"}),
        ("clusters", 10, {"clusterUrl"}),
        ("clusters", 11, {"hostsUrl", "entityStatus"}),
        ("clusters", 15, {"uuid"}),
        ("clusters", 32, {"clusterType"}),
        ("hosts?view=full", 4, {"numCores", "totalPhysMemBytes"}),
        ("hosts?view=full", 9, {"numPhysicalCores"}),
        ("hosts?view=full", 11, {"clusterRef", "entityStatus", "suppressed"}),
        ("hosts?view=full", 40, {"distribution"}),
        ("clusters/base/services", 2, {"displayName", "maintenanceMode"}),
        ("clusters/base/services", 6, {"configStalenessStatus"}),
        ("clusters/base/services", 11, {"roleInstancesUrl", "entityStatus", "suppressed"}),
        ("clusters/base/services/hdfs/roles", 2, {"commissionState"}),
        ("clusters/base/services/hdfs/roles", 11, {"entityStatus"}),
        ("clusters/base/services/hdfs/roles", 31, {"hostname"}),
        ("clusters/base/services/hdfs/roles", 41, {"tags"}),
        ("commands/1", 11, {"canRetry"}),
        ("commands/1", 30, {"displayName"}),
        ("cm/peers", 11, {"type", "clouderaManagerCreatedUser"}),
        ("cm/deployment", 4, {"parcels"}),
        ("cm/deployment", 15, {"uuid"}),
    ],
)
def test_a_version_knows_the_fields_that_it_brought_and_no_earlier_one_does(stopped, path, below, names):
    at = {api: fields(stopped.get(f"/api/v{api}/{path}").json()) for api in (below - 1, below)}
    assert names <= at[below]
    assert not names & at[below - 1]


def test_an_export_at_version_2_has_the_shape_that_real_servers_sent(make_lab):
    recorded = document.read(next(path for path in RECORDINGS if path.stem.startswith("deployment-02-")))
    exported = make_lab(Options(deployment=EXAMPLE), redaction_default="off").get("/api/v2/cm/deployment").json()
    assert list(exported) == list(recorded)
    cluster, like = exported["clusters"][0], recorded["clusters"][0]
    assert (cluster["name"], list(cluster)) == ("Base Cluster 1", list(like))
    for part in ("services", "roles"):
        cluster, like = cluster[part][0], like[part][0]
        assert set(cluster) == set(like), part
    hdfs = next(each for each in exported["clusters"][0]["services"] if each["type"] == "HDFS")
    assert {"DATANODE", "NAMENODE"} <= {each["roleType"] for each in hdfs["config"]["roleTypeConfigs"]}


@pytest.mark.parametrize("api", [2, 5, 14])
def test_what_a_version_exports_it_takes_back_whole(make_lab, api):
    client = make_lab(Options(deployment=EXAMPLE), redaction_default="off")
    before = client.get(f"/api/v{api}/cm/deployment").content
    path = f"/api/v{api}/cm/deployment?deleteCurrentDeployment=true"
    assert (client.upload_license().status_code, client.put_deployment(before, path).status_code) == (200, 200)
    assert without_time(client.get(f"/api/v{api}/cm/deployment").content) == without_time(before)
