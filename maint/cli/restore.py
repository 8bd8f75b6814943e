"""`maint restore`: plan and run the way from an empty manager back to a snapshot."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command

group = typer.Typer(no_args_is_help=True, help="From an empty manager back to a snapshot.")
SnapshotOption = Annotated[str, typer.Option("--snapshot", help="Its id; else the newest restorable one.")]


@command(group, "plan")
def plan(flags: Flags, snapshot: SnapshotOption = "") -> int:
    """Show what a restore would do, in which order, and what would be lost."""
    from dataclasses import replace

    from maint.cli.carry import carry_out

    return carry_out(replace(flags, dry_run=True), "disaster-recovery", {"snapshot": snapshot})


@command(group, "run")
def run(
    flags: Flags,
    snapshot: SnapshotOption = "",
    planned: Annotated[
        str, typer.Option("--plan", help="Only if the plan still has this digest; or a saved plan.")
    ] = "",
    then_start: Annotated[
        bool, typer.Option("--then-start", help="Start agents, monitors and the clusters after it.")
    ] = False,
) -> int:
    """Bring an empty manager back to a snapshot's configuration, and prove that it is back."""
    from maint.cli.carry import carry_out
    from maint.cli.stale import expected_digest

    code = carry_out(flags, "disaster-recovery", {"snapshot": snapshot}, expect=expected_digest(planned))
    if then_start and code == 0 and not flags.dry_run:
        return carry_out(flags, "start-platform", {"clusters": _clusters(flags, snapshot)})
    return code


def _clusters(flags: Flags, snapshot: str) -> list[str]:
    """Return the clusters that a snapshot holds."""
    from maint.cli.open import opened
    from maint.restore.choose import chosen
    from maint.restore.outline import outline_of

    with opened(flags) as (site, _):
        return list(outline_of(site, chosen(site, snapshot)).clusters)
