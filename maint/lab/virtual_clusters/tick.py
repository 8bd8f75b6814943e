"""Changes that time brings: environments are built, DAG files parsed, schedules fire."""

from datetime import timedelta

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import application, dagfile, runs, schedules, times
from maint.lab.virtual_clusters.cluster import Cluster

_ACTIVE_AT_ONCE = 16  # of one DAG, catching up


def settle(cluster: Cluster) -> None:
    """Bring a virtual cluster up to the present."""
    with cluster.lock:
        for resource in cluster.resources.values():
            _build(cluster, resource)
        for job in cluster.jobs.values():
            if job["type"] == "airflow":
                _parse_when_due(cluster, job)
            _fire(cluster, job)


def begin_build(cluster: Cluster, resource: Doc) -> None:
    """Begin to build a Python environment, because its requirements came (J5.4)."""
    seconds = cluster.switches.number("vc-env-seconds")
    failing = cluster.strikes("vc-build-fails") or cluster.switches["vc-env-build"] == "fail"
    resource["status"] = "building"
    resource["_"] = {"built": (cluster.now() + timedelta(seconds=seconds)).timestamp(), "fails": failing}
    resource.pop("pythonEnvInfo", None)


def begin_parsing(cluster: Cluster, job: Doc) -> None:
    """Have a DAG file parsed in a while, because its job was created or updated (J4.4)."""
    due = cluster.now() + timedelta(seconds=cluster.switches.number("vc-dag-seconds"))
    job.setdefault("_", {})["parse"] = due.timestamp()


def parse(cluster: Cluster, job: Doc) -> None:
    """Parse the DAG file of a job: the file is the truth for id and schedule (J4.4)."""
    inner = job.setdefault("_", {})
    inner.pop("parse", None)
    text = dag_text(cluster, job)
    first = "dag" not in inner
    inner["dag"] = text
    try:
        dag = dagfile.parse(text)
        schedules.parse_cron(dag.schedule)
    except ValueError:
        cluster.jobs.put(str(job["name"]), job)  # the run says what is wrong with it
        return
    before = job.get("schedule") or {}
    asked = bool(before.get("paused"))
    paused = (dag.paused or (asked and not dag.schedule)) if first else asked
    job["airflow"]["dagID"] = dag.id
    job["schedule"] = {
        "enabled": bool(dag.schedule),
        "user": before.get("user", ""),
        "catchup": dag.catchup,
        "paused": paused,
    }
    if dag.schedule:
        start = times.http_date(dag.start) if dag.start else ""
        end = times.milliseconds(dag.end) if dag.end else ""
        found = {"cronExpression": dag.schedule, "start": start, "end": end, "pausedUponCreation": dag.paused}
        job["schedule"] |= found
    else:
        job["schedule"].pop("catchup")
    cluster.jobs.put(str(job["name"]), job)


def dag_text(cluster: Cluster, job: Doc) -> str:
    """Return the text of the DAG file that a job mounts, "" where there is none."""
    wanted = application.within_mount(str(job["airflow"]["dagFile"]))
    for place, entry in application.mounted_files(cluster, job.get("mounts") or ()):
        if place == wanted:
            return cluster.files.blob(entry["signature"]).read_text(errors="replace")
    return ""


def _parse_when_due(cluster: Cluster, job: Doc) -> None:
    due = (job.get("_") or {}).get("parse")
    if due is not None and cluster.now().timestamp() >= due:
        parse(cluster, job)


def _build(cluster: Cluster, resource: Doc) -> None:
    inner = resource.get("_") or {}
    if resource["status"] != "building" or cluster.now().timestamp() < inner.get("built", 0):
        return
    requirements = cluster.files.entry(str(resource["name"]), "requirements.txt")
    packages = 0
    if requirements:
        lines = cluster.files.blob(requirements["signature"]).read_text(errors="replace").splitlines()
        packages = len([line for line in lines if line.strip() and not line.lstrip().startswith("#")])
    failed = bool(inner.get("fails"))
    resource["status"] = "failed" if failed else "ready"
    reason = "Build failed: could not find a version that satisfies the requirement" if failed else "Build completed"
    seconds = max(1, round(cluster.switches.number("vc-env-seconds")))
    sizes = (
        {} if failed else {"sizeMb": 20 + 40 * packages, "numberOfFiles": 1000 * packages, "numberOfPackages": packages}
    )
    resource["pythonEnvInfo"] = {"statusReason": reason, "buildDurationSeconds": seconds, **sizes}
    cluster.resources.put(str(resource["name"]), resource)


def _fire(cluster: Cluster, job: Doc) -> None:
    for _ in range(_ACTIVE_AT_ONCE):
        logical = schedules.due(job, cluster.now())
        if logical is None or _active(cluster, job) >= _ACTIVE_AT_ONCE:
            return
        schedules.fired(job, logical)
        owner = str((job.get("schedule") or {}).get("user") or "")
        runs.create(cluster, job, runs.Wish(owner, logical=logical))


def _active(cluster: Cluster, job: Doc) -> int:
    return sum(1 for run in cluster.runs.values() if run["job"] == job["name"] and not runs.ended(run))
