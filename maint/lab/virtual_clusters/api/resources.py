"""Resources and their files (J5), git repositories (J4.3, J8), and the archive of all that the service makes (J9)."""

import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from msgspec.structs import replace

from maint.lab.http.messages import BYTES, Response
from maint.lab.manager.document import Doc, spelled
from maint.lab.virtual_clusters import definitions, tick
from maint.lab.virtual_clusters.api import jobs, resources
from maint.lab.virtual_clusters.api.jobs import named_object, shows
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.lists import page, parse_filter
from maint.lab.virtual_clusters.messages import ApiError, Request, without_empty
from maint.lab.virtual_clusters.store import PIECE


def read_all(cluster: Cluster, request: Request) -> Response:
    """List resources, without their files."""
    entries = [resource for resource in cluster.resources.values() if shows(cluster, resource)]
    return page(cluster, request, "resources", entries, cluster.resource_view, "name")


def read(cluster: Cluster, request: Request) -> Response:
    """Show a resource, with its files where asked for."""
    resource = named_object(cluster.resources, request, "resource")
    view = cluster.resource_view(resource)
    if request.flag("includeFiles"):
        files = cluster.files.entries(str(resource["name"]))
        view |= {"files": files} if files else {}
    return Response(value=view)


def create(cluster: Cluster, request: Request) -> Response:
    """Create a resource; an environment waits for its requirements (J5.4)."""
    made = definitions.resource(request.document(), keep=cluster.switches["vc-unknown-keys"] == "keep")
    if made["name"] in cluster.resources:
        raise ApiError(409, "resource with name already exists")
    environment = made["type"] == "python-env"
    stamp = cluster.stamp()
    made |= {"status": "pending-build" if environment else "ready", "created": stamp, "modified": stamp}
    made["retentionPolicy"] = made.get("retentionPolicy") or "keep_indefinitely"
    if environment:
        made["pythonEnv"] = {"pythonVersion": "python3"} | (made.get("pythonEnv") or {}) | {"type": "python-env"}
    cluster.resources.put(str(made["name"]), made)
    return Response(201, cluster.resource_view(made) if cluster.switches["vc-create-body"] == "object" else None)


def delete(cluster: Cluster, request: Request) -> Response:
    """Delete a resource with its files; jobs that mount it stay (J5.5)."""
    name = str(named_object(cluster.resources, request, "resource")["name"])
    users = [job["name"] for job in cluster.jobs.values() if name in mounted(job)]
    if users and cluster.switches["vc-delete-mounted"] == "refuse":
        raise ApiError(409, f"resource is used by job '{users[0]}'")
    cluster.files.drop_all(name)
    cluster.resources.drop(name)
    return Response(204)


def events(cluster: Cluster, request: Request) -> Response:
    """Show what happened to a resource."""
    resource = named_object(cluster.resources, request, "resource")
    entry = {"id": 1, "message": f"resource {resource['name']} created", "created": resource["created"]}
    return Response(value={"events": [entry]})


def mounted(job: Doc) -> set[str]:
    """Return the names of what a job mounts, and of its environment."""
    names = {str(mount.get("resourceName")) for mount in job.get("mounts") or ()}
    return names | {str((job.get("spark") or {}).get("pythonEnvResourceName", ""))}


_REQUIREMENTS = "requirements.txt"


def upload_file(cluster: Cluster, request: Request) -> Response:
    """Take a file in, in the place of an earlier one; requirements start the build of an environment."""
    resource = named_object(cluster.resources, request, "resource")
    if request.upload is None:
        raise ApiError(400, "http: no such file")
    path = definitions.file_path(request.parts["path"])
    environment = resource["type"] == "python-env"
    if environment and path != _REQUIREMENTS:
        raise ApiError(400, f"only {_REQUIREMENTS} can be uploaded to a python-env resource")
    stamp = cluster.stamp()
    cluster.files.put(str(resource["name"]), path, request.upload, stamp)
    resource["modified"] = stamp
    if environment:
        tick.begin_build(cluster, resource)
    cluster.resources.put(str(resource["name"]), resource)
    return Response(201)


def download_file(cluster: Cluster, request: Request) -> Response:
    """Send a file's bytes."""
    resource = named_object(cluster.resources, request, "resource")
    if request.parts["path"] == "events" and cluster.files.entry(str(resource["name"]), "events") is None:
        return events(cluster, request)
    entry = _entry(cluster, request, resource)
    if resource["type"] == "python-env" and cluster.switches["vc-requirements-download"] == "refuse":
        raise ApiError(400, "files of a python-env resource cannot be downloaded")
    damage = "flip" if cluster.strikes("vc-bad-signature", request.call) else ""
    return Response(stream=cluster.files.open(entry), length=int(entry["sizeBytes"]), content_type=BYTES, damage=damage)


def delete_file(cluster: Cluster, request: Request) -> Response:
    """Delete a file."""
    resource = named_object(cluster.resources, request, "resource")
    _entry(cluster, request, resource)
    cluster.files.drop(str(resource["name"]), definitions.file_path(request.parts["path"]))
    resource["modified"] = cluster.stamp()
    cluster.resources.put(str(resource["name"]), resource)
    return Response(int(cluster.switches["vc-delete-status"]))


def _entry(cluster: Cluster, request: Request, resource: Doc) -> Doc:
    entry = cluster.files.entry(str(resource["name"]), definitions.file_path(request.parts["path"]))
    if entry is None:
        raise ApiError(404, "file not found in resource")
    return entry


def read_repositories(cluster: Cluster, request: Request) -> Response:
    """List repositories."""
    return page(cluster, request, "repositories", cluster.repositories.values(), without_empty, "name")


def read_repository(cluster: Cluster, request: Request) -> Response:
    """Show a repository."""
    return Response(value=without_empty(_repository(cluster, request)))


def create_repository(cluster: Cluster, request: Request) -> Response:
    """Create a repository; it shares its names with resources, since mounts do not tell the two apart."""
    made = definitions.repository(request.document())
    if made["name"] in cluster.repositories or made["name"] in cluster.resources:
        raise ApiError(409, "repository with name already exists")
    stamp = cluster.stamp()
    cluster.repositories.put(str(made["name"]), made | {"created": stamp, "modified": stamp})
    return Response(201)


def delete_repository(cluster: Cluster, request: Request) -> Response:
    """Delete a repository; jobs that mount it stay."""
    cluster.repositories.drop(str(_repository(cluster, request)["name"]))
    return Response(204)


def sync_repository(cluster: Cluster, request: Request) -> Response:
    """Pretend to fetch: only its time changes."""
    fetched = _repository(cluster, request) | {"modified": cluster.stamp()}
    cluster.repositories.put(str(fetched["name"]), fetched)
    return Response(201)


def _repository(cluster: Cluster, request: Request) -> Doc:
    return named_object(cluster.repositories, request, "repository")


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
        contents = _contents(archive)
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


def _contents(archive: zipfile.ZipFile) -> Doc:
    entry = {"name": str}
    try:
        given = spelled(archive.read(_CONTENTS))
    except (ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ApiError(400, "the archive cannot be read") from error
    found: Doc = {"jobs": [], "resources": []} | definitions.take(
        given, {"jobs": [entry], "resources": [entry]}, keep=True
    )
    if not all("name" in each for each in [*found["jobs"], *found["resources"]]):
        raise ApiError(400, "the archive was not made by this service")
    return found


def _pieces(archive: zipfile.ZipFile, member: str) -> Iterator[bytes]:
    try:
        with archive.open(member) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ApiError(400, "the archive cannot be read") from error
