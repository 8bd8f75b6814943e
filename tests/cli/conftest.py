"""Labs for the command line: those of the step tests, and one of which the config names the manager alone."""

import json
import re
from collections.abc import Iterator
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


def few_hosts(config: Path, *more: str) -> Any:
    """Return a config with the manager's host, the master of the data services and some more: each one takes time."""
    told = yaml.safe_load(config.read_text())
    for site in told["sites"].values():
        site["hosts"] = [
            host for host in site["hosts"] if {"manager", "ecs-master", *more} & {host["name"], *host["groups"]}
        ]
    return told


def with_few_hosts(operator: Operator, *more: str) -> Operator:
    """Leave no other hosts in the config; return the operator."""
    path = Path(operator.config)
    path.write_text(yaml.safe_dump(few_hosts(path, *more), sort_keys=False))
    return operator


@pytest.fixture
def few(loaded: Operator) -> Operator:
    """An operator at a manager that runs, whose config names two hosts and the virtual cluster."""
    return with_few_hosts(loaded)


@pytest.fixture(scope="module")
def shared(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The same operator, of a lab that is one for all tests of a module."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("shared") / "lab")) as lab:
        yield with_few_hosts(Operator(lab))


@pytest.fixture
def still(shared: Operator) -> Iterator[Operator]:
    """The same operator, where a test changes nothing that stays; its config and faults are put right after it."""
    config, runs = Path(shared.config), sorted((shared.state / "runs").iterdir())
    text = config.read_text()
    shared.forget_requests()
    yield shared
    config.write_text(text)
    shared.lab.repair()
    assert (shared.sent, sorted((shared.state / "runs").iterdir())) == ([], runs)


@pytest.fixture(scope="session")
def without_others(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab as `backed_up` is, of which the files of hosts but the manager's lie elsewhere, once for all.

    They are two thirds of what is copied and removed for a lab, and nobody asks these hosts.
    """
    folder = tmp_path_factory.mktemp("alone")
    lab, others = copy(backed_up, folder / "lab"), folder / "others"
    others.mkdir()
    manager = json.loads((lab / "lab.json").read_bytes())["hosts"]
    for name in [*manager][1:]:
        place = (lab / "hosts" / name).rename(others / name)
        (lab / "hosts" / name).symlink_to(place)
    return lab


@pytest.fixture
def alone(make: MakeLab, without_others: Path) -> Operator:
    """An operator at a manager that runs, with a restorable backup, whose config names no host and no virtual cluster.

    A command takes a third of the time where it has none of these to ask.
    """
    return only_the_manager(make(template=without_others))


@pytest.fixture
def with_its_host(make: MakeLab, without_others: Path) -> Operator:
    """The same operator, whose config names the manager's host, too."""
    return only_the_manager(make(template=without_others), hosts=1)


@pytest.fixture(scope="session")
def backed_up_twice(without_others: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, with a second restorable backup."""
    with Lab(copy(without_others, tmp_path_factory.mktemp("twice") / "lab")) as lab:
        back_up(Operator(lab))
    return lab.folder


@pytest.fixture
def twice(make: MakeLab, backed_up_twice: Path) -> Operator:
    """The same operator, with two restorable backups."""
    return only_the_manager(make(template=backed_up_twice))


@pytest.fixture(scope="session")
def backed_up_redacted(without_others: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, with a second backup, of which the secrets are redacted."""
    with Lab(copy(without_others, tmp_path_factory.mktemp("redacted") / "lab")) as lab:
        assert only_the_manager(Operator(lab))("backup", "create").code == 7
    return lab.folder


@pytest.fixture
def redacted(make: MakeLab, backed_up_redacted: Path) -> Operator:
    """The same operator, with a restorable backup and a newer redacted one."""
    return only_the_manager(make(template=backed_up_redacted))
