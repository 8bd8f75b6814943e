"""`maint vc backup`, `drift` and `restore`: a virtual cluster into a snapshot, held against it, and back."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.select import Vc, chosen, ready
from maint.model.json import Json


def add_to(group: typer.Typer) -> None:
    """Register the commands on the noun."""
    command(group, "backup")(backup)
    command(group, "drift")(drift)
    command(group, "restore")(restore)


def backup(
    flags: Flags,
    vc: Vc = "",
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="It holds what is found, however little it is.")
    ] = False,
) -> int:
    """Take a backup of one virtual cluster alone: jobs, resources, and every file held against its signature."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "backup-virtual-cluster", {"vc": chosen(vc), "accept_empty": accept_empty})


def drift(
    flags: Flags,
    snapshot: Annotated[
        str, typer.Option("--snapshot", help="Its id or the beginning of it; else the newest that holds it.")
    ] = "",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 8 when something differs.")] = False,
    vc: Vc = "",
) -> int:
    """Show what differs between a snapshot and the live virtual cluster; no file is downloaded, no value shown."""
    from maint.cli.open_site import limit_of, opened
    from maint.cli.screen import table
    from maint.errors import Differences
    from maint.restore.conflicts import chosen_cluster
    from maint.snapshots.virtual_clusters.document import drift_of
    from maint.snapshots.virtual_clusters.verify import read_document

    name = chosen(vc)
    with opened(ready(flags)) as (site, screen), site.clock.limit(limit_of(flags)):
        cluster = site.virtual_cluster(name)
        held = chosen_cluster(site, snapshot, cluster.settings.name)
        found = drift_of(read_document(site, held, cluster.settings.name), cluster)
        told: list[Json] = [one.to_json() for one in found]
        rows = [[one.what, one.name, one.change, one.property or "-"] for one in found]
        screen.emit(
            {"virtual_cluster": cluster.settings.name, "snapshot": held.id, "differences": told},
            table(["WHAT", "NAME", "CHANGE", "PROPERTY"], rows) if found else "",
        )
        words = f"{len(found)} difference{'' if len(found) == 1 else 's'}" if found else "nothing differs"
        screen.say(f"{words} (snapshot {held.id}, live {cluster.settings.base_url})")
        return Differences.exit_code if exit_code and found else 0


def restore(
    flags: Flags,
    snapshot: Annotated[
        str, typer.Option("--snapshot", help="Its id or the beginning of it; else the newest that holds it.")
    ] = "",
    on_conflict: Annotated[
        str, typer.Option("--on-conflict", help="Where a name is taken: refuse, skip, rename or replace.")
    ] = "refuse",
    accept_dag_race: Annotated[
        bool, typer.Option("--accept-dag-race", help="Bring back DAGs too that may run before they are paused.")
    ] = False,
    source_gone: Annotated[
        bool, typer.Option("--source-gone", help="Although the source still answers: it does no harm.")
    ] = False,
    vc: Vc = "",
) -> int:
    """Bring a virtual cluster's resources and jobs back, schedules paused; asks for the virtual cluster's name."""
    from maint.cli.run_playbook import carry_out

    given: dict[str, Json] = {
        "vc": chosen(vc),
        "snapshot": snapshot,
        "on_conflict": on_conflict,
        "accept_dag_race": accept_dag_race,
        "source_gone": source_gone,
    }
    return carry_out(flags, "restore-virtual-cluster", given)
