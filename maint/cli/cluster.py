"""`maint cluster`: list, start, stop and delete clusters."""

from typing import Annotated

from maint.cli.command import command
from maint.cli.completion.names import remember
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import GUARDS, Flags, SafetyWindow, argument, option
from maint.cli.run_playbook import carry_out, run_plan
from maint.cli.screen import Screen, table
from maint.engine.load import library
from maint.engine.plan import make_plan
from maint.errors import UsageError
from maint.model.json import Json
from maint.model.plan import Plan
from maint.steps.manager.clusters import resolve

Name = Annotated[str, argument("Name or display name of the cluster.")]
MaxAge = Annotated[str, option("--max-age", "How old the restorable backup may be.")]
ApiOnly = Annotated[bool, option("--api-only", "Touch no host, whatever the cluster's type.")]
Reboot = Annotated[bool, option("--reboot", "Start an ECS cluster's hosts anew when all is done.")]


@command()
def list_clusters(flags: Flags) -> None:
    """List all clusters with the state of their services."""
    with opened(flags) as (site, screen):
        rows, found = [], []
        for cluster in site.manager.clusters():
            states = sorted({service.state for service in site.manager.services(cluster.name)})
            rows.append([cluster.name, cluster.display_name, cluster.type, cluster.version, ", ".join(states)])
            found.append(
                dict(zip(("name", "display_name", "type", "version", "states"), (*rows[-1][:4], states), strict=True))
            )
        if not flags.dry_run:
            remember(site.state, clusters=[row[0] for row in rows])
        screen.emit({"clusters": found}, table(["NAME", "DISPLAY NAME", "TYPE", "VERSION", "SERVICES"], rows))


@command(GUARDS)
def stop(flags: Flags, name: Name, max_age: MaxAge = "24h") -> int:
    """Stop a cluster, once a restorable backup proves that it can come back."""
    return carry_out(flags, "stop-cluster", {"cluster": name, "max_age": max_age})


@command()
def start(flags: Flags, name: Name) -> int:
    """Start a cluster and wait until every service runs."""
    return carry_out(flags, "start-cluster", {"cluster": name})


@command(GUARDS)
def delete(
    flags: Flags,
    name: Name,
    max_age: MaxAge = "24h",
    open_window: SafetyWindow = False,
    api_only: ApiOnly = False,
    reboot: Reboot = False,
) -> int:
    """Stop and delete a cluster, and clean an ECS cluster's hosts, once a restorable backup proves a way back."""
    if api_only and reboot:
        raise UsageError("--api-only touches no host, and --reboot starts hosts anew", hint="leave one of them out")
    given: dict[str, Json] = {"cluster": name, "max_age": max_age, "open_window": open_window}

    def make(site: ConfiguredSite, _: Screen) -> Plan:
        hosts_too = not api_only and resolve(site.manager, name).is_ecs
        if reboot and not hosts_too:
            raise UsageError(f"cluster {name} is no ECS cluster: no host of it is touched", hint="leave --reboot out")
        values = {**given, "reboot": reboot} if hosts_too else given
        playbook = library().load("retire-ecs-cluster" if hosts_too else "retire-cluster")
        return make_plan(playbook, values, site, library(), flags.no_safety_net)

    return run_plan(flags, make)
