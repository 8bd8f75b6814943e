"""Tests of playbooks: the shipped ones pass theirs, and what is otherwise than a test says is shown and fails."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from maint.cli.help.topics import text_of
from maint.cli.playbooks.test import Worlds, try_out
from maint.config.paths import playbooks
from maint.engine.expectations import compared, fits, read
from tests.steps.operator import Said, maint

SHIPPED = sorted((Path(__file__).parents[2] / "playbooks").glob("*.yaml"))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    return Worlds(tmp_path_factory.mktemp("worlds"))


@pytest.fixture
def ready(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the command the labs that are laid out here already."""
    monkeypatch.setattr("maint.cli.playbooks.test.Worlds", lambda _: worlds)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_playbook_does_what_its_test_says(worlds: Worlds, path: Path) -> None:
    assert try_out(read(path), worlds).differences == []


def test_every_shipped_playbook_has_a_test() -> None:
    assert set(playbooks()) - {read(path).form.playbook for path in SHIPPED} == set()


def test_the_example_of_the_help_runs(worlds: Worlds, tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(playbook: .*?)```", text_of("playbooks"), re.DOTALL)
    assert len(examples) == 1
    (tmp_path / "example.yaml").write_text(examples[0])
    assert try_out(read(tmp_path / "example.yaml"), worlds).differences == []


def attempt(folder: Path, text: str, *words: str, **env: str) -> Said:
    path = folder / "mine.yaml"
    path.write_text(text)
    return maint("playbook", "test", str(path), *words, **env)


def test_a_world_made_by_a_file_is_not_taken_for_that_of_another_folder(worlds: Worlds, tmp_path: Path) -> None:
    step = "{name: Set, do: config.set, with: {service: hdfs, name: dfs_replication, value: %s}}"
    for value in ("2", "4"):
        (tmp_path / value).mkdir()
        (tmp_path / value / "own.yaml").write_text(f"name: own\nsummary: X.\nsteps:\n  - {step % value}\n")
        mine = "playbook: ./own.yaml\nworld: {after: [{playbook: ./own.yaml}]}\nplan: ['READ Set: *so already*']\n"
        (tmp_path / value / "mine.yaml").write_text(mine)
        assert try_out(read(tmp_path / value / "mine.yaml"), worlds).differences == []


def test_a_notice_of_a_playbook_reaches_nobody_and_fails_nothing(worlds: Worlds, tmp_path: Path) -> None:
    steps = ["do: notify, with: {message: Hi, to: [night-shift]}", "do: notify, with: {message: Hi, to: '{{ who }}'}"]
    listed = "".join(f"  - {{name: Tell, {one}}}\n" for one in [*steps, "do: notify, with: {message: Hi}"])
    parameters = "parameters:\n  who: {type: list, help: X}\n"
    (tmp_path / "tell.yaml").write_text(f"name: tell\nsummary: X.\n{parameters}steps:\n{listed}")
    plan = "plan: ['READ Tell: tell night-shift: Hi', 'READ Tell: tell pager: Hi', 'READ Tell: tell *everybody*: Hi']\n"
    (tmp_path / "mine.yaml").write_text(f"playbook: ./tell.yaml\nset: {{who: [pager]}}\n{plan}end: {{done: [Tell]}}\n")
    assert try_out(read(tmp_path / "mine.yaml"), worlds).differences == []


OTHERWISE = """
playbook: ./ask.yaml
answer: {answer}
plan: ["READ Ask: *", "READ Gone: *"]
calls: [POST /api/*]
end:
  exit: 0
  done: [Ask, Check]
  state:
    - {{get: /clusters/base, key: name, is: other}}
    - {{get: /clusters, key: items.², is: other}}
    - {{host: none, file: /x, has: y}}
"""
ASK = """
name: ask
summary: X.
steps:
  - {name: Ask, do: approve, with: {question: go on}}
  - {name: Check, do: assert, with: {that: 'true'}}
"""


@pytest.mark.usefixtures("ready")
def test_what_is_otherwise_is_shown_part_by_part_and_no_variable_aims_it_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(ASK)
    aimed = {"MAINT_MANAGER_HOST": "192.0.2.1", "MAINT_STATE": str(tmp_path / "state"), "MAINT_SITE": "prod"}
    said = attempt(tmp_path, OTHERWISE.format(answer="yes"), "-o", "json", **aimed)
    assert said.code == 1, said.err
    (one,) = said.json["tests"]
    found = {part["part"]: part["lines"] for part in one["differences"]}
    assert found["plan"][1:] == ["- READ Gone: *", found["plan"][2]]
    assert found["plan"][2].startswith("+ READ Check: ")
    assert found["calls"] == ["- POST /api/*"]
    assert found["/clusters/base name"] == ["- other", "+ base"]
    assert found["/clusters items.²"] == ["- other", "+ null"]
    assert found["none:/x"] == ["- y", "+ null"]
    assert set(found) == {"plan", "calls", "/clusters/base name", "/clusters items.²", "none:/x"}
    assert not (tmp_path / "state").exists()


@pytest.mark.usefixtures("ready")
def test_a_build_server_reads_the_outcome(tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text(ASK)
    said = attempt(tmp_path, "playbook: ./ask.yaml\nanswer: no\n", "-o", "junit")
    suite = ET.fromstring(said.out)[0]
    assert (said.code, suite.get("tests"), suite.get("failures")) == (1, "1", "1")
    failure = suite[0][0]
    assert "said no" in (failure.text or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("playbook: probe\nplna: []\n", "2:1: unknown key 'plna'"),
        ("playbook: prob\n", "1:11: there is no playbook 'prob'"),
        ("playbook: probe\nworld: {faults: [{target: manager, fault: none}]}\n", "2:18: there is no fault 'none'"),
        ("playbook: probe\nworld: {switches: {speed: 1}}\n", "2:19: "),
        ("playbook: probe\nend: {state: [{is: 1}]}\n", "2:15: "),
        ("playbook: ./gone.yaml\n", "gone.yaml"),
        ("playbook: probe\nworld: {after: [{playbook: prob}]}\n", "2:28: there is no playbook 'prob'"),
    ],
)
@pytest.mark.usefixtures("ready")
def test_a_test_with_a_mistake_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    found = attempt(tmp_path, text)
    assert (found.code, said in found.err) == (3, True), found.err


def test_without_doing_it_the_tests_are_only_read(tmp_path: Path) -> None:
    said = attempt(tmp_path, "playbook: probe\n", "--dry-run")
    assert (said.code, "would try 1 test" in said.out) == (0, True)
    assert attempt(tmp_path, "playbook: [\n", "--dry-run").code == 3
    (tmp_path / "empty").mkdir()
    assert maint("playbook", "test", str(tmp_path / "empty")).code == 3


@pytest.mark.parametrize(
    ("wanted", "found", "lines"),
    [
        (["a *", "c"], ["a b", "c"], ["  a b", "  c"]),
        (["a", "b"], ["b", "a"], ["- a", "  b", "+ a"]),
        ([], ["a"], ["+ a"]),
        (["*"], [], ["- *"]),
        (["a", "*", "z"], ["a", "x", "y", "z"], ["  a", "  x", "+ y", "  z"]),
    ],
)
def test_two_lists_are_held_against_each_other(wanted: list[str], found: list[str], lines: list[str]) -> None:
    assert compared(wanted, found) == lines


def test_only_the_star_means_something_in_a_pattern() -> None:
    assert fits("GET /a[0-9]?*", "GET /a[0-9]?view=x\ny")
    assert not fits("a.c", "abc")


def test_the_schema_takes_the_shipped_tests() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = maint("generate", "schema", "playbook-test").json
    validator = jsonschema.Draft202012Validator(schema)
    assert [path.name for path in SHIPPED if not validator.is_valid(read(path).document.data)] == []
    assert not validator.is_valid({"playbook": "x", "plna": []})
    assert {path.read_text().splitlines()[0] for path in SHIPPED} == {
        "# yaml-language-server: $schema=playbook-test.schema.json"
    }
