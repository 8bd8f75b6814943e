"""A deployment as a tree in which everything is found by its name, parts of it unread as long as nobody asks.

Of most lists and elements it only matters that both sides of a comparison have the same. So they stay bytes, and are
read when somebody opens them. Whoever walks a tree goes through `opened`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from maint.deployment.records import KINDS, Decoded, Unparsed, Unsplit, decode, unsplit

_LOOK = 200  # bytes


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
        own: what another list, which it was compared with, has not; None where all of it counts.
        leaned_on: whether a list that it was compared with counts on it for what both have.
    """

    __slots__ = ("_open", "_read", "leaned_on", "own", "whole")

    def __init__(
        self,
        whole: Unsplit,
        open_it: Callable[[Unsplit], Iterator[tuple[str, "Tree"]]],
        read_it: Callable[[Unparsed], dict[str, "Tree"]],
    ) -> None:
        super().__init__()
        self.whole = whole
        self._open: Callable[[Unsplit], Iterator[tuple[str, Tree]]] | None = open_it
        self._read = read_it
        self.own: Items | None = None
        self.leaned_on = False

    @property
    def closed(self) -> bool:
        """Whether nobody has opened it."""
        return self._open is not None

    def open(self) -> None:
        """Take it apart, once; its elements stay unread."""
        if self._open is not None:
            add(self, self._open(self.whole))
            self._open = None
            self.whole.let_go()

    def unread(self, elements: Iterable[Unparsed]) -> Items:
        """Return some of its elements, each of which has a name of its own."""
        return Items((element.name, Unread(element, self._read)) for element in elements)


Tree: TypeAlias = "str | dict[str, Tree]"


class Pool:
    """What two documents share: equal lists and elements are one object, and are read once, or never.

    Attributes:
        kinds: the lists that it is given.
    """

    kinds = (*KINDS, b"hosts")

    def __init__(self) -> None:
        self._elements: dict[Unparsed, Unparsed] = {}
        self._wholes: dict[tuple[bytes, int, bytes, bytes], Unsplit] = {}
        self._lists: dict[Unsplit, UnreadItems] = {}

    def take(self, kind: bytes, content: bytes) -> Decoded | Sequence[Unsplit] | None:
        """Return the elements of a list, as `elements.unsplit` does."""
        if kind == b"items":
            return decode(kind, content)
        # Hashing all bytes takes longer than comparing them with those of the one list that looks the same.
        middle = len(content) // 2
        look = kind, len(content), content[:_LOOK], content[middle : middle + _LOOK]
        like = self._wholes.get(look)
        if like and like.content == content:
            return [like]
        found = unsplit(kind, content)
        if found and isinstance(found[0], Unsplit):
            self._wholes[look] = found[0]
        return found

    def list(
        self,
        whole: Unsplit,
        open_it: Callable[[Unsplit], Iterator[tuple[str, Tree]]],
        read_it: Callable[[Unparsed], dict[str, Tree]],
    ) -> UnreadItems:
        """Return the unread list of some bytes, the same one for the same bytes."""
        if whole not in self._lists:
            self._lists[whole] = UnreadItems(whole, open_it, read_it)
        return self._lists[whole]

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
