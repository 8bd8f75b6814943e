"""Small modules, small functions, a sentence on top of each, and no drawer for odds and ends."""

import ast
from collections import Counter
from statistics import median

from tests.house.source import functions, modules, tree


def test_no_module_is_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    folders = Counter(path.parent for path in modules().values())
    assert {str(folder): count for folder, count in folders.items() if count > 40} == {}


def test_no_function_is_long_and_most_are_short() -> None:
    lengths = {f"{name}.{function}": lines for name, path in modules().items() for function, lines in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > 60} == {}
    assert median(lengths.values()) <= 10


def test_every_module_says_on_top_what_it_is_for() -> None:
    for name, path in modules().items():
        assert (ast.get_docstring(tree(path)) or "").split("\n")[0].endswith((".", ":", "?")), name


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert [name for name in modules() if name.split(".")[-1] in ("utils", "common", "helpers", "base", "misc")] == []


def test_every_public_function_and_class_is_documented() -> None:
    missing = []
    for name, path in modules().items():
        for node in tree(path).body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if public and ast.get_docstring(node) is None:
                missing.append(f"{name}.{node.name}")
    assert missing == []
