"""Take a snapshot into a copy when the first store cannot hold it."""

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

from maint.errors import StoreFailed
from maint.model.snapshot import Snapshot
from maint.ports import Site
from maint.snapshots.replicate import note_detour
from maint.snapshots.store_view import Elsewhere


class Stored(Protocol):
    """What came of taking a snapshot."""

    @property
    def snapshot(self) -> Snapshot:
        """What is stored now."""


T = TypeVar("T", bound=Stored)


def or_elsewhere(site: Site, take: Callable[[Site], Generator[str, None, T]]) -> Generator[str, None, T]:
    """Take a snapshot into the first store, else into the first copy that can hold it; yields words on the progress.

    Raises:
        StoreFailed: neither the first store nor any copy could hold it.
    """
    try:
        return (yield from take(site))
    except StoreFailed as first:
        failure = first
    for copy in site.copies:
        yield f"{': '.join([failure.message, *failure.detail])}; storing in {copy.location} instead"
        target = Elsewhere(site, copy)
        try:
            taken = yield from take(target)
        except StoreFailed as further:
            failure = further
            continue
        note_detour(target, taken.snapshot.id, site.store.location)
        return taken
    raise failure
