"""Reduce a document from its leaves to its root, so that only what a rule returns is held."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from maint.deployment.reader import CONTAINERS, DEEPEST, ITEM, Object, Pairs, misshapen, read_into, too_deep

# The values of an object are what the rules below returned for them: they are told apart where they are used.
Fields: TypeAlias = Object
Rule: TypeAlias = Callable[[Fields], object]
KEEP: Rule | None = None  # the rule that keeps an object as it is
_EARLY = 8  # levels below an object that is taken early; it is not looked at deeper


class _Place:
    __slots__ = ("below", "early", "path", "rule")

    def __init__(self, path: tuple[str, ...], rules: "Rules") -> None:
        self.path = path
        self.below: dict[str, _Place] = {}
        self.rule = rules.rule(path)
        self.early = rules.early if self.rule == rules.late else None

    def enter(self, key: str, rules: "Rules") -> "_Place":
        place = self.below[key] = _Place((*self.path, key), rules)
        return place


class Rules:
    """Rules by place (`clusters[].services[]`), else by its last segments, of which the first that fits counts.

    `early` is a rule and what may take an object before it, not yet reduced; it returns whether it did.
    """

    def __init__(
        self,
        exact: Mapping[str, Rule | None],
        ending: Mapping[str, Rule | None] | None = None,
        otherwise: Rule | None = KEEP,
        early: tuple[Rule, Callable[[Pairs], bool]] | None = None,
    ) -> None:
        self.late = early[0] if early else None
        self.early = early[1] if early else None
        self._exact = exact
        self._ending = ending or {}
        self._otherwise = otherwise

    def rule(self, path: tuple[str, ...]) -> Rule | None:
        """Return the rule of a place."""
        name = _spell(path)
        if name in self._exact:
            return self._exact[name]
        for end, rule in self._ending.items():
            if name == end or name.endswith("." + end):
                return rule
        return self._otherwise


def drop(_: Fields) -> None:
    """Keep nothing of an object."""


class Reducer:
    """A target that applies rules; lists keep what their elements' rules returned, but for None."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._root = _Place((), rules)
        self._stack: list[tuple[_Place, str, Any]] = []  # what is taken member by member: place, key, object or list
        self.result: object = None  # what the rule of the root returned, when the document has ended
        self.repeated: list[str] = []  # places with a key twice: readers differ in which value they take
        self.nulls: list[str] = []  # the lists in which a null stood

    def value(self, key: str, value: object) -> None:
        """Take a member; `Misshapen` where a rule meets another shape than it expects."""
        if value.__class__ in CONTAINERS:
            self._put(key, self._container(value, self._place(key), len(self._stack)))
        elif value is None and isinstance(self._stack[-1][2], list):
            self.nulls.append(_spell(self._stack[-1][0].path))
        else:
            self._put(key, value)

    def begin(self, key: str, bracket: str) -> None:
        """Take the beginning of an object or list."""
        self._stack.append((self._place(key), key, {} if bracket == "{" else []))

    def end(self) -> None:
        """Take the end of what was begun last."""
        place, key, box = self._stack.pop()
        self._put(key, box if isinstance(box, list) else _ruled(box, place))

    def _place(self, key: str) -> _Place:
        if not self._stack:
            return self._root
        place, _, box = self._stack[-1]
        key = key if isinstance(box, dict) else ITEM
        return place.below.get(key) or place.enter(key, self._rules)

    def _put(self, key: str, value: object) -> None:
        if not self._stack:
            self.result = value
            return
        place, _, box = self._stack[-1]
        if isinstance(box, dict):
            if key in box:
                self.repeated.append(f"{_spell(place.path)}.{key}")
            box[key] = value
        elif value is not None:
            box.append(value)

    def _container(self, value: Any, place: _Place, depth: int) -> object:
        # Runs for every object and list of a document, so kept flat for speed.
        if depth >= DEEPEST:
            raise too_deep()
        below = place.below
        if type(value) is tuple:
            if place.early and depth < DEEPEST - _EARLY and place.early(value):
                return None
            fields: Fields = {}
            inside = []  # the keys of objects and lists; of a repeated key the last value counts
            for key, inner in value:
                fields[key] = inner
                if type(inner) is not str and type(inner) in CONTAINERS:
                    inside.append(key)
            if len(fields) != len(value):
                inside = [key for key, inner in fields.items() if type(inner) in CONTAINERS]
            for key in inside:
                fields[key] = self._container(fields[key], below.get(key) or place.enter(key, self._rules), depth + 1)
            if len(fields) != len(value):
                self._repeats(value, place)
            return fields if place.rule is None else _ruled(fields, place)
        there = below.get(ITEM) or place.enter(ITEM, self._rules)
        kept = []
        for inner in value:
            done = self._container(inner, there, depth + 1) if type(inner) in CONTAINERS else inner
            if done is not None:
                kept.append(done)
            elif inner is None:
                self.nulls.append(_spell(place.path))
        return kept

    def _repeats(self, pairs: Pairs, place: _Place) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                self.repeated.append(f"{_spell(place.path)}.{key}")
            seen.add(key)


def _ruled(fields: Fields, place: _Place) -> object:
    try:
        return fields if place.rule is None else place.rule(fields)
    except (AttributeError, LookupError, TypeError, ValueError):  # what a rule meets in a wrong shape
        near = _spell(place.path) or "its outermost object"
        raise misshapen(f"unexpected values near {near}") from None


def reduced(blocks: Iterable[bytes], rules: Rules) -> object:
    """Return what the rule of the root returned; `WorkFailed` where the document is not a whole JSON object."""
    reducer = Reducer(rules)
    read_into(reducer, blocks)
    return reducer.result


def _spell(path: Sequence[str]) -> str:
    # Written as `clusters[].services[]`.
    return ".".join(path).replace("." + ITEM, ITEM)
