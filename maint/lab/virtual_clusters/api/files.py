"""Files of resources: upload, download, delete (contract on the jobs API, sections 5.1, 5.2)."""

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import definitions, tick
from maint.lab.virtual_clusters.api.resources import events, find
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import BYTES, ApiError, Request, Response

_REQUIREMENTS = "requirements.txt"


def upload(cluster: Cluster, request: Request) -> Response:
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


def download(cluster: Cluster, request: Request) -> Response:
    """Send a file's bytes."""
    resource = find(cluster, request)
    if request.parts["path"] == "events" and cluster.files.entry(str(resource["name"]), "events") is None:
        return events(cluster, request)
    entry = _entry(cluster, request, resource)
    if resource["type"] == "python-env" and cluster.switches["vc-requirements-download"] == "refuse":
        raise ApiError(400, "files of a python-env resource cannot be downloaded")
    damage = "flip" if cluster.strikes("vc-bad-signature", request.call) else ""
    return Response(stream=cluster.files.open(entry), length=int(entry["sizeBytes"]), content_type=BYTES, damage=damage)


def delete(cluster: Cluster, request: Request) -> Response:
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
