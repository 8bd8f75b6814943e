"""`maint host`: list the hosts, check them, and learn their keys."""

import gc
import importlib
from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="The hosts: what is wrong with them, and how they are known.")
Source = Annotated[str, typer.Option("--hosts-from", help="config, manager or snapshot.")]


@command(group, "list")
def list_hosts(flags: Flags, hosts_from: Source = "config") -> None:
    """List the hosts with their addresses and groups."""
    from maint.cli.hosts.inventory import inventory
    from maint.cli.open_site import opened
    from maint.cli.screen import table

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


@command(group, "check", outputs=("junit", "nagios"))
def check(
    flags: Flags,
    host: Annotated[list[str] | None, typer.Option("--host", help="A host's name; may be repeated.")] = None,
    hosts_in: Annotated[list[str] | None, typer.Option("--hosts-in", help="A group of hosts of the config.")] = None,
    checks_in: Annotated[list[str] | None, typer.Option("--group", help="A group of checks.")] = None,
    ids: Annotated[list[str] | None, typer.Option("--check", help="A check's id; may be repeated.")] = None,
    phase: Annotated[
        str, typer.Option("--phase", help="running, before-install, before-restore or before-backup.")
    ] = "",
    hosts_from: Source = "config",
    save_facts: Annotated[str, typer.Option("--save-facts", help="Keep what the hosts said in a file.")] = "",
    facts: Annotated[str, typer.Option("--facts", help="Judge a file of facts; contacts no host.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="The input of the ECS wizard, to be judged.")] = "",
    matrix: Annotated[str, typer.Option("--matrix", help="A file that lists which releases are supported.")] = "",
    report: Annotated[str, typer.Option("--report", help="Write an HTML report to this file.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="List all checks; needs no config.")] = False,
    ldap_ou: Annotated[str, typer.Option("--ldap-ou", help="For ldap.ad_rights: the OU to try.")] = "",
    ldap_url: Annotated[str, typer.Option("--ldap-url", help="For ldap.ad_rights: the directory.")] = "",
) -> int:
    """Ask the hosts what there is to know, and say what is wrong, why it matters and how to mend it."""
    if not (listed or facts):
        _import_ahead(
            "maint.cli.hosts.check",
            "maint.cli.open_site",
            "maint.cli.hosts.inventory",
            "maint.adapters.ssh.fleet",
        )
    from maint.cli.hosts import check as host_check

    if listed:
        return host_check.show_list(flags, checks_in or (), phase)
    return host_check.run(
        flags,
        host_check.Wish(
            hosts=host or (),
            hosts_in=hosts_in or (),
            hosts_from=hosts_from,
            ids=ids or (),
            groups=checks_in or (),
            phase=phase,
            save=save_facts,
            facts=facts,
            plan=plan,
            matrix=matrix,
            report=report,
            more={"ou": ldap_ou, "ldap": ldap_url},
        ),
    )


def _import_ahead(*names: str) -> None:
    """Import what will be needed anyway, without looking for garbage meanwhile: all of it stays, and there is much."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        if collecting:
            gc.enable()


@command(group, "trust")
def trust(
    flags: Flags,
    hosts: Annotated[list[str] | None, typer.Argument(help="Names of hosts; all when left out.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Also replace keys that differ.")] = False,
    hosts_from: Source = "config",
) -> int:
    """Show the hosts' keys, and record them once you say yes; a key that differs needs --replace."""
    from maint.cli.hosts import trust as host_trust

    return host_trust.run(flags, hosts or (), hosts_from, replace=replace)
