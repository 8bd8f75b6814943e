"""`maint vc job`: list, describe, create, update, run, pause, unpause, delete."""

from typing import Annotated

import typer

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.options import GUARDS, VC, Flags
from maint.cli.screen import Screen, table
from maint.cli.vc import payloads
from maint.cli.vc.select import IfExists, act, chosen, deleting, describe, reading, show, step, warn_of_blindness
from maint.engine.adhoc import AdhocStep
from maint.engine.journal import RunState
from maint.errors import UsageError, WorkFailed
from maint.model.json import Json
from maint.model.virtual_cluster import Job

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


@command(VC, example="maint vc job list --filter 'type[eq]spark'")
def list_jobs(flags: Flags, filters: Filters = None) -> None:
    """List the jobs."""
    with reading(flags) as (cluster, screen):
        jobs = cluster.jobs(filters or ())
        rows = [[job.name, job.type, job.file, _schedule_of(job.raw), ", ".join(job.mounts)] for job in jobs]
        found: list[Json] = [job.raw for job in jobs]
        show(flags, screen, "jobs", found, table(["NAME", "TYPE", "FILE", "SCHEDULE", "MOUNTS"], rows))
        if not jobs and not filters:
            warn_of_blindness(screen, cluster)


def _schedule_of(raw: Json) -> str:

    job = Job(raw if isinstance(raw, dict) else {})
    dag = job.type == "airflow" and job.schedule.get("enabled", True)  # a DAG may hold its times itself
    when = str(job.schedule.get("cronExpression") or "on") if job.scheduled or dag else "none"
    return f"{when} (paused)" if job.paused and when != "none" else when


@command(VC, example="maint vc job describe --name daily")
def describe_job(flags: Flags, name: Name) -> None:
    """Show a job's definition."""
    with reading(flags) as (cluster, screen):
        job = cluster.job(name)
        if job is None:
            raise WorkFailed(f"there is no job {name!r}", hint="`maint vc job list` shows what there is")
        show(flags, screen, "job", job.raw, describe(job.raw))


@command(
    VC,
    cls=payloads.ClientCommand,
    example="maint vc job create --name daily --application-file etl.py --mount-1-resource scripts",
)
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
) -> int:
    """Create a job."""
    when = payloads.ScheduleWords(enabled, begin, end, cron, every_days, minutes, hours)
    mounts = payloads.mounts(payloads.numbered(mounted), payloads.numbered(prefixes))
    if kind not in ("spark", "airflow"):
        raise UsageError(f"there is no --type {kind!r}", hint="--type spark (the default) or --type airflow")
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
    return _create(flags, definition)


def _airflow(name: str, dag: str, mounts: list[Json], when: payloads.ScheduleWords) -> dict[str, Json]:

    if not dag:
        raise UsageError("an airflow job has a DAG file", hint="--dag-file FILE")
    if when.said:
        raise UsageError("an airflow job's DAG file says when it runs", hint="leave out the options of schedules")
    return payloads.airflow_job(name, dag, mounts)


def _create(flags: Flags, definition: dict[str, Json]) -> int:

    def lines(site: ConfiguredSite, screen: Screen) -> list[AdhocStep]:
        _warn_of_mounts(site, screen, chosen(flags), definition)
        return [AdhocStep("Create the job", "job.create", {"vc": chosen(flags), "definition": definition})]

    return act(flags, "job create", lines)


def _warn_of_mounts(site: ConfiguredSite, screen: Screen, vc: str, definition: dict[str, Json]) -> None:
    """Warn of mounts that are not resources: they may be git repositories, and the server decides (J4.3)."""
    cluster = site.virtual_cluster(vc)
    for name in Job(definition).mounts:
        if cluster.resource(name, files=False) is None:
            screen.warn(f"{name} is not among the resources: unless it is a git repository, the job will not run")


@command(VC, cls=payloads.ClientCommand, example="maint vc job update --name daily --cron-expression '0 2 * * *'")
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
) -> int:
    """Change a job's schedule; an airflow job's DAG file is read again."""
    schedule = payloads.schedule(payloads.ScheduleWords(enabled, begin, end, cron, every_days, minutes, hours))
    changes: dict[str, Json] = {"schedule": schedule} if schedule else {}
    given: dict[str, Json] = {"vc": chosen(flags), "job": name, "changes": changes}
    return step(flags, "job update", "Update the job", "job.update", given)


@command(VC, example="maint vc job run --name daily --wait")
def run(
    flags: Flags,
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; a run that fails is exit 1.")] = False,
    variables: Annotated[list[str] | None, typer.Option("--variable", help="KEY=VALUE for {{{KEY}}}.")] = None,
) -> int:
    """Start a run of a job."""
    given: dict[str, Json] = {"vc": chosen(flags), "job": name, "wait": wait, "variables": payloads.conf(variables)}

    def after(_: ConfiguredSite, screen: Screen, past: RunState) -> None:
        number = past.record(0).notes.get("run")
        if number is not None and screen.output == "table":
            show(flags, screen, "run", {"id": number}, f"run {number}")

    return step(flags, "job run", "Run the job", "job.run", given, after)


@command(VC, example="maint vc job pause --name daily")
def pause(flags: Flags, name: Name) -> int:
    """Pause a job's schedule."""
    return _pause(flags, name, paused=True)


@command(VC, example="maint vc job unpause --name daily")
def unpause(flags: Flags, name: Name) -> int:
    """Let a job's schedule go on; one that starts in the past fires at once."""
    return _pause(flags, name, paused=False)


def _pause(flags: Flags, name: str, *, paused: bool) -> int:
    verb = "pause" if paused else "unpause"
    given: dict[str, Json] = {"vc": chosen(flags), "job": name, "paused": paused}
    return step(flags, f"job {verb}", f"{verb.title()} the schedule", "job.pause", given)


@command(VC, GUARDS, example="maint vc job delete --name daily")
def delete(flags: Flags, name: Name, if_exists: IfExists = False) -> int:
    """Delete a job; `maint vc undo RUN` brings it back."""
    given = deleting(flags, if_exists, job=name)
    return step(flags, "job delete", "Delete the job", "job.delete", given)
