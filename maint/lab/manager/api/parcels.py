"""Parcels of a cluster (contract section 10.4)."""

from maint.lab.manager.api.lookup import cluster_of
from maint.lab.manager.api.messages import Request, Response, listing
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World


def read_all(world: World, request: Request) -> Response:
    """List parcels, each product and version once, in its furthest stage."""
    cluster = cluster_of(world, request)
    found: dict[tuple[str, str], Doc] = {}
    for parcel in cluster.get("parcels") or []:
        key = (str(parcel.get("product")), str(parcel.get("version")))
        if key not in found or parcel.get("stage") == "ACTIVATED":
            found[key] = parcel
    return listing([_shown(parcel, cluster) for parcel in found.values()])


def _shown(parcel: Doc, cluster: Doc) -> Doc:
    state = {"progress": 0, "totalProgress": 0, "count": 0, "totalCount": 0, "errors": [], "warnings": []}
    return {**parcel, "state": state, "clusterRef": {"clusterName": cluster["name"]}}
