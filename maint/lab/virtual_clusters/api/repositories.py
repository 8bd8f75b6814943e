"""Git repositories: names that jobs can mount; nothing is fetched (J4.3, J8)."""

from maint.lab.http.messages import Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import definitions
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.lists import page
from maint.lab.virtual_clusters.messages import ApiError, Request, shown


def read_all(cluster: Cluster, request: Request) -> Response:
    """List repositories."""
    return page(cluster, request, "repositories", cluster.repositories.values(), shown, "name")


def read(cluster: Cluster, request: Request) -> Response:
    """Show a repository."""
    return Response(value=shown(_find(cluster, request)))


def create(cluster: Cluster, request: Request) -> Response:
    """Create a repository; it shares its names with resources, since mounts do not tell the two apart."""
    try:
        found = definitions.repository(request.document())
    except definitions.BadDefinition as error:
        raise ApiError(400, str(error)) from error
    if found["name"] in cluster.repositories or found["name"] in cluster.resources:
        raise ApiError(409, "repository with name already exists")
    stamp = cluster.stamp()
    cluster.repositories.put(str(found["name"]), found | {"created": stamp, "modified": stamp})
    return Response(201)


def delete(cluster: Cluster, request: Request) -> Response:
    """Delete a repository; jobs that mount it stay."""
    cluster.repositories.drop(str(_find(cluster, request)["name"]))
    return Response(204)


def sync(cluster: Cluster, request: Request) -> Response:
    """Pretend to fetch: only its time changes."""
    found = _find(cluster, request) | {"modified": cluster.stamp()}
    cluster.repositories.put(str(found["name"]), found)
    return Response(201)


def _find(cluster: Cluster, request: Request) -> Doc:
    found = cluster.repositories.get(request.parts["repository"])
    if found is None or not request.sees:
        raise ApiError(404, "repository not found")
    return found
