"""What scripts and the toolkit's configuration are told of a lab's virtual clusters."""

from pathlib import Path

from maint.lab import pki
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster, Identity
from maint.lab.virtual_clusters.lose import lost
from maint.lab.virtual_clusters.service import Service
from maint.lab.virtual_clusters.users import Person
from maint.lab.virtual_clusters.utility import SCRIPT


def status(service: Service, ca: Path) -> list[Doc]:
    """Return the virtual clusters as `lab status` tells them."""
    return [_status(service, cluster, ca) for cluster in service.clusters()]


def config(service: Service, ca: Path) -> list[Doc]:
    """Return the virtual clusters as the config has them; those that were lost under the address that they had."""
    gone = lost(service)
    names = {identity.name for identity in gone}
    there = [cluster.identity for cluster in service.clusters() if cluster.identity.name not in names]
    return [_config(service, identity, ca) for identity in (*there, *gone)]


def _status(service: Service, cluster: Cluster, ca: Path) -> Doc:
    base_url, auth_url = service.addresses(cluster)
    user = _first(service)
    return {
        "name": cluster.identity.name,
        "base_url": base_url,
        "auth_url": auth_url,
        "username": user.name,
        "password_file": str(service.folder / "passwords" / user.name),
        "ca": str(ca),
        "cdp_endpoint": f"https://{pki.LOOPBACK[1]}:{service.port}",
        "connect_to": _connect_to(service),
    }


def _config(service: Service, identity: Identity, ca: Path) -> Doc:
    user, (certificate, key) = _first(service), service.tls_pair
    people = [person for person in service.people if person.roles and person.principal]
    return {
        "name": identity.name,
        "base_url": f"https://{identity.host}:{service.port}/dex/api/v1",
        "auth_url": f"https://{identity.gateway}:{service.port}",
        "username": user.name,
        "password": f"file:{service.folder / 'passwords' / user.name}",
        "ca": str(ca),
        "connect_to": _connect_to(service),
        "utility": SCRIPT,
        "tls": {"cert": str(certificate), "key": f"file:{key}"},
        "users": [_user(service, person) for person in people],
    }


def _user(service: Service, person: Person) -> Doc:
    keytab = service.folder / "keytabs" / f"{person.name}.keytab"
    return {"name": person.name, "principal": person.principal, "keytab": f"file:{keytab}"}


def _first(service: Service) -> Person:
    return next(iter(service.people))


def _connect_to(service: Service) -> str:
    return f"{pki.LOOPBACK[1]}:{service.port}"
