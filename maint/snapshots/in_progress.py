"""Remember which snapshot is being taken where, so that the next run knows at once what a killed one left.

A file in the state folder, `begun/<id>`, whose content is the store's address. Whoever holds the site's lock knows that
all of them belong to runs that are over. What other machines left is told by its age (see `catalogue.sweep`).
"""

from pathlib import Path

from maint.snapshots.ids import is_id


def begin(state: Path, snapshot_id: str, location: str) -> None:
    """Note that a snapshot is being taken into a store."""
    folder = state / "begun"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / snapshot_id).write_text(location)


def end(state: Path, snapshot_id: str) -> None:
    """Forget it: it is committed, or nothing of it is left."""
    (state / "begun" / snapshot_id).unlink(missing_ok=True)


def unfinished(state: Path, location: str) -> set[str]:
    """Return the ids of what was begun in a store and never ended; true only for who holds the site's lock."""
    folder = state / "begun"
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if is_id(path.name) and path.read_text() == location}
