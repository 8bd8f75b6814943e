"""Remove snapshots that nothing keeps, and clean up after a removal that was killed half-way."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from maint.errors import Refused, StoreFailed, WorkFailed
from maint.model.formatting import show_count
from maint.model.snapshot import Purpose, Snapshot, Trust
from maint.ports import Sight, Site
from maint.snapshots.catalogue import Entry, committed_ids, entries, files, folders, holds, shrunk
from maint.snapshots.holds import HOLD, RELEASE, RESTORE, standing_holds
from maint.snapshots.in_progress import refuse_clock_ahead
from maint.snapshots.manifest import MANIFEST, time_of
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import PRUNE, Record, place_of, read_all, read_kinds, read_of, told_of, write_record
from maint.snapshots.replicate import copy_records, reach, with_store
from maint.snapshots.retention_policy import LEVEL, Candidate, Retention, decide, newest_of_clusters
from maint.snapshots.verify import record, verify
from maint.snapshots.virtual_clusters.blobs import collect
from maint.snapshots.virtual_clusters.document import clusters_in, part_name

_VANISHED = "it is gone, and no signed record says that it was removed; look at the store and its copies (`--store`)"
_OPENED = 2  # the level of verification from which on a backup of a virtual cluster is proof that it comes back


def candidate(entry: Entry, clusters: Collection[str]) -> Candidate:
    """Return what retention has to know of a snapshot in the list; `clusters` are the virtual ones of the site."""
    snapshot = entry.snapshot
    if snapshot is None:
        return Candidate(entry.id, time_of(entry.id), good=False, kind="not readable now", damage=damage(entry))
    held = [one for one in clusters_in(snapshot) if one in clusters and not _is_safety(entry)]
    flawed = {one.name for one in snapshot.virtual_clusters if one.problems or one.doubt}
    return Candidate(
        entry.id,
        snapshot.taken_at,
        good=good(entry),
        kind=_kind(snapshot),
        damage=damage(entry),
        clusters=tuple(held),
        whole=tuple(one for one in held if one not in flawed),
        opened=entry.proven is not None and entry.proven.level >= _OPENED,
    )


def candidates(sight: Sight, known: Sequence[Entry]) -> Sequence[Candidate]:
    """Return what retention has to know of each snapshot in the list."""
    clusters = {cluster.name for cluster in sight.settings.virtual_clusters}
    return [candidate(one, clusters) for one in known]


def damage(entry: Entry) -> str | None:
    """Return why it cannot be believed, None where it can, or where the store did not give its manifest; of an
    audit-only one, which breaks rules of a restore by what it is, the bytes count.
    """
    snapshot, seen = entry.snapshot, entry.verified
    if snapshot is None:
        return None if entry.unread else entry.problem or "unreadable"
    if seen is not None and seen.result is Trust.FAILED and (snapshot.restorable or seen.broken):
        return "its verification failed"
    return "its drill failed" if entry.rejected else None


def passed_over(sight: Sight, chosen: Snapshot, part: str = DEPLOYMENT) -> Mapping[str, str]:
    """Return the later snapshots that are gone or not to be believed, by id, and why; not those without the part."""
    gone = _missed(sight, chosen.id)
    if not any(one > chosen.id for one in committed_ids(sight)):
        return gone
    return gone | {
        one.id: damage(one) or one.drawback
        for one in entries(sight)
        if one.id > chosen.id and (one.unread or damage(one)) and (one.snapshot is None or one.snapshot.has(part))
    }


def _missed(sight: Sight, after: str) -> dict[str, str]:
    """Return what became of later snapshots that signed records tell of and the store does not list, by id."""
    there, _ = told_of(sight)  # before the list: what is stored meanwhile is not missed
    return {
        one: "it is there, and the store does not list it" if holds(sight, one) else _VANISHED
        for one in sorted(there - {*committed_ids(sight)})
        if one > after and any(read_of(sight, one, "verify")) and not any(read_of(sight, one, PRUNE))
    }


def of_passed_over(newer: Mapping[str, str]) -> str:
    """Return what a plan says of them beside the snapshot that it uses; empty where there are none."""
    return "".join(f"; a NEWER one is passed over: {one}: {why}" for one, why in newer.items())


def stored_bytes(known: Iterable[Entry]) -> int:
    """Return the bytes that snapshots take, what they share counted once."""
    there = [one.snapshot for one in known if one.snapshot is not None]
    objects = {one.place: one.bytes for snapshot in there for one in snapshot.objects}
    return sum(part.bytes for snapshot in there for part in snapshot.parts) + sum(objects.values())


def good(entry: Entry) -> bool:
    """Whether it counts: a restorable backup, verified to level 3, and nothing found against it since."""
    return entry.offered and entry.proven is not None and entry.proven.level >= LEVEL


def newest_good(known: Sequence[Entry], now: datetime) -> Snapshot | None:
    """Return the newest snapshot that counts and is not from the future: the last verified success."""
    fitting = [one.snapshot for one in known if one.snapshot is not None and good(one)]
    return max((one for one in fitting if one.taken_at <= now), key=lambda one: (one.taken_at, one.id), default=None)


def verdict(sight: Sight, *, thaw: bool = False, damaged: bool = False) -> Retention:
    """Return what the site's policy makes of its snapshots now; Refused where the site has no retention policy.

    Args:
        thaw: the operator's word that a doubtful capture is no reason to wait.
        damaged: the operator's word that snapshots which cannot be believed may go.
    """
    known, now = entries(sight), sight.clock.now()
    backup = sight.settings.backup
    return decide(
        candidates(sight, known),
        backup.keep if backup else None,
        now,
        minimum=backup.minimum if backup else 0,
        holds={one.id: one.holds for one in known},
        frozen=None if thaw else doubt(known, now),
        damaged=damaged,
    )


def doubt(known: Sequence[Entry], now: datetime) -> str | None:
    """Return why the latest backup must be looked at before older ones may go; None where it looks as it should."""
    backups = _backups(known, now)
    return _doubt_of_manager(_of_manager(backups)) or _doubt_of_clusters(backups)


def doubted(known: Sequence[Entry], now: datetime) -> str:
    """Return the id of the latest backup of the manager where it is in a doubt that a person can end, else ""."""
    backups = _of_manager(_backups(known, now))
    return backups[-1].id if _shrunk(backups) or _unopened(backups) else ""


def _backups(known: Sequence[Entry], now: datetime) -> Sequence[Entry]:
    return [one for one in known if _taken_at(one) <= now and not _is_safety(one)]


def _of_manager(backups: Sequence[Entry]) -> Sequence[Entry]:
    found = [one for one in backups if one.snapshot is None or one.snapshot.has(DEPLOYMENT)]
    return sorted(found, key=lambda one: (_taken_at(one), one.id))


def _shrunk(backups: Sequence[Entry]) -> str | None:
    return shrunk([*filter(good, backups[:-1]), *backups[-1:]])


def _unopened(backups: Sequence[Entry]) -> str | None:
    """Return that the latest is encrypted for other keys than older ones, and that no key has opened one like it yet:
    whose private key is lost, or was never anybody's, would let all go that can be opened.
    """
    latest = backups[-1] if backups else None
    if latest is None or latest.snapshot is None or latest.accepted:
        return None
    keys = _keys(latest)
    others = [one for one in backups if good(one) and not keys & _keys(one)]
    alike = (one for one in backups if keys & _keys(one))
    if not keys or not others or any(look.passed >= _OPENED for one in alike for look in one.looks):
        return None
    words = "none was seen to open one like it yet: verify it where its private key is"
    return f"{latest.id} is encrypted for other keys than {others[-1].id}, and {words}"


def _keys(entry: Entry) -> set[str]:
    return {one.strip() for one in entry.snapshot.recipients} if entry.snapshot is not None else set()


def _taken_at(entry: Entry) -> datetime:
    return entry.snapshot.taken_at if entry.snapshot is not None else time_of(entry.id)


def _doubt_of_manager(backups: Sequence[Entry]) -> str | None:
    if not backups:
        return None
    latest = backups[-1]
    if latest.snapshot is None:
        why = latest.problem if latest.unread else f"cannot be believed ({latest.problem})"
        return f"the latest backup {latest.id} {why}"
    unproven = latest.verified is None or latest.verified.result is not Trust.VERIFIED
    if unproven and (latest.snapshot.restorable or latest.verified is None or latest.verified.broken):
        how = "is not verified" if latest.verified is None else f"is {latest.verified.result.value}"
        return f"the latest backup {latest.id} {how}"
    why = _shrunk(backups) or _unopened(backups)
    return f"the latest backup {why}" if why else None


def _doubt_of_clusters(backups: Sequence[Entry]) -> str | None:
    """Return why the latest that is known of a virtual cluster is not taken for the truth."""
    latest = dict[str, tuple[str, str]]()
    for one in sorted(backups, key=lambda one: one.id):
        for cluster in one.snapshot.virtual_clusters if one.snapshot is not None else ():
            if one.snapshot is not None and one.snapshot.has(part_name(cluster.name)):
                latest[cluster.name] = (one.id, cluster.doubt)
    doubted = [f"in {where}, {name}: {why}" for name, (where, why) in latest.items() if why]
    return f"a virtual cluster is not taken for the truth ({doubted[0]})" if doubted else None


def _is_safety(entry: Entry) -> bool:
    return entry.snapshot is not None and entry.snapshot.purpose is Purpose.SAFETY


def _kind(snapshot: Snapshot) -> str:
    if snapshot.purpose is Purpose.SAFETY:
        return "safety copy"
    if not snapshot.has(DEPLOYMENT):
        return "virtual clusters alone"
    return "not verified to level 3" if snapshot.restorable else "audit-only"


def held_since(site: Site, snapshot_id: str) -> str:
    """Return in words what holds a snapshot now, "" for nothing: another machine may hold it, or begin to restore from
    it, after it was decided that it goes.
    """
    for of in (snapshot_id, ""):  # that a restore has ended may be told of another snapshot that it needed
        if not (words := _standing(site, *read_kinds(site, HOLD, RELEASE, RESTORE, of=of)).get(snapshot_id, "")):
            break
    return words


def remove(site: Site, snapshot_id: str, reasons: Sequence[str]) -> None:
    """Remove a snapshot for good, under the lock: a signed record that says why, then the manifest, then the rest."""
    write_record(site, PRUNE, snapshot_id, {"reasons": list(reasons)})
    _remove_files(site, snapshot_id)


def insist_on_the_floor(site: Site) -> Generator[str, None, None]:
    """Read the bytes of the snapshots that always stay before others go, of the manager and of each virtual cluster;
    Refused where one is damaged.
    """
    for entry in _floor(site):
        yield f"reading {entry.id}, which stays"
        judged = verify(site, entry.id, 1)
        if not judged.proven:
            record(site, judged)
            how = "is damaged" if judged.failures else "could not be read"
            raise Refused(
                f"nothing is removed: snapshot {entry.id}, which was to stay, {how}",
                detail=[*(finding.words for finding in judged.failures), *judged.unread],
                hint="look at the health of the store, take another backup, then prune again",
            )


def _floor(site: Sight) -> Sequence[Entry]:
    backup = site.settings.backup
    now = site.clock.now()
    listed = entries(site)
    known = [one for one in listed if good(one) and one.snapshot is not None and one.snapshot.taken_at <= now]
    fitting = sorted(known, key=lambda one: one.id, reverse=True)
    floor = fitting[: max(backup.minimum if backup else 0, 1)]
    of_clusters = {id_ for _, id_ in newest_of_clusters(candidates(site, listed), now)}
    return [*floor, *(one for one in listed if one.id in of_clusters and one not in floor)]


def clean_up(site: Site) -> Sequence[str]:
    """Finish removals that were killed half-way; return the ids."""
    left = leftovers(site)
    for snapshot_id in left:
        _remove_files(site, snapshot_id)
    return left


def leftovers(sight: Sight) -> Sequence[str]:
    """Return the ids of snapshots whose removal was begun and not finished."""
    begun = {record.snapshot for record in read_kinds(sight, PRUNE)[0]}
    return [one for one, there in folders(sight).items() if one in begun and MANIFEST not in there]


def follow(site: Site) -> Generator[str, None, Sequence[str]]:
    """Remove from the copies what was pruned from the first store, and files that no copy needs; yields words.

    Only what a signed record names goes: a first store that lost its snapshots takes nothing with it. Returns what
    could not be done, one line each; the next run tries it again.
    """
    gone, floor = pruned(site), {one.id for one in _floor(site)}
    problems = []
    for copy in site.copies:
        other = with_store(site, copy)
        try:
            reach(other)
            there = gone & set(folders(other))
            kept = _held(site, other) if there else {}
            for snapshot_id in sorted(there & set(kept)):
                yield f"{snapshot_id} stays in {copy.location}: {kept[snapshot_id]}"
            going = sorted(there - set(kept))
            if going and (lacking := sorted(floor - _sound(other))):
                spare = yield from _spare(other, going)  # which makes room, where there was none for the newest
                words = f"{copy.location} lacks {', '.join(lacking)}, which the next backup copies, where there is room"
                count = show_count(len(going) - len(spare), "pruned snapshot")
                problems.append(f"{words}; until then it keeps {count}" if len(spare) < len(going) else words)
                going = spare
            if going:
                refuse_clock_ahead(site)
                with suppress(StoreFailed):  # a full copy gets room by what follows
                    copy_records(site, other, PRUNE, of=going)  # so that it can tell why they went
            for snapshot_id in going:
                _remove_files(other, snapshot_id)
                yield f"removed {snapshot_id} from {copy.location}"
            yield from collect(other)
        except WorkFailed as failure:
            problems.append(failure.in_a_line)
    return problems


def _spare(other: Site, going: Sequence[str]) -> Generator[str, None, list[str]]:
    """Return which of these a copy that lacks the newest can do without: as many good ones as always stay are read."""
    backup, stay = other.settings.backup, {one.id for one in _floor(other)}
    spare = [one for one in going if one not in stay]
    if not spare or len(stay) < max(backup.minimum if backup else 0, 1):
        return []
    try:
        yield from insist_on_the_floor(other)
    except Refused as refusal:
        yield f"{other.store.location}: {refusal.in_a_line}"
        return []
    return spare


def _held(site: Site, other: Site) -> Mapping[str, str]:
    """Return what a copy's own records hold, as a restore from it does, and why; what frees may stand in the first."""
    records, doubtful, _ = read_all(other)  # what that store has lost may be such a hold, too
    known = read_kinds(site, HOLD)[0]  # which was heeded there: what is held is encrypted anew with its hold, then goes
    own = [one for one in records if one not in known]
    heeded = {place_of(one.site, one.at, one.kind, one.snapshot) for one in known}
    unknown = [name for name in doubtful if name not in heeded]
    return _standing(site, [*own, *read_kinds(site, RELEASE, RESTORE)[0]], unknown)


def _standing(site: Site, records: Sequence[Record], doubtful: Sequence[str]) -> Mapping[str, str]:
    """Return in words what holds which snapshot now, by what records tell."""
    past, now = standing_holds(records, doubtful), site.clock.now()
    stands = {one: {hold.words: None for hold in holds if hold.stands(now)} for one, holds in past.items()}
    return {one: "; ".join(words) for one, words in stands.items() if words}


def _sound(other: Site) -> set[str]:
    return {one.id for one in entries(other) if one.snapshot and one.proven and not one.rejected}


def pruned(sight: Sight) -> frozenset[str]:
    """Return the ids of what was pruned from the first store for good, as signed records tell."""
    return frozenset(one.snapshot for one in read_kinds(sight, PRUNE)[0]) - set(folders(sight))


def _remove_files(site: Site, snapshot_id: str) -> None:
    for name in sorted(files(site, snapshot_id), key=lambda one: one != MANIFEST):
        site.store.remove(f"{site.settings.name}/{snapshot_id}/{name}")


def by_id(decided: Retention) -> Mapping[str, Sequence[str]]:
    """Return the reasons of those that go, by id."""
    return {one.id: one.reasons for one in decided.decisions if not one.keep}


def lines(decided: Retention) -> Iterator[tuple[str, str, str]]:
    """Yield id, `keep` or `remove`, and the reasons, for a table."""
    for one in decided.decisions:
        yield one.id, "keep" if one.keep else "remove", "; ".join(one.reasons)
