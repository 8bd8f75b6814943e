"""The part `vc/<name>.json.zst.age`: all of a virtual cluster but the bytes of its files (contract section 14)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.snapshot import Snapshot
from maint.model.virtual_cluster import Job, Object, Resource

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
"""What no call of the jobs API gives, or what only a running cluster needs (contract sections 9.3 and 14)."""


class ClusterDocument(msgspec.Struct, frozen=True):
    """One virtual cluster as it was read.

    Attributes:
        name: as the config calls it.
        base_url: where it was.
        taken_at: when it was read.
        user: who read it.
        info: what it says of itself.
        resources: with their files, as the API sent them.
        jobs: as the API sent them.
        users: names of the users that have secrets there, as the config knows them.
        objects: signature of a file → id of what is stored.
        uncovered: what the API cannot give.
        problems: what could not be read.
    """

    name: str
    base_url: str
    taken_at: str
    user: str
    info: Object
    resources: Sequence[Resource]
    jobs: Sequence[Job]
    users: Sequence[str]
    objects: Mapping[str, str]
    uncovered: Sequence[str]
    problems: Sequence[str]


class _Read(msgspec.Struct, frozen=True):
    format: Literal["maint-virtual-cluster/1"]
    name: str
    base_url: str
    taken_at: str
    user: str
    info: dict[str, Any]  # Any, here and below: whatever JSON holds
    resources: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    users: list[str]
    objects: dict[str, str]
    uncovered: list[str]
    problems: list[str]


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
    content: dict[str, Json] = {
        "format": FORMAT,
        "name": document.name,
        "base_url": document.base_url,
        "taken_at": document.taken_at,
        "user": document.user,
        "info": document.info,
        "users": list(document.users),
        "uncovered": list(document.uncovered),
        "problems": list(document.problems),
        "resources": [resource.raw for resource in document.resources],
        "jobs": [job.raw for job in document.jobs],
        "objects": dict(document.objects),
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def decode(content: bytes) -> ClusterDocument:
    """Read a document.

    Raises:
        WorkFailed: it is none of this format.
    """
    try:
        read = msgspec.convert(json.loads(content), _Read)  # which reads halves of characters too
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise WorkFailed("it is no document of a virtual cluster") from None
    return ClusterDocument(
        name=read.name,
        base_url=read.base_url,
        taken_at=read.taken_at,
        user=read.user,
        info=read.info,
        resources=tuple(Resource(raw) for raw in read.resources),
        jobs=tuple(Job(raw) for raw in read.jobs),
        users=tuple(read.users),
        objects=read.objects,
        uncovered=tuple(read.uncovered),
        problems=tuple(read.problems),
    )
