"""Deployment documents as the server keeps them: plain JSON, read exactly, and the ways to look into them."""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, TypeAlias

# Any: documents of releases nobody has seen yet are kept whole, whatever they hold.
Doc: TypeAlias = dict[str, Any]


class ExactFloat(float):
    """A number with a fraction that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "ExactFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse(text: str | bytes) -> Doc:
    """Return the object that a JSON text spells, integers of any size exact (M7.3); ValueError where it is not one."""
    value = json.loads(text, parse_float=ExactFloat)
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
