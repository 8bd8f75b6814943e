"""`maint generate`: systemd, man, schema, alerts, completion."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.schedule.commands import At, Drill, Every, Jitter, Prune, User

group = typer.Typer(no_args_is_help=True, help="Files made from the product itself; nothing is installed.")


@command(group, "systemd")
def systemd(
    flags: Flags,
    at: At = "",
    every: Every = "",
    jitter: Jitter = "",
    prune: Prune = False,
    drill: Drill = "",
    user: User = False,
) -> None:
    """Print the units that `maint schedule install` would write."""
    import os

    from maint.cli.open_site import settings_of
    from maint.cli.schedule.install import shown, wanted_of
    from maint.cli.schedule.units import files_of

    settings = settings_of(flags)
    wanted = wanted_of(at, every, jitter, "systemd", user=user, prune=prune, drill=drill, folder="")
    files = files_of(settings, settings.site(), wanted, os.environ)
    flags.screen().emit({"files": [{"path": str(one.path), "content": one.content} for one in files]}, shown(files))


@command(group, "man")
def man(flags: Flags, context: typer.Context) -> None:
    """Print the manual page maint(1)."""
    from maint.cli.help.manual import page

    text = page(context.find_root().command)
    flags.screen().emit({"man": text}, text.rstrip())


@command(group, "schema")
def schema(
    flags: Flags,
    of: Annotated[str, typer.Argument(help="config, or output: what -o json prints.")] = "config",
) -> None:
    """Print a JSON schema: of the configuration, or of what `-o json` prints."""
    import json

    from maint.cli.help.output_schemas import schema_of

    found = schema_of(of)
    flags.screen().raw(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


@command(group, "alerts")
def alerts(
    flags: Flags,
    max_age: Annotated[str, typer.Option("--max-age", help="How old the last verified backup may get.")] = "26h",
    drill_age: Annotated[str, typer.Option("--drill-age", help="How old the last good drill may get.")] = "35d",
) -> None:
    """Print alert rules for Prometheus over the metrics that each run writes."""
    from maint.cli.schedule.metrics import alert_rules

    text = alert_rules(max_age, drill_age)
    flags.screen().emit({"rules": text}, text.rstrip())


@command(group, "completion")
def completion(flags: Flags, shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script for a shell."""
    from maint.cli.help.manual import completion_script

    text = completion_script(shell)
    flags.screen().emit({"script": text}, text.rstrip())
