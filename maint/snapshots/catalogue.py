"""Find the snapshots of a site; a damaged one is listed with its problem: hidden, it would be missed too late."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from maint.errors import Misplaced, OfLaterVersion, Refused, StoreFailed, UsageError, WorkFailed
from maint.model.formatting import parse_time, show_count
from maint.model.json import Json
from maint.model.snapshot import Purpose, Snapshot, Trust
from maint.ports import Sight, Site
from maint.snapshots import records
from maint.snapshots.holds import Hold, standing_holds
from maint.snapshots.in_progress import MANAGER, end, is_abandoned, newest_seen, store_time, unfinished
from maint.snapshots.manifest import LARGEST, MANIFEST, SIGNATURE, UNTRUSTED, damaged, decode, is_id, time_of
from maint.snapshots.parts import DEPLOYMENT, listing, read_signed

_NAMED = 3  # how many snapshots are named with why they are not offered
_BODY = ("hosts", "clusters", "services", "roles")  # counts that do not halve from one day to the next
_UNREAD = "could not be read: "
KEYS = (
    "name the keys to believe: backup.trusted_keys in the config, without one --signed-by;"
    " `maint backup show ID` shows whose key is meant"
)
LATEST = "latest"  # stands for an id: the newest backup; for a restore, the newest restorable one


class Verified(msgspec.Struct, frozen=True):
    """What a verification of a snapshot said."""

    level: int
    at: datetime
    result: Trust
    broken: bool = False  # the bytes themselves are wrong
    files_read: datetime | None = None  # since when every file of virtual clusters is known to have been read
    depth: int | None = None  # the level that it reached; None: a record of an earlier version does not tell
    on_capture: bool = False  # what is deeper than level 1 was not looked at, but judged when it was taken
    tried: int = 0  # the level to which it was looked at, where the password of another day kept it from counting

    @property
    def words(self) -> str:
        """What it said, and of which level."""
        short = self.depth is not None and self.depth < self.level
        return f"{self.result.value}, level " + (f"{self.depth} of {self.level}" if short else f"{self.level}")

    @property
    def passed(self) -> int:
        """The deepest level that it found well; 0: none, or an earlier version's record does not tell."""
        reached = self.depth if self.depth is not None else self.level if self.result is Trust.VERIFIED else 0
        return min(reached, 1) if self.on_capture else reached

    @property
    def failed(self) -> int:
        """The level at which it failed; 0: it did not."""
        if self.result is not Trust.FAILED:
            return 0
        return self.level if self.depth is None else self.depth + 1


class Entry(msgspec.Struct, frozen=True):
    """A snapshot in the list: either what its manifest says, or why that cannot be believed."""

    id: str
    snapshot: Snapshot | None
    problem: str | None
    verified: Verified | None  # the latest, or a failure that none since has looked deep enough to overturn
    proven: Verified | None = None  # the deepest level passed that no later failure has overturned
    drilled: records.Drill | None = None  # the latest
    holds: tuple[Hold, ...] = ()  # those that have run out among them
    files_read: datetime | None = None  # since when every file of virtual clusters is known to have been read
    looks: tuple[Verified, ...] = ()  # every verification, in order of time
    accepted: bool = False  # somebody has said that it is well, where it was doubted, or of a later one
    unread: bool = False  # its manifest or a record cannot be read here, which says nothing of it: it is kept
    remedy: str = "look at the store, then again"  # where it is unread

    @property
    def offered(self) -> bool:
        """Whether it may be taken where nobody named one: restorable, no safety copy, nothing found against it."""
        backup = self.snapshot is not None and self.snapshot.purpose is Purpose.BACKUP
        return self.restorable and not self.rejected and backup

    @property
    def restorable(self) -> bool:
        """Whether the manager can be rebuilt from it, as far as anyone has looked."""
        failed = self.verified is not None and self.verified.result is Trust.FAILED
        return self.snapshot is not None and self.snapshot.restorable and not failed

    @property
    def usual_level(self) -> int:
        """How deep it is looked at where nobody says; 3 where its manifest cannot be read, which that tells."""
        return usual_level(self.snapshot) if self.snapshot else 3

    def seen(self, level: int) -> datetime | None:
        """Return when it was last looked at to this level or deeper, None: never."""
        return max((one.at for one in self.looks if max(one.level, one.tried) >= level), default=None)

    @property
    def untrusted(self) -> bool:
        """Whether it is signed by a key that is not trusted here."""
        return UNTRUSTED in (self.problem or "")

    @property
    def rejected(self) -> bool:
        """Whether it did not come back in its latest drill."""
        return self.drilled is not None and not self.drilled.passed

    @property
    def drawback(self) -> str:
        """Why it is not offered."""
        if self.snapshot is None:
            return self.problem or "it cannot be read"
        if self.snapshot.purpose is not Purpose.BACKUP:
            return f"a {self.snapshot.purpose} copy"
        if not self.snapshot.restorable:
            return "not restorable"
        return f"its last drill failed: {self.drilled.reason}" if self.rejected and self.drilled else "found damaged"


def entries(sight: Sight) -> Sequence[Entry]:
    """Return all snapshots of the site, the oldest first; StoreFailed where they or several records cannot be read."""
    past, doubtful, unread = records.read_all(sight)
    looks = defaultdict[str, list[Verified]](list)
    for snapshot_id, look in _each_verification(past):
        looks[snapshot_id].append(look)
    proven, holds, read = _proofs(past), standing_holds(past, doubtful), _files_read(past)
    found = [entry for one in committed_ids(sight) if (entry := _entry(sight, one, unread.get(one))) is not None]
    drilled = records.latest_drills(past, [one.snapshot for one in found if one.snapshot is not None])
    accepted = max((one.snapshot.partition("-")[0] for one in past if one.kind == records.THAW), default="")
    return [
        replace(
            entry,
            verified=_standing(looks[entry.id], entry.usual_level),
            looks=tuple(looks[entry.id]),
            proven=proven.get(entry.id),
            drilled=drilled.get(entry.id),
            holds=(*holds.get(entry.id, ()), *entry.holds),
            files_read=read.get(entry.id),
            accepted=entry.id.partition("-")[0] <= accepted,
        )
        for entry in found
    ]


def last_verification(sight: Sight, snapshot: Snapshot) -> Verified | None:
    """Return what `Entry.verified` says of one snapshot, None where nobody has verified it."""
    looks = [one for _, one in _each_verification(records.read_of(sight, snapshot.id, "verify"))]
    return _standing(looks, usual_level(snapshot))


def last_proof(sight: Sight, snapshot_id: str) -> Verified | None:
    """Return the deepest verification of one snapshot that still stands, None without one."""
    return _proofs(records.read_of(sight, snapshot_id, "verify")).get(snapshot_id)


def usual_level(snapshot: Snapshot) -> int:
    """Return how deep a snapshot is looked at where nobody says: 3, but 2 for what was never meant to be restored."""
    return 3 if snapshot.restorable or not snapshot.has(DEPLOYMENT) else 2


def newest_restorable(sight: Sight) -> Snapshot:
    """Return the newest snapshot from which the manager can be rebuilt; Refused: there is none, or it is `shrunk`."""
    listed = entries(sight)
    offered = [one.snapshot for one in listed if one.offered and one.snapshot]
    if offered:
        refuse_hidden(sight, listed, offered[-1].id, MANAGER)
        if why := shrunk([one for one in listed if one.offered]):
            raise Refused(
                f"the newest restorable snapshot {why}",
                detail=["a manager that lost its configuration gives such a one; exit code 5: nothing was touched"],
                hint="name the snapshot that is meant; where the newest really holds so little,"
                " `maint backup prune --thaw REASON` says so once",
            )
        return offered[-1]
    refuse_hidden(sight, listed, "", MANAGER)
    again = any(one.snapshot and one.snapshot.restorable and not one.restorable for one in listed)
    damaged = "; one found damaged, named by its id, is asked anew whether the manager can be rebuilt" if again else ""
    raise none_to_choose(
        sight,
        [(one, one.drawback) for one in listed],
        f"no restorable snapshot of {sight.settings.name} in {sight.store.location}",
        f"`maint backup create --open-window` takes a restorable one{damaged}",
    )


def none_to_choose(sight: Sight, listed: Sequence[tuple[Entry, str]], words: str, take: str) -> Refused:
    """Return the refusal where no snapshot can be chosen: all, the oldest first, with why not; how one is taken."""
    told = [f"{one.id}: {why}" for one, why in listed[: -_NAMED - 1 : -1]]
    told += [f"and {show_count(len(listed) - _NAMED, 'older one')}"] if len(listed) > _NAMED else []
    hint = _way_on([one for one, _ in listed], take) + records.a_copy(sight)
    return Refused(words, detail=told or [*records.instead(sight), *records.hidden(sight)], hint=hint)


def shrunk(known: Iterable[Entry]) -> str | None:
    """Return in words by how much the last of these, the oldest first, holds less than the last that is believed: one
    that did not lose more than half either, or that somebody has accepted. None: it does not.
    """
    believed, why = None, None
    for one in known:
        why = _less(one.snapshot, believed) if one.snapshot and believed and not one.accepted else None
        believed = believed if why else one.snapshot
    return why


def _less(latest: Snapshot, before: Snapshot) -> str | None:
    for name in _BODY:
        now, then = latest.judgement.counts.get(name, 0), before.judgement.counts.get(name, 0)
        if 2 * now < then:
            return f"{latest.id} holds {now} {name}, and {before.id} holds {then}"
    return None


def refuse_hidden(sight: Sight, listed: Sequence[Entry], chosen: str, kind: str) -> None:
    """Refuse an older snapshot as default (`chosen`, "" for none) where a newer one was seen and is gone unrecorded.

    Args:
        kind: what is chosen: `in_progress.MANAGER`, `in_progress.of_cluster(NAME)`.
    """
    for seen in sorted(newest_seen(sight, kind), reverse=True):
        if seen > chosen:
            _refuse_hidden(sight, listed, chosen, seen)


def refuse_gone(sight: Sight, listed: Sequence[Entry]) -> None:
    """Refuse as `refuse_hidden` does, whatever was seen and is gone unrecorded; not where it is there and damaged."""
    for seen in gone_unrecorded(sight, listed):
        _refuse_hidden(sight, listed, "", seen)


def gone_unrecorded(sight: Sight, listed: Iterable[Entry]) -> Sequence[str]:
    """Return the ids of backups that this machine has seen, the newest first, and that are gone without a record."""
    gone = sorted(newest_seen(sight) - {one.id for one in listed}, reverse=True)
    return [one for one in gone if not any(records.read_of(sight, one, records.PRUNE))]


def _refuse_hidden(sight: Sight, listed: Sequence[Entry], chosen: str, seen: str) -> None:
    there = next((one for one in listed if one.id == seen), None)
    if there is not None and there.snapshot is not None:
        return
    if (there is None or not there.unread) and any(records.read_of(sight, seen, records.PRUNE)):
        return
    doubted = "is not to be believed any more: " if there and not there.unread else ""
    raise Refused(
        f"snapshot {seen}, which this machine has verified in {sight.store.location}, "
        + (f"{doubted}{there.problem}" if there else "is not shown there any more"),
        detail=[
            *([f"the newest that could be chosen instead is {chosen}"] if chosen else []),
            "no signed record says that it was removed; exit code 5: nothing was touched",
        ],
        hint="look at the store and its copies (`--store`); to use an older one all the same, name it" + _let_go(there),
    )


def _let_go(there: Entry | None) -> str:
    if there is None:
        return "; where it is lost for good, `maint backup list --rebuild` says so once"
    if there.unread or there.untrusted:  # nothing is known to be wrong with it
        return f"; {there.remedy}" if there.unread else ""
    return "; where no copy of it is sound, `maint backup prune --damaged` removes it"


def _way_on(listed: Sequence[Entry], take: str) -> str:
    if listed and all(one.unread for one in listed):
        return listed[-1].remedy
    if listed and all(one.untrusted for one in listed):
        return KEYS
    keys = f"; {KEYS}" if any(one.untrusted for one in listed) else ""
    return f"`maint backup list` shows what there is{keys}; {take}"


def find(sight: Sight, wanted: str) -> Snapshot:
    """Return a snapshot by its id or the beginning of it; raises as `find_id` and `load` do."""
    return load(sight, find_id(sight, wanted))


def find_id(sight: Sight, wanted: str) -> str:
    """Return the one id that is or begins with `wanted` (else UsageError), however its manifest looks; or LATEST's."""
    if wanted == LATEST:
        return latest(sight)
    known = committed_ids(sight)
    fitting = [one for one in known if wanted and one.startswith(wanted)]
    if wanted in fitting:
        return wanted
    if len(fitting) == 1:
        return fitting[0]
    words = f"{len(fitting)} snapshots begin with {wanted}" if fitting else f"there is no snapshot {wanted or '(none)'}"
    near = fitting[:5] or get_close_matches(wanted, known, cutoff=0.4)
    raise UsageError(words, detail=near, hint="`maint backup list` shows them all")


def latest(sight: Sight) -> str:
    """Return the id of the newest backup, also of one whose manifest cannot be read; Refused: there is none."""
    known = entries(sight)
    if not known:
        raise Refused(
            f"there is no snapshot of {sight.settings.name} in {sight.store.location} yet",
            detail=records.instead(sight),
            hint="look at the store's address, where there should be some; `maint backup create` takes a first one"
            f" into backup.store{records.a_copy(sight)}",
        )
    backups = [one for one in known if one.snapshot is None or one.snapshot.purpose is Purpose.BACKUP]
    return (backups or known)[-1].id


class Gone(Refused):
    """A snapshot was removed for good, such as by another machine while this one read it: nothing is wrong with it."""


def refuse_removed(sight: Sight, snapshot_id: str) -> None:
    """Raise Gone where a snapshot's manifest is not there and a signed record says that it was removed."""
    if not holds(sight, snapshot_id) and any(records.read_of(sight, snapshot_id, records.PRUNE)):
        raise Gone(
            f"snapshot {snapshot_id} was removed from {sight.store.location} while it was read",
            detail=["a signed record says so: it was not needed any more, and is not damaged"],
            hint="`maint backup list` shows what is there",
        )


def load(sight: Sight, snapshot_id: str) -> Snapshot:
    """Return a snapshot whose manifest is signed by a trusted key for this id and site; else WorkFailed, or Gone."""
    site = sight.settings.name
    folder = f"{site}/{snapshot_id}"
    try:
        snapshot = decode(read_signed(sight, f"{folder}/{MANIFEST}", f"{folder}/{SIGNATURE}", LARGEST))
    except StoreFailed:
        raise
    except WorkFailed:
        refuse_removed(sight, snapshot_id)
        raise
    words = f"the manifest belongs to {snapshot.site}/{snapshot.id}, not to {site}/{snapshot_id}"
    if snapshot.id != snapshot_id:
        raise damaged(words)
    if snapshot.site != site:
        hint = f"was the folder renamed? give it its name {snapshot.site} again, and the site that name in the config"
        raise Misplaced(words, hint=hint)
    return snapshot


def sweep(site: Site) -> int:
    """Remove half-written files, parts without a manifest and signatures without a record; return how many."""
    # The caller holds the site's lock: what this machine began and did not end is dead; what others began, a day later.
    name = site.settings.name
    swept = site.store.sweep(name)
    dead = unfinished(site.state, site.store.location)
    left = {
        one: [f"{name}/{one}/{file}" for file in files]
        for one, files in folders(site).items()
        if MANIFEST not in files and not holds(site, one)  # a list may be cut short
    }
    others = [files for one, files in left.items() if one not in dead]
    others += [[signature] for signature in _without_record(site)]
    now = store_time(site) if others else None
    gone = [files for one, files in left.items() if one in dead]
    gone += [files for files in others if is_abandoned(site, files, now)]
    for file in (removed := [file for files in gone for file in files]):
        site.store.remove(file)
    for snapshot_id in dead:
        end(site.state, snapshot_id)
    return swept + len(removed)


def _without_record(site: Site) -> list[str]:
    """Return the signatures whose record never came: it is written after them."""
    names = set(listing(site, f"{site.settings.name}/records"))
    alone = [name for name in names if name.endswith(".json.sig") and name.removesuffix(".sig") not in names]
    ours = (name for name in alone if _has_time(name.rpartition("/")[2]))
    return [name for name in ours if site.store.size(name.removesuffix(".sig")) is None]  # a list may be cut short


def holds(sight: Sight, snapshot_id: str) -> bool:
    """Return whether a store has the manifest of a snapshot, however that looks."""
    return sight.store.size(f"{sight.settings.name}/{snapshot_id}/{MANIFEST}") is not None


def _has_time(name: str) -> bool:
    try:
        time_of(name)
    except ValueError:
        return False
    return True


def files(sight: Sight, snapshot_id: str) -> set[str]:
    """Return the names of all files in a snapshot's folder."""
    folder = f"{sight.settings.name}/{snapshot_id}"
    return {name.removeprefix(f"{folder}/") for name in listing(sight, folder)}


def committed_ids(sight: Sight) -> list[str]:
    """Return the ids of the snapshots that were written to their end, the oldest first; StoreFailed: all are gone."""
    found = sorted(one for one, files in folders(sight).items() if MANIFEST in files)
    if not found:
        records.insist_there(sight)
    return found


def folders(sight: Sight) -> dict[str, set[str]]:
    """Return the files of every folder that bears the name of a snapshot."""
    found: dict[str, set[str]] = {}
    for name in listing(sight, sight.settings.name):
        _, _, inner = name.partition("/")
        snapshot_id, *rest = inner.split("/")
        if rest and is_id(snapshot_id):
            found.setdefault(snapshot_id, set()).add("/".join(rest))
    return found


def _entry(sight: Sight, snapshot_id: str, unread: StoreFailed | None) -> Entry | None:
    if unread is not None:
        return _unread(sight, snapshot_id, f"a record about it {_UNREAD}{unread.in_a_line}")
    try:
        return Entry(snapshot_id, load(sight, snapshot_id), None, None)
    except Gone:
        return None
    except StoreFailed as failure:
        told = _unread(sight, snapshot_id, f"{_UNREAD}{failure.in_a_line}")
        return (
            replace(told, remedy=failure.hint)
            if isinstance(failure, OfLaterVersion | Misplaced) and failure.hint
            else told
        )
    except WorkFailed as failure:
        return Entry(snapshot_id, None, failure.message, None)


def _unread(sight: Sight, snapshot_id: str, why: str) -> Entry:
    kept = Hold("what cannot be read is not removed", sight.clock.now())
    return Entry(snapshot_id, None, why, None, holds=(kept,), unread=True)


def _standing(looks: Iterable[Verified], usual: int) -> Verified | None:
    """Return the latest verification, or the latest failure that no later one overturned, as deep or as is usual."""
    latest, failures = None, list[Verified]()
    for latest in looks:
        failures = [one for one in failures if min(one.failed, usual) > latest.passed]
        failures += [latest] if latest.failed else []
    return failures[-1] if failures else latest


def _proofs(past: Iterable[records.Record]) -> Mapping[str, Verified]:
    """Return the deepest verification of each snapshot that still stands: a failure overturns all before it."""
    proven, failed = dict[str, Verified](), dict[str, int]()
    for snapshot_id, one in _each_verification(past):
        if one.result is Trust.FAILED:
            proven.pop(snapshot_id, None)
            failed[snapshot_id] = max(one.failed, failed.get(snapshot_id, 0))
        elif one.result is not Trust.VERIFIED or (one.on_capture and failed.get(snapshot_id, 0) > one.passed):
            continue
        elif snapshot_id not in proven or one.level >= proven[snapshot_id].level:
            failed.pop(snapshot_id, None)
            proven[snapshot_id] = one
    return proven


def _each_verification(past: Iterable[records.Record]) -> Iterator[tuple[str, Verified]]:
    for record in past:
        level, result = record.facts.get("level"), record.facts.get("result")
        if record.kind == "verify" and isinstance(level, int) and result in list(Trust) and not _by_stranger(record):
            broken, read = _broken(record.facts.get("findings")), parse_time(record.facts.get("files_read"))
            depth = record.facts.get("depth")
            reached = depth if isinstance(depth, int) else None
            told = record.facts.get("on_capture") is True
            tried = 3 if records.LOGIN in _rules(record.facts.get("findings")) else 0  # no other level has that rule
            yield record.snapshot, Verified(level, record.at, Trust(str(result)), broken, read, reached, told, tried)


def _by_stranger(record: records.Record) -> bool:
    """Whether a machine has found no more than that it does not trust the signer, which earlier versions kept."""
    found = record.facts.get("findings")
    words = [str(one.get("words")) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return any(one.endswith(UNTRUSTED) for one in words)


def _files_read(past: Iterable[records.Record]) -> Mapping[str, datetime]:
    """Return since when the files of each snapshot are known to have been read; broken bytes overturn all before."""
    read: dict[str, datetime] = {}
    for snapshot_id, one in _each_verification(past):
        if one.broken:
            read.pop(snapshot_id, None)
        elif one.files_read is not None and one.files_read <= one.at:
            read[snapshot_id] = max(one.files_read, read.get(snapshot_id, one.files_read))
    return read


def _rules(findings: Json) -> list[str]:
    return [str(one.get("rule")) for one in findings if isinstance(one, dict)] if isinstance(findings, list) else []


def _broken(findings: Json) -> bool:
    listed = findings if isinstance(findings, list) else []
    return any(
        isinstance(one, dict) and one.get("passed") is False and one.get("rule") in records.BYTES for one in listed
    )
