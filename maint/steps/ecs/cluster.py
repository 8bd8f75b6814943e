"""An ECS cluster as the manager knows it: its hosts, and where it keeps data (M6.1)."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from maint.config.schema import HostSettings
from maint.errors import Refused
from maint.model.manager import Cluster, Host, Place, Service
from maint.ports import ManagerSight, Sight
from maint.steps.hosts.selection import configured_as, require_ssh
from maint.steps.manager.clusters import resolve, restless

# Settings that name a data directory, by type of service.
_DATA = {"DOCKER": ("defaultDataPath",), "ECS": ("defaultDataPath", "lsoDataPath")}


class Ecs(msgspec.Struct, frozen=True):
    """An ECS cluster."""

    cluster: Cluster
    hosts: Sequence[str]  # the names that the config gives its hosts
    data: Mapping[str, str]  # its data directories by the setting that names them, such as `ecs.lsoDataPath`
    others: Mapping[str, str]  # further settings that hold a path; what they name is left alone
    # hosts that carry roles of other clusters or of the management service too, and whose
    shared: Mapping[str, Sequence[str]]


def ecs_cluster(sight: Sight, name: str) -> Ecs:
    """Return an ECS cluster by name or display name; Refused where it is none, or the config lacks SSH or hosts."""
    cluster = resolve(sight.manager, name)
    if not cluster.is_ecs:
        raise Refused(
            f"cluster {cluster.name} is not an ECS cluster ({cluster.type or 'of no type'}, {cluster.version})",
            hint=f"`maint cluster delete {cluster.name}` takes the playbook that fits",
        )
    require_ssh(sight, f"the hosts of cluster {cluster.name} (or not: --api-only)")
    services, hosts = sight.manager.services(cluster.name), sight.manager.hosts()
    settings = dict(_settings(sight.manager, cluster.name, services))
    wanted = {f"{service.name}.{key}" for service in services for key in _DATA.get(service.type, ())}
    data = {key: value for key, value in settings.items() if key in wanted and value}
    others = {key: value for key, value in settings.items() if key not in wanted and value.startswith("/")}
    shared = _shared(sight.settings.hosts, hosts, cluster.name)
    return Ecs(cluster, _configured(sight, cluster, services, hosts), data, others, shared)


def refuse_running(manager: ManagerSight, name: str) -> None:
    """Refuse while a cluster runs, naming the services that are not at rest; one gone from the manager does not run."""
    if all(cluster.name != name for cluster in manager.clusters()):
        return
    if running := restless(manager, name):
        hint = f"`maint cluster stop {name}`, then `maint playbook resume`"
        raise Refused(f"cluster {name} is not at rest, so its hosts are left alone", detail=running, hint=hint)


def _configured(sight: Sight, cluster: Cluster, services: Sequence[Service], hosts: Sequence[Host]) -> Sequence[str]:
    # Each host of the cluster must have one name in the config, and only one.
    known = {host.host_id: host for host in hosts}
    roles = [role for service in services for role in sight.manager.roles(Place(cluster.name, service.name))]
    ids = dict.fromkeys(role.host_id for role in roles if role.host_id)
    ids |= dict.fromkeys(host.host_id for host in known.values() if host.cluster == cluster.name)
    strangers: list[str] = []
    found: list[str] = []
    for host_id in ids:
        matches = configured_as(sight.settings.hosts, known[host_id]) if host_id in known else []
        alone = len(matches) == 1 and matches[0] not in found
        strangers += [] if alone else [_described(host_id, known.get(host_id), matches)]
        found += matches
    if strangers or not found:
        raise Refused(
            f"not every host of cluster {cluster.name} can be worked on",
            detail=strangers or ["the manager names no host of it"],
            hint=f"list each under `hosts:`, then `maint host trust`; or only the API calls: {_API_ONLY}",
        )
    return sorted(set(found))


_API_ONLY = "`maint cluster delete NAME --api-only`"
UNCLEANED = f"mend these hosts; or only the API calls: {_API_ONLY}"


def _shared(configured: Sequence[HostSettings], hosts: Sequence[Host], cluster: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for host in hosts:
        others = [owner for owner in host.owners if owner != cluster]
        if others and cluster in host.owners:
            found |= dict.fromkeys(configured_as(configured, host), others)
    return found


def _described(host_id: str, host: Host | None, matches: Sequence[str]) -> str:
    if host is None:
        return f"host {host_id}: the manager has roles on it, and does not list it"
    words = f"is {' and '.join(matches)} in the config, as another one may be" if matches else "is not in the config"
    return f"host {host.hostname} ({host.address}) {words}"


def _settings(manager: ManagerSight, cluster: str, services: Sequence[Service]) -> Iterator[tuple[str, str]]:
    # What is not set has its default.
    for service in services:
        for one in manager.settings_of(Place(cluster, service.name)):
            value = one.default if one.value is None else one.value
            if value is not None and one.sensitive is not True:
                yield f"{service.name}.{one.name}", value
