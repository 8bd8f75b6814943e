"""Lay out a new lab: manager, hosts' files, keys, licence, virtual clusters; and write the toolkit's configuration."""

import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maint.files import write_whole
from maint.lab import pki
from maint.lab.control import MADE_FROM
from maint.lab.http.server import free_port
from maint.lab.manager import commands, host_files, simulator
from maint.lab.manager.api.manager import make_license
from maint.lab.manager.document import Doc, announced, clusters, dumps, hosts, recorded_at, release, settings
from maint.lab.manager.load import Options
from maint.lab.virtual_clusters.create import domain_of, plan


def lay_out(folder: Path, options: Options) -> None:
    """Write the files of a new lab, `MADE_FROM` last; OSError or ValueError for a bad deployment or a port taken."""
    made = simulator.create(folder, options)
    manager, loaded = made.simulator, made.loaded
    blueprint, switches = loaded.blueprint, loaded.world.switches
    names, named = _host_names(blueprint), settings(blueprint)
    kdc, kdc_password = commands.kdc_account(named)
    identity, recipient = pki.age_key()
    secret_files = {
        "password": loaded.password.encode(),
        "bootstrap-password": b"admin",
        "identity": f"{identity}\n".encode(),
        "kdc-password": kdc_password.encode(),
        "license.txt": make_license(),
        "blueprint.json": dumps(blueprint).encode(),
    }
    for name, content in secret_files.items():
        write_whole(folder / name, content, 0o600)
    now = datetime.now(UTC)
    for name in itertools.islice(names, 1, None):  # the manager's own host has its files
        root = simulator.root_of(folder, name)
        host_files.write_agent(root, name, next(iter(names)), blueprint, manager.authority, made.passwords, now)
    for other in list(names)[1 : int(switches.number("server-instances"))]:
        host_files.write_manager(simulator.root_of(folder, other))
    domain = "" if options.fresh else domain_of(blueprint)
    if domain or options.virtual_clusters:
        plan(folder / "vc", domain or "apps.example.internal", free_port(), switches, options.virtual_clusters)
    facts = {
        "plain_port": manager.server.plain_port,
        "tls_port": manager.server.tls_port,
        "kdc": kdc if any(commands.secured(cluster) for cluster in clusters(blueprint)) else "",
        "tls": options.fresh or named.get("WEB_TLS", "").lower() == "true",
        "ssh": options.ssh,
        "ssh_ports": {name: options.ssh_ports.get(name) or free_port() for name in names} if options.ssh else {},
        "username": loaded.username,
        "recipient": recipient,
        "hosts": names,
        "addresses": {host.get("hostname"): host.get("ipAddress") for host in hosts(blueprint)},
        "api": announced(release(blueprint)),
        "recorded_at": recorded_at(blueprint),
        "remarks": list(loaded.remarks),
    }
    write_whole(folder / MADE_FROM, json.dumps(facts, indent=1).encode(), 0o600)


def groups_of(deployment: Doc) -> Mapping[str, Sequence[str]]:
    """Return the groups of each host that carries roles, by its id, derived from these roles."""
    found: dict[str, set[str]] = {}
    for cluster in deployment.get("clusters") or []:
        for host, types in _types(cluster).items():
            groups = found.setdefault(host, set())
            if types & {"ECS_SERVER", "DOCKER_SERVER", "ECS_AGENT"}:
                groups |= {"ecs"} | ({"ecs-master"} if "ECS_SERVER" in types else set())
            else:
                groups.add("base")
    return {host: sorted(groups) for host, groups in found.items()}


def _host_names(blueprint: Doc) -> dict[str, list[str]]:
    # The first host carries the manager.
    groups = groups_of(blueprint)
    listed = {host_files.folder_name(host): list(groups.get(str(host.get("hostId")), ())) for host in hosts(blueprint)}
    if not listed:
        return {"cm": ["manager"]}
    first = next(iter(listed))
    listed[first] = ["manager", *listed[first]]
    return listed


def _types(cluster: Doc) -> dict[str, set[str]]:
    # The types of the roles of a cluster, by host id.
    found: dict[str, set[str]] = {}
    for service in cluster.get("services") or []:
        for role in service.get("roles") or []:
            if isinstance(host := (role.get("hostRef") or {}).get("hostId"), str):
                found.setdefault(host, set()).add(str(role.get("type")))
    return found


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
