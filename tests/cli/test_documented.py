"""Every code block of the README and the help pages runs against a lab, or says why it cannot."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.lab.running import Lab
from tests.cli.documented import PAGES, Block, blocks, folded
from tests.steps.conftest import copy
from tests.steps.operator import Operator

BLOCKS = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in BLOCKS if not block.reason]
# How many blocks are marked as not run: a new one is run, or takes the place of one that is.
MARKED = 67


@pytest.fixture(scope="module")
def lab(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("documented")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        yield Operator(lab)


def words_of(line: str, lab: Operator) -> list[str]:
    """Return the words of a command with the lab's names in the place of placeholders."""
    ids = sorted(path.parent.name for path in (lab.lab.folder / "backups").glob("*/*/manifest.json"))
    runs = sorted(path.stem for path in (lab.state / "runs").glob("*.jsonl"))
    names = {"ID": ids[-1], "FIRST": ids[0], "SECOND": ids[-1], "RUN_ID": runs[-1], "RUN": runs[-1], "SITE": "lab"}
    words = shlex.split(line.partition(" > ")[0])[1:]
    return [names.get(word, word) for word in words]


def test_a_block_is_run_or_says_why_not() -> None:
    assert [block.place for block in RUN if not block.can_run] == []
    assert sum(bool(block.reason) for block in BLOCKS) <= MARKED


def test_no_page_shows_its_marks() -> None:
    from maint.cli.help.topics import names, text_of

    assert [name for name in names() if "<!--" in text_of(name)] == []


@pytest.mark.parametrize("block", [block for block in RUN if block.can_run], ids=lambda block: block.place)
def test_it_runs_and_says_what_is_shown(block: Block, lab: Operator, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("print('hello')\n")
    for line, shown in block.commands:
        said = lab(*words_of(line, lab), given="y\ny\n")
        assert said.code in (0, *block.ends), f"{line}\n{said.out}\n{said.err}"
        if " > " in line:
            (tmp_path / Path(line.partition(" > ")[2].strip()).name).write_text(said.out)
        if shown:  # further lines, such as those of snapshots of other blocks, may stand between
            printed = folded(said.out)
            assert [one for one in folded("\n".join(shown)) if one not in printed] == [], said.out
