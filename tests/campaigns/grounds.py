"""Labs in which each command that acts has something to do, and what agrees to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maint.lab.running import Lab
from tests.cli.test_dry_run import ECS, VC, Ground, prepared, reconfigured
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator

CONFIRMED = {"retire-cluster": "base", "retire-ecs-cluster": ECS, "init-virtual-cluster": VC, "init-user": VC}
CONFIRMED |= dict.fromkeys(("recover-virtual-cluster", "recover-virtual-clusters", "restore-virtual-cluster"), VC)
Template = tuple[Path, dict[str, str]]


@pytest.fixture(scope="session")
def template(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The folder of a lab, now down, in which each command has something to do, and what is there."""
    folder = tmp_path_factory.mktemp("grounds") / "lab"
    with Lab(copy(backed_up, folder)) as lab:
        return folder, filled(lab)


def filled(lab: Lab) -> dict[str, str]:
    """Give each command something to do in a lab that was backed up, with nothing left to be taken up."""
    operator = Operator(lab)
    values = prepared(operator).values
    dismissed = operator("playbook", "dismiss", values["ASKING"], "--reason", "no matter", "--yes")
    assert dismissed.code == 0, dismissed.err
    return values


@contextmanager
def ground_in(template: Template, folder: Path) -> Iterator[Ground]:
    """Yield a copy of that lab, up."""
    source, values = template
    with Lab(copy(source, folder)) as lab:
        config = lab.folder / "config.yaml"
        config.write_text(reconfigured(config.read_text(), lab.folder))
        moved = {name: value.replace(str(source), str(lab.folder)) for name, value in values.items()}
        trusted = Operator(lab)("host", "trust", "--yes")
        assert trusted.code == 0, trusted.err
        yield Ground(Operator(lab), moved, {})


def confirmed(line: str) -> str:
    """Return what agrees to a command."""
    noun, *words = line.split()
    if noun == "playbook":
        return CONFIRMED.get("".join(words[1:2]), SITE)
    if noun == "cluster" and words[1:]:
        return words[1]
    return VC if noun == "vc" else SITE


def contents(*folders: Path | str) -> dict[str, bytes]:
    """Return all files that a command could change, by path."""
    logs = ("/var/log/", "commands.jsonl", "requests.jsonl", "daemon.log", "/world/")  # the lab's own
    every = (f"{place}/{name}" for folder in folders for place, _, names in os.walk(folder) for name in names)
    found = [path for path in every if not any(log in path for log in logs) and os.path.isfile(path)]  # noqa: PTH113
    return {path: Path(path).read_bytes() for path in found}
