"""The part `vc/<name>.json.zst.age`: all of a virtual cluster but the bytes of its files (J14); what differs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from maint.model.json import Json
from maint.model.snapshot import Snapshot, StoredFile
from maint.model.virtual_cluster import File, Job, Object, Resource, dag_schedule, normal_job, normal_resource
from maint.ports import VirtualClusterSight
from maint.snapshots.manifest import damaged
from maint.snapshots.virtual_clusters.blobs import worker_pool

FORMAT = "maint-virtual-cluster/1"
_FOLDER, _ENDING = "vc/", ".json.zst.age"

NOT_IN_THE_API = (
    "run history and logs",
    "Airflow variables and connections",
    "secrets of credentials",
    "git repositories",
    "roles and access lists",
    "TLS and Kerberos secrets",
    "quotas and the Spark version",
)
"""What no call of the jobs API gives, or what only a running cluster needs (J9.3, J14)."""


class ClusterDocument(msgspec.Struct, frozen=True):
    """One virtual cluster as it was read."""

    name: str  # as the config calls it
    base_url: str
    taken_at: str
    user: str  # who read it
    info: Object  # what it says of itself
    users: Sequence[str]  # names of users that have secrets there, as the config knows them
    uncovered: Sequence[str]  # what the API cannot give
    problems: Sequence[str]  # what could not be read
    resources: Sequence[Resource]  # with their files, as the API sent them
    jobs: Sequence[Job]
    objects: Mapping[str, str]  # signature of a file → id of what is stored
    # files that the signed manifest lists, by id; known once it was read from a snapshot
    listed: Mapping[str, StoredFile] = {}

    def stored(self, file: File) -> StoredFile | None:
        """Return what the snapshot holds of a file, None where its manifest lists nothing."""
        return self.listed.get(self.objects.get(file.signature, ""))


class _Read(msgspec.Struct, frozen=True):
    format: Literal["maint-virtual-cluster/1"]
    name: str
    base_url: str
    taken_at: str
    user: str
    info: dict[str, Any]  # Any, here and below: whatever JSON holds
    resources: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    users: tuple[str, ...]
    objects: dict[str, str]
    uncovered: tuple[str, ...]
    problems: tuple[str, ...]


def without_clusters(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without its virtual clusters: what the manager can be rebuilt from."""
    used = tuple(part for part in snapshot.parts if not part.name.startswith(_FOLDER))
    return replace(snapshot, parts=used, objects=(), virtual_clusters=())


def part_name(cluster: str) -> str:
    """Return the name of a virtual cluster's part."""
    return f"{_FOLDER}{cluster}{_ENDING}"


def cluster_of(part: str) -> str:
    """Return which virtual cluster a part holds; empty where it holds none."""
    fits = part.startswith(_FOLDER) and part.endswith(_ENDING)
    return part.removeprefix(_FOLDER).removesuffix(_ENDING) if fits else ""


def clusters_in(snapshot: Snapshot) -> Sequence[str]:
    """Return the names of the virtual clusters that a snapshot holds."""
    return [name for part in snapshot.parts if (name := cluster_of(part.name))]


def encode(document: ClusterDocument) -> bytes:
    """Return a document's bytes; escaped, since names may hold what UTF-8 does not."""
    fields = {name: value for name, value in asdict(document).items() if name != "listed"}
    sent = {"resources": [one.raw for one in document.resources], "jobs": [one.raw for one in document.jobs]}
    content: dict[str, Json] = {"format": FORMAT, **fields, **sent}
    return (json.dumps(content, indent=1) + "\n").encode()


def decode(content: bytes) -> ClusterDocument:
    """Read a document; WorkFailed where it is not of this format."""
    try:
        read = msgspec.convert(json.loads(content), _Read)  # which reads halves of characters too
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise damaged("it is not a document of a virtual cluster") from None
    fields = {name: value for name, value in asdict(read).items() if name != "format"}
    return ClusterDocument(
        **{**fields, "resources": tuple(map(Resource, read.resources)), "jobs": tuple(map(Job, read.jobs))}
    )


Change = Literal["added", "removed", "changed"]


class ClusterDifference(msgspec.Struct, frozen=True):
    """What is not the same; values are left out, since they may be secrets (J4.2, `conf`, `args`)."""

    what: str  # `job`, `resource` or `file`
    name: str  # of a file: `RESOURCE/PATH`
    change: Change  # what became of it since the snapshot
    property: str = ""  # dotted; empty where all of it came or went

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {"what": self.what, "name": self.name, "change": self.change, "property": self.property}


def listed_jobs(live: VirtualClusterSight, names: Iterable[str]) -> Sequence[Job]:
    """Return the jobs that are listed, and those of these names that a list leaves out since they are hidden (J14)."""
    listed = live.jobs()
    with worker_pool() as (hands, _):
        asked = list(hands.map(live.job, sorted(set(names) - {job.name for job in listed})))
    return [*listed, *(job for job in asked if job is not None)]


def drift_of(document: ClusterDocument, live: VirtualClusterSight) -> Sequence[ClusterDifference]:
    """Return what differs from a virtual cluster as it is; no file is downloaded: signatures tell (J5.3)."""
    listed = {one.name for one in live.resources()} | {one.name for one in document.resources}  # hidden ones, too
    with worker_pool() as (hands, _):
        found = [one for one in hands.map(live.resource, sorted(listed)) if one is not None]
    jobs = listed_jobs(live, [job.name for job in document.jobs])
    return _differences(document.jobs, jobs, document.resources, found)


def differences_of(before: ClusterDocument | None, after: ClusterDocument | None) -> Sequence[ClusterDifference]:
    """Return what differs between a virtual cluster in two snapshots; None where one of them does not hold it."""
    return _differences(
        before.jobs if before else (), after.jobs if after else (),
        before.resources if before else (), after.resources if after else (),
    )  # fmt: skip


def _differences(
    jobs: Sequence[Job], jobs_now: Sequence[Job], resources: Sequence[Resource], resources_now: Sequence[Resource]
) -> Sequence[ClusterDifference]:
    then, now = ({job.name: _meant(job.raw) for job in side} for side in (jobs, jobs_now))
    before, after = ({one.name: one for one in side} for side in (resources, resources_now))
    properties = ({name: normal_resource(one.raw) for name, one in side.items()} for side in (before, after))
    return [
        *_differing("job", then, now),
        *_differing("resource", *properties),
        *(ClusterDifference("file", name, change) for name, change in _changes(_files(before), _files(after))),
    ]


def _meant(raw: Object) -> dict[str, Json]:
    """Return what a job means, with the schedule that its DAG file has as the server knows it, and whether it rests."""
    normal, resting = normal_job(raw), {"paused": True} if Job(raw).paused else {}
    read = {**dag_schedule(raw), **resting} if raw.get("type") == "airflow" else {}
    return {**normal, **({"schedule": read} if read else {})}


def _files(resources: Mapping[str, Resource]) -> dict[str, Json]:
    """Return the signatures of all files; a rename shows only there (J5.3)."""
    return {f"{one.name}/{file.path}": file.signature for one in resources.values() for file in one.files}


def _differing(
    what: str, then: Mapping[str, Mapping[str, Json]], now: Mapping[str, Mapping[str, Json]]
) -> Iterator[ClusterDifference]:
    for name, change in _changes(then, now):
        if change != "changed":
            yield ClusterDifference(what, name, change)
            continue
        for path, inner in _changes(_flat(then[name]), _flat(now[name])):
            yield ClusterDifference(what, name, inner, path)


def _changes(then: Mapping[str, object], now: Mapping[str, object]) -> Iterator[tuple[str, Change]]:
    for name in sorted({*then, *now}):
        if name not in now:
            yield name, "removed"
        elif name not in then:
            yield name, "added"
        elif then[name] != now[name]:
            yield name, "changed"


def _flat(value: Mapping[str, Json], before: str = "") -> dict[str, Json]:
    """Return the leaves of an object by their dotted paths; a list is a leaf: its order means something."""
    found: dict[str, Json] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found |= _flat(inner, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = inner
    return found
