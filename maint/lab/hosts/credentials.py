"""What a host of a cluster with Kerberos and TLS holds: authorities that it trusts, keytabs of its roles and users."""

from collections.abc import Iterator, Mapping

from maint.lab.hosts.kdc import Realm
from maint.lab.hosts.machine import TRUSTED, Machine
from maint.lab.manager.document import Doc, clusters, hosts, roles, services

_PROCESSES = "/var/run/cloudera-scm-agent/process"
_USERS = "/opt/cloudera/cde"
_FIRST = 101  # the number of the first process folder


def furnish(machines: Mapping[str, Machine], blueprint: Doc, realm: Realm, authorities: bytes) -> None:
    """Write them on every host.

    Args:
        machines: the hosts by name.
        blueprint: the deployment, which names the roles of each host.
        realm: makes the keytabs.
        authorities: PEM certificates of the authorities that all hosts trust.
    """
    for name, machine in machines.items():
        machine.files.write(TRUSTED, authorities, 0o444)
        full = machine.fact("fqdn")
        domain = (full.partition(".")[2] or "example.internal").upper()
        for number, (service, kind) in enumerate(_roles(blueprint, name), _FIRST):
            path = f"{_PROCESSES}/{number}-{service}-{kind}/{service}.keytab"
            machine.files.write(path, realm.keytab(f"{service}/{full}@{domain}"), 0o600, service, service)
        if any(kind == "ECS_SERVER" for _, kind in _roles(blueprint, name, containers=True)):
            machine.files.write(f"{_USERS}/cde.keytab", realm.keytab(f"cde@{domain}"), 0o600)


def _roles(blueprint: Doc, name: str, *, containers: bool = False) -> Iterator[tuple[str, str]]:
    """Yield service and type of each role on a host: those of base clusters, or those of the data services."""
    ids = {host.get("hostId") for host in hosts(blueprint) if host.get("hostname") == name}
    for cluster in clusters(blueprint):
        if str(cluster.get("version", "")).startswith("EXPERIENCE") is not containers:
            continue
        for service in services(cluster):
            for role in roles(service):
                if (role.get("hostRef") or {}).get("hostId") in ids and role.get("type") != "GATEWAY":
                    yield str(service.get("type", "")).lower(), str(role.get("type"))
