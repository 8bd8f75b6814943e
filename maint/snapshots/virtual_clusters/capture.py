"""Take virtual clusters into a snapshot: those of a site beside its manager, or one alone."""

import os
from collections.abc import Callable, Generator, Sequence

import msgspec

from maint import __version__
from maint.errors import CannotReach, Invalid, StoreFailed, WorkFailed
from maint.model.formatting import show_size
from maint.model.snapshot import ClusterSummary, Judgement, Purpose, Redaction, Snapshot, StoredFile
from maint.ports import Sight, Site
from maint.snapshots.catalogue import entries, sweep
from maint.snapshots.failover import or_elsewhere
from maint.snapshots.ids import new_id
from maint.snapshots.upload_marker import storing
from maint.snapshots.verification import Verification
from maint.snapshots.verify import record, verify
from maint.snapshots.virtual_clusters.blobs import Objects
from maint.snapshots.virtual_clusters.document import ClusterDocument, encode, part_name
from maint.snapshots.virtual_clusters.read import read_cluster
from maint.snapshots.writer import Writing


class Clusters(msgspec.Struct, frozen=True):
    """What came of the virtual clusters: a line each, the files they need, and what is not covered."""

    summaries: Sequence[ClusterSummary] = ()
    objects: Sequence[StoredFile] = ()
    uncovered: Sequence[str] = ()


def take_clusters(
    site: Site, writing: Writing, recipients: Sequence[str], names: Sequence[str], accept_empty: bool
) -> Generator[str, None, Clusters]:
    """Store a part for each virtual cluster; one that cannot be had is said, and the others are taken.

    Args:
        site: the site.
        writing: the snapshot being written.
        recipients: for whom it is encrypted.
        names: which virtual clusters.
        accept_empty: the operator's word that what is found is true, however little it is.

    Raises:
        StoreFailed: the store.
    """
    if not names:
        return Clusters()
    objects, summaries, uncovered = Objects(site, recipients), list[ClusterSummary](), list[str]()
    for name in names:
        yield f"virtual cluster {name}"
        try:
            document = yield from read_cluster(site, name, objects)
        except StoreFailed:
            raise
        except (CannotReach, WorkFailed, Invalid) as failure:
            yield f"virtual cluster {name} is left out: {failure.message}"
            uncovered.append(f"virtual cluster {name}: {failure.message}")
            address = site.settings.virtual_cluster(name).base_url
            summaries.append(ClusterSummary(name, address, problems=(failure.message,)))
            continue
        writing.document(part_name(name), encode(document))
        summary = _summary(site, document, accept_empty)
        yield from (f"virtual cluster {name}: {words}" for words in _told(summary))
        summaries.append(summary)
        uncovered += [f"virtual cluster {name}: {words}" for words in document.uncovered]
    return Clusters(tuple(summaries), tuple(objects.listed), tuple(uncovered))


def _told(summary: ClusterSummary) -> Sequence[str]:
    size = f"{summary.files} files, {show_size(summary.bytes)}"
    return [size, *summary.problems, *([f"DOUBTFUL: {summary.doubt}"] if summary.doubt else [])]


def _summary(sight: Sight, document: ClusterDocument, accept_empty: bool) -> ClusterSummary:
    files = [file for resource in document.resources for file in resource.files]
    return ClusterSummary(
        name=document.name,
        base_url=document.base_url,
        jobs=len(document.jobs),
        resources=len(document.resources),
        files=len(files),
        bytes=sum(file.size for file in files),
        problems=tuple(document.problems),
        doubt="" if accept_empty else _doubt(document, _before(sight, document.name)),
    )


def _before(sight: Sight, name: str) -> ClusterSummary | None:
    """Return what the newest snapshot that was not doubted tells of a virtual cluster."""
    for entry in reversed(entries(sight)):
        snapshot = entry.snapshot
        if snapshot is not None and snapshot.has(part_name(name)):
            found = next((one for one in snapshot.virtual_clusters if one.name == name and not one.doubt), None)
            if found is not None:
                return found
    return None


def _doubt(document: ClusterDocument, before: ClusterSummary | None) -> str:
    """Return why a virtual cluster's content is not taken for the truth: a user without a role sees empty lists."""
    if not document.jobs and not document.resources:
        return f"no jobs and no resources are to be seen: has {document.user} lost its role?"
    if before is None:
        return ""
    for what, now, then in (
        ("jobs", len(document.jobs), before.jobs),
        ("resources", len(document.resources), before.resources),
    ):
        if 2 * now < then:
            return f"{now} {what} are to be seen, and there were {then} in the snapshot before"
    return ""


class TakenClusters(msgspec.Struct, frozen=True):
    """A snapshot of virtual clusters alone that is stored, and what the read-back proved."""

    snapshot: Snapshot
    verification: Verification


def take_alone(
    site: Site,
    name: str,
    recipients: Sequence[str],
    *,
    purpose: Purpose = Purpose.BACKUP,
    accept_empty: bool = False,
    snapshot_id: str | None = None,
    chance: Callable[[int], bytes] = os.urandom,
) -> Generator[str, None, TakenClusters]:
    """Take a snapshot of one virtual cluster alone; yields words on the progress.

    Raises:
        CannotReach, WorkFailed: the virtual cluster cannot be read; nothing is stored then.
        StoreFailed: neither the first store nor, for a backup, any copy could hold it.
    """

    def take(place: Site) -> Generator[str, None, TakenClusters]:
        fresh = snapshot_id or new_id(place.clock.now(), chance)
        return (yield from _take_into(place, name, recipients, purpose, accept_empty, fresh))

    if purpose is not Purpose.BACKUP:
        return (yield from take(site))
    return (yield from or_elsewhere(site, take))


def _take_into(
    site: Site, name: str, recipients: Sequence[str], purpose: Purpose, accept_empty: bool, snapshot_id: str
) -> Generator[str, None, TakenClusters]:
    sweep(site, site.clock.now())
    writing = Writing(site, snapshot_id, recipients)
    try:
        with storing(site):
            taken = yield from take_clusters(site, writing, recipients, [name], accept_empty)
            if not writing.parts:
                raise WorkFailed(
                    f"virtual cluster {name} could not be read: {taken.summaries[0].problems[0]}",
                    hint="`maint vc status` shows whether it can be reached",
                )
            snapshot = writing.with_recipe(_snapshot(site, snapshot_id, purpose, recipients, taken))
            writing.commit(snapshot)
    except BaseException:
        writing.undo()
        raise
    yield f"stored as {snapshot.id}"
    verification = verify(site, snapshot.id, level=3, opening=False, reading=False)
    record(site, verification)
    yield verification.words
    if broken := verification.broken_bytes:
        raise WorkFailed(
            f"snapshot {snapshot.id} cannot be believed: {broken[0].words}",
            hint="look at the health of the store, then take the backup again",
        )
    return TakenClusters(snapshot, verification)


def _snapshot(site: Site, snapshot_id: str, purpose: Purpose, recipients: Sequence[str], taken: Clusters) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        site=site.settings.name,
        taken_at=site.clock.now(),
        purpose=purpose,
        restorable=False,
        parts=(),
        versions={"tool": __version__},
        judgement=Judgement(Redaction.UNKNOWN, flagged=False, hash_rule=None, counts={}),
        uncovered=("the manager's configuration", *taken.uncovered),
        recipients=tuple(recipients),
        virtual_clusters=tuple(taken.summaries),
        objects=tuple(taken.objects),
    )
