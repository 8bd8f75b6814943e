"""`maint generate`: files made from the product itself."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from maint.cli.app import app
from maint.cli.command import command
from maint.cli.completion.scripts import script_for
from maint.cli.configless import settings_of
from maint.cli.help import manual
from maint.cli.help.output_schemas import schema_of
from maint.cli.options import Flags, argument, option, seconds_of
from maint.cli.schedule.install import Wanted, request_of, shown
from maint.cli.schedule.units import files_of
from maint.cli.telling.outcomes import SCHEDULED
from maint.config.schema import BackupSettings
from maint.files import replace, writing
from maint.model.formatting import show_count, show_duration
from maint.render import from_file


@command(example="maint generate systemd --at 02:15")
def systemd(flags: Flags, wanted: Wanted) -> None:
    """Print the units that `maint schedule install` would write."""
    settings = settings_of(flags)
    request = request_of(wanted, "systemd")
    files = files_of(settings, settings.site(), request, os.environ)
    flags.screen().emit({"files": [{"path": str(one.path), "content": one.content} for one in files]}, shown(files))


@command(example="maint generate man --to /usr/local/share/man/man1")
def man(
    flags: Flags, to: Annotated[str, option("--to", "A folder for the pages: maint(1), and one for each command.")] = ""
) -> None:
    """Print the manual page maint(1), or write all pages into a folder."""
    if not to:
        text = manual.page(typer.main.get_command(app))
        flags.screen().emit({"man": text}, text.rstrip())
        return
    folder = Path(to).expanduser().absolute()
    pages = {folder / name: text for name, text in manual.pages(typer.main.get_command(app)).items()}
    if not flags.dry_run:
        save(pages)
    words = f"{show_count(len(pages), 'page')} {'would be ' * flags.dry_run}written to {folder}"
    flags.screen().emit({"written": [] if flags.dry_run else [str(path) for path in pages]}, words)


def save(files: Mapping[Path, str], *, mode: int = 0o644) -> None:
    """Write files that anybody may read, over what is there; WorkFailed: one cannot be written."""
    for path, text in files.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text.encode(), mode=mode)


@command(example="maint generate schema output vc run list")
def schema(
    flags: Flags,
    of: Annotated[str, argument("config, playbook, playbook-test, or output: what -o json prints.")] = "config",
    words: Annotated[list[str] | None, argument("After output: a command, such as backup list.")] = None,
) -> None:
    """Print a JSON schema: of the configuration, of playbooks and their tests, or of what `-o json` prints."""
    found = schema_of(of, " ".join(words or ()))
    flags.screen().raw(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


@command(example="maint generate alerts --max-age 26h")
def alerts(
    flags: Flags,
    max_age: Annotated[str, option("--max-age", "How old the last verified backup may get; else as configured.")] = "",
    drill_age: Annotated[str, option("--drill-age", "How old the last good drill may get.")] = "35d",
) -> None:
    """Print alert rules for Prometheus over the metrics that each run writes."""
    text = alert_rules(round(seconds_of("--max-age", max_age)) if max_age else _configured_age(flags), drill_age)
    flags.screen().emit({"rules": text}, text.rstrip())


@command(example="maint generate completion bash")
def completion(flags: Flags, shell: Annotated[str, argument("bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script for a shell."""
    text = script_for(shell)
    flags.screen().emit({"script": text}, text.rstrip())


def alert_rules(max_age: int, drill_age: str) -> str:
    """Return alert rules for Prometheus; `max_age` in seconds. UsageError where an age is not a duration."""
    ages = {"max_age": max_age, "drill_age": round(seconds_of("--drill-age", drill_age))}
    shown = {f"{name}_words": show_duration(seconds) for name, seconds in ages.items()}
    return from_file("alerts.yml.j2", {**ages, **shown, "scheduled": "|".join(SCHEDULED)})


def _configured_age(flags: Flags) -> int:
    """Return `backup.max_age` in seconds, of the site that is chosen, else the shortest of all."""
    settings = settings_of(flags)
    names = [] if settings.path is None else [settings.chosen] if settings.chosen else settings.names
    backups = {name: settings.site(name).backup for name in names}
    ages = {name: backup.max_age for name, backup in backups.items() if backup is not None}
    if len(set(ages.values())) > 1:
        told = ", ".join(f"{name} {show_duration(age)}" for name, age in ages.items())
        flags.screen().warn(f"`backup.max_age` differs, the shortest counts ({told}): choose with --site or --max-age")
    return round(min(ages.values(), default=BackupSettings.model_fields["max_age"].default))
