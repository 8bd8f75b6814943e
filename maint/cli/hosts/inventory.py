"""`maint host list`: which hosts there are, from the config, the manager, or a snapshot when the manager is gone."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.screen import table
from maint.config.schema import HostSettings
from maint.deployment.document import items_of, text_of
from maint.errors import Invalid, UsageError
from maint.model.json import Json
from maint.snapshots.catalogue import newest_restorable
from maint.snapshots.parts import read_deployment

Source = Annotated[str, option("--hosts-from", "config, manager or snapshot.")]
SOURCES = ("config", "manager", "snapshot")
_ECS = {"ECS_SERVER", "DOCKER_SERVER", "ECS_AGENT"}


@command()
def list_hosts(flags: Flags, hosts_from: Source = "config") -> None:
    """List the hosts with their addresses and groups."""
    with opened(flags) as (site, screen):
        hosts = inventory(site, hosts_from)
        ssh = site.settings.ssh
        ports = {host.name: host.port or (ssh.port if ssh else 22) for host in hosts}
        data: list[Json] = [
            {"name": host.name, "address": host.address, "port": ports[host.name], "groups": list(host.groups)}
            for host in hosts
        ]
        rows = [[host.name, host.address, str(ports[host.name]), ", ".join(host.groups)] for host in hosts]
        screen.emit({"hosts": data}, table(["NAME", "ADDRESS", "PORT", "GROUPS"], rows))


def inventory(site: ConfiguredSite, source: str) -> Sequence[HostSettings]:
    """Return the hosts, by the config before all else; UsageError: no such source, Invalid: no hosts."""
    if source not in SOURCES:
        raise UsageError(f"there is no inventory {source!r}", hint=f"there are {', '.join(SOURCES)}")
    found = {"config": _from_config, "manager": _from_manager, "snapshot": _from_snapshot}[source](site)
    if not found:
        raise Invalid(
            f"site {site.settings.name} has no hosts",
            hint="list them under `hosts:` in the config, or take them with --hosts-from manager",
        )
    return found


def _from_config(site: ConfiguredSite) -> Sequence[HostSettings]:
    return site.settings.hosts or site.settings.hosts_in("manager")


def _from_manager(site: ConfiguredSite) -> Sequence[HostSettings]:
    kinds = {cluster.name: cluster for cluster in site.manager.clusters()}
    found = []
    for host in site.manager.hosts():
        cluster = kinds.get(host.cluster or "")
        groups = () if cluster is None else ("ecs",) if cluster.is_ecs else ("base",)
        found.append(
            HostSettings.model_construct(name=host.hostname, address=host.address or host.hostname, groups=groups)
        )
    return _known(site, found)


def _from_snapshot(site: ConfiguredSite) -> Sequence[HostSettings]:
    document = read_deployment(site, newest_restorable(site))
    roles: dict[str, set[str]] = {}
    for cluster in items_of(document.get("clusters")):
        for service in items_of(cluster.get("services")):
            for role in items_of(service.get("roles")):
                roles.setdefault(text_of(role.get("hostRef"), "hostId"), set()).add(text_of(role, "type"))
    found = []
    for host in items_of(document.get("hosts")):
        name = text_of(host, "hostname")
        groups = _groups(roles.get(text_of(host, "hostId"), set()))
        found.append(HostSettings.model_construct(name=name, address=text_of(host, "ipAddress") or name, groups=groups))
    return _known(site, found)


def _groups(types: set[str]) -> Sequence[str]:
    if types & _ECS:
        return ("ecs-master", "ecs") if "ECS_SERVER" in types else ("ecs",)
    return ("base",) if types else ()


def _known(site: ConfiguredSite, found: Iterable[HostSettings]) -> Sequence[HostSettings]:
    """Put what the config knows over what was found; the manager's own host gets its group."""
    configured = {host.name: host for host in site.settings.hosts}
    own = site.settings.manager.host
    merged = []
    for host in found:
        known = configured.get(host.name)
        groups = tuple(dict.fromkeys([*(known.groups if known else ()), *host.groups]))
        if own in (host.name, host.address):
            groups = tuple(dict.fromkeys(["manager", *groups]))
        merged.append((known or host).model_copy(update={"groups": groups}))
    return merged
