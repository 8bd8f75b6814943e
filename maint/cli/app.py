"""The command line: one group a noun, and the flags that may stand before it."""

import inspect
import os
from typing import Any

import typer

import maint
from maint.cli import flags
from maint.cli.ondemand import add_commands, add_groups

# Where each noun is: a module with a `group`, imported when somebody asks for it.
NOUNS = {
    "lab": "maint.cli.lab.commands",
    "site": "maint.cli.site.commands",
    "cluster": "maint.cli.cluster",
    "manager": "maint.cli.manager",
    "playbook": "maint.cli.playbook",
    "backup": "maint.cli.backup.commands",
    "restore": "maint.cli.restore.commands",
    "schedule": "maint.cli.schedule.commands",
    "host": "maint.cli.hosts.commands",
    "vc": "maint.cli.vc.group",
    "config": "maint.cli.site.config_commands",
    "generate": "maint.cli.schedule.generate",
}
# Commands without a noun: the module in whose `group` each is registered.
ALONE = {
    "doctor": "maint.cli.site.doctor",
    "help": "maint.cli.help.topics",
    "version": "maint.cli.help.topics",
}

app = typer.Typer(
    name="maint",
    help="Cluster maintenance: backups that can be believed, restores that are proven before they destroy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
add_commands(app, ALONE)
add_groups(app, NOUNS)


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
        from maint.cli.help.manual import ready_to_complete

        ready_to_complete()
    app()
