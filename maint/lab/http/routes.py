"""Find what answers a call: a table of "METHOD path", where a path has placeholders."""

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Generic, TypeVar
from urllib.parse import unquote

T = TypeVar("T")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Routes(Generic[T]):
    """The calls of a server; `{name}` is one word of the path, `{name:a|b}` one of these, `{name*}` all the rest."""

    def __init__(self, calls: Mapping[str, T]) -> None:
        self.table = {_pattern(spelled): route for spelled, route in calls.items()}

    def find(self, method: str, path: str) -> tuple[T, dict[str, str]] | None:
        """Return what answers a call, and the values of its placeholders, decoded."""
        for pattern, route in self.table.items():
            found = pattern.fullmatch(f"{method} {path}")
            if found:
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        return None

    def methods(self, path: str) -> list[str]:
        return [method for method in _METHODS if self.find(method, path)]


def _pattern(spelled: str) -> re.Pattern[str]:
    split = re.split(r"\{(\w+)(\*|:[\w|]+)?\}", spelled)
    words = (".+" if kind == "*" else (kind or ":[^/]+")[1:] for kind in split[2::3])
    named = (f"(?P<{name}>{word})" for name, word in zip(split[1::3], words, strict=True))
    return re.compile("".join(part for pair in zip_longest(map(re.escape, split[::3]), named) for part in pair if part))
