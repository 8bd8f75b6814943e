"""Show what a planned restore would meet and do, beside its plan."""

from maint.cli.site import ConfiguredSite
from maint.model.json import Json
from maint.model.plan import Plan
from maint.restore.preview import preview
from maint.steps.deployment import AddClusters, PutDeployment, outgoing_of


def restore_preview(site: ConfiguredSite, plan: Plan) -> tuple[dict[str, Json], str]:
    """Return what a plan that restores would meet, for programs and for people."""
    sending = (PutDeployment.kind, AddClusters.kind)
    action = next(action for action in plan.actions if action.kind in sending)
    found = preview(site, outgoing_of(action, site), action.facts["present"])
    return found.to_json(), "\n".join([*found.lines(), f"digest    {plan.digest}"])
