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
from maint.cli.boundary import EXIT_CODES
from maint.cli.command import loaded
from maint.cli.help.topics import TOPICS, names, text_of
from maint.config import sample
from maint.config.paths import playbooks
from maint.config.secrets import FORMS
from maint.engine import read_step
from maint.engine.expectations import ExpectationForm
from maint.errors import MaintError
from maint.lab.faults import FAULTS
from maint.lab.switches import SWITCHES
from maint.model.plan import ParameterType
from maint.steps.registry import STEPS
from tests.house.source import PACKAGE, ROOT, modules, nodes, tree

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


@cache
def topic(name: str) -> str:
    """Return a topic as it is shown."""
    return text_of(name)


def cells(text: str, *, columns: int) -> list[list[str]]:
    """Return the rows of all tables with so many columns, without their heads."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows if len(row) == columns]


def bare(cell: str) -> str:
    return cell.strip("`")


@cache
def commands() -> dict[str, set[str]]:
    """Return every command, `noun verb` or `noun group verb`, with its options."""
    built = {name: loaded(place).build(name) for name, (place, *_) in COMMANDS.items()}
    return {name: {word for option in one.params for word in option.opts} for name, one in built.items()}


def options_in(text: str, before: str = r"\w") -> set[str]:
    """Return the options that a text names; numbered ones as they are declared, with an N."""
    found = re.findall(rf"(?<!{before})--?[a-z][a-zA-Z0-9-]*", text)
    return {re.sub(r"-(\d+|X)-", "-N-", option) for option in found}


@cache
def common_options() -> frozenset[str]:
    return BUILT_IN | {word for option in get_command(app).params for word in option.opts}


@cache
def strings(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a module with their lines, docstrings among them; what is filled in reads as X."""
    parts: set[int] = set()
    found: list[tuple[int, str]] = []
    for node in nodes(path):
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


@pytest.mark.parametrize("name", names())
def test_a_topic_is_shown_with_its_tables(name: str) -> None:
    assert not re.search(r"^\{\{ [a-z ]+(: .+)? \}\}$", topic(name), re.MULTILINE)
    assert TOPICS[name]


def test_what_is_declared_is_in_the_help() -> None:
    assert [name for name in COMMANDS if f"\n    maint {name}" not in topic("commands")] == []
    assert [kind for kind in STEPS if f"\n## {kind}\n" not in topic("steps")] == []
    assert [name for name in (*SWITCHES, *FAULTS) if f"| `{name}` |" not in topic("lab")] == []
    keys = [key.name.removeprefix("sites.NAME.") for key in sample.reference()]
    untold = [key for key in keys if f"| `{key}` |" not in topic("configuration")]
    assert untold == [], "name it in a `{{ config: … }}` line of maint/help/configuration.md"
    assert [name for name in playbooks() if f"| `{name}` |" not in topic("playbooks")] == []


def test_every_argument_of_a_step_kind_says_what_it_means() -> None:
    fields = {f"{kind}: {name}": one for kind in STEPS for name, one in STEPS[kind].arguments.model_fields.items()}
    silent = [name for name, field in fields.items() if not field.description]
    assert silent == [], "give it a `Field(description=…)`"


def test_no_step_kind_writes_its_help_or_its_arguments_a_second_time() -> None:
    kinds = [
        (name, node) for name, path in modules().items() for node in tree(path).body if name.startswith("maint.steps")
    ]
    assigned = [
        f"{name}: {node.name}.{target.id}"
        for name, node in kinds
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id in ("help", "arguments")
    ]
    assert assigned == [], "the docstring is the help, and `Step[ARGUMENTS]` says the arguments"


def test_every_fact_of_a_server_that_the_code_cites_is_in_the_help() -> None:
    known = set(re.findall(r"^\| ([MJ]\d+(?:\.\d+)?) \|", topic("servers"), re.MULTILINE))
    cited = {key for path in modules().values() for key in re.findall(r"\b[MJ]\d{1,2}(?:\.\d+)?\b", path.read_text())}
    known |= {key.partition(".")[0] for key in known}
    assert cited - known == set(), "give it a row in maint/help/servers.md"


def test_every_environment_variable_is_in_the_help() -> None:
    used = {name for path in PACKAGE.rglob("*.py") for name in re.findall(r"\bMAINT_[A-Z0-9_]+[A-Z]", path.read_text())}
    untold = [name for name in used if f"`{name}`" not in topic("configuration")]
    assert untold == [], "declare it in GENERAL of config/precedence.py, or tell it in maint/help/configuration.md"


def test_every_file_that_a_run_keeps_in_a_state_folder_is_in_the_help() -> None:
    engine = [path for name, path in modules().items() if name.startswith("maint.engine.")]
    kept = {text for path in engine for _, text in strings(path) if re.fullmatch(r"[a-z-]+\.json", text)}
    assert len(kept) > 2
    assert [name for name in sorted(kept) if name not in topic("files")] == [], "give it a line in maint/help/files.md"


def test_every_form_of_a_secret_reference_is_in_the_help() -> None:
    assert [form for form in FORMS.split(", ") if f"`{form}`" not in topic("configuration")] == []


def test_every_exit_code_is_in_the_help_and_in_the_readme() -> None:
    tree_of_failures = [MaintError]
    for kind in tree_of_failures:
        tree_of_failures += kind.__subclasses__()
    codes = {0, 70, 129, 130, 143} | {kind.exit_code for kind in tree_of_failures}
    assert set(EXIT_CODES) == codes
    readme = (ROOT / "README.md").read_text()
    assert [code for code in codes if not re.search(rf"\| (\d+, )*{code}(, \d+)* \|", readme)] == []


def test_every_line_that_a_journal_may_hold_is_in_the_help_and_in_its_room() -> None:
    source = "".join(path.read_text() for path in (PACKAGE / "engine").glob("*.py"))
    lines = set(re.findall(r'write\((?:\s*index,\s*action,)?\s*"([a-z]+)"', source))
    assert "intent" in lines and "ended" in lines
    for text in (topic("files"), (PACKAGE / "engine" / "README.md").read_text()):
        told = {bare(first) for first, *_ in (*cells(text, columns=2), *cells(text, columns=3))}
        assert lines <= told, lines - told


def test_every_key_of_a_playbook_is_in_the_help() -> None:
    told = {bare(row[0]) for row in cells(topic("playbooks"), columns=2)}
    keys = {
        field.alias or name
        for model in (read_step.PlaybookForm, read_step.StepForm, ExpectationForm)
        for name, field in model.model_fields.items()
    }
    assert told == keys
    models = (read_step.ParameterForm, read_step.RetryForm)
    inner = [field.alias or name for model in models for name, field in model.model_fields.items()]
    inner += ParameterType
    assert [key for key in inner if f"`{key}`" not in topic("playbooks")] == []


def test_every_command_that_a_text_names_exists() -> None:
    known, nouns = commands(), {name.split(" ")[0] for name in commands()}
    topics = {path.stem for path in HELP.glob("*.md")} - {"README"} | {"changelog"}
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


# Options of pip, which the supply of other machines is told with.
OF_PIP = {"--only-binary", "--no-deps", "--require-hashes", "--dest", "--wheel-dir", "--no-build-isolation",
          "--python-version", "--hash"}  # fmt: skip


@pytest.mark.parametrize("room", ["cli", "config", "engine", "steps", "restore", "snapshots", "deployment"])
def test_every_flag_that_a_message_names_exists(room: str) -> None:
    known = set().union(common_options(), OF_PIP, *commands().values())
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


READMES = [path for path in TEXTS if path.name == "README.md" and "data" not in path.relative_to(ROOT).parts]
# What lies on a virtual cluster of the lab, and what a test of Airflow makes.
ELSEWHERE = {"nightly_pipeline.py", "sitecustomize.py"}


def meant(readme: Path, name: str) -> list[Path]:
    """Return the files and folders that a README may mean: in its room or its room's tests, or above these."""
    room = readme.parent.relative_to(ROOT)
    rooms = [ROOT / room, ROOT / "tests" / Path(*room.parts[1:])]
    above = [one for start in rooms for one in (start, *start.parents) if one.is_relative_to(ROOT)]
    within = [one for start in rooms if room.parts for one in start.rglob(Path(name).name) if one.match(name)]
    tops = [ROOT / "maint", ROOT / "templates"]
    return [one / name for one in (*above, *tops) if (one / name).exists()] + within


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT).parent))
def test_every_file_and_every_name_in_a_file_that_a_readme_names_exists(readme: Path) -> None:
    text = " ".join(readme.read_text().split())
    named = set(re.findall(r"`((?:\.\./)?[\w./-]+(?:\.(?:py|j2|md|toml)|(?<=[a-z])/))[`:]", text))
    named |= set(re.findall(r"`((?:maint|tests|templates|playbooks)/[\w./-]+)`", text))
    named = {name for name in named - ELSEWHERE if not (name[0] == "/" or "NAME." in name)}
    assert sorted(name for name in named if not meant(readme, name)) == []
    pairs = re.findall(r"`(\w+)` (?:in|of|\() ?`([\w./-]+\.\w+)`", text)
    pairs += [(name, file) for file, name in re.findall(r"`([\w./-]+\.py)(?:`:? `|::)(\w+)", text)]
    files = {file: [one.read_text() for one in meant(readme, file) if one.is_file()] for _, file in pairs}
    assert [f"{file}: {name}" for name, file in pairs if not any(name in content for content in files[file])] == []


def test_nothing_else_stands_at_the_top_level() -> None:
    allowed = {"pyproject.toml", "maint", "playbooks", "templates", "tests", "README.md", "LICENSE", "CHANGELOG.md"}
    assert {name for name in top_level() if not name.startswith(".")} == allowed


def top_level() -> set[str]:
    """Return what belongs to the project at its top level; where git cannot tell, all but products of a build."""
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        words = [git, "-c", f"safe.directory={ROOT}", "ls-files"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        return {name.split("/")[0] for name in listed}
    return {path.name for path in ROOT.iterdir() if path.name not in ("build", "dist", "PKG-INFO")}


def test_what_other_tools_have_is_here_under_a_name_that_exists_or_is_said_not_to_be() -> None:
    rows = [[cell.strip() for cell in line.split(" | ")] for line in topic("peers").splitlines() if line[:2] == "| "]
    rows = [row for row in rows if row[0] != "| feature"]
    strange = []
    for feature, _, here, more in rows:
        named = re.findall(r"`maint ([a-z-]+(?: [a-z-]+)*)|`([a-z]+\.[a-z_]+|approve)`", here)
        known = [_command(words) in COMMANDS if words else kind in STEPS for words, kind in named]
        if more.rstrip(" |") not in names() or not (here.startswith("no: ") or (known and known[0])):
            strange.append(feature)
    assert strange == []
    assert len(rows) >= 61


def _command(words: str) -> str:
    """Return the command that some words begin with."""
    parts = words.split()
    return next((" ".join(parts[:size]) for size in (3, 2, 1) if " ".join(parts[:size]) in COMMANDS), "")
