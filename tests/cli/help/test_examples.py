"""The example under every `--help`, and on the page of commands, is typed at a lab: as dry runs."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.cli.app import COMMANDS, NOUNS, TREE
from maint.cli.help.topics import text_of
from maint.lab.running import Lab
from tests.cli.conftest import with_few_hosts
from tests.house.source import ROOT
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator, maint

EXAMPLES = {name: TREE.example(name) for name in COMMANDS}
# What an example calls it, and what it is called in the lab.
NAMES = {
    "prod": SITE, "ecs-1": "ds-01.example.internal", "etl": "Default-VC-abc12345", "daily": "orders-ingest",
    "scripts": "etl-scripts", "job[eq]daily": "job[eq]orders-ingest", "17": "41",
    "etl.py": "order_report.py", "old.py": "basket.py", "report.py": "basket.py", "hive": "yarn",
}  # fmt: skip
# How an example may end beside 0, and why.
ENDS = {
    "vc drift": (8, "the same of a virtual cluster"),
    "restore run": (5, "the digest is that of another plan"),
    "doctor": (7, "no drill was ever done"),
    "host check": (1, "these hosts hold a cluster already"),
    "backup drift": (8, "it asks whether something differs, and something was changed"),
    "backup heal": (5, "the snapshot is not redacted"),
}
WAITS = "name: own\nsummary: Own.\nsteps:\n  - {name: Ask, do: approve, with: {question: go on}}\n"


class Place:
    """A lab, and the folder in which the examples are typed."""

    def __init__(self, operator: Operator, folder: Path, asked: str, changed: str, deleted: str) -> None:
        self.operator, self.folder = operator, folder
        snapshots = sorted(path.name for path in (operator.lab.folder / "backups" / SITE).glob("2*"))
        self.ids = {"backup": snapshots[-1], "restore": snapshots[-1], "manager": snapshots[-1], "playbook": asked}
        self.runs = {"playbook undo": changed, "vc undo": deleted}

    def words(self, name: str) -> list[str]:
        """Return an example with the lab's names in it."""
        return [self._word(name, word) for word in shlex.split(EXAMPLES[name].partition(" > ")[0])[1:]]

    def _word(self, name: str, word: str) -> str:
        if word.startswith("20") and "T" in word[:10]:
            return self.runs.get(name) or self.ids[name.partition(" ")[0]]
        if word.startswith("/") and not word.startswith("/etc/cloudera"):
            return str(self.folder / word.removeprefix("/"))
        return NAMES.get(word, word)


@pytest.fixture(scope="module")
def place(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("examples")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        operator = with_few_hosts(Operator(lab))
        config = Path(operator.config)
        notify = '    notify: [{name: "night-shift", exec: {command: ["/bin/true"]}}]\n'
        config.write_text(config.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 3}\n") + notify)
        for name in ("root", "etc/maint", "srv/www", "tests", "etl"):
            (folder / name).mkdir(parents=True)
        for name in ("order_report.py", "etl/a.py"):
            (folder / name).write_text("x\n")
        (folder / "root/license.txt").write_bytes((lab.folder / "license.txt").read_bytes())
        (folder / "own.yaml").write_text(WAITS)
        (folder / "tests/stop-base.yaml").write_text((ROOT / "tests/playbooks/stop-cluster.yaml").read_text())
        plan = operator("playbook", "plan", "probe", "-o", "json").out
        for name in ("before.json", "after.json"):
            (folder / name).write_text(plan)

        def run(*words: str) -> str:
            operator(*words, "--yes")
            return str(operator("playbook", "history", "-o", "json").json["runs"][-1]["id"])

        changed = run("setting", "set", "dfs_replication", "2", "--service", "hdfs")
        deleted = run("vc", "resource", "delete-file", "--name", "etl-scripts", "--resource-path", "lib/baskets.py")
        yield Place(operator, folder, run("playbook", "run", str(folder / "own.yaml")), changed, deleted)


def test_every_command_has_an_example_under_its_help_and_on_the_page_of_commands() -> None:
    page = text_of("commands").splitlines()
    for name, example in EXAMPLES.items():
        assert example.startswith(f"maint {name}".strip()), name
        assert f"    {example}" in page
        said = maint(*name.split(), "--help")
        assert f"Example: {example}" in " ".join(said.out.replace("\\\n", " ").split())


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun])
def test_every_group_has_examples_of_its_first_commands_under_its_help(noun: str) -> None:
    said = maint(*noun.split(), "--help")
    own = [example for name, example in EXAMPLES.items() if name.rpartition(" ")[0] == noun][:2]
    shown = [" ".join(line.split()) for line in said.out.replace("\\\n", " ").splitlines()]
    assert own != [] and [one for one in own if one not in shown] == []


@pytest.mark.parametrize("name", [*NOUNS, *COMMANDS])
def test_no_line_of_a_help_is_longer_than_80_characters(name: str) -> None:
    said = maint(*name.split(), "--help", COLUMNS="80")
    assert [line for line in said.out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "lab demo"])
def test_the_example_does_what_it_says(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    lab = ("--folder", str(place.operator.lab.folder)) if name in ("lab down", "lab status", "lab break") else ()
    said = place.operator(*place.words(name), *lab, "--dry-run")
    assert said.code in (0, ENDS.get(name, (0,))[0]), said.err
