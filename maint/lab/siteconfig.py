"""Write the configuration that makes the toolkit talk to a lab."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maint.lab.manager.document import Doc

SITE = "lab"


def config(folder: Path, facts: Mapping[str, Any], bundle: Path, virtual_clusters: list[Doc] | None) -> Doc:
    """Return the configuration of a lab from the facts in its `lab.json`, its one site being `SITE`."""
    kdc = {"username": facts.get("kdc"), "password": f"file:{folder / 'kdc-password'}"}
    site: Doc = {
        "manager": {
            "host": "127.0.0.1",
            "plain_port": facts["plain_port"],
            "tls_port": facts["tls_port"],
            "username": facts["username"],
            "password": f"file:{folder / 'password'}",
            "bootstrap": {"username": "admin", "password": f"file:{folder / 'bootstrap-password'}"},
            **({"ca": str(bundle)} if facts.get("tls", True) else {}),  # without TLS there is nothing to verify
            "api": {"clusters": f"v{min(45, facts['api'])}", "deployment": f"v{facts['recorded_at']}"},
            "license": str(folder / "license.txt"),
            **({"kdc": kdc} if facts.get("kdc") else {}),
        },
        "ssh": {"user": "root", "key": str(folder / "ssh/id_ed25519"), "known_hosts": str(folder / "ssh/known_hosts")},
        "hosts": [
            {"name": name, "address": "127.0.0.1", "port": facts["ssh_ports"].get(name, 22), "groups": groups}
            for name, groups in facts["hosts"].items()
        ],
        "backup": {
            "store": str(folder / "backups"),
            "recipients": [facts["recipient"]],
            "identity": f"file:{folder / 'identity'}",
        },
    }
    if virtual_clusters is not None:
        site["virtual_clusters"] = virtual_clusters
    return {"state": str(folder / "state"), "sites": {SITE: site}}


def yaml(value: Mapping[str, Any]) -> str:  # Any: texts, numbers, lists and mappings
    """Return block-style YAML; every text is in double quotes, as JSON writes it."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any, indent: str = "") -> list[str]:  # Any: texts, numbers, lists and mappings
    lines: list[str] = []
    entries = value.items() if isinstance(value, Mapping) else [("-", member) for member in value]
    for name, member in entries:
        head = f"{indent}{name}" if name == "-" else f"{indent}{name}:"
        if isinstance(member, Mapping) and member and name == "-":
            inner = _lines(member, indent + "  ")
            lines += [f"{indent}- {inner[0].lstrip()}", *inner[1:]]
        elif isinstance(member, Mapping | list | tuple) and member:
            lines += [head, *_lines(member, indent + "  ")]
        else:
            lines.append(f"{head} {json.dumps(member)}")
    return lines
