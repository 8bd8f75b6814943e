"""`maint playbook`: new, list, show, plan, run, resume, dismiss, undo, report."""

import json
import re
from collections.abc import Sequence
from shlex import quote
from typing import Annotated

from msgspec.structs import replace

from maint import files
from maint.cli import run_playbook
from maint.cli.command import Made, OwnFirst, command
from maint.cli.composition import ConfiguredSite
from maint.cli.help.output_schemas import playbook_schema
from maint.cli.open_site import name_cluster, opened
from maint.cli.options import GUARDS, STORE_ALONE, Flags, NamedRun, Run, argument, option, pairs_of
from maint.cli.resume_values import addresses_of, refuse_elsewhere
from maint.cli.run_report import folder, report_of
from maint.cli.screen import Screen, table
from maint.config.paths import absolute
from maint.engine import past_runs
from maint.engine.load import library
from maint.engine.lock import run_at_work
from maint.engine.plan import AdhocStep
from maint.errors import Invalid, MaintError, UsageError
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.model.plan import Parameter, ParameterType, Playbook
from maint.render import from_file
from maint.report.run import write
from maint.steps.services.change_setting import promised
from maint.steps.snapshots.retention import insist_on_reason

_WORDS = "maint.words"  # what was typed, kept for the help, which is shown before anything is parsed
Name = Annotated[str, argument("A shipped playbook's name, or a path to a .yaml file.")]
Values = Annotated[list[str] | None, option("--set", "A parameter, key=value.")]
Limit = Annotated[str, option("--limit", "Only these hosts and groups of hosts, HOST,GROUP, in steps that name hosts.")]
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SCHEMA = "playbook.schema.json"


class WithParameters(OwnFirst):
    """A command whose first argument names a playbook."""

    def parse_args(self, ctx: Made, args: list[str]) -> list[str]:
        """Keep what was typed."""
        ctx.meta[_WORDS] = list(args)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_options(self, ctx: Made, formatter: Made) -> None:
        """Write the parameters of the playbook that is named, then the options."""
        try:
            playbook = _named(ctx.meta.get(_WORDS, ()))
        except (MaintError, OSError) as error:
            with formatter.section("Its parameters cannot be shown"):
                formatter.write_text(error.in_a_line if isinstance(error, MaintError) else str(error))
                formatter.write_text("`maint playbook lint FILE` tells all mistakes of a file")
            playbook = None
        if playbook is not None:
            rows = [(f"{one.name} ({one.type.value})", _told(one)) for one in playbook.parameters]
            with formatter.section(f"Parameters of {playbook.name}, given as --set NAME=VALUE"):
                formatter.write_dl(rows or [("none", "it takes no parameters")])
        super().format_options(ctx, formatter)


def _named(words: Sequence[str]) -> Playbook | None:
    shipped = library()
    for word in words:
        if word in shipped.texts or (word.endswith((".yaml", ".yml")) and not word.startswith("-")):
            return shipped.find(word)
    return None


def _told(parameter: Parameter) -> str:
    words = parameter.help.rstrip(".")
    if parameter.required:
        return f"{words}. [required]" if words else "[required]"
    default = _shown(parameter)
    return f"{words}. [default: {default}]" if words else f"[default: {default}]"


def _shown(parameter: Parameter) -> str:
    value: Json = parameter.default
    if parameter.source is not None and value is None:
        return f"{parameter.source.replace('_', ' ')} of the site"
    if parameter.type is ParameterType.DURATION and isinstance(value, int | float):
        return show_duration(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)


@command()
def list_playbooks(flags: Flags) -> None:
    """List the shipped playbooks."""
    shipped = library()
    loaded = [shipped.load(name) for name in sorted(shipped.texts)]
    rows = [[playbook.name, playbook.summary] for playbook in loaded]
    found = [{"name": playbook.name, "summary": playbook.summary} for playbook in loaded]
    flags.screen().emit({"playbooks": found}, table(["NAME", "SUMMARY"], rows))


@command()
def show(flags: Flags, name: Name) -> None:
    """Print a playbook."""
    playbook = library().find(name)
    parameters: list[Json] = [
        {
            "name": p.name,
            "type": p.type.value,
            "help": p.help,
            "default": p.default,
            "required": p.required,
            "from": p.source.value if p.source else None,
        }
        for p in playbook.parameters
    ]
    data: dict[str, Json] = {
        "name": playbook.name,
        "summary": playbook.summary,
        "parameters": parameters,
        "text": playbook.text,
    }
    screen = flags.screen()
    screen.emit(data, playbook.text.rstrip())
    screen.say("an editor checks it where `maint generate schema playbook > playbook.schema.json` was typed beside it")


@command(cls=WithParameters)
def plan(flags: Flags, name: Name, values: Values = None, limit: Limit = "") -> int:
    """Show what a playbook would do, without doing it."""
    return _run(replace(flags, dry_run=True), name, values, limit)


@command(GUARDS, cls=WithParameters)
def run(flags: Flags, name: Name, values: Values = None, limit: Limit = "") -> int:
    """Carry a playbook out."""
    return _run(flags, name, values, limit)


def _run(flags: Flags, name: str, values: list[str] | None, limit: str) -> int:
    given = pairs_of("--set", values, "cluster=base")
    return run_playbook.run_playbook(flags, library().find(name), given, only=limit.replace(",", " ").split())


@command(STORE_ALONE)
def resume(
    flags: Flags,
    run_id: Run = None,
    values: Annotated[list[str] | None, option("--set", "What it waits for: vc.NAME.base_url=URL; repeatable.")] = None,
) -> int:
    """Take up a run that stopped before its end; what it left open is decided by looking."""
    return run_playbook.resume(flags, run_id, pairs_of("--set", values, "vc.NAME.base_url=URL"))


@command()
def dismiss(
    flags: Flags, reason: Annotated[str, option("--reason", "Why, for the history.")], run_id: NamedRun = ""
) -> int:
    """Give up a run that stopped: it is not taken up any more, and nothing waits for it."""
    insist_on_reason(reason)
    return run_playbook.dismiss(flags, run_id, reason)


@command()
def undo(flags: Flags, run_id: NamedRun = "") -> int:
    """Put back the settings that a run has changed, unless somebody has changed them since."""

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        past = past_runs.find(site.state, run_id, lambda one: one.id in promised(site.state))
        refuse_elsewhere(site, past)
        return [AdhocStep("Put it back", "config.put_back", {"run": past.id})]

    return run_playbook.run_steps(flags, "playbook undo", lines)


@command()
def report(flags: Flags, run_id: Run = None) -> None:
    """Write the report of a run again, and say where it is."""
    with opened(flags) as (site, screen):
        runs = past_runs.history(site.state)
        if run_id is None and not runs:
            raise Invalid("this site has no runs yet", hint="`maint playbook run NAME` makes one")
        past = past_runs.find(site.state, run_id or runs[-1].id)
        name_cluster(site, screen, addresses_of(site, past.plan))
        made = report_of(past, run_at_work(site.state), site.named)
        if flags.dry_run:
            screen.emit({"report": made.to_json()}, f"would write the report of run {past.id} to {folder(site.state)}")
            return
        files = {kind: str(path) for kind, path in write(made, folder(site.state)).items()}
        screen.emit({"report": made.to_json(), "files": files}, "\n".join(files.values()))


@command()
def new(
    flags: Flags,
    name: Annotated[str, argument("Its name: small letters, digits, dashes.")],
    folder: Annotated[str, option("--folder", "Where to write it; else here.")] = ".",
) -> int:
    """Write a commented playbook to begin from, and the schema that lets an editor complete it."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a playbook's name", hint="small letters, digits, dashes: patch-hosts")
    place = absolute(folder)
    path, screen = place / f"{name}.yaml", flags.screen()
    text = from_file("playbook.yaml.j2", {"name": name, "schema": SCHEMA})
    if flags.dry_run:
        screen.emit({"path": str(path), "content": text}, text.rstrip())
        return 0
    if not place.is_dir():
        raise Invalid(f"there is no folder {place}", hint="make it first")
    with files.writing(path, "name another folder: --folder"):
        if not files.create(path, text.encode(), mode=0o644):
            raise Invalid(f"{path} is there already", hint="give another name")
        files.replace(place / SCHEMA, (json.dumps(playbook_schema(), indent=1) + "\n").encode(), mode=0o644)
    named = quote(str(path))
    screen.say(f"then `maint playbook lint {named}`, and `maint playbook plan {named} --set hosts=HOST`")
    screen.emit({"path": str(path), "schema_file": str(place / SCHEMA)}, str(path))
    return 0
