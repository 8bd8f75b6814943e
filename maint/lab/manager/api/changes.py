"""Clusters, services, roles, groups and templates made, changed and taken away, as the published client has it."""

import hashlib
from collections.abc import Callable, Iterable
from functools import cache

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import commands
from maint.lab.manager.api import clusters as shown_clusters
from maint.lab.manager.api import services as shown
from maint.lab.manager.api import settings
from maint.lab.manager.api.messages import Request, cluster_of, host_of, listing, one_of, role_of, service_of
from maint.lab.manager.document import (
    Doc,
    all_services,
    clusters,
    drop,
    is_objects,
    items,
    read,
    roles,
    services,
    spelled,
)
from maint.lab.manager.load import EXAMPLE
from maint.lab.manager.put_deployment import LONGEST_NAME
from maint.lab.manager.world import NA, STOPPED, World

_MANAGEMENT = "MGMT"


def service_types(world: World, request: Request) -> Response:
    """List the types that services of a cluster can have: those that the lab knows the roles of."""
    return Response(value={"items": sorted(_role_types(world, shown_clusters.kind_of(cluster_of(world, request))))})


def role_types(world: World, request: Request) -> Response:
    """List the types that roles of a service can have."""
    return Response(value={"items": _types_of(service_of(world, request)[1])})


def make_clusters(world: World, request: Request) -> Response:
    """Make empty clusters, with the services that the body names."""
    made: list[Doc] = []
    for entry in request.entries("the list of clusters"):
        name, full = _word(entry, "name", "cluster"), str(entry.get("fullVersion") or "")
        version = str(entry.get("version") or (full and f"CDH{full.partition('.')[0]}"))
        if not version:
            raise ApiError(400, f"The cluster '{name}' has no version.")
        _refuse_taken([*clusters(world.deployment), *made], "name", name, "Cluster")
        cluster: Doc = {"name": name, "displayName": entry.get("displayName") or name, "version": version}
        cluster |= {"fullVersion": full or None, "services": [], "parcels": [], "tags": _tags(entry.get("tags"))}
        cluster["clusterType"] = shown_clusters.kind_of({"clusterType": entry.get("clusterType"), "version": version})
        cluster["services"] = _services(world, request, cluster, entry.get("services") or [])
        made.append(cluster)
    world.deployment["clusters"] = [*clusters(world.deployment), *made]
    world.changed()
    return listing([shown_clusters.listed_cluster(world, each, request) for each in made])


def make_services(world: World, request: Request) -> Response:
    """Make services in a cluster, with the groups and roles that the body names; they are stopped."""
    cluster = cluster_of(world, request)
    made = _services(world, request, cluster, request.entries("the list of services"))
    cluster["services"] = [*services(cluster), *made]
    world.changed()
    return listing([shown.service_shown(world, cluster, each, request) for each in made])


def make_management_service(world: World, request: Request) -> Response:
    """Make the management service, with the roles that the body names."""
    if world.deployment.get("managementService"):
        raise ApiError(400, "Cloudera Management Service already exists.")
    entry = {"name": "mgmt", "displayName": "Cloudera Management Service", **request.document("the service")}
    made = _service(world, request, None, entry | {"type": _MANAGEMENT})
    world.deployment["managementService"] = made
    world.changed()
    return Response(value=shown.service_shown(world, None, made, request))


def rename_service(world: World, request: Request) -> Response:
    """Change a service's display name, the only thing of it that can be written so."""
    cluster, service = service_of(world, request)
    service["displayName"] = request.document("the service").get("displayName") or service.get("displayName")
    world.changed()
    return Response(value=shown.service_shown(world, cluster, service, request))


def delete_service(world: World, request: Request) -> Response:
    """Delete a service that is stopped, with all that is in it."""
    cluster, service = service_of(world, request)
    if world.service_state(service) not in (STOPPED, NA) and world.switches["delete-running"] == "refuse":
        raise ApiError(400, f"Cannot delete service '{service['name']}': it must be stopped first.")
    answer = shown.service_shown(world, cluster, service, request)
    settings.keep_known(world, service)
    if cluster:
        cluster["services"] = [each for each in services(cluster) if each is not service]
    else:
        world.deployment.pop("managementService")
    _forget(world, cluster, roles(service))
    world.changed()
    return Response(value=answer)


def make_roles(world: World, request: Request) -> Response:
    """Make roles on hosts of the cluster; they are stopped."""
    cluster, service = service_of(world, request)
    made = _roles(world, request, cluster, service, request.entries("the list of roles"))
    service["roles"] = [*roles(service), *made]
    world.changed()
    return listing([shown.role_shown(world, cluster, service, each, request) for each in made])


def delete_role(world: World, request: Request) -> Response:
    """Delete a role that is stopped."""
    cluster, service = service_of(world, request)
    role = role_of(service, request.parts["role"])
    if world.role_state(role) not in (STOPPED, NA) and world.switches["delete-running"] == "refuse":
        raise ApiError(400, f"Cannot delete role '{role['name']}': it must be stopped first.")
    answer = shown.role_shown(world, cluster, service, role, request)
    settings.keep_known(world, service)
    service["roles"] = [each for each in roles(service) if each is not role]
    _forget(world, cluster, [role])
    world.changed()
    return Response(value=answer)


def make_groups(world: World, request: Request) -> Response:
    """Make role config groups beside the base ones, which every role type of a service has."""
    cluster, service = service_of(world, request)
    listed = service.get("roleConfigGroups") or []
    before, grown = len(listed), {**service, "roleConfigGroups": [*listed]}
    for entry in request.entries("the list of groups"):
        _add_group(world, request, cluster, grown, entry)
    service["roleConfigGroups"] = grown["roleConfigGroups"]
    world.changed()
    return listing([shown.group_shown(world, each, request) for each in service["roleConfigGroups"][before:]])


def delete_group(world: World, request: Request) -> Response:
    """Delete a role config group that is not a base one and has no roles."""
    _, service = service_of(world, request)
    group = shown.group(world, request)
    if group.get("base"):
        raise ApiError(400, f"Role config group '{group['name']}' is a base group and cannot be deleted.")
    if shown.roles_shown(world, request):
        raise ApiError(400, f"Role config group '{group['name']}' still has roles.")
    settings.keep_known(world, service)
    service["roleConfigGroups"] = [each for each in service["roleConfigGroups"] if each is not group]
    shown_clusters.forget_gone(world)
    world.changed()
    return Response(value=shown.group_shown(world, group, request))


def move_roles(world: World, request: Request) -> Response:
    """Move roles to the group of the path, or each to the base group of its type."""
    cluster, service = service_of(world, request)
    moved = [role_of(service, name) for name in request.words("the list of roles")]
    target = shown.group(world, request) if "group" in request.parts else None
    for role in moved:
        if target and target.get("roleType") != role.get("type"):
            raise ApiError(400, f"Role '{role['name']}' is not of type {target.get('roleType')}.")
    for role in moved:
        role["roleConfigGroupRef"] = {"roleConfigGroupName": (target or _base_group(service, role["type"]))["name"]}
    world.changed()
    return listing([shown.role_shown(world, cluster, service, each, request) for each in moved])


def make_templates(world: World, request: Request) -> Response:
    """Make host templates; their names are unique across clusters."""
    cluster, listed = cluster_of(world, request), items(world.deployment.get("hostTemplates"))
    made: list[Doc] = []
    for entry in request.entries("the list of templates"):
        name = _word(entry, "name", "host template")
        _refuse_taken([*listed, *made], "name", name, "Host template")
        made.append({"name": name, **commands.cluster_ref(cluster), "roleConfigGroupRefs": _refs(cluster, entry)})
    world.deployment["hostTemplates"] = {"items": [*listed, *made]}
    world.changed()
    return listing(made)


def change_template(world: World, request: Request) -> Response:
    """Give a host template other role config groups."""
    template = _template(world, request)
    template["roleConfigGroupRefs"] = _refs(cluster_of(world, request), request.document("the template"))
    world.changed()
    return Response(value=template)


def delete_template(world: World, request: Request) -> Response:
    """Delete a host template; roles that were made with it stay."""
    template = _template(world, request)
    drop(world.deployment, "hostTemplates", template)
    world.changed()
    return Response(value=template)


def apply_template(world: World, request: Request) -> Response:
    """Make the roles of a host template on hosts that have none, as a command."""
    cluster, template = cluster_of(world, request), _template(world, request)
    names = {str(ref.get("roleConfigGroupName")) for ref in template.get("roleConfigGroupRefs") or []}
    hosts = [host_of(world, str(ref.get("hostId") or ref.get("hostname"))) for ref in request.entries("the hosts")]
    listed = [role for _, service in all_services(world.deployment) for role in roles(service)]
    used = [(role.get("hostRef") or {}).get("hostId") for role in listed]
    for host in hosts:
        if host["hostId"] in used:
            raise ApiError(400, f"Host '{host.get('hostname')}' has roles already.")
    made: list[tuple[Doc, list[Doc]]] = []
    for service in services(cluster):
        groups = [group for group in service.get("roleConfigGroups") or [] if group.get("name") in names]
        wanted: list[Doc] = [
            {"type": group["roleType"], "hostRef": {"hostId": host["hostId"]}, "roleConfigGroupRef": _ref_to(group)}
            for group in groups
            for host in hosts
        ]
        made.append((service, _roles(world, request, cluster, service, wanted)))
    ref, praise = commands.cluster_ref(cluster), "Successfully applied the host template."
    begun = commands.start_simple(world, commands.APPLY, ref, request.call, praise)
    for service, added in made if begun.active else []:
        service["roles"] = [*roles(service), *added]
        world.changed()
    if begun.active and request.flag("startRoles", default=True):
        commands.start_roles(world, begun, [role for _, added in made for role in added])
    return Response(value=commands.view(world, begun, full=False))


def make_context(world: World, request: Request) -> Response:
    """Make a data context of services that there are."""
    entry, listed = request.document("the data context"), items(world.deployment.get("dataContexts"))
    name = _word(entry, "name", "data context")
    _refuse_taken(listed, "name", name, "Data context")
    refs = [ref for ref in entry.get("services") or [] if isinstance(ref, dict)]
    for ref in refs:
        cluster = world.find_cluster(str(ref.get("clusterName")))
        if not any(one.get("name") == ref.get("serviceName") for one in services(cluster or {})):
            raise ApiError(400, f"Service '{ref.get('serviceName')}' not found in cluster '{ref.get('clusterName')}'.")
    stamp = commands.moment(world.now().timestamp())
    made: Doc = {"name": name, "displayName": entry.get("displayName") or name, "services": refs}
    made |= {"createdTime": stamp, "lastModifiedTime": stamp}
    world.deployment["dataContexts"] = {"items": [*listed, made]}
    world.changed()
    return Response(value=made)


def tags(holder: Callable[[World, Request], Doc]) -> Callable[[World, Request], Response]:
    """Return what lists the tags of something, adds some, or takes some away."""

    def handle(world: World, request: Request) -> Response:
        found = holder(world, request)
        before = {str(tag["name"]): tag for tag in found.get("tags") or []}
        if request.method in ("PUT", "DELETE"):
            try:
                sent = {str(tag["name"]): tag for tag in _tags(spelled(request.content or b"[]"))}
            except ValueError as error:
                raise ApiError(400, f"Cannot read the tags: {error}") from error
            kept = {name: tag for name, tag in before.items() if name not in sent}
            found["tags"] = list((before | sent if request.method == "PUT" else kept).values())
            world.changed()
            return Response(value=list(sent.values()))
        return Response(value=list(before.values()))

    return handle


# -- what they share


@cache
def _of_the_example() -> Doc:
    return read(EXAMPLE)


def _role_types(world: World, kind: str) -> dict[str, list[str]]:
    # By service type: as the base groups of the example, and of the lab's own deployment, have them.
    found: dict[str, list[str]] = {}
    for doc in (_of_the_example(), world.deployment):
        for cluster in clusters(doc):
            if shown_clusters.kind_of(cluster) == kind:
                found |= {str(service.get("type")): _types_of(service) for service in services(cluster)}
    return found


def _types_of(service: Doc) -> list[str]:
    return sorted({str(group.get("roleType")) for group in service.get("roleConfigGroups") or []})


def _services(world: World, request: Request, cluster: Doc, entries: Iterable[Doc]) -> list[Doc]:
    made: list[Doc] = []
    for entry in entries:
        _refuse_taken([*services(cluster), *made], "name", _word(entry, "name", "service"), "Service")
        made.append(_service(world, request, cluster, entry))
    return made


def _service(world: World, request: Request, cluster: Doc | None, entry: Doc) -> Doc:
    name, kind = _word(entry, "name", "service"), _word(entry, "type", "service")
    known = _role_types(world, shown_clusters.kind_of(cluster)) if cluster else {}
    if cluster and kind not in known:
        raise ApiError(400, f"Unknown service type '{kind}' for cluster '{cluster['name']}'.")
    types = known[kind] if cluster else _types_of(_of_the_example()["managementService"])
    made: Doc = {"name": name, "type": kind, "config": _config(world, request, kind, entry)}
    made |= {"displayName": entry.get("displayName") or name}
    made |= {"roles": [], "roleConfigGroups": [], "tags": _tags(entry.get("tags"))}
    for one in types:
        words = f"{one.replace('_', ' ').title()} Default Group"
        base = {"name": f"{name}-{one}-BASE", "displayName": words, "roleType": one, "base": True}
        made["roleConfigGroups"].append(base | commands.service_ref(cluster, made) | {"config": {"items": []}})
    for each in entry.get("roleConfigGroups") or []:
        if each.get("base"):
            base = _base_group(made, each.get("roleType"))
            base["config"] = _config(world, request, f"{kind}/{base['roleType']}", each)
        else:
            _add_group(world, request, cluster, made, each)
    sent = entry.get("roles") or []
    if not is_objects(sent):
        raise ApiError(400, f"Cannot read the service '{name}': roles is not a list of objects.")
    made["roles"] = _roles(world, request, cluster, made, sent)
    return made


def _add_group(world: World, request: Request, cluster: Doc | None, service: Doc, entry: Doc) -> None:
    name, kind = _word(entry, "name", "role config group"), _word(entry, "roleType", "role config group")
    _base_group(service, kind)
    _refuse_taken(service["roleConfigGroups"], "name", name, "Role config group")
    made = {"name": name, "displayName": entry.get("displayName") or name, "roleType": kind, "base": False}
    made |= commands.service_ref(cluster, service)
    made["config"] = _config(world, request, f"{service.get('type')}/{kind}", entry)
    service["roleConfigGroups"].append(made)


def _base_group(service: Doc, kind: object) -> Doc:
    for group in service.get("roleConfigGroups") or []:
        if group.get("base") and group.get("roleType") == kind:
            found: Doc = group
            return found
    raise ApiError(400, f"Unknown role type '{kind}' for service '{service['name']}'.")


def _roles(world: World, request: Request, cluster: Doc | None, service: Doc, entries: Iterable[Doc]) -> list[Doc]:
    made: list[Doc] = []
    for entry in entries:
        kind, ref = _word(entry, "type", "role"), entry.get("hostRef") or {}
        group = _base_group(service, kind)
        host = host_of(world, str(ref.get("hostId") or ref.get("hostname")))
        if cluster and host not in shown_clusters.members(world, cluster):
            raise ApiError(400, f"Host '{host.get('hostname')}' is not in cluster '{cluster['name']}'.")
        there = [*roles(service), *made]
        if any(one.get("type") == kind and (one.get("hostRef") or {}).get("hostId") == host["hostId"] for one in there):
            raise ApiError(400, f"Host '{host.get('hostname')}' has a role of type {kind} already.")
        name = str(entry.get("name") or _role_name(f"{service['name']}-{kind}", str(host["hostId"])))
        if len(name) > LONGEST_NAME:
            raise ApiError(400, f"Role name '{name}' is longer than {LONGEST_NAME} characters.")
        _refuse_taken(there, "name", name, "Role")
        own = (entry.get("roleConfigGroupRef") or {}).get("roleConfigGroupName")
        if own:
            group = one_of(service["roleConfigGroups"], "name", own, "Role config group")
        where = {"hostId": host["hostId"], "hostname": host.get("hostname")}
        role: Doc = {"name": name, "type": kind, "hostRef": where}
        role["config"] = _config(world, request, f"{service.get('type')}/{kind}", entry)
        made.append(role | {"roleConfigGroupRef": _ref_to(group), "tags": _tags(entry.get("tags"))})
    return made


def _role_name(prefix: str, host: str) -> str:
    # A prefix that is too long is cut; so that the name stays the only one, it is hashed, too.
    room = LONGEST_NAME - 33
    hashed = host if len(prefix) <= room else f"{prefix}-{host}"
    return f"{prefix[:room]}-{hashlib.md5(hashed.encode(), usedforsecurity=False).hexdigest()}"


def _ref_to(group: Doc) -> Doc:
    return {"roleConfigGroupName": group["name"]}


def _refs(cluster: Doc, entry: Doc) -> list[Doc]:
    known = {group.get("name") for one in services(cluster) for group in one.get("roleConfigGroups") or []}
    names = [ref.get("roleConfigGroupName") for ref in entry.get("roleConfigGroupRefs") or []]
    for name in names:
        if name not in known:
            raise ApiError(400, f"Role config group '{name}' not found in cluster '{cluster['name']}'.")
    return [{"roleConfigGroupName": name} for name in names]


def _template(world: World, request: Request) -> Doc:
    return one_of(shown_clusters.templates(world, request), "name", request.parts["template"], "Host template")


def _forget(world: World, cluster: Doc | None, gone: list[Doc]) -> None:
    # The hosts stay in the cluster, though they carry none of its roles any more.
    for role in gone if cluster else []:
        world.joined.setdefault(str((role.get("hostRef") or {}).get("hostId")), str((cluster or {})["name"]))
    shown_clusters.forget_gone(world)


def _config(world: World, request: Request, kind: str, entry: Doc) -> Doc:
    return settings.written(world, request, kind, [], items(entry.get("config")))


def _tags(listed: object) -> list[Doc]:
    sent = listed or []
    if not isinstance(sent, list) or not all(
        isinstance(tag, dict) and isinstance(tag.get("name"), str) for tag in sent
    ):
        raise ApiError(400, "Cannot read the tags: each needs a name, and a value.")
    return [{"name": tag["name"], "value": tag.get("value")} for tag in sent]


def _word(entry: Doc, field: str, what: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"The {what} has no {field}.")
    return value


def _refuse_taken(listed: list[Doc], key: str, name: str, what: str) -> None:
    if any(each.get(key) == name for each in listed):
        raise ApiError(400, f"{what} '{name}' already exists.")
