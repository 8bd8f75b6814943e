"""`maint doctor`: what stands in the way of the next backup or restore."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command

group = typer.Typer()


@command(group, "doctor")
def doctor(
    flags: Flags,
    max_age: Annotated[str, typer.Option("--max-age", help="How old the last verified backup may be.")] = "26h",
    drill_age: Annotated[str, typer.Option("--drill-age", help="How old the last good drill may be.")] = "35d",
) -> int:
    """Look at config, secrets, state, clock, store, keys, tools, backups and runs; changes nothing.

    Ends with 0 when all is well, 7 with warnings, 1 when something fails.
    """
    from maint.cli.site.doctor_checks import doctor as examine

    return examine(flags, max_age, drill_age)
