"""Services, roles and role config groups, of clusters and of the manager itself (M5, M10.2)."""

from maint.lab.http.messages import Response
from maint.lab.manager import commands
from maint.lab.manager.api.messages import Request, cluster_of, config_items, key, listing, one_of, service_of
from maint.lab.manager.document import Doc, items, roles, services
from maint.lab.manager.views import as_of
from maint.lab.manager.world import NA, STARTED, World

_STATUS = {STARTED: "GOOD_HEALTH", NA: "NONE"}


def read_all(world: World, request: Request) -> Response:
    """List the services of a cluster."""
    cluster = cluster_of(world, request)
    return listing([_service(world, cluster, each, request) for each in services(cluster)])


def read(world: World, request: Request) -> Response:
    """Answer one service, or the management service."""
    return Response(value=_service(world, *service_of(world, request), request))


def service(world: World, request: Request) -> Doc:
    """Return the service of the path."""
    return service_of(world, request)[1]


def group(world: World, request: Request) -> Doc:
    """Return the role config group of the path."""
    listed = list(service(world, request).get("roleConfigGroups") or [])
    return one_of(listed, "name", request.parts["group"], "Role config group")


def roles_shown(world: World, request: Request) -> list[Doc]:
    """Return the roles of a service, or of one of its role config groups."""
    cluster, owner = service_of(world, request)
    found = roles(owner)
    if "group" in request.parts:
        name = group(world, request)["name"]
        found = [each for each in found if (each.get("roleConfigGroupRef") or {}).get("roleConfigGroupName") == name]
    return [_role(world, cluster, owner, each, request) for each in found]


def groups_shown(world: World, request: Request) -> list[Doc]:
    """Return the role config groups of a service, with their settings."""
    return [
        {**each, "config": {"items": config_items(world, items(each.get("config")), request)}}
        for each in service(world, request).get("roleConfigGroups") or []
    ]


def _service(world: World, cluster: Doc | None, service: Doc, request: Request) -> Doc:
    # In the fields of an API version (recordings).
    state, api = world.service_state(service), request.api
    base = f"http://{request.host}/cmf/serviceRedirect/{service['name']}"
    health = {STARTED: "GOOD", NA: "GOOD"}.get(state, "DISABLED")
    answer: Doc = {"name": service["name"], "type": service.get("type")}
    if cluster:
        shown_name = cluster.get("displayName") if api >= 32 else None
        answer["clusterRef"] = {"clusterName": cluster["name"], "displayName": shown_name}
    answer["serviceUrl"] = base
    if api >= 10:
        answer["roleInstancesUrl"] = f"{base}/instances"
    check: Doc = {"name": f"{service.get('type')}_HEALTHY", "summary": health}
    answer |= {"serviceState": state, "healthSummary": health}
    answer["healthChecks"] = [check | ({"suppressed": False} if api >= 11 else {})]
    answer |= _staleness(api, world.stale.get(f"{cluster['name'] if cluster else ''}/{service['name']}"), client=True)
    answer |= maintained(world, key(cluster, service)) | {"displayName": service.get("displayName")}
    if api >= 10:
        answer["entityStatus"] = _STATUS.get(state, state)
    if api >= 41:
        answer["tags"] = service.get("tags") or []
    return answer


def _role(world: World, cluster: Doc | None, service: Doc, role: Doc, request: Request) -> Doc:
    state, api = world.role_state(role), request.api
    health = "GOOD" if state in (STARTED, NA) else "DISABLED"
    answer: Doc = {"name": role["name"], "type": role.get("type")}
    answer |= commands.service_ref(cluster, service)
    answer |= {"hostRef": as_of({"hostRef": role.get("hostRef")}, api)["hostRef"], "roleState": state}
    answer |= {"commissionState": "COMMISSIONED", "healthSummary": health} | _staleness(api, client=False)
    answer |= {"healthChecks": []} | maintained(world, f"role {role['name']}", key(cluster, service))
    answer["roleUrl"] = f"http://{request.host}/cmf/roleRedirect/{role['name']}"
    if api >= 3:
        answer["roleConfigGroupRef"] = role.get("roleConfigGroupRef")
    if api >= 10:
        answer["entityStatus"] = _STATUS.get(state, state)
    if request.full:
        answer["config"] = {"items": config_items(world, items(role.get("config")), request)}
    if api >= 41:
        answer["tags"] = role.get("tags") or []
    return answer


def maintained(world: World, own: str, *above: str) -> Doc:
    """Return what a view says of maintenance mode: whether what is shown, or what it belongs to, is in it."""
    owners = [each.partition(" ")[0].upper() for each in (own, *above) if each in world.maintenance]
    return {"maintenanceMode": bool(owners), "maintenanceOwners": owners}


def _staleness(api: int, stale: str | None = None, *, client: bool) -> Doc:
    # Of configuration that was changed and not yet taken over.
    if api < 6:
        return {"configStale": stale is not None}
    return {"configStalenessStatus": stale or "FRESH"} | ({"clientConfigStalenessStatus": "FRESH"} if client else {})
