"""Hosts, and which cluster they belong to (M10.1)."""

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.api.clusters import forget_gone, members
from maint.lab.manager.api.messages import Request, cluster_of, config_items, host_of, listing
from maint.lab.manager.api.services import maintained
from maint.lab.manager.document import Doc, all_services, clusters, hosts, items, roles
from maint.lab.manager.world import World

_MEMORY = 16388911104


def read_all(world: World, request: Request) -> Response:
    """List all hosts."""
    return listing([_shown(world, host, request) for host in hosts(world.deployment)])


def read(world: World, request: Request) -> Response:
    """Answer one host."""
    return Response(value=_shown(world, host_of(world, request.parts["host"]), request))


def change(world: World, request: Request) -> Response:
    """Put a host into another rack, the only thing of it that can be written so."""
    host = host_of(world, request.parts["host"])
    host["rackId"] = request.document("the host").get("rackId") or host.get("rackId")
    world.changed()
    return Response(value=_shown(world, host, request))


def read_of_cluster(world: World, request: Request) -> Response:
    """List the hosts of a cluster."""
    return listing([_shown(world, host, request) for host in members(world, cluster_of(world, request))])


def add_to_cluster(world: World, request: Request) -> Response:
    """Add hosts that belong to no cluster; answers the references to them."""
    cluster = cluster_of(world, request)
    wanted = [str(ref.get("hostId") or ref.get("hostname")) for ref in request.entries("the list of hosts")]
    found = [host_of(world, name) for name in wanted]
    for host in found:
        owner = _cluster(world, host)
        if owner is not None and owner is not cluster:
            raise ApiError(400, f"Host '{host.get('hostname')}' belongs to cluster '{owner['name']}'.")
    world.joined |= {str(host["hostId"]): str(cluster["name"]) for host in found}
    return listing([{"hostId": host["hostId"], "hostname": host.get("hostname")} for host in found])


def remove_from_cluster(world: World, request: Request) -> Response:
    """Take one host out of a cluster; the host stays registered."""
    cluster, host = cluster_of(world, request), host_of(world, request.parts["host"])
    if host not in members(world, cluster):
        raise ApiError(404, f"Host '{host['hostId']}' is not in cluster '{cluster['name']}'.")
    _leave(world, host)
    return Response(value={"hostId": host["hostId"], "hostname": host.get("hostname")})


def remove_all_from_cluster(world: World, request: Request) -> Response:
    """Take the hosts that the body names out of their clusters, as a command that is finished at once."""
    for name in request.words("the list of hosts", "hostsToRemove"):
        _leave(world, host_of(world, name))
    done = commands.start_simple(world, "RemoveHostsFromCluster", {}, request.call, "Successfully removed the hosts.")
    return Response(value=commands.view(world, done, full=False))


def delete(world: World, request: Request) -> Response:
    """Forget a host that carries no role."""
    host = host_of(world, request.parts["host"])
    if _role_refs(world, host):
        raise ApiError(400, f"Host '{host['hostId']}' still has roles.")
    world.deployment["hosts"] = [each for each in hosts(world.deployment) if each is not host]
    forget_gone(world)
    world.changed()
    return Response(value=_shown(world, host, request))


def _leave(world: World, host: Doc) -> None:
    refs = [ref for ref in _role_refs(world, host) if "clusterName" in ref]
    if refs:
        raise ApiError(400, f"Host '{host.get('hostname')}' still has roles of cluster '{refs[0]['clusterName']}'.")
    world.joined.pop(str(host["hostId"]), None)


def _shown(world: World, host: Doc, request: Request) -> Doc:
    answer: Doc = {name: host.get(name) for name in ("hostId", "ipAddress", "hostname", "rackId")}
    answer["hostUrl"] = f"http://{request.host}/cmf/hostRedirect/{host['hostId']}"
    answer |= maintained(world, f"host {host['hostId']}") | {"commissionState": "COMMISSIONED"}
    answer |= {"numCores": 4, "numPhysicalCores": 2, "totalPhysMemBytes": _MEMORY}
    cluster = _cluster(world, host)
    if cluster and request.api >= (11 if request.full else 30):  # recordings of v14
        answer["clusterRef"] = {"clusterName": cluster["name"], "displayName": cluster.get("displayName")}
    if request.full:
        stamp = commands.moment(world.heard(str(host.get("hostname"))).timestamp())
        answer |= {"lastHeartbeat": stamp, "roleRefs": _role_refs(world, host), "healthSummary": "GOOD"}
        check: Doc = {"name": "HOST_SCM_HEALTH", "summary": "GOOD", "suppressed": False}
        answer |= {"healthChecks": [check], "entityStatus": "GOOD_HEALTH"}
        answer["config"] = {"items": config_items(world, items(host.get("config")), request)}
        answer["distribution"] = {"distributionType": "RHEL", "name": "RHEL", "version": "8.6"}
        answer["tags"] = host.get("tags") or []
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
