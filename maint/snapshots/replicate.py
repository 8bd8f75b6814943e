"""Bring every store of a site up to date: whole snapshots, bytes as stored, the manifest last, each copy verified.

The first store leads, and the newest comes first, which is worth most where there is no room or time for all. A
snapshot that only a copy could take is marked there by a record (`detour`) until it has come home (`home`), so that
what was pruned from the first store never comes back from a copy.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, cast

from maint.errors import StoreFailed, WorkFailed
from maint.model.snapshot import Part, Snapshot, StoredFile
from maint.ports import Site, Store
from maint.retry import answering
from maint.snapshots.catalogue import (
    KEYS,
    Entry,
    Gone,
    committed_ids,
    entries,
    files,
    refuse_removed,
    sweep,
    usual_level,
)
from maint.snapshots.holds import HOLD, RELEASE
from maint.snapshots.in_progress import storing
from maint.snapshots.manifest import LARGEST, MANIFEST, SIGNATURE, damaged
from maint.snapshots.parts import UNREAD, Read, Tally, bounded, flaw, listing, metered, object_name, of_stored
from maint.snapshots.records import (
    FEW,
    Taken,
    Verification,
    insist_there,
    is_record,
    named,
    read_records,
    read_to_copy,
    write_record,
)
from maint.snapshots.verify import record, verify
from maint.snapshots.virtual_clusters.blobs import objects_in, worker_pool
from maint.snapshots.virtual_clusters.verify import spoiled_files

DETOUR = "detour"
HOME = "home"
WINDOW = "window"  # an open redaction window: said in the store that took it, and closed there
REACH = 20.0  # seconds for the first look at each store, as `maint doctor` has
LOOKED = "looked"  # which records of windows that cannot be verified a look at the manager's hosts has settled
_OWN = frozenset({"verify", DETOUR, HOME, WINDOW, LOOKED})  # records that speak of one store, and go nowhere


def replicate(site: Site) -> Generator[str, None, Sequence[str]]:
    """Copy to every store what it lacks; yields words; returns what could not be done and the next run tries."""
    problems: list[str] = []
    working = [store for store in every_store(site) if _works(store, problems)]
    if working[:1] == [site]:
        for copy in working[1:]:
            yield from _guarded(_come_home(copy, site, problems), problems)
    for copy in working[1:]:
        yield from _guarded(_copy_all(working[0], copy, problems), problems)
    return list(dict.fromkeys(problems))


def _works(site: Site, problems: list[str]) -> bool:
    try:
        reach(site)
    except WorkFailed as failure:
        problems.append(_told(failure))
        return False
    return True


def reach(site: Site) -> None:
    """Look at a store for the first time; WorkFailed: it has lost what was there, or gives no answer in `REACH`."""
    hint = f"look at its server, and at the way there; `maint doctor --site {site.settings.name}` tries it again"
    with answering(site.clock, REACH, f"{site.store.location}: ", hint):  # who never answers holds up no other store
        insist_there(site)


def _told(failure: WorkFailed) -> str:
    return f"{failure.in_a_line} ({failure.hint})" if failure.hint else failure.in_a_line


def _guarded(work: Iterator[str], problems: list[str]) -> Iterator[str]:
    try:
        yield from work
    except WorkFailed as failure:
        problems.append(_told(failure))


def note_detour(target: Site, snapshot_id: str, first: str) -> None:
    """Mark a snapshot that was stored in a copy because the first store could not be written."""
    write_record(target, DETOUR, snapshot_id, {"instead_of": first})


def _come_home(source: Site, target: Site, problems: list[str]) -> Generator[str, None, None]:
    records = list(read_records(source))
    arrived = {record.snapshot for record in records if record.kind == HOME}
    stray = {record.snapshot for record in records if record.kind == DETOUR} - arrived
    if not stray:
        return
    there = {*committed_ids(target)}
    for entry in reversed(entries(source)):
        if entry.snapshot is None or entry.id not in stray:
            continue
        if entry.id in there or (yield from _unless_gone(_copy(source, target, entry.snapshot, problems))):
            # What people said of it: a restore from a copy needs that copy.
            copy_records(source, target, HOLD, RELEASE, of=[entry.id])
            write_record(source, HOME, entry.id, {})


def _copy_all(source: Site, target: Site, problems: list[str]) -> Generator[str, None, None]:
    yield from tidied(target)
    there = {entry.id: entry for entry in entries(target)}
    for entry in reversed(entries(source)):
        copied = there.get(entry.id)
        if copied is not None and copied.unread:
            problems.append(f"{entry.id} in {target.store.location} {copied.problem}")
        elif copied is not None and not suspect(copied):
            continue
        elif entry.snapshot is None:
            way = f"; {KEYS}" if entry.untrusted else ""
            problems.append(f"{entry.id} was not copied to {target.store.location}: {entry.problem}{way}")
        elif copied is None or (yield from _unless_gone(_cleared(source, target, entry.snapshot, problems))):
            yield from _unless_gone(_copy(source, target, entry.snapshot, problems))
    copy_records(source, target)


def _unless_gone(work: Generator[str, None, bool]) -> Generator[str, None, bool]:
    """Do something with a snapshot; False too where another machine removes it meanwhile, which is no problem."""
    try:
        return (yield from work)
    except Gone as gone:
        yield gone.message
        return False


def suspect(copied: Entry) -> bool:
    """Whether a copy is not known to be sound: the next backup looks again, and takes it anew where it is not."""
    return copied.snapshot is None or copied.verified is None or copied.verified.broken


def _cleared(source: Site, target: Site, snapshot: Snapshot, problems: list[str]) -> Generator[str, None, bool]:
    """Look again at a copy that is not proven; make room for another where it is damaged and the original is sound."""
    here = verify(target, snapshot.id, level=1)
    if here.proven:  # it could only not be read then
        record(target, _proof(target, snapshot), snapshot)
        return False
    words = f"the copy of {snapshot.id} in {target.store.location} is damaged"
    if not here.failures:
        problems.append(f"the copy of {snapshot.id} in {target.store.location} could not be proven: {here.words}")
        return False
    original = verify(source, snapshot.id, level=1)
    if original.unread:
        problems.append(f"{words}, and stays for now: {original.words}")
        return False
    if original.failures:
        way = "`maint backup prune --damaged` lets such go"
        problems.append(f"{words}, and so is what {source.store.location} holds: neither is touched; {way}")
        return False
    yield f"{words}: it is taken anew, the original is sound"
    folder = f"{snapshot.site}/{snapshot.id}"
    with storing(target) if snapshot.objects else nullcontext():
        spoiled = spoiled_files(target, snapshot)
        target.store.remove(f"{folder}/{MANIFEST}")
        for name in sorted(files(target, snapshot.id)):
            target.store.remove(f"{folder}/{name}")
        for one in spoiled:
            target.store.remove(object_name(snapshot.site, one.place))
    return True


def _copy(source: Site, target: Site, snapshot: Snapshot, problems: list[str]) -> Generator[str, None, bool]:
    yield f"copying {snapshot.id} to {target.store.location}"
    folder = f"{snapshot.site}/{snapshot.id}"
    try:
        with storing(target) if snapshot.objects else nullcontext():
            _copy_objects(source, target, snapshot)
            for part in snapshot.parts:
                _copy_file(source, target, f"{folder}/{part.name}", part)
            for name in (SIGNATURE, MANIFEST):
                _copy_file(source, target, f"{folder}/{name}")
    except StoreFailed:
        raise
    except WorkFailed as failure:
        refuse_removed(source, snapshot.id)
        problems.append(f"{snapshot.id} was not copied to {target.store.location}: {failure.in_a_line}")
        return False
    verification = _proof(target, snapshot)
    record(target, verification, snapshot)
    yield f"{target.store.location}: {verification.words}"
    if not verification.proven:
        how = "is not sound" if verification.failures else "could not be proven"
        problems.append(f"the copy of {snapshot.id} in {target.store.location} {how}: {verification.words}")
    return verification.proven


def _proof(target: Site, snapshot: Snapshot) -> Verification:
    """Prove the stored bytes of a copy, and what was judged on capture but for rules that time breaks (licences)."""
    deep = verify(target, snapshot.id, usual_level(snapshot), opening=False)
    return deep if deep.proven or deep.broken_bytes else verify(target, snapshot.id, level=1)


def _copy_file(
    source: Site, target: Site, name: str, part: Part | StoredFile | None = None, total: int | None = None
) -> None:
    """Copy one file, of so many bytes in all; one that is there already stays, and the verification judges it."""
    try:
        with ExitStack() as stack:
            read = _opened(stack, source, name)
            copy = stack.enter_context(target.store.create(name))
            tally = Tally(_watched(source, read, part, total))
            most = LARGEST if part is None else part.bytes
            for block in bounded(tally.read, most + 1):
                copy.write(block)
            if tally.bytes > most:
                raise damaged(f"{name} in {source.store.location} is larger than what was stored")
            if part is not None and (tally.bytes, tally.sha256) != (part.bytes, part.sha256):
                raise damaged(f"{name} in {source.store.location} is not what was stored")
    except FileExistsError:
        return
    except FileNotFoundError:
        raise damaged(f"{name} is missing in {source.store.location}") from None


def _opened(stack: ExitStack, source: Site, name: str) -> Read:
    with _of_one_file():
        file = stack.enter_context(source.store.open(name))

    def read(size: int) -> bytes:
        with _of_one_file():
            return file.read(size)

    return read


@contextmanager
def _of_one_file() -> Iterator[None]:
    """What a store does not give of one file is no word on the others: it hinders the copy of one snapshot."""
    try:
        yield
    except StoreFailed as failure:
        raise WorkFailed(failure.message, detail=failure.detail, hint=failure.hint) from None


def _watched(source: Site, read: Read, one: Part | StoredFile | None, total: int | None) -> Read:
    if one is None:
        return read
    what, of = of_stored("copying", one)
    return metered(source, what, read, total or of)


def _copy_objects(source: Site, target: Site, snapshot: Snapshot) -> None:
    """Copy the files that a snapshot shares with others; they must stand before its manifest names them."""
    listed = [entry.snapshot.objects for entry in entries(target) if entry.snapshot is not None]
    known = {one.place for objects in listed for one in objects} & set(objects_in(target))
    with worker_pool() as (hands, _):
        lacking = [one for one in snapshot.objects if one.place not in known]
        total = sum(one.bytes for one in lacking)
        list(hands.map(lambda one: _copy_object(source, target, one, total), lacking))


def _copy_object(source: Site, target: Site, one: StoredFile, total: int) -> None:
    """Copy a file anew; what stands there under its name is listed by no snapshot, and not proven."""
    name = object_name(source.settings.name, one.place)
    if not (problem := flaw(target, name, one)):  # a snapshot whose manifest was not given may need it
        return
    if problem.startswith(UNREAD):
        raise StoreFailed(f"{name} in {target.store.location} {problem}", hint="look at that store, then again")
    target.store.remove(name)
    _copy_file(source, target, name, one, total)


def copy_records(source: Site, target: Site, *kinds: str, of: Collection[str] = ()) -> None:
    """Copy records, signatures first; WorkFailed tells of those damaged or not given, once all others are copied.

    Args:
        kinds: none named: all but those that speak of one store's bytes.
        of: the ids of the snapshots that they are about; empty: of all.
    """
    folder = f"{source.settings.name}/records"
    there, damage, unread = set(listing(target, folder)), list[str](), 0
    for name in listing(source, folder):
        kind, snapshot_id = named(name)
        wanted = (kind in kinds if kinds else kind not in _OWN) and (not of or snapshot_id in of)
        if not is_record(name) or name in there or not wanted:
            continue
        try:
            content, signature = read_to_copy(source, name)
        except WorkFailed as failure:
            if isinstance(failure, StoreFailed) and (unread := unread + 1) > FEW:
                raise
            damage.append(f"{name} in {source.store.location} is not copied: {failure.in_a_line}")
            continue
        for path, one in ((f"{name}.sig", signature), (name, content)):
            with suppress(FileExistsError), target.store.create(path) as copy:
                copy.write(one)
    if damage:
        more = "; where it lies sound in another store, put it and its .sig back from there"
        raise WorkFailed(damage[0], detail=damage[1:], hint=f"look at the health of that store{more}")


def tidied(site: Site) -> Iterator[str]:
    """Sweep a store; what it does not let go, as where the account may add and not remove, stays, and is told."""
    try:
        sweep(site)
    except StoreFailed as failure:  # where it is away, what is written next tells
        yield f"what died half-written stays: {failure.in_a_line}"


class _WithStore:
    copies: Sequence[Store] = ()  # a copy is copied no further

    def __init__(self, site: Site, store: Store) -> None:
        self._site, self.store = site, store

    def __getattr__(self, name: str) -> Any:  # Any: all else is the site's own
        return getattr(self._site, name)


def with_store(site: Site, store: Store) -> Site:
    """Return the same site, whose snapshots lie in one of its further stores."""
    return cast(Site, _WithStore(site, store))


def every_store(site: Site) -> list[Site]:
    """Return the site as it is, and with each of its further stores."""
    return [site, *(with_store(site, copy) for copy in site.copies)]


def with_failover(site: Site, take: Callable[[Site], Generator[str, None, Taken]]) -> Generator[str, None, Taken]:
    """Take a snapshot into the first store, else the first copy that can hold it (StoreFailed: none); yields words."""
    try:
        return (yield from take(site))
    except StoreFailed as first:
        failure = first
    for copy in site.copies:
        yield f"{failure.in_a_line}; storing in {copy.location} instead"
        target = with_store(site, copy)
        try:
            taken = yield from take(target)
        except StoreFailed as further:
            failure = further
            continue
        note_detour(target, taken.snapshot.id, site.store.location)
        return taken
    raise failure
