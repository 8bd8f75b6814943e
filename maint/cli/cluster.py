"""`maint cluster`: list, start, stop and delete clusters."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.no_safety_net import NoSafetyNet, lifted
from maint.errors import UsageError
from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="Clusters of the manager.")
Name = Annotated[str, typer.Argument(help="Name or display name of the cluster.")]
MaxAge = Annotated[str, typer.Option("--max-age", help="How old the restorable backup may be.")]
OpenWindow = Annotated[bool, typer.Option("--open-window", help="Take the safety export through the redaction window.")]

ApiOnly = Annotated[bool, typer.Option("--api-only", help="Touch no host, whatever the cluster's type.")]
Reboot = Annotated[bool, typer.Option("--reboot", help="Start an ECS cluster's hosts anew when all is done.")]


@command(group, "list")
def list_clusters(flags: Flags) -> None:
    """List all clusters with the state of their services."""
    from maint.cli.open_site import opened
    from maint.cli.screen import table

    with opened(flags) as (site, screen):
        rows, found = [], []
        for cluster in site.manager.clusters():
            states = sorted({service.state for service in site.manager.services(cluster.name)})
            rows.append([cluster.name, cluster.display_name, cluster.type, cluster.version, ", ".join(states)])
            found.append(
                dict(zip(("name", "display_name", "type", "version", "states"), (*rows[-1][:4], states), strict=True))
            )
        screen.emit({"clusters": found}, table(["NAME", "DISPLAY NAME", "TYPE", "VERSION", "SERVICES"], rows))


@command(group, "stop")
def stop(flags: Flags, name: Name, max_age: MaxAge = "24h", no_safety_net: NoSafetyNet = None) -> int:
    """Stop a cluster, once a restorable backup proves that it can come back."""
    from maint.cli.run_playbook import carry_out

    return carry_out(lifted(flags, no_safety_net), "stop-cluster", {"cluster": name, "max_age": max_age})


@command(group, "start")
def start(flags: Flags, name: Name) -> int:
    """Start a cluster and wait until every service runs."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "start-cluster", {"cluster": name})


@command(group, "delete")
def delete(
    flags: Flags,
    name: Name,
    max_age: MaxAge = "24h",
    open_window: OpenWindow = False,
    no_safety_net: NoSafetyNet = None,
    api_only: ApiOnly = False,
    reboot: Reboot = False,
) -> int:
    """Stop and delete a cluster, and clean an ECS cluster's hosts, once a restorable backup proves a way back."""
    from maint.cli.open_site import opened
    from maint.cli.run_playbook import follow, library, prepared
    from maint.engine.plan import make_plan
    from maint.model.plan import Plan
    from maint.steps.manager.clusters import resolve

    if api_only and reboot:
        raise UsageError("--api-only touches no host, and --reboot starts hosts anew", hint="leave one of them out")
    flags = lifted(flags, no_safety_net)
    given: dict[str, Json] = {"cluster": name, "max_age": max_age, "open_window": open_window}
    with opened(flags) as (site, screen):

        def make() -> Plan:
            hosts_too = not api_only and resolve(site.manager, name).is_ecs
            if reboot and not hosts_too:
                raise UsageError(
                    f"cluster {name} is no ECS cluster: no host of it is touched", hint="leave --reboot out"
                )
            values = {**given, "reboot": reboot} if hosts_too else given
            playbook = library().load("retire-ecs-cluster" if hosts_too else "retire-cluster")
            return make_plan(playbook, values, site, library(), flags.no_safety_net)

        agreed = prepared(flags, site, screen, make)
        return follow(site, screen, *agreed) if agreed else 0
