"""Remove the files of virtual clusters that no snapshot of a store needs any more."""

from collections.abc import Collection, Generator, Sequence

import msgspec

from maint.ports import Sight, Site
from maint.snapshots.catalogue import entries
from maint.snapshots.upload_marker import others_storing
from maint.snapshots.virtual_clusters.blobs import crew, objects_in


class Unused(msgspec.Struct, frozen=True):
    """What no snapshot of a store needs.

    Attributes:
        names: of the files.
        waits: why none of them may go now; empty where they may.
    """

    names: Sequence[str] = ()
    waits: str = ""


def unused(sight: Sight, going: Collection[str] = ()) -> Unused:
    """Return the stored files that no manifest of this store lists.

    Whatever the purpose of a snapshot, and whether it is held or not: as long as it is there, its files are. Where one
    cannot be believed nobody knows what it needs, and where somebody else is storing files nobody knows it yet.

    The order makes it safe against machines that share no lock: a backup that raises its flag after it was looked for
    stores under names that are not among those that were listed before, and reuses only what manifests list.

    Args:
        sight: the store.
        going: ids of snapshots that are about to go.
    """
    there = objects_in(sight)
    if not there:
        return Unused()
    if busy := others_storing(sight):
        return Unused(waits=f"another machine has been storing files since {busy[0]}")
    kept = [entry for entry in entries(sight) if entry.id not in going]
    doubtful = [entry.id for entry in kept if entry.snapshot is None]
    if doubtful:
        return Unused(waits=f"{doubtful[0]} cannot be believed, and may need them")
    needed = {one.id for entry in kept if entry.snapshot is not None for one in entry.snapshot.objects}
    return Unused(tuple(there[one] for one in sorted(set(there) - needed)))


def collect(site: Site) -> Generator[str, None, int]:
    """Remove them, and return how many there were; yields words. The caller holds the site's lock.

    Killed midway it leaves some of them, which are as unneeded as before.

    Raises:
        StoreFailed: the store says no.
    """
    found = unused(site)
    if found.waits:
        yield f"files of virtual clusters in {site.store.location} stay for now: {found.waits}"
    with crew() as (hands, _):
        list(hands.map(site.store.remove, found.names))
    if found.names:
        yield f"removed {len(found.names)} files of virtual clusters that no snapshot needs from {site.store.location}"
    return len(found.names)
