"""Lay out a new lab: its manager, the files of its other hosts, keys, licence, and its virtual clusters."""

import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.control import MADE_FROM
from maint.lab.files import write_whole
from maint.lab.http.ports import free_port
from maint.lab.manager import host_files, kerberos, simulator
from maint.lab.manager.document import Doc, announced, clusters, dumps, hosts, recorded_at, release, settings
from maint.lab.manager.license import make_license
from maint.lab.manager.load import Options
from maint.lab.virtual_clusters.create import domain_of, plan

_LICENSE_DAYS = 365


def found(folder: Path, options: Options) -> None:
    """Write the files of a new lab, `MADE_FROM` last; OSError or ValueError for a bad deployment or a port taken."""
    made = simulator.create(folder, options)
    manager, loaded = made.simulator, made.loaded
    blueprint, switches = loaded.blueprint, loaded.world.switches
    names, named = _host_names(blueprint), settings(blueprint)
    kdc, kdc_password = kerberos.account(named)
    identity, recipient = pki.age_key()
    secret_files = {
        "password": loaded.password.encode(),
        "bootstrap-password": b"admin",
        "identity": f"{identity}\n".encode(),
        "kdc-password": kdc_password.encode(),
        "license.txt": make_license("Laboratory", _LICENSE_DAYS, datetime.now(UTC)),
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
        "kdc": kdc if any(kerberos.secured(cluster) for cluster in clusters(blueprint)) else "",
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
