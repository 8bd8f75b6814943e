"""Find what a path names, or answer 404."""

from maint.lab.manager.api.messages import ApiError, Request
from maint.lab.manager.document import Doc, roles, services
from maint.lab.manager.world import World


def cluster_of(world: World, request: Request) -> Doc:
    """Return the cluster of the path (contract section 5)."""
    name = request.parts["cluster"]
    found = world.find_cluster(name)
    if found is None:
        raise ApiError(404, f"Cluster '{name}' not found.")
    return found


def service_of(world: World, request: Request) -> tuple[Doc | None, Doc]:
    """Return the service of the path with its cluster; the management service where the path names no cluster."""
    if "cluster" not in request.parts:
        return None, management_service(world)
    cluster, name = cluster_of(world, request), request.parts["service"]
    for service in services(cluster):
        if service.get("name") == name:
            return cluster, service
    raise ApiError(404, f"Service '{name}' not found in cluster '{cluster['name']}'.")


def management_service(world: World) -> Doc:
    """Return the management service."""
    service: Doc | None = world.deployment.get("managementService")
    if not service:
        raise ApiError(404, "Cloudera Management Service does not exist.")
    return service


def role_of(service: Doc, name: str) -> Doc:
    """Return a role of a service."""
    for role in roles(service):
        if role.get("name") == name:
            return role
    raise ApiError(404, f"Role '{name}' not found in service '{service['name']}'.")
