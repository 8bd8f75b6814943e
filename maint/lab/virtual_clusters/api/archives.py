"""Built-in export and import: a zip that only its maker understands (J9)."""

import json
import zipfile
from typing import IO

from maint.lab.http.messages import ZIP, Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import lists, store
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import ApiError, Request

_INDEX, _FORMAT = "index.json", "lab-archive/1"
_HANDLING = ("error", "rename", "keep-original")


def export(cluster: Cluster, request: Request) -> Response:
    """Send jobs, and resources only when asked for, as one zip."""
    jobs = _chosen(request, "jobfilter", cluster.jobs.values()) if request.flag("exportjobs", True) else []
    mounted = {str(mount.get("resourceName")) for job in jobs for mount in job.get("mounts") or ()}
    resources: list[Doc] = []
    if request.flag("exportresources"):
        resources = _chosen(request, "resourcefilter", cluster.resources.values())
    elif request.flag("exportjobresources"):
        resources = [resource for resource in cluster.resources.values() if resource["name"] in mounted]
    staged = cluster.files.stage([])
    with zipfile.ZipFile(staged.path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_INDEX, json.dumps({"format": _FORMAT, "jobs": jobs, "resources": resources}))
        for resource in resources:
            for entry in cluster.files.entries(str(resource["name"])):
                archive.write(cluster.files.blob(entry["signature"]), f"files/{resource['name']}/{entry['path']}")
    stream, size = staged.path.open("rb"), staged.path.stat().st_size
    staged.path.unlink()
    return Response(stream=stream, length=size, content_type=ZIP)


def take_in(cluster: Cluster, request: Request) -> Response:
    """Create what an archive holds and report it; archives of others are refused."""
    if request.upload is None:
        raise ApiError(400, "http: no such file")
    handling = request.word("duplicatehandling", "error")
    if handling not in _HANDLING:
        raise ApiError(400, f"invalid duplicatehandling {handling!r}")
    try:
        with zipfile.ZipFile(request.upload.path) as archive:
            index = json.loads(archive.read(_INDEX))
            if index.get("format") != _FORMAT:
                raise ApiError(400, "the archive was not made by this service")
            return Response(value=_restore(cluster, archive, index, handling))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ApiError(400, f"the archive cannot be read: {error}") from error


def _restore(cluster: Cluster, archive: zipfile.ZipFile, index: Doc, handling: str) -> Doc:
    taken = [job["name"] for job in index["jobs"] if job["name"] in cluster.jobs]
    if taken and handling == "error":
        raise ApiError(409, "job with name already exists")
    report: Doc = {"jobs": [], "resources": []}
    for resource in index["resources"]:
        name = str(resource["name"])
        if name not in cluster.resources:
            cluster.resources.put(name, resource)
            report["resources"].append({"name": name})
            for member in archive.namelist():
                if member.startswith(f"files/{name}/"):
                    with archive.open(member) as stream:
                        _take_file(cluster, name, member.removeprefix(f"files/{name}/"), stream)
    for job in index["jobs"]:
        name = str(job["name"])
        if name in cluster.jobs and handling == "keep-original":
            continue
        number = 1
        while name in cluster.jobs:
            name, number = f"{job['name']}-{number}", number + 1
        cluster.jobs.put(name, job | {"name": name})
        report["jobs"].append({"name": name})
    return report


def _take_file(cluster: Cluster, resource: str, path: str, stream: IO[bytes]) -> None:
    staged = cluster.files.stage(iter(lambda: stream.read(store.PIECE), b""))
    cluster.files.put(resource, path, staged, cluster.stamp())


def _chosen(request: Request, name: str, entries: list[Doc]) -> list[Doc]:
    try:
        match = lists.parse_filter(request.query.get(name, ()))
    except lists.BadFilter as error:
        raise ApiError(400, str(error)) from error
    return [entry for entry in entries if match(entry)]
