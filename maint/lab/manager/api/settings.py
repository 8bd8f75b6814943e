"""Settings of the manager, services, role config groups, roles and hosts: read in two views, set and unset (M19)."""

import re
from collections.abc import Iterable, Iterator, Mapping

from maint.lab.http.messages import ApiError, Response
from maint.lab.manager.api import services
from maint.lab.manager.api.messages import Request, config_items, host_of, listing, role_of, service_of
from maint.lab.manager.document import Doc, all_services, is_secret, items, roles
from maint.lab.manager.world import STOPPED, World

# Settings that are known to exist, and their values where nobody set them (M7.2), by what has them.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "CM": {
        "AD_ACCOUNT_PREFIX": "", "AD_DELETE_ON_REGENERATE": "false", "AD_KDC_DOMAIN": "ou=hadoop,DC=hadoop,DC=com",
        "AD_SET_ENCRYPTION_TYPES": "false", "AGENT_TLS": "false", "AUTO_TLS_KEYSTORE_PASSWORD": "",
        "AUTO_TLS_TRUSTSTORE_PASSWORD": "", "AUTO_TLS_TYPE": "NONE", "CLUSTER_STATS_START": "",
        "GEN_KEYTAB_SCRIPT": "", "HOST_CERT_GENERATOR": "", "KDC_ACCOUNT_CREATION_HOST_OVERRIDE": "",
        "KDC_ADMIN_HOST": "", "KDC_HOST": "", "KDC_TYPE": "MIT KDC", "KEYSTORE_PASSWORD": "", "KEYSTORE_PATH": "",
        "KRB_AUTH_ENABLE": "false", "KRB_ENC_TYPES": "aes256-cts", "LDAP_BIND_DN": "", "LDAP_URL": "",
        "NEED_AGENT_VALIDATION": "false", "PARCEL_UPDATE_FREQ": "60", "PUBLIC_CLOUD_STATUS": "NOT_ON_PUBLIC_CLOUD",
        "REMOTE_PARCEL_REPO_URLS": "", "SECURITY_REALM": "HADOOP.COM", "SESSION_TIMEOUT": "1800",
        "TRUSTSTORE_PASSWORD": "", "TRUSTSTORE_PATH": "", "WEB_TLS": "false",
    },
    "HOST": {"memory_overcommit_threshold": "0.8", "rm_host_memory_total": ""},
    "HDFS": {"dfs_replication": "3", "dfs_block_size": "134217728", "hdfs_service_env_safety_valve": ""},
    "HDFS/NAMENODE": {"namenode_java_heapsize": "4294967296", "dfs_namenode_handler_count": "30"},
    "HDFS/DATANODE": {"datanode_java_heapsize": "1073741824", "dfs_datanode_handler_count": "3"},
    "MGMT/HOSTMONITOR": {"firehose_heapsize": "1073741824"},
    "MGMT/SERVICEMONITOR": {"firehose_heapsize": "1073741824"},
    "YARN/NODEMANAGER": {"yarn_nodemanager_resource_cpu_vcores": "8"},
    "ZOOKEEPER/SERVER": {"maxClientCnxns": "60", "minSessionTimeout": "4000", "maxSessionTimeout": "40000"},
}  # fmt: skip
_FAMILIES = ("AUTO_TLS_", "CUSTOM_", "HTTP_", "HTTPS_", "KDC_", "KRB_", "LDAP_", "PARCEL_", "SAML_", "TLS_")
_NUMBERS = re.compile(r"(_heapsize|_count|_replication|_size|_timeout|Timeout|Cnxns|_TIMEOUT|_mb|_vcores)$")


def read(world: World, request: Request) -> Response:
    """List settings; the full view has those that are not set, too."""
    found, kind, field = _holder(world, request)
    return listing(config_items(world, items(found.get(field)), request, _known(world, kind)))


def write(world: World, request: Request) -> Response:
    """Change settings: null unsets one, what is not listed stays (M10.5, M19)."""
    _change(world, request, request.entries("the settings"))
    return read(world, request)


def write_group(world: World, request: Request) -> Response:
    """Change a role config group: its display name, and the settings that the body lists."""
    group, sent = services.group(world, request), request.document("the role config group")
    _change(world, request, items(sent.get("config")))
    group["displayName"] = sent.get("displayName") or group.get("displayName")
    return Response(value=services.group_shown(world, group, request))


def _change(world: World, request: Request, entries: Iterable[Doc]) -> None:
    found, kind, field = _holder(world, request)
    found[field] = written(world, request, kind, items(found.get(field)), entries)
    world.changed()
    if "service" in request.parts:
        _, service = service_of(world, request)
        if world.service_state(service) != STOPPED:
            world.stale[f"{request.parts.get('cluster', '')}/{service['name']}"] = "STALE"


def written(world: World, request: Request, kind: str, before: Iterable[Doc], entries: Iterable[Doc]) -> Doc:
    """Return `{"items" : [...]}` of the settings before and those that a body lists; 400 where one is refused."""
    settings = {str(item.get("name")): item for item in before}
    for item in entries:
        name, value = item.get("name"), item.get("value")
        if not isinstance(name, str) or isinstance(value, dict | list):
            raise ApiError(400, "Cannot read the settings: each needs a name, and a value that is a string.")
        name = name.upper() if kind == "CM" else name  # the manager's own are known in either case
        value = str(value).lower() if isinstance(value, bool) else value
        _refuse(world, request, kind, settings, name, value)
        if settings.pop(name, None) is not None:
            world.once_set = sorted({*world.once_set, f"{kind} {name}"})
        dropped = world.switches["default-setting"] == "drop" and value == _known(world, kind).get(name)
        if value is not None and not dropped:
            settings[name] = _item(world, kind, name, str(value))
    return {"items": [settings[name] for name in sorted(settings)]}


def keep_known(world: World, service: Doc) -> None:
    """Remember the names of the settings of a service that goes away, or part of which does."""
    kind = service.get("type")
    for each in (kind, *(f"{kind}/{group.get('roleType')}" for group in service.get("roleConfigGroups") or [])):
        names = {f"{each} {item.get('name')}" for item in _set_anywhere(world, str(each))}
        world.once_set = sorted({*world.once_set, *names})


def _holder(world: World, request: Request) -> tuple[Doc, str, str]:
    # What has the settings of a path, what it is called in `_DEFAULTS`, and in which field they are.
    parts, path = request.parts, request.path.rstrip("/")
    if "host" in parts:
        return host_of(world, parts["host"]), "HOST", "config"
    if path.endswith("/cm/allHosts/config"):
        return world.deployment, "HOST", "allHostsConfig"
    if path.endswith("/cm/config"):
        return world.deployment, "CM", "managerSettings"
    _, service = service_of(world, request)
    kind = str(service.get("type"))
    if "group" in parts:
        group = services.group(world, request)
        return group, f"{kind}/{group.get('roleType')}", "config"
    if "role" in parts:
        role = role_of(service, parts["role"])
        return role, f"{kind}/{role.get('type')}", "config"
    return service, kind, "config"


def _refuse(world: World, request: Request, kind: str, settings: Mapping[str, Doc], name: str, value: object) -> None:
    # A real server quotes what it refuses.
    if world.faults.strikes("config-refused", request.call):
        raise ApiError(400, f"Value '{value}' of parameter '{name}' is invalid: the lab was told to refuse it.")
    unknown = name not in settings and name not in _known(world, kind)
    if unknown and world.switches["unknown-setting"] == "refuse" and not (kind == "CM" and name.startswith(_FAMILIES)):
        raise ApiError(400, f"Unknown configuration attribute '{name}'.")
    if value is not None and _NUMBERS.search(name) and not re.fullmatch(r"-?\d*", str(value)):
        raise ApiError(400, f"Could not parse parameter '{name}'. Was expecting long. Input: {value}")


def _known(world: World, kind: str) -> dict[str, str]:
    # The names that anything of the kind has set anywhere, and the defaults.
    found = {str(item.get("name")): "" for item in _set_anywhere(world, kind)} if kind != "CM" else {}
    before = {one.partition(" ")[2]: "" for one in world.once_set if one.partition(" ")[0] == kind}
    return before | found | dict(_DEFAULTS.get(kind, {}))


def _set_anywhere(world: World, kind: str) -> Iterator[Doc]:
    for _, owner in all_services(world.deployment):
        if owner.get("type") == kind:
            yield from items(owner.get("config"))
        for one in [*roles(owner), *(owner.get("roleConfigGroups") or [])]:
            if f"{owner.get('type')}/{one.get('roleType', one.get('type'))}" == kind:
                yield from items(one.get("config"))


def _item(world: World, kind: str, name: str, value: str) -> Doc:
    if world.shape < 14:
        return {"name": name, "value": value}
    flagged = any(each.get("name") == name and each.get("sensitive") for each in _set_anywhere(world, kind))
    by_name = "PASSWORD" in name or name.endswith("_PW") if kind == "CM" else is_secret({"name": name, "value": ""})
    return {"name": name, "value": value, "sensitive": flagged or by_name}
