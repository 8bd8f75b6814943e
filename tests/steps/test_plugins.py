"""A package that is installed beside maint offers step kinds of its own; a broken one breaks nothing else."""

import sys
from pathlib import Path

import pytest

from maint.steps.registry import STEPS
from tests.steps.operator import maint

PLUGIN = Path(__file__).parent / "plugin"
CONFIG = """
sites:
  prod:
    manager: {host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PASSWORD"}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what installs a package from the folder `plugin`, as an editable installation does."""
    (tmp_path / "config.yaml").write_text(CONFIG)

    def install(**kinds: str) -> None:
        info = tmp_path / "greeting-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '.')} = {place}" for name, place in kinds.items()]
        (info / "entry_points.txt").write_text("[maint.steps]\n" + "\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.syspath_prepend(str(PLUGIN))

    yield install
    monkeypatch.undo()  # once nothing is installed any more, asking for it loads nothing
    STEPS.pop("greeting.say", None)
    sys.modules.pop("greeting", None)


def play(folder: Path, kind: str = "greeting.say", verb: str = "run", given: str = "name: ann"):
    book = folder / "mine.yaml"
    book.write_text(f"name: mine\nsummary: X.\nsteps:\n  - {{name: A, do: {kind}, with: {{{given}}}}}\n")
    return maint("playbook", verb, str(book), "--config", str(folder / "config.yaml"))


def test_its_steps_are_planned_and_done_like_those_of_maint(installed, tmp_path: Path) -> None:
    assert play(tmp_path).code == 3
    installed(greeting_say="greeting:Say")
    assert "READ    A: greet ann of prod" in play(tmp_path, verb="plan").out
    said = play(tmp_path)
    assert (said.code, "hello ann" in said.err) == (0, True)


def test_its_arguments_are_checked_like_those_of_maint(installed, tmp_path: Path) -> None:
    installed(greeting_say="greeting:Say")
    said = play(tmp_path, verb="lint", given="nmae: ann")
    assert (said.code, "greeting.say has no argument 'nmae'" in said.err) == (3, True)
    assert "mine.yaml:4:" in said.err


@pytest.mark.parametrize("place", ["greeting.gone:Say", "greeting:Gone", "greeting:NotAStep"])
def test_one_that_cannot_be_loaded_names_its_package_and_breaks_nothing_else(
    installed, tmp_path: Path, place: str
) -> None:
    installed(greeting_say=place)
    said = play(tmp_path)
    assert (said.code, "greeting" in said.err, "the package greeting" in said.err) == (3, True, True)
    assert play(tmp_path, kind="assert", given="that: 'true'").code == 0
    assert maint("playbook", "list").code == 0


def test_packages_are_not_looked_at_where_no_step_asks_for_them(installed, tmp_path: Path) -> None:
    installed(greeting_say="greeting:Say")
    assert play(tmp_path, kind="assert", given="that: 'true'").code == 0
    assert maint("help", "steps").code == 0
    assert "greeting" not in sys.modules
