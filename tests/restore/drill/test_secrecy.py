"""What compares, rehearses and heals tells no secret, whether it ends well or not."""

from typing import Any

from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator


def secrets_of(operator: Operator) -> set[str]:
    """Every secret of the lab's deployment that is long enough to be told from ordinary words."""
    document = operator.lab.world.deployment
    found = {PASSWORD}

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("sensitive") is True:
                found.add(str(node["value"]))
            found.update(str(node[key]) for key in ("pwHash", "pwSalt", "password") if key in node)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            collect(child)

    collect(document)
    return {secret for secret in found if len(secret) >= 8}


def test_no_secret_is_told(loaded: Operator) -> None:
    secrets = secrets_of(loaded)
    assert len(secrets) > 20
    assert loaded("backup", "create", "--yes").code == 7
    ids = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    with loaded.lab.world.lock:
        for item in loaded.lab.world.deployment["managerSettings"]["items"]:
            if item.get("sensitive"):
                item["value"] += "-rotated"
        loaded.lab.world.changed()
    assert loaded("backup", "create", "--open-window", "--yes").code in (0, 1, 7)
    ids = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    role = loaded.lab.world.deployment["clusters"][0]["services"][0]["roles"][0]["name"]
    said = [
        loaded("backup", "diff", ids[0], ids[-1], *output)
        for output in ((), ("-o", "json"), ("-o", "text"), ("--redacted",), ("-v",))
    ]
    said += [
        loaded("backup", "drift", ids[0], "-o", "json"),
        loaded("backup", "drift", ids[0], "--redacted", "-o", "text"),
        loaded("backup", "drill", ids[0], "-v"),
        loaded("backup", "drill", ids[0], "--switch", f"reject-role={role}"),
        loaded("backup", "heal", ids[1], "--from", ids[0], "-v"),
        loaded("backup", "heal", ids[1], "--from", ids[1]),
        loaded("backup", "files", ids[0]),
        loaded("backup", "show", ids[0], "-o", "json"),
    ]
    told = "".join(one.out + one.err for one in said)
    assert [secret for secret in secrets if secret in told] == []
    for folder in ("backups", "state"):
        for path in (loaded.lab.folder / folder).rglob("*"):
            if path.is_file() and "keys" not in path.parts:
                content = path.read_bytes()
                assert [secret for secret in secrets if secret.encode() in content] == [], path
