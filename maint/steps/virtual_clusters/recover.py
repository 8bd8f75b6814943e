"""Find a virtual cluster that is to come back, or wait for its new address, and recover it from a snapshot."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace
from pydantic import Field

from maint.config.schema import VirtualClusterSettings
from maint.errors import CannotReach, LoginRefused, MaintError, Refused, Unfinished, WorkFailed
from maint.model.certificate import pem
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.model.virtual_cluster import text_of
from maint.ports import Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.restore.conflicts import (
    Resolution,
    awake_jobs,
    dags_of,
    decide,
    left_out,
    planned_cluster,
    recovery_source,
    refuse_live_source,
)
from maint.restore.select_snapshot import chosen, manifest_fact
from maint.snapshots.prune import of_passed_over, passed_over
from maint.snapshots.virtual_clusters.document import ClusterDocument, part_name
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.restore import (
    bring_back,
    note_awake,
    of_rested,
    order_of,
    rested_jobs,
    rested_of,
    words_of,
)
from maint.steps.virtual_clusters.restorer import ClusterRestorer
from maint.steps.virtual_clusters.smoke import mended
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, own_certificate

CONFIRMED = "confirmed"  # the answer that says that another virtual cluster is to take the lost one's place
_SHOWN = 10


class FindArguments(VcArguments):
    """With which snapshot of the manager it comes back, and whether it does no harm that the source lives."""

    snapshot: str = Field(
        "", description="the manager's snapshot with which it comes back; the newest restorable one when empty"
    )
    source_gone: bool = Field(False, description="although the source still answers: it does no harm")


def _source(sight: Sight, manager_snapshot: str, name: str) -> Snapshot:
    snapshot = recovery_source(sight, chosen(sight, manager_snapshot), name)
    if snapshot is None:
        raise Refused(
            f"no snapshot to choose from holds virtual cluster {name}",
            hint="`maint backup list`; `maint backup show` tells what a snapshot holds",
        )
    return snapshot


class FindCluster(VcStep[FindArguments]):
    """Find a virtual cluster that is to come back, tell whether it is a fresh one and lacks a certificate; where
    nothing answers, the run waits until `maint playbook resume --set vc.NAME.base_url=…` says where it is.
    """

    kind = "vc.find"
    effect = Effect.READ

    def plan(self, args: FindArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        snapshot = _source(sight, args.snapshot, settings.name)
        source = read_document(sight, snapshot, settings.name).base_url
        refuse_live_source(source, sight.virtual_cluster(settings.name), gone=args.source_gone)
        arguments: dict[str, Json] = {
            "vc": settings.name,
            "snapshot": snapshot.id,
            "source": source,
            "source_gone": args.source_gone,
        }
        yield self.action(
            f"virtual cluster {settings.name}",
            f"find it at {settings.base_url}, or else wait until its new address is given"
            + of_passed_over(passed_over(sight, snapshot, part_name(settings.name))),
            arguments,
            facts=manifest_fact(snapshot),
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Look; a virtual cluster whose certificate nobody knows yet, or that is empty, is a fresh one."""
        trust_own(site, str(action.arguments["vc"]))
        cluster = cluster_of(action, site)
        settings, source = cluster.settings, str(action.arguments["source"])
        yield f"looking for {settings.name} at {settings.base_url}"
        if not cluster.answers(settings.base_url):
            raise missing(settings)
        gone = action.arguments["source_gone"] is True or work.answers.get("source_gone") is True
        refuse_live_source(source, cluster, gone=gone, waiver=f"--set vc.{settings.name}.source_gone=true")
        held, done_already = contents_of(cluster), work.answers.get("initialised") is True
        work.note("bare", held is None)
        if held and settings.base_url.rstrip("/") == source.rstrip("/") and work.noted("fresh") is not True:
            words = f"it was not lost: {held} at {settings.base_url} stay as they are"
            return unchanged(words, {"fresh": False, "bare": False, "users": False})
        if held is not None and work.noted("address") != settings.base_url:
            self._refuse_foreign(action, site, work, cluster, held)
        work.note("address", settings.base_url)  # what it holds from now on may be this run's own
        work.note("fresh", True)  # what this run brings back there does not make it the old one
        words = " without a certificate that `ca` accepts" if held is None else ""
        value: dict[str, Json] = {"bare": held is None and not done_already, "users": not done_already}
        return done(f"it answers at {settings.base_url}{words}", {"fresh": True, **value})

    @staticmethod
    def _refuse_foreign(action: Action, site: Site, work: Work, cluster: VirtualCluster, held: str) -> None:
        """Refuse a virtual cluster of another name, or that holds other things than the snapshot."""
        document = _document(action, site, cluster)
        refuse_other_name(work, cluster, document)
        if not held:
            return
        dags = left_out(document, dags_of(site, document), accept_race=False)
        if _same_already(site, work, cluster, document, Resolution(left_out=dags)):
            return
        known = {*(job.name for job in document.jobs), *(one.name for one in document.resources)}
        there = [*(job.name for job in cluster.jobs()), *(one.name for one in cluster.resources())]
        others = [name for name in there if name not in known]
        if others and work.answers.get(CONFIRMED) is not True:
            raise _other(cluster, f"it holds what the snapshot does not know: {', '.join(others[:_SHOWN])}")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether what was found still stands: somebody may have given it a certificate since."""
        trust_own(site, str(action.arguments["vc"]))
        return work.noted("bare") is not True


def trust_own(site: Site, name: str) -> str:
    """Accept the certificate that this site's `vc.init` had made, where the virtual cluster shows that very one.

    It was read from Kubernetes, over a way that is trusted; the `ca` of the config cannot know it yet.

    Returns:
        The file that holds it, empty where there is none.
    """
    path = own_certificate(site.state, name)
    if site.settings.virtual_cluster(name).tls is not None or not path.exists():
        return ""
    shown = site.virtual_cluster(name).certificates()
    made = path.read_text(errors="replace")
    if not shown or not all(pem(der) in made for der in shown.values()):
        return ""
    site.find_at(name, {"ca": str(path)})
    return str(path)


def contents_of(cluster: VirtualClusterSight) -> str | None:
    """Return in words what a virtual cluster holds, None where nobody can look inside yet."""
    try:
        jobs, resources = len(cluster.jobs()), len(cluster.resources())
    except LoginRefused:
        raise
    except CannotReach:  # it has no certificate yet, or its gateway has none: `vc.init` looks closer
        return None
    except WorkFailed as error:
        raise _being_made(cluster.settings, error) from None
    return f"{show_count(jobs, 'job')}, {show_count(resources, 'resource')}" if jobs or resources else ""


def _being_made(settings: VirtualClusterSettings, error: WorkFailed) -> Unfinished:
    """Return that what answers there is not a jobs API yet, such as an ingress without its service (J8)."""
    return Unfinished(
        f"virtual cluster {settings.name} is not ready: {error.message}",
        detail=[f"a new one needs some minutes: wait until the vendor's UI shows {settings.name} as running"],
        hint="then take the run up again with `maint playbook resume`",
    )


def missing(settings: VirtualClusterSettings) -> Unfinished:
    """Return what a person must do now: no call of any API makes a virtual cluster (J8)."""
    key = f"vc.{settings.name}.base_url"
    return Unfinished(
        f"virtual cluster {settings.name} is missing: nothing answers at {settings.base_url}",
        needs=[key],
        detail=[
            f"where {settings.name} was not lost, it answers once its cluster runs (`maint manager start`, with "
            "`--cluster NAME`): then resume without `--set`",
            f"where it was lost: in the vendor's UI (Data Engineering), create a virtual cluster {settings.name} with "
            "the Spark version that it had; where the whole service is gone, enable the service first",
            "its new address is on its details page (the jobs API's: https://ID.cde-SERVICEID.DOMAIN/dex/api/v1)",
            f"give {settings.login.username} its resource role (DEUser) where the environment is a new one",
            "the rest is done when the run is taken up: certificate, users, resources and jobs, a smoke test",
        ],
        hint="then take the run up again with `maint playbook resume`",
    )


class RecoverArguments(VcArguments):
    """With which snapshot of the manager it comes back, and whether DAGs do that may run before they are paused."""

    snapshot: str = Field("", description="as for `vc.find`")
    accept_dag_race: bool = Field(False, description="bring back DAGs too that may run before they are paused")


class RecoverCluster(VcStep[RecoverArguments]):
    """Bring a snapshot's resources and jobs into a fresh virtual cluster, schedules paused, and compare; what it is
    decided from is the snapshot alone, and where a name is taken already, nothing is done.
    """

    kind = "vc.recover"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: RecoverArguments, sight: Sight) -> Iterable[Action]:
        """Decide what comes back by the snapshot alone; `vc.find` and the run itself look at the virtual cluster."""
        name = sight.settings.virtual_cluster(args.vc).name
        snapshot = _source(sight, args.snapshot, name)
        document = read_document(sight, snapshot, name)
        dags = dags_of(sight, document)
        decided = Resolution(left_out=left_out(document, dags, accept_race=args.accept_dag_race))
        rested = rested_jobs(sight, document)
        arguments: dict[str, Json] = {"vc": name, "snapshot": snapshot.id, "decided": decided.to_json()}
        yield self.action(
            f"virtual cluster {name}",
            f"bring snapshot {snapshot.id} into it, schedules paused: {words_of(document, decided)}{of_rested(rested)}",
            {**arguments, "order": list(order_of(dags)), "rested": list(rested)},
            facts={"decided": decided.to_json(), "taken_at": document.taken_at, **manifest_fact(snapshot)},
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """See that nothing is in the way, then restore; once begun, what is there is this run's own."""
        known = trust_own(site, str(action.arguments["vc"]))
        cluster = cluster_of(action, site)
        if work.noted("began") is None:
            try:
                document, decided = _document(action, site, cluster), Resolution.from_json(action.arguments["decided"])
                refuse_other_name(work, cluster, document)
                host = urlsplit(cluster.settings.base_url).hostname
                yield f"looking whether {host} holds anything of that name already"
                same = _same_already(site, work, cluster, document, decided)
            except CannotReach as error:
                raise mended(error, cluster.settings, site.state) from None
            if same:
                found = f"it is as the snapshot has it already: {words_of(document, decided)}"
                awake = awake_jobs(
                    document, decided, rested=rested_of(action)
                )  # all of them rest: an attempt that was given up brought them
                unnoted = note_awake(site, work, str(action.arguments["snapshot"]), cluster.settings.name, awake)
                words = f"{found}; {unnoted}" if unnoted else found
                return unchanged(words, {"snapshot": action.arguments["snapshot"], "awake": [*awake]})
            work.note("began", True)
        result = yield from bring_back(action, site, work)
        value = {**result.value, "ca": known} if known and isinstance(result.value, Mapping) else result.value
        return replace(result, value=value)


def _same_already(
    site: Site, work: Work, cluster: VirtualCluster, document: ClusterDocument, decided: Resolution
) -> bool:
    """Whether a virtual cluster is as the snapshot has it; False where none of the names is there."""
    try:
        decide(document, cluster, "refuse", {}, accept_race=True)
    except Refused as taken:
        restorer = ClusterRestorer(site, cluster, document, decided, work)
        if restorer.differences() or restorer.left:
            raise _not_fresh(taken, cluster) from None
        return True
    return False


def refuse_other_name(work: Work, cluster: VirtualCluster, document: ClusterDocument | None = None) -> None:
    """Refuse a virtual cluster that calls itself otherwise than the one that is to come back (J8).

    Args:
        work: whose answers may confirm it.
        document: what knows how it called itself; None: as the config does.

    Raises:
        Refused: it is another one, and the operator did not confirm it.
    """
    settings = cluster.settings
    if work.answers.get(CONFIRMED) is True:
        return
    expected = {settings.name}
    if document is not None:
        expected.add(text_of(document.info, "appName") or settings.name)
    found = text_of(cluster.info(), "appName")
    if found not in expected:
        raise _other(cluster, f"it calls itself {found or 'nothing'}")


def _other(cluster: VirtualCluster, why: str) -> Refused:
    settings = cluster.settings
    return Refused(
        f"what answers at {settings.base_url} is not virtual cluster {settings.name}: {why}",
        detail=["none of its jobs, resources and users' secrets was touched"],
        hint=f"`--set vc.{settings.name}.base_url=…` names the right one; where this one is to take its place, "
        f"`--set vc.{settings.name}.{CONFIRMED}=true` says so",
    )


def _document(action: Action, site: Sight, cluster: VirtualCluster) -> ClusterDocument:
    name = cluster.settings.name
    return read_document(site, planned_cluster(site, action, name), name)


def _not_fresh(taken: Refused, cluster: VirtualCluster) -> MaintError:
    name = cluster.settings.name
    return Refused(
        f"{name} at {cluster.settings.base_url} is not a fresh virtual cluster: {taken.message}",
        detail=[*taken.detail, "nothing in it was touched"],
        hint=f"is it the right one (`--set vc.{name}.base_url=…` names another)? Else take away what is named, "
        f"or say `--set vc.{name}.skip=true` and then `maint vc restore --vc {name} --on-conflict …`",
    )
