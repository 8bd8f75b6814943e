"""Lists as the API gives them: filters `field[operator]argument`, order, pages (J3.4)."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from maint.lab.http.messages import Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import ApiError, Request

Match = Callable[[Doc], bool]
_TERM = re.compile(r"([A-Za-z][\w.]*)\[(\w+)\](.*)", re.DOTALL)


def parse_filter(terms: Sequence[str]) -> Match:
    """Return what tells whether an object is let through by all terms; ApiError: one makes no sense."""
    matches = [_term(term) for term in terms]
    return lambda entry: all(match(entry) for match in matches)


def order_key(field: str) -> Callable[[Doc], Any]:  # Any: a key that sorts
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
        raise ApiError(400, f"invalid filter {term!r}")
    field, operator, argument = found.groups()
    if operator not in OPERATORS:
        raise ApiError(400, f"invalid filter operator {operator!r}")
    test = OPERATORS[operator]
    test(None, argument)  # which refuses an argument that makes no sense
    return lambda entry: test(value_of(entry, field), argument)


def _among(value: Any, argument: str) -> bool:  # Any: what JSON can spell, as below
    return any(_compare(value, word.strip()) == 0 for word in argument.split(","))


def _like(value: Any, argument: str) -> bool:
    parts = [{"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in argument]
    return re.fullmatch("".join(parts), _text(value), re.DOTALL | re.IGNORECASE) is not None


def _rlike(value: Any, argument: str) -> bool:
    try:
        return re.search(argument, _text(value)) is not None
    except re.error as error:
        raise ApiError(400, f"invalid regular expression {argument!r}: {error}") from error


def _null(value: Any, argument: str) -> bool:
    if argument.lower() not in ("null", ""):
        raise ApiError(400, f"only null can be tested with is and isnot, not {argument!r}")
    return value is False or value in (None, "", [], {})


OPERATORS: dict[str, Callable[[Any, str], bool]] = {
    "eq": lambda value, argument: _compare(value, argument) == 0,
    "noteq": lambda value, argument: _compare(value, argument) != 0,
    "lt": lambda value, argument: _compare(value, argument) < 0,
    "lte": lambda value, argument: _compare(value, argument) <= 0,
    "gt": lambda value, argument: _compare(value, argument) > 0,
    "gte": lambda value, argument: _compare(value, argument) >= 0,
    "in": _among,
    "notin": lambda value, argument: not _among(value, argument),
    "like": _like,
    "rlike": _rlike,
    "is": _null,
    "isnot": lambda value, argument: not _null(value, argument),
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


_DEFAULT, _MOST = 20, 100
_DERIVED = ("signature", "nextexecution", "latestruninfo")
_SHIFTS = ("vc-pages-repeat", "vc-pages-skip")
_FLAGS = ("true", "false", "1", "0", "")


def page(
    cluster: Cluster, request: Request, noun: str, entries: Iterable[Doc], view: Callable[[Doc], Doc], order: str
) -> Response:
    """Return one page of a list in its envelope, under `noun`, ordered by `order` unless asked otherwise."""
    found = _chosen(request, entries, view, order)
    limit, offset = _numbers(cluster, request)
    # A list of one page gets a second one, so that it can shift between them.
    if not offset and any(cluster.waits(fault, request.call) for fault in _SHIFTS):
        limit = min(limit, max(1, (len(found) + 1) // 2))
    total, begin = _shifted(cluster, request, len(found), offset)
    shown = [view(entry) for entry in found[begin : begin + limit]]
    meta: Doc = {"hasNext": offset + limit < total, "limit": limit, "offset": offset}
    meta["count"] = len(shown) if cluster.switches["vc-meta-count"] == "page" else total
    if request.flag("includeTotal"):
        meta["total"] = total
    return Response(value={noun: shown if request.sees else [], "meta": meta})


def _chosen(request: Request, entries: Iterable[Doc], view: Callable[[Doc], Doc], order: str) -> list[Doc]:
    if not request.sees:
        return []
    match = parse_filter(request.query.get("filter", ()))
    if request.word("orderasc").lower() not in _FLAGS:
        raise ApiError(400, f"invalid orderasc {request.word('orderasc')!r}")
    by = request.word("orderby", order)
    asked = " ".join([by, *request.query.get("filter", ())]).lower()
    if any(field in asked for field in _DERIVED):  # all others are kept as they are shown
        entries = [entry | view(entry) for entry in entries]
    found = [entry for entry in entries if match(entry)]
    found.sort(key=order_key(by), reverse=not request.flag("orderasc", True))
    return found


def _numbers(cluster: Cluster, request: Request) -> tuple[int, int]:
    try:
        limit, offset = int(request.word("limit", str(_DEFAULT))), int(request.word("offset", "0"))
    except ValueError as error:
        raise ApiError(400, "limit and offset must be numbers") from error
    if limit > _MOST and cluster.switches["vc-over-limit"] == "refuse":
        raise ApiError(400, f"limit {limit} exceeds the maximum of {_MOST}")
    if limit < 1 or offset < 0:
        raise ApiError(400, "limit must be positive, and offset not negative")
    return min(limit, _MOST), offset


def _shifted(cluster: Cluster, request: Request, total: int, offset: int) -> tuple[int, int]:
    """Return how many entries there are and where the page begins, as if others came or went between two pages."""
    if offset and cluster.strikes("vc-pages-repeat", request.call):
        return total + 1, offset - 1
    if offset and cluster.strikes("vc-pages-skip", request.call):
        return total - 1, offset + 1
    return total, offset
