"""Clusters with what belongs to one: host templates, parcels, data contexts, control planes (M5, M6, M10.4)."""

from collections.abc import Container
from urllib.parse import quote_plus

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager import accounts, commands
from maint.lab.manager.api import settings
from maint.lab.manager.api.messages import Request, cluster_of, listing
from maint.lab.manager.api.services import maintained
from maint.lab.manager.document import Doc, all_services, cluster_as_of, clusters, drop, hosts, items, roles, services
from maint.lab.manager.world import STOPPED, World

_TYPES = {"base": "BASE_CLUSTER", "compute": "COMPUTE_CLUSTER", "experience": "EXPERIENCE_CLUSTER"}


def kind_of(cluster: Doc) -> str:
    """Return the type of a cluster, derived from its version where it is not stated."""
    if cluster.get("clusterType"):
        return str(cluster["clusterType"])
    named = str(cluster.get("version", ""))
    return _TYPES["experience" if named.startswith(("EXPERIENCE", "DATA_SERVICES")) else "base"]


def read_all(world: World, request: Request) -> Response:
    """List clusters of the type asked for; base ones by default."""
    wanted = request.word("clusterType", "base").lower()
    if wanted not in (*_TYPES, "any"):
        raise ApiError(400, f"Cluster type '{wanted}' is not supported; supported are: any, base, compute, experience.")
    found = [each for each in clusters(world.deployment) if wanted == "any" or kind_of(each) == _TYPES[wanted]]
    return listing([listed_cluster(world, each, request) for each in found])


def read(world: World, request: Request) -> Response:
    """Answer one cluster."""
    return Response(value=listed_cluster(world, cluster_of(world, request), request))


def delete(world: World, request: Request) -> Response:
    """Delete a cluster that is stopped; hosts stay (M6)."""
    cluster = cluster_of(world, request)
    if world.cluster_runs(cluster) and world.switches["delete-running"] == "refuse":
        raise ApiError(400, f"Cannot delete cluster '{cluster['name']}': its services must be stopped first.")
    used_by = _dependants(world, cluster)
    if used_by and world.switches["delete-with-dependants"] == "refuse":
        raise ApiError(400, f"Cannot delete cluster '{cluster['name']}': it is used by {', '.join(used_by)}.")
    answer = listed_cluster(world, cluster, request)
    for each in services(cluster):
        settings.keep_known(world, each)
    world.deployment["clusters"] = [each for each in clusters(world.deployment) if each is not cluster]
    forget_gone(world)
    world.changed()
    return Response(value=answer)


def members(world: World, cluster: Doc) -> list[Doc]:
    """Return the hosts of a cluster: those that carry its roles, and those that were added to it."""
    used = {(role.get("hostRef") or {}).get("hostId") for service in services(cluster) for role in roles(service)}
    used |= {host for host, name in world.joined.items() if name == cluster["name"]}
    return [host for host in hosts(world.deployment) if host.get("hostId") in used]


def listed_cluster(world: World, cluster: Doc, request: Request) -> Doc:
    """Return a cluster as listings show it (M7.2, recordings)."""
    name, shown = cluster["name"], cluster.get("displayName") or cluster["name"]
    answer: Doc = {"name": name if request.api >= 6 else shown, "displayName": shown}
    answer |= {"version": cluster.get("version"), "fullVersion": cluster.get("fullVersion")}
    answer |= maintained(world, f"cluster {name}")
    url = f"http://{request.host}/cmf/clusterRedirect/{quote_plus(shown)}"
    answer |= {"clusterUrl": url, "hostsUrl": f"{url}/hosts", "entityStatus": _entity_status(world, cluster)}
    answer |= {"uuid": cluster.get("uuid"), "dataContextRefs": cluster.get("dataContextRefs")}
    answer |= {"clusterType": kind_of(cluster), "tags": cluster.get("tags") or []}
    return cluster_as_of(answer, request.api)


def _entity_status(world: World, cluster: Doc) -> str:
    if not services(cluster):
        return "NONE"
    return "GOOD_HEALTH" if world.cluster_runs(cluster) else STOPPED


def _dependants(world: World, cluster: Doc) -> list[str]:
    if kind_of(cluster) != _TYPES["base"]:
        return []
    names = {service.get("name") for service in services(cluster)}
    contexts = [context for context in items(world.deployment.get("dataContexts")) if _uses(context, cluster, names)]
    known = {str(context.get("name")) for context in contexts}
    found = [f"data context '{name}'" for name in sorted(known)]
    for other in clusters(world.deployment):
        refs = {str(ref.get("name")) for ref in other.get("dataContextRefs") or []}
        if other is not cluster and refs & known:
            found.append(f"cluster '{other['name']}'")
    return found


def _uses(context: Doc, cluster: Doc, names: set[object]) -> bool:
    refs = context.get("services") or []
    owners = {ref.get("clusterName") for ref in refs if isinstance(ref, dict)}
    if owners - {None}:
        return cluster.get("name") in owners
    return any((ref.get("serviceName") if isinstance(ref, dict) else ref) in names for ref in refs)


def forget_gone(world: World) -> None:
    """Drop whatever points to hosts, clusters, services, groups or roles that were just taken away."""
    doc, named = world.deployment, {cluster["name"] for cluster in clusters(world.deployment)}
    owned = {(cluster["name"] if cluster else "", service["name"]): service for cluster, service in all_services(doc)}
    groups = {(key[0], group["name"]) for key, one in owned.items() for group in one.get("roleConfigGroups") or []}
    templates = [each for each in items(doc.get("hostTemplates")) if _owner(each) in named]
    for each in templates:
        refs = each.get("roleConfigGroupRefs") or []
        each["roleConfigGroupRefs"] = [ref for ref in refs if (_owner(each), ref.get("roleConfigGroupName")) in groups]
    if "hostTemplates" in doc:
        doc["hostTemplates"] = {"items": templates}
    for context in items(doc.get("dataContexts")):
        context["services"] = [ref for ref in context.get("services") or [] if not _is_gone(ref, owned)]
    accounts.forget_clusters(doc, named)
    left = {str(role["name"]) for service in owned.values() for role in roles(service)}
    ids = {str(host["hostId"]) for host in hosts(doc)}
    known = {f"cluster {name}" for name in named} | {f"service {'/'.join(key)}" for key in owned}
    known |= {f"role {name}" for name in left} | {f"host {host}" for host in ids}
    world.role_states = {name: state for name, state in world.role_states.items() if name in left}
    world.maintenance = [each for each in world.maintenance if each in known]
    world.stale = {key: value for key, value in world.stale.items() if f"service {key}" in known}
    world.joined = {host: name for host, name in world.joined.items() if host in ids and name in named}


def _is_gone(ref: object, owned: Container[object]) -> bool:
    if not isinstance(ref, dict) or "clusterName" not in ref:
        return False
    return (ref["clusterName"], ref.get("serviceName")) not in owned


def _owner(template: Doc) -> object:
    return (template.get("clusterRef") or {}).get("clusterName")


def contexts(world: World, _request: Request) -> list[Doc]:
    """Return the data contexts."""
    return items(world.deployment.get("dataContexts"))


def read_context(world: World, request: Request) -> Response:
    """Answer one data context; real servers answer 500 for a missing one (M2.4)."""
    return Response(value=_context(world, request))


def delete_context(world: World, request: Request) -> Response:
    """Delete a data context."""
    context = _context(world, request)
    drop(world.deployment, "dataContexts", context)
    world.changed()
    return Response(value=context)


def control_planes(world: World, _request: Request) -> Response:
    """List control planes, one for each cluster of containers."""
    found = [cluster for cluster in clusters(world.deployment) if kind_of(cluster) == "EXPERIENCE_CLUSTER"]
    return listing([
        {"namespace": "cdp", "remoteKubernetesCluster": False,
         "tags": [{"name": "_cldr_cm_ek8s_control_plane", "value": str(cluster["name"])}]}
        for cluster in found
    ])  # fmt: skip


def _context(world: World, request: Request) -> Doc:
    name = request.parts["context"]
    for context in items(world.deployment.get("dataContexts")):
        if context.get("name") == name:
            return context
    raise ApiError(int(world.switches["missing-data-context"]), f"Data context '{name}' not found.")


def templates(world: World, request: Request) -> list[Doc]:
    """Return the host templates of a cluster."""
    name, listed = cluster_of(world, request)["name"], items(world.deployment.get("hostTemplates"))
    return [each for each in listed if _owner(each) == name]


def read_parcels(world: World, request: Request) -> Response:
    """List parcels, each product and version once, in its furthest stage."""
    cluster = cluster_of(world, request)
    return listing([_parcel(parcel, cluster, request) for parcel in _furthest(cluster).values()])


def read_parcel(world: World, request: Request) -> Response:
    """Answer one parcel."""
    cluster = cluster_of(world, request)
    return Response(value=_parcel(_parcel_of(cluster, request), cluster, request))


def command_parcel(world: World, request: Request) -> Response:
    """Move a parcel to another stage: done at once, or refused with status 200 (M4.3, M10.4)."""
    cluster, verb = cluster_of(world, request), request.parts["verb"]
    parcel, now = _parcel_of(cluster, request), commands.moment(world.now().timestamp())
    begins, ends = MOVES[verb]
    moved = parcel.get("stage") == begins
    if moved:
        for each in list(cluster["parcels"]):
            if each is not parcel and _key(each) == _key(parcel):  # it may be listed once for each stage
                cluster["parcels"].remove(each)
        parcel["stage"] = ends
        world.changed()
    words = f"Parcel is {ends}." if moved else f"Parcel is not {begins}."
    times = {"startTime": now, "endTime": now, "active": False, "success": moved, "resultMessage": words}
    # A negative id: it ran while the caller waited, and cannot be read later (M4.1).
    return Response(value={"id": -1, "name": verb, **times, **commands.cluster_ref(cluster)})


MOVES = {  # verb → the stage it begins in, and the one it ends in
    "startDownload": ("AVAILABLE_REMOTELY", "DOWNLOADED"),
    "startDistribution": ("DOWNLOADED", "DISTRIBUTED"),
    "activate": ("DISTRIBUTED", "ACTIVATED"),
    "deactivate": ("ACTIVATED", "DISTRIBUTED"),
    "startRemovalOfDistribution": ("DISTRIBUTED", "DOWNLOADED"),
    "removeDownload": ("DOWNLOADED", "AVAILABLE_REMOTELY"),
}


def _furthest(cluster: Doc) -> dict[tuple[str, str], Doc]:
    found: dict[tuple[str, str], Doc] = {}
    for parcel in cluster.get("parcels") or []:
        if _key(parcel) not in found or parcel.get("stage") == "ACTIVATED":
            found[_key(parcel)] = parcel
    return found


def _parcel_of(cluster: Doc, request: Request) -> Doc:
    key = (request.parts["product"], request.parts["version"])
    found = _furthest(cluster).get(key)
    if found is None:
        raise ApiError(404, f"Parcel '{key[0]}' of version '{key[1]}' not found.")
    return found


def _key(parcel: Doc) -> tuple[str, str]:
    return str(parcel.get("product")), str(parcel.get("version"))


def _parcel(parcel: Doc, cluster: Doc, request: Request) -> Doc:
    state = {"progress": 0, "totalProgress": 0, "count": 0, "totalCount": 0, "errors": [], "warnings": []}
    words = {"displayName": parcel.get("product"), "description": parcel.get("product")} if request.api >= 40 else {}
    return {**words, **parcel, "state": state, "clusterRef": {"clusterName": cluster["name"]}}
