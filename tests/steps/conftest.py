"""Labs with their hosts, made from folders that are laid out once."""

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.steps.restore import deployment as send_deployment
from tests.steps.operator import Operator

FAST = {"down-seconds": "0", "starting-seconds": "0", "command-seconds": "0.02", "slow-seconds": "0.3"}
PASSWORD = "a-Password-of-the-Lab"

MakeLab = Callable[..., Operator]


def copy(lab: Path, folder: Path) -> Path:
    """Copy the folder of a lab that never is up, and return the copy; from an archive in half the time of `cp`."""
    folder.mkdir(mode=0o700)
    subprocess.run(["tar", "-xpf", _archive(lab), "-C", folder], check=True)
    return folder


@cache
def _archive(lab: Path) -> Path:
    archive = lab.with_name(f"{lab.name}.tar")
    subprocess.run(["tar", "-cf", archive, "-C", lab, "."], check=True)
    return archive


def back_up(operator: Operator) -> None:
    """Take a further restorable backup where the window is not the matter: of a manager that redacts nothing."""
    world = operator.lab.world
    redacts, world.redaction = world.redaction, False
    said = operator("backup", "create")
    world.redaction = redacts
    assert said.code == 0, said.err


def lay_out(folder: Path) -> Path:
    """Leave the folder of a lab, now down, that was backed up through the window."""
    with Lab(folder, Options(new_password=PASSWORD, switches=FAST)) as lab:
        said = Operator(lab)("backup", "create", "--open-window", "--yes")
        assert said.code == 0, said.err
    return folder


@pytest.fixture
def make(tmp_path: Path, backed_up: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeLab]:
    """Bring labs up that were backed up; keyword arguments are switches with `_` for `-`."""
    monkeypatch.setattr(send_deployment, "PATIENCE", 2.0)  # a lab applies a deployment in a fraction of that
    labs: list[Lab] = []

    def build(*, lost: bool = False, template: Path | None = None, **switches: str) -> Operator:
        lab = Lab(copy(template or backed_up, tmp_path / f"lab{len(labs)}"))
        for name, value in switches.items():
            lab.switch(name.replace("_", "-"), value)
        lab.start()
        labs.append(lab)
        if lost:
            lab.lose_database()
        return Operator(lab)

    yield build
    for lab in labs:
        lab.stop()


@pytest.fixture
def loaded(make: MakeLab) -> Operator:
    """An operator at a manager that runs, with a restorable backup."""
    return make()


@pytest.fixture
def lost(make: MakeLab) -> Operator:
    """An operator at a manager whose database is gone, with a restorable backup."""
    return make(lost=True)
