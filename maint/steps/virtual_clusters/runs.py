"""Runs of a virtual cluster: start one, kill one, list those of a job."""

from collections.abc import Iterable
from typing import cast

from pydantic import Field

from maint.errors import Refused
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.jobs import JobArguments
from maint.steps.virtual_clusters.runs_wait import ended, failure_of, start_once, succeeded
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of


class RunJobArguments(JobArguments):
    """Which job, with which variables, and whether to wait for the run's end."""

    wait: bool = Field(False, description="wait; a run that fails fails the step")
    variables: dict[str, str] = Field(default_factory=dict, description="texts for `{{{name}}}`")


class RunArguments(VcArguments):
    """Which run."""

    run: int = Field(description="its id")


class RunJob(VcStep[RunJobArguments]):
    """Starts one run."""

    kind = "job.run"
    help = "Start a run of a job, once; wait for its end where asked to, and fail when it failed."
    effect = Effect.CHANGE
    arguments = RunJobArguments

    def plan(self, args: RunJobArguments, sight: Sight) -> Iterable[Action]:
        """Plan one run."""
        words = f"run job {args.job}" + (" and wait for its end" if args.wait else "")
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Start it, or go on with the run of an earlier life."""
        cluster, job = cluster_of(action, site), str(action.arguments["job"])
        yield f"starting a run of {job}"
        number = start_once(cluster, site, work, job, cast(dict[str, Json], action.arguments["variables"]))
        if not action.arguments["wait"]:
            return done(f"run {number} of job {job} is started", {"id": number})
        yield f"run {number} is started"
        run = yield from ended(cluster, site.clock, number)
        if not succeeded(run):
            work.note("told", number)
            raise failure_of(cluster, run)
        return done(f"run {number} of job {job} has succeeded", {"id": number, "status": run.status})


class KillRun(VcStep[RunArguments]):
    """Kills a run."""

    kind = "run.kill"
    help = "Kill a run."
    effect = Effect.CHANGE
    arguments = RunArguments

    def plan(self, args: RunArguments, sight: Sight) -> Iterable[Action]:
        """Plan the kill."""
        run = sight.virtual_cluster(args.vc).run(args.run)
        if run is None:
            raise Refused(f"there is no run {args.run}", hint="`maint vc run list` shows what there is")
        yield self.action(f"run {args.run}", f"kill run {args.run} of job {run.job} ({run.status})", args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Kill it, unless it has ended."""
        cluster, number = cluster_of(action, site), cast(int, action.arguments["run"])
        yield f"looking at run {number}"
        run = cluster.run(number)
        if run is None or run.ended:
            return unchanged(f"run {number} has ended{f' as {run.status}' if run else ''}")
        cluster.kill(number)
        return done(f"run {number} is killed")


class ListRuns(VcStep[JobArguments]):
    """Lists the runs of a job."""

    kind = "run.list"
    help = "List the runs of a job."
    effect = Effect.READ
    arguments = JobArguments

    def plan(self, args: JobArguments, sight: Sight) -> Iterable[Action]:
        """Plan the look."""
        yield self.action(f"job {args.job}", f"list the runs of job {args.job}", args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """List them."""
        job = str(action.arguments["job"])
        yield f"listing the runs of {job}"
        runs = cluster_of(action, site).runs([f"job[eq]{job}"])
        found: list[Json] = [{"id": run.id, "status": run.status} for run in runs]
        newest = f", the newest is {runs[-1].id} ({runs[-1].status})" if runs else ""
        return done(f"{len(runs)} runs of {job}{newest}", found)
