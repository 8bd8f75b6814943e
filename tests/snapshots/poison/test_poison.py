"""Poisoned snapshots: each is refused with its own reason, and the manager never hears of it."""

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from maint.lab.manager.api.manager import make_license
from maint.lab.running import Lab
from maint.snapshots.manifest import MANIFEST, SIGNATURE, new_id
from maint.snapshots.parts import DEPLOYMENT, LICENSE, TRUSTSTORE
from tests.snapshots.poison.forger import Forger, forging
from tests.steps.conftest import copy
from tests.steps.operator import Operator

Poison = Callable[[Forger], str]


def changed(change: Callable[[Any], None]) -> Poison:
    """Return a poison: the document changed, under a manifest that says all is well."""

    def poison(forger: Forger) -> str:
        document = json.loads(forger.content)
        change(document)
        return forger.forge(json.dumps(document, indent=2).encode())

    return poison


def on_disk(name: str, change: Callable[[bytes], bytes | None]) -> Poison:
    """Return a poison: one file of a copy changed where it lies; None removes it."""

    def poison(forger: Forger) -> str:
        snapshot = forger.forge()
        path = forger.folder(snapshot) / name
        content = change(path.read_bytes())
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        return snapshot

    return poison


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def services(document: Any) -> Any:
    return document["clusters"][0]["services"]


def hide_one(document: Any) -> None:
    item = next(one for one in document["managerSettings"]["items"] if one["name"] == "KDC_ADMIN_PASSWORD")
    item["value"] = "REDACTED"


def hide_one_and_deny_it(document: Any) -> None:
    hide_one(document)
    for item in document["managerSettings"]["items"]:
        item["sensitive"] = item["sensitive"] and item["value"] != "REDACTED"


def hide_all(document: Any) -> None:
    for user in document["users"]:
        for key in ("pwHash", "pwSalt", "pwLogin"):
            user.pop(key, None)
    for item in document["managerSettings"]["items"]:
        if item.get("sensitive"):
            item["value"] = "REDACTED"


def no_administrator(document: Any) -> None:
    for user in document["users"]:
        user["authRoles"] = []


def no_truststore_password(document: Any) -> None:
    settings = document["managerSettings"]
    settings["items"] = [one for one in settings["items"] if "TRUSTSTORE_PASSWORD" not in one["name"]]


def unknown_host(document: Any) -> None:
    services(document)[0]["roles"][0]["hostRef"] = {"hostId": "00000000-dead-beef-0000-000000000000"}


def duplicate_role(document: Any) -> None:
    roles = services(document)[0]["roles"]
    roles.append(dict(roles[0]))


def missing_group(document: Any) -> None:
    service = next(one for one in services(document) if one.get("roleConfigGroups"))
    del service["roleConfigGroups"][0]


def another_password(document: Any) -> None:
    for user in document["users"]:
        if "pwSalt" in user:
            user["pwSalt"] += 1


def another_release(document: Any) -> None:
    document["versionInfo"]["version"] = "7.7.1"


def of_another_server(forger: Forger) -> str:
    return forger.forge(edit=lambda one: replace(one, versions={**one.versions, "manager": "7.7.1"}))


def expired_license(forger: Forger) -> str:
    then = forger.good.taken_at + timedelta(seconds=1)  # the newest
    part = make_license("Laboratory", -3)
    return forger.forge(parts={LICENSE: part}, edit=lambda one: replace(one, taken_at=then, id=new_id(then)))


def for_another_key(forger: Forger) -> str:
    _, recipient = forger.site.seal.new_identity()
    return forger.forge(recipients=[recipient])


def truststore_password_lost(forger: Forger) -> str:
    document = json.loads(forger.content)
    no_truststore_password(document)
    return forger.forge(json.dumps(document).encode(), without=[TRUSTSTORE])


def swapped(forger: Forger) -> str:
    document = json.loads(forger.content)
    document["hosts"][0]["rackId"] = "/other"
    other = forger.forge(json.dumps(document).encode())
    return on_disk(DEPLOYMENT, lambda _: (forger.folder(other) / DEPLOYMENT).read_bytes())(forger)


def from_the_future(forger: Forger) -> str:
    then = forger.site.clock.now() + timedelta(days=2)
    return forger.forge(edit=lambda one: replace(one, taken_at=then, id=new_id(then)))


def edited_manifest(content: bytes) -> bytes:
    return content.replace(b'"account": "admin"', b'"account": "nimda"')


def listed_later(forger: Forger) -> str:
    """Return a snapshot whose id, by which snapshots are sorted, comes from the future, whatever its manifest says."""
    then = forger.site.clock.now() + timedelta(days=2)
    return forger.forge(edit=lambda one: replace(one, id=new_id(then)))


def resigned(change: Callable[[bytes], bytes]) -> Poison:
    """Return a poison: the manifest changed, and signed with the site's own key."""

    def poison(forger: Forger) -> str:
        snapshot = forger.forge()
        manifest, signature = (forger.folder(snapshot) / name for name in (MANIFEST, SIGNATURE))
        content = change(manifest.read_bytes())
        for path, written in ((manifest, content), (signature, forger.site.sign.sign(content))):
            path.unlink()
            path.write_bytes(written)
        return snapshot

    return poison


def nested(document: bytes) -> bytes:
    return document.rstrip()[:-1] + b', "more" : ' + b"[" * 50_000 + b"]" * 50_000 + b"}"


def no_salt(document: Any) -> None:
    for user in document["users"]:
        user.pop("pwSalt", None)


def null_role(document: Any) -> None:
    services(document)[0]["roles"].append(None)


def mask_all(document: Any) -> None:
    for item in document["managerSettings"]["items"]:
        if item.get("sensitive"):
            item["value"] = "********"


POISONS: dict[str, tuple[Poison, str]] = {
    "truncated": (lambda forger: forger.forge(forger.content[: len(forger.content) // 2]), "before it is complete"),
    "redacted": (changed(hide_all), "are the word REDACTED"),
    "partly redacted": (changed(hide_one), "1 secret is the word REDACTED (KDC_ADMIN_PASSWORD)"),
    "partly redacted, and flagged as no secret": (
        changed(hide_one_and_deny_it),
        "1 secret is the word REDACTED (KDC_ADMIN_PASSWORD)",
    ),
    "HTML error page": (lambda forger: forger.forge(b"<html><h1>502 Bad Gateway</h1></html>"), "is not JSON"),
    "wrong version": (changed(another_release), "is of release 7.7.1"),
    "another server's version": (of_another_server, "the snapshot 7.7.1"),
    "no administrator": (changed(no_administrator), "ROLE_ADMIN"),
    "wrong key": (for_another_key, "key"),
    "missing truststore password": (truststore_password_lost, "truststore password is neither"),
    "unknown host": (changed(unknown_host), "hosts unknown: 00000000-dead-beef"),
    "manifest edited": (on_disk(MANIFEST, edited_manifest), "manifest cannot be believed"),
    "signature removed": (on_disk(SIGNATURE, lambda _: None), "manifest.json.sig is missing"),
    "part missing": (on_disk(DEPLOYMENT, lambda _: None), f"{DEPLOYMENT} is missing"),
    "part swapped": (swapped, f"{DEPLOYMENT} is not what was stored"),
    "zero parts": (lambda forger: forger.forge(edit=lambda one: replace(one, parts=())), "lists no parts"),
    "duplicate role": (changed(duplicate_role), "there twice: role of"),
    "missing group": (changed(missing_group), "names the config group"),
    "password that opens no administrator": (changed(another_password), "configured password does not open admin"),
    "future date": (from_the_future, "taken in the future"),
    "future id": (listed_later, "taken in the future"),
    "nested without end": (lambda forger: forger.forge(nested(forger.content)), "nested deeper than"),
    "two documents": (lambda forger: forger.forge(forger.content * 2), "something follows the end"),
    "UTF-16": (lambda forger: forger.forge(forger.content.decode().encode("utf-16")), "is not JSON"),
    "no salt": (changed(no_salt), "no usable password hash, salt"),
    "null among the roles": (changed(null_role), "null in clusters[].services[].roles"),
    "masked": (changed(mask_all), "or another mask"),
    "empty truststore password": (lambda forger: forger.forge(parts={TRUSTSTORE: b""}), "it holds no password"),
    "truststore password of a proxy": (
        lambda forger: forger.forge(parts={TRUSTSTORE: b"<html>502</html>"}),
        "it holds no password",
    ),
    "two parts sealed one behind the other": (
        on_disk(DEPLOYMENT, lambda content: content * 2),
        f"{DEPLOYMENT} is not what was stored",
    ),
    "manifest with a key twice": (
        resigned(lambda content: content.replace(b'"flagged"', b'"flagged": false, "flagged"')),
        "a key stands in it twice",
    ),
    "manifest nested without end": (
        resigned(
            lambda content: content.replace(b'"host_files": {', b'"more": ' + b"[" * 99_999 + b', "host_files": {')
        ),
        "manifest is damaged",
    ),
}
PARTS = (
    DEPLOYMENT,
    "deployment.redacted.json.zst",
    LICENSE,
    TRUSTSTORE,
    "manager-files.tar.zst.age",
    "RESTORE.txt",
    MANIFEST,
    SIGNATURE,
)
BIT_FLIPS: dict[str, tuple[Poison, str]] = {
    f"bit flip in {name}": (
        on_disk(name, flipped),
        "manifest cannot be believed" if name in (MANIFEST, SIGNATURE) else f"{name} is not what was stored",
    )
    for name in PARTS
}


@pytest.mark.parametrize(("renewed", "named"), [("in the config", True), ("on the server", False)])
def test_an_expired_licence_part_locks_nothing_out(lost: Operator, renewed: str, named: bool) -> None:
    with forging(lost) as forger:
        snapshot = expired_license(forger)
    if renewed == "on the server":
        assert lost("manager", "license", "--yes").code == 0
        (lost.lab.folder / "license.txt").unlink()
    said = lost.restore(*(("--snapshot", snapshot) if named else ()), "-v")
    assert said.code == 0, said.err
    assert f"by snapshot {snapshot}" in said.err


def test_a_really_redacted_export_is_refused(make: Any) -> None:
    operator = make()
    assert operator("backup", "create", "--yes").code == 7
    snapshot = operator("backup", "list", "-o", "json").json["snapshots"][-1]["id"]
    operator.lab.lose_database()
    operator.forget_requests()
    said = operator.restore("--snapshot", snapshot, "-o", "json")
    assert said.code == 5
    assert "is redacted" in said.error["message"]
    assert operator.sent == []


@pytest.fixture(scope="module")
def refusing(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a manager whose database is gone, for what is refused and changes nothing.

    It is up until the last of these tests ends: those that bring up another copy, on the same ports, come before.
    """
    with Lab(copy(backed_up, tmp_path_factory.mktemp("refusing") / "lab")) as lab:
        lab.lose_database()
        yield Operator(lab)


@pytest.mark.parametrize("name", [*POISONS, *BIT_FLIPS])
def test_a_poisoned_snapshot_is_refused_with_its_own_reason(refusing: Operator, name: str) -> None:
    poison, reason = {**POISONS, **BIT_FLIPS}[name]
    with forging(refusing) as forger:
        before = {*forger.root.iterdir()}
        snapshot = poison(forger)
    refusing.forget_requests()
    said = refusing.restore("--snapshot", snapshot, "-o", "json")
    assert said.code == 5, said.err
    words = " | ".join([said.error["message"], *said.error["detail"]])
    assert reason in words, words
    assert refusing.sent == []
    assert refusing.lab.world.deployment["clusters"] == []
    for made in {*forger.root.iterdir()} - before:
        shutil.rmtree(made)
