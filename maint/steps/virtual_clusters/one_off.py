"""Run a job once that is made for it: whoever comes to it again goes on with what is there, or begins anew."""

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import cast

from pydantic import Field, JsonValue

from maint.model.formatting import show_size
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import Object, Run
from maint.ports import Sight, Site, VirtualCluster, Work
from maint.ports.virtual_cluster import Content
from maint.steps.step import Progress, done
from maint.steps.virtual_clusters.resources import local, placed, refuse_other_bytes
from maint.steps.virtual_clusters.runs_wait import OUTPUT, ended, failure_of, output, start_once, succeeded
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, own_prefix, temporary


def once(
    cluster: VirtualCluster, site: Site, work: Work, definition: Object, files: Mapping[str, Content]
) -> Generator[str, None, Run]:
    """Run a temporary job, and return its run when it has ended; one that an earlier life saw through is that run.

    Args:
        cluster: where.
        site: the site.
        work: what earlier lives noted.
        definition: the job's; the resource gets its name.
        files: what the resource holds, by path; without any there is none.
    """
    known = work.noted("run")
    before = cluster.run(known) if isinstance(known, int) and known != work.noted("told") else None
    if before is not None and succeeded(before):
        return before
    fresh = yield from _made(cluster, definition, files)
    # A job that is made now has no run yet: one of an earlier life was swept away with its job.
    number = start_once(cluster, site, work, str(definition["name"]), anew=fresh)
    yield f"run {number} is started"
    return (yield from ended(cluster, site.clock, number))


def _made(cluster: VirtualCluster, definition: Object, files: Mapping[str, Content]) -> Generator[str, None, bool]:
    """Make the job and its resource, as far as they are not there, and return whether the job was made now."""
    name = str(definition["name"])
    if files and cluster.resource(name, files=False) is None:
        yield f"creating resource {name}"
        cluster.create_resource({"name": name, "hidden": False, "type": "files"})
    sent = {}
    for path, content in files.items():
        yield f"uploading {path}"
        sent[path] = cluster.upload(name, path, content)
    if sent:
        refuse_other_bytes(cluster, name, sent)
    if cluster.job(name) is not None:
        return False
    yield f"creating job {name}"
    mounts = [{"resourceName": name, "dirPrefix": ""}] if files else []
    cluster.create_job({**definition, "mounts": mounts})
    return True


class OnceArguments(VcArguments):
    """What runs, and the local files that it needs."""

    definition: dict[str, JsonValue] = Field(description="the job's, as the API takes it, without name and mounts")
    files: list[str] = Field(
        default_factory=list, description="local files for the resource, the application among them"
    )
    keep_log: bool = Field(
        False, description="keep `driver/stdout`, sealed in the state folder, until the command has shown it"
    )


class RunOnce(VcStep[OnceArguments]):
    """Runs an application by a temporary job; `vc.sweep` removes it."""

    kind = "job.once"
    help = "Run an application by a temporary job, with its files; always with `vc.sweep` under `finally`."
    effect = Effect.CHANGE
    arguments = OnceArguments

    def plan(self, args: OnceArguments, sight: Sight) -> Iterable[Action]:
        """Plan the run."""
        files = placed(args.files, "")
        size = show_size(sum(Path(path).stat().st_size for path in files.values()))
        what = f" and a resource with {', '.join(files)} ({size})" if files else ""
        yield self.action(
            f"virtual cluster {sight.settings.virtual_cluster(args.vc).name}",
            f"create a job named {own_prefix(sight.settings.state)}submit-…{what}, run it once, and read its log",
            {**args.model_dump(), "files": files},
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Make, run, read; what it printed is kept until it was shown."""
        cluster, name = cluster_of(action, site), temporary(site.state, "submit", work.run)
        files = {path: local(Path(here)) for path, here in cast(dict[str, str], action.arguments["files"]).items()}
        definition = {**cast(Object, action.arguments["definition"]), "name": name}
        run = yield from once(cluster, site, work, definition, files)
        if action.arguments["keep_log"]:
            text = output(cluster, site.clock, run.id, OUTPUT, wait=60.0 if succeeded(run) else 0.0)
            if isinstance(before := work.noted("log"), str):
                site.undo.drop(before)
            work.note("log", site.undo.keep(text or b""))
        if not succeeded(run):
            raise failure_of(cluster, run)
        return done(f"run {run.id} has succeeded", {"id": run.id, "status": run.status})
