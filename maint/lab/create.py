"""Lay out a new lab: its world, authority, keys, licence and the files of its hosts."""

import itertools
import json
import random
import re
import secrets
import socket
from datetime import UTC, datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.files import write_whole
from maint.lab.manager import host_files
from maint.lab.manager.document import Doc, hosts, release, settings
from maint.lab.manager.jackson import dumps
from maint.lab.manager.license import make_license, read_license
from maint.lab.manager.load import Options, load
from maint.lab.manager.releases import announced, recorded_at
from maint.lab.manager.storage import Storage
from maint.lab.siteconfig import groups_of
from maint.lab.virtual_clusters.planning import domain_of, plan

_LICENSE_DAYS = 365
_OWN_PORTS = range(20_000, 32_000)
# One after the other: a lab that is down keeps its ports, and no other lab of this process is given them.
turns = itertools.count(secrets.randbelow(len(_OWN_PORTS)))


def found(folder: Path, storage: Storage, options: Options, chance: random.Random | None) -> None:
    """Write the files of a new lab.

    Raises:
        OSError, ValueError: the deployment cannot be read.
    """
    loaded = load(options, chance)
    now = datetime.now(UTC)
    authority = pki.Authority.create(now)
    authority.save(folder / "ca")
    identity, recipient = pki.age_key()
    names = _host_names(loaded.blueprint)
    if options.alone:
        names = dict(itertools.islice(names.items(), 1))
    licence = make_license("Laboratory", _LICENSE_DAYS, now)
    if not options.fresh:  # a manager that runs clusters has one
        loaded.world.license, loaded.world.license_counts = read_license(licence, now), True
    secret_files = {
        "password": loaded.password.encode(),
        "bootstrap-password": b"admin",
        "identity": f"{identity}\n".encode(),
        "license.txt": licence,
        "blueprint.json": dumps(loaded.blueprint).encode(),
    }
    for name, content in secret_files.items():
        write_whole(folder / name, content, 0o600)
    _write_trees(folder, list(names), loaded.blueprint, authority, now)
    for other in list(names)[1 : int(loaded.world.switches.number("server-instances"))]:
        host_files.write_manager(folder / "hosts" / other / "root")
    plain, tls = _ports(options)
    domain = "" if options.fresh else domain_of(loaded.blueprint)
    if domain or options.virtual_clusters:
        port = free_port()
        plan(folder / "vc", domain or "apps.example.internal", port, loaded.world.switches, options.virtual_clusters)
    facts = {
        "plain_port": plain,
        "tls_port": tls,
        "tls": options.fresh or settings(loaded.blueprint).get("WEB_TLS", "").lower() == "true",
        "ssh": options.ssh,
        "ssh_ports": {name: options.ssh_ports.get(name) or free_port() for name in names} if options.ssh else {},
        "username": loaded.username,
        "recipient": recipient,
        "hosts": names,
        "addresses": {host.get("hostname"): host.get("ipAddress") for host in hosts(loaded.blueprint)},
        "api": announced(release(loaded.blueprint)),
        "recorded_at": recorded_at(loaded.blueprint),
        "remarks": list(loaded.remarks),
    }
    write_whole(folder / "lab.json", json.dumps(facts, indent=1).encode(), 0o600)
    storage.save(loaded.world)


def _host_names(blueprint: Doc) -> dict[str, list[str]]:
    """Return the hosts with their groups; the first carries the manager."""
    groups = groups_of(blueprint)
    found = {_folder_name(host): list(groups.get(str(host.get("hostId")), ())) for host in hosts(blueprint)}
    if not found:
        return {"cm": ["manager"]}
    first = next(iter(found))
    found[first] = ["manager", *found[first]]
    return found


def _folder_name(host: Doc) -> str:
    """Return the name of a host, which is also the name of a folder."""
    for name in (host.get("hostname"), host.get("hostId")):
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", str(name or "")):
            return str(name)
    raise ValueError(f"a host of the deployment has no usable name: {host.get('hostname')!r}")


def _write_trees(folder: Path, names: list[str], blueprint: Doc, authority: pki.Authority, now: datetime) -> None:
    passwords = host_files.store_passwords(blueprint)
    for name in names:
        root = folder / "hosts" / name / "root"
        host_files.write_agent(root, names[0])
        if host_files.auto_tls(blueprint):
            host_files.write_agent_certificates(root, authority, [name, *pki.LOOPBACK], passwords, now)
    manager = folder / "hosts" / names[0] / "root"
    host_files.write_manager(manager)
    if host_files.auto_tls(blueprint):
        host_files.write_certmanager(manager, authority, passwords, now)
    named = settings(blueprint)
    if named.get("WEB_TLS", "").lower() == "true" and named.get("KEYSTORE_PATH"):
        own = [names[0], *pki.LOOPBACK]
        host_files.write_own_keystore(manager, named["KEYSTORE_PATH"], authority, own, passwords.keystore, now)


def _ports(options: Options) -> tuple[int, int]:
    """Return the plain and the TLS port, both held while the other is looked for, so that they differ."""
    with socket.socket() as first, socket.socket() as second:
        return _bound(first, options.plain_port), _bound(second, options.tls_port)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as holder:
        return _bound(holder, 0)


def _bound(holder: socket.socket, wanted: int) -> int:
    """Bind to the wanted port, or to a free one below those that the system hands out by itself.

    A server that restarts needs its port again: nobody who asks the system for any port can have got it meanwhile.
    """
    while True:
        port = wanted or _OWN_PORTS[next(turns) % len(_OWN_PORTS)]
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            if wanted:
                raise
            continue
        return port
