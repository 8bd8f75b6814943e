"""`maint vc backup`: a virtual cluster's own snapshot."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.chosen import Vc, chosen


def add_to(group: typer.Typer) -> None:
    """Register the commands on the noun."""
    command(group, "backup")(backup)


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
