"""The command line: one group a noun, and the flags that may stand before it."""

import inspect
import os
from typing import Any

import typer

import maint
from maint.cli import (
    backup,
    cluster,
    config,
    doctor,
    flags,
    generate,
    host,
    lab,
    manager,
    playbook,
    restore,
    schedule,
    sites,
    topics,
)
from maint.cli.vc import group as vc

app = typer.Typer(
    name="maint",
    help="Cluster maintenance: backups that can be believed, restores that are proven before they destroy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, group in {
    "lab": lab.group,
    "site": sites.group,
    "cluster": cluster.group,
    "manager": manager.group,
    "playbook": playbook.group,
    "backup": backup.group,
    "restore": restore.group,
    "schedule": schedule.group,
    "host": host.group,
    "vc": vc.group,
    "config": config.group,
    "generate": generate.group,
}.items():
    app.add_typer(group, name=name)
doctor.register(app)
topics.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maint {maint.__version__}")
        raise typer.Exit


def _before_the_noun(**values: Any) -> None:  # Any: typer hands over whatever the options hold
    values.pop("version")
    flags.remember(**values)


_VERSION = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=bool,
    default=typer.Option(False, "--version", is_eager=True, callback=_version, help="Show the version."),
)
_before_the_noun.__signature__ = inspect.Signature([_VERSION, *flags.options()])  # type: ignore[attr-defined]  # read by typer
app.callback()(_before_the_noun)


def main() -> None:
    """Run the command line."""
    if "_MAINT_COMPLETE" in os.environ:
        from maint.cli.manual import ready_to_complete

        ready_to_complete()
    app()
