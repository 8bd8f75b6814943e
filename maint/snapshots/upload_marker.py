"""Say in a store that files of virtual clusters are being stored, to machines that share the store and not the lock.

A file `<site>/under-way/<id>-<owner>` stands until the manifest that lists them does. Whoever holds the site's lock
knows that the flags of its own state folder are dead; those of others count for a day.
"""

import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from maint.errors import StoreFailed
from maint.ports import Sight, Site
from maint.snapshots.ids import stamp, time_of

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
