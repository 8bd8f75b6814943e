"""Which virtual clusters a lab has and has lost: losing them all, and what `lab status` and the config say of both."""

import json
from pathlib import Path

from msgspec.structs import asdict

from maint.files import write_whole
from maint.lab import pki
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster, Identity
from maint.lab.virtual_clusters.create import FACTS
from maint.lab.virtual_clusters.gateway import User
from maint.lab.virtual_clusters.service import ACCESS_KEY, Service
from maint.lab.virtual_clusters.utility import SCRIPT

_LOST = "lost.json"


def lose(service: Service) -> None:
    """Take all virtual clusters away. A new one of the same name gets a new address, which only its maker learns."""
    identities = [cluster.identity for cluster in service.clusters()]
    before = {identity.name for identity in identities}
    kept = [identity for identity in lost(service) if identity.name not in before]
    write_whole(service.folder / _LOST, json.dumps([asdict(one) for one in (*kept, *identities)]).encode(), 0o600)
    for identity in identities:
        service.delete(identity.name)


def lost(service: Service) -> list[Identity]:
    """Return what was lost, as the configuration still knows it."""
    path = service.folder / _LOST
    return [Identity(**one) for one in json.loads(path.read_bytes())] if path.exists() else []


def found_again(folder: Path) -> None:
    """Let the configuration know where those are now that were made again; done when a lab comes up."""
    if not (folder / _LOST).exists():
        return
    there = {entry["name"] for entry in json.loads((folder / FACTS).read_bytes())["clusters"]}
    left = [one for one in json.loads((folder / _LOST).read_bytes()) if one["name"] not in there]
    write_whole(folder / _LOST, json.dumps(left).encode(), 0o600)


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
        "access_key_file": str(service.folder / ACCESS_KEY),
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


def _user(service: Service, person: User) -> Doc:
    keytab = service.folder / "keytabs" / f"{person.name}.keytab"
    return {"name": person.name, "principal": person.principal, "keytab": f"file:{keytab}"}


def _first(service: Service) -> User:
    return next(iter(service.people))


def _connect_to(service: Service) -> str:
    return f"{pki.LOOPBACK[1]}:{service.port}"
