"""Show what a planned restore would meet and do, beside its plan."""

from collections.abc import Mapping

from maint.cli.composition import ConfiguredSite
from maint.model.json import Json
from maint.model.plan import Action, Plan
from maint.restore.preview import preview
from maint.steps.restore.deployment import AddClusters, PutDeployment, outgoing_of
from maint.steps.virtual_clusters.locate import FindCluster


def restore_preview(site: ConfiguredSite, plan: Plan) -> tuple[dict[str, Json], str]:
    """Return what a plan that restores would meet, for programs and for people."""
    sending = (PutDeployment.kind, AddClusters.kind)
    action = next(action for action in plan.actions if action.kind in sending)
    found = preview(site, outgoing_of(action, site), action.facts["present"])
    clusters = [_look(site, one) for one in plan.actions if one.kind == FindCluster.kind]
    lines = [f"virtual   {one['name']} at {one['base_url']}: {_fate(one)}" for one in clusters]
    return {**found.to_json(), "virtual_clusters": clusters}, "\n".join(
        [*found.lines(), *lines, f"digest    {plan.digest}"]
    )


def _look(site: ConfiguredSite, action: Action) -> dict[str, Json]:
    """Return whether a virtual cluster that is to come back answers by now; no part of the plan's digest."""
    cluster = site.virtual_cluster(str(action.arguments["vc"]))
    settings = cluster.settings
    return {"name": settings.name, "base_url": settings.base_url, "answers": cluster.answers(settings.base_url)}


def _fate(one: Mapping[str, Json]) -> str:
    if one["answers"]:
        return "answers"
    return "does not answer; where it still does not once the manager is back, the run stops and says what to do"
