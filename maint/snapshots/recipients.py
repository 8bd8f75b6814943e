"""Who can open a snapshot: the private key of each recipient is tried; and encrypting anew for today's recipients.

That edits nothing in place: each becomes a new snapshot of the same time with the same contents, the old one stays
until it is pruned, and a kill leaves either the old one or both.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext

import msgspec
from msgspec.structs import replace

from maint.config.schema import BackupSettings
from maint.errors import Invalid, NoKeyFits, Refused, WorkFailed
from maint.model.formatting import show_count, show_time
from maint.model.secret import Secret
from maint.model.snapshot import Snapshot, StoredFile
from maint.ports import Sight, Site
from maint.snapshots.capture import recipients_of
from maint.snapshots.catalogue import Entry, committed_ids, entries, usual_level
from maint.snapshots.holds import add_hold
from maint.snapshots.in_progress import refuse_clock_ahead, storing
from maint.snapshots.parts import DEPLOYMENT, RECIPE, Pack, drain, open_object, open_part, plain
from maint.snapshots.prune import remove
from maint.snapshots.records import REKEY, write_record
from maint.snapshots.replicate import every_store
from maint.snapshots.verify import insist_on_password, prove_new, record, verify
from maint.snapshots.virtual_clusters.blobs import Objects, worker_pool
from maint.snapshots.virtual_clusters.document import clusters_in
from maint.snapshots.virtual_clusters.verify import read_document
from maint.snapshots.writer import SnapshotWriter, id_after


class Escrow(msgspec.Struct, frozen=True):
    """What is known of one recipient: whether its private key opens a snapshot; None: it could not be tried."""

    recipient: str
    opens: bool | None
    words: str


def escrow(sight: Sight, snapshot: Snapshot) -> Sequence[Escrow]:
    """Try each configured recipient's private key on the smallest sealed part of a snapshot.

    Raises:
        WorkFailed: that part is not what was stored.
    """
    backup, keys = sight.settings.backup, _keys(sight)
    sealed = [part for part in snapshot.parts if part.name.endswith(".age")]
    if backup is None or not sealed:
        return ()
    smallest = min(sealed, key=lambda part: part.bytes).name
    return [_tried(sight, snapshot, smallest, one, keys.get(one)) for one in _recipients(backup, keys)]


def unopened(sight: Sight, known: Iterable[Snapshot]) -> Mapping[str, Sequence[str]]:
    """Return by recipient the snapshots that no key of the config, and none at hand, opens; rekeyed ones apart."""
    snapshots, keys = list(known), _keys(sight)
    again = {one.rekeyed_from.get("snapshot") for one in snapshots}
    ours = {*keys, *(_recipients(sight.settings.backup, keys) if sight.settings.backup else ())}
    found = dict[str, list[str]]()
    for one in snapshots:
        theirs = [name.strip() for name in one.recipients]
        if theirs and one.id not in again and not ours.intersection(theirs):
            found.setdefault(theirs[0], []).append(one.id)
    return found


def _recipients(backup: BackupSettings, keys: dict[str, Secret]) -> Sequence[str]:
    return [one.strip() for one in backup.recipients] or list(keys)


def _keys(sight: Sight) -> dict[str, Secret]:
    """Return the private keys at hand by their recipients; age-keygen writes comments above a key."""
    lines = [line.strip() for secret in sight.identities() for line in secret.reveal().splitlines()]
    keys = [Secret(line) for line in lines if line and not line.startswith("#")]
    return {sight.seal.recipient_of(one): one for one in keys}


def _tried(sight: Sight, snapshot: Snapshot, part: str, recipient: str, key: Secret | None) -> Escrow:
    if snapshot.recipients and recipient not in {one.strip() for one in snapshot.recipients}:
        return Escrow(recipient, False, f"snapshot {snapshot.id} is not encrypted for it: it became a recipient later")
    if key is None:
        return Escrow(recipient, None, f"whether it opens {snapshot.id} is not known: its private key is not here")
    try:
        with open_part(sight, snapshot, part, [key]) as stream:
            drain(stream.read)
    except (NoKeyFits, Invalid) as problem:
        return Escrow(recipient, False, f"its private key does not open snapshot {snapshot.id}: {problem.message}")
    return Escrow(recipient, True, f"its private key opens snapshot {snapshot.id}")


class Aged(msgspec.Struct, frozen=True):
    """A snapshot that is encrypted for others than today's recipients, and what was made of it, where there is that."""

    old: Entry
    made: Snapshot | None
    newer: str = ""  # what an earlier change of keys made of it: what is made of that is also the new one of this


def aged(site: Site) -> Sequence[Aged]:
    """Return all snapshots that are not encrypted for exactly today's recipients, the oldest first.

    Raises:
        Refused: of some the store does not tell for whom they are, or what became of them.
    """
    wanted, known = set(recipients_of(site)), entries(site)
    if unread := [f"{one.id}: {one.problem}" for one in known if one.unread]:
        words = f"{show_count(len(unread), 'snapshot')} could not be looked at, so nothing is encrypted anew"
        raise Refused(words, detail=unread, hint="look at the store, then run this again; keep the old key until then")
    snapshots = [one.snapshot for one in known if one.snapshot is not None]
    snapshots.sort(key=lambda one: set(one.recipients) == wanted)  # the last counts where several were made of one
    made = {one.rekeyed_from.get("snapshot", ""): one for one in snapshots}
    found = []
    for one in known:
        if one.snapshot is None or set(one.snapshot.recipients) == wanted:
            continue
        newest = _newest(made, one.id)
        if newest is None or set(newest.recipients) == wanted:
            found.append(Aged(one, newest))
        else:
            found.append(Aged(one, None, newest.id))
    return found


def _newest(made: Mapping[str, Snapshot], of: str) -> Snapshot | None:
    newest, seen = None, {of}
    while (later := made.get(of)) is not None and later.id not in seen:
        newest, of = later, later.id
        seen.add(of)
    return newest


def rekey(site: Site, old: Entry, by: str) -> Generator[str, None, Snapshot]:
    """Make a new snapshot of an old one, under the site's lock, and verify it; yields words on the progress.

    Args:
        by: user and machine, for people.

    Raises:
        NoKeyFits, Refused: no private key at hand opens it.
        WorkFailed: it is damaged, or what was written is not what it should be.
        Invalid, Mistyped: the configured password cannot be read, or was typed wrongly; nothing is written.
    """
    before = old.snapshot
    assert before is not None  # `aged` names no other
    if usual_level(before) == 3 and before.has(DEPLOYMENT):
        insist_on_password(site, before)
    recipients = recipients_of(site)
    flagged = storing(site) if before.objects else nullcontext()
    with flagged, SnapshotWriter(site, id_after(site, before), recipients) as writer:
        yield f"encrypting {before.id} anew"
        _rewrite(site, writer, before)
        origin = {"snapshot": before.id, "at": show_time(site.clock.now())}
        objects = resealed(site, before, Objects(site, recipients))
        named = replace(before, id=writer.id, recipients=tuple(recipients), rekeyed_from=origin, objects=objects)
        made = writer.with_recipe(named)
        writer.commit(made)
    yield from prove_new(site, made, opening=True)
    write_record(site, REKEY, made.id, {"from": before.id, "recipients": list(recipients), "by": by})
    return made


def copy_holds(site: Site, one: Aged, made: Snapshot) -> None:
    """Hold the new snapshot as the old one is held by people; what a restore needs is the old one itself."""
    there = next((entry.holds for entry in entries(site) if entry.id == made.id), ())
    known = {(hold.reason, hold.until) for hold in there}
    for hold in one.old.holds:
        if not hold.run and hold.stands(site.clock.now()) and (hold.reason, hold.until) not in known:
            add_hold(site, made.id, hold.reason, hold.until, hold.by)


def let_go(site: Site, one: Aged, made: Snapshot) -> Generator[str, None, None]:
    """Remove the old snapshot once the new one is proven in every store; Refused where it is not, or is needed.

    Proving takes hours where there is much, so what holds the old one is read anew right before it goes.
    """
    _refuse_needed(one.old)
    for place in every_store(site):
        if made.id not in committed_ids(place):  # which says nothing of it, so no failure is kept there
            raise Refused(
                f"{one.old.id} stays: {made.id} is not proven in {place.store.location}, which does not hold it yet",
                hint="`maint backup create` brings copies up to date; then run this again",
            )
        yield f"verifying {made.id} in {place.store.location}"
        seen = verify(place, made.id, usual_level(made))
        record(place, seen, made)
        if not seen.proven:
            raise Refused(
                f"{one.old.id} stays: {made.id} is not proven in {place.store.location}",
                detail=[seen.words],
                hint="`maint backup create` brings copies up to date; then run this again",
            )
    now = next((entry for entry in entries(site) if entry.id == one.old.id), None)
    if now is None:
        yield f"{one.old.id} is gone already"
        return
    if now.unread:
        raise Refused(f"{one.old.id} stays: {now.problem}", hint="look at the store, then run this again")
    _refuse_needed(now)
    refuse_clock_ahead(site)
    copy_holds(site, replace(one, old=now), made)
    remove(site, one.old.id, [f"encrypted anew as {made.id}"])
    yield f"removed {one.old.id}"


def _refuse_needed(old: Entry) -> None:
    needed = [hold.words for hold in old.holds if hold.run]
    if needed:
        raise Refused(f"{old.id} stays: a restore needs it", detail=needed, hint="prune once that has ended")


def _rewrite(site: Site, writer: SnapshotWriter, before: Snapshot) -> None:
    for part in before.parts:
        if part.name == RECIPE:
            continue
        with open_part(site, before, part.name) as stream:
            pack = _pack(site, part.name, writer.recipients)
            written = writer.write(part.name, stream.read, pack, part.content_bytes)
        if written.content_sha256 != part.content_sha256:
            raise WorkFailed(
                f"{part.name} of {before.id} did not come out as it went in",
                hint="do not trust this machine's memory or disk; look at its health, then run it again",
            )
        writer.parts[-1] = replace(written, restorable=part.restorable)


def _pack(site: Site, name: str, recipients: Sequence[str]) -> Pack:
    seal = site.seal
    if name.endswith(".zst.age"):
        return lambda read, file: seal.wrap(read, file, recipients)
    if name.endswith(".age"):
        return lambda read, file: seal.encrypt(read, file, recipients)
    return seal.compress if name.endswith(".zst") else plain


def resealed(site: Site, before: Snapshot, objects: Objects) -> tuple[StoredFile, ...]:
    """Encrypt a snapshot's files of virtual clusters anew; documents name them by the ids that they had."""
    documents = [read_document(site, before, cluster) for cluster in clusters_in(before)]
    files = {
        stored.id: (file, stored)
        for document in documents
        for resource in document.resources
        for file in resource.files
        if (stored := document.stored(file)) is not None
    }

    def reseal(stored: StoredFile) -> StoredFile:
        file, _ = files[stored.id]
        with open_object(site, stored) as stream:
            return objects.reseal(file, stored, stream.read, stop)

    with worker_pool() as (hands, stop):
        return tuple(hands.map(reseal, [one for one in before.objects if one.id in files]))
