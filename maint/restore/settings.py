"""The settings that a snapshot holds for one place of the manager: what a partial restore puts back (M7.2, M19)."""

from collections.abc import Mapping

from maint.deployment.document import Document, items_of, text_of
from maint.deployment.secrets import hidden, sensitive
from maint.errors import Refused
from maint.model.manager import Place, Setting
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots.parts import read_deployment


def settings_in(sight: Sight, snapshot: Snapshot, place: Place) -> Mapping[str, Setting]:
    """Return by name what a snapshot has set on a place.

    Raises:
        Refused: the snapshot has no such place, or a secret of it reads REDACTED.
    """
    holder = _holder(read_deployment(sight, snapshot), place)
    if holder is None:
        hint = "`maint backup show` says what it holds; names may have changed since"
        raise Refused(f"snapshot {snapshot.id} has no {place}", hint=hint)
    found = {}
    for item in items_of(holder.get("managerSettings" if place == Place() else "config")):
        name, value = text_of(item, "name"), item.get("value")
        if hidden(name, value, item.get("sensitive")):
            hint = "`maint backup list` shows the restorable ones"
            raise Refused(f"{name} of {place} is hidden in snapshot {snapshot.id}: it is never written", hint=hint)
        flagged = sensitive(name, item.get("sensitive"))
        found[name] = Setting(name, None if value is None else str(value), None, flagged)
    return found


def groups_in(sight: Sight, snapshot: Snapshot, service: Place) -> list[str]:
    """Return the role config groups that a snapshot has of a service."""
    found = _service(read_deployment(sight, snapshot), service)
    return [text_of(one, "name") for one in items_of(found.get("roleConfigGroups"))] if found else []


def _holder(document: Document, place: Place) -> Document | None:
    if place == Place():
        return document
    if place.host:
        known = items_of(document.get("hosts"))
        return next((one for one in known if place.host in (one.get("hostId"), one.get("hostname"))), None)
    service = _service(document, place)
    if service is None or not (place.role or place.role_group):
        return service
    listed, name = ("roles", place.role) if place.role else ("roleConfigGroups", place.role_group)
    return next((one for one in items_of(service.get(listed)) if one.get("name") == name), None)


def _service(document: Document, place: Place) -> Document | None:
    if not place.cluster:
        management = document.get("managementService")
        return management if isinstance(management, dict) and management.get("name") == place.service else None
    for cluster in items_of(document.get("clusters")):
        if cluster.get("name") == place.cluster:
            return next((one for one in items_of(cluster.get("services")) if one.get("name") == place.service), None)
    return None
