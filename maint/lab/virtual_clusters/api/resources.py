"""Resources: list, create, read, delete (J5)."""

from maint.lab.http.messages import BYTES, Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import definitions, tick
from maint.lab.virtual_clusters.api.jobs import shows
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.lists import page
from maint.lab.virtual_clusters.messages import ApiError, Request


def read_all(cluster: Cluster, request: Request) -> Response:
    """List resources, without their files."""
    entries = [resource for resource in cluster.resources.values() if shows(cluster, resource)]
    return page(cluster, request, "resources", entries, cluster.resource_view, "name")


def read(cluster: Cluster, request: Request) -> Response:
    """Show a resource, with its files where asked for."""
    resource = find(cluster, request)
    view = cluster.resource_view(resource)
    if request.flag("includeFiles"):
        files = cluster.files.entries(str(resource["name"]))
        view |= {"files": files} if files else {}
    return Response(value=view)


def create(cluster: Cluster, request: Request) -> Response:
    """Create a resource; an environment waits for its requirements (J5.4)."""
    try:
        found = definitions.resource(request.document(), keep=cluster.switches["vc-unknown-keys"] == "keep")
    except definitions.BadDefinition as error:
        raise ApiError(400, str(error)) from error
    if found["name"] in cluster.resources:
        raise ApiError(409, "resource with name already exists")
    environment = found["type"] == "python-env"
    stamp = cluster.stamp()
    found |= {"status": "pending-build" if environment else "ready", "created": stamp, "modified": stamp}
    found["retentionPolicy"] = found.get("retentionPolicy") or "keep_indefinitely"
    if environment:
        found["pythonEnv"] = {"pythonVersion": "python3"} | (found.get("pythonEnv") or {}) | {"type": "python-env"}
    cluster.resources.put(str(found["name"]), found)
    shown = cluster.resource_view(found) if cluster.switches["vc-create-body"] == "object" else None
    return Response(201, shown)


def delete(cluster: Cluster, request: Request) -> Response:
    """Delete a resource with its files; jobs that mount it stay (J5.5)."""
    name = str(find(cluster, request)["name"])
    users = [job["name"] for job in cluster.jobs.values() if name in mounted(job)]
    if users and cluster.switches["vc-delete-mounted"] == "refuse":
        raise ApiError(409, f"resource is used by job '{users[0]}'")
    cluster.files.drop_all(name)
    cluster.resources.drop(name)
    return Response(204)


def events(cluster: Cluster, request: Request) -> Response:
    """Show what happened to a resource."""
    resource = find(cluster, request)
    entry = {"id": 1, "message": f"resource {resource['name']} created", "created": resource["created"]}
    return Response(value={"events": [entry]})


def find(cluster: Cluster, request: Request) -> Doc:
    """Return the resource that a path names; one that cannot be seen is not there."""
    resource = cluster.resources.get(request.parts["resource"])
    if resource is None or not request.sees:
        raise ApiError(404, "resource not found")
    return resource


def mounted(job: Doc) -> set[str]:
    """Return the names of what a job mounts, and of its environment."""
    names = {str(mount.get("resourceName")) for mount in job.get("mounts") or ()}
    return names | {str((job.get("spark") or {}).get("pythonEnvResourceName", ""))}


_REQUIREMENTS = "requirements.txt"


def upload_file(cluster: Cluster, request: Request) -> Response:
    """Take a file in, in the place of an earlier one; requirements start the build of an environment."""
    resource = find(cluster, request)
    if request.upload is None:
        raise ApiError(400, "http: no such file")
    path = _path(request)
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
    resource = find(cluster, request)
    if request.parts["path"] == "events" and cluster.files.entry(str(resource["name"]), "events") is None:
        return events(cluster, request)
    entry = _entry(cluster, request, resource)
    if resource["type"] == "python-env" and cluster.switches["vc-requirements-download"] == "refuse":
        raise ApiError(400, "files of a python-env resource cannot be downloaded")
    damage = "flip" if cluster.strikes("vc-bad-signature", request.call) else ""
    return Response(stream=cluster.files.open(entry), length=int(entry["sizeBytes"]), content_type=BYTES, damage=damage)


def delete_file(cluster: Cluster, request: Request) -> Response:
    """Delete a file."""
    resource = find(cluster, request)
    _entry(cluster, request, resource)
    cluster.files.drop(str(resource["name"]), _path(request))
    resource["modified"] = cluster.stamp()
    cluster.resources.put(str(resource["name"]), resource)
    return Response(int(cluster.switches["vc-delete-status"]))


def _entry(cluster: Cluster, request: Request, resource: Doc) -> Doc:
    entry = cluster.files.entry(str(resource["name"]), _path(request))
    if entry is None:
        raise ApiError(404, "file not found in resource")
    return entry


def _path(request: Request) -> str:
    try:
        return definitions.file_path(request.parts["path"])
    except definitions.BadDefinition as error:
        raise ApiError(400, str(error)) from error
