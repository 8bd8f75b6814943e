"""Take in the document of a PUT: check it, drop what is read-only, join it with what is there (M8)."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator

from maint.lab.manager import accounts
from maint.lab.manager.document import (
    Doc,
    all_services,
    any_object,
    as_of,
    clusters,
    holds_marker,
    hosts,
    is_objects,
    items,
    rebuilt,
    recorded_at,
    release,
    roles,
    users,
)
from maint.lab.manager.world import World

# Fields that answers carry and a PUT ignores, wherever they stand (M7.2, the starred ones).
_READ_ONLY = frozenset({
    "entityStatus", "maintenanceMode", "maintenanceOwners", "clusterUrl", "hostsUrl", "serviceState", "healthSummary",
    "healthChecks", "configStale", "configStalenessStatus", "clientConfigStalenessStatus", "serviceUrl",
    "roleInstancesUrl", "roleState", "commissionState", "haStatus", "roleUrl", "zooKeeperServerMode", "hostUrl",
    "lastHeartbeat", "numCores", "numPhysicalCores", "totalPhysMemBytes", "roleRefs", "distribution",
})  # fmt: skip
_ADDED = ("clusters", "hosts", "users", "peers", "authRoles", "externalUserMappings")
_NAMED = {  # (holder, field): each entry needs a name
    ("clusters", "services"), ("services", "roles"), ("managementService", "roles"), ("services", "roleConfigGroups"),
    ("managementService", "roleConfigGroups"),
}  # fmt: skip
_KEYS = {"clusters": "name", "hosts": "hostId", "users": "name", "peers": "name"}
LONGEST_NAME = 64  # of a role


class NotAccepted(ValueError):
    """The server refuses the document; nothing was changed."""


def prepared(world: World, body: Doc, api: int, delete_current: bool) -> Doc:
    """Return the deployment that a PUT would put in force, or raise `NotAccepted`; `body` is taken apart."""
    _check_named(body)
    _check_choices(world, body, api)
    taken = _as_of(world, rebuilt(body, _without_read_only), api)
    taken.pop("timestamp", None)
    for user in users(taken):
        _hash_password(world, user)
    joined = _replaced(world, taken) if delete_current else _added(world, taken)
    _check_whole(world, taken, joined, delete_current)
    refer_to_ids(joined)
    return joined


def refer_to_ids(doc: Doc) -> None:
    """Let roles that name their host alone refer to it by its id too, as everything else does."""
    ids = {host.get("hostname"): host.get("hostId") for host in hosts(doc)}
    for _, service in all_services(doc):
        for role in roles(service):
            ref = role.get("hostRef") or {}
            if not ref.get("hostId") and ref.get("hostname") in ids:
                role["hostRef"] = {**ref, "hostId": ids[ref["hostname"]]}


def uuid_for(cluster: Doc) -> str:
    """Return the uuid of a cluster that has none, always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, str(cluster.get("name"))))


def without_hostnames(doc: Doc) -> Doc:
    """Return a document whose host references name the id only."""
    copy: Doc = rebuilt(doc, _without_hostname)
    return copy


def _without_hostname(node: Doc) -> Doc:
    return {**node, "hostRef": {"hostId": node["hostRef"].get("hostId")}} if "hostRef" in node else node


def _check_named(node: Doc, where: str = "the deployment") -> None:
    if where == "managementService" and node and not (isinstance(node.get("name"), str) and node["name"]):
        raise NotAccepted("Cannot read the deployment: the management service has no name.")
    for name, value in node.items():
        if (where, name) in _NAMED and not (
            is_objects(value or []) and all(isinstance(each.get("name"), str) and each["name"] for each in value or [])
        ):
            raise NotAccepted(f"Cannot read the deployment: one of the {name} of {where} has no name.")
        for member in value if isinstance(value, list) else [value]:
            if isinstance(member, dict):
                _check_named(member, name)
    if where == "users" and not isinstance(node.get("roles") or [], list):
        raise NotAccepted("Cannot read the deployment: roles of a user is not a list.")
    if "pwHash" in node and where == "users" and not isinstance(node.get("pwSalt"), int | None):
        raise NotAccepted(f"Cannot read the deployment: pwSalt of {where} is not a number.")


def _check_choices(world: World, body: Doc, api: int) -> None:
    switches = world.switches
    if switches["put-redacted"] == "refuse" and holds_marker(body):
        raise NotAccepted("The deployment is redacted and cannot be imported.")
    if switches["put-other-release"] == "refuse" and release(body) not in ("", world.release):
        raise NotAccepted(f"The deployment is of release {release(body)}, the server of {world.release}.")
    if switches["read-only-fields"] == "refuse" and any_object(body, lambda node: bool(_READ_ONLY & node.keys())):
        raise NotAccepted("The deployment holds read-only fields.")
    if switches["put-by-lower-api"] == "refuse" and api < recorded_at(body):
        raise NotAccepted(f"The deployment holds fields that API v{api} does not know.")


def _without_read_only(node: Doc) -> Doc:
    return {name: member for name, member in node.items() if name not in _READ_ONLY}


def _as_of(world: World, body: Doc, api: int) -> Doc:
    # What the API version of the path does not know is dropped (U25).
    if world.switches["put-by-lower-api"] != "keep":
        body = as_of(body, api, sent=True)
    if world.switches["cluster-uuid-after-put"] == "new":
        for cluster in clusters(body):
            if "uuid" in cluster:
                cluster["uuid"] = str(uuid.uuid4())
    return body


def _hash_password(world: World, user: Doc) -> None:
    password = user.pop("password", None)
    if password is not None:
        accounts.set_password(user, str(password), world.chance, world.switches["pwhash-algorithm"])


def _replaced(world: World, body: Doc) -> Doc:
    current = world.deployment
    joined: Doc = {"timestamp": ""}
    for name in body:
        joined[name] = current.get("versionInfo", {}) if name == "versionInfo" else body[name]
    for name in ("clusters", "hosts", "users"):
        joined.setdefault(name, [])
    for name in ("versionInfo", "managerSettings"):
        joined.setdefault(name, current.get(name, {}))
    if "authRoles" in current and "authRoles" not in joined:
        joined["authRoles"] = current["authRoles"]
    return joined


def _added(world: World, body: Doc) -> Doc:
    joined = dict(world.deployment)
    for name, value in body.items():
        if name == "versionInfo":
            continue
        if name in ("managerSettings", "allHostsConfig"):
            joined[name] = _with_settings(joined.get(name) or {}, value)
        elif name in _ADDED:
            joined[name] = _with_entries(world, name, list(joined.get(name) or []), value)
        elif name in ("hostTemplates", "dataContexts"):
            joined[name] = {"items": [*(joined.get(name) or {}).get("items", []), *value.get("items", [])]}
        elif name in joined and world.switches["put-existing"] == "refuse":
            raise NotAccepted(f"Duplicate entity: {name} exists already.")
        else:
            joined.setdefault(name, value)
    return joined


def _with_entries(world: World, name: str, current: list[Doc], added: list[Doc]) -> list[Doc]:
    key = _KEYS.get(name, "name")
    known = {entry.get(key) for entry in current}
    for entry in added:
        if entry.get(key) not in known:
            current.append(entry)
        elif world.switches["put-existing"] == "refuse" and name not in ("authRoles", "externalUserMappings"):
            raise NotAccepted(f"Duplicate entity: {name[:-1]} '{entry.get(key)}' exists already.")
    return current


def _with_settings(current: Doc, added: Doc) -> Doc:
    merged = {item["name"]: item for item in [*(current.get("items") or []), *(added.get("items") or [])]}
    return {"items": sorted(merged.values(), key=lambda item: str(item["name"]))}


def _check_whole(world: World, body: Doc, joined: Doc, delete_current: bool) -> None:
    switches = world.switches
    admins = [user for user in users(joined) if accounts.Grant(accounts.ADMIN) in accounts.grants(joined, user)]
    if delete_current and not admins and switches["put-without-admin"] == "refuse":
        raise NotAccepted("The deployment must hold at least one user with the role ROLE_ADMIN.")
    needs = bool(clusters(body) or body.get("managementService"))
    if needs and not _licensed(world) and switches["put-unlicensed"] == "refuse":
        raise NotAccepted("The deployment holds entities that need a license; none is installed.")
    rejected = switches["reject-role"]
    known = {str(host.get(key)) for host in hosts(joined) for key in ("hostId", "hostname") if host.get(key)}
    problems = faults_of(joined, known_hosts=known, rejected=rejected)
    if problems:
        message = problems[0].format(message=switches["reject-role-message"])
        raise NotAccepted(message)


def _licensed(world: World) -> bool:
    if world.trial == "running":
        return True
    return world.license is not None and (world.license_counts or world.switches["license-effective"] == "at-once")


def faults_of(doc: Doc, *, known_hosts: set[str], rejected: str = "") -> list[str]:
    """Return what is wrong with a deployment, in the server's words; `rejected` names a role that is refused."""
    found = [*_twice(doc)]
    for cluster, service in all_services(doc):
        found += _service_faults(cluster, service, known_hosts, rejected)
    found += _account_faults(doc)
    return [*found, *_template_faults(doc)]


def _twice(doc: Doc) -> Iterator[str]:
    named = {
        "host": [host.get("hostId") for host in hosts(doc)],
        "cluster": [cluster.get("name") for cluster in clusters(doc)],
        "user": [user.get("name") for user in users(doc)],
    }
    for kind, names in named.items():
        for name in _repeated(names):
            yield f"Duplicate entity: {kind} '{_plain(name)}' is listed twice."
        if None in names or "" in names:
            yield f"Cannot read the deployment: a {kind} has no name."


def _service_faults(cluster: Doc | None, service: Doc, known_hosts: set[str], rejected: str) -> Iterator[str]:
    groups = {group.get("name") for group in service.get("roleConfigGroups") or []}
    for name in _repeated(role.get("name") for role in roles(service)):
        yield f"Duplicate entity: role '{_plain(name)}' is listed twice."
    for role in roles(service):
        name = _plain(role.get("name"))
        ref = role.get("hostRef") or {}
        host = ref.get("hostId") or ref.get("hostname")
        group = (role.get("roleConfigGroupRef") or {}).get("roleConfigGroupName")
        if rejected and role.get("name") == rejected:
            yield f"Role '{name}' of service '{_plain(service.get('name'))}': {{message}}"
        if len(str(role.get("name"))) > LONGEST_NAME:
            yield f"Role name '{name}' is longer than {LONGEST_NAME} characters."
        if host not in known_hosts:
            yield f"Host '{_plain(host)}' of role '{name}' not found."
        if group is not None and group not in groups:
            yield f"Role config group '{_plain(group)}' of role '{name}' not found."
    for group in service.get("roleConfigGroups") or []:
        ref = group.get("serviceRef") or {}
        if (ref.get("serviceName") or service.get("name")) != service.get("name"):
            yield f"Role config group '{_plain(group.get('name'))}' belongs to another service."
        if cluster and (ref.get("clusterName") or cluster.get("name")) != cluster.get("name"):
            yield f"Role config group '{_plain(group.get('name'))}' belongs to another cluster."


def _account_faults(doc: Doc) -> Iterator[str]:
    known = {role.get("name") for role in doc.get("authRoles") or []}
    for user in (*users(doc), *(doc.get("externalUserMappings") or [])):
        for ref in user.get("authRoles") or []:
            name = str(ref.get("name") or "")
            if name and name not in known and not name.startswith("ROLE_"):
                yield f"Role '{_plain(name)}' of user '{_plain(user.get('name'))}' not found."


def _template_faults(doc: Doc) -> Iterator[str]:
    by_cluster: dict[str, set[str]] = {str(cluster.get("name")): set() for cluster in clusters(doc)}
    for cluster, service in all_services(doc):
        if cluster:
            names = {str(group.get("name")) for group in service.get("roleConfigGroups") or []}
            by_cluster[str(cluster.get("name"))] |= names
    for template in items(doc.get("hostTemplates")):
        owner = (template.get("clusterRef") or {}).get("clusterName")
        if owner not in by_cluster:
            yield f"Cluster '{_plain(owner)}' of host template '{_plain(template.get('name'))}' not found."
            continue
        for ref in template.get("roleConfigGroupRefs") or []:
            if ref.get("roleConfigGroupName") not in by_cluster[owner]:
                yield f"Role config group '{_plain(ref.get('roleConfigGroupName'))}' of a host template not found."


def _repeated(names: Iterable[object]) -> list[object]:
    return [name for name, times in Counter(names).items() if times > 1]


def _plain(name: object) -> str:
    return str(name).replace("{", "(").replace("}", ")")
