"""`maint schedule`: show, install, remove."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command

group = typer.Typer(no_args_is_help=True, help="Backups that run by themselves: a systemd timer, or cron.")
At = Annotated[str, typer.Option("--at", help="When: 02:15 (every day), or 'Sun 02:15'.")]
Every = Annotated[str, typer.Option("--every", help="How often: 15m, 30m, 1h, 6h, 12h, 24h.")]
Jitter = Annotated[str, typer.Option("--jitter", help="How far to spread the start; else a tenth, at most 15m.")]
Form = Annotated[str, typer.Option("--form", help="systemd or cron; else what runs this machine.")]
User = Annotated[bool, typer.Option("--user", help="Units of your own service manager.")]
Prune = Annotated[bool, typer.Option("--prune", help="Prune after each backup.")]
Drill = Annotated[str, typer.Option("--drill", help="When to rehearse a restore as well, such as 'Sun 04:00'.")]
Folder = Annotated[str, typer.Option("--folder", help="Another folder for the files; starts nothing.")]


@command(group, "show")
def show(flags: Flags, user: User = False, folder: Folder = "") -> None:
    """Show what is installed, when it runs next, and the age of the last verified success."""
    from maint.cli.schedule import install as scheduling

    scheduling.show(flags, user=user, folder=folder)


@command(group, "install")
def install(
    flags: Flags,
    at: At = "",
    every: Every = "",
    jitter: Jitter = "",
    prune: Prune = False,
    drill: Drill = "",
    user: User = False,
    form: Form = "",
    folder: Folder = "",
) -> int:
    """Write service and timer (or the line for cron) and start them; --dry-run shows the files."""
    from maint.cli.schedule import install as scheduling

    return scheduling.install(
        flags, scheduling.wanted_of(at, every, jitter, form, user=user, prune=prune, drill=drill, folder=folder)
    )


@command(group, "remove")
def remove(flags: Flags, user: User = False, folder: Folder = "") -> int:
    """Stop the schedule and delete the files that install wrote, and no others."""
    from maint.cli.schedule import install as scheduling

    return scheduling.remove(flags, user=user, folder=folder)
