"""Read a list to its end, page by page, so that nothing is lost when pages shift meanwhile (contract section 3.3).

Each page begins a little before the end of the one before: where the last item that was seen turns up again, nothing
can have slipped through in between; where it does not, the list is read again from its start.
"""

from collections.abc import Callable, Sequence

import msgspec

from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.virtual_cluster import Object, part_of

LIMIT = 100  # more is not allowed
_OVERLAP = 10  # items that may go between two pages without a fresh start
_PASSES = 20  # fresh starts before a list counts as one that never rests


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    items: Sequence[Object]
    more: bool


def page_of(answer: Object, key: str) -> Page:
    """Return the page that an answer holds under a key; only `hasNext` tells whether there are more."""
    items = answer.get(key)
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return Page(found, part_of(answer, "meta").get("hasNext") is True)


def whole(fetch: Callable[[int, int], Page], key: str, what: str) -> list[Object]:
    """Return all items of a list, each once, in the list's order.

    Args:
        fetch: returns the page for a limit and an offset.
        key: the field that tells two items apart.
        what: the list in words.

    Raises:
        WorkFailed: it changes faster than it can be read.
    """
    for _ in range(_PASSES):
        found = _pass(fetch, key)
        if found is not None:
            return found
    raise WorkFailed(f"{what} changes faster than it can be read", hint="try again when less is created and deleted")


def _pass(fetch: Callable[[int, int], Page], key: str) -> list[Object] | None:
    """Read the list once; None where items may have been lost."""
    found: dict[Json, Object] = {}
    offset, last = 0, None
    while True:
        page = fetch(LIMIT, offset)
        names = [item.get(key) for item in page.items]
        if last is not None and last not in names:
            return None
        fresh = names.index(last) + 1 if last is not None else 0
        added = [item for item in page.items[fresh:] if item.get(key) not in found]
        found.update((item.get(key), item) for item in added)
        if not page.more or not page.items:
            return list(found.values())
        if last is not None and not added:
            return None  # nothing new, and yet more to come
        last = names[-1]
        offset += len(names) - min(_OVERLAP, len(names) // 2)
