"""`maint vc job`, `run` and `spark`: definitions of what can be run, its runs and their logs, one-off runs."""

from typing import Annotated
from urllib.parse import unquote, urlsplit

from maint.adapters.clock import SystemClock
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.options import GUARDS, VC, Flags, argument, number, option, pairs_of
from maint.cli.run_playbook import run_step, run_steps
from maint.cli.run_report import show_output
from maint.cli.screen import Screen, table
from maint.cli.vc import payloads
from maint.cli.vc.select import (
    IfExists,
    chosen,
    deleting,
    describe,
    known,
    let_in,
    reading,
    ready,
    show,
    warn_of_blindness,
)
from maint.cli.width import STAYS
from maint.engine.journal import RunState
from maint.engine.plan import AdhocStep
from maint.errors import UsageError, WorkFailed
from maint.model.formatting import tell_times
from maint.model.json import Json
from maint.model.plan import Phase
from maint.model.secret import scrub
from maint.model.virtual_cluster import ZERO_TIME, Job
from maint.steps.virtual_clusters.runs import cut_words, is_old, output

Name = Annotated[str, option("--name", "The job.")]
Filters = Annotated[list[str] | None, option("--filter", "FIELD[OPERATOR]VALUE; repeatable, all must hold.")]


@command(VC)
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
    when = str(job.schedule.get("cronExpression") or "on").replace(" ", STAYS) if job.scheduled or dag else "none"
    return f"{when} (paused)" if job.paused and when != "none" else when


@command(VC)
def describe_job(flags: Flags, name: Name) -> None:
    """Show a job's definition."""
    with reading(flags) as (cluster, screen):
        job = known(cluster.job(name), f"job {name!r}", "job list")
        show(flags, screen, "job", job.raw, describe(job.raw))


@command(VC, cls=payloads.ClientCommand)
def create(
    flags: Flags,
    name: Name,
    application: payloads.Application,
    when: payloads.ScheduleWords,
    kind: Annotated[str, option("--type", "spark or airflow.")] = "spark",
    dag: Annotated[str, option("--dag-file", "The DAG file of an airflow job.")] = "",
    mounted: Annotated[list[str] | None, option("--mount-N-resource", "Resource of mount N.")] = None,
    prefixes: Annotated[list[str] | None, option("--mount-N-prefix", "Folder of mount N.")] = None,
) -> int:
    """Create a job."""
    mounts = payloads.mounts(payloads.numbered(mounted), payloads.numbered(prefixes))
    if kind not in ("spark", "airflow"):
        raise UsageError(f"there is no --type {kind!r}", hint="--type spark (the default) or --type airflow")
    if kind == "airflow":
        definition = _airflow(name, dag or application.file, mounts, when)
    elif application.file and not dag:
        definition = payloads.spark_job(name, application, mounts, when)
    else:
        raise UsageError("a spark job has an application file", hint="--application-file FILE, or --type airflow")

    def lines(site: ConfiguredSite, screen: Screen) -> list[AdhocStep]:
        let_in(site, flags)
        _warn_of_mounts(site, screen, chosen(flags), definition)
        return [AdhocStep("Create the job", "job.create", {"vc": chosen(flags), "definition": definition})]

    return run_steps(ready(flags), "job create", lines)


def _airflow(name: str, dag: str, mounts: list[Json], when: payloads.ScheduleWords) -> dict[str, Json]:
    if not dag:
        raise UsageError("an airflow job has a DAG file", hint="--dag-file FILE")
    if when.said:
        raise UsageError("an airflow job's DAG file says when it runs", hint="leave out the options of schedules")
    return payloads.airflow_job(name, dag, mounts)


def _warn_of_mounts(site: ConfiguredSite, screen: Screen, vc: str, definition: dict[str, Json]) -> None:
    """Warn of mounts that are not resources, which git repositories may be, and of a file that none has (J4.3)."""
    cluster, job = site.virtual_cluster(vc), Job(definition)
    mounted = {name: cluster.resource(name) for name in job.mounts}
    for name in (name for name, found in mounted.items() if found is None):
        screen.warn(f"{name} is not among the resources: unless it is a git repository, the job will not run")
    listed = {file.path for found in mounted.values() if found for file in found.files}
    # A mount's prefix stands before the path of the file.
    known = any(job.file == path or job.file.endswith(f"/{path}") for path in listed)
    if not (known or None in mounted.values() or payloads.is_remote(job.file)):
        screen.warn(f"no resource that the job mounts has {job.file}: without it the job will not run")


@command(VC, GUARDS, cls=payloads.ClientCommand)
def update(flags: Flags, name: Name, when: payloads.ScheduleWords) -> int:
    """Change a job's schedule; an airflow job's DAG file is read again."""
    schedule = payloads.schedule(when)
    changes: dict[str, Json] = {"schedule": schedule} if schedule else {}
    given: dict[str, Json] = {
        "vc": chosen(flags),
        "job": name,
        "changes": changes,
        "no_safety_net": flags.no_safety_net,
    }
    return run_step(ready(flags), "job update", "Update the job", "job.update", given)


@command(VC)
def run(
    flags: Flags,
    name: Name,
    wait: Annotated[bool, option("--wait", "Wait for its end; a run that fails is exit 1.")] = False,
    variables: Annotated[list[str] | None, option("--variable", "KEY=VALUE for {{{KEY}}}.")] = None,
) -> int:
    """Start a run of a job."""
    filling = pairs_of("--variable", variables, "day=monday")
    given: dict[str, Json] = {"vc": chosen(flags), "job": name, "wait": wait, "variables": filling}

    def after(_: ConfiguredSite, screen: Screen, past: RunState) -> None:
        number = past.record(0).notes.get("run")
        if number is not None and screen.output == "table":
            show(flags, screen, "run", {"id": number}, f"run {number}")

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        known(site.virtual_cluster(chosen(flags)).job(name), f"job {name!r}", "job list")
        return [AdhocStep("Run the job", "job.run", given)]

    return run_steps(ready(flags), "job run", lines, after)


@command(VC)
def pause(flags: Flags, name: Name) -> int:
    """Pause a job's schedule."""
    return _pause(flags, name, paused=True)


@command(VC)
def unpause(flags: Flags, name: Name) -> int:
    """Let a job's schedule go on; one that starts in the past fires at once."""
    return _pause(flags, name, paused=False)


def _pause(flags: Flags, name: str, *, paused: bool) -> int:
    verb = "pause" if paused else "unpause"
    given: dict[str, Json] = {"vc": chosen(flags), "job": name, "paused": paused}
    return run_step(ready(flags), f"job {verb}", f"{verb.title()} the schedule", "job.pause", given)


@command(VC, GUARDS)
def delete(flags: Flags, name: Name, if_exists: IfExists = False) -> int:
    """Delete a job; `maint vc undo RUN` brings it back."""
    given = deleting(flags, if_exists, job=name)
    return run_step(ready(flags), "job delete", "Delete the job", "job.delete", given)


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
                hint=f"`--type {types[0]}` is one of them"
                if types and kind not in types and is_old(SystemClock(), run)
                else "logs are complete only some seconds after a run has ended",
            )
        if words := cut_words(text):
            screen.warn(f"{words}: the virtual cluster's own page of run {number} has the rest")
        printed = scrub(text.decode(errors="replace"))
        if screen.output != "table":
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

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        let_in(site, flags)
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
