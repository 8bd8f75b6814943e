"""`maint host list|trust`: which hosts there are, by config, manager or snapshot; the keys that they present."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from maint.adapters.ssh.connections import Connections, jump_address
from maint.adapters.ssh.known_hosts import record
from maint.adapters.ssh.shell import FabricFleet
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import limit_of, limited, opened
from maint.cli.options import Flags, argument, option
from maint.cli.screen import Screen, ask_change, table
from maint.config.schema import HostSettings
from maint.deployment.document import items_of, text_of
from maint.engine.lock import site_lock
from maint.errors import Invalid, UsageError
from maint.model.fleet import Presented, Standing
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import Host
from maint.ports.hosts import configured_as
from maint.snapshots.catalogue import newest_restorable
from maint.snapshots.parts import read_deployment
from maint.steps.hosts.fan_out import choose

Source = Annotated[str, option("--hosts-from", "config, manager or snapshot.")]
SOURCES = ("config", "manager", "snapshot")
_ECS = {"ECS_SERVER", "DOCKER_SERVER", "ECS_AGENT"}
_DONE, _REFUSED, _PARTLY = 0, 5, 7


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
        called = configured_as(site.settings.hosts, Host("", host.name, host.address))
        known = configured[called[0]] if called else None
        groups = tuple(dict.fromkeys([*(known.groups if known else ()), *host.groups]))
        if own in (host.name, host.address):
            groups = tuple(dict.fromkeys(["manager", *groups]))
        merged.append((known or host).model_copy(update={"groups": groups}))
    return merged


@command()
def trust(
    flags: Flags,
    hosts: Annotated[list[str] | None, argument("Names of hosts; all when left out.")] = None,
    replace: Annotated[bool, option("--replace", "Also replace keys that differ.")] = False,
    hosts_from: Source = "config",
) -> int:
    """Show the hosts' keys, and record them once you say yes; a key that differs needs --replace."""
    with opened(flags, limited_here=False) as (site, screen):  # hosts that answered in time are shown
        with limited(flags, site, "learning which hosts there are"):
            asked = choose(_with_jump(site, inventory(site, hosts_from)), hosts or (), ())
        fleet = FabricFleet(site.settings, site.secrets)
        seen = list(fleet.keys(asked, timeout=limit_of(flags)))
        fresh = [one for one in seen if not one.reason and one.standing is Standing.UNKNOWN]
        differing = [one for one in seen if not one.reason and one.standing is Standing.CHANGED]
        screen.say(_table(seen))
        wanted = [*fresh, *(differing if replace else [])]
        recorded: list[Presented] = []
        if wanted and not flags.dry_run:
            ask_change(screen, f"record {show_count(len(wanted), 'host key')}?", yes=flags.yes)
            recorded = _recorded(site, wanted)
            _warn_of_others(screen, site, recorded)
        refused = [one for one in differing if not replace]
        refused += [one for one in seen if not one.reason and one.standing is Standing.REVOKED]
        for one in refused:
            screen.warn(f"{one.host}: its key is {one.standing.value} and was not recorded" + _advice(one))
        _emit(screen, seen, recorded)
        return _code(seen, refused)


def _with_jump(site: ConfiguredSite, hosts: Sequence[HostSettings]) -> Sequence[HostSettings]:
    """Return the hosts, and before them the jump host through which they are reached."""
    ssh = site.settings.ssh
    jump = jump_address(ssh) if ssh else None
    if ssh is None or jump is None or (jump.host, jump.port) in {(one.address, one.port or ssh.port) for one in hosts}:
        return hosts
    own = HostSettings.model_construct(name=jump.name, address=jump.host, port=jump.port)
    return [own, *hosts]


def _advice(one: Presented) -> str:
    if one.standing is Standing.REVOKED:
        return ": do not log in there"
    return f"; only if you know why it changed: `maint host trust {one.host} --replace`"


def _code(seen: Sequence[Presented], refused: Sequence[Presented]) -> int:
    if refused:
        return _REFUSED
    missing = sum(one.reason is not None for one in seen)
    return _DONE if not missing else _PARTLY if missing < len(seen) else 4


def _table(seen: Sequence[Presented]) -> str:
    rows = [[one.host, one.recorded_as, one.type, one.fingerprint or f"not seen: {one.reason}",
             "" if one.reason else one.standing.value] for one in seen]  # fmt: skip
    return table(["HOST", "RECORDED AS", "TYPE", "FINGERPRINT", "IS"], rows)


def _emit(screen: Screen, seen: Sequence[Presented], recorded: Sequence[Presented]) -> None:
    kept = {one.host for one in recorded}
    data = [
        {"name": one.host, "recorded_as": one.recorded_as, "type": one.type, "fingerprint": one.fingerprint,
         "standing": None if one.reason else one.standing.value, "reason": one.reason, "recorded": one.host in kept}
        for one in seen
    ]  # fmt: skip
    none = "no key recorded" + ": each is known already" * all(one.standing is Standing.KNOWN for one in seen)
    screen.emit({"hosts": data}, f"{show_count(len(kept), 'key')} recorded" if kept else none)


def _warn_of_others(screen: Screen, site: ConfiguredSite, recorded: Sequence[Presented]) -> None:
    """Say where an older key is believed all the same: in another file, or under a pattern."""
    if site.settings.ssh is None:
        return
    known = Connections(site.settings.ssh).known
    for one in recorded:
        others = [key for key in known.keys([one.recorded_as]) if key.fingerprint != one.fingerprint]
        if others:
            screen.warn(
                f"{one.host}: {show_count(len(others), 'other key')} of it still believed, such as {others[0].type}"
                f" {others[0].fingerprint}: take out the lines of {one.recorded_as}, or of a pattern that fits it, in"
                f" {' and '.join(map(str, site.settings.ssh.trusted_files))}"
            )


def _recorded(site: ConfiguredSite, wanted: Sequence[Presented]) -> list[Presented]:
    ssh = site.settings.ssh
    if ssh is None:
        raise Invalid(
            f"site {site.settings.name} has no ssh section",
            hint="add `ssh:` with its `user` to the site; `maint help hosts` shows one",
        )
    with site_lock(site.state, site.settings.name, "host trust", site.clock):
        record(ssh.trusted_files[0], wanted)
    return list(wanted)
