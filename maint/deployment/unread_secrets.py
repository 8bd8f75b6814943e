"""The secrets of what two compared documents hold and nobody has read."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, islice

from maint.deployment.records import Item, settings_of
from maint.deployment.secret_index import GRAM
from maint.deployment.sensitive import sensitive
from maint.deployment.tree import Tree, Unread, UnreadItems, opened

_BATCH = 200  # elements that are decoded at once


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
        settings = settings_of(one.whole.kind, one.whole.content)
        if settings is None:
            rest += (child for child in opened(one).values() if isinstance(child, Unread))
        else:
            yield from _secrets(settings, grams)
    yield from _of_elements(rest, grams)


def _of_elements(found: Sequence[Unread], grams: Collection[str] | None) -> Iterator[str]:
    distinct = {child.element: child for child in found if child.closed}
    children = sorted(distinct.values(), key=lambda child: child.element.kind)
    for kind, group in groupby(children, key=lambda child: child.element.kind):
        while batch := list(islice(group, _BATCH)):
            settings = settings_of(kind, b"[%b]" % b",".join([child.element.content for child in batch]))
            if settings is None:
                for child in batch:
                    child.open()  # whoever makes its fingerprints meets its secrets
            else:
                yield from _secrets(settings, grams)


def _closed(trees: Sequence[dict[str, Tree]]) -> Iterator[Unread | UnreadItems]:
    for tree in trees:
        if isinstance(tree, UnreadItems) and tree.closed and tree.own is not None:
            yield from _closed([child for child in tree.own.values() if isinstance(child, Unread) and child.closed])
        elif isinstance(tree, Unread | UnreadItems) and tree.closed:
            yield tree
        else:
            yield from _closed([child for child in tree.values() if isinstance(child, dict)])


def _secrets(settings: Sequence[Item], grams: Collection[str] | None) -> Iterator[str]:
    for item in [one for one in settings if one.sensitive is not False]:  # few
        value = item.value
        if isinstance(value, str) and (grams is None or value[:GRAM] in grams) and sensitive(item.name, item.sensitive):
            yield value
