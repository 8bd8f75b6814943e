"""`maint vc run`: list, describe, logs, kill."""

from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.select import Vc, chosen, reading, show, step, warn_of_blindness
from maint.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="Runs of jobs, and their logs.")
Id = Annotated[int, typer.Option("--id", help="The run's number.")]


@command(group, "list")
def list_runs(
    flags: Flags,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="FIELD[OPERATOR]VALUE, such as job[eq]NAME; repeatable.")
    ] = None,
    vc: Vc = "",
) -> None:
    """List the runs, oldest first."""
    from maint.cli.screen import table

    with reading(flags, vc) as (cluster, screen):
        runs = cluster.runs(filters or ())
        if not runs and not filters:
            warn_of_blindness(screen, cluster)
        rows = [[str(r.id), r.job, r.status, r.user, str(r.raw.get("started", "")), _ended(r.raw)] for r in runs]
        found: list[Json] = [run.raw for run in runs]
        show(flags, screen, "runs", found, table(["ID", "JOB", "STATUS", "USER", "STARTED", "ENDED"], rows))


def _ended(raw: "Json") -> str:
    from maint.model.virtual_cluster import ZERO_TIME

    text = str(raw.get("ended", "")) if isinstance(raw, dict) else ""
    return "" if text == ZERO_TIME else text


@command(group, "describe")
def describe_run(flags: Flags, number: Id, vc: Vc = "") -> None:
    """Show a run."""
    from maint.cli.vc.select import describe

    with reading(flags, vc) as (cluster, screen):
        run = cluster.run(number)
        if run is None:
            raise _unknown(number)
        show(flags, screen, "run", run.raw, describe(run.raw))


def _unknown(number: int) -> WorkFailed:
    return WorkFailed(f"there is no run {number}", hint="`maint vc run list` shows what there is")


@command(group, "logs")
def logs(
    flags: Flags,
    number: Id,
    kind: Annotated[str, typer.Option("--type", help="Such as driver/stdout; see --show-types.")] = "",
    show_types: Annotated[bool, typer.Option("--show-types", help="List the types that there are.")] = False,
    vc: Vc = "",
) -> None:
    """Print a log of a run."""
    if bool(kind) == show_types:
        raise UsageError("say which log", hint="--type driver/stdout, or --show-types")
    from urllib.parse import unquote

    from maint.adapters.clock import SystemClock
    from maint.steps.virtual_clusters.runs import output

    kind = unquote(kind)  # the contract spells them as they stand in an address, too

    with reading(flags, vc) as (cluster, screen):
        run = cluster.run(number)
        if run is None:
            raise _unknown(number)
        types = cluster.log_types(number)
        if show_types:
            found: list[Json] = list(types)
            show(flags, screen, "types", found, "\n".join(types))
            return
        wait = 60.0 if run.ended and (kind in types or not types) else 0.0  # its kinds may be late, too
        text = output(cluster, SystemClock(), number, kind, wait=wait)
        if text is None:
            raise WorkFailed(
                f"run {number} has no log {kind}",
                detail=[f"it has {', '.join(types) or 'none yet'}"],
                hint="logs are complete only some seconds after a run has ended",
            )
        told = text.decode(errors="replace")
        if flags.output in ("json", "yaml"):
            screen.emit({"id": number, "type": kind, "log": told}, "")
        else:
            screen.raw(told)


@command(group, "kill")
def kill(flags: Flags, number: Id, vc: Vc = "") -> int:
    """Kill a run."""
    given: dict[str, Json] = {"vc": chosen(vc), "run": number}
    return step(flags, "run kill", "Kill the run", "run.kill", given)
