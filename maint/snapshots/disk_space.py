"""Whether the disks that a backup writes to have room for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from maint.errors import Refused, WorkFailed
from maint.files import SPARE, existing
from maint.model.formatting import show_size
from maint.ports import Sight
from maint.snapshots.catalogue import entries

LEAST = SPARE  # bytes that the smallest snapshot may need, too


def largest(sight: Sight) -> int:
    """Return the bytes of the largest snapshot in the store, but for the files of virtual clusters."""
    try:
        return max(
            (sum(part.bytes for part in each.snapshot.parts) for each in entries(sight) if each.snapshot), default=0
        )
    except WorkFailed:  # a store that is away tells nothing
        return 0


def refuse_full(sight: Sight) -> None:
    """Refuse where the disk of the state folder, or each store that a backup may go to, is known to lack room."""
    backup = sight.settings.backup
    stores = [backup.store, *backup.copies] if backup else []
    full = list(_short(sight.settings.state, LEAST))
    if stores and all(store.startswith("/") for store in stores):
        needed = max(largest(sight), LEAST)
        lacking = [list(_short(Path(store), needed)) for store in stores]
        full += [words for told in lacking for words in told] if all(lacking) else []
    if full:
        raise Refused("a disk is too full for a backup", detail=full, hint="make room, or prune; then run it again")


def _short(folder: Path, needed: int) -> Iterator[str]:
    try:
        free = shutil.disk_usage(existing(folder)).free
    except OSError:
        return  # what cannot be looked into is told by whoever writes there
    if free < needed:
        yield f"{folder} has {show_size(free)} free, and {show_size(needed)} may be needed"
