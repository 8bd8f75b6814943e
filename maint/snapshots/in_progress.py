"""Remember which snapshot is being taken where, so that the next run knows at once what a killed one left.

A file in the state folder, `begun/<id>`, whose content is the store's address. Whoever holds the site's lock knows that
all of them belong to runs that are over. What other machines left is told by its age (see `catalogue.sweep`).
"""

import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from maint.errors import StoreFailed
from maint.ports import Sight, Site
from maint.snapshots.manifest import is_id, stamp, time_of


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


_ABANDONED = timedelta(hours=24)  # no run takes that long, whatever machine it runs on


@contextmanager
def storing(site: Site) -> Iterator[None]:
    """Show that files are being stored while the block lasts; dead flags go first. The caller holds the site's lock.

    Raises:
        StoreFailed: the store says no.
    """
    for name in site.store.names(_folder(site)):
        if _is_ours(site, name) or _is_old(site, name):
            site.store.remove(name)
    mine = f"{_folder(site)}/{stamp(site.clock.now())}-{_owner(site)}"
    with site.store.create(mine) as file:
        file.write(f"{socket.gethostname()}\n".encode())
    try:
        yield
    finally:
        # One that stays is removed by the next run here, and is no obstacle to anyone else after a day.
        with suppress(StoreFailed):
            site.store.remove(mine)


def others_storing(sight: Sight) -> Sequence[str]:
    """Return since when others, from other machines or state folders, have been storing files."""
    found = [name for name in sight.store.names(_folder(sight)) if not _is_ours(sight, name)]
    return [name.rpartition("/")[2].partition("-")[0] for name in found if not _is_old(sight, name)]


def _folder(sight: Sight) -> str:
    return f"{sight.settings.name}/under-way"


def _is_ours(sight: Sight, name: str) -> bool:
    path = _identity(sight)
    return path.is_file() and name.endswith(f"-{path.read_text()}")


def _is_old(sight: Sight, name: str) -> bool:
    try:
        return sight.clock.now() - time_of(name.rpartition("/")[2]) > _ABANDONED
    except ValueError:  # none of ours: nobody knows how old it is
        return False


def _owner(site: Site) -> str:
    """Return what tells this state folder from all others, made when it is first asked for.

    Names of machines and paths would not do: containers share both.
    """
    path = _identity(site)
    if not path.is_file():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(8))
    return path.read_text()


def _identity(sight: Sight) -> Path:
    return sight.settings.state / "owner"
