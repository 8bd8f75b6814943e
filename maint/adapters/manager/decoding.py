"""Decode the manager's JSON into records, leniently: missing or new fields never stop a read (M2.3, M10.3)."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import cast

from maint.model.formatting import show_time
from maint.model.json import Json, objects_of
from maint.model.manager import Cluster, Command, Host, Instance, License, Role, Service, Setting
from maint.model.secret import scrub

Fields = Mapping[str, Json]

_NUMBER = re.compile(r"(-?[0-9]{1,19})(\.0*)?")
_NO_ID = -1  # negative: not pollable (M4.1)


def fields(value: Json | Fields) -> Fields:
    """Return an object's fields; none for anything that is not an object."""
    return value if isinstance(value, Mapping) else {}


def items(value: Json) -> list[Fields] | None:
    """Return the objects of `{"items": […]}` or of a bare list, None for others; no value is an empty list (M2.3)."""
    listed = value
    if isinstance(value, Mapping):
        empty = not value or ("items" in value and value["items"] is None)
        listed = [] if empty else value.get("items")
    if not isinstance(listed, list):
        return None
    found = [cast(Fields, item) for item in listed if isinstance(item, Mapping)]
    return found if found or not listed else None


def inner(source: Fields, name: str) -> list[Fields]:
    """Return the objects of a list inside another object; none where it is missing."""
    return items(source.get(name)) or []


def text(source: Fields, name: str) -> str:
    """Return a field as text; '' where it is missing."""
    value = source.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def number(source: Fields, name: str) -> int | None:
    """Return a field as an integer, `338.0` and `"338"` included (M4.2)."""
    value = source.get(name)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        return int(found[1]) if found else None
    return None if isinstance(value, bool) or not isinstance(value, int) else value


def flag(source: Fields, name: str) -> bool | None:
    """Return a field as a truth value; None where it is missing or something else."""
    value = source.get(name)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value if isinstance(value, bool) else None


def command(value: Json | Fields) -> Command:
    """Return a command, its children included (M4.1)."""
    source = fields(value)
    found, success, active = number(source, "id"), flag(source, "success"), flag(source, "active")
    if active is None:
        active = success is None and not text(source, "endTime")
    return Command(
        id=_NO_ID if found is None else found,
        name=text(source, "name"),
        active=active,
        success=success,
        message=scrub(text(source, "resultMessage")),
        children=tuple(command(child) for child in inner(source, "children")),
    )


def refused_command(name: str, message: str) -> Command:
    """Return a command that was not even begun, for the `errors` of a bulk answer (M5)."""
    return Command(id=_NO_ID, name=name, active=False, success=False, message=scrub(message))


def cluster(source: Fields) -> Cluster:
    """Return a cluster; before API 6 its name was its display name (M5)."""
    refs = objects_of(source.get("dataContextRefs"))
    return Cluster(
        name=text(source, "name"),
        display_name=text(source, "displayName") or text(source, "name"),
        type=text(source, "clusterType"),
        version=text(source, "version"),
        data_contexts=tuple(filter(None, (text(ref, "name") or text(ref, "uuid") for ref in refs))),
        uuid=text(source, "uuid"),
    )


def service(source: Fields) -> Service:
    """Return a service; a state that it does not give is UNKNOWN."""
    state, stale = text(source, "serviceState") or "UNKNOWN", text(source, "configStalenessStatus")
    return Service(text(source, "name"), text(source, "type"), state, stale)


def role(source: Fields) -> Role:
    """Return a role; a state that it does not give is UNKNOWN."""
    return Role(
        name=text(source, "name"),
        type=text(source, "type"),
        state=text(source, "roleState") or "UNKNOWN",
        host_id=text(fields(source.get("hostRef")), "hostId"),
        maintenance=flag(source, "maintenanceMode") is True,
    )


def setting(source: Fields) -> Setting:
    """Return a setting as the full view of a configuration has it (M19)."""

    def given(name: str) -> str | None:
        return None if source.get(name) is None else text(source, name)

    return Setting(text(source, "name"), given("value"), given("default"), flag(source, "sensitive"))


def moment(date: str) -> str:
    """Return a time of HTTP as files of ours have it; empty where it is not one."""
    try:
        return show_time(parsedate_to_datetime(date))
    except (ValueError, OverflowError):
        return ""


def host(source: Fields, listed: str = "") -> Host:
    """Return a host, its cluster where it has one, and whose roles it has; `listed` is the server's own time."""
    roles = inner(source, "roleRefs")
    return Host(
        host_id=text(source, "hostId"),
        hostname=text(source, "hostname"),
        address=text(source, "ipAddress"),
        cluster=text(fields(source.get("clusterRef")), "clusterName") or None,
        heard=text(source, "lastHeartbeat"),
        listed=listed,
        owners=sorted({text(role, "clusterName") or "the management service" for role in roles}),
    )


def license(source: Fields) -> License:  # noqa: A001  # the API's own noun
    """Return a licence (M9)."""
    return License(*(text(source, key) for key in ("owner", "uuid", "expiration", "startDate", "deactivationDate")))


def instance(source: Fields) -> Instance:
    """Return one server of the manager (M10.5)."""
    return Instance(text(source, "name"), text(source, "ipAddress"))


def settings(listed: list[Fields]) -> dict[str, str]:
    """Return name and value of each setting that has one."""
    return {text(item, "name"): text(item, "value") for item in listed if item.get("value") is not None}
