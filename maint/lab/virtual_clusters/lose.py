"""Virtual clusters that were lost: gone with all they held, while the configuration still has their old addresses."""

import json
from pathlib import Path

from maint.lab.files import write_whole
from maint.lab.virtual_clusters.cluster import Identity
from maint.lab.virtual_clusters.service import FACTS, Service

_LOST = "lost.json"


def lose(service: Service) -> None:
    """Take all virtual clusters away. A new one of the same name gets a new address, which only its maker learns."""
    identities = [cluster.identity for cluster in service.clusters()]
    before = {identity.name for identity in identities}
    kept = [identity for identity in lost(service) if identity.name not in before]
    write_whole(service.folder / _LOST, json.dumps([_spelled(one) for one in (*kept, *identities)]).encode(), 0o600)
    for identity in identities:
        service.delete(identity.name)


def lost(service: Service) -> list[Identity]:
    """Return what was lost, as the configuration still knows it."""
    path = service.folder / _LOST
    return [Identity(**one) for one in json.loads(path.read_bytes())] if path.exists() else []


def found_again(folder: Path) -> None:
    """Let the configuration know where those are now that were made again; done when a lab comes up.

    Args:
        folder: the service's.
    """
    if not (folder / _LOST).exists():
        return
    there = {entry["name"] for entry in json.loads((folder / FACTS).read_bytes())["clusters"]}
    left = [one for one in json.loads((folder / _LOST).read_bytes()) if one["name"] not in there]
    write_whole(folder / _LOST, json.dumps(left).encode(), 0o600)


def _spelled(identity: Identity) -> dict[str, str]:
    return {"name": identity.name, "id": identity.id, "service": identity.service, "domain": identity.domain}
