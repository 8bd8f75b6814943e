"""Values of awk: numbers, texts, and what is computed from them."""

import re
from collections.abc import Callable

from maint.lab.hosts.shell.call import Failed

Value = str | float
Evaluate = Callable[[], Value]


def number(value: Value) -> float:
    """Return a value as a number: what stands at its beginning."""
    if isinstance(value, float):
        return value
    found = re.match(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value)
    return float(found[0]) if found else 0.0


def text_of(value: Value) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def looks_numeric(value: Value) -> bool:
    """Return whether a value counts as a number in comparisons."""
    return isinstance(value, float) or re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", value) is not None


def true(value: Value) -> bool:
    """Return whether a value is true."""
    return value != 0 if isinstance(value, float) else value != ""


def applied(name: str, given: list[Value]) -> Value:
    """Return what a function makes of its arguments."""
    text = text_of(given[0])
    if name == "substr":
        start = int(number(given[1])) - 1
        end = start + int(number(given[2])) if len(given) > 2 else len(text)
        return text[max(0, start) : max(0, end)]
    if name == "index":
        return float(text.find(text_of(given[1])) + 1)
    simple: dict[str, Value] = {"length": float(len(text)), "tolower": text.lower(), "toupper": text.upper()}
    return simple[name] if name in simple else float(int(number(given[0])))


def logic(left: Evaluate, right: Evaluate, *, either: bool) -> Evaluate:
    """Return `left || right` or `left && right`."""
    if either:
        return lambda: float(true(left()) or true(right()))
    return lambda: float(true(left()) and true(right()))


def matched(left: Evaluate, regex: Callable[[], "re.Pattern[str]"], wanted: bool) -> Evaluate:
    """Return whether a text matches, or not."""
    return lambda: float((regex().search(text_of(left())) is not None) == wanted)


def concatenated(left: Evaluate, right: Evaluate) -> Evaluate:
    """Return two texts as one."""
    return lambda: text_of(left()) + text_of(right())


def calculated(left: Evaluate, right: Evaluate, operator: str) -> Evaluate:
    """Return the result of an arithmetic operator."""

    def value() -> Value:
        a, b = number(left()), number(right())
        if operator in "/%" and b == 0:
            raise Failed("division by zero", 2)
        return (
            {"+": a + b, "-": a - b, "*": a * b}[operator] if operator in "+-*" else a / b if operator == "/" else a % b
        )

    return value


def compared(left: Evaluate, right: Evaluate, operator: str) -> Evaluate:
    """Return the result of a comparison: of numbers if both look like some."""

    def value() -> Value:
        a, b = left(), right()
        if looks_numeric(a) and looks_numeric(b):
            order = (number(a) > number(b)) - (number(a) < number(b))
        else:
            order = (text_of(a) > text_of(b)) - (text_of(a) < text_of(b))
        holds = {"==": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
        return float(holds[operator])

    return value
