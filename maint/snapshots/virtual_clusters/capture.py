"""Take virtual clusters into a snapshot: those of a site beside its manager, or one alone."""

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from maint import __version__
from maint.errors import CannotReach, Invalid, StoreFailed, WorkFailed
from maint.model.formatting import show_count, show_size, show_time
from maint.model.json import objects_of
from maint.model.snapshot import ClusterSummary, Judgement, Purpose, Redaction, Snapshot, StoredFile
from maint.model.virtual_cluster import File, Job, Resource, part_of, text_of
from maint.ports import Clock, Sight, Site, VirtualClusterSight
from maint.ports.streams import Cut
from maint.snapshots.catalogue import entries
from maint.snapshots.in_progress import storing
from maint.snapshots.manifest import new_id
from maint.snapshots.records import Taken, insist_there
from maint.snapshots.replicate import tidied, with_failover
from maint.snapshots.verify import prove_new
from maint.snapshots.virtual_clusters.blobs import Objects, retry_truncated, worker_pool
from maint.snapshots.virtual_clusters.dag_source import live_dag
from maint.snapshots.virtual_clusters.document import NOT_IN_THE_API, ClusterDocument, encode, listed_jobs, part_name
from maint.snapshots.writer import SnapshotWriter

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Asked(msgspec.Struct, frozen=True):
    """What is asked for by its name, since no list shows what is hidden."""

    resources: Sequence[str] = ()
    jobs: Sequence[str] = ()


NOTHING = Asked()


class Clusters(msgspec.Struct, frozen=True):
    """What came of the virtual clusters."""

    summaries: tuple[ClusterSummary, ...] = ()  # a line each
    objects: tuple[StoredFile, ...] = ()
    uncovered: Sequence[str] = ()  # what is not in the snapshot
    files_read: datetime | None = None  # since when all these files are known to have been read


def take_clusters(
    site: Site,
    writer: SnapshotWriter,
    recipients: Sequence[str],
    names: Sequence[str],
    accept_empty: bool,
    asked: Asked = NOTHING,
) -> Generator[str, None, Clusters]:
    """Store a part for each virtual cluster; yields words. One that cannot be read is reported, the others are taken.

    Args:
        accept_empty: the operator's word that what is found is true, however little it is.
        asked: what is held, where it is there, although it may be hidden.
    """
    if not names:
        return Clusters()
    objects, summaries, uncovered = Objects(site, recipients), list[ClusterSummary](), list[str]()
    for name in names:
        yield f"virtual cluster {name}"
        try:
            document = yield from read_cluster(site, name, objects, asked)
        except StoreFailed:
            raise
        except (CannotReach, WorkFailed, Invalid) as failure:
            yield f"virtual cluster {name} is left out: {failure.message}"
            uncovered.append(f"virtual cluster {name}: {failure.message}")
            address = site.settings.virtual_cluster(name).base_url
            summaries.append(ClusterSummary(name, address, 0, 0, 0, 0, (failure.message,), ""))
            continue
        writer.document(part_name(name), encode(document))
        summary = _summary(site, document, accept_empty)
        yield from (f"virtual cluster {name}: {words}" for words in _told(summary))
        summaries.append(summary)
        uncovered += [f"virtual cluster {name}: {words}" for words in document.uncovered]
    return Clusters(tuple(summaries), tuple(objects.listed), tuple(uncovered), objects.files_read)


def _told(summary: ClusterSummary) -> Sequence[str]:
    size = f"{show_count(summary.files, 'file')}, {show_size(summary.bytes)}"
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


def take_alone(
    site: Site,
    name: str,
    recipients: Sequence[str],
    *,
    purpose: Purpose = Purpose.BACKUP,
    accept_empty: bool = False,
    snapshot_id: str | None = None,
    asked: Asked = NOTHING,
) -> Generator[str, None, Taken]:
    """Take a snapshot of one virtual cluster alone; yields words on the progress.

    Args:
        asked: what it holds, where it is there, although it may be hidden.

    Raises:
        CannotReach, WorkFailed: the virtual cluster cannot be read; nothing is stored then.
        StoreFailed: neither the first store nor, for a backup, any copy could hold it.
    """

    def take(place: Site) -> Generator[str, None, Taken]:
        fresh = snapshot_id or new_id(place.clock.now())
        return (yield from _take_into(place, name, recipients, purpose, accept_empty, fresh, asked))

    if purpose is not Purpose.BACKUP:
        return (yield from take(site))
    return (yield from with_failover(site, take))


def _take_into(
    site: Site,
    name: str,
    recipients: Sequence[str],
    purpose: Purpose,
    accept_empty: bool,
    snapshot_id: str,
    asked: Asked,
) -> Generator[str, None, Taken]:
    insist_there(site)
    yield from tidied(site)
    with storing(site), SnapshotWriter(site, snapshot_id, recipients) as writer:
        taken = yield from take_clusters(site, writer, recipients, [name], accept_empty, asked)
        if not writer.parts:
            raise WorkFailed(
                f"virtual cluster {name} could not be read: {taken.summaries[0].problems[0]}",
                hint="`maint vc status` shows whether it can be reached",
            )
        snapshot = writer.with_recipe(_snapshot(site, snapshot_id, purpose, recipients, taken))
        writer.commit(snapshot)
    yield f"stored as {snapshot.id}"
    return Taken(snapshot, (yield from prove_new(site, snapshot, files_read=taken.files_read)))


def _snapshot(site: Site, snapshot_id: str, purpose: Purpose, recipients: Sequence[str], taken: Clusters) -> Snapshot:
    return Snapshot(
        id=snapshot_id,
        site=site.settings.name,
        taken_at=site.clock.now(),
        purpose=purpose,
        restorable=False,
        parts=(),
        versions={"tool": __version__},
        judgement=Judgement(Redaction.UNKNOWN, flagged=False, hash_rule=None, counts={}, findings=()),
        uncovered=("the manager's configuration", *taken.uncovered),
        recipients=tuple(recipients),
        virtual_clusters=taken.summaries,
        objects=taken.objects,
    )


_ROUNDS = 5  # looks before a virtual cluster counts as one that never rests
_TRIES = 2  # for a file: it may be replaced while it is read
_REQUIREMENTS = "requirements.txt"


def read_cluster(site: Site, name: str, objects: Objects, asked: Asked) -> Generator[str, None, ClusterDocument]:
    """Read all of a virtual cluster, missing files into `objects`; a file that cannot be read is a problem noted."""
    cluster = site.virtual_cluster(name)
    settings, now, info = cluster.settings, site.clock.now(), cluster.info()
    with worker_pool() as (hands, stop):
        reading = _Reading(cluster, objects, site.clock, hands, stop, asked)
        yield from reading.all()
    resources = [reading.resources[key] for key in sorted(reading.resources)]
    return ClusterDocument(
        name=settings.name,
        base_url=settings.base_url,
        taken_at=show_time(now),
        user=settings.login.username,
        info=info,
        resources=resources,
        jobs=reading.jobs,
        users=tuple(user.name for user in settings.users),
        objects={file.signature: objects.id_of(file) for _, file in _files(resources) if objects.has(file)},
        uncovered=(*NOT_IN_THE_API, *reading.elsewhere(), *needed_credentials(reading.jobs, resources)),
        problems=tuple(reading.problems()),
    )


def wanted_resources(job: Job) -> Sequence[str]:
    """Return the names of all that a job needs: mounts, also of single files, its environment and its image."""
    inner = [part_of(job.raw, kind) for kind in ("spark", "airflow")]
    environments = [text_of(one, "pythonEnvResourceName") for one in inner]
    single = [text_of(mount, "resourceName") for one in inner for mount in objects_of(one.get("fileMounts"))]
    named = [*job.mounts, *environments, *single, text_of(job.raw, "runtimeImageResourceName")]
    return list(dict.fromkeys(one for one in named if one))


def needed_credentials(jobs: Iterable[Job], resources: Iterable[Resource]) -> Sequence[str]:
    """Return in words which credentials jobs and resources name, and who needs each; none of them is kept (J9.3)."""
    users: dict[str, list[str]] = {}
    for job in jobs:
        named = job.raw.get("workloadCredentials")
        for name in dict.fromkeys(named if isinstance(named, list | tuple) else ()):
            users.setdefault(str(name), []).append(f"job {job.name}")
    for resource in resources:
        if name := text_of(part_of(resource.raw, "customRuntimeImage"), "credential"):
            users.setdefault(name, []).append(f"resource {resource.name}")
    return [
        f"credential {name}, which {' and '.join(those)} {'needs' if len(those) == 1 else 'need'}"
        for name, those in sorted(users.items())
    ]


def _files(resources: Sequence[Resource]) -> Sequence[tuple[Resource, File]]:
    return [(resource, file) for resource in resources for file in resource.files]


def _state(resource: Resource) -> tuple[str, str]:
    return resource.signature, text_of(resource.raw, "modified")


class _Reading:
    def __init__(
        self,
        cluster: VirtualClusterSight,
        objects: Objects,
        clock: Clock,
        hands: "ThreadPoolExecutor",
        stop: threading.Event,
        asked: Asked,
    ) -> None:
        self._cluster, self._objects, self._clock = cluster, objects, clock
        self._hands, self._stop, self._asked = hands, stop, asked
        self.resources: dict[str, Resource] = {}
        self.jobs: Sequence[Job] = ()
        self._unlisted: set[str] = set()  # what is asked for, or jobs need, and the list does not show
        self._called: dict[str, str] = {}  # jobs that DAGs call and the list does not show, each with such a DAG
        self._unread: dict[tuple[str, str], str] = {}
        self._restless = False

    def all(self) -> Generator[str, None, None]:
        """Look until nothing has changed since the look before."""
        listed = self._cluster.resources()
        for _ in range(_ROUNDS):
            self._describe(listed)
            self._look_for_hidden(listed_jobs(self._cluster, self._asked.jobs))
            yield f"{show_count(len(self.jobs), 'job')}, {show_count(len(self.resources), 'resource')}"
            yield from self._fetch()
            again = self._cluster.resources()
            if self._agrees(again):
                return
            listed = again
        self._restless = True

    def _describe(self, listed: Sequence[Resource]) -> None:
        names = {one.name for one in listed}
        self.resources = {name: one for name, one in self.resources.items() if name in names}
        fresh = [one.name for one in listed if not self._same(one)]
        for name, found in zip(fresh, self._hands.map(self._cluster.resource, fresh), strict=True):
            self.resources.pop(name, None)
            if found is not None:  # else it went meanwhile; the next look tells
                self.resources[name] = found

    def _same(self, listed: Resource) -> bool:
        held = self.resources.get(listed.name)
        return held is not None and _state(held) == _state(listed)

    def _look_for_hidden(self, fresh: Sequence[Job]) -> None:
        """Ask by name for what jobs need and DAGs call, and no list shows: it may be hidden, or a git repository."""
        self.jobs, self._unlisted, self._called = (), set(), {}
        self._unlisted |= self._found({*self._asked.resources} - {*self.resources})
        while fresh:
            self.jobs = [*self.jobs, *fresh]
            named = {name for job in fresh for name in wanted_resources(job)} - set(self.resources)
            self._unlisted |= named
            self._found(named)
            known = {job.name for job in self.jobs}
            called = {
                name: job.name
                for job, names in zip(fresh, self._hands.map(self._calls, fresh), strict=True)
                for name in names
                if name not in known and name not in self._called
            }
            self._called |= called
            fresh = [job for job in self._hands.map(self._cluster.job, called) if job is not None]

    def _found(self, named: set[str]) -> set[str]:
        """Take the resources of these names that are there, and return their names."""
        found = zip(named, self._hands.map(self._cluster.resource, named), strict=True)
        there = {name: resource for name, resource in found if resource is not None}
        self.resources |= there
        return {*there}

    def _calls(self, job: Job) -> Sequence[str]:
        dag = None
        if job.type == "airflow":
            with suppress(WorkFailed, CannotReach, Cut):  # its file is fetched, too, and a problem then
                dag = live_dag(self._cluster, job, self.resources.get)
        return dag.calls if dag else ()

    def _fetch(self) -> Generator[str, None, None]:
        from concurrent.futures import as_completed

        self._unread = {}
        wanted = dict[str, list[tuple[str, File]]]()  # where each content lies
        for resource, file in _files(list(self.resources.values())):
            if not file.signature:
                self._unread[resource.name, file.path] = "it has no signature, so that nothing proves it"
            elif not self._objects.has(file):
                wanted.setdefault(self._objects.key(file), []).append((resource.name, file))
        if not wanted:
            return
        yield f"fetching {show_count(len(wanted), 'file')} not stored yet, or not read lately"
        self._objects.awaited = sum(places[0][1].size for places in wanted.values())
        largest_first = sorted(wanted.values(), key=lambda places: -places[0][1].size)  # none is long alone at the end
        for future in as_completed([self._hands.submit(self._fetched, places) for places in largest_first]):
            self._unread |= future.result()

    def _fetched(self, places: Sequence[tuple[str, File]]) -> dict[tuple[str, str], str]:
        """See to it that a content is stored, from any of its places; return why not, of each, where none gives it."""
        problems = dict[tuple[str, str], str]()
        if self._objects.reads_well(places[0][1]):
            return problems
        for resource, file in (place for place in places for _ in range(_TRIES)):
            try:
                retry_truncated(self._clock, partial(self._objects.fetch, self._cluster, resource, file, self._stop))
            except StoreFailed:
                raise
            except (WorkFailed, CannotReach, Invalid) as failure:
                problems[resource, file.path] = failure.message
            else:
                return {}
        return problems

    def _agrees(self, again: Sequence[Resource]) -> bool:
        hidden = self._unlisted & set(self.resources)
        if {one.name for one in again} | hidden != set(self.resources) or not all(map(self._same, again)):
            return False
        for name in hidden:
            live = self._cluster.resource(name, files=False)
            if live is None or not self._same(live):
                return False
        before, now = (
            {job.name: (text_of(job.raw, "modified"), job.paused) for job in jobs}
            for jobs in (self.jobs, listed_jobs(self._cluster, [*self._called, *self._asked.jobs]))
        )
        return before == now

    def elsewhere(self) -> Sequence[str]:
        """Name what jobs need and the API does not show as a resource."""
        missing = sorted(self._unlisted - set(self.resources))
        uncalled = sorted(set(self._called) - {job.name for job in self.jobs})
        return [
            *(f"what jobs call {name}: no resource of that name (a git repository?)" for name in missing),
            *(f"what DAG {self._called[name]} calls {name}: no job of that name" for name in uncalled),
        ]

    def problems(self) -> Sequence[str]:
        """Name what could not be read."""
        found = [f"{resource}/{path}: {words}" for (resource, path), words in sorted(self._unread.items())]
        for resource in self.resources.values():
            if resource.partly_listed:
                found.append(f"resource {resource.name}: its files are not those that its signature speaks of")
            if resource.type == "python-env" and resource.signature and resource.file(_REQUIREMENTS) is None:
                found.append(f"environment {resource.name}: the API shows no {_REQUIREMENTS}, from which it is built")
        return [*found, *(["it changed while it was read, time and again"] if self._restless else [])]
