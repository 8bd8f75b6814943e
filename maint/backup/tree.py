"""A deployment as a tree in which everything is found by its name, parts of it unread as long as nobody asks.

Of most lists and elements it only matters that both sides of a comparison have the same. So they stay bytes, and are
read when somebody opens them. Whoever walks a tree goes through `opened`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeAlias, cast

from maint.backup.elements import KINDS, Decoded, Group, Host, Role, Unparsed, Unsplit, decode, items_of, unsplit
from maint.backup.known import GRAM
from maint.backup.marks import sensitive

_BATCH = 200  # elements that are decoded at once


class Mark(str):
    """The fingerprint of a secret, or the word REDACTED in its place."""

    __slots__ = ()


class Items(dict[str, "Tree"]):
    """What was a list: its elements by identity."""


class Clear(dict[str, "Tree"]):
    """An object in which nothing is hidden, so that two that are equal need no closer look."""

    __slots__ = ()


class Unread(dict[str, "Tree"]):
    """A role or group that is empty until it is opened.

    Attributes:
        element: its bytes, secrets and all; it never leaves memory.
    """

    __slots__ = ("_open", "element")

    def __init__(self, element: Unparsed, open_it: Callable[[Unparsed], dict[str, "Tree"]]) -> None:
        super().__init__()
        self.element = element
        self._open: Callable[[Unparsed], dict[str, Tree]] | None = open_it

    @property
    def closed(self) -> bool:
        """Whether nobody has opened it."""
        return self._open is not None

    def open(self) -> None:
        """Read it, once."""
        if self._open is not None:
            self.update(self._open(self.element))
            self._open = None


class UnreadItems(Items):
    """A list of roles or groups that is empty until it is opened.

    Attributes:
        whole: its bytes, secrets and all; they never leave memory, and are let go when it is opened.
    """

    __slots__ = ("_open", "whole")

    def __init__(self, whole: Unsplit, open_it: Callable[[Unsplit], Iterator[tuple[str, "Tree"]]]) -> None:
        super().__init__()
        self.whole = whole
        self._open: Callable[[Unsplit], Iterator[tuple[str, Tree]]] | None = open_it

    @property
    def closed(self) -> bool:
        """Whether nobody has opened it."""
        return self._open is not None

    def open(self) -> None:
        """Take it apart, once; its elements stay unread."""
        if self._open is not None:
            add(self, self._open(self.whole))
            self._open, self.whole.content = None, b""


Tree: TypeAlias = "str | dict[str, Tree]"


class Pool:
    """What two documents share: equal lists and elements are one object, and are read once, or never.

    Attributes:
        kinds: the lists that it is given.
    """

    kinds = (*KINDS, b"hosts")

    def __init__(self) -> None:
        self._elements: dict[Unparsed, Unparsed] = {}
        self._wholes: dict[bytes, Unsplit] = {}
        self._lists: dict[Unsplit, UnreadItems] = {}

    def take(self, kind: bytes, content: bytes) -> Decoded | Sequence[Unsplit] | None:
        """Return the elements of a list, as `elements.unsplit` does."""
        if kind == b"items":
            return decode(kind, content)
        if whole := self._wholes.get(content):
            return [whole]
        found = unsplit(kind, content)
        if found and isinstance(found[0], Unsplit):
            self._wholes[content] = found[0]
        return found

    def list(self, whole: Unsplit, open_it: Callable[[Unsplit], Iterator[tuple[str, Tree]]]) -> UnreadItems:
        """Return the unread list of some bytes, the same one for the same bytes."""
        if whole not in self._lists:
            self._lists[whole] = UnreadItems(whole, open_it)
        return self._lists[whole]

    def let_go(self, whole: Unsplit) -> None:
        """Forget the bytes of a list that was taken apart."""
        self._wholes.pop(whole.content, None)

    def element(self, element: Unparsed) -> Unparsed:
        """Return the one element that says the same to the byte."""
        return self._elements.setdefault(element, element)


def add(items: Items, pairs: Iterator[tuple[str, Tree]]) -> None:
    """Put elements under their names; what is there twice must not look as if it were there once."""
    for name, value in pairs:
        items[name if name not in items else _free(name, items)] = value


def _free(name: str, items: Items) -> str:
    number = 2
    while (key := f"{name} ({number})") in items:
        number += 1
    return key


def opened(tree: dict[str, Tree]) -> dict[str, Tree]:
    """Return an object, read if it was not."""
    if isinstance(tree, Unread | UnreadItems):
        tree.open()
    return tree


def size(tree: Tree) -> int:
    """Return how many values a tree holds."""
    return sum(size(child) for child in opened(tree).values()) if isinstance(tree, dict) else 1


def unread_secrets(*trees: dict[str, Tree], grams: Collection[str] | None = None) -> Iterator[str]:
    """Yield the secrets of all that nobody has opened, those of equal elements once.

    Args:
        trees: the trees.
        grams: given, only secrets whose first characters are among these.
    """
    found = list(_closed(trees))
    lists = {id(one.whole): one for one in found if isinstance(one, UnreadItems)}
    rest = [one for one in found if isinstance(one, Unread)]
    for one in lists.values():
        elements = decode(one.whole.kind, one.whole.content)
        if elements is None:
            rest += (child for child in opened(one).values() if isinstance(child, Unread))
        else:
            yield from _secrets(cast(list[Role | Group | Host], elements), grams)
    yield from _of_elements(rest, grams)


def _of_elements(found: Sequence[Unread], grams: Collection[str] | None) -> Iterator[str]:
    distinct = {child.element: child for child in found if child.closed}
    children = sorted(distinct.values(), key=lambda child: child.element.kind)
    for kind, group in groupby(children, key=lambda child: child.element.kind):
        while batch := list(islice(group, _BATCH)):
            elements = decode(kind, b"[%b]" % b",".join([child.element.content for child in batch]))
            if elements is None:
                for child in batch:
                    child.open()  # whoever makes its fingerprints meets its secrets
            else:
                yield from _secrets(cast(list[Role | Group | Host], elements), grams)


def _closed(trees: Sequence[dict[str, Tree]]) -> Iterator[Unread | UnreadItems]:
    for tree in trees:
        if isinstance(tree, Unread | UnreadItems) and tree.closed:
            yield tree
        else:
            yield from _closed([child for child in tree.values() if isinstance(child, dict)])


def _secrets(elements: Sequence[Role | Group | Host], grams: Collection[str] | None) -> Iterator[str]:
    for element in elements:
        for item in items_of(element):
            value = item.value
            if item.sensitive is False or not isinstance(value, str):
                continue
            if (grams is None or value[:GRAM] in grams) and sensitive(item.name, item.sensitive):
                yield value
