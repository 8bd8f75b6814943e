"""Before something is deleted: who uses it, and a sealed copy by which it can be brought back."""

import json
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from shlex import quote
from typing import cast

import msgspec
from msgspec.structs import replace

from maint import files
from maint.errors import CannotReach, Refused, WorkFailed
from maint.model.formatting import show_count, show_lines, show_size, show_some
from maint.model.json import Moment
from maint.model.virtual_cluster import File, Job, Object, Resource, part_of, sendable_job, text_of
from maint.ports import Clock, Sight, Site, Undo, VirtualCluster, VirtualClusterSight, Work
from maint.restore.conflicts import races
from maint.retry import looks
from maint.snapshots.virtual_clusters.blobs import retry_truncated
from maint.snapshots.virtual_clusters.capture import wanted_resources
from maint.snapshots.virtual_clusters.dag_source import Dag, jobs_and_dags, live_dag
from maint.steps.undo_records import KEPT_FOR, KeptFile, UndoRecords, seal_file
from maint.steps.virtual_clusters.kubernetes_secrets import (
    KubernetesSecrets,
    Manifest,
    OldSecrets,
    contents_of,
    digest,
    forget,
)
from maint.steps.virtual_clusters.step import RECREATIONS, old_definitions, unpausing

_SHOWN = 10
PARSING = 90.0  # seconds until a DAG file is surely read (about 30: J4.4)
PARSED = 45.0  # seconds after which a DAG that starts by itself surely shows the run that it started
CERTIFICATE = "certificate"
KEYTAB = "keytab"


class SealedObject(msgspec.Struct, frozen=True):
    """Something that was sealed."""

    what: str  # `job`, `resource`, `certificate`, a secret of Kubernetes, or `keytab`, which is two of a user
    name: str  # its name
    definition: str  # name of its sealed definition, which lists the sealed files with their signatures
    files: Sequence[KeptFile] = ()  # the files of a resource, in pieces
    whole: bool = True  # or only some files of a resource, which comes back without touching what else it holds
    races: bool = False  # whether it is a DAG that may run before it is paused
    vc: str = ""  # the virtual cluster; empty in old records: that of the record

    @property
    def names(self) -> Iterator[str]:
        """The names of all that is sealed."""
        yield self.definition
        for file in self.files:
            yield from file.chunks


class Removed(msgspec.Struct, frozen=True):
    """What a run deleted or replaced in virtual clusters."""

    vc: str  # the virtual cluster of what names none itself
    until: Moment  # when it may be dropped
    objects: Sequence[SealedObject] = ()  # what it was, in the order of its sealing

    @property
    def names(self) -> Iterator[str]:
        """The names of all that is sealed."""
        yield from (name for one in self.objects for name in one.names)

    def named(self) -> Sequence[SealedObject]:
        """Return what it was, each with its virtual cluster."""
        return [replace(one, vc=one.vc or self.vc) for one in self.objects]


_UNDOING = timedelta(days=1)  # a record stays so long beyond its time, since it may just be brought back
_RECORDS = UndoRecords(
    "vc-undo",
    Removed,
    "what run {run} deleted is not known",
    "move the file away; snapshots of the virtual cluster may hold it: `maint backup list`",
)


def removed(state: Path, run: str) -> Removed | None:
    """Return what a run has sealed, None where there is nothing; WorkFailed where the record is damaged."""
    return _RECORDS.read(state, run)


def sealed_in(state: Path, run: str, vc: str, what: str) -> list[SealedObject]:
    """Return what of one kind (see `Sealed.what`) a run has sealed of a virtual cluster."""
    record = removed(state, run)
    return [one for one in record.named() if (one.vc, one.what) == (vc, what)] if record else []


def remember(site: Site, run: str, vc: str, one: SealedObject, *, first: bool = False) -> str:
    """Write down what a run is about to delete, and return in words how it comes back; old records go.

    Args:
        first: it was there before anything else that the run has sealed.
    """
    now = site.clock.now()
    _RECORDS.expire(site.state, site.undo, now - _UNDOING)
    before = removed(site.state, run)
    one, others = replace(one, vc=vc), tuple(before.named()) if before else ()
    record = Removed(vc, now + KEPT_FOR, (one, *others) if first else (*others, one))
    _RECORDS.write(site.state, run, record)
    return way_back(site.state, run)


def seal_certificates(
    site: Site, work: Work, vc: str, cabinet: KubernetesSecrets, names: Sequence[str], ours: bytes = b""
) -> Generator[str, None, None]:
    """Seal certificates with their keys that are about to be replaced, each once in all attempts of the run.

    Args:
        ours: what the run itself installs (PEM), which need not be sealed.
    """
    drop_unfinished(site, work)
    for name, secret in cabinet.read(site.shell, names).items():
        chain = (contents_of(secret) or {}).get("tls.crt", b"")
        if (ours and chain == ours) or sealed_certificate(site, work.run, vc, name, secret) is not None:
            continue
        yield f"sealing {name}"
        sealed = site.undo.keep(json.dumps(secret).encode())
        work.note("sealed", [sealed])
        remember(site, work.run, vc, SealedObject(CERTIFICATE, name, sealed))
    work.note("sealed", None)


def sealed_certificate(site: Site, run: str, vc: str, name: str, secret: Manifest) -> SealedObject | None:
    """Return what a run has sealed of this very certificate, None where that is nothing."""
    return next(
        (
            one
            for one in sealed_in(site.state, run, vc, CERTIFICATE)
            if one.name == name and json.loads(site.undo.fetch(one.definition)).get("data") == secret.get("data")
        ),
        None,
    )


def replaced_since(state: Path, run: str, vc: str, name: str) -> bool:
    """Whether a run that began later replaced a certificate, too."""
    return any(
        later > run and any((one.vc, one.what, one.name) == (vc, CERTIFICATE, name) for one in record.named())
        for later, record in _RECORDS.all(state)
    )


def note_replaced(site: Site, run: str, vc: str, user: str, kept: OldSecrets) -> None:
    """Let `maint vc undo` of a run bring a user's old secrets back, not that of the run from whose half it goes on."""
    record = removed(site.state, run)
    if any(kept.old.values()) and (record is None or kept.sealed not in record.names):
        remember(site, run, vc, SealedObject(KEYTAB, user, kept.sealed))
    for other, record in _RECORDS.all(site.state):
        if other != run and kept.sealed in record.names:
            _without(site.state, other, record, kept.sealed)


def keep_replaced(site: Site, work: Work, vc: str, user: str, kept: OldSecrets, now: str) -> str:
    """Let `maint vc undo` of the run that replaced them bring a user's old secrets back, and return in words that it
    does; `now`: digest of those that the user has.
    """
    run = kept.run or work.run
    if not any(kept.old.values()) or digest(list(kept.old), kept.old) == now:
        if record := removed(site.state, run):
            _without(site.state, run, record, kept.sealed)
        forget(kept, site.undo)
        return ""
    note_replaced(site, run, vc, user, kept)
    files.remove(kept.path)
    return way_back(site.state, run)


def way_back(state: Path, run: str) -> str:
    """Return in words how what a run deleted comes back; empty where nothing is sealed."""
    return _RECORDS.way_back(state, run, "vc undo")


def came_back(site: Site, run: str, one: SealedObject) -> None:
    """Drop what came back, of the run's record and of what is sealed."""
    if record := removed(site.state, run):
        _without(site.state, run, record, one.definition)
    drop_unnamed(site, run, one.names)


def _without(state: Path, run: str, record: Removed, definition: str) -> None:
    _RECORDS.write(state, run, replace(record, objects=[one for one in record.objects if one.definition != definition]))


def users_of(cluster: VirtualClusterSight, resource: str) -> list[str]:
    """Return the names of the jobs that use a resource."""
    return [job.name for job, _ in jobs_and_dags(cluster) if resource in wanted_resources(job)]


def callers_of(cluster: VirtualClusterSight, name: str) -> tuple[list[str], list[str]]:
    """Return the airflow jobs whose DAGs call a job, and those of which nobody can tell."""
    calling, unclear = list[str](), list[str]()
    for job, dag in jobs_and_dags(cluster):
        if job.type != "airflow" or job.name == name:
            continue
        if dag is not None and name in dag.calls:
            calling.append(job.name)
        elif dag is None or dag.unclear:
            unclear.append(f"{job.name} (what its DAG calls cannot be told)")
    return calling, unclear


def listed(names: Collection[str], words: str) -> str:
    """Return in words who is concerned, empty where there is nobody.

    Args:
        names: the jobs.
        words: what they do, such as `mount it`.
    """
    if not names:
        return ""
    verb = words if len(names) > 1 else re.sub("^(mount|call)", r"\1s", words)
    return f"; {show_count(len(names), 'job')} {verb}: {show_some(list(names), _SHOWN)}"


def net(sight: Sight, waived: str, size: int = 0) -> str:
    """Return in words whether what is deleted is sealed before; `size`: bytes, told where there are any.

    Raises:
        Refused: they would fill the disk of the state folder.
    """
    if waived:
        return f"; WARNING: without a safety net ({waived})"
    try:
        files.refuse_filling(sight.settings.state, size)
    except WorkFailed as error:
        raise unsealed("what goes", error) from error
    return f"; sealed first{f' ({show_size(size)} for {KEPT_FOR.days} days)' if size else ''}"


def seal_before(
    site: Site, work: Work, cluster: VirtualCluster, live: Job | Resource, waived: str, paths: Collection[str] = ()
) -> Generator[str, None, str]:
    """Seal what is about to be deleted or replaced, and return in words how it comes back.

    What the run's recreation keeps is exempt.

    Args:
        live: what is there, a resource with its files.
        waived: why it is not to be sealed; empty: it is.
        paths: the files that go; empty: all, with the resource.

    Raises:
        Refused: it could not be sealed.
    """
    what = f"{'job' if isinstance(live, Job) else 'resource'} {live.name}"
    if _kept_by_recreation(site, work, live):
        return ""
    if waived:
        yield f"WARNING: no safety net, {what} is not kept: {waived}"
        return f" without a safety net ({waived})"
    try:
        return (yield from _sealed(site, work, cluster, live, paths))
    except (WorkFailed, OSError) as error:
        drop_unfinished(site, work)
        raise unsealed(what, error) from error


def unsealed(what: str, error: WorkFailed | OSError, *, waivable: bool = True) -> Refused:
    """Return the refusal to touch what could not be sealed; `waivable`: whether a reason lets it go all the same."""
    return Refused(
        f"{what} cannot be sealed, so it is not touched",
        detail=[getattr(error, "message", str(error)), *getattr(error, "detail", ())],
        hint=f"{getattr(error, 'way_on', '') or 'mend what is named, then again'}"
        f"{'; `--no-safety-net REASON` goes without' if waivable else ''}",
    )


def _kept_by_recreation(site: Site, work: Work, live: Job | Resource) -> bool:
    """Whether `recreate.keep` sealed this very definition, with these very files."""
    kept = RECREATIONS.read(site.state, work.run)
    if kept is None or kept.put_back:
        return False
    job, resource = old_definitions(site.undo, kept)
    if isinstance(live, Job):
        return job == live.raw
    if resource is None or text_of(resource, "name") != live.name:
        return False
    complete = len(kept.files) == len(live.files)
    return complete and signatures(resource) == signatures(live.raw)


def signatures(resource: Object) -> dict[str, str]:
    """Return the signatures of a resource's files by path."""
    return {file.path: file.signature for file in Resource(resource).files}


def _sealed(
    site: Site, work: Work, cluster: VirtualCluster, live: Job | Resource, paths: Collection[str]
) -> Generator[str, None, str]:
    drop_unfinished(site, work)
    raw, kept = dict(live.raw), list[KeptFile]()
    if isinstance(live, Resource):
        going = [
            file
            for file in live.files
            if not paths or (file.path in paths and not _held(site, work, cluster, live.name, file))
        ]
        raw["files"] = [dict(file.raw) for file in going]
        if (paths and not going) or _known(site, work, cluster, "resource", raw):
            return way_back(site.state, work.run)
        sealing = seal_files(site, work, cluster, live, going) if paths else seal_all(site, work, cluster, live)
        kept = yield from sealing
    elif _known(site, work, cluster, "job", raw):
        return way_back(site.state, work.run)
    what = "job" if isinstance(live, Job) else "resource"
    starts = isinstance(live, Job) and races(live, _source(cluster, live))
    one = SealedObject(what, live.name, site.undo.keep(json.dumps(raw).encode()), kept, whole=not paths, races=starts)
    words = remember(site, work.run, cluster.settings.name, one)
    work.note("sealed", None)
    if isinstance(live, Resource):
        _refuse_newer(cluster.resource(live.name), live, paths)
    return words


def _refuse_newer(now: Resource | None, sealed: Resource, paths: Collection[str]) -> None:
    """Refuse to take for sealed what came while the files were: that may take long."""
    signatures_ = signatures(sealed.raw)
    files = [file for file in now.files if not paths or file.path in paths] if now is not None else []
    if newer := [file.path for file in files if signatures_.get(file.path) != file.signature]:
        raise WorkFailed(
            f"{show_count(len(newer), 'file')} came or changed while the others were sealed",
            detail=show_lines(newer, _SHOWN),
            hint="find out who uploads there, then again",
        )


def _source(cluster: VirtualClusterSight, job: Job) -> Dag | None:
    with suppress(WorkFailed, CannotReach):
        return live_dag(cluster, job, cluster.resource) if job.type == "airflow" else None
    return None


def _known(site: Site, work: Work, cluster: VirtualClusterSight, what: str, raw: Object) -> bool:
    """Whether an earlier attempt sealed this very thing."""
    return any(
        one.name == raw.get("name") and json.loads(site.undo.fetch(one.definition)) == raw
        for one in sealed_in(site.state, work.run, cluster.settings.name, what)
    )


def _held(site: Site, work: Work, cluster: VirtualClusterSight, resource: str, file: File) -> bool:
    """Whether an earlier attempt sealed this very file."""
    return any(
        one.name == resource
        and signatures(json.loads(site.undo.fetch(one.definition))).get(file.path) == file.signature
        for one in sealed_in(site.state, work.run, cluster.settings.name, "resource")
    )


def drop_unfinished(site: Site, work: Work) -> None:
    """Drop what an attempt sealed that was killed before it was written down."""
    drop_unnamed(site, work.run, cast(list[str], work.noted("sealed") or []))
    work.note("sealed", None)


def drop_unnamed(site: Site, run: str, names: Iterable[str]) -> None:
    """Drop what was sealed, but what a record of the run names: that of its recreation may have been handed over."""
    records = removed(site.state, run), RECREATIONS.read(site.state, run)
    named = {name for record in records if record is not None for name in record.names}
    for name in names:
        if name not in named:
            site.undo.drop(name)


def seal_all(
    site: Site, work: Work, cluster: VirtualClusterSight, resource: Resource
) -> Generator[str, None, list[KeptFile]]:
    """Seal all files of a resource; WorkFailed where the API does not show them all."""
    if resource.partly_listed:
        shown = show_count(len(resource.files), "file")
        raise WorkFailed(
            f"the API shows {shown} of resource {resource.name}, and its signature speaks of others",
            hint=f"`maint vc resource describe --name {quote(resource.name)}` lists what is shown",
        )
    return (yield from seal_files(site, work, cluster, resource, resource.files))


def seal_files(
    site: Site, work: Work, cluster: VirtualClusterSight, resource: Resource, files: Iterable[File]
) -> Generator[str, None, list[KeptFile]]:
    """Seal files of a resource as they arrive, noting what is sealed so far."""
    kept = list[KeptFile]()
    for file in files:
        yield f"sealing {resource.name}/{file.path}"
        kept.append(retry_truncated(site.clock, partial(_seal_download, cluster, site.undo, resource.name, file)))
        work.note("sealed", [name for one in kept for name in one.chunks])
    return kept


def _seal_download(cluster: VirtualClusterSight, undo: Undo, resource: str, file: File) -> KeptFile:
    with cluster.download(resource, file) as answer:
        return seal_file(undo, file, answer)


def rest(cluster: VirtualCluster, name: str) -> Job:
    """Pause a job's schedule where it is not paused, confirm it, and return the job."""
    live = cluster.job(name)
    if live is None or not live.paused:
        cluster.pause(name)
        live = cluster.job(name)
    if live is None or not live.paused:
        raise WorkFailed(f"the schedule of {name} could not be paused", hint=f"maint vc job pause --name {quote(name)}")
    return live


def rest_once_read(cluster: VirtualCluster, clock: Clock, name: str) -> Job:
    """Pause a DAG; one whose file the server has not read yet may not know of pausing."""
    for _ in looks(clock, PARSING, repeat(1.0)):
        with suppress(WorkFailed):
            return rest(cluster, name)
    return rest(cluster, name)


def rest_for_good(cluster: VirtualCluster, clock: Clock, name: str) -> None:
    """Pause a DAG, and again once the server has read its file: that may wake it (J4.4)."""
    rest_once_read(cluster, clock, name)
    _once_read(cluster, clock, name)
    rest(cluster, name)


def wake_once_read(cluster: VirtualCluster, clock: Clock, name: str) -> str:
    """Let a DAG go on that its own file paused upon creation, once that is read, and say so; "" where it is awake."""
    live = _once_read(cluster, clock, name)
    if live is None or not live.paused:
        return ""
    cluster.unpause(name)
    return "; its DAG, which its file had paused, is awake as it was"


def _once_read(cluster: VirtualCluster, clock: Clock, name: str) -> Job | None:
    """Return a DAG once the server has read its file, or has had the time to."""
    live = None
    for _ in looks(clock, PARSING, repeat(1.0)):
        live = cluster.job(name)
        if live is None or text_of(part_of(live.raw, "airflow"), "dagID"):
            break
    return live


def started_by_itself(cluster: VirtualClusterSight, name: str, begun: int) -> str:
    """Return in words which runs a DAG has started since the run with the number `begun`; "" where there is none."""
    newest = cluster.newest_run(name)
    if newest is None or newest.id <= begun:
        return ""
    fresh = [run.id for run in cluster.runs([f"job[eq]{name}"]) if run.id > begun]
    ways = ", ".join(f"`maint vc run kill --id {number}`" for number in fresh)
    return f"DAG {name} started by itself before it was paused: {ways} ends it"


def rest_made(cluster: VirtualCluster, clock: Clock, live: Job) -> None:
    """Pause a job that this run has made, where it can run by itself."""
    if live.type == "airflow":
        rest_for_good(cluster, clock, live.name)
    elif live.scheduled and not live.paused:
        cluster.pause(live.name)


def create_asleep(cluster: VirtualCluster, clock: Clock, job: Object) -> str:
    """Create an old job with its schedule paused, and return in words what that means, and whose it is now."""
    old, definition = Job(job), sendable_job(job)
    if old.type == "airflow":
        cluster.create_job(definition)
        rest_for_good(cluster, clock, old.name)
        words, made = f"; its DAG is paused: {unpausing(old.name)}", cluster.job(old.name)
    elif old.scheduled:
        cluster.create_job({**definition, "schedule": {**part_of(definition, "schedule"), "paused": True}})
        words, made = f"; its schedule is paused: {unpausing(old.name)}", cluster.job(old.name)
        if made is None or not made.paused:
            cluster.pause(old.name)
    else:
        cluster.create_job(definition)
        return ""
    owner = new_owner(old, made)
    return f"{words}{owner and f'; {owner}'}"


def new_owner(before: Job, live: Job | None) -> str:
    """Return in words whose a schedule is now, that was somebody else's (J7); empty where it is not so."""
    owners = [text_of(one.schedule, "user") if one else "" for one in (before, live)]
    if live is None or not all(owners) or owners[0] == owners[1] or not (live.scheduled or live.type == "airflow"):
        return ""
    return f"the schedule of {live.name} belonged to {owners[0]}, and now to {owners[1]}"
