"""Every failure of ours says what to do next: with a hint where it is made, or with what is declared for its class."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

from maint import errors
from maint.cli.app import app
from maint.cli.open_site import _BARE
from tests.house.source import modules, nodes

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
