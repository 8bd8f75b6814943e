"""In the place of a file of ours lies a pipe that nobody writes to: no command waits for it, and none crashes."""

import os
from pathlib import Path

import pytest

from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.operator import Operator

LOOKING = (("doctor",), ("site", "status"), ("playbook", "history"), ("backup", "list"))


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator at a lab that is down, with a backup taken through the window."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("pipes") / "lab")) as lab:
        return Operator(lab)


@pytest.mark.timeout(60)  # seconds; waiting has no end
def test_no_command_waits_for_a_pipe_in_the_place_of_a_file_that_is_kept(operator: Operator) -> None:
    kept = sorted(path for path in operator.state.rglob("*") if path.is_file() and path.parent.name != "reports")
    assert len(kept) > 8
    for path in (*kept, Path(operator.config)):
        aside = path.with_name("aside")
        path.rename(aside)
        os.mkfifo(path, 0o600)
        try:
            for words in LOOKING:
                said = operator(*words)
                assert said.code in (0, 1, 3, 4, 5, 7), (path.name, words, said)
        finally:
            path.unlink()
            aside.rename(path)
