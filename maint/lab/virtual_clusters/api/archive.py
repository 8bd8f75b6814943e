"""The service's own export and import: one archive, whose layout is known to the lab alone (J9)."""

import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from msgspec.structs import replace

from maint.lab.http.messages import Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.api import jobs, resources
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.lists import parse_filter
from maint.lab.virtual_clusters.messages import ApiError, Request
from maint.lab.virtual_clusters.store import PIECE

_CONTENTS = "contents-of-the-lab.json"
_HANDLINGS = ("error", "rename", "keep-original")


def export_all(cluster: Cluster, request: Request) -> Response:
    """Send jobs, and resources where they are asked for, as a zip."""
    found_jobs = _chosen(request, "jobfilter", cluster.jobs.values()) if request.flag("exportjobs", True) else []
    found = _chosen(request, "resourcefilter", cluster.resources.values()) if request.flag("exportresources") else []
    if request.flag("exportjobresources"):
        mounted = {name for job in found_jobs for name in resources.mounted(job)} - {entry["name"] for entry in found}
        found += [entry for entry in cluster.resources.values() if entry["name"] in mounted]
    stream = tempfile.TemporaryFile(dir=cluster.files.staging)  # noqa: SIM115 - its sender closes it
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        shown = {"jobs": [*map(cluster.job_view, found_jobs)], "resources": [*map(cluster.resource_view, found)]}
        archive.writestr(_CONTENTS, json.dumps(shown))
        for name in (str(entry["name"]) for entry in found):
            for entry in cluster.files.entries(name):
                archive.write(cluster.files.blob(entry["signature"]), f"files/{name}/{entry['path']}")
    length = stream.tell()
    stream.seek(0)
    return Response(stream=cast(BinaryIO, stream), length=length, content_type="application/zip")


def import_all(cluster: Cluster, request: Request) -> Response:
    """Make what an archive holds; where names are taken all is refused, or jobs are renamed, or the old ones kept."""
    handling = request.word("duplicatehandling", "error")
    if request.upload is None:
        raise ApiError(400, "http: no such file")
    if handling not in _HANDLINGS:
        raise ApiError(400, f"invalid duplicatehandling {handling!r}")
    with _opened(request.upload.path) as archive:
        contents = json.loads(archive.read(_CONTENTS))
        taken = [job["name"] for job in contents["jobs"] if job["name"] in cluster.jobs]
        taken += [entry["name"] for entry in contents["resources"] if entry["name"] in cluster.resources]
        if taken and handling == "error":
            raise ApiError(409, f"'{taken[0]}' already exists")
        made = [
            _make_resource(cluster, request, archive, entry)
            for entry in contents["resources"]
            if entry["name"] not in cluster.resources
        ]
        renamed = [job | {"name": _name(cluster, job["name"], handling)} for job in contents["jobs"]]
        done = [_make_job(cluster, request, job) for job in renamed if job["name"] not in cluster.jobs]
    return Response(value={"resources": made, "jobs": done})


def _make_resource(cluster: Cluster, request: Request, archive: zipfile.ZipFile, entry: Doc) -> Doc:
    resources.create(cluster, replace(request, content=json.dumps(entry).encode()))
    folder = f"files/{entry['name']}/"
    for member in (name for name in archive.namelist() if name.startswith(folder)):
        staged = cluster.files.stage(_pieces(archive, member))
        parts = {"resource": str(entry["name"]), "path": member.removeprefix(folder)}
        resources.upload_file(cluster, replace(request, parts=parts, upload=staged))
    return {"name": entry["name"], "status": "restored"}


def _make_job(cluster: Cluster, request: Request, job: Doc) -> Doc:
    try:
        jobs.create(cluster, replace(request, content=json.dumps(job).encode()))
    except ApiError as error:
        return {"name": job["name"], "status": "failed", "message": str(error)}
    return {"name": job["name"], "status": "restored"}


def _name(cluster: Cluster, name: str, handling: str) -> str:
    numbers = iter(range(1, len(cluster.jobs) + 2))
    while handling == "rename" and name in cluster.jobs:
        name = f"{name.rstrip('0123456789').rstrip('-')}-{next(numbers)}"
    return name


def _chosen(request: Request, parameter: str, entries: Iterable[Doc]) -> list[Doc]:
    match = parse_filter(request.query.get(parameter, ()))
    return [entry for entry in entries if match(entry)]


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ApiError(400, "the archive cannot be read") from error
    if _CONTENTS not in archive.namelist():
        archive.close()
        raise ApiError(400, "the archive was not made by this service")
    return archive


def _pieces(archive: zipfile.ZipFile, member: str) -> Iterator[bytes]:
    with archive.open(member) as stream:
        while piece := stream.read(PIECE):
            yield piece
