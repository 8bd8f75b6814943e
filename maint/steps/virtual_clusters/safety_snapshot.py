"""Before a restore replaces anything: what comes is proven, and what goes is kept in a safety snapshot."""

import io
from collections.abc import Generator, Sequence

import msgspec

from maint.errors import NoKeyFits, Refused
from maint.model.formatting import show_count
from maint.model.snapshot import Purpose
from maint.model.virtual_cluster import (
    File,
    Job,
    Resource,
    same_job,
    same_resource,
    sendable_job,
    sendable_resource,
)
from maint.ports import Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.restore.conflicts import Resolution, definition_of
from maint.snapshots.capture import recipients_of
from maint.snapshots.virtual_clusters.blobs import worker_pool
from maint.snapshots.virtual_clusters.capture import Asked, wanted_resources
from maint.snapshots.virtual_clusters.document import ClusterDocument
from maint.snapshots.virtual_clusters.verify import read_document, unproven
from maint.steps.guards import naming_the_waiver
from maint.steps.snapshots.snapshot import alone_once
from maint.steps.virtual_clusters.uploads import own_damage

_SHOWN = 10


def net(decided: Resolution, waived: str) -> str:
    """Return in words how what is replaced is kept; empty where nothing is."""
    if not decided.replaces:
        return ""
    return (
        f"; WARNING: without a safety net ({waived})" if waived else "; a safety snapshot of what is there comes first"
    )


def refuse_closed(sight: Sight) -> None:
    """Refuse where no private key at hand opens what is encrypted for today's recipients, as a safety snapshot is."""
    sealed = io.BytesIO()
    sight.seal.wrap(io.BytesIO().read, sealed, recipients_of(sight))
    try:
        with sight.seal.unwrap(io.BytesIO(sealed.getvalue()), sight.identities()) as stream:
            stream.read()
    except NoKeyFits as error:
        raise Refused(
            "no private key at hand opens the safety snapshot that would keep what is replaced",
            detail=["it is encrypted for today's `backup.recipients`, and read before anything is replaced"],
            hint="`backup.identity` may hold several keys: put that of a recipient of today into it, too; "
            "`--no-safety-net REASON` goes without",
        ) from error


class ReplacedObjects(msgspec.Struct, frozen=True):
    """What goes for a restore, and the safety snapshot that holds it."""

    work: Work
    document: ClusterDocument  # what comes
    decided: Resolution
    safety: ClusterDocument | None  # None where nothing goes, or nothing need be kept

    def refuse_unkept(self, *found: Job | Resource | None) -> None:
        """Refuse where the safety snapshot lacks anything that goes, and the restore does not bring it back."""
        if self.safety is None:
            return
        lost = [place for one in found if one is not None for place in self._lost(one)]
        if lost:
            raise Refused(
                f"{show_count(len(lost), 'thing')} would be replaced that the safety snapshot does not hold",
                detail=[*lost[:_SHOWN], *self.safety.problems[:_SHOWN]],
                hint="mend what is named, or wait until it rests, then plan the restore anew; "
                "`--no-safety-net REASON` goes without",
            )

    def kept_job(self, name: str) -> Job | None:
        """Return a job as the safety snapshot holds it, None where it holds none of that name."""
        return next((one for one in self.safety.jobs if one.name == name), None) if self.safety else None

    def _lost(self, live: Job | Resource) -> Sequence[str]:
        return self._lost_job(live) if isinstance(live, Job) else self._lost_files(live)

    def _lost_job(self, live: Job) -> Sequence[str]:
        comes = next((one for one in self.document.jobs if one.name == live.name), None)
        if comes is not None and same_job(live, definition_of(comes, self.decided), pauses=False):
            return ()
        kept = self.kept_job(live.name)
        return () if kept and same_job(live, sendable_job(kept.raw), pauses=False) else (f"job {live.name}",)

    def _lost_files(self, live: Resource) -> Sequence[str]:
        if self.safety is None or all(one.name != live.name for one in self.safety.resources):
            return (f"resource {live.name}",)
        if live.partly_listed:
            return (f"files of resource {live.name} that the API does not show",)
        comes = [file for one in self.document.resources if one.name == live.name for file in one.files]
        back = {(file.path, file.signature) for file in comes if self.document.stored(file) is not None}
        return [
            f"{live.name}/{file.path}"
            for file in live.files
            if (file.path, file.signature) not in back
            and self.safety.stored(file) is None
            and not own_damage(self.work, live.name, file)
        ]


def refuse_unproven(sight: Sight, cluster: VirtualClusterSight, document: ClusterDocument, decided: Resolution) -> None:
    """Read all that comes in the place of what is there; Refused where any of it is not as it was stored."""
    if not decided.replaces:
        return
    resources = {one.name: one for one in document.resources if one.name not in decided.skipped_resources}
    with worker_pool() as (hands, _):
        live = dict(zip(resources, hands.map(cluster.resource, resources), strict=True))
        jobs = [one for one in document.jobs if one.name in {*decided.replaced_jobs} - {*decided.left_out}]
        there = list(hands.map(lambda job: cluster.job(job.name), jobs))
    going = {name for name in decided.replaced_resources if live[name] is not None}
    for job, now in zip(jobs, there, strict=True):
        if now is not None and not same_job(now, definition_of(job, decided), pauses=False):
            going.update(wanted_resources(job))
    coming = {
        f"{name}/{file.path}": file
        for name in resources
        if name in going
        for file in _lacking(resources[name], live[name])
    }
    if found := unproven(sight, document, coming):
        raise Refused(
            f"what is there would be replaced by what cannot be read: {show_count(len(found), 'file')} of the snapshot",
            detail=[*found[:_SHOWN], "nothing was replaced"],
            hint="`maint backup heal` mends the store from a copy, `--snapshot` names another snapshot; "
            "`--on-conflict skip` keeps what is there, and tells what the store lacks",
        )


def _lacking(one: Resource, live: Resource | None) -> Sequence[File]:
    """Return the files of a snapshot's resource that are uploaded where that one takes the place of another."""
    same = live is not None and same_resource(live, sendable_resource(one.raw))
    here = {(file.path, file.signature) for file in live.files} if live is not None and same else set()
    return [file for file in one.files if (file.path, file.signature) not in here]


def keep_replaced(
    site: Site, work: Work, cluster: VirtualCluster, document: ClusterDocument, decided: Resolution, waived: str
) -> Generator[str, None, ReplacedObjects]:
    """Keep what is there in a safety snapshot, once in all attempts of the run; Refused where that lacks what goes."""
    if not decided.replaces or waived:
        return ReplacedObjects(work, document, decided, None)
    yield "keeping what is there in a safety snapshot"
    asked, name = Asked(decided.replaced_resources, decided.replaced_jobs), cluster.settings.name
    with naming_the_waiver():
        taken = yield from alone_once(site, work, name, Purpose.SAFETY, accept_empty=True, asked=asked)
    replaced = ReplacedObjects(work, document, decided, read_document(site, taken, cluster.settings.name))
    with worker_pool() as (hands, _):
        replaced.refuse_unkept(*hands.map(cluster.resource, decided.replaced_resources))
        replaced.refuse_unkept(*hands.map(cluster.job, decided.replaced_jobs))
    return replaced
