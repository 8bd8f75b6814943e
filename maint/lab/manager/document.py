"""Deployment documents as the server keeps them: read exactly, looked into, and shown hidden or in an older shape."""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

# Any: documents of releases nobody has seen yet are kept whole, whatever they hold.
Doc: TypeAlias = dict[str, Any]


class ExactFloat(float):
    """A number with a fraction that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "ExactFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number


def spelled(text: str | bytes) -> Any:  # Any: what JSON can spell
    """Return what a JSON text spells, numbers exact (M7.3); ValueError: it is none, or it cannot be printed again."""
    try:
        value = json.loads(text, parse_float=ExactFloat)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no half of a character, no NaN
        deep = _is_deeper(value, _DEEPEST)
    except RecursionError:
        deep = True
    if deep:
        raise ValueError("it is nested too deeply")
    return value


_DEEPEST = 100  # levels: what goes through documents calls itself at each of them


def _is_deeper(value: Any, levels: int) -> bool:  # Any: what JSON can spell
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not levels or any(_is_deeper(member, levels - 1) for member in members)


def parse(text: str | bytes) -> Doc:
    """Return the object that a JSON text spells; ValueError where it is not one."""
    value = spelled(text)
    if not isinstance(value, dict):
        raise ValueError("the top level is not an object")
    return value


def read(path: Path) -> Doc:
    """Return the document in a file."""
    return parse(path.read_bytes())


def items(node: Doc | None) -> list[Doc]:
    """Return the entries of a `{"items" : [...]}` list, [] where it is missing."""
    return list((node or {}).get("items") or [])


def drop(doc: Doc, name: str, gone: Doc) -> None:
    """Take one entry out of a list of the document."""
    doc[name] = {"items": [each for each in items(doc.get(name)) if each is not gone]}


def clusters(doc: Doc) -> list[Doc]:
    """Return the clusters."""
    return list(doc.get("clusters") or [])


def services(cluster: Doc) -> list[Doc]:
    """Return the services of a cluster."""
    return list(cluster.get("services") or [])


def roles(service: Doc) -> list[Doc]:
    """Return the roles of a service."""
    return list(service.get("roles") or [])


def hosts(doc: Doc) -> list[Doc]:
    """Return the hosts."""
    return list(doc.get("hosts") or [])


def users(doc: Doc) -> list[Doc]:
    """Return the accounts."""
    return list(doc.get("users") or [])


def settings(doc: Doc) -> dict[str, str]:
    """Return the manager's own settings by name."""
    return {str(item.get("name")): str(item.get("value", "")) for item in items(doc.get("managerSettings"))}


def release(doc: Doc) -> str:
    """Return the release that wrote the document, "" where it does not say."""
    return str((doc.get("versionInfo") or {}).get("version", ""))


def all_services(doc: Doc) -> Iterator[tuple[Doc | None, Doc]]:
    """Yield every service with its cluster; the management service comes last, with None."""
    for cluster in clusters(doc):
        for service in services(cluster):
            yield cluster, service
    if doc.get("managementService"):
        yield None, doc["managementService"]


# First release that announces an API version; the rows from 5.11 on are those of M1.
_ANNOUNCES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((4, 0), 1), ((4, 1), 2), ((4, 5), 3), ((4, 6), 4), ((4, 7), 5), ((5, 0), 6), ((5, 1), 7), ((5, 2), 8),
    ((5, 3), 9), ((5, 4), 10), ((5, 5), 11), ((5, 7), 12), ((5, 8), 13), ((5, 9), 14), ((5, 10), 15), ((5, 11), 16),
    ((5, 12), 17), ((5, 13), 18), ((5, 14), 19), ((6, 0, 0), 30), ((6, 1, 0), 31), ((6, 2, 0), 32), ((6, 3, 0), 33),
    ((7, 0, 3), 40), ((7, 1, 1), 41), ((7, 2, 6), 43), ((7, 4, 3), 44), ((7, 5, 4), 45), ((7, 6, 5), 49),
    ((7, 7, 0), 51), ((7, 11, 0), 54), ((7, 13, 0), 57),
)  # fmt: skip
DEFAULT_RELEASE = "7.6.5"


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a release such as 7.6.5."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def major(text: str) -> int:
    """Return the first number of a release; 7 where there is none."""
    return (numbers(text) or (7,))[0]


def announced(text: str) -> int:
    """Return N of the `vN` that a release announces."""
    wanted = numbers(text) or numbers(DEFAULT_RELEASE)
    known = [api for first, api in _ANNOUNCES if first <= wanted]
    return known[-1] if known else 1


def recorded_at(doc: Doc) -> int:
    """Return the API version at which a document was most likely read, judged by its shape."""
    highest = announced(release(doc))
    if any("authRoles" in user for user in users(doc)) or "authRoles" in doc:
        return max(highest, 32)
    if "allHostsConfig" not in doc:
        return min(highest, 2)
    if not _flagged(doc):
        return min(highest, 13)
    if any("uuid" in cluster for cluster in clusters(doc)) or not clusters(doc):
        return min(highest, 19)
    return min(highest, 14)


def _flagged(doc: Doc) -> bool:
    listed = (doc.get("managerSettings") or {}).get("items") or []
    return any("sensitive" in item for item in listed)


_LOWER_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-f]{4})")


def quote(text: str) -> str:
    """Return a string in quotes; control characters get upper-case hex digits."""
    quoted = encode_basestring(text)
    if "\\u" in quoted:
        return _LOWER_ESCAPE.sub(lambda found: f"{found[1]}\\u{found[2].upper()}", quoted)
    return quoted


_name = lru_cache(maxsize=1024)(quote)  # a document repeats few of them very often


def dumps(value: Any) -> str:  # Any: whatever JSON can spell
    """Return the text: two blanks a level, blanks on both sides of the colon, no line feed at the end."""
    parts: list[str] = []
    _write(value, "", parts.append)
    return "".join(parts)


def rebuilt(node: Any, change: Callable[[Doc], Doc]) -> Any:  # Any: whatever JSON can spell, and the same back
    """Return a copy in which every object, from the inside out, is what `change` makes of it."""
    if isinstance(node, list | tuple):
        return [rebuilt(member, change) for member in node]
    if not isinstance(node, dict):
        return node
    return change({name: rebuilt(member, change) for name, member in node.items()})


def any_object(node: Any, test: Callable[[Doc], bool]) -> bool:  # Any: whatever JSON can spell
    """Return whether an object passes a test, at any depth."""
    if isinstance(node, list):
        return any(any_object(member, test) for member in node)
    return isinstance(node, dict) and (test(node) or any(any_object(member, test) for member in node.values()))


# What fields hold wherever they stand, in a deployment and in the bodies of calls.
_OBJECTS = frozenset({
    "managerSettings", "allHostsConfig", "hostTemplates", "dataContexts", "versionInfo", "managementService", "config",
    "hostRef", "roleConfigGroupRef", "serviceRef", "clusterRef", "baseRole",
})  # fmt: skip
_LISTS = frozenset({
    "clusters", "hosts", "users", "peers", "authRoles", "externalUserMappings", "services", "roleConfigGroups",
    "parcels", "items", "tags", "roleConfigGroupRefs", "dataContextRefs",
})  # fmt: skip
_TEXTS = frozenset({
    "name", "hostId", "hostname", "ipAddress", "type", "roleType", "displayName", "version", "value", "roleName",
    "clusterName", "serviceName", "roleConfigGroupName", "pwHash", "stage", "product", "rackId",
})  # fmt: skip


def misshapen(node: Doc, where: str) -> Iterator[str]:
    """Yield what is of another kind than its field's, at any depth."""
    for name, value in node.items():
        if name in _OBJECTS and value is not None and not isinstance(value, dict):
            yield f"{name} of {where} is not an object."
        if name in _LISTS and value is not None and not is_objects(value):
            yield f"{name} of {where} is not a list of objects."
        if name in _TEXTS and isinstance(value, dict | list):
            yield f"{name} of {where} is not a string."
        for member in value if isinstance(value, list) else [value]:
            if isinstance(member, dict):
                yield from misshapen(member, name)


def is_objects(value: object) -> bool:
    """Return whether a value is a list of objects."""
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def without_nulls(value: Any) -> Any:  # Any: whatever JSON can spell, and the same back
    """Return a value without the members that are null: absent = null."""
    return rebuilt(value, lambda node: {name: member for name, member in node.items() if member is not None})


def _write(value: Any, indent: str, out: Callable[[str], None]) -> None:  # Any: whatever JSON can spell
    if isinstance(value, str):
        out(quote(value))
    elif isinstance(value, dict):
        _write_object(value, indent, out)
    elif isinstance(value, list | tuple):
        _write_list(value, indent, out)
    elif isinstance(value, bool) or value is None:
        out({True: "true", False: "false", None: "null"}[value])
    else:
        out(value.text if isinstance(value, ExactFloat) else repr(value))


def _write_object(value: dict[str, Any], indent: str, out: Callable[[str], None]) -> None:
    inner, lead = indent + "  ", "{\n"
    for name, member in value.items():
        if type(member) is str:  # which most are
            out(f"{lead}{inner}{_name(name)} : {quote(member)}")
        else:
            out(f"{lead}{inner}{_name(name)} : ")
            _write(member, inner, out)
        lead = ",\n"
    out("{ }" if lead == "{\n" else f"\n{indent}}}")


def _write_list(value: list[Any] | tuple[Any, ...], indent: str, out: Callable[[str], None]) -> None:
    if not value:
        out("[ ]")
        return
    lead = "[ "
    for member in value:
        out(lead)
        _write(member, indent, out)
        lead = ", "
    out(" ]")


MARKER = "REDACTED"
# Documents of API versions below 14 carry no flags; the server knows its secrets all the same.
_SECRET_NAME = re.compile(r"password|passwd|secret|_pw$|credential", re.IGNORECASE)
# Fields by the API version that brought them, as the published client and recordings have it (M7.2): of the top level
# of a deployment, and wherever else they stand, in deployments and other answers.
_SINCE = {
    "allHostsConfig": 3, "peers": 3, "hostTemplates": 3,
    "authRoles": 32, "externalUserMappings": 32, "dataContexts": 32,
}  # fmt: skip
_SINCE_WITHIN = {
    "maintenanceMode": 2, "maintenanceOwners": 2, "commissionState": 2, "roleConfigGroups": 3, "roleConfigGroupRef": 3,
    "numCores": 4, "totalPhysMemBytes": 4, "parcels": 4, "fullVersion": 6, "replicationSchedules": 6,
    "snapshotPolicies": 6, "configStalenessStatus": 6, "clientConfigStalenessStatus": 6, "numPhysicalCores": 9,
    "clusterUrl": 10, "hostsUrl": 11, "roleInstancesUrl": 11, "entityStatus": 11, "canRetry": 11, "suppressed": 11,
    "clouderaManagerCreatedUser": 11, "sensitive": 14, "dataContextRefs": 31, "clusterType": 32,
    "distribution": 40, "tags": 41, "createUserWithAdminRole": 44,
}  # fmt: skip
# What references carry besides the name, likewise.
_REFS = {"hostRef": ("hostname", 31), "clusterRef": ("displayName", 30)}
_ACCOUNT_SECRETS = ("pwHash", "pwSalt", "pwLogin")


class Hide(msgspec.Struct, frozen=True):
    """What is hidden."""

    values: bool = False  # of sensitive items
    accounts: bool = False  # pwHash, pwSalt and pwLogin
    peers: bool = False  # their passwords
    navigator: bool = False  # sensitive items of Navigator roles, for cluster administrators (M2.2)


def hidden(doc: Doc, hide: Hide) -> Doc:
    """Return a document without what is to be hidden; the original stays as it is."""
    copy: Doc = rebuilt(doc, _hide_item) if hide.values else dict(doc)
    if hide.accounts:
        copy["users"] = [_without_secrets(user) for user in copy.get("users") or []]
    if hide.peers and copy.get("peers"):
        copy["peers"] = [{**peer, "password": MARKER} if "password" in peer else peer for peer in copy["peers"]]
    if hide.navigator and copy.get("managementService"):
        copy["managementService"] = _hide_navigator(copy["managementService"])
    return copy


def as_of(doc: Doc, api: int, *, sent: bool = False) -> Doc:
    """Return a document as an API version knows it; where it is `sent` by that version, nothing is made up for it."""
    kept: Doc = {name: value for name, value in doc.items() if _SINCE.get(name, 1) <= api}
    if api < 6 and not sent:
        kept = _with_shown_names(kept)
    if api < 3 and not sent:
        kept = rebuilt(kept, _with_type_configs)
    copy: Doc = answered(kept, api)
    if api < 15 and "clusters" in copy:
        copy["clusters"] = [cluster_as_of(cluster, api) for cluster in clusters(copy)]
    if api < 11 and "peers" in copy:
        copy["peers"] = [{name: part for name, part in peer.items() if name != "type"} for peer in copy["peers"] or []]
    if api < 32 and "users" in copy:
        copy["users"] = [_account_as_of(user, api, sent=sent) for user in users(copy)]
    return copy


def answered(value: Any, api: int) -> Any:  # Any: whatever JSON can spell, and the same back
    """Return what a call answers without the fields that its API version does not know."""
    if api >= max(_SINCE_WITHIN.values()):
        return value
    return rebuilt(value, lambda node: _without_newer(node, api))


def _without_newer(node: Doc, api: int) -> Doc:
    kept = {name: part for name, part in node.items() if _SINCE_WITHIN.get(name, 1) <= api}
    for name, (field, since) in _REFS.items():
        if api < since and isinstance(ref := kept.get(name), dict) and len(ref) > 1:
            kept[name] = {key: part for key, part in ref.items() if key != field}
    return kept


def _with_type_configs(node: Doc) -> Doc:
    # Before there were groups, a service had the settings of each role type (recordings).
    if not isinstance(groups := node.get("roleConfigGroups"), list):
        return node
    bases = sorted((each for each in groups if each.get("base")), key=lambda each: str(each.get("roleType")))
    listed = [{"roleType": each.get("roleType"), "items": items(each.get("config"))} for each in bases]
    own = {"roleTypeConfigs": [each for each in listed if each["items"]], "items": items(node.get("config"))}
    return {**node, "config": own}


def _with_shown_names(doc: Doc) -> Doc:
    # Before a cluster had two names, the one it had was the one that is shown (M5).
    shown = {each.get("name"): each.get("displayName") or each.get("name") for each in clusters(doc)}

    def renamed(node: Doc) -> Doc:
        return {**node, "clusterName": shown[node["clusterName"]]} if node.get("clusterName") in shown else node

    copy: Doc = rebuilt(doc, renamed)
    for each in clusters(copy):
        each["name"] = shown[each.get("name")]
    return copy


def cluster_as_of(cluster: Doc, api: int) -> Doc:
    """Return a cluster without the names and numbers that an API version has not for it."""
    since = {"displayName": 6, "uuid": 15}  # of clusters alone
    return {name: part for name, part in cluster.items() if since.get(name, 1) <= api}


def _account_as_of(user: Doc, api: int, *, sent: bool) -> Doc:
    # Roles have no name before v32, and are nothing but names before v30.
    if "authRoles" not in user:
        return user
    refs = list(user["authRoles"] or [])
    if api >= 30:
        return {**user, "authRoles": [{name: ref[name] for name in ref if name != "name"} for ref in refs]}
    names = [str(ref.get("name")) for ref in refs if str(ref.get("name", "")).startswith("ROLE_")]
    made = {} if sent else {"roles": names}
    return {name: value for name, value in user.items() if name != "authRoles"} | made


def hide_items(listed: list[Doc]) -> list[Doc]:
    """Return config items with the values of the sensitive ones hidden."""
    return [_hide_item(item) for item in listed]


def is_secret(node: Doc) -> bool:
    """Return whether an object is a config item that holds a secret: by its flag, else by its name."""
    if "value" not in node or "name" not in node:
        return False
    if "sensitive" in node:
        return node["sensitive"] is True
    return bool(_SECRET_NAME.search(str(node["name"])))


def holds_marker(node: Any) -> bool:  # Any: any part of a document
    """Return whether a sensitive item's value is the word REDACTED anywhere."""
    return any_object(node, lambda item: item.get("sensitive") is True and item.get("value") == MARKER)


def _hide_item(item: Doc) -> Doc:
    return {**item, "value": MARKER} if is_secret(item) else item


def _without_secrets(user: Doc) -> Doc:
    return {name: value for name, value in user.items() if name not in _ACCOUNT_SECRETS}


def _hide_navigator(service: Doc) -> Doc:
    copy = dict(service)
    for part, kind in (("roles", "type"), ("roleConfigGroups", "roleType")):
        if part in copy:
            copy[part] = [
                rebuilt(entry, _hide_item) if str(entry.get(kind, "")).startswith("NAVIGATOR") else entry
                for entry in copy[part]
            ]
    return copy
