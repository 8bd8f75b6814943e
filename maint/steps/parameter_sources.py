"""Lists that playbooks begin from: what a site and its snapshots know when a plan is made, by looking only."""

from collections.abc import Callable, Mapping, Sequence

from maint.model.json import Json
from maint.model.plan import ParameterSource
from maint.ports import Sight
from maint.restore.conflicts import beside
from maint.restore.select_snapshot import chosen

Lister = Callable[[Sight, Mapping[str, Json]], Sequence[str]]


def kept_clusters(sight: Sight, values: Mapping[str, Json]) -> Sequence[str]:
    """Return the virtual clusters that the config names and that come back with the snapshot of `snapshot`."""
    known = [one.name for one in sight.settings.virtual_clusters]
    if not known:
        return ()
    snapshot = chosen(sight, str(values.get("snapshot") or ""))
    return [name for name in known if beside(sight, snapshot, name) is not None]


def cluster_users(sight: Sight, values: Mapping[str, Json]) -> Sequence[str]:
    """Return the users that the config gives the virtual cluster of the parameter `vc`."""
    return [user.name for user in sight.settings.virtual_cluster(str(values.get("vc") or "")).users]


LISTS: dict[ParameterSource, Lister] = {
    ParameterSource.VIRTUAL_CLUSTERS: kept_clusters,
    ParameterSource.USERS: cluster_users,
}
