"""Jobs and their runs: list, create, read, update, delete, run, kill, logs (J4, J6)."""

import copy
import io

from maint.lab.http.messages import TEXT, Response
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import definitions, runs, schedules, tick
from maint.lab.virtual_clusters.application import mounted_files, within_mount
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.engine import refused
from maint.lab.virtual_clusters.lists import page
from maint.lab.virtual_clusters.messages import ApiError, Request
from maint.lab.virtual_clusters.store import ObjectStore


def read_all(cluster: Cluster, request: Request) -> Response:
    """List jobs."""
    latest = request.flag("latestjob")
    entries = [job for job in cluster.jobs.values() if shows(cluster, job)]
    return page(cluster, request, "jobs", entries, lambda job: cluster.job_view(job, latest=latest), "name")


def read(cluster: Cluster, request: Request) -> Response:
    """Show a job."""
    return Response(
        value=cluster.job_view(named_object(cluster.jobs, request, "job"), latest=request.flag("latestjob"))
    )


def create(cluster: Cluster, request: Request) -> Response:
    """Create a job; spark and airflow share one name space (J4.3)."""
    job = _definition(cluster, request.document())
    if job["name"] in cluster.jobs:
        raise ApiError(int(cluster.switches["vc-duplicate-job"]), "job with name already exists")
    _check_mounts(cluster, job)
    stamp = cluster.stamp()
    job |= {"created": stamp, "modified": stamp, "retentionPolicy": job.get("retentionPolicy") or "keep_indefinitely"}
    job["_"] = {}
    _own_schedule(cluster, request, job)
    if job["type"] == "airflow":
        tick.begin_parsing(cluster, job)
    cluster.jobs.put(str(job["name"]), job)
    return Response(201, cluster.job_view(job) if cluster.switches["vc-create-body"] == "object" else None)


def update(cluster: Cluster, request: Request) -> Response:
    """Change a job: keys that are given replace, whether others stay is a switch (J4.1)."""
    before = named_object(cluster.jobs, request, "job")
    given = request.document()
    if not isinstance(given, dict):
        raise ApiError(400, "json: cannot unmarshal into a job")
    kept = copy.deepcopy(before) if cluster.switches["vc-patch"] == "merge" else {}
    shown = {name: value for name, value in kept.items() if name != "_"}
    job = _definition(cluster, shown | given | {"name": before["name"], "type": before["type"]})
    _check_mounts(cluster, job)
    server_set = {name: before[name] for name in ("created", "lastUsed", "_") if name in before}
    job |= server_set | {
        "modified": cluster.stamp(),
        "retentionPolicy": job.get("retentionPolicy") or "keep_indefinitely",
    }
    _own_schedule(cluster, request, job, before)
    if job["type"] == "airflow":
        job["airflow"] |= {"dagID": before["airflow"]["dagID"]} if "dagID" in before["airflow"] else {}
        tick.begin_parsing(cluster, job)
    cluster.jobs.put(str(job["name"]), job)
    return _answer(cluster, "vc-update-status", cluster.job_view(job))


def delete(cluster: Cluster, request: Request) -> Response:
    """Delete a job; its runs stay."""
    cluster.jobs.drop(str(named_object(cluster.jobs, request, "job")["name"]))
    return _answer(cluster, "vc-delete-status")


def run(cluster: Cluster, request: Request) -> Response:
    """Start a run, once for each requestID (J3.5, J4.5)."""
    job = cluster.jobs.get(request.parts["job"])
    if job is None:
        raise ApiError(404, "could not get job from storage: job not found")
    wish = _wish(request)
    known = cluster.starts.get(wish.request_id) if wish.request_id else None
    if known:
        raise ApiError(409, "a run with this requestID exists already", id=known["id"])
    if "parse" in (job.get("_") or {}):
        tick.parse(cluster, job)
    reason = refused(cluster, job)
    if reason:
        paused = job["type"] == "airflow"
        raise ApiError(int(cluster.switches["vc-paused-run" if paused else "vc-env-not-ready"]), reason)
    started = runs.create(cluster, job, wish)
    return Response(201, {"id": started["id"]} if cluster.switches["vc-run-answer"] == "id" else None)


def named_object(kept: ObjectStore, request: Request, part: str, called: str = "") -> Doc:
    """Return the object that a part of the path names; one that cannot be seen is not there."""
    entry = kept.get(request.parts[part])
    if entry is None or not request.sees:
        raise ApiError(404, f"{called or part} not found")
    return entry


def shows(cluster: Cluster, entry: Doc) -> bool:
    """Return whether lists show an object (J14)."""
    return not entry.get("hidden") or cluster.switches["vc-hidden"] == "listed"


def _answer(cluster: Cluster, switch: str, value: Doc | None = None) -> Response:
    status = int(cluster.switches[switch])
    return Response(status, None if status == 204 else value)


def _wish(request: Request) -> runs.Wish:
    given = definitions.take(request.document(), definitions.RUN)
    user = str(given.get("user") or request.user)
    return runs.Wish(
        user, given.get("variables") or {}, given.get("overrides") or {}, str(given.get("requestID") or "")
    )


def _definition(cluster: Cluster, given: object) -> Doc:
    return definitions.job(given, keep=cluster.switches["vc-unknown-keys"] == "keep")


def _check_mounts(cluster: Cluster, job: Doc) -> None:
    mounted = [str(mount.get("resourceName")) for mount in job.get("mounts") or ()]
    missing = [name for name in mounted if name not in cluster.resources and name not in cluster.repositories]
    if missing and cluster.switches["vc-missing-mount"] == "refuse":
        raise ApiError(400, f"resource '{missing[0]}' not found")
    if len(mounted) > 100:
        raise ApiError(400, "a job has at most 100 mounts")
    wanted = within_mount(str(job["spark"]["file"] if job["type"] == "spark" else job["airflow"]["dagFile"]))
    there = wanted is None or any(place == wanted for place, _ in mounted_files(cluster, job.get("mounts") or ()))
    if not there and cluster.switches["vc-missing-file"] == "refuse":
        raise ApiError(400, f"file '{wanted}' not found in mounted resources")


def _own_schedule(cluster: Cluster, request: Request, job: Doc, before: Doc | None = None) -> None:
    """Complete a schedule with what the server knows: its owner, and how it was created (J7)."""
    old = (before or {}).get("schedule") or {}
    schedule: Doc = {"enabled": False} | (job.get("schedule") or {})
    given = schedule.get("user", "") if cluster.switches["vc-schedule-user"] == "given" else ""
    schedule["user"] = given or old.get("user", "") or request.user
    if job["type"] == "spark" and not before:
        schedule["pausedUponCreation"] = bool(schedule["enabled"] and schedule.get("paused"))
    elif old.get("pausedUponCreation"):
        schedule["pausedUponCreation"] = True
    if job["type"] == "airflow" and before:
        schedule["paused"] = bool(old.get("paused"))  # only pause and unpause do that (J4.4)
    job["schedule"] = schedule


def act(cluster: Cluster, request: Request) -> Response:
    """Pause or unpause a job's schedule; what became due while it was paused fires at once (J4.4)."""
    job, action = named_object(cluster.jobs, request, "job"), request.parts["action"]
    inner = job.get("_") or {}
    if "parse" in inner and "dag" not in inner and cluster.switches["vc-pause-unparsed"] == "refused":
        raise ApiError(400, f"no DAG of job {job['name']} is known")
    if "parse" in inner and ("dag" in inner or cluster.switches["vc-pause-unparsed"] != "overruled"):
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


def read_runs(cluster: Cluster, request: Request) -> Response:
    """List runs, the oldest first unless asked otherwise."""
    return page(cluster, request, "runs", cluster.runs.values(), cluster.run_view, "id")


def read_run(cluster: Cluster, request: Request) -> Response:
    """Show a run."""
    return Response(value=cluster.run_view(_run(cluster, request)))


def kill_run(cluster: Cluster, request: Request) -> Response:
    """Kill a run; one that has ended stays as it is."""
    run = _run(cluster, request)
    if not runs.ended(run):
        cluster.stop_run(run)
    return Response(int(cluster.switches["vc-kill-status"]))


def log_types(cluster: Cluster, request: Request) -> Response:
    """List the logs that a run has by now, in one of three shapes (J6.1)."""
    found = [] if cluster.strikes("vc-log-missing", request.call) else runs.log_types(cluster, _run(cluster, request))
    shapes: dict[str, object] = {
        "object": {"logTypes": found},
        "strings": found,
        "objects": [{"type": kind} for kind in found],
    }
    return Response(value=shapes[cluster.switches["vc-log-types"]])


def read_log(cluster: Cluster, request: Request) -> Response:
    """Send a log, once it is there (J6.4)."""
    run, kind = _run(cluster, request), request.word("type")
    if not kind:
        raise ApiError(400, "log type is required")
    if not runs.log_readable(cluster, run, kind) or cluster.strikes("vc-log-missing", request.call):
        raise ApiError(int(cluster.switches["vc-missing-log"]), "object not found")
    path = runs.log_path(cluster, run, kind)
    length = path.stat().st_size
    if runs.log_grows(cluster, run, kind):
        return Response(stream=io.BytesIO(path.read_bytes()[: length // 2]), length=length // 2, content_type=TEXT)
    return Response(stream=path.open("rb"), length=length, content_type=TEXT)


def _run(cluster: Cluster, request: Request) -> Doc:
    return named_object(cluster.runs, request, "run", "job run")
