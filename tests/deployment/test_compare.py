"""Comparing deployments by meaning."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maint.deployment.compare import Comparison, compare
from maint.deployment.normalize import Tree, normalize
from maint.deployment.secrets import Fingerprint

FINGERPRINT = Fingerprint(b"k" * 32)
Find = Callable[[str], Path]


def tree(content: bytes) -> dict[str, Tree]:
    return normalize(iter([content]), FINGERPRINT)


def compared(before: bytes, after: bytes) -> Comparison:
    return compare(tree(before), tree(after))


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Comparison:
    document = json.loads(path.read_bytes())
    change(document)
    return compared(path.read_bytes(), json.dumps(document).encode())


def paths(comparison: Comparison) -> list[str]:
    return [difference.path for difference in comparison.differences]


def permuted(value: Any, chance: random.Random) -> Any:
    """Shuffle every list and every object."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: permuted(value[key], chance) for key in keys}
    if isinstance(value, list):
        return [permuted(item, chance) for item in chance.sample(value, len(value))]
    return value


@given(seed=st.integers())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_permuted_document_is_the_same(deployment: Path, seed: int) -> None:
    content = deployment.read_bytes()
    shuffled = json.dumps(permuted(json.loads(content), random.Random(seed))).encode()
    assert compared(content, shuffled) == Comparison()


def test_an_upgrade_of_the_manager_shows_what_it_changed(recording: Find) -> None:
    comparison = compared(recording("05").read_bytes(), recording("06").read_bytes())
    assert sorted(paths(comparison)) == [
        "clusters/cluster/services/hdfs/config/dfs_ha_fencing_methods",
        "clusters/cluster/services/hdfs/roleConfigGroups/hdfs-NAMENODE-BASE/config/dfs_safemode_min_datanodes",
        "managementService/roleConfigGroups/mgmt-TELEMETRYPUBLISHER-BASE",
        "managerSettings/REMOTE_PARCEL_REPO_URLS",
        "versionInfo/version",
    ]
    assert comparison.volatile > 30  # what restarts renew, and how the release was built
    assert comparison.not_comparable == []


def test_what_agents_report_of_their_hosts_is_no_difference(recording: Find) -> None:
    def report(document: dict[str, Any]) -> None:
        for host in document["hosts"]:
            host.update(numCores=8, numPhysicalCores=4, totalPhysMemBytes=2**34, roleRefs=[{"roleName": "x"}])
            host["distribution"] = {"distributionType": "RHEL", "version": "8.8"}

    plain = recording("example").read_bytes()
    reported = json.loads(plain)
    report(reported)
    comparison = compared(json.dumps(reported).encode(), plain)
    assert paths(comparison) == []
    assert comparison.volatile > 0
    assert compared(plain, json.dumps(reported).encode()).added == []


def test_a_rotated_secret_is_one_difference_without_its_value(recording: Find) -> None:
    def rotate(document: dict[str, Any]) -> None:
        for item in document["managerSettings"]["items"]:
            if item["name"] == "KDC_ADMIN_PASSWORD":
                item["value"] = "brand-new-Pw"

    comparison = changed(recording("example"), rotate)
    assert paths(comparison) == ["managerSettings/KDC_ADMIN_PASSWORD"]
    (difference,) = comparison.differences
    assert difference.before != difference.after
    assert all(str(side).startswith("fp:") for side in (difference.before, difference.after))


def test_what_the_server_redacts_is_neither_equal_nor_different(recording: Find) -> None:
    def hide(document: dict[str, Any]) -> None:
        document["peers"][0]["password"] = "REDACTED"
        for item in document["managerSettings"]["items"]:
            if item["sensitive"]:
                item["value"] = "REDACTED"
        for user in document["users"]:
            del user["pwHash"], user["pwSalt"], user["pwLogin"]

    comparison = changed(recording("example"), hide)
    assert comparison.differences == []
    assert "peers/dr-site/password" in comparison.not_comparable
    assert "users/admin/pwHash" in comparison.not_comparable
    assert "managerSettings/KDC_ADMIN_PASSWORD" in comparison.not_comparable


def test_a_field_that_the_server_adds_is_listed_and_no_difference(recording: Find) -> None:
    def add(document: dict[str, Any]) -> None:
        document["clusters"][0]["newerField"] = "x"
        document["clusters"][0]["entityStatus"] = "STOPPED"
        document["newerList"] = []

    comparison = changed(recording("example"), add)
    assert comparison.differences == []
    assert comparison.added_keys == ["clusters/base/newerField"]


def test_an_element_that_the_server_adds_is_a_difference(recording: Find) -> None:
    def add(document: dict[str, Any]) -> None:
        document["managerSettings"]["items"].append({"name": "BANNER", "value": "x", "sensitive": False})
        document["hosts"].append({"hostId": "h-9", "hostname": "new"})

    comparison = changed(recording("example"), add)
    assert sorted(paths(comparison)) == ["hosts/h-9", "managerSettings/BANNER"]


def test_a_setting_added_in_the_form_of_api_2_is_a_difference(recording: Find) -> None:
    def add(document: dict[str, Any]) -> None:
        document["clusters"][0]["services"][0]["config"]["items"].append({"name": "new_one", "value": "1"})

    assert len(changed(recording("02"), add).differences) == 1


def test_a_lost_cluster_is_one_difference(recording: Find) -> None:
    comparison = changed(recording("example"), lambda document: document["clusters"].pop(1))
    assert "clusters/ecs-01" in paths(comparison)
    (lost,) = [difference for difference in comparison.differences if difference.path == "clusters/ecs-01"]
    assert lost.after is None


def test_a_role_that_is_there_twice_does_not_look_like_one(recording: Find) -> None:
    def twice(document: dict[str, Any]) -> None:
        roles = document["clusters"][0]["services"][0]["roles"]
        roles.append(roles[0])

    assert len(changed(recording("example"), twice).differences) == 1


def test_a_parcel_is_known_by_its_stage_too(recording: Find) -> None:
    def activate(document: dict[str, Any]) -> None:
        document["clusters"][0]["parcels"][0]["stage"] = "ACTIVATING"

    assert len(changed(recording("17"), activate).differences) == 2


def test_a_salt_that_was_rounded_is_a_difference(recording: Find) -> None:
    def rounded(document: dict[str, Any]) -> None:
        for user in document["users"]:
            user["pwSalt"] = int(float(user["pwSalt"]))

    assert "users/admin/pwSalt" in paths(changed(recording("example"), rounded))


def test_no_tree_holds_a_secret(deployment: Path) -> None:
    document = json.loads(deployment.read_bytes())
    secrets = {str(user[key]) for user in document["users"] for key in ("pwHash", "pwSalt")}
    shown = repr(tree(deployment.read_bytes()))
    assert secrets
    assert not [secret for secret in secrets if secret in shown]


def test_a_list_under_a_key_that_only_the_server_knows_is_no_difference(recording: Find) -> None:
    comparison = changed(recording("example"), lambda document: document.update(newFieldOfServer={"a": [1, 2]}))
    assert paths(comparison) == []
    assert comparison.added_keys == ["newFieldOfServer"]


def test_a_host_where_the_snapshot_has_no_list_of_hosts_is_a_difference(recording: Find) -> None:
    document = json.loads(recording("example").read_bytes())
    hosts = document.pop("hosts")
    comparison = compared(json.dumps(document).encode(), json.dumps({**document, "hosts": hosts[:1]}).encode())
    assert len(paths(comparison)) == 1


def test_a_number_with_a_huge_exponent_is_not_written_out() -> None:
    assert tree(b'{"n" : 1e999999, "m" : 1.50}') == {"n": "1E+999999", "m": "1.5"}


def test_numbers_are_compared_by_every_digit_and_not_by_how_they_are_spelled() -> None:
    assert tree(b'{"n" : 1.%b1}' % (b"0" * 30)) != tree(b'{"n" : 1.0}')
    assert tree(b'{"n" : 15e-1}') == tree(b'{"n" : 1.50}')
