"""Fill a virtual cluster with the example set: resources, files, jobs, runs, logs."""

import base64
import copy
import json
from pathlib import Path

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import cron, dagfile, logs, runs, tick, times
from maint.lab.virtual_clusters.cluster import Cluster

EXAMPLE = Path(__file__).parents[1] / "data" / "jobs-example.json"


def read() -> Doc:
    """Return the example set."""
    found: Doc = json.loads(EXAMPLE.read_bytes())
    return found


def load(cluster: Cluster) -> None:
    """Put the example set into an empty virtual cluster, as something that has been there for a while."""
    example = read()
    for resource in example["resources"]:
        kept = {name: value for name, value in resource.items() if name != "signature"}
        cluster.resources.put(kept["name"], kept)
        for entry in example["resourceFiles"].get(kept["name"], ()):
            cluster.files.adopt(kept["name"], entry, base64.b64decode(entry["contentBase64"]))
    for job in example["jobs"]:
        _load_job(cluster, job)
    for run in example["jobRuns"]:
        _load_run(cluster, copy.deepcopy(run), example["jobRunLogs"].get(str(run["id"]), {}))
    cluster.set_next_run(max(int(run["id"]) for run in example["jobRuns"]) + 1)


def _load_job(cluster: Cluster, job: Doc) -> None:
    """Take in a job; nothing that was due before today fires now."""
    kept = copy.deepcopy(job) | {"_": {}}
    kept["schedule"].pop("nextExecution", None)
    if kept["type"] == "airflow":
        kept["_"]["dag"] = tick.dag_text(cluster, kept)
        kept["schedule"]["catchup"] = bool(kept["schedule"].get("catchup")) and dagfile.parse(kept["_"]["dag"]).catchup
    recurring = cron.parse(kept["schedule"].get("cronExpression", ""))
    last = cron.last_interval(recurring, cluster.now()) if recurring else None
    if last:
        kept["_"]["last"] = times.microseconds(last)
    cluster.jobs.put(str(kept["name"]), kept)


def _load_run(cluster: Cluster, run: Doc, written: dict[str, str]) -> None:
    """Take in a run; one that was active when the example was made has succeeded since."""
    run["_"] = {"ended": 0}
    run.setdefault("mounts", [])
    if not runs.ended(run):
        run |= {"status": runs.SUCCEEDED, "ended": run["started"]}
    if "spark" in run and "sparkAppURL" in run["spark"]:
        host = cluster.identity.host
        run["spark"]["sparkAppURL"] = run["spark"]["sparkAppURL"].replace("vc-host.example", host)
    cluster.runs.put(str(run["id"]), run)
    for kind, text in written.items():
        logs.write(cluster, run, kind, text)
