"""What a virtual cluster says of itself, and lists that are empty here (contract on the jobs API, section 8)."""

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import Request, Response


def info(cluster: Cluster, request: Request) -> Response:
    """Tell its name."""
    del request
    return Response(value={"appName": cluster.switches["vc-app-name"] or cluster.identity.name})


def credentials(cluster: Cluster, request: Request) -> Response:
    """List credentials."""
    del cluster, request
    return Response(value=_empty("credentials"))


def repositories(cluster: Cluster, request: Request) -> Response:
    """List git repositories."""
    del cluster, request
    return Response(value=_empty("repositories"))


def _empty(noun: str) -> Doc:
    return {noun: [], "meta": {"hasNext": False, "limit": 20, "offset": 0, "count": 0}}
