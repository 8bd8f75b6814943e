"""Recorded and invented deployments, as bytes."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "maint" / "lab" / "data" / "deployment-example.json"
DEPLOYMENTS = [*sorted((ROOT / "tests" / "data" / "recordings").glob("deployment-*.json")), EXAMPLE]


def number(path: Path) -> str:
    """Return what tells a deployment from the others: `01` … `21` or `example`."""
    found = re.match(r"deployment-(\d+|example)", path.name)
    assert found
    return found.group(1)


def recording(wanted: str) -> bytes:
    """Return one deployment by its number."""
    return next(path for path in DEPLOYMENTS if number(path) == wanted).read_bytes()


def md5(text: str) -> str:
    """Return what generated role names end in."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def all_roles(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every role of a document, those of the management service too."""
    services = [service for cluster in document["clusters"] for service in cluster.get("services", [])]
    services += [document["managementService"]] if "managementService" in document else []
    return [role for service in services for role in service.get("roles", [])]


def plain(content: bytes) -> dict[str, Any]:
    """Return a document as plain data."""
    value: dict[str, Any] = json.loads(content)
    return value
