"""`maint vc spark submit`: a one-off run that leaves no definition and no file behind."""

from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.jobs import Class, Conf
from maint.cli.vc.select import Vc, act, chosen
from maint.errors import UsageError

if TYPE_CHECKING:
    from maint.cli.composition import ConfiguredSite
    from maint.cli.screen import Screen
    from maint.engine.adhoc import AdhocStep
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
    from maint.cli.run_output import show_output
    from maint.cli.vc import payloads

    uploads: list[Json] = [*([] if payloads.is_remote(application) else [application]), *(files or ())]
    file = application if payloads.is_remote(application) else payloads.file_name(application)
    wanted = payloads.Application(file=file, class_name=class_name, args=args or (), conf=payloads.conf(conf))
    if class_name and not file.endswith(".jar"):
        raise UsageError("--class belongs to an archive", hint="leave it out, or submit a .jar")

    def lines(_: "ConfiguredSite", __: "Screen") -> "list[AdhocStep]":
        return _lines(chosen(vc), payloads.spark_job("", wanted, [], payloads.ScheduleWords()), uploads, not hide_logs)

    return act(flags, "spark submit", lines, show_output)


def _lines(vc: str, definition: "dict[str, Json]", uploads: "list[Json]", keep_log: bool) -> "list[AdhocStep]":
    from maint.engine.adhoc import AdhocStep
    from maint.model.plan import Phase

    there: dict[str, Json] = {"vc": vc}
    what: dict[str, Json] = {"definition": definition, "files": uploads, "keep_log": keep_log}
    return [
        AdhocStep("What a killed run left behind is removed", "vc.sweep", there),
        AdhocStep("Run it", "job.once", {**there, **what}),
        AdhocStep("Nothing is left behind", "vc.sweep", there, Phase.FINALLY, _CLEANING),
    ]
