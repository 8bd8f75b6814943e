"""Find a virtual cluster that is to come back; where it does not answer, the run waits for its new address."""

import ssl
from collections.abc import Iterable

from pydantic import Field

from maint.config.schema import VirtualClusterSettings
from maint.errors import CannotReach, LoginRefused, Refused, Unfinished, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, VirtualClusterSight, Work
from maint.restore.conflicts import beside
from maint.restore.select_snapshot import chosen
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, own_certificate


class FindArguments(VcArguments):
    """With which snapshot of the manager it comes back, and whether it does no harm that the source lives."""

    snapshot: str = Field(
        "", description="the manager's snapshot with which it comes back; the newest restorable one when empty"
    )
    source_gone: bool = Field(False, description="although the source still answers: it does no harm")


class FindCluster(VcStep[FindArguments]):
    """Looks for a virtual cluster; tells whether it is a fresh one, and whether it lacks a certificate."""

    kind = "vc.find"
    help = (
        "Find a virtual cluster that is to come back, tell whether it is a fresh one and lacks a certificate; where "
        "nothing answers, the run waits until `maint playbook resume --set vc.NAME.base_url=…` says where it is."
    )
    effect = Effect.READ
    arguments = FindArguments

    def plan(self, args: FindArguments, sight: Sight) -> Iterable[Action]:
        """Say what is looked for, without looking: whether it is there already changes nothing of the plan."""
        settings = sight.settings.virtual_cluster(args.vc)
        snapshot = beside(sight, chosen(sight, args.snapshot), settings.name)
        if snapshot is None:
            raise Refused(
                f"no snapshot to choose from holds virtual cluster {settings.name}",
                hint="`maint backup show` tells what a snapshot holds",
            )
        source = read_document(sight, snapshot, settings.name).base_url
        self.refuse_living(sight, settings.name, source, source_gone=args.source_gone)
        arguments: dict[str, Json] = {"vc": settings.name, "source": source, "source_gone": args.source_gone}
        yield self.action(
            f"virtual cluster {settings.name}",
            f"find it at {settings.base_url}, or else wait until its new address is told",
            arguments,
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
        self.refuse_living(site, settings.name, source, source_gone=gone, again=True)
        held, done_already = _held(cluster), work.answers.get("initialised") is True
        work.note("bare", held is None)
        if held and settings.base_url.rstrip("/") == source.rstrip("/") and work.noted("fresh") is not True:
            words = f"it was not lost: {held} at {settings.base_url} stay as they are"
            return unchanged(words, {"fresh": False, "bare": False, "users": False})
        work.note("fresh", True)  # what this run brings back there does not make it the old one
        words = " without a certificate that `ca` accepts" if held is None else ""
        value: dict[str, Json] = {"bare": held is None and not done_already, "users": not done_already}
        return done(f"it answers at {settings.base_url}{words}", {"fresh": True, **value})

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether what was found still stands: somebody may have given it a certificate since."""
        trust_own(site, str(action.arguments["vc"]))
        return work.noted("bare") is not True

    @staticmethod
    def refuse_living(sight: Sight, name: str, source: str, *, source_gone: bool, again: bool = False) -> None:
        """Refuse while the source still answers at another address (contract section 14, pitfall 2).

        Args:
            sight: the site.
            name: the virtual cluster.
            source: where it was when the snapshot was taken.
            source_gone: whether it does no harm.
            again: whether this is a run that is taken up.

        Raises:
            Refused: it answers there.
        """
        live = sight.virtual_cluster(name)
        if source_gone or source.rstrip("/") == live.settings.base_url.rstrip("/") or not live.answers(source):
            return
        waiver = f"`--set vc.{name}.source_gone=true`" if again else "`--source-gone`"
        raise Refused(
            f"the virtual cluster that the snapshot was taken of still answers at {source}",
            detail=["two live copies would run every scheduled job twice"],
            hint=f"pause its schedules or take it away; {waiver} says that it does no harm",
        )


def trust_own(site: Site, name: str) -> str:
    """Accept the certificate that this site's `vc.init` had made, where the virtual cluster shows that very one.

    It was read from Kubernetes, over a way that is trusted; the `ca` of the config cannot know it yet.

    Args:
        site: the site.
        name: the virtual cluster.

    Returns:
        The file that holds it, empty where there is none.
    """
    path = own_certificate(site.state, name)
    if site.settings.virtual_cluster(name).tls is not None or not path.exists():
        return ""
    shown = site.virtual_cluster(name).certificates()
    made = path.read_text()
    if not shown or not all(ssl.DER_cert_to_PEM_cert(der) in made for der in shown.values()):
        return ""
    site.find_at(name, {"ca": str(path)})
    return str(path)


def _held(cluster: VirtualClusterSight) -> str | None:
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
    """Return that somebody answers there who is no jobs API yet: an ingress without its service, say (section 8)."""
    return Unfinished(
        f"virtual cluster {settings.name} is not ready: {error.message}",
        detail=[f"a new one needs some minutes: wait until the vendor's UI shows {settings.name} as running"],
    )


def missing(settings: VirtualClusterSettings) -> Unfinished:
    """Return what a person must do now: no call of any API makes a virtual cluster (contract section 8)."""
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
    )
