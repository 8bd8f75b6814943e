"""Evaluate `$((…))`: C's integer operators on 64 bits."""

import operator
import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*"
    r"|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:(),])"
)
_BY_RANK = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
_LEVELS = tuple(tuple(level.split()) for level in _BY_RANK)


class BadArithmetic(Exception):
    """The expression makes no sense."""


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise BadArithmetic("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda a, b: a - _divide(a, b) * b,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


def evaluate(expression: str, variables: dict[str, str]) -> int:
    """Return the value; assignments change the variables.

    Raises:
        BadArithmetic: the expression makes no sense.
    """
    return _Evaluator(expression, variables).value()


def number(text: str) -> int:
    """Return the value of a constant: decimal, 0x… or 0….

    Raises:
        BadArithmetic: it is none.
    """
    text = text.strip()
    try:
        if re.fullmatch(r"[-+]?0\d+", text):
            return int(text, 8)
        return int(text, 0) if text else 0
    except ValueError:
        raise BadArithmetic(f"Illegal number: {text}") from None


class _Evaluator:
    def __init__(self, expression: str, variables: dict[str, str]) -> None:
        self._variables = variables
        self._tokens: list[str] = []
        self._text, at = expression, 0
        while at < len(expression.rstrip()):
            found = _TOKEN.match(expression, at)
            if not found:
                raise BadArithmetic(f'expecting primary: "{expression}"')
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0
        self._skipping = 0

    def value(self) -> int:
        if not self._tokens:
            return 0
        result = self._assignment()
        if self._at < len(self._tokens):
            raise BadArithmetic(f'expecting EOF: "{self._text}"')
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *tokens: str) -> str:
        if self._peek() in tokens and self._peek():
            self._at += 1
            return self._tokens[self._at - 1]
        return ""

    def _assignment(self) -> int:
        name = self._peek()
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        if re.fullmatch(r"[A-Za-z_]\w*", name) and after.endswith("=") and after not in ("==", "!=", "<=", ">="):
            self._at += 2
            value = self._assignment()
            if after != "=" and not self._skipping:
                value = _OPERATIONS[after[:-1]](self._read(name), value)
            return self._store(name, value)
        return self._ternary()

    def _ternary(self) -> int:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        yes = self._unless(not condition, self._assignment)
        if not self._take(":"):
            raise BadArithmetic(f"expecting ':': \"{self._text}\"")
        no = self._unless(bool(condition), self._assignment)
        return yes if condition else no

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while token := self._take(*_LEVELS[level]):
            skip = (token == "&&" and not left) or (token == "||" and bool(left))
            right = self._unless(skip, lambda: self._binary(level + 1))
            left = _wrap(_OPERATIONS[token](left, right if not self._skipping else right or 1))
        return left

    def _unless(self, skip: bool, work: Callable[[], int]) -> int:
        self._skipping += skip
        try:
            return work()
        finally:
            self._skipping -= skip

    def _unary(self) -> int:
        token = self._take("-", "+", "!", "~", "++", "--", "(")
        if token == "(":
            inner = self._assignment()
            if not self._take(")"):
                raise BadArithmetic(f"expecting ')': \"{self._text}\"")
            return inner
        if token in ("++", "--"):
            name = self._tokens[self._at]
            self._at += 1
            return self._store(name, self._read(name) + (1 if token == "++" else -1))
        if token:
            value = self._unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        return self._primary()

    def _primary(self) -> int:
        token = self._peek()
        if not token or not re.match(r"\w", token):
            raise BadArithmetic(f'expecting primary: "{self._text}"')
        self._at += 1
        if token[0].isdigit():
            return number(token)
        value = self._read(token)
        if step := self._take("++", "--"):
            self._store(token, value + (1 if step == "++" else -1))
        return value

    def _read(self, name: str) -> int:
        return number(self._variables.get(name, "0"))

    def _store(self, name: str, value: int) -> int:
        value = _wrap(value)
        if not self._skipping:
            self._variables[name] = str(value)
        return value


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
