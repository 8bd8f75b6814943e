"""An installed package offers step kinds, checks and notices of its own; a broken one breaks nothing else."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from maint.checks.facts import Answered, SiteFacts, SiteSetting
from maint.checks.facts_file import to_json
from maint.checks.gather import questions_of
from maint.checks.registry import CHECKS, named
from maint.steps.registry import STEPS
from tests.checks.facts import NOW, host
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
    CHECKS.forget("greeting")

    def install(group: str = "maint.steps", **kinds: str) -> None:
        info = tmp_path / "greeting-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '.')} = {place}" for name, place in kinds.items()]
        (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.syspath_prepend(str(PLUGIN))

    yield install
    monkeypatch.undo()  # once nothing is installed any more, asking for it loads nothing
    STEPS.pop("greeting.say", None)
    STEPS.pop("greeting.broken", None)
    CHECKS.forget("greeting")
    sys.modules.pop("greeting", None)
    sys.modules.pop("greeting.checks", None)
    sys.modules.pop("greeting.broken_checks", None)
    sys.modules.pop("greeting.notices", None)


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


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("plan fails", "failed: KeyError at __init__.py:"),
        ("plans nothing", "failed: TypeError"),
        ("plans a text", "plans what is no action"),
        ("plans no JSON", "gives what JSON cannot hold: an action of it"),
        ("yields nothing", "yields nothing"),
        ("yields a number", "yields what is no text"),
        ("fails", "failed: ValueError at __init__.py:"),
        ("leaves", "failed: SystemExit at __init__.py:"),
        ("returns no JSON", "gives what JSON cannot hold: its result"),
        ("returns nothing", "returns no result"),
    ],
)
def test_what_a_step_of_it_does_wrong_is_told_as_the_failure_of_its_package(
    installed, tmp_path: Path, how: str, words: str
) -> None:
    installed(greeting_broken="greeting:Broken")
    book = tmp_path / "mine.yaml"
    book.write_text(f"name: mine\nsummary: X.\nsteps:\n  - {{name: A, do: greeting.broken, with: {{name: {how}}}}}\n")
    said = maint("playbook", "run", str(book), "--yes", "--config", str(tmp_path / "config.yaml"))
    assert f"error: step kind greeting.broken of the package greeting {words}" in said.err
    assert (said.code, "a bug" in said.err, "hunter2" in said.err) == (1, False, False)


def test_packages_are_not_read_in_where_no_step_or_check_asks_for_them(installed, tmp_path: Path) -> None:
    installed(greeting_say="greeting:Say")
    assert play(tmp_path, kind="assert", given="that: 'true'").code == 0
    assert maint("playbook", "list").code == 0
    assert "greeting" not in sys.modules


def test_its_steps_stand_in_the_help_the_schema_and_among_what_may_be_meant(installed, tmp_path: Path) -> None:
    installed(greeting_say="greeting:Say")
    assert "did you mean 'greeting.say'?" in play(tmp_path, kind="greeting.sya").err
    told = maint("help", "steps").out
    assert "## greeting.say\n\nFrom the package greeting. Greet somebody." in told
    assert "who is greeted" in told
    schema = maint("generate", "schema", "playbook").json["$defs"]["StepForm"]
    assert "greeting.say" in schema["properties"]["do"]["enum"]
    rule = next(one for one in schema["allOf"] if one["if"]["properties"]["do"]["const"] == "greeting.say")
    assert "name" in rule["then"]["properties"]["with"]["properties"]


def test_steps_that_cannot_be_loaded_leave_help_and_schema_whole(installed) -> None:
    installed(greeting_say="greeting:Gone")
    assert "Not usable: step kind greeting.say of the package greeting cannot be loaded" in maint("help", "steps").out
    assert maint("generate", "schema", "playbook").code == 0


def test_its_checks_are_listed_chosen_asked_and_judged_like_those_of_maint(installed, tmp_path: Path) -> None:
    assert maint("host", "check", "--facts", "none", "--check", "greeting.motd").code != 0
    installed("maint.checks", greeting="greeting.checks")
    listed = {one["id"]: one for one in maint("host", "check", "--list", "-o", "json").json["checks"]}
    assert "/etc/motd" in listed["greeting.motd"]["commands"]["greeting_motd"]
    assert list(questions_of(named(["greeting.motd"]), "B")) == ["greeting_motd"]
    facts = SiteFacts(NOW, setting=SiteSetting("cm", 1, 2))
    host({"greeting_motd": "good day"}, name="wn01", site=facts)
    host({"greeting_motd": Answered(0, "hello")}, name="wn02", site=facts)
    kept = tmp_path / "facts.json"
    kept.write_text(json.dumps(to_json(facts, {"site": "prod", "checks": ["greeting.motd"], "accepted": []})))
    said = maint("host", "check", "--facts", str(kept), "-o", "json")
    found = {one["hosts"][0]: (one["state"], one["observed"]) for one in said.json["findings"]}
    assert found == {"wn01": ("warn", "/etc/motd greets nobody"), "wn02": ("pass", "hello")}
    said = maint("host", "check", "--facts", str(kept), "--check", "greeting.mtd")
    assert "did you mean 'greeting.motd'?" in said.err


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "failed: RuntimeError at broken_checks.py:"),
        ("read", "failed: ValueError at broken_checks.py:"),
        ("leave", "failed: SystemExit at broken_checks.py:"),
        ("nothing", "gives what is no verdict"),
    ],
)
def test_what_a_check_of_it_does_wrong_is_told_as_the_failure_of_its_package(
    installed, tmp_path: Path, how: str, words: str
) -> None:
    installed("maint.checks", greeting="greeting.broken_checks")
    facts = SiteFacts(NOW, setting=SiteSetting("cm", 1, 2))
    for name, said in (("wn01", how), ("wn02", "fine")):
        host({"greeting_motd": Answered(0, said)}, name=name, site=facts)
    kept = tmp_path / "facts.json"
    checks = ["greeting.host", "greeting.all"]
    kept.write_text(json.dumps(to_json(facts, {"site": "prod", "checks": checks, "accepted": []})))
    said = maint("host", "check", "--facts", str(kept), "-o", "json")
    assert (said.code, "a bug" in said.err, "hunter2" in said.out) == (7, False, False), said.err
    found = {(one["check"], tuple(one["hosts"])): (one["state"], one["observed"]) for one in said.json["findings"]}
    for name in checks:
        state, observed = found[name, ("wn01",)]
        assert (state, observed.startswith(f"the rule of the package greeting {words}")) == ("error", True), observed
        assert found[name, ("wn02",)] == ("pass", "fine")


def test_a_way_of_telling_of_its_own_is_told_and_trouble_with_it_is_only_said(installed, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    told = tmp_path / "told"
    config.write_text(
        CONFIG + f"    notify: [{{name: mine, plugin: {{kind: greeting, settings: {{file: {told}}}}}}}]\n"
        f"state: {tmp_path / 'state'}\n"
    )
    said = maint("notify", "test", "mine", "--config", str(config))
    assert (said.code, "no installed package offers notices named 'greeting'" in said.err) == (7, True)
    installed("maint.notify", greeting="greeting.notices:tell")
    said = maint("notify", "test", "mine", "--config", str(config))
    assert said.code == 0, said.err
    assert told.read_text().startswith("hello: ")
    told.unlink()
    told.mkdir()
    said = maint("notify", "test", "mine", "--config", str(config))
    assert (said.code, "plugin: Is a directory" in said.err) == (7, True), said


@pytest.mark.parametrize("place", ["greeting.gone", "greeting.checks:motd", "greeting"])
def test_checks_that_cannot_be_loaded_name_their_package(installed, place: str) -> None:
    installed("maint.checks", greeting=place)
    said = maint("host", "check", "--list")
    assert (said.code, "the package greeting" in said.err) == (3, True)
    assert [check.id for check in named(["os.thp"])] == ["os.thp"]


def test_a_check_whose_source_nobody_knows_names_its_package(installed, monkeypatch: pytest.MonkeyPatch) -> None:
    installed("maint.checks", greeting="greeting.checks")
    checks = importlib.import_module("greeting.checks")
    monkeypatch.setattr(checks, "motd", replace(checks.motd, source="hearsay"))
    said = maint("host", "check", "--list")
    assert (said.code, "the package greeting" in said.err, "sources are known" in said.err) == (3, True, True)
