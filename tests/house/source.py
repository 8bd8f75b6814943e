"""The package's own source, read as the house rules see it."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "maint"


@cache
def modules() -> Mapping[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return MappingProxyType(found)


@cache  # several rules look at every module
def tree(path: Path) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse(path.read_text(), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a module's syntax tree, in any order: walking costs more than reading."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the dotted names that a module imports, wherever the import stands, except for typing alone."""
    found: list[str] = []
    for node in _running(tree(path)):
        if isinstance(node, ast.Import):
            found += (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return tuple(found)


def _running(module: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _running(node)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of lines of every function of a module, docstring left out."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node, clean=False) is not None
            skipped = 0
            if documented:
                first = node.body[0]
                skipped = (first.end_lineno or first.lineno) - first.lineno + 1
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1 - skipped
