"""Filters of lists: `field[operator]argument` (contract on the jobs API, section 3.4)."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from maint.lab.manager.document import Doc

Match = Callable[[Doc], bool]
_TERM = re.compile(r"([A-Za-z][\w.]*)\[(\w+)\](.*)", re.DOTALL)


class BadFilter(ValueError):
    """A filter that the server does not understand."""


def parse(terms: Sequence[str]) -> Match:
    """Return what tells whether an object is let through by all terms.

    Raises:
        BadFilter: a term makes no sense.
    """
    matches = [_term(term) for term in terms]
    return lambda entry: all(match(entry) for match in matches)


def order(field: str) -> Callable[[Doc], Any]:  # Any: a key that sorts
    """Return the key that sorts objects by a field: what lacks it, then numbers, then texts."""

    def key(entry: Doc) -> tuple[int, float, str]:
        value = value_of(entry, field)
        if isinstance(value, int | float):
            return (1, value, "")
        return (2, 0, str(value)) if value else (0, 0, "")

    return key


def value_of(entry: Doc, field: str) -> Any:  # Any: what JSON can spell
    """Return the value of a dotted field, None where there is none; names count without regard to case."""
    value: Any = entry
    for name in field.split("."):
        if not isinstance(value, dict):
            return None
        if name not in value:
            name = next((key for key in value if key.lower() == name.lower()), "")
        value = value.get(name) if name != "_" else None
    return value


def _term(term: str) -> Match:
    found = _TERM.fullmatch(term)
    if not found:
        raise BadFilter(f"invalid filter {term!r}")
    field, operator, argument = found.groups()
    if operator not in OPERATORS:
        raise BadFilter(f"invalid filter operator {operator!r}")
    test = OPERATORS[operator](argument)
    return lambda entry: test(value_of(entry, field))


Test = Callable[[Any], bool]


def _comparison(holds: Callable[[int], bool]) -> Callable[[str], Test]:
    return lambda argument: lambda value: holds(_compare(value, argument))


def _among(inside: bool) -> Callable[[str], Test]:
    def make(argument: str) -> Test:
        words = [word.strip() for word in argument.split(",")]
        return lambda value: any(_compare(value, word) == 0 for word in words) == inside

    return make


def _like(argument: str) -> Test:
    parts = [{"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in argument]
    pattern = re.compile("".join(parts), re.DOTALL | re.IGNORECASE)
    return lambda value: pattern.fullmatch(_text(value)) is not None


def _rlike(argument: str) -> Test:
    try:
        pattern = re.compile(argument)
    except re.error as error:
        raise BadFilter(f"invalid regular expression {argument!r}: {error}") from error
    return lambda value: pattern.search(_text(value)) is not None


def _null(wanted: bool) -> Callable[[str], Test]:
    def make(argument: str) -> Test:
        if argument.lower() not in ("null", ""):
            raise BadFilter(f"only null can be tested with is and isnot, not {argument!r}")
        return lambda value: (value is False or value in (None, "", [], {})) == wanted

    return make


OPERATORS: dict[str, Callable[[str], Test]] = {
    "eq": _comparison(lambda sign: sign == 0),
    "noteq": _comparison(lambda sign: sign != 0),
    "lt": _comparison(lambda sign: sign < 0),
    "lte": _comparison(lambda sign: sign <= 0),
    "gt": _comparison(lambda sign: sign > 0),
    "gte": _comparison(lambda sign: sign >= 0),
    "in": _among(True),
    "notin": _among(False),
    "like": _like,
    "rlike": _rlike,
    "is": _null(True),
    "isnot": _null(False),
}


def _compare(left: Any, right: Any) -> int:  # Any: what JSON can spell
    """Compare two values: as numbers where both are, else as texts (times are texts that sort)."""
    first, second = _number(left), _number(right)
    if first is not None and second is not None:
        return (first > second) - (first < second)
    if _text(right) in ("true", "false") and left is None:
        left = False  # what is left out is the zero value
    one, other = _text(left), _text(right)
    return (one > other) - (one < other)


def _number(value: Any) -> float | None:  # Any: what JSON can spell
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:  # Any: what JSON can spell
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
