"""`maint backup`: create, list, show, verify."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command

group = typer.Typer(no_args_is_help=True, help="Snapshots of the site's configuration.")


@command(group, "create")
def create(
    flags: Flags,
    open_window: Annotated[bool, typer.Option("--open-window", help="Switch redaction off for the export.")] = False,
) -> int:
    """Take a snapshot: as the server gives it, or through the redaction window."""
    from maint.cli.carry import carry_out
    from maint.cli.open import settings_of

    backup = settings_of(flags).site().backup
    through = open_window or (backup is not None and backup.on_redacted == "window")
    return carry_out(flags, "export-unredacted" if through else "export", {})


@command(group, "list")
def list_snapshots(flags: Flags) -> None:
    """List the site's snapshots, the newest last."""
    from maint.backup.catalogue import entries
    from maint.cli.open import opened
    from maint.cli.screen import table
    from maint.cli.snapshots import as_json, row

    with opened(flags) as (site, screen):
        found = entries(site)
        rows = [row(entry) for entry in found]
        screen.emit(
            {"snapshots": [as_json(entry) for entry in found]},
            table(["ID", "PURPOSE", "RESTORABLE", "VERIFIED", "SIZE", "NOTE"], rows),
        )


@command(group, "show")
def show(flags: Flags, snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it.")]) -> None:
    """Show what a snapshot holds, how it was judged, and what it does not cover."""
    from maint.backup.catalogue import find
    from maint.cli.open import opened
    from maint.cli.snapshots import described

    with opened(flags) as (site, screen):
        data, text = described(find(site, snapshot))
        screen.emit({"snapshot": data}, text)


@command(group, "verify")
def verify(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it; else the newest.")] = "",
    level: Annotated[int, typer.Option("--level", min=1, max=3, help="1 bytes, 2 contents, 3 restorability.")] = 3,
) -> int:
    """Verify a snapshot and keep the result; unreadable means failed."""
    from maint.cli.open import opened
    from maint.cli.snapshots import verified

    with opened(flags) as (site, screen):
        return verified(site, screen, snapshot, level)
