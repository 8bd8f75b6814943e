"""Services, roles and role config groups, of clusters and of the manager itself (M5, M10.2)."""

import re

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.api.messages import Request, cluster_of, config_items, key, listing, one_of, service_of
from maint.lab.manager.document import Doc, items, roles, services
from maint.lab.manager.world import NA, STARTED, World

_STATUS = {STARTED: "GOOD_HEALTH", NA: "NONE"}


def read_all(world: World, request: Request) -> Response:
    """List the services of a cluster."""
    cluster = cluster_of(world, request)
    return listing([service_shown(world, cluster, each, request) for each in services(cluster)])


def read(world: World, request: Request) -> Response:
    """Answer one service, or the management service."""
    return Response(value=service_shown(world, *service_of(world, request), request))


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
    found = _filtered(found, request.word("filter"))
    return [role_shown(world, cluster, owner, each, request) for each in found]


_FILTER = re.compile(r"(hostname|hostId|type)(==|!=)(.*)")


def _filtered(found: list[Doc], text: str) -> list[Doc]:
    # What the query asks for, such as `type==DATANODE;hostname!=a.example`: each condition must hold.
    for condition in text.split(";") if text else ():
        parsed = _FILTER.fullmatch(condition)
        if not parsed:
            raise ApiError(400, f"Cannot read the filter '{condition}': it is not NAME==VALUE or NAME!=VALUE.")
        name, wanted, equal = parsed[1], parsed[3], parsed[2] == "=="
        found = [each for each in found if (_field(each, name) == wanted) is equal]
    return found


def _field(role: Doc, name: str) -> object:
    return role.get("type") if name == "type" else (role.get("hostRef") or {}).get(name)


def groups_shown(world: World, request: Request) -> list[Doc]:
    """Return the role config groups of a service, with their settings."""
    listed = service(world, request).get("roleConfigGroups") or []
    return [group_shown(world, each, request) for each in listed]


def group_shown(world: World, group: Doc, request: Request) -> Doc:
    """Return a role config group as the API shows it, with its settings."""
    return {**group, "config": {"items": config_items(world, items(group.get("config")), request)}}


def service_shown(world: World, cluster: Doc | None, service: Doc, request: Request) -> Doc:
    """Return a service as the API shows it (recordings)."""
    state, api = world.service_state(service), request.api
    base = f"http://{request.host}/cmf/serviceRedirect/{service['name']}"
    health = {STARTED: "GOOD", NA: "GOOD"}.get(state, "DISABLED")
    answer: Doc = {"name": service["name"], "type": service.get("type")}
    if cluster:
        answer["clusterRef"] = {"clusterName": cluster["name"], "displayName": cluster.get("displayName")}
    answer |= {"serviceUrl": base, "roleInstancesUrl": f"{base}/instances"}
    check: Doc = {"name": f"{service.get('type')}_HEALTHY", "summary": health, "suppressed": False}
    answer |= {"serviceState": state, "healthSummary": health, "healthChecks": [check]}
    answer |= _staleness(api, world.stale.get(f"{cluster['name'] if cluster else ''}/{service['name']}"), client=True)
    answer |= maintained(world, key(cluster, service))
    answer["displayName"] = service.get("displayName") if api >= 2 else None
    return answer | {"entityStatus": _STATUS.get(state, state), "tags": service.get("tags") or []}


def role_shown(world: World, cluster: Doc | None, service: Doc, role: Doc, request: Request) -> Doc:
    """Return a role as the API shows it (recordings)."""
    state, api = world.role_state(role), request.api
    health = "GOOD" if state in (STARTED, NA) else "DISABLED"
    answer: Doc = {"name": role["name"], "type": role.get("type")}
    answer |= commands.service_ref(cluster, service)
    answer |= {"hostRef": role.get("hostRef"), "roleState": state}
    answer |= {"commissionState": "COMMISSIONED", "healthSummary": health} | _staleness(api, client=False)
    answer |= {"healthChecks": []} | maintained(world, f"role {role['name']}", key(cluster, service))
    answer["roleUrl"] = f"http://{request.host}/cmf/roleRedirect/{role['name']}"
    answer |= {"roleConfigGroupRef": role.get("roleConfigGroupRef"), "entityStatus": _STATUS.get(state, state)}
    if request.full:
        answer["config"] = {"items": config_items(world, items(role.get("config")), request)}
    return answer | {"tags": role.get("tags") or []}


def maintained(world: World, own: str, *above: str) -> Doc:
    """Return what a view says of maintenance mode: whether what is shown, or what it belongs to, is in it."""
    owners = [each.partition(" ")[0].upper() for each in (own, *above) if each in world.maintenance]
    return {"maintenanceMode": bool(owners), "maintenanceOwners": owners}


def _staleness(api: int, stale: str | None = None, *, client: bool) -> Doc:
    # Of configuration that was changed and not yet taken over.
    if api < 6:
        return {"configStale": stale is not None}
    return {"configStalenessStatus": stale or "FRESH"} | ({"clientConfigStalenessStatus": "FRESH"} if client else {})
