"""Services, roles and role config groups, of clusters and of the manager itself (M5, M10.2)."""

from maint.lab.manager import commands
from maint.lab.manager.api.messages import (
    Request,
    Response,
    cluster_of,
    config_items,
    group_of,
    listing,
    role_of,
    service_of,
    settings_shown,
)
from maint.lab.manager.document import Doc, items, roles, services
from maint.lab.manager.views import as_of
from maint.lab.manager.world import NA, STARTED, World

_STATUS = {STARTED: "GOOD_HEALTH", NA: "NONE"}


def read_all(world: World, request: Request) -> Response:
    """List the services of a cluster."""
    cluster = cluster_of(world, request)
    return listing([_service(world, cluster, service, request) for service in services(cluster)])


def read(world: World, request: Request) -> Response:
    """Answer one service, or the management service."""
    cluster, service = service_of(world, request)
    return Response(value=_service(world, cluster, service, request))


def read_config(world: World, request: Request) -> Response:
    """Answer the overridden settings of a service."""
    _, service = service_of(world, request)
    return settings_shown(world, service.get("config"), request)


def read_roles(world: World, request: Request) -> Response:
    """List the roles of a service."""
    cluster, service = service_of(world, request)
    return listing([_role(world, cluster, service, role, request) for role in roles(service)])


def read_role(world: World, request: Request) -> Response:
    """Answer one role."""
    cluster, service = service_of(world, request)
    return Response(value=_role(world, cluster, service, role_of(service, request.parts["role"]), request))


def read_role_config(world: World, request: Request) -> Response:
    """Answer the overridden settings of a role."""
    _, service = service_of(world, request)
    return settings_shown(world, role_of(service, request.parts["role"]).get("config"), request)


def read_groups(world: World, request: Request) -> Response:
    """List the role config groups of a service."""
    _, service = service_of(world, request)
    return listing([_group(world, group, request) for group in service.get("roleConfigGroups") or []])


def read_group(world: World, request: Request) -> Response:
    """Answer one role config group."""
    _, service = service_of(world, request)
    return Response(value=_group(world, group_of(service, request.parts["group"]), request))


def read_group_config(world: World, request: Request) -> Response:
    """Answer the settings of a role config group."""
    _, service = service_of(world, request)
    return settings_shown(world, group_of(service, request.parts["group"]).get("config"), request)


def read_group_roles(world: World, request: Request) -> Response:
    """List the roles of a role config group."""
    cluster, service = service_of(world, request)
    name = group_of(service, request.parts["group"])["name"]
    refs = [(each, each.get("roleConfigGroupRef") or {}) for each in roles(service)]
    found = [each for each, ref in refs if ref.get("roleConfigGroupName") == name]
    return listing([_role(world, cluster, service, role, request) for role in found])


def _service(world: World, cluster: Doc | None, service: Doc, request: Request) -> Doc:
    """Return a service as listings show it, in the fields of an API version (recordings)."""
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
    answer |= _staleness(api, client=True)
    answer |= {"maintenanceMode": False, "maintenanceOwners": [], "displayName": service.get("displayName")}
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
    answer |= {"healthChecks": [], "maintenanceMode": False, "maintenanceOwners": []}
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


def _group(world: World, group: Doc, request: Request) -> Doc:
    return {**group, "config": {"items": config_items(world, items(group.get("config")), request)}}


def _staleness(api: int, *, client: bool) -> Doc:
    """Return what an API version says of configuration that was changed and not yet taken over."""
    if api < 6:
        return {"configStale": False}
    return {"configStalenessStatus": "FRESH"} | ({"clientConfigStalenessStatus": "FRESH"} if client else {})
