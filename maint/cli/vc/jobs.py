"""`maint vc job`: list, describe, create, update, run, pause, unpause, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.options import ClientCommand, numbered
from maint.cli.vc.select import Vc, act, chosen, reading, show, step
from maint.errors import UsageError

if TYPE_CHECKING:
    from maint.cli.composition import ConfiguredSite
    from maint.cli.screen import Screen
    from maint.cli.vc.payloads import ScheduleWords
    from maint.engine.adhoc import AdhocStep
    from maint.engine.journal import RunState
    from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="Jobs: definitions of what can be run.")
Name = Annotated[str, typer.Option("--name", help="The job.")]
Filters = Annotated[list[str] | None, typer.Option("--filter", help="FIELD[OPERATOR]VALUE; repeatable, all must hold.")]
Args = Annotated[list[str] | None, typer.Option("--arg", help="An argument of the application; repeatable.")]
Conf = Annotated[list[str] | None, typer.Option("--conf", help="KEY=VALUE of the engine; repeatable.")]
Class = Annotated[str, typer.Option("--class", help="The main class of an archive.")]
Enabled = Annotated[str | None, typer.Option("--schedule-enabled", help="Switch the schedule on, or off with =false.")]
Begin = Annotated[str | None, typer.Option("--schedule-start", help="When the schedule starts, ISO 8601.")]
End = Annotated[str | None, typer.Option("--schedule-end", help="When the schedule ends.")]
Cron = Annotated[str | None, typer.Option("--cron-expression", help="When it runs, as five fields of cron.")]
Days = Annotated[int | None, typer.Option("--every-days", help="Every so many days.")]
Minutes = Annotated[str | None, typer.Option("--for-minutes-of-hour", help="At these minutes of the hour.")]
Hours = Annotated[str | None, typer.Option("--for-hours-of-day", help="At these hours of the day, UTC.")]


@command(group, "list")
def list_jobs(flags: Flags, filters: Filters = None, vc: Vc = "") -> None:
    """List the jobs."""
    from maint.cli.screen import table
    from maint.cli.vc.select import warn_of_blindness

    with reading(flags, vc) as (cluster, screen):
        jobs = cluster.jobs(filters or ())
        rows = [[job.name, job.type, job.file, _schedule_of(job.raw), ", ".join(job.mounts)] for job in jobs]
        found: list[Json] = [job.raw for job in jobs]
        show(flags, screen, "jobs", found, table(["NAME", "TYPE", "FILE", "SCHEDULE", "MOUNTS"], rows))
        if not jobs and not filters:
            warn_of_blindness(screen, cluster)


def _schedule_of(raw: "Json") -> str:
    from maint.model.virtual_cluster import Job

    job = Job(raw if isinstance(raw, dict) else {})
    payloads = str(job.schedule.get("cronExpression") or "on") if job.scheduled or job.type == "airflow" else "none"
    return f"{payloads} (paused)" if job.paused and payloads != "none" else payloads


@command(group, "describe")
def describe_job(flags: Flags, name: Name, vc: Vc = "") -> None:
    """Show a job's definition."""
    from maint.cli.vc.select import describe
    from maint.errors import WorkFailed

    with reading(flags, vc) as (cluster, screen):
        job = cluster.job(name)
        if job is None:
            raise WorkFailed(f"there is no job {name!r}", hint="`maint vc job list` shows what there is")
        show(flags, screen, "job", job.raw, describe(job.raw))


@command(group, "create", cls=ClientCommand)
def create(
    flags: Flags,
    name: Name,
    kind: Annotated[str, typer.Option("--type", help="spark or airflow.")] = "spark",
    file: Annotated[str, typer.Option("--application-file", help="A file of a mounted resource, or a URL.")] = "",
    dag: Annotated[str, typer.Option("--dag-file", help="The DAG file of an airflow job.")] = "",
    class_name: Class = "",
    args: Args = None,
    conf: Conf = None,
    num_executors: Annotated[int | None, typer.Option("--num-executors", help="How many executors.")] = None,
    driver_memory: Annotated[str | None, typer.Option("--driver-memory", help="Such as 1g.")] = None,
    driver_cores: Annotated[int | None, typer.Option("--driver-cores", help="How many.")] = None,
    executor_memory: Annotated[str | None, typer.Option("--executor-memory", help="Such as 1g.")] = None,
    executor_cores: Annotated[int | None, typer.Option("--executor-cores", help="How many.")] = None,
    python_env: Annotated[
        str | None, typer.Option("--python-env-resource-name", help="A resource of the type python-env.")
    ] = None,
    mounted: Annotated[list[str] | None, typer.Option("--mount-N-resource", help="Resource of mount N.")] = None,
    prefixes: Annotated[list[str] | None, typer.Option("--mount-N-prefix", help="Folder of mount N.")] = None,
    enabled: Enabled = None,
    begin: Begin = None,
    end: End = None,
    cron: Cron = None,
    every_days: Days = None,
    minutes: Minutes = None,
    hours: Hours = None,
    vc: Vc = "",
) -> int:
    """Create a job."""
    from maint.cli.vc import payloads

    when = payloads.ScheduleWords(enabled, begin, end, cron, every_days, minutes, hours)
    mounts = payloads.mounts(numbered(mounted), numbered(prefixes))
    if kind not in ("spark", "airflow"):
        raise UsageError(f"--type is spark or airflow, not {kind!r}", hint="--type spark is what goes without saying")
    if kind == "airflow":
        definition = _airflow(name, dag or file, mounts, when)
    elif file and not dag:
        application = payloads.Application(
            file=file,
            class_name=class_name,
            args=args or (),
            conf=payloads.conf(conf),
            num_executors=num_executors,
            driver_memory=driver_memory,
            driver_cores=driver_cores,
            executor_memory=executor_memory,
            executor_cores=executor_cores,
            python_env=python_env,
        )
        definition = payloads.spark_job(name, application, mounts, when)
    else:
        raise UsageError("a spark job has an application file", hint="--application-file FILE, or --type airflow")
    return _create(flags, vc, definition)


def _airflow(name: str, dag: str, mounts: "list[Json]", when: "ScheduleWords") -> "dict[str, Json]":
    from maint.cli.vc import payloads

    if not dag:
        raise UsageError("an airflow job has a DAG file", hint="--dag-file FILE")
    if when.said:
        raise UsageError("an airflow job's DAG file says when it runs", hint="leave out the options of schedules")
    return payloads.airflow_job(name, dag, mounts)


def _create(flags: Flags, vc: str, definition: "dict[str, Json]") -> int:
    from maint.engine.adhoc import AdhocStep

    def lines(site: "ConfiguredSite", screen: "Screen") -> "list[AdhocStep]":
        _warn_of_mounts(site, screen, chosen(vc), definition)
        return [AdhocStep("Create the job", "job.create", {"vc": chosen(vc), "definition": definition})]

    return act(flags, "job create", lines)


def _warn_of_mounts(site: "ConfiguredSite", screen: "Screen", vc: str, definition: "dict[str, Json]") -> None:
    """Warn of mounts that are no resources: they may be git repositories, and the server decides (contract 4.3)."""
    from maint.model.virtual_cluster import Job

    cluster = site.virtual_cluster(vc)
    for name in Job(definition).mounts:
        if cluster.resource(name, files=False) is None:
            screen.warn(f"{name} is not among the resources: unless it is a git repository, the job will not run")


@command(group, "update", cls=ClientCommand)
def update(
    flags: Flags,
    name: Name,
    enabled: Enabled = None,
    begin: Begin = None,
    end: End = None,
    cron: Cron = None,
    every_days: Days = None,
    minutes: Minutes = None,
    hours: Hours = None,
    vc: Vc = "",
) -> int:
    """Change a job's schedule; an airflow job's DAG file is read again."""
    from maint.cli.vc import payloads

    schedule = payloads.schedule(payloads.ScheduleWords(enabled, begin, end, cron, every_days, minutes, hours))
    changes: dict[str, Json] = {"schedule": schedule} if schedule else {}
    given: dict[str, Json] = {"vc": chosen(vc), "job": name, "changes": changes}
    return step(flags, "job update", "Update the job", "job.update", given)


@command(group, "run")
def run(
    flags: Flags,
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; a run that fails is exit 1.")] = False,
    variables: Annotated[list[str] | None, typer.Option("--variable", help="KEY=VALUE for {{{KEY}}}.")] = None,
    vc: Vc = "",
) -> int:
    """Start a run of a job."""
    from maint.cli.vc.payloads import conf

    given: dict[str, Json] = {"vc": chosen(vc), "job": name, "wait": wait, "variables": conf(variables)}

    def after(_: "ConfiguredSite", screen: "Screen", past: "RunState") -> None:
        number = past.record(0).notes.get("run")
        if number is not None and screen.output == "table":
            show(flags, screen, "run", {"id": number}, f"run {number}")

    return step(flags, "job run", "Run the job", "job.run", given, after)


@command(group, "pause")
def pause(flags: Flags, name: Name, vc: Vc = "") -> int:
    """Pause a job's schedule."""
    return _pause(flags, name, vc, paused=True)


@command(group, "unpause")
def unpause(flags: Flags, name: Name, vc: Vc = "") -> int:
    """Let a job's schedule go on; one that starts in the past fires at once."""
    return _pause(flags, name, vc, paused=False)


def _pause(flags: Flags, name: str, vc: str, *, paused: bool) -> int:
    verb = "pause" if paused else "unpause"
    given: dict[str, Json] = {"vc": chosen(vc), "job": name, "paused": paused}
    return step(flags, f"job {verb}", f"{verb.title()} the schedule", "job.pause", given)


@command(group, "delete")
def delete(flags: Flags, name: Name, vc: Vc = "") -> int:
    """Delete a job."""
    given: dict[str, Json] = {"vc": chosen(vc), "job": name}
    return step(flags, "job delete", "Delete the job", "job.delete", given)
