"""Reduce a JSON document from its leaves to its root, so that only what a rule returns is held."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from maint.deployment.json_events import Event, EventParser, Misshapen

# The values of an object are what the rules below returned for them: they are told apart where they are used.
Fields: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Fields], object]
KEEP: Rule | None = None  # the rule that keeps an object as it is
ITEM = "[]"
DEEPEST = 64  # objects and lists inside each other; an export has a dozen


class _Place:
    __slots__ = ("below", "path", "rule")

    def __init__(self, path: tuple[str, ...], rules: "Rules") -> None:
        self.path = path
        self.below: dict[str | None, _Place] = {}
        self.rule = rules.rule(path)

    def enter(self, key: str | None, rules: "Rules") -> "_Place":
        place = self.below[key] = _Place((*self.path, ITEM if key is None else key), rules)
        return place


class Rules:
    """Rules by place (`clusters[].services[]`), else by its last segments, of which the first that fits counts."""

    def __init__(
        self,
        exact: Mapping[str, Rule | None],
        ending: Mapping[str, Rule | None] | None = None,
        otherwise: Rule | None = KEEP,
    ) -> None:
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
    """Applies rules to a stream of events; lists keep what their elements' rules returned, but for None."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._place = _Place((), rules)  # stands for what is around the root, which has no name
        self._place.below[None] = _Place((), rules)
        self._box: Any = []  # the object or list being filled; the outermost list receives the root
        self._key: str | None = None
        self._stack: list[tuple[_Place, Any, str | None]] = []
        self._root = self._box
        self.repeated: list[str] = []  # places with a key twice: readers differ in which value they take
        self.nulls: list[str] = []  # the lists in which a null stood

    def __call__(self, events: Sequence[Event]) -> None:
        """Take a batch of events; `Misshapen` where a rule meets another shape than it expects."""
        if not self._stack and not self._root and events[0][0] != "start_map":
            raise Misshapen("the document is JSON, but no deployment: its outermost value is not an object")
        try:
            self._take(events)
        except (AttributeError, LookupError, TypeError, ValueError):  # what a rule meets in a wrong shape
            raise Misshapen(f"the document is JSON, but no deployment: unexpected values near {self._here()}") from None

    def _here(self) -> str:
        if len(self._stack) < 2:
            return "its outermost object"
        outer, _, key = self._stack[-1]
        return _spell(outer.below[key].path)

    def _take(self, events: Sequence[Event]) -> None:
        # Runs for every token of a document, so kept flat for speed.
        place, box, key, stack = self._place, self._box, self._key, self._stack
        for event, value in events:
            done: object
            if event == "map_key":
                key = value  # type: ignore[assignment]  # a key is text
                if key in box:
                    self.repeated.append(f"{_spell(place.path)}.{key}")
                continue
            if event == "end_map":
                done = box if place.rule is None else place.rule(box)
                place, box, key = stack.pop()
            elif event == "start_map" or event == "start_array":
                stack.append((place, box, key))
                if len(stack) > DEEPEST:  # a place costs memory for each step that leads to it
                    raise too_deep()
                place = place.below.get(key) or place.enter(key, self._rules)
                box, key = ({}, "") if event == "start_map" else ([], None)
                continue
            elif event == "end_array":
                done = box
                place, box, key = stack.pop()
            else:
                done = value
            if key is not None:
                box[key] = done
            elif done is not None or not stack:
                box.append(done)
            elif event == "null":
                self.nulls.append(_spell(place.path))
        self._place, self._box, self._key = place, box, key

    def result(self) -> object:
        """Return what the rule of the root returned; call it when the document has ended."""
        return self._root[0]


def reduced(blocks: Iterable[bytes], rules: Rules) -> object:
    """Return what the rule of the root returned; `WorkFailed` where the document is not a whole JSON object."""
    reducer = Reducer(rules)
    parser = EventParser(reducer)
    for block in blocks:
        parser.feed(block)
    parser.close()
    return reducer.result()


def too_deep() -> Misshapen:
    """Return the error for a document in which too many objects and lists are inside each other."""
    return Misshapen(f"the document is JSON, but no deployment: nested deeper than {DEEPEST} times")


def _spell(path: Sequence[str]) -> str:
    # Written as `clusters[].services[]`.
    return ".".join(path).replace("." + ITEM, ITEM)
