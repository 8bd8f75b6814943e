"""`maint generate`: systemd, man, schema, alerts, completion."""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
import typer

import maint
from maint.cli.app import COMMANDS, app
from maint.cli.boundary import EXIT_CODES
from maint.cli.command import Made, command, loaded
from maint.cli.completion.scripts import script_for
from maint.cli.help.output_schemas import schema_of
from maint.cli.open_site import settings_of
from maint.cli.options import Flags, argument, option
from maint.cli.schedule.install import Wanted, request_of, shown
from maint.cli.schedule.units import files_of
from maint.cli.telling.outcomes import SCHEDULED
from maint.errors import UsageError
from maint.model.formatting import parse_duration, show_duration
from maint.render import from_file


@command(example="maint generate systemd --at 02:15")
def systemd(flags: Flags, wanted: Wanted) -> None:
    """Print the units that `maint schedule install` would write."""
    settings = settings_of(flags)
    request = request_of(wanted, "systemd")
    files = files_of(settings, settings.site(), request, os.environ)
    flags.screen().emit({"files": [{"path": str(one.path), "content": one.content} for one in files]}, shown(files))


@command(example="maint generate man > maint.1")
def man(flags: Flags) -> None:
    """Print the manual page maint(1)."""
    text = page(typer.main.get_command(app))
    flags.screen().emit({"man": text}, text.rstrip())


@command(example="maint generate schema config")
def schema(
    flags: Flags,
    of: Annotated[str, argument("config, playbook, playbook-test, or output: what -o json prints.")] = "config",
) -> None:
    """Print a JSON schema: of the configuration, of playbooks and their tests, or of what `-o json` prints."""

    found = schema_of(of)
    flags.screen().raw(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


@command(example="maint generate alerts --max-age 26h")
def alerts(
    flags: Flags,
    max_age: Annotated[str, option("--max-age", "How old the last verified backup may get.")] = "26h",
    drill_age: Annotated[str, option("--drill-age", "How old the last good drill may get.")] = "35d",
) -> None:
    """Print alert rules for Prometheus over the metrics that each run writes."""
    text = alert_rules(max_age, drill_age)
    flags.screen().emit({"rules": text}, text.rstrip())


@command(example="maint generate completion bash")
def completion(flags: Flags, shell: Annotated[str, argument("bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script for a shell."""
    text = script_for(shell)
    flags.screen().emit({"script": text}, text.rstrip())


def alert_rules(max_age: str, drill_age: str) -> str:
    """Return alert rules for Prometheus.

    Raises:
        UsageError: an age is not a duration.
    """
    ages = {"max_age": _age("--max-age", max_age), "drill_age": _age("--drill-age", drill_age)}
    shown = {f"{name}_words": show_duration(seconds) for name, seconds in ages.items()}
    return from_file("alerts.yml.j2", {**ages, **shown, "scheduled": "|".join(SCHEDULED)})


def _age(flag: str, text: str) -> int:
    try:
        return round(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", hint="such as 90s, 10m, 26h or 7d") from None


class Option(msgspec.Struct, frozen=True):
    """An option or an argument as the manual shows it."""

    names: str
    help: str


def page(whole: Made) -> str:
    """Return the manual page maint(1) as roff.

    Args:
        whole: the command that all others hang on, as typer built it.
    """
    common = _options(whole)
    lines = [f'.TH MAINT 1 "" "maint {maint.__version__}" "User Commands"', ".SH NAME"]
    lines += [r"maint \- cluster maintenance: backups that can be believed, restores that are proven", ".SH SYNOPSIS"]
    lines += [r".B maint", r"[\fIFLAGS\fR] \fINOUN VERB\fR [\fIARGUMENTS\fR] [\fIFLAGS\fR]", ".SH DESCRIPTION"]
    lines += [_text(whole.help or ""), ".SH FLAGS OF EVERY COMMAND", *_listed(common), ".SH COMMANDS"]
    for name, (place, _) in COMMANDS.items():
        each = loaded(place).build(name)
        own = [one for one in _options(each) if one.names not in {other.names for other in common}]
        lines += [f'.SS "{_text(name)}"', *_paragraphs(each.help or ""), *_listed(own)]
    exits = [Option(str(code), each.meaning) for code, each in EXIT_CODES.items()]
    lines += [".SH EXIT STATUS", *_listed(exits), ".SH FILES"]
    lines += [r"\fI~/.config/maint/config.yaml\fR, \fI/etc/maint/config.yaml\fR: the configuration.", ".PP"]
    lines += [r"\fI/var/lib/maint\fR: locks, journals and keys of a configuration under /etc.", ".SH SEE ALSO"]
    lines += [r"\fBmaint help\fR lists the topics: configuration, backup, restore, exit codes and more."]
    return "\n".join(lines) + "\n"


def _options(command: Made) -> list[Option]:
    found = []
    for one in command.params:
        names = ", ".join(one.opts) if one.opts[0].startswith("-") else one.opts[0].upper()
        found.append(Option(names, getattr(one, "help", "") or ""))
    return found


def _listed(options: Iterable[Option]) -> Iterator[str]:
    for one in options:
        yield from (".TP", rf"\fB{_text(one.names)}\fR", _text(one.help))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        yield from ([".PP"] if number else [])
        yield _text(" ".join(paragraph.split()))


def _text(words: str) -> str:
    """Return words as roff takes them: no escape, dash or leading dot means anything."""
    words = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{words}" if words.startswith((".", "'")) else words
