"""Labs whose manager and virtual clusters are lost, made from folders that are laid out once."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maint.lab.create import SITE
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.virtual_clusters.info import lose
from tests.steps.conftest import FAST, PASSWORD, copy
from tests.steps.operator import Operator

FIRST, SECOND = "Default-VC-abc12345", "analytics"
SWITCHES = {**FAST, "vc-env-seconds": "0", "vc-dag-seconds": "0.2"}

MakeSite = Callable[..., Operator]


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, that was backed up with two virtual clusters."""
    folder = tmp_path_factory.mktemp("kept") / "lab"
    script = folder.parent / "app.py"
    script.write_text("print(1)\n")
    with Lab(folder, Options(new_password=PASSWORD, switches=SWITCHES, virtual_clusters=(SECOND,))) as lab:
        operator = Operator(lab)
        for words in (
            ["resource", "create", "--name", "code"],
            ["resource", "upload", "--name", "code", "--local-path", str(script)],
            ["job", "create", "--name", "report", "--application-file", "app.py", "--mount-1-resource", "code"],
        ):
            said = operator("vc", *words, "--vc", SECOND, "--yes")
            assert said.code == 0, said.err
        lab.world.redaction = False
        said = operator("backup", "create")
        assert said.code == 0, said.err
        lab.world.redaction = True
    return folder


@pytest.fixture(scope="session")
def stopped(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, whose recovery waits for its virtual clusters; beside it what it said."""
    folder = tmp_path_factory.mktemp("stopped") / "lab"
    shutil.copytree(kept, folder)
    with Lab(folder) as lab:
        assert lab.service
        lose(lab.service)
        lab.lose_database()
        operator = Operator(lab)
        said = operator("restore", "run", "--confirm", SITE)
        assert said.code == 1, said.err
        (folder.parent / "said").write_text(said.err)
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSite]:
    """Bring up a copy of a lab that was laid out."""
    labs: list[Lab] = []

    def build(folder: Path) -> Operator:
        labs.append(Lab(copy(folder, tmp_path / "lab")))
        labs[-1].start()
        return Operator(labs[-1])

    yield build
    for lab in labs:
        lab.stop()


@pytest.fixture
def lost_all(make: MakeSite, kept: Path) -> Operator:
    """An operator whose manager and virtual clusters are lost."""
    operator = make(kept)
    assert operator.lab.service
    lose(operator.lab.service)
    operator.lab.lose_database()
    return operator


@pytest.fixture
def standing(make: MakeSite, kept: Path) -> Operator:
    """An operator whose manager is lost, and whose virtual clusters are not."""
    operator = make(kept)
    operator.lab.lose_database()
    return operator


@pytest.fixture
def waiting(make: MakeSite, stopped: Path) -> Operator:
    """An operator whose recovery has stopped: the manager is back, and both virtual clusters are to be made."""
    return make(stopped)
