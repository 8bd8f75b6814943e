"""What the product has is told in its help, and what its texts name exists."""

import ast
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from maint.cli.app import COMMANDS, app
from maint.cli.command import loaded
from maint.config import sample
from maint.config.precedence import GENERAL, OVERRIDES
from maint.config.resources import playbooks
from maint.config.secrets import FORMS
from maint.engine import load
from maint.errors import MaintError
from maint.lab.faults import FAULTS, HOST, HOST_FAULTS, TARGETS
from maint.lab.switches import SWITCHES
from maint.model.formatting import parse_duration
from maint.steps.registry import STEPS
from tests.house.source import PACKAGE, ROOT, modules, tree

HELP = PACKAGE / "help"
TEXTS = [
    path
    for pattern in ("*.md", "maint/**/*.md", "playbooks/*", "templates/*", "tests/**/*.md", ".ci/*")
    for path in sorted(ROOT.glob(pattern))
    if path.is_file()
]
# Every noun that the product has or is going to have: what follows one of them must be a verb of it.
NOUNS = "lab|site|cluster|manager|playbook|backup|restore|host|vc|schedule|config|generate|doctor|help|version"
MENTION = re.compile(rf"\bmaint ({NOUNS})\b(?: +([a-z][a-z-]*))?([^`;|#\n]*)")
BUILT_IN = frozenset({"-h", "--help"})


def topic(name: str) -> str:
    return (HELP / f"{name}.md").read_text()


def cells(text: str, *, columns: int) -> list[list[str]]:
    """Return the rows of all tables with so many columns, without their heads."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows if len(row) == columns]


def bare(cell: str) -> str:
    return cell.strip("`")


@cache
def commands() -> dict[str, set[str]]:
    """Return every command, `noun verb` or `noun group verb`, with its options."""
    built = {name: loaded(place).build(name) for name, (place, _) in COMMANDS.items()}
    return {name: {word for option in one.params for word in option.opts} for name, one in built.items()}


def options_in(text: str, before: str = r"\w") -> set[str]:
    """Return the options that a text names; numbered ones as they are declared, with an N."""
    found = re.findall(rf"(?<!{before})--?[a-z][a-zA-Z0-9-]*", text)
    return {re.sub(r"-(\d+|X)-", "-N-", option) for option in found}


@cache
def common_options() -> frozenset[str]:
    return BUILT_IN | {word for option in get_command(app).params for word in option.opts}


@cache
def usages() -> dict[str, str]:
    """Return the usage lines of the topic `commands`: `noun verb` → what follows."""
    found = {}
    for line in re.findall(r"^    maint (.+)$", topic("commands"), re.MULTILINE):
        words = line.split(" ")
        known = [length for length in (3, 2) if " ".join(words[:length]) in commands()]
        length = known[0] if known else 1 if len(words) == 1 or not re.fullmatch("[a-z][a-z-]*", words[1]) else 2
        found[" ".join(words[:length])] = " ".join(words[length:])
    return found


@cache
def strings(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a module with their lines, docstrings among them; what is filled in reads as X."""
    parts: set[int] = set()
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(value) for value in node.values}
            text = "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            found.append((node.lineno, text))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.append((node.lineno, node.value))
    return found


@cache
def mentions() -> list[tuple[str, str, str, str]]:
    """Return where a command is named, its noun, its verb (within a group: both words), and what follows."""
    lines = [(path, number, line) for path in TEXTS for number, line in enumerate(path.read_text().splitlines(), 1)]
    lines += [(path, number, text) for path in modules().values() for number, text in strings(path)]
    return [
        (f"{path.relative_to(ROOT)}:{number}", *whole(*found))
        for path, number, text in lines
        for found in MENTION.findall(text)
    ]


def whole(noun: str, verb: str, rest: str) -> tuple[str, str, str]:
    """Return a mention with the verb of a group taken from what follows; a group alone has no verb."""
    if not verb or not any(name.startswith(f"{noun} {verb} ") for name in commands()):
        return noun, verb, rest
    further = re.match(r" +([a-z][a-z-]*)(.*)", rest)
    return (noun, f"{verb} {further[1]}", further[2]) if further else (noun, "", rest)


def test_every_command_is_in_the_help_and_no_other() -> None:
    assert set(usages()) == set(commands())


@pytest.mark.parametrize("command", list(commands()))
def test_every_option_is_in_the_help_and_no_other(command: str) -> None:
    own = {word for word in commands()[command] if word.startswith("-")} - common_options()
    assert options_in(usages()[command]) == own


@pytest.mark.parametrize("command", list(commands()))
def test_every_argument_has_a_place_in_the_usage_line(command: str) -> None:
    arguments = [word for word in commands()[command] if not word.startswith("-")]
    placed = re.sub(r"\[--[^]]*\]…?|--[a-z-]+ [A-Z]+…?", "", usages()[command]).split()
    assert len(placed) == len(arguments)


def test_every_common_flag_is_in_the_help() -> None:
    told = set(re.findall(r"`(--?[a-z][a-z-]*)", topic("commands")))
    assert common_options() <= told


def test_every_config_key_is_in_the_help_with_its_default() -> None:
    told = {bare(row[0]): bare(row[2]) for row in cells(topic("configuration"), columns=4)}
    keys = {key.name.removeprefix("sites.NAME."): key for key in sample.reference()}
    assert set(told) == set(keys)
    for name, key in keys.items():
        if key.required:
            assert told[name] == "required", name
        elif key.default not in (None, [], False) and name != "state":
            assert read(told[name], key.default) == key.default, name


def read(text: str, like: object) -> object:
    """Return a default as the help spells it, in the type of the real one."""
    if isinstance(like, float):
        return parse_duration(text)
    return int(text.removeprefix("v")) if isinstance(like, int) else text


def test_every_environment_variable_is_in_the_help() -> None:
    used = {name for path in PACKAGE.rglob("*.py") for name in re.findall(r"\bMAINT_[A-Z0-9_]+[A-Z]", path.read_text())}
    told = {bare(row[0]): bare(row[1]) for row in cells(topic("configuration"), columns=2)}
    assert {name for name in told if name.startswith("MAINT_")} == used
    assert set(GENERAL) <= used
    assert {name: told[name] for name in OVERRIDES} == OVERRIDES


def test_every_form_of_a_secret_reference_is_in_the_help() -> None:
    assert [form for form in FORMS.split(", ") if f"`{form}`" not in topic("configuration")] == []


def test_every_exit_code_is_in_the_help_and_in_the_readme() -> None:
    tree_of_failures = [MaintError]
    for kind in tree_of_failures:
        tree_of_failures += kind.__subclasses__()
    codes = {0, 70, 129, 130, 143} | {kind.exit_code for kind in tree_of_failures}
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", topic("exit-codes"), re.MULTILINE)}
    assert told == codes
    readme = (ROOT / "README.md").read_text()
    assert [code for code in codes if not re.search(rf"\| (\d+, )*{code}(, \d+)* \|", readme)] == []


def sections() -> dict[str, str]:
    return dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", topic("steps"), re.MULTILINE | re.DOTALL))


def test_every_step_kind_is_in_the_help_and_no_other() -> None:
    assert set(sections()) == set(STEPS)


@pytest.mark.parametrize("kind", list(STEPS))
def test_every_step_kind_is_told_with_its_effect_and_arguments(kind: str) -> None:
    step, section = STEPS[kind], sections()[kind]
    assert section.strip().startswith(step.effect.name)
    told = {bare(row[0]): row[2] for row in cells(section, columns=4)}
    assert set(told) == set(step.arguments.model_fields)
    for name, field in step.arguments.model_fields.items():
        assert (told[name] == "required") == field.is_required(), name


def test_every_shipped_playbook_is_in_the_help_with_its_parameters() -> None:
    rows = {bare(row[0]): row[1] for row in cells(topic("playbooks"), columns=4)}
    assert set(rows) == set(playbooks())
    library = load.Library(playbooks())
    for name, told in rows.items():
        assert re.findall("`([a-z_]+)`", told) == [item.name for item in library.load(name).parameters], name


def test_every_key_of_a_playbook_is_in_the_help() -> None:
    told = {bare(row[0]) for row in cells(topic("playbooks"), columns=2)}
    keys = {field.alias or name for model in (load._Playbook, load._Step) for name, field in model.model_fields.items()}
    assert told == keys
    models = (load._ParameterText, load._RetryText)
    inner = [field.alias or name for model in models for name, field in model.model_fields.items()]
    inner += load.ParameterType
    assert [key for key in inner if f"`{key}`" not in topic("playbooks")] == []


def test_every_switch_of_the_lab_is_in_the_help_with_its_default() -> None:
    told = {bare(row[0]): (bare(row[1]), row[2], row[3]) for row in cells(topic("lab"), columns=5)}
    assert told == {
        name: (switch.default, ", ".join(switch.allowed), switch.meaning) for name, switch in SWITCHES.items()
    }


def test_every_fault_of_the_lab_is_in_the_help() -> None:
    rows = {bare(row[0]): row[1:] for row in cells(topic("lab"), columns=4)}
    assert rows == {
        name: [fault.target, fault.meaning, fault.count] for name, fault in FAULTS.items() if fault.target != HOST
    }
    told = {bare(row[0]): row[1] for row in cells(topic("lab"), columns=2)}
    assert {name: fault.meaning for name, fault in HOST_FAULTS.items()}.items() <= told.items()
    assert [target for target in TARGETS if f"`{target}`" not in topic("lab")] == []


def test_every_command_that_a_text_names_exists() -> None:
    known, nouns = commands(), {name.split(" ")[0] for name in commands()}
    topics = {path.stem for path in HELP.glob("*.md")} - {"README"}
    wrong = []
    for where, noun, verb, _ in mentions():
        if noun == "help":
            wrong += [f"{where}: maint help {verb}"] if verb and verb not in topics else []
        elif noun not in nouns or (verb and noun != "version" and f"{noun} {verb}" not in known):
            wrong.append(f"{where}: maint {noun} {verb}".rstrip())
    assert wrong == []


def test_every_option_that_a_text_gives_to_a_command_exists() -> None:
    known, common = commands(), common_options()
    wrong = []
    for where, noun, verb, rest in mentions():
        options = options_in(re.split(r",? and |, |\)", rest)[0], before=r"\S")
        unknown = options - known.get(f"{noun} {verb}".strip(), options) - common
        wrong += [f"{where}: maint {noun} {verb} {option}" for option in sorted(unknown)]
    assert wrong == []


@pytest.mark.parametrize("room", ["cli", "config", "engine", "steps", "restore", "snapshots", "deployment"])
def test_every_flag_that_a_message_names_exists(room: str) -> None:
    known = set().union(common_options(), *commands().values())
    wrong = []
    for name, path in modules().items():
        if name.split(".")[1:2] == [room]:
            for number, text in strings(path):
                flags = {flag for flag in options_in(text, before=r"[\w-]") if re.match("--..", flag)} - known
                wrong += [f"{path.relative_to(ROOT)}:{number}: {flag}" for flag in sorted(flags)]
    assert wrong == []


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    lines = re.findall(r"^    (python3 -m venv .+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    demo, tests = lines
    assert demo.endswith(".venv/bin/maint lab demo")
    assert tests in (ROOT / ".ci/run").read_text()


def test_every_top_level_folder_says_how_to_add_to_it() -> None:
    folders = [path for path in ROOT.iterdir() if path.name in ("maint", "playbooks", "templates", "tests")]
    assert len(folders) == 4
    assert [path.name for path in folders if not (path / "README.md").is_file()] == []


def test_nothing_else_stands_at_the_top_level() -> None:
    allowed = {"pyproject.toml", "maint", "playbooks", "templates", "tests", "README.md", "LICENSE", "CHANGELOG.md"}
    assert {name for name in top_level() if not name.startswith(".")} == allowed


def top_level() -> set[str]:
    """Return what belongs to the project at its top level; where git cannot tell, all that is no product of a build."""
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        words = [git, "-c", f"safe.directory={ROOT}", "ls-files"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        return {name.split("/")[0] for name in listed}
    return {path.name for path in ROOT.iterdir() if path.name not in ("build", "dist", "PKG-INFO")}
