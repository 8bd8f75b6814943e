"""Expand words: parameters, substitutions, field splitting, file names."""

from collections.abc import Callable

from maint.lab.hosts.shell.arithmetic import BadArithmetic, evaluate
from maint.lab.hosts.shell.patterns import escape, glob, is_magic, regex, unescape
from maint.lab.hosts.shell.state import ShellFailure, State
from maint.lab.hosts.shell.syntax import Arithmetic, Parameter, Part, Sequence, Substitution, Text, Word
from maint.lab.hosts.shell.tree import Tree


class _Fields:
    """Fields under construction; each is a pattern in which what was quoted is escaped."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._current: str | None = None
        self._blank = False

    def add(self, pattern: str) -> None:
        self._current = (self._current or "") + pattern
        self._blank = False

    def end(self) -> None:
        if self._current is not None:
            self.done.append(self._current)
        self._current = None

    def split(self, value: str, separators: str) -> None:
        for char in value:
            if char not in separators:
                self.add("\\\\" if char == "\\" else char)
            elif char in " \t\n":
                self._blank = self._blank or self._current is not None
                self.end()
            else:
                if self._current is None and not self._blank:
                    self.add("")
                self.end()
                self._blank = False


class Expander:
    """Expands words for one shell.

    Args:
        substitute: runs commands in a subshell and returns their output.
    """

    def __init__(self, state: State, tree: Tree, substitute: Callable[[Sequence], str]) -> None:
        self._state = state
        self._tree = tree
        self._substitute = substitute

    def fields(self, words: tuple[Word, ...]) -> list[str]:
        """Return the fields that words become as arguments of a command."""
        found: list[str] = []
        for word in words:
            for pattern in self._split(word):
                found.extend(self._globbed(pattern))
        return found

    def text(self, word: Word) -> str:
        """Return a word as one text, as in assignments."""
        return unescape(self.pattern(word))

    def pattern(self, word: Word) -> str:
        """Return a word as one pattern, as in `case`; quoted parts are escaped."""
        if word and isinstance(word[0], Text) and not word[0].quoted:
            word = (self._home(word[0], whole=len(word) == 1), *word[1:])
        return "".join(self._one(part) for part in word)

    def _globbed(self, pattern: str) -> list[str]:
        if is_magic(pattern) and "f" not in self._state.options:
            return glob(self._tree, self._state.cwd, pattern) or [unescape(pattern)]
        return [unescape(pattern)]

    def _split(self, word: Word) -> list[str]:
        fields = _Fields()
        for place, part in enumerate(word):
            if isinstance(part, Text):
                text = self._home(part, whole=len(word) == 1) if place == 0 else part
                fields.add(escape(text.text) if text.quoted else text.text)
            else:
                self._expand_into(fields, part)
        fields.end()
        return fields.done

    def _expand_into(self, fields: _Fields, part: Part) -> None:
        if isinstance(part, Parameter) and part.name in "@*" and (part.name == "@" or not part.quoted):
            if self._all_into(fields, part):
                return
        elif isinstance(part, Parameter) and part.operator.lstrip(":") in {"-", "+", "="} and not part.quoted:
            self._alternative_into(fields, part)
            return
        value = self._value(part)
        if isinstance(part, Text) or part.quoted:
            fields.add(escape(value))
        else:
            fields.split(value, self._separators())

    def _alternative_into(self, fields: _Fields, part: Parameter) -> None:
        value = self._lookup(part.name)
        given = bool(value) if part.operator[0] == ":" else value is not None
        if part.operator[-1] == "=" or (part.operator[-1] == "+") != given:
            fields.split(self._value(part), self._separators())
            return
        for inner in part.argument:
            if isinstance(inner, Text) and not inner.quoted:
                fields.split(inner.text, self._separators())
            else:
                self._expand_into(fields, inner)

    def _all_into(self, fields: _Fields, part: Parameter) -> bool:
        arguments = self._state.positional
        if part.operator and (part.operator.endswith("+") == bool(arguments) or part.operator[-1] not in "-+"):
            return False
        for place, argument in enumerate(arguments if not part.operator.endswith("+") else []):
            if place:
                fields.end()
            if part.quoted:
                fields.add(escape(argument))
            else:
                fields.split(argument, self._separators())
        return True

    def _separators(self) -> str:
        return self._state.variables.get("IFS", " \t\n")

    def _home(self, part: Text, *, whole: bool) -> Text:
        head, slash, rest = part.text.partition("/")
        if part.quoted or not head.startswith("~") or not (slash or whole):
            return part
        name = head[1:]
        home = (
            self._state.variables.get("HOME", "/root") if not name else "/root" if name == "root" else f"/home/{name}"
        )
        known = name in ("", "root") or self._tree.exists(home)
        return Text(home + slash + rest) if known else part

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
            try:
                return str(evaluate(self.text(part.expression), self._state.variables))
            except BadArithmetic as error:
                raise ShellFailure(f"arithmetic expression: {error}") from None
        return self._parameter(part)

    def _parameter(self, part: Parameter) -> str:
        value, operator = self._lookup(part.name), part.operator
        kind = operator.lstrip(":")
        given = bool(value) if operator.startswith(":") else value is not None
        if kind == "+":
            return self.text(part.argument) if given else ""
        if kind in ("-", "=", "?") and not given:
            return self._missing(part, kind)
        if value is None:
            if "u" in self._state.options and kind not in ("-", "=", "?") and part.name not in "@*":
                raise ShellFailure(f"{part.name}: parameter not set")
            value = ""
        if kind == "length":
            return str(len(value) if part.name not in "@*" else len(self._state.positional))
        if kind and kind[0] in "#%":
            return _trimmed(value, self.pattern(part.argument), kind)
        return value

    def _missing(self, part: Parameter, kind: str) -> str:
        text = self.text(part.argument)
        if kind == "?":
            raise ShellFailure(f"{part.name}: {text or 'parameter not set or null'}")
        if kind == "=":
            self._state.assign(part.name, text)
        return text

    def _lookup(self, name: str) -> str | None:
        state = self._state
        if name.isdigit():
            place = int(name)
            if place == 0:
                return state.name
            return state.positional[place - 1] if place <= len(state.positional) else None
        if name in ("@", "*"):
            separator = state.variables.get("IFS", " ")[:1] if name == "*" else " "
            return separator.join(state.positional) if state.positional else None
        special = {"#": len(state.positional), "?": state.status, "$": state.pid}
        if name in special:
            return str(special[name])
        if name == "-":
            return "".join(sorted(o for o in state.options if len(o) == 1))
        return state.variables.get(name)


def _trimmed(value: str, pattern: str, operator: str) -> str:
    whole = regex(pattern)
    longest = len(operator) == 2
    places = range(len(value) + 1)
    if operator[0] == "#":
        ends = [end for end in (reversed(places) if longest else places) if whole.fullmatch(value[:end])]
        return value[ends[0] :] if ends else value
    starts = [start for start in (places if longest else reversed(places)) if whole.fullmatch(value[start:])]
    return value[: starts[0]] if starts else value
