"""What protects others from a deletion: who uses what is deleted, what is sealed before, and how it comes back."""

import json
import ssl
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace
from pydantic import Field

from maint import files
from maint.errors import Refused, WorkFailed
from maint.model.certificate import first_of
from maint.model.formatting import show_count, show_size, show_some
from maint.model.json import Json, Moment
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import (
    File,
    Job,
    Object,
    Resource,
    same_job,
    same_resource,
    sendable_job,
    sendable_resource,
    text_of,
)
from maint.ports import Sight, Site, Undo, VirtualCluster, VirtualClusterSight, Work
from maint.restore.conflicts import dag_places
from maint.restore.dag_source import Dag, read_dag_from
from maint.snapshots.virtual_clusters.blobs import retry_truncated
from maint.snapshots.virtual_clusters.capture import wanted_resources
from maint.steps.step import Progress, done, unchanged
from maint.steps.undo_records import KEPT_FOR, UndoRecords
from maint.steps.virtual_clusters.certificate import served
from maint.steps.virtual_clusters.contents import unread_dags, watched
from maint.steps.virtual_clusters.init_host import address_of, master_of
from maint.steps.virtual_clusters.kubernetes_secrets import (
    Cabinet,
    Manifest,
    OldSecrets,
    contents_of,
    digest,
    forget,
    put_back,
)
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, own_certificate, own_prefix
from maint.steps.virtual_clusters.undo import KeptFile, content, old, read, seal_file

_SHOWN = 10
_CERTIFICATE = "certificate"
_KEYTAB = "keytab"


class Sealed(msgspec.Struct, frozen=True):
    """A job or a resource that was sealed."""

    # `job`, `resource`, `certificate`, which is a secret of Kubernetes, or `keytab`, which is two of a user
    what: str
    name: str  # its name
    definition: str  # name of its sealed definition, which lists the sealed files with their signatures
    files: Sequence[KeptFile] = ()  # the files of a resource, in pieces
    whole: bool = True  # or only some files of a resource, which comes back without touching what else it holds
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
    objects: Sequence[Sealed] = ()  # what it was, in the order of its sealing

    @property
    def names(self) -> Iterator[str]:
        """The names of all that is sealed."""
        yield from (name for one in self.objects for name in one.names)

    def named(self) -> Sequence[Sealed]:
        """Return what it was, each with its virtual cluster."""
        return [replace(one, vc=one.vc or self.vc) for one in self.objects]


_RECORDS = UndoRecords(
    "vc-undo",
    Removed,
    "what run {run} deleted is not known",
    "move the file away; snapshots of the virtual cluster may hold it: `maint backup list`",
)
removed, expire = _RECORDS.read, _RECORDS.expire


def sealed_in(state: Path, run: str, vc: str, what: str) -> list[Sealed]:
    """Return what of one kind (see `Sealed.what`) a run has sealed of a virtual cluster."""
    record = removed(state, run)
    return [one for one in record.named() if (one.vc, one.what) == (vc, what)] if record else []


def remember(site: Site, run: str, vc: str, one: Sealed, *, first: bool = False) -> str:
    """Write down what a run is about to delete, and return in words how it comes back; old records go.

    Args:
        first: it was there before anything else that the run has sealed.
    """
    now = site.clock.now()
    expire(site.state, site.undo, now)
    before = removed(site.state, run)
    one, others = replace(one, vc=vc), tuple(before.named()) if before else ()
    record = Removed(vc, now + KEPT_FOR, (one, *others) if first else (*others, one))
    _RECORDS.write(site.state, run, record)
    return way_back(site.state, run)


def seal_certificates(
    site: Site, work: Work, vc: str, cabinet: Cabinet, names: Sequence[str]
) -> Generator[str, None, None]:
    """Seal certificates with their keys that are about to be replaced, once in all attempts of the run."""
    drop_unfinished(site, work)
    known = {one.name for one in sealed_in(site.state, work.run, vc, _CERTIFICATE)}
    for name, secret in cabinet.read(site.shell, [one for one in names if one not in known]).items():
        yield f"sealing {name}"
        sealed = site.undo.keep(json.dumps(secret).encode())
        work.note("sealed", [sealed])
        remember(site, work.run, vc, Sealed(_CERTIFICATE, name, sealed))
    work.note("sealed", None)


def keep_replaced(site: Site, work: Work, vc: str, user: str, kept: OldSecrets, now: str) -> str:
    """Let `maint vc undo` of the run that replaced them bring a user's old secrets back, and return in words that it
    does; `now`: digest of those that the user has.
    """
    if not any(kept.old.values()) or digest(list(kept.old), kept.old) == now:
        forget(kept, site.undo)
        return ""
    run = kept.run or work.run
    record = removed(site.state, run)
    if record is None or kept.sealed not in record.names:
        remember(site, run, vc, Sealed(_KEYTAB, user, kept.sealed))
    files.remove(kept.path)
    return way_back(site.state, run)


def way_back(state: Path, run: str) -> str:
    """Return in words how what a run deleted comes back; empty where nothing is sealed."""
    return _RECORDS.way_back(state, run, "vc undo")


def users_of(cluster: VirtualClusterSight, resource: str) -> list[str]:
    """Return the names of the jobs that use a resource."""
    return [job.name for job in cluster.jobs() if resource in wanted_resources(job)]


def callers_of(cluster: VirtualClusterSight, name: str) -> list[str]:
    """Return the airflow jobs whose DAGs call a job, and those of which nobody can tell."""
    found = []
    for job in cluster.jobs():
        if job.type != "airflow" or job.name == name:
            continue
        dag = _dag(cluster, job)
        if dag is not None and name in dag.calls:
            found.append(job.name)
        elif dag is None or dag.unclear:
            found.append(f"{job.name} (what its DAG calls cannot be told)")
    return found


def _dag(cluster: VirtualClusterSight, job: Job) -> Dag | None:
    for resource, path in dag_places(job):
        live = cluster.resource(resource)
        if live is not None and live.file(path) is not None:
            with cluster.download(resource, path) as answer:
                return read_dag_from(answer)
    return None


def listed(names: Collection[str], words: str) -> str:
    """Return in words who is concerned, empty where there is nobody.

    Args:
        names: the jobs.
        words: what they do, such as `mount it`.
    """
    if not names:
        return ""
    verb = words if len(names) > 1 else words.replace("mount", "mounts").replace("call", "calls")
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
        raise _unsealed("what goes", error) from error
    return f"; sealed first{f' ({show_size(size)} for {KEPT_FOR.days} days)' if size else ''}"


def seal_before(
    site: Site, work: Work, cluster: VirtualCluster, live: Job | Resource, waived: str, paths: Collection[str] = ()
) -> Generator[str, None, str]:
    """Seal what is about to be deleted or replaced, and return in words how it comes back.

    Temporary objects of this site are exempt, and so is what the run's recreation keeps.

    Args:
        live: what is there, a resource with its files.
        waived: why it is not to be sealed; empty: it is.
        paths: the files that go; empty: all, with the resource.

    Raises:
        Refused: it could not be sealed.
    """
    what = f"{'job' if isinstance(live, Job) else 'resource'} {live.name}"
    if live.name.startswith(own_prefix(site.state)) or _kept_by_recreation(site, work, live):
        return ""
    if waived:
        yield f"WARNING: no safety net, {what} is not kept: {waived}"
        return f" without a safety net ({waived})"
    try:
        return (yield from _sealed(site, work, cluster, live, paths))
    except (WorkFailed, OSError) as error:
        drop_unfinished(site, work)
        raise _unsealed(what, error) from error


def _unsealed(what: str, error: WorkFailed | OSError) -> Refused:
    return Refused(
        f"{what} cannot be sealed, so it is not touched",
        detail=[getattr(error, "message", str(error)), *getattr(error, "detail", ())],
        hint=f"{getattr(error, 'hint', '') or 'mend what is named, then again'}; `--no-safety-net REASON` goes without",
    )


def _kept_by_recreation(site: Site, work: Work, live: Job | Resource) -> bool:
    """Whether `recreate.keep` sealed this very definition, with these very files."""
    kept = read(site.state, work.run)
    if kept is None or kept.put_back:
        return False
    job, resource = old(site.undo, kept)
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
        kept = yield from seal_files(site, work, cluster, live, going)
    elif _known(site, work, cluster, "job", raw):
        return way_back(site.state, work.run)
    what = "job" if isinstance(live, Job) else "resource"
    one = Sealed(what, live.name, site.undo.keep(json.dumps(raw).encode()), kept, whole=not paths)
    words = remember(site, work.run, cluster.settings.name, one)
    work.note("sealed", None)
    return words


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
    records = removed(site.state, run), read(site.state, run)
    named = {name for record in records if record is not None for name in record.names}
    for name in names:
        if name not in named:
            site.undo.drop(name)


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
    with cluster.download(resource, file.path) as answer:
        return seal_file(undo, file, answer)


def create_asleep(cluster: VirtualCluster, job: Object) -> str:
    """Create an old job with its schedule paused, and return in words what that means."""
    name, definition = str(job["name"]), sendable_job(job)
    schedule = cast(dict[str, Json], job.get("schedule", {}))
    if job.get("type") == "airflow":
        cluster.create_job(definition)
        cluster.pause(name)
        return f"; its DAG is paused: `maint vc job unpause --name {name}` lets it go on"
    if schedule.get("enabled") is not True:
        cluster.create_job(definition)
        return ""
    cluster.create_job({**definition, "schedule": {**cast(Object, definition["schedule"]), "paused": True}})
    created = cluster.job(name)
    if created is None or not created.paused:
        cluster.pause(name)
    return f"; its schedule is paused: `maint vc job unpause --name {name}` lets it go on"


def _trusted_too(state: Path, name: str, der: bytes) -> str:
    """Let the file of certificates that `vc.init` had made name this one as well, and say so; empty without a file."""
    path, certificate = own_certificate(state, name), ssl.DER_cert_to_PEM_cert(der)
    if not path.exists():
        return ""
    made = path.read_text(errors="replace")
    if certificate not in made:
        files.replace(path, (made + certificate).encode(), mode=0o644)
    return f"; {path} names it, too, for the `ca` of the config and of clients"


def _there(cluster: VirtualClusterSight, one: Sealed) -> bool:
    found = cluster.job(one.name) if one.what == "job" else cluster.resource(one.name, files=False)
    return found is not None


class UndoArguments(VcArguments):
    """Which run's deletions come back."""

    run: str = Field(description="id of the run that deleted")


class UndoDeletions(VcStep[UndoArguments]):
    """Bring back the jobs, resources, files, certificates and keytabs that a run removed or replaced; schedules stay
    paused.
    """

    kind = "vc.undo"
    effect = Effect.CHANGE

    def plan(self, args: UndoArguments, sight: Sight) -> Iterable[Action]:
        record = removed(sight.settings.state, args.run)
        kept = [one for one in record.named() if args.vc in ("", one.vc)] if record else []
        if not kept:
            raise Refused(
                f"nothing that run {args.run} deleted is kept",
                hint=f"it is kept for {KEPT_FOR.days} days; `maint playbook history` lists the runs",
            )
        several = len({one.vc for one in kept}) > 1
        # Of what was sealed several times the first is what was there before the run: it comes last, or alone.
        first = {(one.vc, one.what, one.name, *(file.path for file in one.files)): one for one in reversed(kept)}
        for one in sorted(first.values(), key=lambda one: one.what == "job"):
            cluster = sight.virtual_cluster(one.vc)
            there = one.what in (_CERTIFICATE, _KEYTAB) or _there(cluster, one)
            count = f" with {show_count(len(one.files), 'file')}" if one.files else ""
            place = f" of virtual cluster {one.vc}" if several else ""
            words = f"bring back {one.what} {one.name}{count}{place}"
            words += "; what is there under its name is sealed and REPLACED where it differs" if there else ""
            words += "; schedule paused" if one.what == "job" else ""
            arguments: dict[str, Json] = {"vc": one.vc, "run": args.run, "object": one.definition}
            yield self.action(f"{one.what} {one.name}{place}", words, arguments, facts={"there": there})

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        run, name = str(action.arguments["run"]), str(action.arguments["object"])
        record = removed(site.state, run)
        one = next((one for one in record.objects if one.definition == name), None) if record else None
        if record is None or one is None:
            return unchanged("it is back already")
        raw, cluster = cast(Object, json.loads(site.undo.fetch(one.definition))), cluster_of(action, site)
        own = {"job": self._job_back, _CERTIFICATE: self._certificate_back, _KEYTAB: self._keytab_back}
        words = yield from own.get(one.what, self._resource_back)(site, work, cluster, raw, one)
        _RECORDS.write(site.state, run, replace(record, objects=[each for each in record.objects if each is not one]))
        drop_unnamed(site, run, one.names)
        return done(f"{one.what} {one.name} is back{words}{way_back(site.state, work.run)}")

    @staticmethod
    def _job_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: Sealed
    ) -> Generator[str, None, str]:
        live = cluster.job(one.name)
        if same_job(live, sendable_job(raw), pauses=False):
            return ", as it was"
        if live is not None:
            yield from seal_before(site, work, cluster, live, "")
            cluster.delete_job(one.name)
        yield f"creating job {one.name}"
        return create_asleep(cluster, raw)

    @staticmethod
    def _certificate_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: Sealed
    ) -> Generator[str, None, str]:
        cabinet = Cabinet(master_of(site), address_of(cluster.settings).service_namespace)
        there = cabinet.read(site.shell, [one.name]).get(one.name)
        same = there is not None and there.get("data") == raw["data"]
        held, trusted = dict[str, bytes](), ""
        with suppress(ValueError):  # what was there before was no certificate
            held = {one.name: first_of((contents_of(raw) or {}).get("tls.crt", b""))}
            trusted = _trusted_too(site.state, cluster.settings.name, held[one.name])
        if not same:
            yield from seal_certificates(site, work, cluster.settings.name, cabinet, [one.name])
            yield f"putting {one.name} back"
            cabinet.put(site.shell, raw)
        words, _ = yield from served(site, cluster.settings, held)
        return f"{', as it was' if same else ' with its key'}{words}{trusted}"

    @staticmethod
    def _keytab_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: Sealed
    ) -> Generator[str, None, str]:
        old_ones, path = cast(dict[str, Manifest | None], raw), site.state / "vc-undo" / one.definition
        cabinet = Cabinet(master_of(site), address_of(cluster.settings).namespace)
        live = cabinet.read(site.shell, list(raw))
        now = digest(list(raw), live)
        if now == digest(list(raw), old_ones):
            return ", as it was"
        vc = cluster.settings.name
        if live and all(each.name != one.name for each in sealed_in(site.state, work.run, vc, _KEYTAB)):
            sealed = site.undo.keep(json.dumps({name: live.get(name) for name in raw}).encode())
            remember(site, work.run, vc, Sealed(_KEYTAB, one.name, sealed))
        kept = OldSecrets(old_ones, one.definition, path)
        yield from put_back(kept, cabinet, site.shell, site.state, apply=cabinet.takes_apply(site.shell, list(raw)))
        return " with its principal; running pods see it at their next run"

    @staticmethod
    def _resource_back(
        site: Site, work: Work, cluster: VirtualCluster, raw: Object, one: Sealed
    ) -> Generator[str, None, str]:
        live, wanted = cluster.resource(one.name), signatures(raw)
        here = signatures(live.raw) if live is not None else {}
        other = one.whole and live is not None and not same_resource(live, sendable_resource(raw))
        going = [path for path in wanted if path in here and here[path] != wanted[path]]
        if live is not None and (other or going):
            yield from seal_before(site, work, cluster, live, "", () if other else going)
        if live is not None and other:
            cluster.delete_resource(one.name)
        if live is None or other:
            yield f"creating resource {one.name}"
            cluster.create_resource(sendable_resource(raw))
            here = {}
        for file in one.files:
            if here.get(file.path) == wanted.get(file.path, ""):
                continue
            yield f"uploading {file.path}"
            sealed = watched(site, content(site.undo, file), file.size)
            if cluster.upload(one.name, file.path, sealed) != wanted.get(file.path):
                raise WorkFailed(f"{one.name}/{file.path} is not what was sealed", hint="then again: it stays sealed")
        unread = unread_dags(cluster, one.name, [file.path for file in one.files])
        return f" with {show_count(len(one.files), 'file')}{unread}"
