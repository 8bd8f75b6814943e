"""Jobs of a virtual cluster: create, update, delete, pause."""

from collections.abc import Iterable
from shlex import quote
from typing import cast

from pydantic import Field, JsonValue, field_validator

from maint.errors import Refused, WorkFailed
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import Job, Object, same_job, sendable_job
from maint.ports import Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.steps.guards import Guarded
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.safety_net import callers_of, listed, net, seal_before, way_back
from maint.steps.virtual_clusters.step import Absent, VcArguments, VcStep, absent, cluster_of, taken_already


class JobArguments(VcArguments):
    """Which job."""

    job: str = Field(description="its name")


def with_texts(definition: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what is sent of a job's definition; ValueError where a value of its conf is no text (J4.3)."""
    spark = definition.get("spark")
    conf = spark.get("conf") if isinstance(spark, dict) else None
    if isinstance(conf, dict) and (wrong := [key for key, value in conf.items() if not isinstance(value, str)]):
        raise ValueError(f"values of a job's conf are texts: put {', '.join(wrong)} in quotes")
    return definition


class CreateJobArguments(VcArguments):
    """The definition as the API takes it."""

    definition: dict[str, JsonValue] = Field(description="as the API takes it")

    @field_validator("definition")
    @classmethod
    def _is_a_job(cls, definition: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if not isinstance(definition.get("name"), str) or definition.get("type") not in ("spark", "airflow"):
            raise ValueError("a job has a name, and the type spark or airflow: give both")
        return with_texts(definition)


class UpdateJobArguments(JobArguments, Guarded):
    """What changes, and why what it was is not to be sealed first."""

    changes: dict[str, JsonValue] = Field({}, description="keys of the definition; those of `schedule` one by one")

    _of_texts = field_validator("changes")(with_texts)


class PauseJobArguments(JobArguments):
    """Whether its schedule is to rest."""

    paused: bool = Field(True, description="`false` lets it go on; a start in the past fires at once")


def known_job(sight: VirtualClusterSight, name: str) -> Job:
    """Return a job; Refused: there is none."""
    job = sight.job(name)
    if job is None:
        raise Refused(f"there is no job {name!r}", hint="`maint vc job list` shows what there is")
    return job


class CreateJob(VcStep[CreateJobArguments]):
    """Create a job in a virtual cluster."""

    kind = "job.create"
    effect = Effect.CHANGE

    def plan(self, args: CreateJobArguments, sight: Sight) -> Iterable[Action]:
        if not (name := str(args.definition["name"])):
            raise Refused("a job has a name", hint="give one that is not empty")
        seen = taken_already(sight, args.vc, name, "job")
        yield self.action(
            f"job {name}",
            f"create job {name} ({args.definition['type']}){seen and f': {seen}'}",
            args.model_dump(),
            undo=f"`maint vc job delete --name {quote(name)}`",
            seen=seen,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        return (yield from create_once(cluster_of(action, site), work, cast(Object, action.arguments["definition"])))


def create_once(cluster: VirtualCluster, work: Work, definition: Object) -> Progress:
    """Create a job, unless an earlier attempt did."""
    name = str(definition["name"])
    if work.resumed and same_job(cluster.job(name), definition):
        return unchanged(f"job {name} is there")
    yield f"creating job {name}"
    cluster.create_job(definition)
    return done(f"job {name} is created")


class UpdateJob(VcStep[UpdateJobArguments]):
    """Change a job's definition or schedule, the old one sealed first; an airflow job's DAG file is read again."""

    kind = "job.update"
    effect = Effect.CHANGE

    def plan(self, args: UpdateJobArguments, sight: Sight) -> Iterable[Action]:
        job = known_job(sight.virtual_cluster(args.vc), args.job)
        if job.type == "airflow" and "schedule" in args.changes:
            raise Refused(
                f"{args.job} is an airflow job: its DAG file says when it runs",
                hint="upload a changed DAG file, then update the job without a schedule",
            )
        what = ", ".join(args.changes) or "definition as it is"
        words = f"update job {args.job}: {what}{net(sight, args.no_safety_net) if args.changes else ''}"
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Read, change, and send the whole definition again (J4.1)."""
        cluster, name = cluster_of(action, site), str(action.arguments["job"])
        job = cluster.job(name)
        if job is None:
            raise WorkFailed(f"job {name} is gone", hint="`maint vc job list` shows what there is")
        changes, words = cast(Object, action.arguments["changes"]), way_back(site.state, work.run)
        definition = changed(job, changes)
        if changes and not (words and same_job(job, definition)):  # else an earlier attempt sealed it, and changed it
            waived = str(action.arguments.get("no_safety_net") or "")
            words = yield from seal_before(site, work, cluster, job, waived)
        yield f"updating job {name}"
        cluster.update_job(name, definition)
        return done(f"job {name} is updated{words}")


def changed(job: Job, changes: Object) -> Object:
    """Return a job's definition with changes.

    A schedule that is switched on is awake: `paused` was only the filler of a job without one.
    """
    definition = {**sendable_job(job.raw), **{key: value for key, value in changes.items() if key != "schedule"}}
    if "schedule" in changes:
        given = cast(Object, changes["schedule"])
        woken = {"paused": False} if given.get("enabled") is True and not job.scheduled else {}
        before = cast(Object, definition.get("schedule", {}))
        definition["schedule"] = {**before, **woken, **given}
    return definition


class DeleteJobArguments(JobArguments, Guarded, Absent):
    """Which job, why it is not to be sealed first, and what is made of one that is not there."""


class DeleteJob(VcStep[DeleteJobArguments]):
    """Delete a job from a virtual cluster, sealed first; `maint vc undo RUN` brings it back for 30 days."""

    kind = "job.delete"
    effect = Effect.CHANGE

    def plan(self, args: DeleteJobArguments, sight: Sight) -> Iterable[Action]:
        cluster = sight.virtual_cluster(args.vc)
        there = cluster.job(args.job) is not None
        if not there and not args.if_exists:
            raise absent(f"job {args.job}", "`maint vc job list` shows what there is")
        calling, unclear = callers_of(cluster, args.job) if there else ([], [])
        seen = "" if there else "it is not there: nothing to delete"
        words = f"delete job {args.job}{listed(calling, 'call it')}{listed(unclear, 'may call it')}"
        words += net(sight, args.no_safety_net) if there else f" ({seen})"
        yield self.action(
            f"job {args.job}",
            words,
            args.model_dump(),
            facts={"there": there, "called_by": [*calling, *unclear]},
            seen=seen,
            idle=not there,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, name = cluster_of(action, site), str(action.arguments["job"])
        live = cluster.job(name)
        if live is None:
            return unchanged(f"job {name} is not there{way_back(site.state, work.run)}")
        words = yield from seal_before(site, work, cluster, live, str(action.arguments["no_safety_net"]))
        yield f"deleting job {name}"
        cluster.delete_job(name)
        return done(f"job {name} is deleted{words}")


class PauseJob(VcStep[PauseJobArguments]):
    """Pause a job's schedule, or let it go on; one that starts in the past fires at once."""

    kind = "job.pause"
    effect = Effect.CHANGE

    def plan(self, args: PauseJobArguments, sight: Sight) -> Iterable[Action]:
        job = known_job(sight.virtual_cluster(args.vc), args.job)
        words = "pause the schedule" if args.paused else "let the schedule go on (a start in the past fires at once)"
        seen = "it is so already" if job.paused is args.paused else ""
        words = f"{words} of job {args.job}{f' ({seen})' if seen else ''}"
        words += "" if args.paused else _without_schedule(job)
        yield self.action(f"job {args.job}", words, args.model_dump(), seen=seen, idle=bool(seen))

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, name = cluster_of(action, site), str(action.arguments["job"])
        job, paused = known_job(cluster, name), action.arguments["paused"] is True
        yield f"looking at job {name}"
        words = "paused" if paused else "awake"
        if job.paused is paused:
            return unchanged(f"the schedule of {name} is {words} already")
        (cluster.pause if paused else cluster.unpause)(name)
        return done(f"the schedule of {name} is {words}{'' if paused else _without_schedule(job)}")


def _without_schedule(job: Job) -> str:
    """Return what is said of a job that starts at no time, paused or not: a DAG says by itself when it runs."""
    alone = job.scheduled or job.type == "airflow"
    return "" if alone else "; but no schedule of it is on, so it does not start by itself"
