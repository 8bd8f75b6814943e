"""Labs for the command line: those of the step tests, and one of which the config names the manager alone."""

import re
from pathlib import Path

import pytest

from tests.steps.conftest import loaded, lost, make
from tests.steps.operator import Operator

__all__ = ["loaded", "lost", "make"]


def only_the_manager(operator: Operator) -> Operator:
    """Take hosts and virtual clusters from the config, so that none is asked, and return the operator."""
    path = Path(operator.config)
    path.write_text(re.sub(r"    (hosts|virtual_clusters):\n(     .*\n)+", "", path.read_text()))
    return operator


@pytest.fixture
def alone(loaded: Operator) -> Operator:
    """An operator at a manager that runs, with a restorable backup, whose config names no host and no virtual cluster.

    A command takes a third of the time where it has none of these to ask.
    """
    return only_the_manager(loaded)
