"""`maint manager` and `maint cluster`: version, export, licence, restore, TLS, start; clusters."""

import sys
from typing import Annotated

from maint.cli.command import command
from maint.cli.completion.names import remember
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import GUARDS, Flags, SafetyWindow, argument, option, seconds_of
from maint.cli.restore import restore_preview
from maint.cli.run_playbook import carry_out, run_plan
from maint.cli.screen import Screen, table
from maint.engine.load import library
from maint.engine.plan import make_plan
from maint.errors import Refused, UsageError
from maint.model.json import Json
from maint.model.plan import Plan
from maint.steps.manager.clusters import resolve
from maint.steps.manager.tls import fetch

Name = Annotated[str, argument("Name or display name of the cluster.")]
MaxAge = Annotated[str, option("--max-age", "How old the restorable backup may be.")]
ApiOnly = Annotated[bool, option("--api-only", "Touch no host, whatever the cluster's type.")]
Reboot = Annotated[bool, option("--reboot", "Start an ECS cluster's hosts anew when all is done.")]


@command()
def version(flags: Flags) -> None:
    """Show the API version and the release of the manager."""
    with opened(flags) as (site, screen):
        api, release = site.manager.api_version(), site.manager.release()
        screen.emit({"api": f"v{api}", "release": release}, f"API v{api}, release {release}")


@command(playbooks=("export", "export-unredacted --open-window", "close-window --close-window"))
def export(
    flags: Flags,
    open_window: Annotated[bool, option("--open-window", "Switch redaction off for the export.")] = False,
    close_window: Annotated[bool, option("--close-window", "Only close a window left open.")] = False,
) -> int:
    """Export the configuration into the backup store, as the server gives it or through the redaction window."""
    if open_window and close_window:
        raise UsageError("--open-window and --close-window exclude each other", hint="give one of them")
    name = "export-unredacted" if open_window else "close-window" if close_window else "export"
    return carry_out(flags, name, {})


@command(playbooks=("upload-license",))
def license_(flags: Flags, file: Annotated[str, argument("The licence file; else the configured one.")] = "") -> int:
    """Upload a licence, unless the manager has that very one."""
    return carry_out(flags, "upload-license", {"file": file})


@command(GUARDS, playbooks=("restore-deployment",))
def restore(
    flags: Flags,
    snapshot: Annotated[str, option("--snapshot", "Id of the snapshot.")] = "",
    open_window: SafetyWindow = False,
) -> int:
    """Replace the manager's configuration by a snapshot's; TLS and everything after it is left to you."""
    given: dict[str, Json] = {"snapshot": snapshot, "open_window": open_window}
    return carry_out(flags, "restore-deployment", given, beside=restore_preview)


@command(playbooks=("tls-switch",))
def tls_switch(flags: Flags) -> int:
    """Restart the manager so that WEB_TLS takes effect, and verify the TLS port."""
    return carry_out(flags, "tls-switch", {})


@command(playbooks=("truststore-password",))
def truststore_password(
    flags: Flags,
    file: Annotated[str, option("--file", "Write it to this new file, 0600.")] = "",
    run: Annotated[str, option("--command", "Feed it to this command's standard input.")] = "",
    show: Annotated[bool, option("--show", "Print it; on a terminal only.")] = False,
) -> int:
    """Hand over the password of the shared truststore: to a file, to a command, or on a terminal with --show."""
    if sum((bool(file), bool(run), show)) != 1:
        raise UsageError("the password needs exactly one place to go", hint="--file PATH, --command WORDS or --show")
    if show:
        return _show(flags)
    return carry_out(flags, "truststore-password", {"file": file, "command": run})


def _show(flags: Flags) -> int:
    if not sys.stdout.isatty():
        raise Refused("--show prints to a terminal only", hint="--file PATH or --command WORDS hands it to a program")
    with opened(flags) as (site, screen):
        screen.raw(fetch(site.manager).reveal() + "\n")
    return 0


@command(playbooks=("start-platform",))
def start(
    flags: Flags,
    cluster: Annotated[list[str] | None, option("--cluster", "A cluster to start at the end.")] = None,
    without: Annotated[list[str] | None, option("--without", "A role type to leave out.")] = None,
) -> int:
    """Start agents, then Host and Service Monitor, then the rest of the management service, then clusters."""
    return carry_out(flags, "start-platform", {"clusters": list(cluster or ()), "without": list(without or ())})


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


@command(GUARDS, playbooks=("stop-cluster",))
def stop_cluster(flags: Flags, name: Name, max_age: MaxAge = "24h") -> int:
    """Stop a cluster, once a restorable backup proves that it can come back."""
    seconds_of("--max-age", max_age)
    return carry_out(flags, "stop-cluster", {"cluster": name, "max_age": max_age})


@command(playbooks=("start-cluster",))
def start_cluster(flags: Flags, name: Name) -> int:
    """Start a cluster and wait until every service runs."""
    return carry_out(flags, "start-cluster", {"cluster": name})


@command(GUARDS, playbooks=("retire-cluster", "retire-ecs-cluster"))
def delete_cluster(
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
    seconds_of("--max-age", max_age)
    given: dict[str, Json] = {"cluster": name, "max_age": max_age, "open_window": open_window}

    def make(site: ConfiguredSite, _: Screen) -> Plan:
        hosts_too = not api_only and resolve(site.manager, name).is_ecs
        if reboot and not hosts_too:
            raise UsageError(
                f"cluster {name} is not an ECS cluster: no host of it is touched", hint="leave --reboot out"
            )
        values = {**given, "reboot": reboot} if hosts_too else given
        playbook = library().load("retire-ecs-cluster" if hosts_too else "retire-cluster")
        return make_plan(playbook, values, site, library(), flags.no_safety_net)

    return run_plan(flags, make)
