"""Restoring onto other machines rewrites what a deployment says about its hosts, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from maint.deployment.document import parse, spell
from maint.deployment.judge import Judge
from maint.errors import MaintError, Refused, UnknownName, UsageError
from maint.model.manager import Host
from maint.restore.host_mapping import HostChange, changes_of, leftovers, rewrite
from tests.restore.documents import DEPLOYMENTS, all_roles, md5, number, plain, recording

WITH_HOSTS = [path for path in DEPLOYMENTS if plain(path.read_bytes())["hosts"]]


def moved(content: bytes) -> tuple[dict[str, Any], bytes, tuple[HostChange, ...]]:
    """Move every host of a document; return it before and after, and the changes."""
    before, document = plain(content), parse(content)
    wishes = [f"{h['hostId']}=new-id-{i}:new-{i}.example.org:192.0.2.{i + 100}" for i, h in enumerate(before["hosts"])]
    changes = changes_of(wishes, document, ())
    rewrite(document, changes)
    return before, spell(document), changes


@pytest.mark.parametrize("path", WITH_HOSTS, ids=number)
def test_nothing_generated_names_an_old_host_any_more(path: Path) -> None:
    before, content, changes = moved(path.read_bytes())
    for change in changes:
        assert md5(change.old_id).encode() not in content
        assert f'"hostId" : "{change.old_id}"'.encode() not in content
    after = plain(content)
    assert [host["hostname"] for host in after["hosts"]] == [change.new_name for change in changes]
    assert [host["ipAddress"] for host in after["hosts"]] == [change.new_address for change in changes]
    assert len(all_roles(after)) == len(all_roles(before))


@pytest.mark.parametrize("path", WITH_HOSTS, ids=number)
def test_role_names_end_in_the_md5_of_their_new_host_as_far_as_they_did_before(path: Path) -> None:
    before, content, _ = moved(path.read_bytes())
    after = plain(content)
    for old, new in zip(all_roles(before), all_roles(after), strict=True):
        tail = old["name"].rpartition("-")[2]
        assert md5(old["hostRef"]["hostId"]).startswith(tail)
        assert new["name"] == old["name"][: -len(tail)] + md5(new["hostRef"]["hostId"])[: len(tail)]
        assert len(new["name"]) <= 64


def test_a_role_name_that_was_cut_is_cut_again() -> None:
    _, content, _ = moved(recording("02"))
    cut = [role for role in all_roles(plain(content)) if "SPARK_YARN_HISTORY_SERVER" in role["name"]]
    assert [len(role["name"]) for role in cut] == [64]
    assert cut[0]["name"] == f"spar40365358-SPARK_YARN_HISTORY_SERVER-{md5(cut[0]['hostRef']['hostId'])[:25]}"


@pytest.mark.parametrize("path", WITH_HOSTS, ids=number)
def test_internal_users_follow_their_roles(path: Path) -> None:
    before, content, changes = moved(path.read_bytes())
    tails = {md5(change.old_id): md5(change.new_id) for change in changes}
    expected = [
        next((u["name"].replace(o, n) for o, n in tails.items() if o in u["name"]), u["name"]) for u in before["users"]
    ]
    assert [user["name"] for user in plain(content)["users"]] == expected
    assert [user.get("pwSalt") for user in plain(content)["users"]] == [user.get("pwSalt") for user in before["users"]]


@pytest.mark.parametrize("path", WITH_HOSTS, ids=number)
def test_what_was_rewritten_hangs_together_and_only_hosts_changed(path: Path) -> None:
    _, content, changes = moved(path.read_bytes())
    judge = Judge()
    judge.feed(content)
    rules = {finding.rule: finding.passed for finding in judge.close().judgement.findings}
    assert rules["references"] and rules["duplicates"] and rules["hosts"]
    back = [f"{c.new_id}={c.old_id}:{c.old_name}:{c.old_address}" for c in changes]
    document = parse(content)
    rewrite(document, changes_of(back, document, ()))
    assert spell(document) == path.read_bytes()


def test_two_hosts_can_change_places() -> None:
    before, document = plain(recording("example")), parse(recording("example"))
    first, second = before["hosts"][:2]
    server = [Host(host["hostId"], host["hostname"], host["ipAddress"]) for host in before["hosts"]]
    wishes = [f"{a['hostname']}={b['hostname']}" for a, b in ((first, second), (second, first))]
    rewrite(document, changes_of(wishes, document, server))
    assert [host["hostId"] for host in document["hosts"][:2]] == [second["hostId"], first["hostId"]]


def test_a_role_that_names_its_host_by_name_alone_follows_it() -> None:
    document: Any = {"hosts": [{"hostId": "i-1", "hostname": "node1"}], "roles": [{"hostRef": {"hostname": "node1"}}]}
    rewrite(document, changes_of(["node1=i-2:node2:192.0.2.9"], document, ()))
    assert document["roles"] == [{"hostRef": {"hostname": "node2"}}]


def test_texts_that_name_an_old_host_are_left_and_told_by_place_only() -> None:
    document = parse(recording("example"))
    name = document["hosts"][0]["hostname"]
    service = document["clusters"][0]["services"][0]
    secret = {"name": "some_safety_valve", "value": f"http://{name}:8020/?password=hush", "sensitive": False}
    service.setdefault("config", {}).setdefault("items", []).append(secret)
    changes = changes_of([f"{name}=n:new.example.org:192.0.2.9"], document, ())
    rewrite(document, changes)
    found = leftovers(document, changes)
    assert f"clusters/base/services/{service['name']}/config/some_safety_valve" in found
    assert not any("hush" in place for place in found)
    assert name in secret["value"]


def test_a_name_inside_a_longer_one_is_no_leftover() -> None:
    document = {"hosts": [{"hostId": "i-1", "hostname": "node1"}], "users": [{"name": "node11"}, {"name": "x.node1.y"}]}
    changes = changes_of(["node1=i-2:node2:192.0.2.9"], document, ())
    assert leftovers(document, changes) == []


@pytest.mark.parametrize(
    ("wish", "failure", "words"),
    [
        ("nobody=a:b:c", UnknownName, "no host 'nobody'"),
        ("base-01.example.internal=unheard-of", UnknownName, "knows no host 'unheard-of'"),
        ("base-01.example.internal=twin", UnknownName, "knows 2 hosts"),
        ("base-01.example.internal=x:base-02.example.internal:192.0.2.9", Refused, "two hosts would become one"),
    ],
)
def test_what_is_unknown_or_ambiguous_is_refused(wish: str, failure: type[MaintError], words: str) -> None:
    document = parse(recording("example"))
    twins = [Host("t-1", "twin", "192.0.2.1"), Host("t-2", "twin", "192.0.2.2")]
    with pytest.raises(failure, match=words):
        changes_of([wish], document, twins)


@pytest.mark.parametrize("wish", ["base-01.example.internal", "=new", "base-01.example.internal="])
def test_half_a_wish_is_a_wrong_usage(wish: str) -> None:
    with pytest.raises(UsageError):
        changes_of([wish], parse(recording("example")), ())


def test_two_old_hosts_cannot_become_the_same_machine() -> None:
    wishes = [f"base-0{n}.example.internal=x:one.example.org:192.0.2.9" for n in (1, 2)]
    with pytest.raises(Refused, match="two hosts would become one"):
        changes_of(wishes, parse(recording("example")), ())
