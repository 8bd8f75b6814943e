"""Restore a virtual cluster from a snapshot, schedules paused, and let schedules go on in the operator's order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pydantic import Field

from maint.errors import Refused, StoreFailed, WorkFailed
from maint.model.formatting import parse_time, show_count, show_some
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.restore.conflicts import (
    Policy,
    Resolution,
    awake_jobs,
    chosen_cluster,
    dags_of,
    decide,
    planned_cluster,
    refuse_live_source,
    was_awake,
)
from maint.restore.select_snapshot import manifest_fact
from maint.snapshots.prune import of_passed_over, passed_over
from maint.snapshots.records import Record, read_records, write_record
from maint.snapshots.virtual_clusters.dag_source import Dag, in_order
from maint.snapshots.virtual_clusters.document import ClusterDocument, listed_jobs, part_name
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.guards import Guarded
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.restorer import ClusterRestorer
from maint.steps.virtual_clusters.safety_snapshot import keep_replaced, net, refuse_closed, refuse_unproven
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of

RECORD = "vcrestore"
_SHOWN = 10
_RACE = "`--accept-dag-race` brings such DAGs back, pauses them at once and looks at their runs"
_MEND = "all else is back; mend what is named, or bring it back by hand"


class RestoreClusterArguments(VcArguments, Guarded):
    """From which snapshot, what is done where something stands in the way, and why what goes is not kept."""

    snapshot: str = Field("", description="the newest that holds it when empty")
    on_conflict: Policy = Field("refuse", description="where a name is taken: `refuse`, `skip`, `rename` or `replace`")
    accept_dag_race: bool = Field(False, description="bring back DAGs too that may run before they are paused")
    source_gone: bool = Field(False, description="although the source still answers: it does no harm")


class RestoreCluster(VcStep[RestoreClusterArguments]):
    """Bring a virtual cluster's resources and jobs back from a snapshot, schedules paused, and compare."""

    kind = "vc.restore"
    effect = Effect.DESTROY
    restores = True

    def plan(self, args: RestoreClusterArguments, sight: Sight) -> Iterable[Action]:
        cluster = sight.virtual_cluster(args.vc)
        name = cluster.settings.name
        snapshot = chosen_cluster(sight, args.snapshot, name)
        document, app = read_document(sight, snapshot, name), cluster.info().get("appName")
        refuse_live_source(document.base_url, cluster, gone=args.source_gone)
        dags = dags_of(sight, document)
        decided = decide(document, cluster, args.on_conflict, dags, accept_race=args.accept_dag_race)
        rested = rested_jobs(sight, document)
        words = f"{words_of(document, decided)}{of_rested(rested)}{net(decided, args.no_safety_net)}"
        words += of_passed_over(passed_over(sight, snapshot, part_name(name)))
        if decided.replaces and not args.no_safety_net:
            refuse_closed(sight)
        refuse_unproven(sight, cluster, document, decided)
        arguments: dict[str, Json] = {
            "vc": name,
            "snapshot": snapshot.id,
            "decided": decided.to_json(),
            "order": list(order_of(dags)),
            "rested": list(rested),
            "no_safety_net": args.no_safety_net,
        }
        yield self.action(
            f"virtual cluster {name}",
            f"restore snapshot {snapshot.id} into {app} ({cluster.settings.base_url}): {words}",
            arguments,
            facts={"appName": app, "decided": decided.to_json(), **manifest_fact(snapshot)},
            confirm=name,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        return (yield from bring_back(action, site, work))


def bring_back(action: Action, site: Site, work: Work) -> Progress:
    """Bring back in the order of J14, then compare."""
    cluster, decided = cluster_of(action, site), Resolution.from_json(action.arguments["decided"])
    snapshot = planned_cluster(site, action, cluster.settings.name)
    document = read_document(site, snapshot, cluster.settings.name)
    waived = str(action.arguments.get("no_safety_net") or "")
    if decided.replaces:
        yield "reading what comes in the place of what is there"
    refuse_unproven(site, cluster, document, decided)
    replaced = yield from keep_replaced(site, work, cluster, document, decided, waived)
    bringing = ClusterRestorer(site, cluster, document, decided, work, replaced)
    bringing.note_intent()
    yield from bringing.resources()
    yield from bringing.spark_jobs()
    jobs = {job.name: job for job in document.jobs}
    for name in cast(Sequence[str], action.arguments["order"]):
        if bringing.wanted(jobs[name]):
            yield from bringing.dag(jobs[name])
    yield "comparing with the snapshot"
    if found := bringing.differences():
        raise WorkFailed(
            f"not as the snapshot has it: {show_count(len(found), 'thing')}",
            detail=found[:_SHOWN],
            hint="did somebody else change them meanwhile? Resuming compares again",
        )
    held = {decided.job(name) for name in bringing.not_back}
    rested = rested_of(action)
    awake = [name for name in awake_jobs(document, decided, bringing.resting(), rested) if name not in held]
    unnoted = note_awake(site, work, snapshot.id, cluster.settings.name, awake)
    left = [*bringing.left, *(f"DAG {name} is left out: it would start by itself" for name in decided.left_out)]
    words = [
        f"{words_of(document, decided)}; {_rest(len(awake))}{of_rested(rested)}",
        *bringing.new_owners(),
        *bringing.elsewhere(),
    ]
    words += bringing.unlike()
    words += [unnoted] if unnoted else []
    hint = "; ".join([*([_MEND] if bringing.left else []), *([_RACE] if decided.left_out else [])])
    value: dict[str, Json] = {"snapshot": snapshot.id, "awake": list(awake)}
    return done("; ".join([*words, *left]), value, partly=bool(left), hint=hint)


def note_awake(site: Site, work: Work, snapshot_id: str, cluster: str, awake: Sequence[str]) -> str:
    """Keep beside the snapshot, once, which schedules rest, and are to go on when the operator says so; return why the
    store does not take that note, "" where it does.
    """
    if not work.noted("recorded"):
        try:
            write_record(site, RECORD, snapshot_id, {"vc": cluster, "awake": list(awake)})
        except StoreFailed as failure:  # a store that cannot be written keeps nobody from what is in it
            return f"which schedules rest could not be noted: {failure.message}"
        work.note("recorded", True)
    return ""


def rested_jobs(sight: Sight, document: ClusterDocument) -> Sequence[str]:
    """Return the jobs that rest in a snapshot since an earlier restore paused them, as far as the records tell."""
    taken = parse_time(document.taken_at)
    told = [one for one in _rests(sight, document.name) if taken is not None and one.at <= taken]
    resting = _names(told[-1], "awake") - _names(told[-1], "woken") if told else set()
    return [job.name for job in document.jobs if job.name in resting and not was_awake(job)]


def rested_of(action: Action) -> Sequence[str]:
    """Return what `rested_jobs` told when an action was planned; nothing in older journals."""
    return cast(Sequence[str], action.arguments.get("rested") or ())


def of_rested(names: Sequence[str]) -> str:
    """Return in words that they count as awake; empty without any."""
    return f"; awake until an earlier restore, and paused since: {', '.join(names)}" if names else ""


def _rests(sight: Sight, cluster: str) -> Sequence[Record]:
    return [one for one in read_records(sight) if one.kind == RECORD and one.facts.get("vc") == cluster]


def _names(record: Record, key: str) -> set[str]:
    return {str(name) for name in cast(Sequence[str], record.facts.get(key) or ())}


def _note_woken(site: Site, cluster: str, names: Sequence[str]) -> str:
    """Keep beside the snapshot which schedules go on again; return why the store does not take that, "" else."""
    if site.settings.backup is None:
        return ""
    try:
        told = _rests(site, cluster)
        if told and (woken := _names(told[-1], "awake").intersection(names)):
            facts = {**told[-1].facts, "woken": sorted(woken | _names(told[-1], "woken"))}
            write_record(site, RECORD, told[-1].snapshot, facts)
    except StoreFailed as failure:
        return f"; that they go on could not be noted: {failure.message}"
    return ""


def _rest(awake: int) -> str:
    return f"{show_count(awake, 'schedule')} that {'was' if awake == 1 else 'were'} awake left paused"


def order_of(dags: Mapping[str, Dag | None]) -> Sequence[str]:
    """Return the airflow jobs, each after those that it calls."""
    return in_order({name: dag.calls if dag else () for name, dag in dags.items()})


def words_of(document: ClusterDocument, decided: Resolution) -> str:
    """Return in words what becomes of what, each by its name."""
    staying = {*decided.skipped_jobs, *decided.left_out}
    jobs = [one.name for one in document.jobs if one.name not in staying]
    resources = [one.name for one in document.resources if one.name not in decided.skipped_resources]
    words = [f"{_counted(resources, 'resource')}, {_counted(jobs, 'job')}"]
    for what, names in (
        ("kept as they are", (*decided.skipped_resources, *decided.skipped_jobs)),
        ("REPLACED", (*decided.replaced_resources, *decided.replaced_jobs)),
        ("LEFT OUT, since they would start by themselves", decided.left_out),
    ):
        if names:
            words.append(f"{what}: {', '.join(names[:_SHOWN])}{' …' if len(names) > _SHOWN else ''}")
    renamed = {**decided.resource_names, **decided.job_names}
    if renamed:
        words.append("renamed: " + ", ".join(f"{old} to {new}" for old, new in list(renamed.items())[:_SHOWN]))
    return "; ".join(words)


def _counted(names: Sequence[str], noun: str) -> str:
    return show_count(len(names), noun) + (f" ({', '.join(names)})" if names else "")


class ResumeArguments(VcArguments):
    """Which schedules, in which order; all that were awake when it is empty, spark jobs first."""

    order: list[str] = Field(
        [], description="the jobs; when empty all that were awake before the newest restore, spark jobs first"
    )


class ResumeSchedules(VcStep[ResumeArguments]):
    """Let the schedules of restored jobs go on, one after the other; a start in the past fires at once."""

    kind = "vc.resume"
    effect = Effect.CHANGE

    def plan(self, args: ResumeArguments, sight: Sight) -> Iterable[Action]:
        cluster = sight.virtual_cluster(args.vc)
        name = cluster.settings.name
        order = args.order or _were_awake(sight, name)
        there = {job.name for job in listed_jobs(cluster, order)}
        missing, order = [job for job in order if job not in there], [job for job in order if job in there]
        if args.order and missing:
            raise Refused(f"there is no job {missing[0]!r}", hint="`maint vc job list` shows what there is")
        shown = f"{', '.join(order[:_SHOWN])}{' …' if len(order) > _SHOWN else ''}" or "none"
        words = f"let {show_count(len(order), 'schedule')} go on (a start in the past fires at once): {shown}"
        words += f"; gone since the restore: {show_some(missing, _SHOWN)}" if missing else ""
        yield self.action(f"virtual cluster {name}", words, {"vc": name, "order": order})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look, then let each go on; one that is awake already is left alone."""
        cluster, woken, gone = cluster_of(action, site), 0, list[str]()
        order = cast(Sequence[str], action.arguments["order"])
        for name in order:
            if (job := cluster.job(name)) is None:
                gone.append(name)
            elif job.paused:
                yield f"letting {name} go on"
                cluster.unpause(name)
                woken += 1
        noted = _note_woken(site, cluster.settings.name, order)
        lost = noted + (f"; gone since this was planned: {', '.join(gone)}" if gone else "")
        there = len(order) - len(gone)
        if not woken:
            return unchanged(f"nothing to do: {show_count(there, 'schedule')} awake already{lost}")
        others = ", the others were awake" if woken < there else ""
        return done(f"{woken} of {show_count(there, 'schedule')} let go on{others}{lost}")


def _were_awake(sight: Sight, cluster: str) -> Sequence[str]:
    """Return what the newest restore into a virtual cluster left paused."""
    found = _rests(sight, cluster)
    if not found:
        raise Refused(
            f"no restore into {cluster} is known",
            detail=[f"as far as the records in {sight.store.location} tell"],
            hint="name the jobs: `--set order=JOB,JOB`",
        )
    return [str(name) for name in cast(Sequence[str], found[-1].facts.get("awake") or ())]
