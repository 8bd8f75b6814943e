"""Bring a snapshot's resources and jobs into a virtual cluster: each call looks first, so that it may come again."""

import io
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, cast

from maint.errors import Conflict, MaintError, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.snapshot import StoredFile
from maint.model.virtual_cluster import (
    READY,
    File,
    Job,
    Resource,
    covers,
    normal_job,
    normal_resource,
    sendable_resource,
)
from maint.ports import Site, VirtualCluster, Work
from maint.ports.virtual_cluster import Content
from maint.restore.conflicts import Resolution, definition_of
from maint.snapshots.parts import open_object
from maint.snapshots.virtual_clusters.blobs import worker_pool
from maint.snapshots.virtual_clusters.document import ClusterDocument
from maint.steps.virtual_clusters.runs_wait import pauses

_BUILD = 3600.0  # seconds that builds may take in all (contract section 5.4 knows of 6 minutes)
_PARSING = 90.0  # seconds until a DAG file is surely read (contract section 4.4: about 30)
_PARSED = 45.0  # seconds after which a DAG that starts by itself surely shows the run that it started
_FAILED = "failed"

Words = Generator[str, None, None]


class Bringing:
    """One restore under way.

    Args:
        site: the site.
        cluster: where to.
        document: what.
        decided: under which names, and what goes for it.
        work: what earlier lives noted.

    Attributes:
        left: what could not be brought back, in words.
    """

    def __init__(
        self, site: Site, cluster: VirtualCluster, document: ClusterDocument, decided: Resolution, work: Work
    ) -> None:
        self._site, self._cluster, self._document = site, cluster, document
        self._decided, self._work = decided, work
        self._dags: dict[str, float] = {}  # those that were paused, and when no run of theirs can appear any more
        self.left: list[str] = []

    def resources(self) -> Words:
        """Create resources with their files, environments last, and wait until those are built."""
        wanted = [one for one in self._document.resources if one.name not in self._decided.skipped_resources]
        plain = [one for one in wanted if one.type == "files"]
        built = [one for one in wanted if one.type != "files"]
        for group, word in ((plain, "resource"), (built, "environment")):
            if group:
                yield f"bringing back {show_count(len(group), word)}"
                self._fill(group)
        yield from self._await([one for one in built if one.files])

    def _fill(self, resources: Sequence[Resource]) -> None:
        with worker_pool() as (hands, _):
            lacking = [pair for found in hands.map(self._made, resources) for pair in found]
            for problem in hands.map(lambda pair: self._uploaded(*pair), lacking):
                self.left += [problem] if problem else []

    def _made(self, resource: Resource) -> list[tuple[Resource, File]]:
        """See to it that a resource is there, and return which files it lacks."""
        name, replaced = self._decided.resource(resource.name), resource.name in self._decided.replaced_resources
        definition: dict[str, Json] = {**sendable_resource(resource.raw), "name": name}
        live = self._cluster.resource(name)
        if live is not None and replaced and not covers(normal_resource(live.raw), normal_resource(definition)):
            self._cluster.delete_resource(name)
            live = None
        if live is None:
            self._cluster.create_resource(definition)
        elif not replaced and not self._work.resumed:
            raise _taken(f"resource {name}")
        here = {file.path: file.signature for file in live.files} if live is not None else {}
        if replaced:
            for path in sorted(set(here) - {file.path for file in resource.files}):
                self._cluster.delete_file(name, path)
        return [(resource, file) for file in resource.files if here.get(file.path) != file.signature]

    def _uploaded(self, resource: Resource, file: File) -> str:
        """Upload a file and hold it against its signature; return why it could not be, else nothing."""
        stored = self._document.stored(file)
        what = f"{self._decided.resource(resource.name)}/{file.path}"
        if stored is None:
            return f"{what}: the snapshot does not hold it"
        content = Content(lambda: _stored(self._site, stored), file.size)
        signature = self._cluster.upload(self._decided.resource(resource.name), file.path, content)
        if signature != file.signature:
            raise WorkFailed(f"{what} is not what it was when the snapshot was taken", hint="`maint backup verify`")
        return ""

    def _await(self, environments: Sequence[Resource]) -> Words:
        waiting = [self._decided.resource(one.name) for one in environments]
        with self._site.clock.limit(None if self._work.timeout else _BUILD):
            for pause in pauses() if waiting else ():
                yield f"waiting until {', '.join(waiting)} is built"
                waiting = [name for name in waiting if not self._built(name)]
                if not waiting:
                    return
                self._site.clock.sleep(pause)

    def _built(self, name: str) -> bool:
        live = self._cluster.resource(name, files=False)
        if live is None:
            raise WorkFailed(f"resource {name} is gone", hint="`maint vc resource list` shows what there is")
        if live.status == _FAILED:
            info = live.raw.get("pythonEnvInfo")
            reason = info.get("statusReason", "") if isinstance(info, dict) else ""
            self.left.append(f"environment {name} could not be built: {reason or 'no reason was given'}")
        return live.status in (READY, _FAILED)

    def spark_jobs(self) -> Words:
        """Create the jobs that are no DAGs, their schedules paused."""
        jobs = [job for job in self._document.jobs if job.type != "airflow" and self._wanted(job)]
        if jobs:
            yield f"bringing back {show_count(len(jobs), 'job')}, schedules paused"
        with worker_pool() as (hands, _):
            list(hands.map(self._spark, jobs))

    def _wanted(self, job: Job) -> bool:
        return job.name not in (*self._decided.skipped_jobs, *self._decided.left_out)

    def _spark(self, job: Job) -> None:
        definition = definition_of(job, self._decided)
        self._create(job, definition)
        if job.scheduled:
            self.rest(str(definition["name"]))

    def rest(self, name: str) -> None:
        """Pause a job's schedule where it is not paused, and confirm it."""
        live = self._cluster.job(name)
        if live is None or not live.paused:
            self._cluster.pause(name)
            live = self._cluster.job(name)
        if live is None or not live.paused:
            raise WorkFailed(f"the schedule of {name} could not be paused", hint=f"maint vc job pause --name {name}")

    def dag(self, job: Job) -> Words:
        """Create an airflow job, and pause it at once; whether it ran all the same, `differences` tells."""
        definition = definition_of(job, self._decided)
        name = str(definition["name"])
        yield f"bringing back DAG {name}, and pausing it"
        if self._work.noted(f"runs of {name}") is None:
            newest = self._cluster.newest_run(name)
            self._work.note(f"runs of {name}", newest.id if newest else 0)
        self._create(job, definition)
        self._rest_once_read(name)
        self._dags[name] = self._site.clock.monotonic() + (_PARSED if _starts_by_itself(job) else 0.0)

    def _look_for_runs(self) -> None:
        """Name the runs that DAGs started before they were paused; such a run may appear once the file is read."""
        for name, settled in self._dags.items():
            if (left := settled - self._site.clock.monotonic()) > 0:
                self._site.clock.sleep(left)
            begun, newest = cast(int, self._work.noted(f"runs of {name}")), self._cluster.newest_run(name)
            if newest is not None and newest.id > begun:
                fresh = [run.id for run in self._cluster.runs([f"job[eq]{name}"]) if run.id > begun]
                ways = ", ".join(f"`maint vc run kill --id {number}`" for number in fresh)
                self.left.append(f"DAG {name} started by itself before it was paused: {ways} ends it")

    def _rest_once_read(self, name: str) -> None:
        """Pause; a DAG whose file the server has not read yet may not know of pausing."""
        begun = self._site.clock.monotonic()
        while True:
            try:
                self.rest(name)
            except WorkFailed:
                if self._site.clock.monotonic() - begun > _PARSING:
                    raise
                self._site.clock.sleep(1.0)
            else:
                return

    def _create(self, job: Job, definition: dict[str, Json]) -> None:
        name, replaced = str(definition["name"]), job.name in self._decided.replaced_jobs
        live = self._cluster.job(name)
        if live is not None and not replaced:
            if not self._work.resumed:
                raise _taken(f"job {name}")
            return  # an earlier life made it; if somebody else did, the comparison tells
        if live is not None:
            if covers(normal_job(live.raw, pauses=False), normal_job(definition, pauses=False)):
                return
            self._cluster.delete_job(name)
        self._cluster.create_job(definition)

    def differences(self) -> Sequence[str]:
        """Compare what is there with what should be: signatures of files, and jobs in their normal form."""
        self._look_for_runs()
        with worker_pool() as (hands, _):
            found = list(hands.map(self._resource_differs, self._document.resources))
        live = {job.name: job for job in self._cluster.jobs()}
        jobs = [self._job_differs(job, live) for job in self._document.jobs if self._wanted(job)]
        return [words for words in (*found, *jobs) if words]

    def _resource_differs(self, resource: Resource) -> str:
        if resource.name in self._decided.skipped_resources:
            return ""
        name = self._decided.resource(resource.name)
        live = self._cluster.resource(name)
        here = {(file.path, file.signature) for file in live.files} if live is not None else set()
        wanted = {(one.path, one.signature) for one in resource.files if one.signature in self._document.objects}
        return "" if live is not None and wanted == here else f"resource {name} has other files than the snapshot"

    def _job_differs(self, job: Job, live: dict[str, Job]) -> str:
        definition = definition_of(job, self._decided)
        name = str(definition["name"])
        found = live.get(name)
        if found is None:
            return f"job {name} is not there"
        if (job.scheduled or job.type == "airflow") and not found.paused:
            return f"the schedule of job {name} is awake"
        if not covers(normal_job(found.raw, pauses=False), normal_job(definition, pauses=False)):
            # Nothing that could be done about it: a server drops the keys that it does not know (section 3.1).
            self.left.append(f"job {name} is not defined as in the snapshot: does this server know all its keys?")
        return ""

    def new_owners(self) -> Sequence[str]:
        """Name the schedules that now belong to somebody else (contract section 7)."""
        live = {job.name: job.schedule.get("user") for job in self._cluster.jobs()}
        before = [(self._decided.job(job.name), job.schedule.get("user")) for job in self._document.jobs]
        changed = [(name, user) for name, user in before if user and live.get(name) not in (None, user)]
        return [f"the schedule of {name} belonged to {user}, and now to {live[name]}" for name, user in changed]


def _starts_by_itself(job: Job) -> bool:
    return job.scheduled and job.schedule.get("pausedUponCreation") is not True


def _taken(what: str) -> MaintError:
    return Conflict(
        f"{what} is there, and was not when this was planned",
        hint="what is there was left as it is; plan the restore anew",
    )


def _stored(site: Site, stored: StoredFile) -> BinaryIO:
    """Open a stored file; closing it closes all that it needs."""
    return cast(BinaryIO, io.BufferedReader(_Stored(site, stored), 256 * 1024))


class _Stored(io.RawIOBase):
    """A stored file's own bytes."""

    def __init__(self, site: Site, stored: StoredFile) -> None:
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(open_object(site, stored))

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: "memoryview[int]", /) -> int:  # type: ignore[override]  # typeshed asks for any buffer
        """Fill a buffer."""
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        """Close the store's file too."""
        self._stack.close()
        super().close()
