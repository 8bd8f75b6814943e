"""`maint vc backup` and `maint vc restore`: a virtual cluster into a snapshot, and back."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.chosen import Vc, chosen
from maint.model.json import Json


def add_to(group: typer.Typer) -> None:
    """Register the commands on the noun."""
    command(group, "backup")(backup)
    command(group, "restore")(restore)


def backup(
    flags: Flags,
    vc: Vc = "",
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="It holds what is found, however little it is.")
    ] = False,
) -> int:
    """Take a backup of one virtual cluster alone: jobs, resources, and every file held against its signature."""
    from maint.cli.carry import carry_out

    return carry_out(flags, "backup-virtual-cluster", {"vc": chosen(vc), "accept_empty": accept_empty})


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
    from maint.cli.carry import carry_out

    given: dict[str, Json] = {
        "vc": chosen(vc),
        "snapshot": snapshot,
        "on_conflict": on_conflict,
        "accept_dag_race": accept_dag_race,
        "source_gone": source_gone,
    }
    return carry_out(flags, "restore-virtual-cluster", given)
