"""Decide what becomes of each job and resource of a snapshot in a virtual cluster, before anything is touched."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from maint.errors import NotAsStored, Refused
from maint.model.formatting import show_count, show_lines
from maint.model.json import Json
from maint.model.plan import Action
from maint.model.snapshot import Purpose, Snapshot, Trust
from maint.model.virtual_cluster import Job, Resource, part_of, sendable_job
from maint.ports import Sight, VirtualClusterSight
from maint.restore.select_snapshot import as_planned
from maint.snapshots.catalogue import (
    LATEST,
    Entry,
    entries,
    find,
    newest_restorable,
    none_to_choose,
    refuse_hidden,
)
from maint.snapshots.in_progress import of_cluster
from maint.snapshots.parts import open_object
from maint.snapshots.virtual_clusters.blobs import worker_pool
from maint.snapshots.virtual_clusters.dag_source import Dag, dag_places, read_dag_from
from maint.snapshots.virtual_clusters.document import ClusterDocument, part_name

Policy: TypeAlias = Literal["refuse", "skip", "rename", "replace"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
_SHOWN = 10
_LONGEST = 64  # characters of a name (J4.3)


class Resolution(msgspec.Struct, frozen=True):
    """What becomes of each name: all that is not named here is created under its own."""

    skipped_resources: Sequence[str] = ()  # what is there stays
    skipped_jobs: Sequence[str] = ()
    replaced_resources: Sequence[str] = ()  # what is there goes
    replaced_jobs: Sequence[str] = ()
    resource_names: Mapping[str, str] = {}  # old name → new name
    job_names: Mapping[str, str] = {}
    left_out: Sequence[str] = ()  # DAGs that would start by themselves

    @property
    def replaces(self) -> bool:
        """Whether anything that is there goes."""
        return bool(self.replaced_resources or self.replaced_jobs)

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        found: dict[str, Json] = msgspec.to_builtins(self)
        return found

    @staticmethod
    def from_json(value: Json) -> "Resolution":
        """Read back what `to_json` wrote."""
        return msgspec.convert(value, Resolution)

    def resource(self, name: str) -> str:
        """Return what a resource is called here."""
        return self.resource_names.get(name, name)

    def job(self, name: str) -> str:
        """Return what a job is called here."""
        return self.job_names.get(name, name)


def chosen_cluster(sight: Sight, wanted: str, cluster: str) -> Snapshot:
    """Return the snapshot to restore a virtual cluster from ("" or LATEST: the newest believed); raises as `chosen`."""
    if wanted not in ("", LATEST):
        return find(sight, wanted)
    listed = [(entry, _drawback(entry, cluster)) for entry in entries(sight)]
    found = [entry.snapshot for entry, why in listed if entry.snapshot and not why]
    newest = found[-1].id if found else ""
    refuse_hidden(sight, [entry for entry, _ in listed], newest, of_cluster(cluster))
    if found:
        return found[-1]
    holding = any(one.snapshot and one.snapshot.has(part_name(cluster)) for one, _ in listed)
    raise none_to_choose(
        sight,
        listed,
        f"no snapshot in {sight.store.location} that is believed holds virtual cluster {cluster}",
        f"`maint vc backup --vc {cluster}` takes one"
        + ("; one that holds it is used where `--snapshot` names it" if holding else ""),
    )


def _drawback(entry: Entry, cluster: str) -> str:
    """Return why a virtual cluster is not brought back from a snapshot that nobody named; empty where it may be."""
    snapshot = entry.snapshot
    if snapshot is None or snapshot.purpose is not Purpose.BACKUP:
        return entry.drawback
    if not snapshot.has(part_name(cluster)):
        others = [one.name for one in snapshot.virtual_clusters if snapshot.has(part_name(one.name))]
        return f"holds {', '.join(others)} instead" if others else "does not hold it"
    if entry.verified is not None and entry.verified.result is Trust.FAILED:
        return "found damaged"
    return next((one.doubt for one in snapshot.virtual_clusters if one.name == cluster and one.doubt), "")


def planned_cluster(sight: Sight, action: Action, cluster: str) -> Snapshot:
    """Return the snapshot that a planned action brings a virtual cluster back from; raises as `planned`."""
    return as_planned(sight, action, chosen_cluster(sight, str(action.arguments["snapshot"]), cluster))


def recovery_source(sight: Sight, snapshot: Snapshot, cluster: str) -> Snapshot | None:
    """Return what a virtual cluster is recovered from when the manager is recovered from a snapshot."""
    # Beside the newest one: the newest with the virtual cluster, which may have been taken alone since. The operator
    # had a reason to choose an older one: then that one, or none.
    held = snapshot if snapshot.has(part_name(cluster)) else None
    try:
        if snapshot.id != newest_restorable(sight).id:
            return held
    except Refused:  # a newer one was seen: it was named
        return held
    try:
        return chosen_cluster(sight, "", cluster)
    except Refused:
        return None


def decide(
    document: ClusterDocument,
    live: VirtualClusterSight,
    policy: Policy,
    dags: Mapping[str, Dag | None],
    *,
    accept_race: bool,
) -> Resolution:
    """Return what becomes of each name.

    Args:
        policy: what is done where a name is taken.
        dags: what the sources of airflow jobs tell, None where they cannot be read.
        accept_race: whether DAGs are created that would start by themselves.

    Raises:
        Refused: names are taken and nobody said what to do, or a rename would break a DAG.
    """
    names = ([one.name for one in document.resources], [one.name for one in document.jobs])
    there = _there(live, *names)
    resources, jobs = ([name for name in mine if name in theirs] for mine, theirs in zip(names, there, strict=True))
    alone = left_out(document, dags, accept_race=accept_race)
    if policy == "refuse":
        _refuse(resources, jobs)
        return Resolution(left_out=alone)
    if policy == "skip":
        absent = [name for name in alone if name not in jobs]  # what is there stays in any case
        return Resolution(skipped_resources=resources, skipped_jobs=jobs, left_out=absent)
    jobs = [name for name in jobs if name not in alone]
    if policy == "replace":
        return Resolution(replaced_resources=resources, replaced_jobs=jobs, left_out=alone)
    new_resources = fresh_names(resources, {*names[0], *there[0]})
    new_jobs = fresh_names(jobs, {*names[1], *there[1]})
    _refuse_broken(new_jobs, dags, alone)
    return Resolution(resource_names=new_resources, job_names=new_jobs, left_out=alone)


def _there(live: VirtualClusterSight, resources: Sequence[str], jobs: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the names of all resources and jobs that are there; a list leaves hidden ones out."""
    there = ({one.name for one in live.resources()}, {one.name for one in live.jobs()})
    with worker_pool() as (hands, _):
        hidden = hands.map(lambda name: live.resource(name, files=False), [n for n in resources if n not in there[0]])
        unlisted = hands.map(live.job, [name for name in jobs if name not in there[1]])
        there[0].update(one.name for one in hidden if one is not None)
        there[1].update(one.name for one in unlisted if one is not None)
    return there


def taken_names(live: VirtualClusterSight, resources: Sequence[str], jobs: Sequence[str]) -> list[str]:
    """Return in words which of these resources and jobs are there."""
    there = _there(live, resources, jobs)
    return [
        *(f"resource {name}" for name in resources if name in there[0]),
        *(f"job {name}" for name in jobs if name in there[1]),
    ]


def left_out(document: ClusterDocument, dags: Mapping[str, Dag | None], *, accept_race: bool) -> list[str]:
    """Return the DAGs that are not brought back, since they would start by themselves."""
    return [] if accept_race else [job.name for job in document.jobs if races(job, dags.get(job.name))]


def races(job: Job, dag: Dag | None) -> bool:
    """Whether creating a job starts it before it can be paused; a source that nobody can read is not trusted."""
    if job.type != "airflow":
        return False
    return dag.races if dag is not None else job.schedule.get("pausedUponCreation") is not True


def _refuse(resources: Sequence[str], jobs: Sequence[str]) -> None:
    taken = [*(f"resource {name}" for name in resources), *(f"job {name}" for name in jobs)]
    if taken:
        raise Refused(
            f"{show_count(len(taken), 'name')} {'is' if len(taken) == 1 else 'are'} taken in the virtual cluster",
            detail=show_lines(taken, _SHOWN),
            hint="`--on-conflict skip` keeps what is there, `rename` restores beside it, `replace` takes its place",
        )


def fresh_names(taken: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return a new name for each that is taken, none of them known, and none longer than servers take."""
    found, used = dict[str, str](), set(known)
    for name in taken:
        fresh = (f"{name[: _LONGEST - len(end)]}{end}" for end in (f"-{number}" for number in itertools.count(2)))
        found[name] = next(one for one in fresh if one not in used)
        used.add(found[name])
    return found


def _refuse_broken(renamed: Mapping[str, str], dags: Mapping[str, Dag | None], left_out: Sequence[str]) -> None:
    """Job names stand in the text of DAGs: what one calls must keep its name (J14)."""
    if not renamed:
        return
    broken = []
    for name, dag in dags.items():
        if name in left_out:
            continue
        calls = [job for job in dag.calls if job in renamed] if dag else []
        broken += [f"{name} calls {job}, which would be {renamed[job]}" for job in calls]
        broken += [f"what {name} calls is unknown" for _ in [0] if dag is None or dag.unclear]
    if broken:
        raise Refused(
            "a rename would break DAGs: the names of jobs stand in their text",
            detail=broken[:_SHOWN],
            hint="restore into an empty virtual cluster, or choose another `--on-conflict`",
        )


def dags_of(sight: Sight, document: ClusterDocument) -> Mapping[str, Dag | None]:
    """Read the sources of all airflow jobs; None where there is none, none that can be read, or the store lost it."""
    resources = {one.name: one for one in document.resources}
    return {job.name: _dag(sight, document, job, resources) for job in document.jobs if job.type == "airflow"}


def _dag(sight: Sight, document: ClusterDocument, job: Job, resources: Mapping[str, Resource]) -> Dag | None:
    for name, path in dag_places(job):
        resource = resources.get(name)
        file = resource.file(path) if resource else None
        stored = document.stored(file) if file else None
        if stored is None:
            continue
        with suppress(NotAsStored), open_object(sight, stored) as stream:
            return read_dag_from(stream)
        return None
    return None


def definition_of(job: Job, resolution: Resolution) -> dict[str, Json]:
    """Return what is sent to create a job again: under its name here, with the mounts' names here, paused."""
    made = sendable_job(job.raw)
    made["name"] = resolution.job(job.name)
    mounts = made.get("mounts")
    if isinstance(mounts, list):
        made["mounts"] = [_moved(mount, "resourceName", resolution) for mount in mounts]
    made = cast(dict[str, Json], _moved(made, "runtimeImageResourceName", resolution))
    for kind in ("spark", "airflow"):
        inner = part_of(made, kind)
        if inner:
            changed = cast(dict[str, Json], _moved(inner, "pythonEnvResourceName", resolution))
            files = changed.get("fileMounts")
            if isinstance(files, list):
                changed["fileMounts"] = [_moved(mount, "resourceName", resolution) for mount in files]
            made[kind] = changed
    schedule = part_of(made, "schedule")
    if schedule.get("enabled") is True:
        made["schedule"] = {**schedule, "paused": True}
    return made


def _moved(raw: Json, key: str, resolution: Resolution) -> Json:
    if not isinstance(raw, Mapping) or not isinstance(raw.get(key), str):
        return raw
    return {**raw, key: resolution.resource(str(raw[key]))}


def refuse_live_source(source: str, live: VirtualClusterSight, *, gone: bool, waiver: str = "--source-gone") -> None:
    """Refuse while the source still answers at another address: two live copies double every scheduled job (J14)."""
    if gone or source.rstrip("/") == live.settings.base_url.rstrip("/") or not live.answers(source):
        return
    raise Refused(
        f"the virtual cluster that the snapshot was taken of still answers at {source}",
        detail=["two live copies would run every scheduled job twice"],
        hint=f"pause its schedules or take it away; `{waiver}` says that it does no harm",
    )


def awake_jobs(
    document: ClusterDocument, resolution: Resolution, resting: Collection[str] = (), rested: Collection[str] = ()
) -> Sequence[str]:
    """Return the names here of the restored jobs whose schedules were awake, spark jobs first.

    Args:
        resting: of those that were there and stayed, the jobs that count as restored, too.
        rested: those that an earlier restore had paused as the snapshot was taken.
    """
    left = {*resolution.skipped_jobs, *resolution.left_out}.difference(resting)
    awake = [job for job in document.jobs if job.name not in left and (job.name in rested or was_awake(job))]
    return [resolution.job(job.name) for job in sorted(awake, key=lambda job: (job.type == "airflow", job.name))]


def was_awake(job: Job) -> bool:
    """Whether a job ran by itself, or, for a DAG without a schedule, could be run by hand."""
    return not job.paused and (job.scheduled or job.type == "airflow")
