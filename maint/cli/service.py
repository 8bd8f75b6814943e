"""`maint service`: list, stop, start, restart and refresh services of clusters, and the monitoring service."""

from typing import Annotated

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.cli.run_playbook import run_step
from maint.cli.screen import table
from maint.model.json import Json
from maint.steps.manager.clusters import resolve

Name = Annotated[str, argument("Its name, such as hdfs.")]
Cluster = Annotated[str, option("--cluster", "Its cluster; needed where several have such a service.")]


@command()
def list_services(flags: Flags, cluster: Cluster = "") -> None:
    """List services with their state, and whether they run with a configuration that was changed since."""
    with opened(flags) as (site, screen):
        manager = site.manager
        clusters = [resolve(manager, cluster)] if cluster else manager.clusters()
        found = [(one.name, each) for one in clusters for each in manager.services(one.name)]
        if not cluster and (monitoring := manager.management_service()) is not None:
            found.append(("", monitoring))
        rows = [[each.name, where or "-", each.type, each.state, each.staleness or "-"] for where, each in found]
        keys = ("name", "cluster", "type", "state", "staleness")
        data: list[Json] = [
            dict(zip(keys, (one.name, where or None, one.type, one.state, one.staleness), strict=True))
            for where, one in found
        ]
        screen.emit({"services": data}, table(["NAME", "CLUSTER", "TYPE", "STATE", "CONFIGURATION"], rows))


@command()
def stop(flags: Flags, name: Name, cluster: Cluster = "") -> int:
    """Stop a service and wait until it is at rest; what depends on it is not stopped."""
    return _run(flags, "stop", name, cluster)


@command()
def start(flags: Flags, name: Name, cluster: Cluster = "") -> int:
    """Start a service and wait until it runs."""
    return _run(flags, "start", name, cluster)


@command()
def restart(flags: Flags, name: Name, cluster: Cluster = "") -> int:
    """Restart a service and wait until it runs, with its changed configuration."""
    return _run(flags, "restart", name, cluster)


@command()
def refresh(flags: Flags, name: Name, cluster: Cluster = "") -> int:
    """Have a service's running roles read their refreshable configuration anew; nothing restarts."""
    return _run(flags, "refresh", name, cluster)


def _run(flags: Flags, verb: str, name: str, cluster: str) -> int:
    title = f"{verb.capitalize()} the service"
    return run_step(flags, f"service {verb}", title, f"service.{verb}", {"service": name, "cluster": cluster})
