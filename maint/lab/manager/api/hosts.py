"""Hosts (contract section 10.1)."""

from maint.lab.manager.api.clusters import members
from maint.lab.manager.api.messages import ApiError, Request, Response, cluster_of, listing
from maint.lab.manager.document import Doc, all_services, clusters, hosts, roles
from maint.lab.manager.world import World

_MEMORY = 16388911104


def read_all(world: World, request: Request) -> Response:
    """List all hosts."""
    return listing([_shown(world, host, request) for host in hosts(world.deployment)])


def read(world: World, request: Request) -> Response:
    """Answer one host."""
    return Response(value=_shown(world, _find(world, request), request))


def read_of_cluster(world: World, request: Request) -> Response:
    """List the hosts of a cluster."""
    return listing([_shown(world, host, request) for host in members(world, cluster_of(world, request))])


def delete(world: World, request: Request) -> Response:
    """Forget a host that carries no role."""
    host = _find(world, request)
    if _role_refs(world, host):
        raise ApiError(400, f"Host '{host['hostId']}' still has roles.")
    world.deployment["hosts"] = [each for each in hosts(world.deployment) if each is not host]
    world.changed()
    return Response(value=_shown(world, host, request))


def _find(world: World, request: Request) -> Doc:
    name = request.parts["host"]
    for host in hosts(world.deployment):
        if name in (host.get("hostId"), host.get("hostname")):
            return host
    raise ApiError(404, f"Host '{name}' not found.")


def _shown(world: World, host: Doc, request: Request) -> Doc:
    api, full = request.api, request.query.get("view", "summary").lower() == "full"
    answer: Doc = {name: host.get(name) for name in ("hostId", "ipAddress", "hostname", "rackId")}
    answer["hostUrl"] = f"http://{request.host}/cmf/hostRedirect/{host['hostId']}"
    answer |= {"maintenanceMode": False, "maintenanceOwners": [], "commissionState": "COMMISSIONED", "numCores": 4}
    if api >= 9:
        answer["numPhysicalCores"] = 2
    answer["totalPhysMemBytes"] = _MEMORY
    cluster = _cluster(world, host)
    if cluster and api >= 30:
        answer["clusterRef"] = {"clusterName": cluster["name"], "displayName": cluster.get("displayName")}
    if full:
        stamp = world.now().strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"
        answer |= {"lastHeartbeat": stamp, "roleRefs": _role_refs(world, host), "healthSummary": "GOOD"}
        answer |= {"healthChecks": [{"name": "HOST_SCM_HEALTH", "summary": "GOOD"}], "entityStatus": "GOOD_HEALTH"}
    return answer


def _cluster(world: World, host: Doc) -> Doc | None:
    return next((cluster for cluster in clusters(world.deployment) if host in members(world, cluster)), None)


def _role_refs(world: World, host: Doc) -> list[Doc]:
    found = []
    for cluster, service in all_services(world.deployment):
        owner = {"clusterName": cluster["name"]} if cluster else {}
        for role in roles(service):
            if (role.get("hostRef") or {}).get("hostId") == host.get("hostId"):
                found.append({**owner, "serviceName": service["name"], "roleName": role["name"]})
    return found
