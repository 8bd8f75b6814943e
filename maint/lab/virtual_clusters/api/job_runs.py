"""Runs: list, read, kill, log types, logs (J6)."""

import io

from maint.lab.http.messages import TEXT, Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import runs
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.lists import page
from maint.lab.virtual_clusters.messages import ApiError, Request


def read_all(cluster: Cluster, request: Request) -> Response:
    """List runs, the oldest first unless asked otherwise."""
    return page(cluster, request, "runs", cluster.runs.values(), cluster.run_view, "id")


def read(cluster: Cluster, request: Request) -> Response:
    """Show a run."""
    return Response(value=cluster.run_view(_find(cluster, request)))


def kill(cluster: Cluster, request: Request) -> Response:
    """Kill a run; one that has ended stays as it is."""
    run = _find(cluster, request)
    if not runs.ended(run):
        cluster.stop_run(run)
    return Response(int(cluster.switches["vc-kill-status"]))


def log_types(cluster: Cluster, request: Request) -> Response:
    """List the logs that a run has by now, in one of three shapes (J6.1)."""
    found = [] if cluster.strikes("vc-log-missing", request.call) else runs.log_types(cluster, _find(cluster, request))
    shapes: dict[str, object] = {
        "object": {"logTypes": found},
        "strings": found,
        "objects": [{"type": kind} for kind in found],
    }
    return Response(value=shapes[cluster.switches["vc-log-types"]])


def read_log(cluster: Cluster, request: Request) -> Response:
    """Send a log, once it is there (J6.4)."""
    run, kind = _find(cluster, request), request.word("type")
    if not kind:
        raise ApiError(400, "log type is required")
    if not runs.log_readable(cluster, run, kind) or cluster.strikes("vc-log-missing", request.call):
        raise ApiError(int(cluster.switches["vc-missing-log"]), "object not found")
    path = runs.log_path(cluster, run, kind)
    length = path.stat().st_size
    if runs.log_grows(cluster, run, kind):
        return Response(stream=io.BytesIO(path.read_bytes()[: length // 2]), length=length // 2, content_type=TEXT)
    return Response(stream=path.open("rb"), length=length, content_type=TEXT)


def _find(cluster: Cluster, request: Request) -> Doc:
    run = cluster.runs.get(request.parts["run"])
    if run is None or not request.sees:
        raise ApiError(404, "job run not found")
    return run
