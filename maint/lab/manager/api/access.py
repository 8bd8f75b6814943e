"""What an account may do (contract section 2.2, U23)."""

from maint.lab.manager.accounts import ADMIN, CLUSTER_ADMIN, Grant, grants
from maint.lab.manager.api.messages import ApiError
from maint.lab.manager.api.routes import ADMINISTER, FULL, OPERATE, PRIVILEGED, READ
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World

_ROLES: dict[str, frozenset[str]] = {
    OPERATE: frozenset({ADMIN, CLUSTER_ADMIN, "ROLE_OPERATOR", "ROLE_CONFIGURATOR"}),
    ADMINISTER: frozenset({ADMIN, CLUSTER_ADMIN}),
    FULL: frozenset({ADMIN}),
}
_PRIVILEGED = {"administrator": FULL, "cluster-administrator": ADMINISTER, "any": READ}


def require(world: World, user: Doc, needs: str, cluster: str = "") -> None:
    """Raise the 403 of an account whose role is too weak.

    Args:
        needs: what the route asks for.
        cluster: the cluster that the path names, "" for none.
    """
    if needs == PRIVILEGED:
        needs = _PRIVILEGED[world.switches["privileged-role"]]
    if needs == READ or any(_allows(grant, _ROLES[needs], cluster) for grant in grants(world.deployment, user)):
        return
    raise ApiError(403, "Access is denied")


def _allows(grant: Grant, roles: frozenset[str], cluster: str) -> bool:
    return grant.role in roles and (grant.clusters is None or cluster in grant.clusters)
