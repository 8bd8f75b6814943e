"""Actions on schedules: pause, unpause, clear, mark-success (contract on the jobs API, section 7)."""

from maint.lab.virtual_clusters import schedules, tick
from maint.lab.virtual_clusters.api.jobs import find
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.messages import ApiError, Request, Response


def act(cluster: Cluster, request: Request) -> Response:
    """Pause or unpause a job's schedule; what became due while it was paused fires at once (section 4.4)."""
    job, action = find(cluster, request), request.parts["action"]
    if "parse" in (job.get("_") or {}):
        tick.parse(cluster, job)
    if action == "pause":
        schedules.pause(job)
    elif action == "unpause":
        schedules.unpause(job)
    elif action not in ("clear", "mark-success"):
        raise ApiError(404, f"unknown schedule action {action!r}")
    if cluster.switches["vc-pause-modifies"] == "yes":
        job["modified"] = cluster.stamp()
    cluster.jobs.put(str(job["name"]), job)
    return Response(int(cluster.switches["vc-pause-status"]))
