"""Small modules, small functions, a sentence on top of each, and no drawer for odds and ends."""

import ast
from collections import Counter

from tests.house.count import late_imports
from tests.house.source import functions, modules, tree


def test_no_module_is_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    long = {name: length for name, length in lengths.items() if length > 500}
    assert long == {}, "move one of its subjects into the module of that subject, or into one of its own"


def test_the_product_has_few_files() -> None:
    assert len(modules()) <= 380, "put it into the module of its subject, or merge two that belong together"


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    folders = Counter(path.parent for path in modules().values())
    full = {str(folder): count for folder, count in folders.items() if count > 25}
    assert full == {}, "put it into the module of its subject, or what belongs together into a folder within"


def test_no_function_is_long() -> None:
    lengths = {f"{name}.{function}": lines for name, path in modules().items() for function, lines in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > 60} == {}, "give a part of it a name of its own"


def test_few_modules_are_imported_late() -> None:
    late = {name: late_imports(path) for name, path in modules().items()}
    assert sum(late.values()) <= 80, f"import it at the top of its module; these are imported late: {+Counter(late)}"


def test_every_module_says_on_top_what_it_is_for() -> None:
    tops = {name: (ast.get_docstring(tree(path)) or "").split("\n")[0] for name, path in modules().items()}
    silent = [name for name, top in tops.items() if not top.endswith((".", ":", "?"))]
    assert silent == [], "open it with one sentence, on one line"


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert [name for name in modules() if name.split(".")[-1] in ("utils", "common", "helpers", "base", "misc")] == []


def test_every_public_function_and_class_is_documented() -> None:
    missing = []
    for name, path in modules().items():
        for node in tree(path).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            # A port is what its adapters and its callers agree on, so each of its methods says what it is.
            inside = node.body if name.startswith("maint.ports") and isinstance(node, ast.ClassDef) else []
            methods = [one for one in inside if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
            missing += [f"{name}.{one.name}" for one in (node, *methods) if ast.get_docstring(one) is None]
    assert missing == []
