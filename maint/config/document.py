"""A document that was read: its plain value, and the place of every part of it."""

import copy
from collections.abc import Mapping
from typing import TypeAlias

from maint.errors import Position
from maint.model.json import Json

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a part of a document."""


class Document:
    """A YAML document: its plain value, and where each part of it stands.

    Attributes:
        name: the file's name for messages.
        data: dicts, lists and scalars.
    """

    def __init__(self, name: str, data: Json, places: Mapping[Path, tuple[Position, Position]]) -> None:
        self.name = name
        self.data = data
        self._places = places

    def where(self, path: Path, *, key: bool = False) -> Position:
        """Return the place of the value at a path, or of its key.

        A path that is not in the document stands where its nearest ancestor stands.
        """
        for length in range(len(path), -1, -1):
            place = self._places.get(tuple(path[:length]))
            if place is not None:
                return place[0] if key and length == len(path) else place[1]
        return Position(self.name, 1, 1)

    def __contains__(self, path: Path) -> bool:
        """Tell whether something stands at a path."""
        return path in self._places

    def with_value(self, path: Path, value: Json, place: Position) -> "Document":
        """Return a copy with a scalar put at a path of keys; `place` tells where that value came from."""
        data = copy.deepcopy(self.data)
        inner = data
        for step in path[:-1]:
            if not isinstance(inner, dict):
                return self  # what stands here is wrong already, and will be named as such
            if inner.get(str(step)) is None:
                inner[str(step)] = {}
            inner = inner[str(step)]
        if not isinstance(inner, dict):
            return self
        inner[str(path[-1])] = value
        return Document(self.name, data, {**self._places, path: (place, place)})

    def at(self, path: Path) -> Json:
        """Return the value at a path; KeyError where there is none."""
        value = self.data
        for step in path:
            if isinstance(step, int):
                if not isinstance(value, list) or not -len(value) <= step < len(value):
                    raise KeyError(path)
                value = value[step]
            elif isinstance(value, dict):
                value = value[step]
            else:
                raise KeyError(path)
        return value
