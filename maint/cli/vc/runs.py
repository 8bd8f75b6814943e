"""`maint vc run` and `maint vc spark`: runs of jobs with their logs, and a one-off run that leaves nothing behind."""

from typing import Annotated
from urllib.parse import unquote, urlsplit

from maint.adapters.clock import SystemClock
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.options import VC, Flags, argument, number, option
from maint.cli.run_playbook import run_step, run_steps
from maint.cli.run_report import show_output
from maint.cli.screen import Screen, table
from maint.cli.vc import payloads
from maint.cli.vc.select import chosen, describe, known, reading, ready, show, warn_of_blindness
from maint.engine.plan import AdhocStep
from maint.errors import UsageError, WorkFailed
from maint.model.formatting import tell_times
from maint.model.json import Json
from maint.model.plan import Phase
from maint.model.secret import scrub
from maint.model.virtual_cluster import ZERO_TIME
from maint.steps.virtual_clusters.runs import is_old, output

_CLEANING = 600.0  # seconds
Id = Annotated[int, number("--id", "The run's number.")]


@command(VC)
def list_runs(
    flags: Flags,
    filters: Annotated[
        list[str] | None, option("--filter", "FIELD[OPERATOR]VALUE, such as job[eq]NAME; repeatable.")
    ] = None,
) -> None:
    """List the runs, oldest first."""
    with reading(flags) as (cluster, screen):
        runs = cluster.runs(filters or ())
        if not runs and not filters:
            warn_of_blindness(screen, cluster)
        times = [(tell_times(str(run.raw.get("started", ""))), tell_times(_ended(run.raw))) for run in runs]
        rows = [[str(run.id), run.job, run.status, run.user, *at] for run, at in zip(runs, times, strict=True)]
        found: list[Json] = [run.raw for run in runs]
        show(flags, screen, "runs", found, table(["ID", "JOB", "STATUS", "USER", "STARTED", "ENDED"], rows))


def _ended(raw: Json) -> str:
    text = str(raw.get("ended", "")) if isinstance(raw, dict) else ""
    return "" if text == ZERO_TIME else text


@command(VC)
def describe_run(flags: Flags, number: Id) -> None:
    """Show a run."""
    with reading(flags) as (cluster, screen):
        run = known(cluster.run(number), f"run {number}", "run list")
        show(flags, screen, "run", run.raw, describe(run.raw))


@command(VC)
def logs(
    flags: Flags,
    number: Id,
    kind: Annotated[str, option("--type", "Such as driver/stdout; see --show-types.")] = "",
    show_types: Annotated[bool, option("--show-types", "List the types that there are.")] = False,
) -> None:
    """Print a log of a run."""
    if bool(kind) == show_types:
        raise UsageError("say which log", hint="--type driver/stdout, or --show-types")
    kind = unquote(kind)  # they may be spelled as they stand in an address (J7)

    with reading(flags) as (cluster, screen):
        run = known(cluster.run(number), f"run {number}", "run list")
        types = cluster.log_types(number)
        if show_types:
            found: list[Json] = list(types)
            show(flags, screen, "types", found, "\n".join(types))
            return
        # Its kinds may be late, too.
        late = run.ended and (kind in types or not types) and not is_old(SystemClock(), run)
        text = output(cluster, SystemClock(), number, kind, wait=60.0 if late else 0.0)
        if text is None:
            raise WorkFailed(
                f"run {number} has no log {kind}",
                detail=[f"it has {', '.join(types) or 'none yet'}"],
                hint="logs are complete only some seconds after a run has ended",
            )
        printed = scrub(text.decode(errors="replace"))
        if flags.output in ("json", "yaml"):
            screen.emit({"id": number, "type": kind, "log": printed}, "")
        else:
            screen.raw(printed)


@command(VC)
def kill(flags: Flags, number: Id) -> int:
    """Kill a run."""
    given: dict[str, Json] = {"vc": chosen(flags), "run": number}
    return run_step(ready(flags), "run kill", "Kill the run", "run.kill", given)


@command(VC)
def submit(
    flags: Flags,
    application: Annotated[str, argument("A local file, or a URL.")],
    args: Annotated[list[str] | None, argument("Its arguments; after -- where they begin with -.")] = None,
    conf: Annotated[list[str] | None, payloads.CONF] = None,
    class_name: payloads.Class = "",
    files: Annotated[list[str] | None, option("--file", "A further file to attach; repeatable.")] = None,
    hide_logs: Annotated[bool, option("--hide-logs", "Do not print what it printed.")] = False,
) -> int:
    """Run an application once, print what it printed, and leave nothing behind; exit 1 when it failed."""
    uploads: list[Json] = [*([] if payloads.is_remote(application) else [application]), *(files or ())]
    file = application if payloads.is_remote(application) else payloads.file_name(application)
    wanted = payloads.Application(file=file, class_name=class_name, args=args or [], conf=conf or [])
    if class_name and not urlsplit(file).path.endswith(".jar"):
        raise UsageError("--class belongs to an archive", hint="leave it out, or submit a .jar")

    def lines(_: ConfiguredSite, __: Screen) -> list[AdhocStep]:
        return _lines(
            chosen(flags), payloads.spark_job("", wanted, [], payloads.ScheduleWords()), uploads, not hide_logs
        )

    return run_steps(ready(flags), "spark submit", lines, show_output)


def _lines(vc: str, definition: dict[str, Json], uploads: list[Json], keep_log: bool) -> list[AdhocStep]:
    there: dict[str, Json] = {"vc": vc}
    what: dict[str, Json] = {"definition": definition, "files": uploads, "keep_log": keep_log}
    return [
        AdhocStep("What a killed run left behind is removed", "vc.sweep", there),
        AdhocStep("Run it", "job.once", {**there, **what}),
        AdhocStep("Nothing is left behind", "vc.sweep", there, Phase.FINALLY, _CLEANING),
    ]
