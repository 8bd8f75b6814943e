"""Bring the resources and jobs of a snapshot into a virtual cluster, schedules paused, and compare (J14)."""

from collections.abc import Collection, Generator, Mapping, Sequence
from itertools import repeat
from shlex import quote
from typing import cast

from maint.errors import Conflict, MaintError, NotAsStored, Rejected, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.virtual_cluster import (
    READY,
    File,
    Job,
    Object,
    Resource,
    dag_schedule,
    part_of,
    same_job,
    same_resource,
    sendable_resource,
    text_of,
)
from maint.ports import Site, VirtualCluster, Work
from maint.restore.conflicts import Resolution, definition_of, taken_names
from maint.retry import delays, looks
from maint.snapshots.virtual_clusters.blobs import worker_pool
from maint.snapshots.virtual_clusters.capture import needed_credentials, wanted_resources
from maint.snapshots.virtual_clusters.document import ClusterDocument, listed_jobs
from maint.steps.virtual_clusters.safety_net import (
    PARSED,
    PARSING,
    create_asleep,
    new_owner,
    rest,
    rest_once_read,
    started_by_itself,
)
from maint.steps.virtual_clusters.safety_snapshot import ReplacedObjects
from maint.steps.virtual_clusters.uploads import own_damage, prove_arrival, stored_content, watched

_BUILD = 3600.0  # seconds that builds may take in all (J5.4 knows of 6 minutes)
_PAUSE, _LONGEST = 1.0, 5.0  # seconds between two looks at a build
_FAILED = "failed"
_ELSEWHERE = "no resource here (a git repository?)"
_INTENT = "intent"  # the note that what is made from now on was absent
Words = Generator[str, None, None]


class ClusterRestorer:
    """One restore under way.

    Args:
        decided: under which names, and what goes for it.
        replaced: what keeps that.

    Attributes:
        left: what could not be brought back, in words.
    """

    def __init__(
        self,
        site: Site,
        cluster: VirtualCluster,
        document: ClusterDocument,
        decided: Resolution,
        work: Work,
        replaced: ReplacedObjects | None = None,
    ) -> None:
        self._site, self._cluster, self._document = site, cluster, document
        self._replaced = replaced or ReplacedObjects(work, document, decided, None)
        self._decided, self._work = decided, work
        self._dags: dict[str, float] = {}  # those that were paused, and when no run of theirs can appear any more
        self._schedules: dict[str, Object] = {}  # what the server is to read in their files
        self._lost: dict[str, str] = {}  # resources that are not as jobs need them, each with its kind
        self._unsent: set[tuple[str, str]] = set()  # their files that could not be uploaded: resource and path
        self._unmade: set[str] = set()  # resources that the server does not take: what is there is not the snapshot's
        self._refused: set[str] = set()  # jobs that the server does not take
        self._resumed = False  # whether an earlier attempt noted what it was about to make
        self.left: list[str] = []

    def note_intent(self) -> None:
        """Note that this run is to make what is absent now; from then on an equal thing of that name is its own.

        Raises:
            Conflict: something that was absent when this was planned is there now.
        """
        if self._work.noted(_INTENT) is not None:
            self._resumed = True
            return
        resources = [one.name for one in self._document.resources if self._made_anew(one)]
        jobs = [self._decided.job(one.name) for one in self._document.jobs if self._created(one)]
        if taken := taken_names(self._cluster, [self._decided.resource(name) for name in resources], jobs):
            raise _taken(taken[0])
        self._work.note(_INTENT, True)

    def _made_anew(self, one: Resource) -> bool:
        return one.name not in (*self._decided.skipped_resources, *self._decided.replaced_resources)

    def _created(self, one: Job) -> bool:
        return self.wanted(one) and one.name not in self._decided.replaced_jobs

    def resources(self) -> Words:
        """Create resources with their files, environments last, and wait until those are built."""
        wanted = [one for one in self._document.resources if one.name not in self._decided.skipped_resources]
        plain = [one for one in wanted if one.type == "files"]
        built = [one for one in wanted if one.type != "files"]
        for group, word in ((plain, "resource"), (built, "environment")):
            if group:
                yield f"bringing back {show_count(len(group), word)}"
                self._fill(group)
        waiting = [self._decided.resource(one.name) for one in built if one.files]
        yield from self._await([name for name in waiting if name not in self._lost])

    def _fill(self, resources: Sequence[Resource]) -> None:
        with worker_pool() as (hands, _):
            lacking = [pair for found in hands.map(self._made, resources) for pair in found]
            total = sum(file.size for _, file in lacking)
            for problem in hands.map(lambda pair: self._uploaded(pair[0], pair[1], total), lacking):
                self.left += [problem] if problem else []
        arrived = [(one, file) for one, file in lacking if (one.name, file.path) not in self._unsent]
        sent = {self._decided.resource(one.name): [file for made, file in arrived if made is one] for one in resources}
        prove_arrival(self._cluster, self._work, {name: files for name, files in sent.items() if files})

    def _made(self, resource: Resource) -> list[tuple[Resource, File]]:
        """See to it that a resource is there, and return which files it lacks."""
        name, replaced = self._decided.resource(resource.name), resource.name in self._decided.replaced_resources
        definition: dict[str, Json] = {**sendable_resource(resource.raw), "name": name}
        live = self._cluster.resource(name)
        if replaced:
            self._replaced.refuse_unkept(live)
        if live is not None and replaced and not same_resource(live, definition):
            self._cluster.delete_resource(name)
            live = None
        if live is None:
            try:
                self._cluster.create_resource(definition)
            except Rejected as refusal:
                back = self._resource_back(name) if replaced else ""  # gone by this attempt, or an earlier one
                self._unmade.add(name)
                self._lose(resource, f"could not be made: {refusal.message}{back}")
                return []
        elif not replaced:
            self._refuse_foreign(live, resource, definition)
        here = {file.path: file.signature for file in live.files} if live is not None else {}
        if replaced:
            for path in sorted(set(here) - {file.path for file in resource.files}):
                self._cluster.delete_file(name, path)
        return [(resource, file) for file in resource.files if here.get(file.path) != file.signature]

    def _resource_back(self, name: str) -> str:
        """Put a resource back that was to be replaced; return in words what became of it."""
        safety = self._replaced.safety
        kept = next((one for one in safety.resources if one.name == name), None) if safety else None
        if safety is None or kept is None:
            return self._gone()
        try:
            self._cluster.create_resource(sendable_resource(kept.raw))
            held = [(file, stored) for file in kept.files if (stored := safety.stored(file))]
            for file, stored in held:
                self._cluster.upload(name, file.path, stored_content(self._site, stored, file.size))
        except WorkFailed:
            return self._gone()
        lacking = len(kept.files) - len(held)
        return "; what was there is back" + (f", but for {show_count(lacking, 'file')}" if lacking else "")

    def _refuse_foreign(self, live: Resource, resource: Resource, definition: Mapping[str, Json]) -> None:
        """Refuse a resource that an earlier attempt cannot have made: other in definition, or with other files."""
        wanted = {(file.path, file.signature) for file in resource.files}
        other = [
            one.path
            for one in live.files
            if (one.path, one.signature) not in wanted and not own_damage(self._work, live.name, one)
        ]
        if not self._resumed or not same_resource(live, definition):
            raise _taken(f"resource {live.name}")
        if other:
            raise _taken(f"resource {live.name}", f" with {other[0]}")

    def _uploaded(self, resource: Resource, file: File, total: int) -> str:
        """Upload a file, of so many bytes in all, and hold it against its signature; return why it could not be."""
        stored = self._document.stored(file)
        what = f"{self._decided.resource(resource.name)}/{file.path}"
        if stored is None:
            return self._lacks(resource, file, f"{what}: the snapshot does not hold it")
        content = watched(self._site, stored_content(self._site, stored, file.size), total)
        try:
            signature = self._cluster.upload(self._decided.resource(resource.name), file.path, content)
        except (Rejected, NotAsStored) as refusal:
            return self._lacks(resource, file, f"{what}: {refusal.message}")
        if signature != file.signature:
            raise WorkFailed(f"{what} is not what it was when the snapshot was taken", hint="`maint backup verify`")
        return ""

    def _lacks(self, resource: Resource, file: File, words: str) -> str:
        self._unsent.add((resource.name, file.path))
        if resource.type != "files":  # it waits for this file for ever (J5.4)
            self._lost[self._decided.resource(resource.name)] = "environment"
        return words

    def _lose(self, resource: Resource, words: str) -> None:
        name, kind = self._decided.resource(resource.name), "resource" if resource.type == "files" else "environment"
        self._lost[name] = kind
        self.left.append(f"{kind} {name} {words}")

    def _await(self, waiting: Sequence[str]) -> Words:
        with self._site.clock.limit(None if self._work.timeout else _BUILD):
            for pause in delays(_PAUSE, _LONGEST) if waiting else ():
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
            self._lost[name] = "environment"
        return live.status in (READY, _FAILED)

    def _held_back(self) -> Mapping[str, str]:
        """Return the jobs that are not brought back since something that they need is not there."""
        return {job.name: one for job in self._document.jobs if (one := self._lacks_of(job))}

    def _lacks_of(self, job: Job) -> str:
        needs = (self._decided.resource(one) for one in (wanted_resources(job) if self._lost else ()))
        return next((one for one in needs if one in self._lost), "")

    def spark_jobs(self) -> Words:
        """Create the jobs that are not DAGs, their schedules paused."""
        held = self._held_back()
        self.left += [f"job {job} is held back: it needs {self._lost[one]} {one}" for job, one in held.items()]
        jobs = [job for job in self._document.jobs if job.type != "airflow" and self.wanted(job)]
        if jobs:
            yield f"bringing back {show_count(len(jobs), 'job')}, schedules paused"
        with worker_pool() as (hands, _):
            list(hands.map(self._spark, jobs))

    def wanted(self, job: Job) -> bool:
        """Whether a job is brought back."""
        gone = job.name in (*self._decided.skipped_jobs, *self._decided.left_out) or job.name in self._refused
        return not (gone or self._lacks_of(job))

    @property
    def not_back(self) -> Collection[str]:
        """The jobs that could not be brought back."""
        return {*self._held_back(), *self._refused}

    def _spark(self, job: Job) -> None:
        definition = definition_of(job, self._decided)
        if self._create(job, definition) and job.scheduled:
            rest(self._cluster, str(definition["name"]))

    def dag(self, job: Job) -> Words:
        """Create an airflow job, and pause it at once; whether it ran all the same, `differences` tells."""
        definition = definition_of(job, self._decided)
        name = str(definition["name"])
        yield f"bringing back DAG {name}, and pausing it"
        if self._work.noted(f"runs of {name}") is None:
            newest = self._cluster.newest_run(name)
            self._work.note(f"runs of {name}", newest.id if newest else 0)
        if not self._create(job, definition):
            return
        rest_once_read(self._cluster, self._site.clock, name)
        self._watch(name, job)
        self._schedules[name] = dag_schedule(job.raw)

    def _watch(self, name: str, job: Job) -> None:
        self._dags[name] = self._site.clock.monotonic() + (PARSED if _starts_by_itself(job) else 0.0)

    def _look_for_runs(self) -> None:
        """Name the runs that DAGs started before they were paused; such a run may appear once the file is read."""
        for name, settled in self._dags.items():
            if (left := settled - self._site.clock.monotonic()) > 0:
                self._site.clock.sleep(left)
            begun = cast(int, self._work.noted(f"runs of {name}"))
            if words := started_by_itself(self._cluster, name, begun):
                self.left.append(words)

    def _create(self, job: Job, definition: dict[str, Json]) -> bool:
        """See to it that a job is there; False where the server does not take it."""
        name, replaced = str(definition["name"]), job.name in self._decided.replaced_jobs
        live = self._cluster.job(name)
        if same_job(live, definition, pauses=False) and (replaced or self._resumed):
            if job.type == "airflow":  # its file is read for an update alone (J4.4)
                rest_once_read(self._cluster, self._site.clock, name)
                self._cluster.update_job(name, definition)
            return True  # an earlier attempt made it, or it is the same
        if live is not None and not replaced:
            raise _taken(f"job {name}")
        if live is not None:
            self._replaced.refuse_unkept(live)
            self._cluster.delete_job(name)
        try:
            self._cluster.create_job(definition)
        except Rejected as refusal:
            self._refused.add(job.name)
            lacking = "; ".join(f"{one} is {_ELSEWHERE}" for one in self._missing(job))
            before = live or (self._replaced.kept_job(name) if replaced else None)  # an earlier attempt deleted it
            back = self._put_back(before) if before is not None else self._gone() if replaced else ""
            self.left.append(f"job {name} is left out: {refusal.message}{lacking and f' ({lacking})'}{back}")
            return False
        return True

    def _put_back(self, live: Job) -> str:
        """Put the job back that was to be replaced, its schedule paused (J14); return in words what became of it."""
        try:
            paused = create_asleep(self._cluster, self._site.clock, live.raw)
            if self._work.noted(f"runs of {live.name}") is not None:  # a DAG may have run before it was paused
                self._watch(live.name, live)
            return f"; what was there is back{paused}"
        except WorkFailed:
            if self._cluster.job(live.name) is not None:
                return f"; what was there is back, and NOT paused: `maint vc job pause --name {quote(live.name)}`"
            return self._gone()

    def _gone(self) -> str:
        return "; what was there is gone" + (", and kept in the safety snapshot" if self._replaced.safety else "")

    def _missing(self, job: Job) -> Sequence[str]:
        names = [self._decided.resource(one) for one in wanted_resources(job)]
        return [name for name in names if self._cluster.resource(name, files=False) is None]

    def elsewhere(self) -> Sequence[str]:
        """Name what jobs that are back need, and no call tells whether it is there."""
        known = {one.name for one in self._document.resources}
        back = [job for job in self._document.jobs if self.wanted(job)]
        jobs = [job for job in back if not known.issuperset(wanted_resources(job))]
        made = [one for one in self._document.resources if one.name not in self._decided.skipped_resources]
        return [
            *(
                f"job {self._decided.job(job.name)} needs {one}: {_ELSEWHERE}"
                for job in jobs
                for one in self._missing(job)
            ),
            *(f"{one}, is in no backup: see that it is there" for one in needed_credentials(back, made)),
        ]

    def unlike(self) -> Sequence[str]:
        """Name what was kept and is not as in the snapshot, where jobs that are back need it."""
        needs = {self._decided.job(job.name): wanted_resources(job) for job in self._document.jobs if self.wanted(job)}
        found = []
        for one in self._document.resources:
            users = [job for job, resources in needs.items() if one.name in resources]
            if (
                users
                and one.name in self._decided.skipped_resources
                and not _same(self._cluster.resource(one.name), one)
            ):
                found.append(f"{one.name} was kept, is NOT as in the snapshot, and is needed by {', '.join(users)}")
        return found

    def differences(self) -> Sequence[str]:
        """Compare what is there with what should be: signatures of files, and jobs in their normal form."""
        with worker_pool() as (hands, _):
            found = list(hands.map(self._resource_differs, self._document.resources))
        live = self._once_read()
        for name in self._dags:
            if name in live and not self._schedules.get(name):  # as far as the snapshot knows it starts nothing
                self._watch(name, live[name])
            if name in live and not live[name].paused:  # its file woke it as it was read (J4.4)
                live[name] = rest(self._cluster, name)
        self._look_for_runs()
        jobs = [self._job_differs(job, live) for job in self._document.jobs if self.wanted(job)]
        return [words for words in (*found, *jobs) if words]

    def _once_read(self) -> dict[str, Job]:
        """Return all jobs, once the server has read the files of the DAGs, or has had the time to."""
        live = dict[str, Job]()
        names = [self._decided.job(job.name) for job in self._document.jobs if self.wanted(job)]
        for _ in looks(self._site.clock, PARSING, repeat(1.0)):
            live = {job.name: job for job in listed_jobs(self._cluster, names)}
            if all(name in live and _is_read(live[name], known) for name, known in self._schedules.items()):
                break
        return live

    def _resource_differs(self, resource: Resource) -> str:
        if resource.name in self._decided.skipped_resources:
            return ""
        name = self._decided.resource(resource.name)
        live = self._cluster.resource(name)
        if name in self._unmade or (live is None and name in self._lost):
            return ""
        unsent = {path for one, path in self._unsent if one == resource.name}
        here = {(file.path, file.signature) for file in live.files if file.path not in unsent} if live else set()
        held = [one for one in resource.files if one.signature in self._document.objects and one.path not in unsent]
        wanted = {(one.path, one.signature) for one in held}
        return "" if live is not None and wanted == here else f"resource {name} has other files than the snapshot"

    def _job_differs(self, job: Job, live: dict[str, Job]) -> str:
        definition = definition_of(job, self._decided)
        name = str(definition["name"])
        found = live.get(name)
        if found is None:
            return f"job {name} is not there"
        if (job.scheduled or job.type == "airflow") and not found.paused:
            return f"the schedule of job {name} is awake"
        if (read := dag_schedule(job.raw)) and read != dag_schedule(found.raw):
            self.left.append(
                f"DAG {name} has another schedule than in the snapshot: `maint vc job update --name {quote(name)}` "
                "has its file read again"
            )
        if not same_job(found, definition, pauses=False):
            # Nothing that could be done about it: a server drops the keys that it does not know (J3.1).
            self.left.append(f"job {name} is not defined as in the snapshot: does this server know all its keys?")
        return ""

    def resting(self) -> Sequence[str]:
        """Name the jobs that were there and stayed, just as the snapshot has them but paused, as a restore does."""
        kept = {one.name: one for one in self._document.jobs if one.name in self._decided.skipped_jobs}
        live = [one for one in listed_jobs(self._cluster, [*kept]) if one.name in kept and one.paused] if kept else []
        return [one.name for one in live if same_job(one, definition_of(kept[one.name], self._decided), pauses=False)]

    def new_owners(self) -> Sequence[str]:
        """Name the schedules that now belong to somebody else (J7)."""
        live = {job.name: job for job in self._cluster.jobs()}
        found = (new_owner(job, live.get(self._decided.job(job.name))) for job in self._document.jobs)
        return [words for words in found if words]


def _same(live: Resource | None, kept: Resource) -> bool:
    if live is None or not same_resource(live, sendable_resource(kept.raw)):
        return False
    return {(file.path, file.signature) for file in live.files} == {(file.path, file.signature) for file in kept.files}


def _is_read(dag: Job, known: Object) -> bool:
    """Whether the server has read a DAG's file; one that it had not read for the snapshot has no `known` schedule."""
    named = text_of(part_of(dag.raw, "airflow"), "dagID") != ""
    return named and (not known or dag_schedule(dag.raw) == known)


def _starts_by_itself(job: Job) -> bool:
    return job.scheduled and job.schedule.get("pausedUponCreation") is not True


def _taken(what: str, holding: str = "") -> MaintError:
    kind, _, name = what.partition(" ")
    return Conflict(
        f"{what}{holding} is there, and this run did not make it: it was not there when this was planned",
        detail=["what is there was left as it is"],
        hint=f"`maint vc {kind} describe --name {quote(name)}` shows it; is it somebody else's? "
        "Then plan the restore anew, with `--on-conflict`",
    )
