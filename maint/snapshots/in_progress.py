"""Notes of snapshots that are being written, so that nobody sweeps their parts, and of the newest ones ever seen.

In the state folder: `begun/<id>` with the address of the store, and `seen.json`. In the store, for machines that share
no lock: `<site>/under-way/<id>-<owner>` while files of virtual clusters are being stored.
"""

import json
import re
import secrets
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from maint import files
from maint.errors import Invalid, Refused, StoreFailed
from maint.model.formatting import show_time
from maint.ports import Sight, Site
from maint.retry import briefly
from maint.snapshots.manifest import is_id, stamp
from maint.snapshots.parts import listing

MANAGER = "manager"  # the kind of what the manager can be rebuilt from


def begin(state: Path, snapshot_id: str, location: str) -> None:
    """Note that a snapshot is being taken into a store; the holder of the site's lock is the only one who does."""
    files.replace(state / "begun" / snapshot_id, location.encode())


def end(state: Path, snapshot_id: str) -> None:
    """Forget it: it is committed, or nothing of it is left."""
    files.remove(state / "begun" / snapshot_id)


def unfinished(state: Path, location: str) -> set[str]:
    """Return the ids of what was begun in a store and never ended; true only for who holds the site's lock.

    Raises:
        Invalid: the folder of these notes is closed to this account.
    """
    folder = state / "begun"
    with files.reading(folder), suppress(FileNotFoundError, NotADirectoryError):
        there = [path for path in folder.iterdir() if is_id(path.name)]
        return {path.name for path in there if files.read_file(path).decode(errors="replace") == location}
    return set()


def remember_seen(site: Site, snapshot_id: str, *kinds: str) -> None:
    """Remember a backup that was just verified in a store, as the newest of what it is, where none newer is remembered.

    Args:
        kinds: what else it is than a backup: `MANAGER`, `of_cluster(NAME)`.
    """
    every = _seen(site)
    here = every.get(site.store.location, {})
    now = {kind: max(snapshot_id, here.get(kind, "")) for kind in ("", *kinds)}
    if now.items() - here.items():
        files.replace(_seen_path(site), json.dumps({**every, site.store.location: {**here, **now}}).encode())


def newest_seen(sight: Sight, *kinds: str) -> set[str]:
    """Return the newest backup that this machine has verified in a store, and of some kinds (none named: of all).

    Raises:
        Invalid: the note of them is damaged.
    """
    here = _seen(sight).get(sight.store.location, {})
    return {one for kind, one in here.items() if not kinds or kind in ("", *kinds)}


def forget_seen(site: Site, gone: Collection[str]) -> None:
    """Miss these snapshots of a store no more: somebody was told that they are gone."""
    every = _seen(site)
    left = {kind: one for kind, one in every.get(site.store.location, {}).items() if one not in gone}
    files.replace(_seen_path(site), json.dumps({**every, site.store.location: left}).encode())


def of_cluster(name: str) -> str:
    """Return the kind of what holds a virtual cluster."""
    return f"virtual cluster {name}"


def _seen(sight: Sight) -> Mapping[str, Mapping[str, str]]:
    path = _seen_path(sight)
    try:
        found, why = files.load(path, dict[str, str | dict[str, str]]) or {}, "what stands there names no snapshot"
        # Versions up to 0.3.18 remembered the newest backup alone.
        every = {place: {"": one} if isinstance(one, str) else one for place, one in found.items()}
        if all(is_id(one) for here in every.values() for one in here.values()):
            return every
    except files.Damaged as error:
        why = str(error)
    raise Invalid(
        f"{path} is damaged: which snapshots this machine has seen is unknown",
        detail=[why],
        hint="look with `maint backup list` whether the newest snapshots are there, then remove this file",
    )


def _seen_path(sight: Sight) -> Path:
    return sight.settings.state / "seen.json"


_ABANDONED = timedelta(hours=24)  # what is older belongs to a run that died: none takes that long, on any machine
_AHEAD = timedelta(minutes=15)  # by so much clocks may differ
_NEWEST = 3  # records whose times are looked at; names bear the times of machines, and may be wrong


def store_time(sight: Sight) -> datetime | None:
    """Return a time that the store's own clock has passed, None where nothing tells: a machine's clock may be wrong.

    So may the time of a file: written while the store's clock was, or copied with the time that it had elsewhere.
    """
    site, now = sight.settings.name, sight.clock.now()
    records, here = sorted(listing(sight, f"{site}/records")), f"{site}/records/{stamp(now)}"
    past = [name for name in records if name < here]  # a machine whose clock was ahead may have named others
    names = [*records[-_NEWEST:], *past[-_NEWEST:], *listing(sight, _folder(sight))]
    return max((min(time, now) for time in map(sight.store.written, names) if time is not None), default=None)


def refuse_clock_ahead(site: Site) -> None:
    """Refuse where our clock is ahead of the store's: what has run out by it may not have. Under the lock."""
    mark = f"{site.settings.name}/clock/{owner(site)}"
    site.store.remove(mark)  # left by one that was killed
    with suppress(FileExistsError), site.store.create(mark) as file:  # of a clone of this machine, a moment ago
        file.write(b"\n")
    there, here = site.store.written(mark), site.clock.now()
    with suppress(StoreFailed):
        site.store.remove(mark)
    if there is not None and here - there > _AHEAD:
        raise Refused(
            f"nothing is removed: this machine's clock is ahead of the one of {site.store.location}",
            detail=[f"here it is {show_time(here)}, there {show_time(there)}: holds may seem to have run out"],
            hint="set the clock that is wrong (`timedatectl`, `chronyc tracking`), then again",
        )


def is_abandoned(sight: Sight, names: Iterable[str], now: datetime | None) -> bool:
    """Whether the newest of these files was written more than a day before `now`, both by the store's clock."""
    written = max(filter(None, map(sight.store.written, names)), default=None)
    return now is not None and written is not None and now - written > _ABANDONED


@contextmanager
def storing(site: Site) -> Iterator[None]:
    """Show that files are being stored while the block lasts; dead flags go first. The caller holds the site's lock."""
    now = store_time(site)
    with suppress(StoreFailed):  # where the account may add and not remove, they count no more all the same
        for name in list(listing(site, _folder(site))):
            if _is_ours(site, name) or is_abandoned(site, [name], now):
                site.store.remove(name)
    mine = f"{_folder(site)}/{stamp(site.clock.now())}-{owner(site)}"
    with site.store.create(mine) as file:
        file.write(f"{socket.gethostname()}\n".encode())
    try:
        yield
    finally:
        # One that stays is removed by the next run here, and does not hinder anyone else after a day.
        with briefly(site.clock), suppress(StoreFailed):
            site.store.remove(mine)


def others_storing(sight: Sight) -> Sequence[str]:
    """Return since when others, from other machines or state folders, have been storing files."""
    found = [name for name in listing(sight, _folder(sight)) if not _is_ours(sight, name)]
    now = store_time(sight) if found else None
    return [name.rpartition("/")[2].partition("-")[0] for name in found if not is_abandoned(sight, [name], now)]


def _folder(sight: Sight) -> str:
    return f"{sight.settings.name}/under-way"


def _is_ours(sight: Sight, name: str) -> bool:
    own = _owner(sight)
    return own is not None and name.endswith(f"-{own}")


def owner(site: Site) -> str:
    """Return what tells this state folder from all others, since containers share names of machines and paths."""
    if _owner(site) is None:  # else a disk that takes nothing would keep us from what is left to do
        files.create(_identity(site), secrets.token_hex(8).encode())
    return _owner(site) or ""


def is_own(sight: Sight, name: str) -> bool:
    """Whether this is what tells this very state folder from all others."""
    return _owner(sight) == name


def _owner(sight: Sight) -> str | None:
    path = _identity(sight)
    try:
        found = files.read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        found = str(error).encode()
    if re.fullmatch(b"[0-9a-f]{16}", found):
        return found.decode()
    raise Invalid(
        f"{path} is damaged: what this state folder left in the stores is not known as its own",
        hint="where no other run is at work on this site, remove it; the next run makes another",
    )


def _identity(sight: Sight) -> Path:
    return sight.settings.state / "owner"
