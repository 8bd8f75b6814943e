"""What a document is worth: redaction told by values, and the rules of a restore."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maint.deployment.judge import Judge, JudgedDocument
from maint.errors import WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Redaction

Change = Callable[[dict[str, Any]], None]
Spoil = Callable[[Path, Change], bytes]


def judge(content: bytes, account: str = "", password: str | None = None) -> JudgedDocument:
    judging = Judge(account, Secret(password) if password else None)
    for at in range(0, len(content), 4096):
        judging.feed(content[at : at + 4096])
    return judging.close()


def failed(verdict: JudgedDocument) -> set[str]:
    return {finding.rule for finding in verdict.judgement.findings if finding.passed is False}


def words(verdict: JudgedDocument, rule: str) -> str:
    return next(finding.words for finding in verdict.judgement.findings if finding.rule == rule)


def secret(item: dict[str, Any]) -> bool:
    """Whether an item of a recording is a secret, told independently of the code: all of theirs end like this."""
    name = str(item.get("name", ""))
    by_name = name.endswith(("password", "_secret_key", "secret_key", "PASSWORD", "signature_secret", "BIND_PW"))
    return "value" in item and bool(item.get("sensitive", by_name))


def redact_items(item: dict[str, Any]) -> None:
    if secret(item):
        item["value"] = "REDACTED"


def drop_hashes(user: dict[str, Any]) -> None:
    for key in ("pwHash", "pwSalt", "pwLogin"):
        user.pop(key, None)


def test_every_recorded_deployment_is_unredacted_and_restorable(deployment: Path) -> None:
    verdict = judge(deployment.read_bytes())
    assert verdict.judgement.redaction is Redaction.NONE
    assert verdict.restorable, verdict.judgement.findings


def test_the_login_of_every_deployment_proves_the_hash_rule(
    deployment: Path, password_of: Callable[[Path], str]
) -> None:
    content = deployment.read_bytes()
    assert judge(content, "admin", password_of(deployment)).judgement.hash_rule is True
    assert judge(content, "admin", "some other word").judgement.hash_rule is False
    assert judge(content, "nobody", "some word").judgement.hash_rule is None
    assert judge(content).judgement.hash_rule is None


def test_hiding_all_secrets_makes_it_redacted(deployment: Path, spoiled: Spoil) -> None:
    content = spoiled(deployment, redact_items)
    if b"REDACTED" not in content:
        pytest.skip("a server just installed has no secret item")
    verdict = judge(content)
    assert verdict.judgement.redaction is Redaction.REDACTED
    assert not verdict.restorable


def test_leaving_out_the_hashes_makes_it_redacted(deployment: Path, spoiled: Spoil) -> None:
    verdict = judge(spoiled(deployment, drop_hashes))
    assert verdict.judgement.redaction is Redaction.REDACTED
    assert {"redaction", "administrator", "accounts"} <= failed(verdict)


def test_hiding_a_single_secret_makes_it_redacted(deployment: Path, spoiled: Spoil) -> None:
    done: list[str] = []

    def hide_one(item: dict[str, Any]) -> None:
        if not done and secret(item):
            done.append(item["name"])
            item["value"] = "REDACTED"

    content = spoiled(deployment, hide_one)
    if not done:
        pytest.skip("a server just installed has no secret item")
    verdict = judge(content)
    assert verdict.judgement.redaction is Redaction.REDACTED
    assert verdict.judgement.counts["redacted"] == 1
    assert done[0] in words(verdict, "redaction")


@pytest.mark.parametrize("which", ["03", "05", "20", "example"])
def test_a_hidden_peer_password_is_noticed_though_never_flagged(
    which: str, recording: Callable[[str], Path], spoiled: Spoil
) -> None:
    def hide(peer: dict[str, Any]) -> None:
        if "clouderaManagerCreatedUser" in peer:
            peer["password"] = "REDACTED"

    assert judge(spoiled(recording(which), hide)).judgement.redaction is Redaction.REDACTED


def test_a_harmless_text_that_is_the_word_is_no_redaction(recording: Callable[[str], Path], spoiled: Spoil) -> None:
    def rename(item: dict[str, Any]) -> None:
        if item.get("name") == "KDC_HOST":
            item["value"] = "REDACTED"

    content = spoiled(recording("example"), rename)
    assert b"REDACTED" in content
    assert judge(content).judgement.redaction is Redaction.NONE


@pytest.mark.parametrize("flag", [True, False, None])
@pytest.mark.parametrize("indent", [None, 2], ids=["in one line", "as the server writes"])
def test_a_secret_that_is_the_word_is_redacted_whatever_its_flag_says(
    flag: bool | None, indent: int | None, recording: Callable[[str], Path]
) -> None:
    document = json.loads(recording("example").read_bytes())
    group = next(one for one in first_service(document)["roleConfigGroups"] if one.get("config"))
    item = {"name": "ssl_server_keystore_keypassword", "value": "REDACTED", "sensitive": flag}
    group["config"]["items"] = [{key: value for key, value in item.items() if value is not None}]
    verdict = judge(json.dumps(document, indent=indent, separators=(", ", " : ")).encode())
    assert verdict.judgement.redaction is Redaction.REDACTED
    assert words(verdict, "redaction") == "1 secret is the word REDACTED (ssl_server_keystore_keypassword)"


@pytest.mark.parametrize(
    "mask",
    ["********\n", " REDACTED ", "**REDACTED**", "__redacted__", "<<REDACTED>>", "{{REDACTED}}", "[hidden]", "<masked>",
     "[PROTECTED]", "●●●●●●"],
)  # fmt: skip
def test_whatever_stands_in_the_place_of_a_single_secret_makes_it_redacted(
    mask: str, recording: Callable[[str], Path], spoiled: Spoil
) -> None:
    done: list[str] = []

    def hide_one(item: dict[str, Any]) -> None:
        if not done and secret(item):
            done.append(item["name"])
            item["value"] = mask

    verdict = judge(spoiled(recording("example"), hide_one))
    assert (verdict.judgement.redaction, verdict.restorable) == (Redaction.REDACTED, False)
    assert done[0] in words(verdict, "redaction")


@pytest.mark.parametrize("password", ["hidden", "<hid>den", "**", "unREDACTED1", "removed", "(protected)1", "f00", "r"])
def test_a_password_that_only_resembles_a_mask_is_one(
    password: str, recording: Callable[[str], Path], spoiled: Spoil
) -> None:
    def choose(item: dict[str, Any]) -> None:
        if secret(item):
            item["value"] = password

    assert judge(spoiled(recording("example"), choose)).judgement.redaction is Redaction.NONE


@pytest.mark.parametrize("text", ["this password is REDACTED in displays", "NOT REDACTED", "REDACTEDLY", "UNREDACTED"])
def test_a_text_that_mentions_the_word_is_no_redaction(
    text: str, recording: Callable[[str], Path], spoiled: Spoil
) -> None:
    def mention(node: dict[str, Any]) -> None:
        if not node.get("sensitive") and isinstance(node.get("value"), str):
            node["value"] = text
        if "rackId" in node:
            node["rackId"] = "REDACTED"  # no setting

    assert judge(spoiled(recording("example"), mention)).judgement.redaction is Redaction.NONE


def test_where_nothing_is_flagged_it_says_that_names_told(recording: Callable[[str], Path]) -> None:
    assert "flags nothing" in words(judge(recording("07").read_bytes()), "redaction")
    assert "flags nothing" not in words(judge(recording("17").read_bytes()), "redaction")


def test_services_without_any_secret_tell_nothing(recording: Callable[[str], Path], spoiled: Spoil) -> None:
    def empty(item: dict[str, Any]) -> None:
        if secret(item):
            item["value"] = ""

    verdict = judge(spoiled(recording("example"), empty))
    assert verdict.judgement.redaction is Redaction.UNKNOWN
    assert not verdict.restorable


@pytest.mark.parametrize(
    ("which", "counts"),
    [
        ("02", {"clusters": 1, "services": 7, "roles": 29, "management_roles": 5, "hosts": 5, "users": 5, "groups": 0}),
        ("03", {"clusters": 1, "services": 6, "roles": 34, "management_roles": 5, "hosts": 5, "users": 12}),
        ("16", {"clusters": 0, "services": 0, "roles": 0, "management_roles": 0, "hosts": 0, "users": 1}),
        ("17", {"clusters": 1, "services": 7, "roles": 39, "management_roles": 6, "hosts": 5, "users": 9}),
        ("example", {"clusters": 2, "roles": 26, "management_roles": 5, "items": 149, "sensitive": 52, "redacted": 0}),
    ],
)
def test_it_counts_what_the_recordings_hold(
    which: str, counts: dict[str, int], recording: Callable[[str], Path]
) -> None:
    assert judge(recording(which).read_bytes()).judgement.counts.items() >= counts.items()


def rules_broken_by(change: Callable[[dict[str, Any]], None], path: Path) -> set[str]:
    document = json.loads(path.read_bytes())
    change(document)
    return failed(judge(json.dumps(document).encode()))


def no_administrator(document: dict[str, Any]) -> None:
    document["users"] = [user for user in document["users"] if user["name"] != "admin"]
    document["authRoles"] = []


def administrator_from_a_directory(document: dict[str, Any]) -> None:
    for user in document["users"]:
        user["pwLogin"] = user["name"] != "admin"


def no_release(document: dict[str, Any]) -> None:
    del document["versionInfo"]["version"]


def a_role_twice(document: dict[str, Any]) -> None:
    roles = document["clusters"][0]["services"][0]["roles"]
    roles.append(roles[0])


def a_group_gone(document: dict[str, Any]) -> None:
    document["clusters"][0]["services"][0]["roleConfigGroups"] = []


def a_host_gone(document: dict[str, Any]) -> None:
    document["hosts"].pop()


def a_host_twice(document: dict[str, Any]) -> None:
    document["hosts"].append(document["hosts"][0])


def a_user_twice(document: dict[str, Any]) -> None:
    document["users"].append(document["users"][0])


def a_cluster_twice(document: dict[str, Any]) -> None:
    document["clusters"].append(document["clusters"][0])


def a_setting_twice(document: dict[str, Any]) -> None:
    document["managerSettings"]["items"].append(document["managerSettings"]["items"][0])


def a_setting_twice_among_plain_ones(document: dict[str, Any]) -> None:
    items = [{"name": one, "value": "1", "sensitive": False} for one in ("a_setting", "another", "a_setting")]
    first_service(document)["roleConfigGroups"][0]["config"] = {"items": items}


def a_template_of_another_cluster(document: dict[str, Any]) -> None:
    document["hostTemplates"]["items"][0]["clusterRef"]["clusterName"] = "elsewhere"


def a_group_of_another_cluster(document: dict[str, Any]) -> None:
    document["clusters"][0]["services"][0]["roleConfigGroups"][0]["serviceRef"]["clusterName"] = "elsewhere"


def a_member_who_is_no_user(document: dict[str, Any]) -> None:
    document["authRoles"][0]["users"].append({"name": "ghost"})


def an_auth_role_that_is_not_there(document: dict[str, Any]) -> None:
    document["users"][1]["authRoles"] = [{"name": "auditors", "displayName": "Auditors"}]


def a_directory_group_with_an_auth_role_that_is_not_there(document: dict[str, Any]) -> None:
    document["externalUserMappings"][0]["authRoles"].append({"name": "auditors"})


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (no_administrator, {"administrator"}),
        (administrator_from_a_directory, {"administrator"}),
        (no_release, {"versions"}),
        (a_role_twice, {"duplicates"}),
        (a_group_gone, {"references"}),
        (a_host_gone, {"hosts"}),
        (a_host_twice, {"duplicates"}),
        (a_user_twice, {"duplicates"}),
        (a_cluster_twice, {"duplicates"}),
        (a_setting_twice, {"duplicates"}),
        (a_setting_twice_among_plain_ones, {"duplicates"}),
        (a_template_of_another_cluster, {"references"}),
        (a_group_of_another_cluster, {"references"}),
        (a_member_who_is_no_user, {"references"}),
        (an_auth_role_that_is_not_there, {"references"}),
        (a_directory_group_with_an_auth_role_that_is_not_there, {"references"}),
    ],
)
def test_each_broken_rule_is_named(
    change: Callable[[dict[str, Any]], None], rules: set[str], recording: Callable[[str], Path]
) -> None:
    assert rules_broken_by(change, recording("example")) == rules


def test_a_role_known_only_by_display_name_or_uuid_makes_an_administrator(recording: Callable[[str], Path]) -> None:
    def display(document: dict[str, Any]) -> None:
        for user in document["users"]:
            user["authRoles"] = [{"displayName": role["displayName"]} for role in user["authRoles"]]

    def uuid(document: dict[str, Any]) -> None:
        for user in document["users"]:
            user["authRoles"] = [{"uuid": role["uuid"]} for role in user["authRoles"]]

    assert rules_broken_by(display, recording("example")) == set()
    assert rules_broken_by(uuid, recording("example")) == set()


def test_a_key_that_stands_twice_in_one_object_is_told(recording: Callable[[str], Path]) -> None:
    content = recording("01").read_bytes().replace(b'"pwLogin" : true', b'"pwLogin" : true, "pwLogin" : true')
    assert failed(judge(content)) == {"duplicates"}


@pytest.mark.parametrize(
    "content",
    [
        b'{"clusters" : [ {"services" : 3} ]}',
        b'{"users" : [ {"authRoles" : 1} ]}',
        b'{"managerSettings" : {"items" : 1}}',
    ],
)
def test_json_of_another_shape_is_no_deployment(content: bytes) -> None:
    with pytest.raises(WorkFailed, match="no deployment"):
        judge(content)


def test_an_empty_object_is_not_restorable() -> None:
    assert {"administrator", "versions"} <= failed(judge(b"{ }"))


def first_service(document: dict[str, Any]) -> Any:
    return document["clusters"][0]["services"][0]


def administrator(document: dict[str, Any]) -> Any:
    return next(user for user in document["users"] if user["name"] == "admin")


def every_secret(value: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for item in document["managerSettings"]["items"]:
            if item.get("sensitive"):
                item["value"] = value

    return change


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda d: first_service(d)["roles"].append(None), "shape"),
        (lambda d: first_service(d)["roles"].append({}), "shape"),
        (lambda d: first_service(d)["roles"][0].pop("type"), "shape"),
        (lambda d: first_service(d).update(roles={"items": first_service(d)["roles"]}), "shape"),
        (lambda d: first_service(d).pop("type"), "shape"),
        (lambda d: first_service(d).update(config={"items": {"name": "a"}}), "shape"),
        (lambda d: d["clusters"].append(None), "shape"),
        (lambda d: d["clusters"][0].update(name=""), "shape"),
        (lambda d: d["hosts"].append(None), "shape"),
        (lambda d: d["hosts"][0].pop("hostname"), "shape"),
        (lambda d: d["hosts"][0].update(hostname=d["hosts"][1]["hostname"]), "duplicates"),
        (lambda d: d.update(clusters=None, hostTemplates={"items": []}), "shape"),
        (lambda d: d.update(managementService=[d["managementService"]]), "shape"),
        (lambda d: first_service(d)["roles"][0].update(name=7), "shape"),
        (lambda d: first_service(d)["roles"][0].update(config="x"), "shape"),
        (lambda d: first_service(d)["roles"][0].update(roleConfigGroupRef="x"), "shape"),
        (lambda d: first_service(d)["roles"][0].update(tags=["x"]), "shape"),
        (lambda d: first_service(d)["roleConfigGroups"][0].update(config=["x"]), "shape"),
        (lambda d: first_service(d)["roleConfigGroups"][0].update(name=7), "shape"),
        (lambda d: first_service(d)["roleConfigGroups"][0].update(roleType={}), "shape"),
        (lambda d: first_service(d)["roleConfigGroups"][0].update(serviceRef=7), "shape"),
        (lambda d: first_service(d).update(displayName={"items": []}), "shape"),
        (lambda d: d["clusters"][0].update(version=["x"]), "shape"),
        (lambda d: d["clusters"][0].update(parcels={"items": d["clusters"][0]["parcels"]}), "shape"),
        (lambda d: d["clusters"][0]["parcels"].append(None), "shape"),
        (lambda d: d["clusters"][0]["parcels"][0].update(clusterRef="x"), "shape"),
        (lambda d: d["clusters"][0]["parcels"][0].update(clusterRef={"displayName": []}), "shape"),
        (lambda d: d["hosts"][0].update(config="x"), "shape"),
        (lambda d: d["hostTemplates"].update(items="x"), "shape"),
        (lambda d: d["hostTemplates"]["items"][0].update(name={}), "shape"),
        (lambda d: d["authRoles"].append("x"), "shape"),
        (lambda d: d["authRoles"][0].update(externalUserMappings=["x"]), "shape"),
        (lambda d: d["hostTemplates"].update(items={"items": []}), "shape"),
        (lambda d: d["authRoles"][0].update(users={"items": []}), "shape"),
        (lambda d: d["users"][0].update(roles="ROLE_USER"), "shape"),
        (lambda d: d["users"][0].update(roles={}), "shape"),
        (lambda d: d.update(dataContexts=[]), "shape"),
        (lambda d: d.pop("managerSettings"), "shape"),
        (lambda d: d["managerSettings"]["items"].append(None), "shape"),
        (lambda d: d["managerSettings"]["items"][0].pop("name"), "shape"),
        (lambda d: d["managerSettings"]["items"][0].update(value=5), "shape"),
        (lambda d: d["managerSettings"]["items"][0].update(value={"a": "b"}), "shape"),
        (lambda d: administrator(d).update(pwSalt=str(administrator(d)["pwSalt"])), "accounts"),
        (lambda d: administrator(d).update(pwSalt=float(administrator(d)["pwSalt"])), "accounts"),
        (lambda d: administrator(d).update(pwSalt=2**63), "accounts"),
        (lambda d: administrator(d).pop("pwSalt"), "accounts"),
        (lambda d: administrator(d).update(pwHash=5), "accounts"),
        (lambda d: administrator(d).update(pwLogin="false"), "accounts"),
        (every_secret("fp:0123456789abcdef"), "redaction"),
        (every_secret("********"), "redaction"),
        (every_secret("<redacted>"), "redaction"),
        (lambda d: administrator(d).update(pwHash="fp:0123456789abcdef"), "redaction"),
        (lambda d: d["peers"][0].update(password="••••••"), "redaction"),
    ],
)
def test_what_a_server_would_not_take_or_take_for_less_is_not_restorable(
    change: Callable[[dict[str, Any]], None], rule: str, recording: Callable[[str], Path]
) -> None:
    assert rule in rules_broken_by(change, recording("example"))


def test_a_hash_of_another_rule_is_nobodys_business(recording: Callable[[str], Path]) -> None:
    def bcrypt(document: dict[str, Any]) -> None:
        administrator(document)["pwHash"] = "$2b$12$" + "a" * 53
        del administrator(document)["pwSalt"]

    assert rules_broken_by(bcrypt, recording("example")) == set()


@pytest.mark.parametrize(
    "more",
    [b"[" * 5_000 + b"]" * 5_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"1e99999999999999999999"],
    ids=["lists", "objects", "a number beyond all bounds"],
)
def test_nothing_in_a_document_costs_all_memory_or_ends_in_a_bug(more: bytes, recording: Callable[[str], Path]) -> None:
    with pytest.raises(WorkFailed):
        judge(recording("01").read_bytes().rstrip()[:-1] + b', "more" : ' + more + b"}")


@pytest.mark.parametrize(("kept", "on"), [("ALL", True), ("NONE", False), ("none", False), ("", False), (None, False)])
def test_auto_tls_is_on_where_its_type_is_one(kept: str | None, on: bool) -> None:
    items = [{"name": "AUTO_TLS_TYPE", "value": kept, "sensitive": False}]
    verdict = judge(json.dumps({"managerSettings": {"items": items}}).encode())
    assert verdict.summary.auto_tls is on
