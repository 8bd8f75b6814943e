"""The files of virtual clusters in the store: `<site>/objects/<id>.age`, each written once and sealed.

The id begins with a hash of the file's signature, size and recipients under the site's key, and ends in chance: no two
sealings share a name. Only what a signed manifest lists is taken for stored; leftovers go with a pruning.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import msgspec

from maint.errors import StoreFailed, WorkFailed
from maint.model.formatting import show_count
from maint.model.snapshot import StoredFile
from maint.model.virtual_cluster import File
from maint.ports import Clock, Sight, Site, VirtualClusterSight
from maint.ports.streams import Cut
from maint.retry import delays, heed
from maint.snapshots.catalogue import entries, holds
from maint.snapshots.in_progress import newest_seen, others_storing
from maint.snapshots.manifest import time_of
from maint.snapshots.parts import Tally, flaw, listing, metered, object_name
from maint.snapshots.records import told_of
from maint.snapshots.retention_policy import OWN_LIFE

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 8  # files that are moved at the same time
_KEY = 48  # hexadecimal digits of an id that its content decides
_CHANCE = 8  # bytes of an id that are chance


class NotWanted(Exception):
    """The work as a whole has ended: nobody waits for this file any more."""


@contextmanager
def worker_pool() -> Iterator[tuple["ThreadPoolExecutor", threading.Event]]:
    """Give hands for files; whatever ends the block sets the event, and what is still waiting is not begun."""
    from concurrent.futures import ThreadPoolExecutor  # the name of a part is asked for far more often

    stop = threading.Event()
    hands = ThreadPoolExecutor(AT_ONCE, initializer=heed, initargs=(stop,))
    try:
        yield hands, stop
    finally:
        stop.set()
        hands.shutdown(wait=True, cancel_futures=True)


def objects_in(sight: Sight) -> dict[str, str]:
    """Return all files of virtual clusters in a store, whether a snapshot needs them or not: their ids and names."""
    names = listing(sight, f"{sight.settings.name}/objects")
    return {name.rpartition("/")[2].removesuffix(".age"): name for name in names}


class Objects:
    """The objects of a site while a snapshot is taken; may be used by several threads at once."""

    # What an earlier snapshot lists is used again; where nobody has read it for `backup.reread`, it is read first, and
    # stored anew where it is not what it was.

    def __init__(self, site: Site, recipients: Sequence[str]) -> None:
        self._site, self._recipients = site, tuple(recipients)
        self._key = site.fingerprint_key.reveal().strip().encode()
        self._suffix = ",".join(sorted(recipients))
        self._now = site.clock.now()
        self._reread = timedelta(seconds=site.settings.backup.reread if site.settings.backup else 0)
        there = objects_in(site)
        self._known: dict[str, tuple[StoredFile, datetime | None]] = {}
        for entry in entries(site):
            for listed in entry.snapshot.objects if entry.snapshot is not None else ():
                one = StoredFile(listed.place, listed.bytes, listed.sha256)
                if one.id in there:
                    self._known[one.id[:_KEY]] = one, _later(entry.files_read, self._read_of(one))
        self._listed: dict[str, tuple[StoredFile, datetime]] = {}
        self.awaited: int | None = None  # bytes that are to be fetched in all, for who watches

    def _read_of(self, one: StoredFile) -> datetime | None:
        known, read = self._known.get(one.id[:_KEY], (None, None))
        return read if known == one else None

    @property
    def listed(self) -> Sequence[StoredFile]:
        """What the snapshot being taken needs."""
        return sorted((one for one, _ in self._listed.values()), key=lambda one: one.id)

    @property
    def files_read(self) -> datetime:
        """Since when everything that is listed is known to have been read."""
        return min((read for _, read in self._listed.values()), default=self._now)

    def key(self, file: File) -> str:
        """Return what is the same for all files of one content."""
        words = f"object:{file.signature}:{file.size}:{self._suffix}"
        return hmac.new(self._key, words.encode(), hashlib.sha256).hexdigest()[:_KEY]

    def id_of(self, file: File) -> str:
        """Return under which id a file is stored; it must be."""
        return self._listed[self.key(file)][0].id

    def has(self, file: File) -> bool:
        """Whether a file need neither be fetched nor read; it is listed then."""
        key = self.key(file)
        known, read = self._known.get(key, (None, None))
        if known is not None and read is not None and abs(self._now - read) < self._reread:
            self._listed.setdefault(key, (known, read))
        return key in self._listed

    def reads_well(self, file: File) -> bool:
        """Read what is stored of a file, where there is something; whether it is as stored, and is listed then."""
        key = self.key(file)
        known = self._known.get(key)
        if known is None or flaw(self._site, object_name(self._site.settings.name, known[0].id), known[0]):
            return False
        self._listed[key] = known[0], self._now
        return True

    def fetch(self, cluster: VirtualClusterSight, resource: str, file: File, stop: threading.Event) -> None:
        """Store a file as it arrives; nothing is stored where it is not what its signature says.

        Raises:
            WorkFailed, CannotReach: it cannot be read, or is something else.
            Cut: it was cut on its way; asking again may help.
        """
        with cluster.download(resource, file) as answer:
            self._store(file, f"{resource}/{file.path}", answer.read, stop)

    def reseal(self, file: File, before: StoredFile, read: Callable[[int], bytes], stop: threading.Event) -> StoredFile:
        """Store a file that a snapshot holds once more, for today's recipients, unless that is done; return it.

        Args:
            before: how it is stored; the result keeps its id, by which documents name it.
            read: its content.
        """
        if not self.has(file):
            self._store(file, file.path, read, stop)
        now = self._listed[self.key(file)][0]
        return StoredFile(before.id, now.bytes, now.sha256, now.id)

    def _store(self, file: File, what: str, read: Callable[[int], bytes], stop: threading.Event) -> None:
        key = self.key(file)
        object_id = f"{key}{os.urandom(_CHANCE).hex()}"
        name = object_name(self._site.settings.name, object_id)
        with self._site.store.create(name) as target:
            arriving = _Arriving(metered(self._site, "fetching files of virtual clusters", read, self.awaited), stop)
            stored = Tally(target)
            self._site.seal.encrypt(arriving.read, cast(BinaryIO, stored), self._recipients)
            arriving.prove(file, what)
        written = StoredFile(object_id, stored.bytes, stored.sha256)
        if problem := flaw(self._site, name, written):
            self._site.store.remove(name)
            raise StoreFailed(
                f"{name} in {self._site.store.location} {problem}",
                detail=["it was written a moment ago"],
                hint="do not trust this disk; look at its health, then take the backup again",
            )
        self._listed[key] = written, self._now


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (one, other) if time is not None), default=None)


class _Arriving:
    """Bytes under way, hashed as signatures are."""

    def __init__(self, read: Callable[[int], bytes], stop: threading.Event) -> None:
        self._read, self._stop = read, stop
        self._hash, self._size = hashlib.sha1(usedforsecurity=False), 0

    def read(self, size: int) -> bytes:
        if self._stop.is_set():
            raise NotWanted
        block = self._read(size)
        self._hash.update(block)
        self._size += len(block)
        return block

    def prove(self, file: File, what: str) -> None:
        found = self._hash.hexdigest()
        if (found, self._size) != (file.signature, file.size):
            got = f"{show_count(self._size, 'byte')} of signature {found}, not {file.size} of {file.signature}"
            raise WorkFailed(
                f"{what} is not what its signature says: {got}",
                hint="changed or damaged on its way: take the backup again; where it stays so, upload that file anew",
            )


_TIMES = 9
_LONGEST = 60.0  # seconds before it is asked for anew

T = TypeVar("T")


def retry_truncated(clock: Clock, fetch: Callable[[], T]) -> T:
    """Return what `fetch` returns, calling it again while it raises Cut; a failed call leaves nothing behind."""
    for pause in delays(1.0, _LONGEST, times=_TIMES):
        try:
            return fetch()
        except Cut:
            clock.sleep(pause)
    return fetch()


class Unused(msgspec.Struct, frozen=True):
    """What no snapshot of a store needs, and why it may not go now (`waits`, empty where it may)."""

    names: Sequence[str] = ()
    waits: str = ""


def unused(sight: Sight, going: Collection[str] = ()) -> Unused:
    """Return the stored files that no manifest of this store lists, once the snapshots in `going` are gone."""
    # Safe against machines that share no lock: a backup that raises its flag after it was looked for stores under names
    # that are not among those listed before, and reuses only what manifests list.
    there = objects_in(sight)
    if not there:
        return Unused()
    if busy := others_storing(sight):
        return Unused(waits=f"another machine has been storing files since {busy[0]}")
    listed = entries(sight)
    told, removed = told_of(sight)
    told |= newest_seen(sight)  # where the records are not listed either
    for one in sorted(told - removed - {entry.id for entry in listed}):
        if holds(sight, one):
            return Unused(waits=f"{sight.store.location} does not list {one}, which is there, and may need them")
        if sight.clock.now() - time_of(one) <= OWN_LIFE:  # it may be put back
            return Unused(waits=f"no record says that {one}, which is gone, was removed: put back, it may need them")
    kept = [entry for entry in listed if entry.id not in going]
    doubtful = [entry.id for entry in kept if entry.snapshot is None]
    if doubtful:
        return Unused(waits=f"{doubtful[0]} cannot be believed, and may need them")
    needed = {one.place for entry in kept if entry.snapshot is not None for one in entry.snapshot.objects}
    return Unused(tuple(there[one] for one in sorted(set(there) - needed)))


def collect(site: Site) -> Generator[str, None, int]:
    """Remove them, and return how many there were; yields words. The caller holds the site's lock."""
    found = unused(site)
    if found.waits:
        yield f"files of virtual clusters in {site.store.location} stay for now: {found.waits}"
    with worker_pool() as (hands, _):
        list(hands.map(site.store.remove, found.names))
    if found.names:
        count = show_count(len(found.names), "file")
        yield f"removed {count} of virtual clusters that no snapshot needs from {site.store.location}"
    return len(found.names)
