"""Services and roles, of clusters and of the manager itself (contract sections 5, 10.2)."""

from maint.lab.manager import commands
from maint.lab.manager.api.messages import (
    ApiError,
    Request,
    Response,
    cluster_of,
    items_shown,
    listing,
    role_of,
    service_of,
)
from maint.lab.manager.document import Doc, items, parse, roles, services
from maint.lab.manager.world import NA, STARTED, STOPPED, World

_VERBS = {"start": "Start", "stop": "Stop", "restart": "Restart"}
_STATUS = {STARTED: "GOOD_HEALTH", NA: "NONE"}


def read_all(world: World, request: Request) -> Response:
    """List the services of a cluster."""
    cluster = cluster_of(world, request)
    return listing([shown(world, cluster, service, request) for service in services(cluster)])


def read(world: World, request: Request) -> Response:
    """Answer one service, or the management service."""
    cluster, service = service_of(world, request)
    return Response(value=shown(world, cluster, service, request))


def read_roles(world: World, request: Request) -> Response:
    """List the roles of a service."""
    cluster, service = service_of(world, request)
    return listing([_role(world, cluster, service, role, request.api) for role in roles(service)])


def read_role(world: World, request: Request) -> Response:
    """Answer one role."""
    cluster, service = service_of(world, request)
    return Response(value=_role(world, cluster, service, role_of(service, request.parts["role"]), request.api))


def read_groups(world: World, request: Request) -> Response:
    """List the config groups of a service."""
    _, service = service_of(world, request)
    groups = [{**group, "config": {"items": items_shown(world, items(group.get("config")))}}
              for group in service.get("roleConfigGroups") or []]  # fmt: skip
    return listing(groups)


def read_config(world: World, request: Request) -> Response:
    """Answer the overridden settings of a service."""
    _, service = service_of(world, request)
    return listing(items_shown(world, items(service.get("config"))))


def read_role_config(world: World, request: Request) -> Response:
    """Answer the overridden settings of a role."""
    _, service = service_of(world, request)
    return listing(items_shown(world, items(role_of(service, request.parts["role"]).get("config"))))


def command(world: World, request: Request) -> Response:
    """Start, stop or restart a service."""
    cluster, service = service_of(world, request)
    started = commands.start_on_service(world, cluster, service, _verb(request), request.call)
    return Response(value=commands.view(world, started, full=False))


def role_command(world: World, request: Request) -> Response:
    """Start, stop or restart the roles that the body names."""
    cluster, service = service_of(world, request)
    verb, started, errors = _verb(request), [], []
    try:
        names = [str(name) for name in parse(request.content() or b"{}").get("items") or []]
    except ValueError as error:
        raise ApiError(400, f"Cannot read the list of roles: {error}") from error
    for name in names:
        try:
            role = role_of(service, name)
        except ApiError as error:
            errors.append(error.message)
            continue
        begun = commands.start_on_role(world, cluster, service, role, verb, request.call)
        started.append(commands.view(world, begun, full=False))
    return Response(value={"items": started, "errors": errors})


def active_commands(world: World, request: Request) -> Response:
    """List the active commands of a service itself."""
    cluster, service = service_of(world, request)
    found = commands.listed(world, commands.service_ref(cluster, service))
    return listing([commands.view(world, each, full=False) for each in found])


def shown(world: World, cluster: Doc | None, service: Doc, request: Request) -> Doc:
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
    if api >= 6:
        answer |= {"configStalenessStatus": "FRESH", "clientConfigStalenessStatus": "FRESH"}
    else:
        answer["configStale"] = False
    answer |= {"maintenanceMode": False, "maintenanceOwners": [], "displayName": service.get("displayName")}
    if api >= 10:
        answer["entityStatus"] = _STATUS.get(state, state)
    return answer


def _role(world: World, cluster: Doc | None, service: Doc, role: Doc, api: int) -> Doc:
    state = world.role_state(role)
    health = "GOOD" if state in (STARTED, NA) else "DISABLED"
    answer: Doc = {"name": role["name"], "type": role.get("type")}
    answer |= commands.service_ref(cluster, service)
    answer |= {"hostRef": role.get("hostRef"), "roleState": state, "commissionState": "COMMISSIONED"}
    answer |= {"healthSummary": health, "maintenanceMode": False, "maintenanceOwners": []}
    if api >= 3:
        answer["roleConfigGroupRef"] = role.get("roleConfigGroupRef")
    if api >= 10:
        answer["entityStatus"] = _STATUS.get(state, STOPPED if state == STOPPED else state)
    return answer


def _verb(request: Request) -> str:
    verb = _VERBS.get(request.parts["verb"])
    if verb is None:
        raise ApiError(404, f"Command '{request.parts['verb']}' is not known.")
    return verb
