"""Every code block of the README and the help pages runs against a lab, or says why it cannot."""

import ast
import builtins
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.config.yaml import load
from maint.lab.running import Lab
from tests.cli.conftest import few_hosts
from tests.cli.help.documented import PAGES, Block, blocks, folded
from tests.house.source import ROOT
from tests.steps.conftest import copy
from tests.steps.operator import Operator, maint

BLOCKS = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in BLOCKS if not block.reason and not block.taken_as]
# What a config must have besides what a page shows of it.
REST = {"manager": {"host": "cm.example.internal", "password": "env:PASSWORD"}, "hosts": [{"name": "ecs-1"}]}
BACKUP = {"store": "/srv/backups", "identity": "env:IDENTITY"}
# How many blocks are marked as not run: a new one is run, or takes the place of one that is.
MARKED = 56


@pytest.fixture(scope="module")
def lab(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("documented")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        few = lab.folder / "few.yaml"
        few.write_text(json.dumps(few_hosts(lab.folder / "config.yaml")))
        few.chmod(0o600)  # whatever the umask
        yield Operator(lab)


@pytest.fixture(scope="module")
def tried() -> set[str]:
    """The commands of blocks before, which are not run once more where another block names them, too."""
    return set()


def words_of(line: str, lab: Operator) -> list[str]:
    """Return the words of a command with the lab's names in the place of placeholders."""
    ids = sorted(path.parent.name for path in (lab.lab.folder / "backups").glob("*/*/manifest.json"))
    runs = sorted(path.stem for path in (lab.state / "runs").glob("*.jsonl"))
    names = {"ID": ids[-1], "FIRST": ids[0], "SECOND": ids[-1], "RUN_ID": runs[-1], "RUN": runs[-1], "SITE": "lab"}
    words = shlex.split(line.partition(" > ")[0])[1:]
    here = str(lab.lab.folder.parent)  # nothing of the machine is written
    return [names.get(word, re.sub("^/usr/local", here, word)) for word in words]


def test_a_block_is_run_or_says_why_not() -> None:
    assert [block.place for block in RUN if not block.can_run] == []
    assert sum(bool(block.reason) for block in BLOCKS) <= MARKED


def bound(tree: ast.Module) -> set[str]:
    """Return the names that Python code gives something to."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def unknown(code: str) -> list[str]:
    """Return the names that Python code uses and nobody gives it, and those that it imports from us in vain."""
    tree = ast.parse(code)
    known, missing = bound(tree) | set(dir(builtins)), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {one.name for one in node.names}
            known |= names
            if (module := node.module or "").startswith("maint."):
                file = ROOT.joinpath(*module.split("."))
                file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
                missing |= names - bound(ast.parse(file.read_text()))
    known |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return sorted(missing | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - known)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.taken_as], ids=lambda block: block.place)
def test_a_file_that_is_shown_is_taken(block: Block, tmp_path: Path) -> None:
    shown = "\n".join(block.lines).replace("age1…", f"age1{'q' * 58}")
    path = tmp_path / f"{block.taken_as}.yaml"
    if block.taken_as == "toml":
        assert tomllib.loads(shown)
        return
    if block.taken_as == "python":
        assert unknown(shown) == []
        return
    if block.taken_as in ("playbook", "steps"):
        path.write_text(shown if block.taken_as == "playbook" else f"name: x\nsummary: X.\nsteps:\n{shown}\n")
        said = maint("playbook", "lint", str(path), HOME=str(tmp_path))
    elif block.taken_as == "test":
        path.write_text(shown)
        said = maint("playbook", "test", str(path), "--dry-run")  # `test_the_example_of_the_help_runs` does it
    else:
        found: Any = load(shown, block.place).data
        site = found["sites"]["prod"] if "sites" in found else found
        own = site.get("backup") if isinstance(site.get("backup"), dict) else {}
        path.write_text(json.dumps({"sites": {"prod": {**REST, **site, "backup": {**BACKUP, **own}}}}))
        said = maint("config", "validate", "--config", str(path))
    assert said.code == 0, said.err


def test_no_page_shows_its_marks() -> None:
    from maint.cli.help.topics import names, text_of

    assert [name for name in names() if "<!--" in text_of(name)] == []


@pytest.mark.parametrize("block", [block for block in RUN if block.can_run], ids=lambda block: block.place)
def test_it_runs_and_says_what_is_shown(
    block: Block, lab: Operator, tried: set[str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for folder in ("CRON_FILES", "SYSTEM_UNITS"):  # a schedule of this machine is not ours
        monkeypatch.setattr(f"maint.cli.schedule.units.{folder}", tmp_path / "schedules")
    (tmp_path / "app.py").write_text("print('hello')\n")
    for line, shown in block.commands:
        if line in tried and not shown:
            continue
        config = lab.config if shown else str(lab.lab.folder / "few.yaml")
        said = lab(*words_of(line, lab), given="y\ny\n", MAINT_CONFIG=config)
        assert said.code in (0, *block.ends), f"{line}\n{said.out}\n{said.err}"
        if " > " in line:
            (tmp_path / Path(line.partition(" > ")[2].strip()).name).write_text(said.out)
        if block.ends == (0,) and "create" not in line:  # a block may look for another end, or at what it created
            tried.add(line)
        if shown:  # further lines, such as those of snapshots of other blocks, may stand between
            printed = folded(said.out)
            assert [one for one in folded("\n".join(shown)) if one not in printed] == [], said.out
