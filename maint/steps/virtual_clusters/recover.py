"""Bring a virtual cluster back whose address nobody knew when the run was planned: nothing that is there is touched."""

from collections.abc import Generator, Iterable, Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace
from pydantic import Field

from maint.errors import CannotReach, MaintError, Refused
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, VirtualCluster, Work
from maint.restore.conflicts import Resolution, beside, chosen_cluster, dags_of, decide, left_out
from maint.restore.select_snapshot import chosen
from maint.snapshots.virtual_clusters.document import ClusterDocument
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.step import Progress, unchanged
from maint.steps.virtual_clusters.locate import trust_own
from maint.steps.virtual_clusters.restore import bring_back, order_of, words_of
from maint.steps.virtual_clusters.restorer import Bringing
from maint.steps.virtual_clusters.smoke import mended
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of


class RecoverArguments(VcArguments):
    """With which snapshot of the manager it comes back, and whether DAGs do that may run before they are paused."""

    snapshot: str = Field("", description="as for `vc.find`")
    accept_dag_race: bool = Field(False, description="bring back DAGs too that may run before they are paused")


class RecoverCluster(VcStep[RecoverArguments]):
    """Restores into a virtual cluster that may not exist while this is planned."""

    kind = "vc.recover"
    help = (
        "Bring a snapshot's resources and jobs into a fresh virtual cluster, schedules paused, and compare; what it is "
        "decided from is the snapshot alone, and where a name is taken already, nothing is done."
    )
    effect = Effect.CHANGE
    arguments = RecoverArguments

    def plan(self, args: RecoverArguments, sight: Sight) -> Iterable[Action]:
        """Decide what comes back by the snapshot alone; `vc.find` and the run itself look at the virtual cluster."""
        name = sight.settings.virtual_cluster(args.vc).name
        snapshot = beside(sight, chosen(sight, args.snapshot), name)
        if snapshot is None:
            raise Refused(f"no snapshot to choose from holds virtual cluster {name}", hint="`maint backup list`")
        document = read_document(sight, snapshot, name)
        dags = dags_of(sight, document)
        decided = Resolution(left_out=left_out(document, dags, accept_race=args.accept_dag_race))
        yield self.action(
            f"virtual cluster {name}",
            f"bring snapshot {snapshot.id} into it, schedules paused: {words_of(document, decided)}",
            {"vc": name, "snapshot": snapshot.id, "decided": decided.to_json(), "order": list(order_of(dags))},
            facts={"decided": decided.to_json(), "taken_at": document.taken_at},
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """See that nothing is in the way, then restore; once begun, what is there is this run's own."""
        known = trust_own(site, str(action.arguments["vc"]))
        cluster = cluster_of(action, site)
        if work.noted("began") is None:
            try:
                found = yield from self._in_the_way(action, site, work, cluster)
            except CannotReach as error:
                raise mended(error, cluster.settings, site.state) from None
            if found is not None:
                return unchanged(found, {"snapshot": action.arguments["snapshot"], "awake": []})
            work.note("began", True)
        result = yield from bring_back(action, site, work)
        value = {**result.value, "ca": known} if known and isinstance(result.value, Mapping) else result.value
        return replace(result, value=value)

    def _in_the_way(
        self, action: Action, site: Site, work: Work, cluster: VirtualCluster
    ) -> Generator[str, None, str | None]:
        """Return in words that it is as the snapshot has it already, None where it is empty enough.

        Raises:
            Refused: names are taken, and by something else.
        """
        document = _document(action, site, cluster)
        decided = Resolution.from_json(action.arguments["decided"])
        yield f"looking whether {urlsplit(cluster.settings.base_url).hostname} holds anything of that name already"
        try:
            decide(document, cluster, "refuse", {}, accept_race=True)
        except Refused as taken:
            bringing = Bringing(site, cluster, document, decided, work)
            if bringing.differences() or bringing.left:
                raise _taken(taken, cluster) from None
            return f"it is as the snapshot has it already: {words_of(document, decided)}"
        return None


def _document(action: Action, site: Sight, cluster: VirtualCluster) -> ClusterDocument:
    name = cluster.settings.name
    return read_document(site, chosen_cluster(site, str(action.arguments["snapshot"]), name), name)


def _taken(taken: Refused, cluster: VirtualCluster) -> MaintError:
    name = cluster.settings.name
    return Refused(
        f"{name} at {cluster.settings.base_url} is no fresh virtual cluster: {taken.message}",
        detail=[*taken.detail, "nothing in it was touched"],
        hint=f"is it the right one (`--set vc.{name}.base_url=…` names another)? Else take away what is named, "
        f"or say `--set vc.{name}.skip=true` and then `maint vc restore --vc {name} --on-conflict …`",
    )
