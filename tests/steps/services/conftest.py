"""Labs whose hosts are not needed: a manager with services, settings and a restorable backup."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.steps.operator import Operator


@pytest.fixture
def live(loaded: Operator) -> Callable[..., Any]:
    """Return what reads a setting of the lab's manager, past its API."""

    def value(name: str, service: str = "hdfs", group: str = "") -> Any:
        with loaded.lab.world.lock:
            deployment = loaded.lab.world.deployment
            found = next(one for one in deployment["clusters"][0]["services"] if one["name"] == service)
            if group:
                found = next(one for one in found["roleConfigGroups"] if one["name"] == group)
            return next((item["value"] for item in found["config"]["items"] if item["name"] == name), None)

    return value
