"""Lay a new service out in a lab's folder: ids, users, keytabs, the default virtual cluster."""

import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from maint.lab.files import write_whole
from maint.lab.manager.document import Doc, clusters, items, roles, services
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import example, keytab
from maint.lab.virtual_clusters.service import FACTS, check_name, entry_of, spelled
from maint.lab.virtual_clusters.users import Person

_KEY = 32


def domain_of(deployment: Doc) -> str:
    """Return the domain of the data services that a deployment runs, "" where it runs none."""
    for service in (service for cluster in clusters(deployment) for service in services(cluster)):
        if service.get("type") == "ECS":
            groups = service.get("roleConfigGroups") or []
            listed = [service, *groups, *roles(service)]
            told = [item for node in listed for item in items(_config(node)) if item.get("name") == "app_domain"]
            domain = str(told[0].get("value") or "") if told else ""
            return domain if domain.startswith("apps.") else f"apps.{domain or 'example.internal'}"
    return ""


def plan(folder: Path, domain: str, port: int, switches: Switches, further: Sequence[str]) -> None:
    """Write down a new service.

    Args:
        domain: the domain below which it has its names.
        further: names of virtual clusters besides the default one.

    Raises:
        BadName: one of them is no name, or given twice.
    """
    known = example.read()["virtualCluster"]
    for number, name in enumerate(further):
        check_name(name, [str(known["name"]), *further[:number]])
    people = _people(folder)
    ready = switches["vc-initialised"] == "yes"
    due = time.time() + switches.number("vc-appears-seconds")
    first = entry_of(str(known["name"]), loaded=True, initialised=ready, id_=str(known["id"]), due=due)
    facts: Doc = {
        "id": known["serviceInstance"],
        "domain": domain,
        "port": port,
        "secret": secrets.token_hex(_KEY),
        "environment": f"crn:cdp:environments:us-west-1:lab:environment:{secrets.token_hex(8)}",
        "clusters": [first, *(entry_of(name, loaded=False, initialised=ready) for name in further)],
        "people": [spelled(person) for person in people],
    }
    write_whole(folder / FACTS, json.dumps(facts, indent=1).encode(), 0o600)


def _people(folder: Path) -> list[Person]:
    """Return the users of a lab, with and without a role; their passwords and keytabs are written."""
    found = [Person(str(user["name"]), "", ["DEUser"], str(user["principal"])) for user in example.read()["users"]]
    realm = found[0].principal.partition("@")[2]
    found += [Person("guest_user", "", [], f"guest_user@{realm}"), Person("admin", "", ["Administrator"], local=True)]
    for person in found:
        person.password = secrets.token_urlsafe(18)
        write_whole(folder / "passwords" / person.name, person.password.encode(), 0o600)
        if person.principal:
            made = keytab.make(person.principal, secrets.token_bytes(_KEY), int(time.time()))
            write_whole(folder / "keytabs" / f"{person.name}.keytab", made, 0o600)
    return found


def _config(node: Doc) -> Doc:
    found: Doc = node.get("config") or {}
    return found
