"""Fold a JSON document from its leaves to its root, so that only what a rule returns is ever held."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from maint.deployment.fast_lists import Condenser, Take
from maint.deployment.json_events import Event, Events, Misshapen
from maint.deployment.records import KINDS, Decoded, plain

# The values of an object are whatever the rules below returned for them: they are told apart where they are used.
Fields: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Fields], object]
WholeRule: TypeAlias = Callable[[Any], Iterable[object]]  # takes Elements, of the one kind that its places hold
ITEM = "[]"
DEEPEST = 64  # objects and lists inside each other; an export has a dozen


class Shape:
    """A kind of place in a document, such as `clusters[].services[]`, and the rule for the objects there."""

    __slots__ = ("kids", "path", "rule")

    def __init__(self, path: tuple[str, ...], rules: "Rules") -> None:
        self.path = path
        self.kids: dict[str | None, Shape] = {}
        self.rule: Rule | None = rules.rule(path)

    def kid(self, key: str | None, rules: "Rules") -> "Shape":
        """Return the shape below a key, or of a list's elements for None."""
        shape = self.kids[key] = Shape((*self.path, ITEM if key is None else key), rules)
        return shape


class Rules:
    """Which rule belongs to which place.

    Args:
        exact: rules by place, written `clusters[].services[]`.
        ending: rules by the last segments of a place; the first that fits is taken.
        otherwise: the rule for every other object; None keeps the object as it is.
        whole: for some of these rules, what does the same to many decoded elements at once, for speed.
    """

    def __init__(
        self,
        exact: Mapping[str, Rule],
        ending: Mapping[str, Rule] | None = None,
        otherwise: Rule | None = None,
        whole: Mapping[Rule, WholeRule] | None = None,
    ) -> None:
        self._exact = exact
        self._ending = ending or {}
        self._otherwise = otherwise
        self.whole = whole or {}

    def rule(self, path: tuple[str, ...]) -> Rule | None:
        """Return the rule of a place."""
        name = place(path)
        if name in self._exact:
            return self._exact[name]
        for end, rule in self._ending.items():
            if name == end or name.endswith("." + end):
                return rule
        return self._otherwise


def place(path: Sequence[str]) -> str:
    """Spell a path as `clusters[].services[]`."""
    return ".".join(path).replace("." + ITEM, ITEM)


def drop(_: Fields) -> None:
    """Hold nothing of an object."""


class Fold:
    """Applies rules to a stream of events.

    Lists keep what their elements' rules returned, but for None. `repeated` holds the places where an object
    had the same key twice: readers differ in which value they take, so none can be trusted. `nulls` holds the lists
    in which a null stood.

    Args:
        rules: what is done to each object.
        condenser: knows the elements that were taken out of the document before it was parsed.
    """

    def __init__(self, rules: Rules, condenser: Condenser | None = None) -> None:
        self._rules = rules
        self._condenser = condenser
        self._stand_in = condenser.stand_in if condenser else None
        self._shape = Shape((), rules)
        self._box: Any = []  # the object or list being filled; the outermost list receives the root
        self._key: str | None = None
        self._stack: list[tuple[Shape, Any, str | None]] = []
        self._root = self._box
        self.repeated: list[str] = []
        self.nulls: list[str] = []

    def __call__(self, events: Sequence[Event]) -> None:
        """Take a batch of events.

        Raises:
            Misshapen: the document is JSON, but has not the shape that the rules stand on.
        """
        if not self._stack and not self._root and events[0][0] != "start_map":
            raise Misshapen("the document is JSON, but no deployment: its outermost value is no object")
        try:
            self._take(events)
        except (AttributeError, LookupError, TypeError, ValueError):  # what a rule meets in a wrong shape
            raise Misshapen(f"the document is JSON, but no deployment: unexpected values near {self._here()}") from None

    def _here(self) -> str:
        """Name the innermost object or list that has begun and not ended."""
        if len(self._stack) < 2:
            return "its outermost object"
        outer, _, key = self._stack[-1]
        return place(outer.kids[key].path)

    def _take(self, events: Sequence[Event]) -> None:
        """Fill objects and lists, and apply the rules; once for every token of a document, so kept flat for speed."""
        shape, box, key, stack = self._shape, self._box, self._key, self._stack
        for event, value in events:
            if event == "map_key":
                key = value  # type: ignore[assignment]  # a key is text
                if key in box:
                    self.repeated.append(f"{place(shape.path)}.{key}")
                continue
            if event == "string" and key is not None:  # what most values are
                box[key] = value
                continue
            if event == "string" and value == self._stand_in:
                box.extend(self._taken(shape))
                continue
            done: object = value
            if event == "start_map" or event == "start_array":
                stack.append((shape, box, key))
                if len(stack) > DEEPEST:  # a place costs memory for each step that leads to it
                    raise Misshapen(f"the document is JSON, but no deployment: nested deeper than {DEEPEST} times")
                if len(stack) > 1:  # the root itself has no key
                    shape = shape.kids.get(key) or shape.kid(key, self._rules)
                box, key = ({}, "") if event == "start_map" else ([], None)
                continue
            if event == "end_map":
                done = box if shape.rule is None else shape.rule(box)
                shape, box, key = stack.pop()
            elif event == "end_array":
                done = box
                shape, box, key = stack.pop()
            if key is not None:
                box[key] = done
            elif done is not None or not stack:
                box.append(done)
            elif event == "null":
                self.nulls.append(place(shape.path))
        self._shape, self._box, self._key = shape, box, key

    def _taken(self, shape: Shape) -> Iterable[object]:
        """Apply the rules to elements that were taken out of a list; return what its list keeps of them."""
        assert self._condenser
        elements = self._condenser.taken.popleft().elements
        shape = shape.kids.get(None) or shape.kid(None, self._rules)
        if shape.rule and (whole := self._rules.whole.get(shape.rule)):
            return whole(elements)
        return (kept for one in plain(cast(Decoded, elements)) if (kept := self._applied(one, shape)) is not None)

    def _applied(self, value: Any, shape: Shape) -> Any:
        """Do to a plain value what its events would have done."""
        if isinstance(value, dict):
            for key, child in value.items():
                value[key] = self._applied(child, shape.kids.get(key) or shape.kid(key, self._rules))
            return value if shape.rule is None else shape.rule(value)
        if isinstance(value, list):
            inner = shape.kids.get(None) or shape.kid(None, self._rules)
            return [kept for one in value if (kept := self._applied(one, inner)) is not None]
        return value

    def result(self) -> object:
        """Return what the rule of the root returned; call it when the document has ended."""
        return self._root[0]


def fold(blocks: Iterator[bytes], rules: Rules, take: Take | None = None, kinds: tuple[bytes, ...] = KINDS) -> object:
    """Fold a whole document.

    Args:
        blocks: the document.
        rules: what is done to each object.
        take: see `Condenser`, also for `kinds`.

    Raises:
        WorkFailed: it is not JSON, not complete, or no object.
    """
    condenser = Condenser(take, kinds)
    folding = Fold(rules, condenser)
    parser = Events(folding, condenser=condenser)
    for block in blocks:
        parser.feed(block)
    parser.close()
    return folding.result()
