"""Hold a virtual cluster as a snapshot has it against the live one: definitions by meaning, files by signature."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from maint.model.job_definition import normal_job, normal_resource
from maint.model.json import Json
from maint.model.virtual_cluster import Resource
from maint.ports import VirtualClusterSight
from maint.snapshots.virtual_clusters.blobs import crew
from maint.snapshots.virtual_clusters.document import ClusterDocument

Change = Literal["added", "removed", "changed"]


class ClusterDifference(msgspec.Struct, frozen=True):
    """What is not the same; values are not told, since they may be secrets (contract section 4.2, `conf`, `args`).

    Attributes:
        what: `job`, `resource` or `file`.
        name: of the job or resource; of a file, `RESOURCE/PATH`.
        change: what became of it since the snapshot.
        property: which one changed, dotted; empty where all of it came or went.
    """

    what: str
    name: str
    change: Change
    property: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {"what": self.what, "name": self.name, "change": self.change, "property": self.property}


def drift_of(document: ClusterDocument, live: VirtualClusterSight) -> Sequence[ClusterDifference]:
    """Return what differs, by name; no file is downloaded: signatures tell (contract section 5.3).

    Args:
        document: the virtual cluster as it was.
        live: as it is; its resources are asked for their files, several at once.

    Raises:
        CannotReach, LoginRefused, WorkFailed: the virtual cluster.
    """
    then = {job.name: normal_job(job.raw) for job in document.jobs}
    now = {job.name: normal_job(job.raw) for job in live.jobs()}
    before = {one.name: one for one in document.resources}
    listed = {one.name for one in live.resources()} | set(before)  # hidden ones may not be listed
    with crew() as (hands, _):
        found = {one.name: one for one in hands.map(live.resource, sorted(listed)) if one is not None}
    properties = ({name: normal_resource(one.raw) for name, one in side.items()} for side in (before, found))
    return [
        *_differing("job", then, now),
        *_differing("resource", *properties),
        *(ClusterDifference("file", name, change) for name, change in _changes(_files(before), _files(found))),
    ]


def _files(resources: Mapping[str, Resource]) -> dict[str, Json]:
    """Return the signatures of all files; a rename shows only there (contract section 5.3)."""
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
