"""One lab for the tests of `maint host`, and an operator who types at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.lab.running import Lab
from tests.steps.conftest import copy, loaded, make
from tests.steps.operator import Operator

__all__ = ["loaded", "make"]

# The manager's host and the master of the data services, which have all that any other host has, and more.
SOME = ("base-01.example.internal", "ds-01.example.internal")
ON_FIRST = ("--host", SOME[0])
ON_SOME = tuple(word for host in SOME for word in ("--host", host))


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A lab with a backup; tests put right what they break."""
    place = copy(backed_up, tmp_path_factory.mktemp("hosts") / "lab")
    with Lab(place) as lab:
        yield Operator(lab)


@pytest.fixture
def sick(operator: Operator) -> Iterator[Operator]:
    """The same lab, repaired after the test."""
    yield operator
    operator.lab.repair()
