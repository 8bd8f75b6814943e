"""Writing a playbook: a skeleton, all mistakes at once, a schema for the editor, help on its parameters."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from maint.config.paths import playbooks
from maint.config.yaml import load
from maint.steps.registry import STEPS
from tests.steps.operator import maint

CONFIG = """
sites:
  prod:
    manager: {host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PASSWORD"}
    ssh: {user: root, key: /nowhere}
    hosts: [{name: node-1, address: 10.0.0.1, groups: [base]}]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_new_playbook_has_no_mistakes_and_brings_its_schema(here: Path) -> None:
    assert maint("playbook", "new", "patch-hosts", "--dry-run").code == 0
    assert list(here.iterdir()) == []
    assert maint("playbook", "new", "patch-hosts").code == 0
    first = (here / "patch-hosts.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=playbook.schema.json"
    assert json.loads((here / "playbook.schema.json").read_text())["title"]
    assert maint("playbook", "lint", "patch-hosts.yaml").code == 0
    yamllint("patch-hosts.yaml")
    again = maint("playbook", "new", "patch-hosts")
    assert (again.code, "is there already" in again.err) == (3, True)
    assert maint("playbook", "new", "../x").code == 2
    (here / "my books").mkdir()
    assert (
        f"`maint playbook lint '{here}/my books/a.yaml'`" in maint("playbook", "new", "a", "--folder", "my books").err
    )
    assert maint("playbook", "new", "x", "--folder", "gone").code == 3


BAD = """name: x
sumary: X
parameters:
  depth: {type: number}
steps:
  - {name: A, do: host.rnu}
  - {name: B, do: pause, with: {duraton: 5m, until: 7}}
  - {name: C, do: assert, when: nope, with: {that: dept > 1}}
  - {name: D, do: host.run, with: {command: x, hosts: ["{{ hsots }}"]}, until: result, serial: 0}
"""


def test_all_mistakes_of_all_files_are_told_at_once_with_their_places(here: Path) -> None:
    (here / "bad.yaml").write_text(BAD)
    (here / "good.yaml").write_text(playbooks()["probe"])
    (here / "worse.yml").write_text("name: {")
    said = maint("playbook", "lint", ".", "-o", "json")
    assert said.code == 3
    found = [(one["file"], one["line"], one["message"].split(",")[0]) for one in said.json["mistakes"]]
    assert found == [
        ("bad.yaml", 2, "unknown key 'sumary'"),
        ("bad.yaml", 4, "a parameter's type is one of string"),
        ("bad.yaml", 6, "there is no step kind 'host.rnu'"),
        ("bad.yaml", 7, "pause has no argument 'duraton'"),
        ("bad.yaml", 7, "until: must be text"),
        ("bad.yaml", 8, "'nope' is not defined"),
        ("bad.yaml", 8, "'dept' is not defined"),
        ("bad.yaml", 9, "'hsots' is not defined"),
        ("bad.yaml", 9, "`until` is for steps that only read; host.run changes something"),
        ("bad.yaml", 9, "a step with `until` needs a `timeout`"),
        ("bad.yaml", 9, "`serial` is at least 1"),
        ("worse.yml", 1, found[-1][2]),
    ]
    assert said.json["checked"] == ["bad.yaml", "good.yaml", "worse.yml"]
    people = maint("playbook", "lint", "bad.yaml")
    assert "bad.yaml:6:19: there is no step kind 'host.rnu' (did you mean 'host.run'?)" in people.err


def test_a_folder_is_known_by_its_plain_name_and_one_without_playbooks_is_a_mistake(here: Path) -> None:
    (here / "books").mkdir()
    for name in ("books", "./books"):
        said = maint("playbook", "lint", name)
        assert (said.code, f"there is no playbook in {name}" in said.err) == (3, True)
    (here / "books/good.yaml").write_text(playbooks()["probe"])
    assert maint("playbook", "lint", "books", "-o", "json").json["checked"] == ["books/good.yaml"]


def test_a_config_and_tests_that_lie_beside_playbooks_are_passed_over(here: Path) -> None:
    (here / "maint.yaml").write_text(f"# mine\n{CONFIG}")
    (here / "test-probe.yaml").write_text("playbook: probe\nplan: []\n")
    assert maint("playbook", "lint", ".").code == 3  # no playbook among them
    assert maint("playbook", "new", "patch-hosts").code == 0
    said = maint("playbook", "lint", ".")
    told = "maint.yaml: a config, passed over", "test-probe.yaml: a test of a playbook, passed over"
    assert (said.code, [line in said.err for line in told]) == (0, [True, True]), said.err
    assert maint("playbook", "lint", "maint.yaml").code == 3  # by its name it is meant


def test_hosts_and_names_are_held_against_the_config(here: Path) -> None:
    (here / "config.yaml").write_text(CONFIG)
    book = here / "mine.yaml"
    book.write_text(
        "name: x\nsummary: X.\nparameters:\n  hosts: {type: list, default: [node-2]}\n  other: {type: list}\nsteps:\n"
        '  - {name: A, do: host.run, with: {hosts: ["node-1"], command: x}}\n'
        '  - {name: B, do: host.run, with: {hosts: "{{ hosts }}", groups: [bsae], command: x}}\n'
        '  - {name: C, do: host.run, with: {hosts: "{{ other }}", command: x}}\n'
        "  - {name: D, do: host.fetch, with: {host: nod-1, path: /a, to: /b}}\n"
        "  - {name: E, do: vc.smoke, with: {vc: etl}}\n"
        "  - {name: F, do: vc.smoke, with: {vc: '{{ etl'}}\n"
    )
    said = maint("playbook", "lint", str(book), "--config", "config.yaml", "-o", "json")
    assert said.code == 3
    found = [(one["line"], one["message"], one["hint"]) for one in said.json["mistakes"]]
    assert found[0] == (8, "site prod has no host 'node-2'", "did you mean 'node-1'?")
    assert "{{ is not closed" in found.pop()[1]
    assert [(line, words) for line, words, _ in found[1:]] == [
        (8, "site prod has no group of hosts 'bsae'"),
        (10, "site prod has no host 'nod-1'"),
        (11, "site prod has no virtual cluster 'etl'"),
    ]
    book.write_text("".join(book.read_text().splitlines(True)[:-1]))
    without = maint("playbook", "lint", str(book))
    assert (without.code, "hosts and names are not checked" in without.err) == (0, True)
    (here / "config.yaml").write_text(f"{CONFIG.rstrip()}\n  other: {{manager: {{host: cm2, password: prompt}}}}\n")
    several = maint("playbook", "lint", str(book), "--config", "config.yaml")
    assert (several.code, "hosts and names are not checked" in several.err) == (0, True), several.err
    assert maint("playbook", "lint", str(book), "--config", "config.yaml", "--site", "prod").code == 3


def test_the_schema_knows_every_step_kind_and_key() -> None:
    schema = maint("generate", "schema", "playbook").json
    step = schema["$defs"]["StepForm"]["properties"]
    assert set(step["do"]["enum"]) == set(STEPS)
    assert {"until", "serial", "max_fail", "with", "register"} <= step.keys()
    said = maint("generate", "schema", "playbok")
    assert (said.code, "playbook" in said.err) == (2, True)


def test_the_schema_takes_every_shipped_playbook_and_refuses_mistakes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(maint("generate", "schema", "playbook").json)
    assert [name for name, text in playbooks().items() if not validator.is_valid(load(text, name).data)] == []
    bad = {"name": "x", "summary": "X", "steps": [{"name": "A", "do": "host.run", "with": {"comand": "x"}}]}
    assert not validator.is_valid(bad)


def test_every_shipped_playbook_names_the_schema_for_editors() -> None:
    first = {text.splitlines()[0] for text in playbooks().values()}
    assert first == {"# yaml-language-server: $schema=playbook.schema.json"}
    shown = maint("playbook", "show", "probe")
    assert "`maint generate schema playbook > playbook.schema.json`" in shown.err


def test_a_list_that_is_filled_in_hides_no_mistake_beside_it(here: Path) -> None:
    head = "name: x\nsummary: X.\nparameters: {hosts: {type: list}, checks: {type: list}}\nsteps:\n"
    put = '  - {name: A, do: host.put, with: {hosts: "{{ hosts }}", file: motd, path: /etc/motd}}\n'
    check = '  - {name: B, do: host.check, with: {hosts: "{{ hosts }}", checks: "{{ checks }}"}}\n'
    (here / "x.yaml").write_text(head + put + check)
    said = maint("playbook", "lint", "x.yaml", "-o", "json")
    (one,) = said.json["mistakes"]
    assert (said.code, one["line"]) == (3, 5)
    assert one["message"].startswith("file 'motd' cannot be used: paths are absolute")


def test_the_shipped_playbooks_please_yamllint(here: Path) -> None:
    for name, text in playbooks().items():
        (here / name).write_text(text)
        assert all(len(line) <= 80 for line in text.splitlines()), name  # where yamllint is not installed, too
    yamllint(*playbooks())


def yamllint(*names: str) -> None:
    """Assert that yamllint with its defaults, 80 columns among them, says nothing of files, where it is installed."""
    if program := shutil.which("yamllint"):
        ran = subprocess.run([program, *names], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (0, ""), ran.stdout


def test_every_shipped_playbook_is_shown_as_yaml_too() -> None:
    for name in playbooks():
        said = maint("playbook", "show", Path(name).stem, "-o", "yaml")
        assert (said.code, "name: " in said.out) == (0, True), said.err


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_help_lists_the_parameters_with_type_default_and_meaning(verb: str) -> None:
    said = maint("playbook", verb, "retire-cluster", "--help")
    words = " ".join(said.out.split())
    assert said.code == 0
    assert "cluster (string) Name or display name of the cluster. [required]" in words
    assert "max_age (duration) How old that backup may be. [default: 1d]" in words
    assert "Parameters" not in maint("playbook", verb, "--help").out


def test_help_on_a_playbook_with_a_mistake_says_so(here: Path) -> None:
    (here / "bad.yaml").write_text(BAD)
    said = maint("playbook", "run", "bad.yaml", "--help")
    assert (said.code, "bad.yaml:2:1" in said.out, "cannot be shown" in said.out, "lint" in said.out) == (
        0,
        *[True] * 3,
    )
    assert maint("playbook", "run", "gone.yaml", "--help").code == 0


INNER = "name: inner\nsummary: Inner.\nparameters:\n  host: {type: string}\nsteps:\n" + (
    '  - {name: A, do: host.run, with: {hosts: ["{{ host }}"], command: uptime}}\n'
)
OUTER = "name: outer\nsummary: Outer.\nsteps:\n" + (
    '  - {name: A, playbook: parts/inner.yaml, each: [a, b], with: {host: "{{ item }}"}}\n'
)


def test_an_own_playbook_includes_another_by_its_path_from_its_own_folder(here: Path) -> None:
    (here / "books/parts").mkdir(parents=True)
    (here / "books/parts/inner.yaml").write_text(INNER)
    (here / "books/outer.yaml").write_text(OUTER)
    assert maint("playbook", "lint", "books/outer.yaml").code == 0
    (here / "books/outer.yaml").write_text(OUTER.replace("host:", "hots:"))
    said = maint("playbook", "lint", "books/outer.yaml")
    assert "books/outer.yaml:4:64: playbook 'inner' has no parameter 'hots'" in said.err
    (here / "books/outer.yaml").write_text(OUTER.replace("inner.yaml", "gone.yaml"))
    said = maint("playbook", "lint", "books/outer.yaml")
    assert (said.code, "books/outer.yaml:4:25: there is no file books/parts/gone.yaml" in said.err) == (3, True)


def test_own_playbooks_that_include_one_another_are_refused_where_the_circle_closes(here: Path) -> None:
    (here / "parts").mkdir()
    (here / "outer.yaml").write_text(OUTER)
    (here / "parts/inner.yaml").write_text(INNER + '  - {name: B, playbook: "../outer.yaml"}\n')
    said = maint("playbook", "lint", "outer.yaml")
    assert said.code == 3
    assert "parts/inner.yaml:7:25: playbook '../outer.yaml' would include itself" in said.err


SITE_FREE = {
    "do: pause": "a pause has either `duration` or `until`",
    "do: pause, with: {until: half past}": "until: 'half past' is not a time that is the same everywhere",
    "do: host.check, with: {checks: [os.tph]}": "checks: there is no check 'os.tph' (did you mean ",
    "do: host.check, with: {checks: [os.umask], checks_in: [ecs]}": "check 'os.umask' is not in group ecs (it is",
    "do: host.check, with: {phase: runing}": "phase: there is no phase 'runing' (did you mean 'running'?)",
    "do: host.run, with: {command: x}": "no host is named",
    "do: host.put, with: {hosts: [a], file: x, path: /y}": "file 'x' cannot be used",
    "do: host.put, with: {hosts: [a], file: /x, path: y}": "path 'y' cannot be used",
    "do: host.fetch, with: {host: a, path: /x, to: y}": "to 'y' cannot be used",
    "do: config.set, with: {name: a, value: 1}": "nothing is named",
    "do: config.set, with: {name: a, value: 1, manager: true, service: hdfs}": "several things are named",
    "do: config.set, with: {name: a, value: 1, cluster: base}": "a cluster has no settings of its own",
    "do: role.stop, with: {service: hdfs}": "no role is named",
    "do: command.run, with: {name: a, role_group: b}": "a role group takes no commands",
    "do: snapshot.take, with: {purpose: weekly}": "purpose: must be 'backup' or 'safety'",
}


@pytest.mark.parametrize("step", SITE_FREE)
def test_what_no_site_could_make_right_is_a_mistake_with_its_place(step: str, here: Path) -> None:
    (here / "own.yaml").write_text(f"name: x\nsummary: X.\nsteps:\n  - {{name: A, {step}}}\n")
    said = maint("playbook", "lint", "own.yaml")
    place, _, words = said.err.partition("error: ")[2].partition(": ")
    assert (said.code, place.rpartition(":")[0]) == (3, "own.yaml:4"), said.err
    assert words.startswith(SITE_FREE[step])


def test_each_mistake_of_one_step_is_told_at_its_argument(here: Path) -> None:
    step = "  - {name: A, do: host.check, with: {checks: [os.tph], checks_in: [dsk], phase: runing, on_failure: no}}"
    (here / "own.yaml").write_text(f"name: x\nsummary: X.\nsteps:\n{step}\n")
    said = maint("playbook", "lint", "own.yaml", "-o", "json")
    places = [step.index(one) + 1 for one in ("[os", "[dsk", "runing", "no}")]
    assert [one["column"] for one in said.json["mistakes"]] == places, said.err


def test_what_is_still_to_be_filled_in_is_no_mistake_yet(here: Path) -> None:
    (here / "own.yaml").write_text(
        "name: x\nsummary: X.\nparameters:\n  a: {type: string}\n  b: {type: list}\nsteps:\n"
        '  - {name: A, do: pause, with: {until: "{{ a }}"}}\n'
        '  - {name: B, do: host.check, with: {checks: ["{{ a }}"], phase: "{{ a }}", hosts: "{{ b }}"}}\n'
        '  - {name: C, do: host.put, with: {hosts: "{{ b }}", file: "{{ a }}", path: "{{ a }}", mode: "{{ a }}"}}\n'
        '  - {name: D, do: config.set, with: {name: a, value: 1, service: "{{ a }}"}}\n'
        '  - {name: E, do: role.stop, with: {service: hdfs, roles: "{{ b }}"}}\n'
    )
    assert maint("playbook", "lint", "own.yaml").code == 0


def test_a_mistyped_argument_is_told_once_with_the_name_that_was_meant(here: Path) -> None:
    (here / "own.yaml").write_text(
        "name: x\nsummary: X.\nsteps:\n  - {name: A, do: cluster.stop, with: {clusterr: base}}\n"
    )
    said = maint("playbook", "lint", "own.yaml", "-o", "json")
    assert [(one["message"], one["hint"]) for one in said.json["mistakes"]] == [
        ("cluster.stop has no argument 'clusterr'", "did you mean 'cluster'?")
    ]


def test_unknown_hosts_and_notices_are_told_beside_other_mistakes(here: Path) -> None:
    (here / "config.yaml").write_text(CONFIG)
    (here / "own.yaml").write_text(
        "name: x\nsummary: X.\nsteps:\n"
        "  - {name: A, do: host.run, with: {hosts: [node-2], comand: x}}\n"
        "  - {name: B, do: notify, with: {message: x, to: [nobody]}}\n"
        "  - {name: C, do: pause, wait: 1}\n"
        "  - {name: D, do: notify, with: {message: x}}\n"
        "  - {name: E, do: host.check}\n"
    )
    said = maint("playbook", "lint", "own.yaml", "--config", "config.yaml", "-o", "json")
    assert [(one["line"], one["message"]) for one in said.json["mistakes"]] == [
        (4, "site prod has no host 'node-2'"),
        (4, "host.run has no argument 'comand'"),
        (5, "site prod has no notice that takes messages 'nobody'"),
        (6, "steps[2]: unknown key 'wait'"),
        (7, "site prod has no notice that takes messages"),
    ]
