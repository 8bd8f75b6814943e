"""Count what the house is made of: `python -m tests.house.count` prints a line a room.

Code is what is left without blanks, comments and docstrings, as the syntax tree and the tokens tell.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.source import PACKAGE, tree

_QUIET = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


class Counted(NamedTuple):
    """What one or more modules are made of."""

    files: int = 0
    code: int = 0
    docstrings: int = 0
    lines: int = 0
    late_imports: int = 0

    def plus(self, other: "Counted") -> "Counted":
        """Return both together."""
        return Counted(*(mine + its for mine, its in zip(self, other, strict=True)))


def counted(path: Path) -> Counted:
    """Count one module."""
    text = path.read_text()
    documented = set(_docstring_lines(tree(path)))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _QUIET:
            code.update(range(token.start[0], token.end[0] + 1))
    return Counted(1, len(code - documented), len(documented), len(text.splitlines()), late_imports(path))


def _docstring_lines(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def late_imports(path: Path) -> int:
    """Count the imports within functions of one module."""
    return sum(1 for _ in _late_imports(tree(path), within=False))


def _late_imports(node: ast.AST, *, within: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if within and isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from _late_imports(child, within=within or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def rooms() -> dict[str, Counted]:
    """Return what each room, with the rooms in it, is made of; `maint` is the whole."""
    found: dict[str, Counted] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).parts[:-1]
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            found[name] = found.get(name, Counted()).plus(counted(path))
    return found


if __name__ == "__main__":
    for name, room in sorted(rooms().items()):
        share = 100 * room.docstrings / room.lines
        print(
            f"{name:40} {room.files:4} files {room.code:6} code {room.lines:6} lines"
            f" {share:5.1f} % docstrings {room.late_imports:3} late imports"
        )
