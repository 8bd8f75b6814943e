"""Recreate a job with new files, and put the old one back when that fails."""

import json
from collections.abc import Generator, Iterable, Sequence
from shlex import quote

from msgspec.structs import replace
from pydantic import Field

from maint.errors import MaintError, Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import Job, Object, same_job, sendable_job, sendable_resource
from maint.ports import Sight, Site, VirtualCluster, Work
from maint.steps.guards import Guarded
from maint.steps.step import Progress, done, skipped, unchanged
from maint.steps.undo_records import KeptFile, content, prove_kept
from maint.steps.virtual_clusters.jobs import JobArguments, create_once, known_job
from maint.steps.virtual_clusters.resources import ResourceArguments, make
from maint.steps.virtual_clusters.safety_net import (
    SealedObject,
    create_asleep,
    drop_unfinished,
    drop_unnamed,
    net,
    new_owner,
    remember,
    rest_made,
    seal_all,
    seal_before,
    sealed_in,
    signatures,
    unsealed,
    wake_once_read,
    way_back,
)
from maint.steps.virtual_clusters.step import (
    RECREATIONS,
    Recreation,
    VcStep,
    cluster_of,
    forget_recreation,
    mark_put_back,
    old_definitions,
    seal_old,
    taken_already,
    unpausing,
)
from maint.steps.virtual_clusters.uploads import refuse_other_bytes, watched


class KeepArguments(JobArguments, Guarded):
    """Which job and which resource, and why its files need not be kept."""

    resource: str = Field(description="its name")


class KeepJob(VcStep[KeepArguments]):
    """Keep a job's definition and a resource's files, sealed in the state folder, for `recreate.put_back`."""

    kind = "recreate.keep"
    effect = Effect.READ

    def plan(self, args: KeepArguments, sight: Sight) -> Iterable[Action]:
        cluster = sight.virtual_cluster(args.vc)
        _refuse_resting(known_job(cluster, args.job))
        resource = cluster.resource(args.resource, files=False)
        if resource is not None and resource.type != "files":
            raise Refused(f"resource {args.resource} is a {resource.type}", hint="name a resource of files")
        words = f"keep the definition of job {args.job} and the files of resource {args.resource}"
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Read, seal, write down; what an earlier attempt sealed is dropped."""
        cluster = cluster_of(action, site)
        job = known_job(cluster, str(action.arguments["job"]))
        _refuse_resting(job)
        resource = cluster.resource(str(action.arguments["resource"]))
        before, files = RECREATIONS.read(site.state, work.run), list[KeptFile]()
        drop_unfinished(site, work)
        try:
            if resource is not None:
                files = yield from seal_all(site, work, cluster, resource)
        except (WorkFailed, OSError) as error:
            drop_unfinished(site, work)
            if not (waived := str(action.arguments["no_safety_net"])):
                raise unsealed(f"resource {action.arguments['resource']}", error) from error
            yield f"WARNING: no safety net, the files of the resource are not kept: {waived}"
        except MaintError:
            drop_unfinished(site, work)
            raise
        try:
            sealed = seal_old(site.undo, job.raw, resource.raw if resource else None)
        except (WorkFailed, OSError) as error:
            drop_unfinished(site, work)
            raise unsealed(f"job {job.name}", error, waivable=False) from error  # it is made anew from that
        generation = before.generation + 1 if before else 1
        kept = Recreation(generation, False, sealed, tuple(files), cluster.settings.name)
        RECREATIONS.write(site.state, work.run, kept)
        drop_unnamed(site, work.run, before.names if before else ())
        work.note("sealed", None)
        return done(f"the definition and {show_count(len(files), 'file')} are kept, sealed")


def _refuse_resting(job: Job) -> None:
    """Refuse a DAG that is paused: to be run it must be awake, and awake it starts runs of its own (J4.4)."""
    if job.type == "airflow" and job.paused:
        raise Refused(
            f"job {job.name} is a DAG that is paused: it could be run only awake, and then starts runs by itself",
            hint=f"where it may, `maint vc job unpause --name {quote(job.name)}` first; new files alone need no run: "
            f"`maint vc resource upload`, then `maint vc job update --name {quote(job.name)}`",
        )


class RecreateResource(VcStep[ResourceArguments]):
    """Create a resource again from the definition that `recreate.keep` kept; one of files where there was none."""

    kind = "recreate.resource"
    effect = Effect.CHANGE

    def plan(self, args: ResourceArguments, sight: Sight) -> Iterable[Action]:
        seen = taken_already(sight, args.vc, args.resource, "resource")
        yield self.action(
            f"resource {args.resource}",
            f"create resource {args.resource} {f'as it was defined: {seen}' if seen else '(files)'}",
            args.model_dump(),
            undo=f"`maint vc resource delete --name {quote(args.resource)}`",
            seen=seen,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        _, resource = old_definitions(site.undo, _kept(site, work))
        definition = sendable_resource(resource or {"name": action.arguments["resource"]})
        return (yield from make(cluster_of(action, site), site, work, definition))


class RecreateJob(VcStep[JobArguments]):
    """Create a job again from the definition that `recreate.keep` kept."""

    kind = "recreate.job"
    effect = Effect.CHANGE

    def plan(self, args: JobArguments, sight: Sight) -> Iterable[Action]:
        words = f"put the files back that were not replaced, and create job {args.job} as it was defined"
        live = sight.virtual_cluster(args.vc).job(args.job)
        if live is not None and live.type == "airflow":
            words += "; its DAG is awake again, and may START A RUN by itself as well"
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, kept = cluster_of(action, site), _kept(site, work)
        job, resource = old_definitions(site.undo, kept)
        yield from _others_back(cluster, site, work, kept, resource)
        finished = yield from create_once(cluster, work, sendable_job(job))
        name, woken = str(job["name"]), ""
        if job.get("type") == "airflow":
            yield f"waiting until the file of DAG {name} is read"
            woken = wake_once_read(cluster, site.clock, name)
        owner = new_owner(Job(job), cluster.job(name))
        return replace(finished, detail=f"{finished.detail}{woken}{owner and f'; {owner}'}")


def _others_back(
    cluster: VirtualCluster, site: Site, work: Work, kept: Recreation, resource: Object | None
) -> Generator[str, None, None]:
    """Upload the old files that the new resource lacks."""
    live = cluster.resource(str(resource["name"])) if resource else None
    if live is None:
        return
    sent = {}
    for file in kept.files:
        if live.file(file.path) is None:
            yield f"putting {file.path} back"
            sent[file.path] = cluster.upload(live.name, file.path, watched(site, content(site.undo, file), file.size))
    refuse_other_bytes(cluster, work, live.name, sent)


def _kept(site: Site, work: Work) -> Recreation:
    kept = RECREATIONS.read(site.state, work.run)
    if kept is None:
        raise WorkFailed("what this run kept of the old job is gone", hint="create it anew with `maint vc job create`")
    return kept


class PutBackArguments(JobArguments, Guarded):
    """Which job, and why what others put in its place is not to be sealed first."""


class PutBack(VcStep[PutBackArguments]):
    """Put the old job, its resource and its files back as `recreate.keep` kept them; a schedule comes back paused."""

    kind = "recreate.put_back"
    effect = Effect.CHANGE

    def plan(self, args: PutBackArguments, sight: Sight) -> Iterable[Action]:
        words = f"put job {args.job} and its files back as they were, its schedule paused"
        words += net(sight, args.no_safety_net) if args.no_safety_net else "; what others put there is sealed"
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        kept = RECREATIONS.read(site.state, work.run)
        if kept is None:
            return skipped("this run keeps nothing of the old job: there is nothing to put back")
        if kept.put_back:
            return unchanged("everything is as it was")
        cluster, name = cluster_of(action, site), str(action.arguments["job"])
        job, resource = old_definitions(site.undo, kept)
        same = _same_files(cluster, resource)
        live = cluster.job(name)
        if same and live is not None and same_job(live, sendable_job(job)):
            if work.noted("made") == name:  # an earlier attempt may have ended before it was paused
                rest_made(cluster, site.clock, live)
                live = cluster.job(name) or live
            _over(site, work, kept)
            resting = live.type == "airflow" and live.paused and not Job(job).paused
            return unchanged(f"job {name} is as it was{f', but paused: {unpausing(name)}' if resting else ''}")
        if not same:
            prove_kept(site.undo, kept.files)
        # All is sealed before anything goes: a refusal in between would leave neither the old nor the new.
        theirs, waived = "", str(action.arguments.get("no_safety_net") or "")
        if live is not None and not same_job(live, sendable_job(job), pauses=False):  # the new one is defined alike
            theirs = yield from seal_before(site, work, cluster, live, waived)
        if resource is not None and not same:
            theirs = (yield from _seal_theirs(cluster, site, work, kept, resource, waived)) or theirs
        if live is not None:
            yield f"removing the new job {name}"
            cluster.delete_job(name)
        if resource is not None and not same:
            yield from _files_back(cluster, site, work, kept, resource)
        yield f"creating the old job {name}"
        work.note("made", name)
        paused = create_asleep(cluster, site.clock, job)
        _over(site, work, kept)
        words = f"; what this run had not sent there is {'gone' if waived else 'sealed'}{theirs}" if theirs else ""
        return done(f"the old job {name} and its {show_count(len(kept.files), 'file')} are back{paused}{words}")


def _over(site: Site, work: Work, kept: Recreation) -> None:
    mark_put_back(site.state, work.run, kept)
    drop_unnamed(site, work.run, kept.names)


def _same_files(cluster: VirtualCluster, resource: Object | None) -> bool:
    """Whether a resource holds the very files that it held."""
    if resource is None:
        return True
    live = cluster.resource(str(resource["name"]))
    return live is not None and signatures(live.raw) == signatures(resource)


def _seal_theirs(
    cluster: VirtualCluster, site: Site, work: Work, kept: Recreation, resource: Object, waived: str
) -> Generator[str, None, str]:
    """Seal what somebody else put in the place of the old resource; return in words how it comes back."""
    name = str(resource["name"])
    if (live := cluster.resource(name)) is None:
        return ""
    old_files = {(f"{name}/{path}", signature) for path, signature in signatures(resource).items()}
    ours = old_files | {*kept.made.items()}
    theirs = [file.path for file in live.files if (f"{name}/{file.path}", file.signature) not in ours]
    mine = f"{name}/" in kept.made
    if mine and not theirs:
        return ""
    return (yield from seal_before(site, work, cluster, live, waived, theirs if mine else ()))


def _files_back(
    cluster: VirtualCluster, site: Site, work: Work, kept: Recreation, resource: Object
) -> Generator[str, None, None]:
    """Make the old resource anew; what is sealed of it goes only once the server shows it."""
    name = str(resource["name"])
    yield f"making resource {name} anew"
    cluster.delete_resource(name)
    cluster.create_resource(sendable_resource(resource))
    sent = {}
    for file in kept.files:
        yield f"uploading the old {file.path}"
        sent[file.path] = cluster.upload(name, file.path, watched(site, content(site.undo, file), file.size))
    refuse_other_bytes(cluster, work, name, sent)


class ForgetOld(VcStep[JobArguments]):
    """End a recreation: what `recreate.keep` kept stays sealed for `maint vc undo RUN`, for 30 days."""

    kind = "recreate.forget"
    effect = Effect.READ

    def plan(self, args: JobArguments, sight: Sight) -> Iterable[Action]:
        yield self.action(
            f"job {args.job}", "keep the old definition and files, sealed, for 30 days", args.model_dump()
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        kept = RECREATIONS.read(site.state, work.run)
        yield "handing over what was kept"
        if kept is None:
            return unchanged(f"nothing is kept{way_back(site.state, work.run)}")
        if not kept.put_back:
            job, resource = old_definitions(site.undo, kept)
            if resource is not None:
                _hand_over(site, work.run, kept.vc, "resource", resource, kept.files)
            _hand_over(site, work.run, kept.vc, "job", job)
        forget_recreation(site.state, work.run, site.undo)
        return done(f"the old definition and files are kept{way_back(site.state, work.run)}")


def _hand_over(site: Site, run: str, vc: str, what: str, raw: Object, chunks: Sequence[KeptFile] = ()) -> None:
    """Remember what was there before the run, unless an earlier attempt did."""
    name = str(raw["name"])
    there = next((one for one in sealed_in(site.state, run, vc, what) if one.name == name), None)
    if there is None or list(there.files) != list(chunks) or json.loads(site.undo.fetch(there.definition)) != raw:
        sealed = SealedObject(what, name, site.undo.keep(json.dumps(dict(raw)).encode()), chunks)
        remember(site, run, vc, sealed, first=True)
