"""No inside word reaches a user: not in a message, not in a table, not on a help page, not under `--help`. And every
failure of ours says what to do next: with a hint where it is made, or with what is declared for its class.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from maint import errors
from maint.cli.app import COMMANDS, app
from maint.cli.help.topics import names, text_of
from maint.cli.open_site import _BARE
from maint.steps.registry import STEPS
from tests.house.source import modules, nodes
from tests.steps.operator import maint

# Sections of what the servers do (`maint help servers` has their index), types of Python, and how it spells "nothing".
INSIDE = re.compile(
    r"contract section|§|\b[JM]\d{1,2}\.\d|\bU\d{1,2}\b|<(list|int|str)\b|\bNone\b(?! in date)|invalid literal"
)
USAGE = re.compile(r"(?<!\{)\{[A-Za-z_]+\}|<[^>]+>|\bNone\b|[<>]=?x\b|\bx[<>]")


def messages(path):
    """Yield the texts of a module that are neither docstrings nor annotations."""
    passed = set()
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            passed |= {id(part.value) for part in node.body if isinstance(part, ast.Expr)}
        for field in ("annotation", "returns", "slice"):
            if (found := getattr(node, field, None)) is not None:
                passed |= {id(part) for part in ast.walk(found)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.value


def test_no_message_names_a_section_or_a_type():
    # The lab says which section each of its switches stands for, in a column of its own that nobody is shown.
    rooms = {name: path for name, path in modules().items() if not name.startswith("maint.lab")}
    found = {name: text for name, path in rooms.items() for text in messages(path) if INSIDE.search(text)}
    inside = {name: text for name, text in found.items() if "If-None-Match" not in text}
    assert inside == {}, "say it in an operator's words; sections of servers are named in docstrings"


# Where the name of a failure's class is told, or chooses our own words: crash reports, and what is not a failure.
CLASSES = {
    "maint.cli.boundary: type(error).__name__", "maint.engine.run: type(error).__name__",
    "maint.cli.after_run: type(failure).__name__", "maint.plugins: type(error).__name__",
    "maint.config.secrets: type(error).__name__", "maint.adapters.ssh.connections: type(error).__name__",
    "maint.model.secret: type(self).__name__", "maint.render: type(statement).__name__",
}  # fmt: skip


def test_no_message_names_a_class_of_python():
    found = {
        f"{name}: {ast.unparse(node)}"
        for name, path in modules().items()
        if not name.startswith("maint.lab")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr == "__name__" and ast.unparse(node.value).startswith("type(")
    }
    assert found == CLASSES, "say it in words; what chooses or reports our own is in CLASSES"


def test_no_help_page_names_what_only_the_index_of_sections_explains():
    found = {name: found[0] for name in names() if name not in ("servers", "lab") for found in INSIDE.finditer(
        re.sub(r"`[^`]*`", "", text_of(name)))}  # fmt: skip
    assert found == {}, "say it in words, or name the section in backticks"


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_usage_shows_placeholders_and_no_types(words):
    said = maint(*words.split(), "--help")
    assert said.code == 0
    assert USAGE.findall(said.out) == []


def test_no_step_kind_is_described_twice():
    headings = re.findall(r"^## (\S+)$", text_of("steps"), re.MULTILINE)
    assert sorted(headings) == sorted(STEPS)


# Counts that are above one wherever they are told.
SEVERAL = {
    "maint.checks.network: len(short) characters", "maint.checks.ecs_plan: len(domain) characters",
    "maint.checks.ecs_plan: len(found) hosts", "maint.cli.playbooks.lint: len(mistakes) mistakes",
    "maint.cli.run_playbook: len(found) runs", "maint.cli.packaging: len(tested().splitlines()) wheels",
    "maint.deployment.normalize: len(text) characters", "maint.engine.past_runs: len(matching) runs",
    "maint.model.keytab: len(key) bytes", "maint.restore.host_mapping: len(found) hosts",
    "maint.snapshots.catalogue: len(fitting) snapshots", "maint.steps.manager.server: len(instances) servers",
    "maint.steps.services.places: len(found) clusters", "maint.steps.services.places: len(found) services",
}  # fmt: skip
COUNTED = re.compile(r" [a-z]+s\b(?! than)")


def counted(path):
    """Yield numbers that are worked out on the spot, each with what stands behind it: `{len(hosts)} hosts`."""
    for node in nodes(path):
        for number, words in zip(node.values, node.values[1:], strict=False) if isinstance(node, ast.JoinedStr) else ():
            value = number.value if isinstance(number, ast.FormattedValue) else None
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "len" and isinstance(words, ast.Constant):
                yield ast.unparse(value), words.value


def test_one_of_a_kind_is_told_without_the_s_of_several():
    found = {
        f"{name}: {number}{noun[0]}"
        for name, path in modules().items()
        if not name.startswith("maint.lab")
        for number, words in counted(path)
        if (noun := COUNTED.match(words))
    }
    assert found == SEVERAL, "count with `show_count`; what is never one is in SEVERAL"


# -- what to do next

OURS = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.MaintError)}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _failures() -> set[str]:
    """Return the names of all classes of the error tree, those that rooms add to it too."""
    found, before = set(OURS), 0
    classes = [node for path in modules().values() for node in nodes(path) if isinstance(node, ast.ClassDef)]
    while len(found) > before:
        before = len(found)
        found |= {one.name for one in classes if any(_name(base) in found for base in one.bases)}
    return found


def _made(path: Path, names: set[str]) -> Iterator[ast.Call]:
    yield from (one for one in nodes(path) if isinstance(one, ast.Call) and _name(one.func) in names)


def _says_what_next(call: ast.Call) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    if None in given:  # handed on as a whole
        return True
    hint = given.get("hint")
    perhaps = isinstance(hint, ast.Call) and _name(hint.func) == "get" and len(hint.args) == 1
    if hint is not None and not perhaps and not (isinstance(hint, ast.Constant) and not hint.value):
        return True
    kind = getattr(errors, _name(call.func), None)
    return bool(getattr(kind, "otherwise", "")) or (kind is errors.Invalid and "at" in given)


def test_every_failure_says_what_to_do_next():
    names = _failures()
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)[:90]}"
        for name, path in modules().items()
        for call in _made(path, names)
        if not _says_what_next(call)
    ]
    assert found == [], "give it a `hint=`: what its reader does next"


def test_a_mistake_in_a_file_names_the_place_to_correct():
    at = errors.Position("site.yaml", 3, 5)
    assert errors.Invalid("that is not a number", at=at).way_on == "correct site.yaml at that place, then run it again"
    assert errors.Invalid("that is not a number", at=at, hint="write 5").way_on == "write 5"


def test_the_rule_finds_a_failure_without_a_hint():
    call = ast.parse("WorkFailed('it broke')").body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    assert not _says_what_next(call.value)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each text of a module with its line, docstrings apart; what is filled in reads X."""
    docs = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in nodes(path) if isinstance(node, ast.JoinedStr)
    }
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | inside:
            yield node.lineno, node.value


def test_a_command_among_other_words_stands_in_backticks_so_that_it_gets_its_site():
    bare = re.compile(
        r"(?<![\w/.-])maint (?:backup|restore|manager|host|cluster|playbook|vc|site|doctor|schedule) [a-z]"
    )
    found = [
        f"{name}:{line}: {text[:90]}"
        for name, path in modules().items()
        if not name.startswith("maint.lab") and name != "maint.report.recovery"  # a page gives each command its site
        for line, text in _texts(path)
        if bare.search(re.sub(r"`[^`]*`", "", text)) and not _BARE.fullmatch(text.removesuffix("X").strip())
    ]
    assert found == [], "write it in backticks: `maint backup list`"


# Commands that a hint only names, since what they are about is not known where it is made.
NAMED = {
    "maint NOUN VERB --help",  # a form
    "maint config init --help",  # every command has that one
    "maint vc resource upload",
    "maint vc resource describe",
    "maint vc job create",
    "maint backup release",
    "maint backup hold",
    "maint lab upX",
}


def _lacking(command: str) -> str:
    """Return why a command that a hint tells cannot be typed as it stands; "" where it can, arguments apart."""
    node: Any = get_command(app)
    words = command.split()[1:]
    while hasattr(node, "get_command"):  # a group
        if not words or words[0].startswith(("-", "X")):
            return ""
        found = node.get_command(Context(node), words.pop(0))
        if found is None:
            return "there is no such command"
        node = found
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    options = [one for one in node.params if one.param_type_name == "option"]
    strange = given - {name for one in options for name in (*one.opts, *one.secondary_opts)}
    lacking = [one.opts[0] for one in options if one.required and not given.intersection(one.opts)]
    return " ".join([*(f"has no {name}" for name in sorted(strange)), *(f"lacks {name}" for name in lacking)])


def test_a_command_that_a_hint_tells_exists_with_its_options_and_has_those_that_it_needs():
    found = [
        f"{name}:{line}: {command}: {why}"
        for name, path in modules().items()
        for line, text in _texts(path)
        for command in re.findall(r"`(maint [^`]*)`", text)
        if command not in NAMED and (why := _lacking(command))
    ]
    assert found == [], "write what can be typed; what only names a command is in NAMED"
