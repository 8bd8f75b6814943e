"""Labs for the command line: those of the step tests, and one of which the config names the manager alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from maint.lab.running import Lab
from tests.steps.conftest import MakeLab, back_up, copy, loaded, lost, make
from tests.steps.operator import Operator

__all__ = ["loaded", "lost", "make"]


def only_the_manager(operator: Operator, *, hosts: int = 0) -> Operator:
    """Take virtual clusters and all but the first hosts from the config, so that none is asked; return the operator."""
    path, host = Path(operator.config), r"      - name.*\n(?:        .*\n)+"
    text = re.sub(r"    virtual_clusters:\n(?:     .*\n)+", "", path.read_text())
    path.write_text(re.sub(rf"(    hosts:\n(?:{host}){{{hosts}}})(?:{host})*", r"\1" if hosts else "", text))
    return operator


def few_hosts(config: Path) -> Any:
    """Return a config with the manager's host and the master of the data services alone: each one takes time."""
    told = yaml.safe_load(config.read_text())
    for site in told["sites"].values():
        site["hosts"] = [host for host in site["hosts"] if {"manager", "ecs-master"} & {*host["groups"]}]
    return told


def with_few_hosts(operator: Operator) -> Operator:
    """Leave no other hosts in the config; return the operator."""
    path = Path(operator.config)
    path.write_text(json.dumps(few_hosts(path)))
    return operator


@pytest.fixture
def alone(loaded: Operator) -> Operator:
    """An operator at a manager that runs, with a restorable backup, whose config names no host and no virtual cluster.

    A command takes a third of the time where it has none of these to ask.
    """
    return only_the_manager(loaded)


@pytest.fixture(scope="session")
def backed_up_twice(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, with a second restorable backup."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("twice") / "lab")) as lab:
        back_up(Operator(lab))
    return lab.folder


@pytest.fixture
def twice(make: MakeLab, backed_up_twice: Path) -> Operator:
    """The same operator, with two restorable backups."""
    return only_the_manager(make(template=backed_up_twice))
