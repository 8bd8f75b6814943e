"""No inside word reaches a user: not in a message, not in a table, not on a help page, not under `--help`."""

import ast
import re

import pytest

from maint.cli.app import COMMANDS
from maint.cli.help.topics import names, text_of
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
