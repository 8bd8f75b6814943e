"""`maint vc spark submit`: a one-off run that leaves no definition and no file behind."""

from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.chosen import Vc, act, chosen
from maint.cli.vc.jobs import Class, Conf
from maint.errors import UsageError

if TYPE_CHECKING:
    from maint.cli.screen import Screen
    from maint.cli.site import ConfiguredSite
    from maint.cli.vc.words import Application
    from maint.engine.direct import Line
    from maint.engine.journal import Past
    from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="One-off runs.")
_CLEANING = 600.0  # seconds


@command(group, "submit")
def submit(
    flags: Flags,
    application: Annotated[str, typer.Argument(help="A local file, or a URL.")],
    args: Annotated[list[str] | None, typer.Argument(help="Its arguments; after -- where they begin with -.")] = None,
    conf: Conf = None,
    class_name: Class = "",
    files: Annotated[list[str] | None, typer.Option("--file", help="A further file to attach; repeatable.")] = None,
    hide_logs: Annotated[bool, typer.Option("--hide-logs", help="Do not print what it printed.")] = False,
    vc: Vc = "",
) -> int:
    """Run an application once, print what it printed, and leave nothing behind; exit 1 when it failed."""
    import secrets

    from maint.cli.vc import words

    uploads = [*([] if words.is_remote(application) else [application]), *(files or ())]
    file = application if words.is_remote(application) else words.file_name(application)
    wanted = words.Application(file=file, class_name=class_name, args=args or (), conf=words.conf(conf))
    if class_name and not file.endswith(".jar"):
        raise UsageError("--class belongs to an archive", hint="leave it out, or submit a .jar")
    which = secrets.token_hex(8)

    def lines(site: "ConfiguredSite", _: "Screen") -> "list[Line]":
        return _lines(site, chosen(vc), which, wanted, uploads)

    def after(site: "ConfiguredSite", screen: "Screen", past: "Past") -> None:
        for record in past.records.values():
            name = record.notes.get("log")
            if isinstance(name, str):
                if not hide_logs:
                    screen.raw(site.undo.fetch(name).decode(errors="replace"))
                site.undo.drop(name)

    return act(flags, "spark submit", lines, after)


def _lines(site: "ConfiguredSite", vc: str, which: str, wanted: "Application", uploads: list[str]) -> "list[Line]":
    from maint.cli.vc.words import ScheduleWords, spark_job
    from maint.engine.direct import Line
    from maint.model.plan import Phase
    from maint.steps.vc_step import temporary

    name = temporary(site.state, "submit", which)
    mounts: list[Json] = [{"resourceName": name, "dirPrefix": ""}] if uploads else []
    definition = spark_job(name, wanted, mounts, ScheduleWords())
    there: dict[str, Json] = {"vc": vc}
    making = [
        Line("Create a temporary resource", "resource.create", {**there, "resource": name}),
        Line("Upload the files", "resource.upload", {**there, "resource": name, "files": list(uploads)}),
    ]
    return [
        Line("What a killed run left behind is removed", "vc.sweep", there),
        *(making if uploads else []),
        Line("Create a temporary job", "job.create", {**there, "definition": definition}),
        Line("Run it", "job.run", {**there, "job": name, "wait": True, "keep_log": True}),
        Line("Nothing is left behind", "vc.sweep", there, Phase.FINALLY, _CLEANING),
    ]
