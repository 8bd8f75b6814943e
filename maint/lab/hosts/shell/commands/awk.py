"""awk: patterns, print, printf, assignments, if, comparisons, fields, a few functions; no arrays, no loops."""

import re
from collections.abc import Callable, Iterator

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of
from maint.lab.hosts.shell.commands.awk_values import (
    Evaluate,
    Value,
    applied,
    calculated,
    compared,
    concatenated,
    logic,
    matched,
    number,
    text_of,
    true,
)
from maint.lab.hosts.shell.commands.search import compiled
from maint.lab.hosts.shell.formatting import printf, unescaped

_TOKEN = re.compile(
    r"[ \t]*(?:#[^\n]*)?((?:\"(?:\\.|[^\"\\])*\")|\d+\.?\d*|[A-Za-z_]\w*"
    r"|[-+*/%=!<>]=|!~|&&|\|\||\+\+|--|[-+*/%(){};,$<>!~?:=\n|]|$)"
)
_FUNCTIONS = ("length", "substr", "tolower", "toupper", "index", "int", "gsub", "sub")


def awk(call: Call) -> int:
    """`awk [-F SEPARATOR] [-v NAME=VALUE]… PROGRAM [FILE…]`."""
    options = call.options("", "Fv", mixed=False)
    operands = list(options.operands)
    if not operands:
        raise Failed("usage: awk [-F fs][-v var=value] prog [file ...]", 2)
    program = _Program(call, operands.pop(0))
    program.variables["FS"] = unescaped(options.get("F", " "), zero=False)[0]
    for given in options.all("v"):
        name, _, value = given.partition("=")
        program.variables[name] = unescaped(value, zero=False)[0]
    return program.run(operands)


class _Next(Exception):
    """`next`."""


class _Exit(Exception):
    """`exit`."""


class _Program:
    """A program, parsed into closures over its own state."""

    def __init__(self, call: Call, source: str) -> None:
        self._call, self._source, self._at = call, source, 0
        self.variables: dict[str, Value] = {"OFS": " ", "ORS": "\n", "NR": 0.0, "NF": 0.0, "FNR": 0.0, "FILENAME": ""}
        self._line, self._fields, self._status = "", list[str](), 0
        self._rules: list[tuple[str, Evaluate | None, Callable[[], None]]] = []
        while self._peek(skip_lines=True):
            self._rules.append(self._rule())

    def run(self, operands: list[str]) -> int:
        try:
            self._phase("BEGIN")
            if any(kind != "BEGIN" for kind, _, _ in self._rules):
                for line in self._lines(operands):
                    self._set_line(line)
                    self._record()
            self._phase("END")
        except _Exit:
            pass
        return self._status

    def _lines(self, operands: list[str]) -> Iterator[str]:
        inputs = self._call.inputs(operands)
        for name, data in inputs.each():
            self.variables["FILENAME"], self.variables["FNR"] = name, 0.0
            for line in lines_of(data):
                for counter in ("NR", "FNR"):
                    self.variables[counter] = number(self.variables[counter]) + 1
                yield line
        self._status = 2 if inputs.status else 0

    def _phase(self, kind: str) -> None:
        for name, _, action in self._rules:
            if name == kind:
                action()

    def _record(self) -> None:
        try:
            for kind, pattern, action in self._rules:
                if kind == "" and (pattern is None or true(pattern())):
                    action()
        except _Next:
            return

    def _set_line(self, line: str) -> None:
        self._line, separator = line, text_of(self.variables["FS"])
        if separator == " ":
            self._fields = line.split()
        elif len(separator) == 1:
            self._fields = line.split(separator) if line else []
        else:
            self._fields = compiled(separator, extended=True).split(line) if line else []
        self.variables["NF"] = float(len(self._fields))

    # parsing

    def _peek(self, *, skip_lines: bool = False) -> str:
        while True:
            found = _TOKEN.match(self._source, self._at)
            if not found:
                raise NotSimulated(f"syntax near {self._source[self._at : self._at + 20]!r}")
            if found[1] == "\n" and skip_lines:
                self._at = found.end()
                continue
            return found[1]

    def _take(self, *tokens: str, skip_lines: bool = False) -> str:
        token = self._peek(skip_lines=skip_lines)
        if token not in tokens or not token:
            return ""
        return self._advance()

    def _advance(self) -> str:
        found = _TOKEN.match(self._source, self._at)
        assert found
        self._at = found.end()
        return found[1]

    def _need(self, token: str) -> None:
        if not self._take(token, skip_lines=True):
            raise NotSimulated(f"syntax near {self._source[self._at : self._at + 20]!r}")

    def _rule(self) -> tuple[str, Evaluate | None, Callable[[], None]]:
        kind = self._take("BEGIN", "END", skip_lines=True)
        pattern = None if kind or self._peek() == "{" else self._expression()
        action = self._block() if self._peek() == "{" else self._show
        while self._take(";", "\n"):
            pass
        return kind, pattern, action

    def _show(self) -> None:
        self._call.out(self._line + text_of(self.variables["ORS"]))

    def _block(self) -> Callable[[], None]:
        self._need("{")
        steps: list[Callable[[], None]] = []
        while not self._take("}", skip_lines=True):
            if self._take(";"):
                continue
            steps.append(self._statement())

        def run() -> None:
            for step in steps:
                step()

        return run

    def _statement(self) -> Callable[[], None]:
        if self._peek(skip_lines=True) == "{":
            return self._block()
        if self._take("if"):
            return self._if()
        if word := self._take("print", "printf"):
            return self._print(word)
        if self._take("next"):
            return _raise_next
        if self._take("exit"):
            code = None if self._peek() in (";", "}", "\n", "") else self._expression()
            return lambda: self._leave(code)
        if word := self._take("for", "while", "do", "delete", "getline", "function", "return"):
            raise NotSimulated(word)
        value = self._expression()
        return lambda: _forget(value())

    def _leave(self, code: Evaluate | None) -> None:
        self._status = int(number(code())) if code else 0
        raise _Exit

    def _if(self) -> Callable[[], None]:
        self._need("(")
        condition = self._expression()
        self._need(")")
        yes = self._statement()
        mark = self._at
        while self._take(";", "\n"):
            pass
        no = self._statement() if self._take("else") else None
        if no is None:
            self._at = mark

        def run() -> None:
            if true(condition()):
                yes()
            elif no:
                no()

        return run

    def _print(self, word: str) -> Callable[[], None]:
        bracketed = self._peek() == "(" and self._closes_statement()
        if bracketed:
            self._need("(")
        values: list[Evaluate] = []
        while self._peek() not in (";", "}", "\n", "", ")", ">", "|"):
            values.append(self._expression(relational=bracketed))
            if not self._take(","):
                break
        if bracketed:
            self._need(")")
        if self._peek() in (">", "|"):
            raise NotSimulated("output to a file or command")

        def run() -> None:
            shown = [text_of(value()) for value in values]
            if word == "printf":
                printf(self._call.again("printf", ["--", *shown]))
            else:
                text = text_of(self.variables["OFS"]).join(shown) if shown else self._line
                self._call.out(text + text_of(self.variables["ORS"]))

        return run

    def _closes_statement(self) -> bool:
        depth = 0
        for place in range(self._at, len(self._source)):
            depth += {"(": 1, ")": -1}.get(self._source[place], 0)
            if depth == 0 and self._source[place] == ")":
                return self._source[place + 1 :].lstrip(" \t")[:1] in ("", ";", "}", "\n")
        return False

    def _expression(self, *, relational: bool = True) -> Evaluate:
        left = self._or(relational)
        if self._take("?"):
            yes = self._expression()
            self._need(":")
            no = self._expression()
            return lambda: yes() if true(left()) else no()
        return left

    def _or(self, relational: bool) -> Evaluate:
        left = self._and(relational)
        while self._take("||"):
            left = logic(left, self._and(relational), either=True)
        return left

    def _and(self, relational: bool) -> Evaluate:
        left = self._match(relational)
        while self._take("&&"):
            left = logic(left, self._match(relational), either=False)
        return left

    def _match(self, relational: bool) -> Evaluate:
        left = self._comparison(relational)
        while operator := self._take("~", "!~"):
            regex = self._regex() if self._at_regex() else self._dynamic(self._comparison(relational))
            left = matched(left, regex, operator == "~")
        return left

    def _dynamic(self, value: Evaluate) -> Callable[[], "re.Pattern[str]"]:
        return lambda: compiled(text_of(value()), extended=True)

    def _at_regex(self) -> bool:
        return self._source[self._at :].lstrip(" \t").startswith("/")

    def _regex(self) -> Callable[[], "re.Pattern[str]"]:
        found = re.compile(r"[ \t]*/((?:\\.|\[[^\]]*\]|[^/\\])*)/").match(self._source, self._at)
        if not found:
            raise Failed("unterminated regular expression", 2)
        self._at = found.end()
        pattern = compiled(found[1].replace("\\/", "/"), extended=True)
        return lambda: pattern

    def _comparison(self, relational: bool) -> Evaluate:
        left = self._joined(relational)
        operators = ("==", "!=", "<=", ">=", "<") + ((">",) if relational else ())
        if operator := self._take(*operators):
            return compared(left, self._joined(relational), operator)
        return left

    def _joined(self, relational: bool) -> Evaluate:
        left = self._sum()
        while (token := self._peek()) and (token[0] in '"$(' or re.match(r"\w", token)) and token not in ("in", "else"):
            left = concatenated(left, self._sum())
        del relational
        return left

    def _sum(self) -> Evaluate:
        left = self._product()
        while operator := self._take("+", "-"):
            left = calculated(left, self._product(), operator)
        return left

    def _product(self) -> Evaluate:
        left = self._unary()
        while operator := self._take("*", "/", "%"):
            left = calculated(left, self._unary(), operator)
        return left

    def _unary(self) -> Evaluate:
        if self._take("!"):
            inner = self._unary()
            return lambda: float(not true(inner()))
        if sign := self._take("-", "+"):
            inner = self._unary()
            return lambda: -number(inner()) if sign == "-" else number(inner())
        return self._primary()

    def _primary(self) -> Evaluate:
        if self._at_regex():
            regex = self._regex()
            return lambda: float(regex().search(self._line) is not None)
        token = self._advance()
        if token == "(":
            inner = self._expression()
            self._need(")")
            return inner
        if token == "$":
            return self._field(self._unary())
        if token.startswith('"'):
            text = unescaped(token[1:-1], zero=False)[0]
            return lambda: text
        if token[:1].isdigit():
            number = float(token)
            return lambda: number
        if token in _FUNCTIONS:
            return self._function(token)
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            return self._variable(token)
        raise NotSimulated(f"syntax near {token!r}")

    def _field(self, place_of: Evaluate) -> Evaluate:
        if self._peek() == "=":
            raise NotSimulated("assigning a field")

        def value() -> Value:
            place = int(number(place_of()))
            return self._line if place == 0 else self._fields[place - 1] if place <= len(self._fields) else ""

        return value

    def _variable(self, name: str) -> Evaluate:
        if self._source[self._at : self._at + 1] in ("(", "["):
            raise NotSimulated(f"{name}{self._source[self._at]}")
        if operator := self._take("=", "+=", "-=", "*=", "/="):
            right = self._expression()
            value = right if operator == "=" else calculated(self._read(name), right, operator[0])
            return lambda: self._store(name, value())
        if step := self._take("++", "--"):
            return lambda: self._stepped(name, 1 if step == "++" else -1)
        return self._read(name)

    def _read(self, name: str) -> Evaluate:
        return lambda: self.variables.get(name, "")

    def _store(self, name: str, value: Value) -> Value:
        self.variables[name] = value
        return value

    def _stepped(self, name: str, step: int) -> Value:
        before = number(self.variables.get(name, ""))
        self.variables[name] = before + step
        return before

    def _function(self, name: str) -> Evaluate:
        if name in ("gsub", "sub"):
            raise NotSimulated(f"function {name}")
        arguments: list[Evaluate] = []
        if self._take("("):
            while not self._take(")"):
                arguments.append(self._expression())
                self._take(",")
        return lambda: applied(name, [a() for a in arguments] or [self._line])


def _forget(value: Value) -> None:
    del value


def _raise_next() -> None:
    raise _Next
