"""Recorded and invented deployments, and ways to spoil them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "maint" / "lab" / "data" / "deployment-example.json"
DEPLOYMENTS = [*sorted((ROOT / "tests" / "data" / "recordings").glob("deployment-*.json")), EXAMPLE]

# Passwords of `admin` in the recordings, by the number of the recording.
PASSWORDS = {
    "01": "alder-Admin1", "02": "alder-Admin1", "03": "birch-Admin2", "04": "cedar-Admin3", "05": "walnut-Admin4",
    "06": "walnut-Admin4", "07": "sumac-Admin5", "08": "fern-Admin6", "09": "gorse-Admin7", "10": "hazel-Admin8",
    "11": "iris-Admin9", "12": "juniper-Admin10", "13": "kale-Admin11", "14": "tansy-Admin12", "15": "maple-Admin13",
    "16": "nettle-Admin14", "17": "poplar-Admin16", "18": "holly-Admin17", "19": "sage-Admin18", "20": "thyme-Admin19",
    "21": "willow-Admin20", "example": "admin",
}  # fmt: skip


def number(path: Path) -> str:
    """Return what tells a deployment from the others: `01` … `21` or `example`."""
    found = re.match(r"deployment-(\d+|example)", path.name)
    assert found
    return found.group(1)


@pytest.fixture(params=DEPLOYMENTS, ids=number)
def deployment(request: pytest.FixtureRequest) -> Path:
    """Each deployment in turn."""
    path: Path = request.param
    return path


@pytest.fixture
def recording() -> Callable[[str], Path]:
    """Find one deployment by its number."""
    return lambda wanted: next(path for path in DEPLOYMENTS if number(path) == wanted)


@pytest.fixture
def password_of() -> Callable[[Path], str]:
    """Return what `admin` logs in with."""
    return lambda path: PASSWORDS[number(path)]


def _each(value: Any, spoil: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(value, dict):
        spoil(value)
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _each(child, spoil)


@pytest.fixture
def spoiled() -> Callable[[Path, Callable[[dict[str, Any]], None]], bytes]:
    """Return a document's bytes after a function was applied to every object in it."""

    def spoil(path: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
        document = json.loads(path.read_bytes())
        _each(document, change)
        return json.dumps(document, indent=2, separators=(",", " : ")).encode()

    return spoil
