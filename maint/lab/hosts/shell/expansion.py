"""Expand words: parameters, substitutions, field splitting, patterns and the files that they match."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from maint.lab.hosts.shell.state import ShellFailure, State
from maint.lab.hosts.shell.syntax import Arithmetic, Parameter, Part, Sequence, Substitution, Text, Word
from maint.lab.hosts.shell.tree import Tree

# A bracket that nothing closes is itself, as the name of the command `[`.
_MAGIC = re.compile(r"(?:\\.|[^\\*?\[]|\[(?!.+\]))*(?:[*?]|\[.+\])", re.DOTALL)
_PLAIN = re.compile(r"[^~\\*?\[]*|\[")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = str.maketrans({char: "\\" + char for char in "*?[]\\!-"})
_SEPARATORS = re.compile(r"[ \t\n]+")
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a - b * int(a / b),
}
_SET = re.compile(r"(!?)((?:\\.|[^\]\\\[])+)\]")


class _Fields:
    """Fields under construction; each is a pattern in which what was quoted is escaped."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._current: str | None = None

    def add(self, pattern: str) -> None:
        self._current = (self._current or "") + pattern

    def end(self) -> None:
        if self._current is not None:
            self.done.append(self._current)
        self._current = None

    def split(self, value: str) -> None:
        for place, piece in enumerate(_SEPARATORS.split(value)):
            if place:
                self.end()
            if piece:
                self.add(piece.replace("\\", "\\\\"))


class Expander:
    """Expands words for one shell; `substitute` runs commands in a subshell and returns their output."""

    def __init__(self, state: State, tree: Tree, substitute: Callable[[Sequence], str]) -> None:
        self._state = state
        self._tree = tree
        self._substitute = substitute

    def fields(self, words: tuple[Word, ...]) -> list[str]:
        """Return the fields that words become as arguments of a command."""
        found: list[str] = []
        for word in words:
            part = word[0] if len(word) == 1 else None
            if isinstance(part, Text) and (part.quoted or _PLAIN.fullmatch(part.text)):  # as most are
                found.append(part.text)
                continue
            for pattern in self._split(word):
                found.extend(self._globbed(pattern))
        return found

    def text(self, word: Word) -> str:
        return unescape(self.pattern(word))

    def pattern(self, word: Word) -> str:
        """Return a word as one pattern, as in `case`; quoted parts are escaped."""
        _refuse_home(word)
        return "".join(self._one(part) for part in word)

    def _globbed(self, pattern: str) -> list[str]:
        if is_magic(pattern):
            return glob(self._tree, self._state.cwd, pattern) or [unescape(pattern)]
        return [unescape(pattern)]

    def _split(self, word: Word) -> list[str]:
        _refuse_home(word)
        fields = _Fields()
        for part in word:
            if isinstance(part, Text):
                fields.add(escape(part.text) if part.quoted else part.text)
            else:
                self._expand_into(fields, part)
        fields.end()
        return fields.done

    def _expand_into(self, fields: _Fields, part: Part) -> None:
        if isinstance(part, Parameter) and part.name == "@" and part.quoted:
            for place, argument in enumerate(self._state.positional):
                if place:
                    fields.end()
                fields.add(escape(argument))
        elif isinstance(part, Text) or part.quoted:
            fields.add(escape(self._value(part)))
        elif isinstance(part, Parameter) and part.operator[-1:] in ("-", "+") and self._replaced(part):
            for inner in part.argument:
                if isinstance(inner, Text) and not inner.quoted:
                    fields.split(inner.text)
                else:
                    self._expand_into(fields, inner)
        elif self._state.variables.get("IFS", "") == " \t\n":
            fields.split(self._value(part))
        else:
            raise ShellFailure("separators of one's own (IFS): not simulated on a lab host")

    def _one(self, part: Part) -> str:
        if isinstance(part, Text):
            return escape(part.text) if part.quoted else part.text
        value = self._value(part)
        return escape(value) if part.quoted else value.replace("\\", "\\\\")

    def _value(self, part: Part) -> str:
        if isinstance(part, Text):
            return part.text
        if isinstance(part, Substitution):
            return self._substitute(part.body).rstrip("\n")
        if isinstance(part, Arithmetic):
            return str(evaluate(self.text(part.expression), self._state.variables))
        return self._parameter(part)

    def _parameter(self, part: Parameter) -> str:
        value, kind = self._lookup(part.name), part.operator.lstrip(":")
        if self._replaced(part):
            text = self.text(part.argument)
            if kind == "=":
                self._state.variables[part.name] = text
            return text
        if kind == "+":
            return ""
        if value is None and kind not in ("-", "=") and "u" in self._state.options and part.name != "@":
            raise ShellFailure(f"{part.name}: parameter not set")
        return _trimmed(value or "", self.pattern(part.argument), kind) if kind[:1] in ("#", "%") else value or ""

    def _replaced(self, part: Parameter) -> bool:
        """Return whether the argument of `${name-argument}`, or with `:=` or `+`, takes the value's place."""
        value = self._lookup(part.name)
        given = bool(value) if part.operator.startswith(":") else value is not None
        return part.operator[-1:] in ("-", "=", "+") and given == (part.operator[-1] == "+")

    def _lookup(self, name: str) -> str | None:
        state = self._state
        if name.isdigit():
            arguments = [state.name, *state.positional]
            return arguments[int(name)] if int(name) < len(arguments) else None
        if name == "@":
            return " ".join(state.positional)
        if name in "#?$!":
            return str({"#": len(state.positional), "?": state.status}.get(name, state.pid))
        return state.variables.get(name)


def _refuse_home(word: Word) -> None:
    first = word[0] if word else None
    if isinstance(first, Text) and not first.quoted and (first.text.startswith("~/") or first.text == "~"):
        raise ShellFailure("~: not simulated on a lab host")


def _trimmed(value: str, pattern: str, operator: str) -> str:
    whole = _regex(pattern)
    longest = len(operator) == 2
    places = range(len(value) + 1)
    if operator[0] == "#":
        ends = [end for end in (reversed(places) if longest else places) if whole.fullmatch(value[:end])]
        return value[ends[0] :] if ends else value
    starts = [start for start in (places if longest else reversed(places)) if whole.fullmatch(value[start:])]
    return value[: starts[0]] if starts else value


def escape(text: str) -> str:
    """Return a pattern that matches a text and nothing else."""
    return text.translate(_ESCAPES)


def unescape(pattern: str) -> str:
    """Return the text of a pattern whose magic is not wanted."""
    return _ESCAPED.sub(r"\1", pattern) if "\\" in pattern else pattern


def is_magic(pattern: str) -> bool:
    """Return whether a pattern can match anything but one text."""
    return not pattern.isalnum() and _MAGIC.match(pattern) is not None


@lru_cache(maxsize=512)
def _regex(pattern: str) -> "re.Pattern[str]":
    """Return a pattern as a regular expression without anchors; a set is taken as it stands, but for `!` and `\\`."""
    if "[:" in pattern:
        raise ShellFailure(f"{pattern}: classes of characters: not simulated on a lab host")
    done, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\" and at < len(pattern):
            done += re.escape(pattern[at])
            at += 1
        elif char == "[" and (found := _SET.match(pattern, at)):
            done += f"[{'^' if found[1] else ''}{found[2]}]"
            at = found.end()
        else:
            done += {"*": ".*", "?": "."}.get(char) or re.escape(char)
    return re.compile(done, re.DOTALL)


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text."""
    return _regex(pattern).fullmatch(text) is not None


def glob(tree: Tree, cwd: str, pattern: str) -> list[str]:
    """Return the sorted paths that a pattern matches; relative ones where it is relative."""
    parts = pattern.split("/")
    found = [""]
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        found = [path for base in found for path in _step(tree, cwd, base, part, place == 0, last)]
    return sorted(found)


def _step(tree: Tree, cwd: str, base: str, part: str, first: bool, last: bool) -> list[str]:
    if not is_magic(part):
        path = base + unescape(part)
        keep = last and (not part or tree.exists(_absolute(cwd, path), follow=False))
        return ([path] if keep else []) if last else [path + "/"]
    folder = _absolute(cwd, base) if base else ("/" if first and cwd == "/" else cwd)
    try:
        names = tree.names(folder)
    except OSError:
        return []
    visible = [n for n in names if matches(part, n) and (not n.startswith(".") or part.startswith("."))]
    if last:
        return [base + name for name in visible]
    return [f"{base}{n}/" for n in visible if _is_folder(tree, _absolute(cwd, base + n))]


def _is_folder(tree: Tree, path: str) -> bool:
    return tree.exists(path) and tree.entry(path).is_folder


def _absolute(cwd: str, path: str) -> str:
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def evaluate(expression: str, variables: Mapping[str, str]) -> int:
    """Return the value of whole numbers and variables under + - * / % and brackets; else ShellFailure."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Name(id=name) if re.fullmatch(r"-?\d+", text := variables.get(name, "0")):
                return int(text)
            case ast.BinOp(left, sign, right) if type(sign) in _OPERATIONS:
                return _OPERATIONS[type(sign)](value(left), value(right))
        raise ShellFailure(f"arithmetic expression: {expression!r}: not simulated on a lab host")

    try:
        return value(ast.parse(f"({expression.strip() or 0})", mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        raise ShellFailure(f'arithmetic expression: expecting primary: "{expression}"') from None
    except ZeroDivisionError:
        raise ShellFailure(f'arithmetic expression: division by zero: "{expression}"') from None
