"""Deployment documents as the server keeps them: plain JSON, read exactly, and the ways to look into them."""

import json
from collections.abc import Iterator
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
    """Return the object that a JSON text spells; integers of any size stay exact (contract section 7.3).

    Raises:
        ValueError: it is no JSON, or no object.
    """
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
